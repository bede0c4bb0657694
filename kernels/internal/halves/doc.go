// Package halves runs kernels of float32 on float16 and bfloat16: inputs are widened before and outputs rounded
// after.
package halves
