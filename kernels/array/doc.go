// Package array implements the ops that make, inspect and rearrange arrays: shapes, slices, gathers, scatters, pads, diagonals.
//
// No op here depends on the element type. An op computes what goes where, and package layout moves elements of that size, on the host or in
// a GPU's memory. The rows for GPUs are therefore those for CPUs, restricted to the types that the device stores.
package array
