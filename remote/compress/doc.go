// Package compress compresses tensors for the wire. It is off by default: within one data centre, the network is usually faster than a
// compressor.
//
// An Algorithm compresses pieces of at most MaxPiece bytes independently, so a tensor can be compressed, sent and decompressed piece by
// piece at the same time. The bytes of multi-byte elements are shuffled first: all their first bytes, then all their second ones, and so
// on. This separates signs and exponents, which repeat, from the low bits of fractions, which do not.
//
// Receivers derive a piece's length from the tensor's, never from the piece: a piece must decompress to exactly the given memory, or it is
// an error.
package compress
