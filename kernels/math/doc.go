// Package math holds the ops that compute element by element, reduce, segment, scan, search, cast and transform.
//
// An op is a set of slice functions, one for each element type; package elementwise broadcasts, allocates and shares the
// work out, package reduce does it for reductions. float16 and bfloat16 go by way of float32.
package math
