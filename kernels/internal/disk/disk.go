package disk

import (
	"github.com/troupe-run/troupe/kernels"
)

// OnDisk makes a kernel of a function that waits for files: it runs on a goroutine of its own,
// which ends with the function.
func OnDisk(run func(ctx *kernels.Context) error) kernels.AsyncFunc {
	return func(ctx *kernels.Context, done func(error)) {
		go func() { done(run(ctx)) }()
	}
}
