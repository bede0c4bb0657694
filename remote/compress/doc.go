// Package compress makes the bytes of tensors smaller for the wire. Nothing of it is on unless
// somebody asks for it: between the machines of one room the wire is mostly faster than a compressor.
//
// An Algorithm works on pieces of at most MaxPiece bytes, each for itself, so that a tensor can be
// compressed, sent and decompressed piece by piece at the same time. The bytes of elements of
// several bytes are shuffled first: all their first bytes, then all their second ones and so on. Signs and exponents, which
// repeat, are then apart from the low bits of fractions, which do not.
//
// Receivers tell a piece's length from the tensor's, never from the piece: what a piece
// decompresses to fills the given memory exactly, or is an error.
package compress
