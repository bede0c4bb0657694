// Package compress makes the bytes of tensors smaller for the wire. It is off by default: between the machines
// of one data centre, the network is mostly faster than a compressor.
//
// An Algorithm works on pieces of at most MaxPiece bytes, each of them separately, so that a tensor can be
// compressed, sent and decompressed piece by piece at the same time. The bytes of multi-byte elements are
// shuffled first: all their first bytes, then all their second ones, and so on. Signs and exponents, which
// repeat, are then apart from the low bits of fractions, which do not.
//
// Receivers derive a piece's length from the tensor's, never from the piece: a piece must decompress to exactly
// the given memory, or it is an error.
package compress
