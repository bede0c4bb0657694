//go:build !cuda

package cuda

// Without the tag a binary carries no kernels that it could not run.
var compiled []byte
