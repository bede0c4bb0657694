// Package halves makes kernels of float32 serve float16 and bfloat16: inputs are widened before and outputs
// rounded after.
package halves
