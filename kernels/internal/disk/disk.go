package disk

import (
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// The limits of a process.
const (
	// MaxRunning file operations run at a time, each of which may hold a thread. It is far below the number of
	// threads at which Go ends the process, and beyond what disks do faster at a time.
	MaxRunning = 128
	// MaxWaiting wait for one of those to end; a further one is RESOURCE_EXHAUSTED.
	MaxWaiting = 1 << 16
)

var slots = newGate(MaxRunning, MaxWaiting)

// Async makes a kernel of a function that waits for files. Its error is the kernel's. An operation that waits for its
// turn ends with its step.
func Async(run func(ctx *kernels.Context) error) kernels.AsyncFunc {
	return func(ctx *kernels.Context, done func(error)) {
		log, what := ctx.Step.Log, "The kernel of op "+ctx.Node.Op
		ctx.Await(kernels.Awaited{Text: "a file operation"})
		slots.enter(ctx.Step.Cancellation, contain.Func(log, what, func() {
			done(contain.Run(log, what, func() error { return run(ctx) }))
		}, nil), done)
	}
}

// Files are those that the step of an op may use, until the step ends.
func Files(ctx *kernels.Context) files.FS {
	c := ctx.Step.Cancellation
	return files.While(ctx.Files(), func() error {
		if err := c.Err(); err != nil {
			return kernels.Cancelled(err)
		}
		return nil
	})
}

// Go runs work that reads or writes files on a goroutine of its own, when its turn has come.
func Go(work func()) { slots.queue(work) }

// Do is Go, and waits for the end of the work. Work must not wait for other work.
func Do(work func()) {
	done := make(chan struct{})
	Go(func() {
		defer close(done)
		work()
	})
	<-done
}
