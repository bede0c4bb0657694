// Package math implements the ops that compute element by element, reduce, segment, scan, search, cast and transform.
//
// An op is a set of slice functions, one for each element type. Package elementwise broadcasts, allocates and divides the work among cores.
// Package reduce does the same for reductions. float16 and bfloat16 are computed in float32.
package math
