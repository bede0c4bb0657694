// Package reduce reduces tensors over axes. It provides the plan, reducers for each element type, and the launches on accelerators.
package reduce
