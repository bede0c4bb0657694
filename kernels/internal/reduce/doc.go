// Package reduce reduces tensors over axes: the plan, reducers for each element type, and the launches on
// accelerators.
package reduce
