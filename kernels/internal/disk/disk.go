package disk

import (
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// Limits per process.
const (
	// MaxRunning is the maximum number of file operations that run at once; each may hold a thread. It is far below the number of threads
	// at which Go ends the process, and more than disks can use.
	MaxRunning = 128
	// MaxWaiting is the maximum number of operations that may wait to run; one more fails with RESOURCE_EXHAUSTED.
	MaxWaiting = 1 << 16
)

var slots = newGate(MaxRunning, MaxWaiting)

// Async makes a kernel of a function that waits for files. The function's error is the kernel's. An operation that has not started ends
// with its step.
func Async(run func(ctx *kernels.Context) error) kernels.AsyncFunc {
	return func(ctx *kernels.Context, done func(error)) {
		log, what := ctx.Step.Log, "The kernel of op "+ctx.Node.Op
		ctx.Await(kernels.Awaited{Text: "a file operation"})
		slots.enter(ctx.Step.Cancellation, contain.Func(log, what, func() {
			done(contain.Run(log, what, func() error { return run(ctx) }))
		}, nil), done)
	}
}

// Files returns the files that the step of an op may use, until the step ends.
func Files(ctx *kernels.Context) files.FS {
	c := ctx.Step.Cancellation
	return files.While(ctx.Files(), func() error {
		if err := c.Err(); err != nil {
			return kernels.Cancelled(err)
		}
		return nil
	})
}

// Go runs work that reads or writes files on its own goroutine, once a slot is free.
func Go(work func()) { slots.queue(work) }

// Do is like Go, but waits for work to end. work must not wait for other work.
func Do(work func()) {
	done := make(chan struct{})
	Go(func() {
		defer close(done)
		work()
	})
	<-done
}
