// Package fourier holds discrete Fourier transforms: of any length in double precision, and of powers of two in single precision,
// many at a time.
package fourier
