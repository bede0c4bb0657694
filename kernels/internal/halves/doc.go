// Package halves runs float32 kernels on float16 and bfloat16: it widens inputs and rounds outputs.
package halves
