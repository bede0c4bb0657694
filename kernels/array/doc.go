// Package array holds the ops that make, look at and rearrange arrays: shapes, slices, gathers, scatters, pads,
// diagonals.
//
// No op here knows element types: it says what goes where, and package layout moves elements of its size, on the
// host or in a GPU's memory. So the GPU's rows are the CPU's, shared for the types that lie on the device.
package array
