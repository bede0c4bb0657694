// Package fourier holds discrete Fourier transforms: of any length in double precision, and of powers of two in single precision,
// one vector at a time (Row) or many (Lanes).
package fourier
