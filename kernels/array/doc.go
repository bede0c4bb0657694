// Package array holds the ops that make, inspect and rearrange arrays: shapes, slices, gathers, scatters, pads,
// diagonals.
//
// No op here knows element types. An op computes what goes where, and package layout moves elements of its
// size, on the host or in a GPU's memory. The rows for GPUs are therefore those for CPUs, shared by the types
// that lie on the device.
package array
