package disk

import (
	"github.com/troupe-run/troupe/kernels"
)

// Async makes a kernel of a function that waits for files: each execution runs on a goroutine of its own,
// which ends with the function. Its error is the kernel's.
func Async(run func(ctx *kernels.Context) error) kernels.AsyncFunc {
	return func(ctx *kernels.Context, done func(error)) {
		go func() { done(run(ctx)) }()
	}
}
