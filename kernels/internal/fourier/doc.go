// Package fourier computes discrete Fourier transforms: of any length in double precision, and of powers of two in single precision, for
// one vector (Row) or many at once (Lanes).
package fourier
