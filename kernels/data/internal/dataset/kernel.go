package dataset

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// Waiting returns a kernel for a function that may wait for elements.
func Waiting(run func(ctx *kernels.Context) error) kernels.AsyncFunc {
	return func(ctx *kernels.Context, done func(error)) {
		log, what := ctx.Step.Log, "The kernel of op "+ctx.Node.Op
		ctx.Await(awaited(ctx))
		contain.Go(log, what, func() { done(contain.Run(log, what, func() error { return run(ctx) })) }, nil)
	}
}

// awaited describes the iterator from which an op requests an element.
func awaited(ctx *kernels.Context) kernels.Awaited {
	if ctx.NumInputs() == 1 {
		if h, err := ctx.Handle(0); err == nil {
			if r, ok := h.Local.(containers.Resource); ok {
				return kernels.Awaited{Resource: r, Verb: "get the next element of"}
			}
		}
	}
	return kernels.Awaited{Text: "elements of a dataset"}
}

// Output sets the outputs to an element, which it takes over.
func (s Spec) Output(ctx *kernels.Context, e Element) error {
	if err := s.CheckElement(e); err != nil {
		e.Release()
		return err
	}
	for i, t := range e {
		ctx.SetOutput(i, t)
	}
	return nil
}

// Iterate calls f with an iterator of the dataset at input 0, open while the kernel runs.
func Iterate(ctx *kernels.Context, p Place, f func(c *Call, d *Dataset, it Iterator) error) error {
	return WithDataset(ctx, p, func(c *Call, d *Dataset) error {
		it, err := d.Open(c.Env)
		if err != nil {
			return err
		}
		defer it.Close()
		return f(c, d, it)
	})
}

// WithDataset calls f with the dataset at input 0.
func WithDataset(ctx *kernels.Context, p Place, f func(c *Call, d *Dataset) error) error {
	return WithDatasetAt(ctx, p, 0, f)
}

// WithDatasetAt calls f with the dataset at an input, in a kernel that may wait.
func WithDatasetAt(ctx *kernels.Context, p Place, input int, f func(c *Call, d *Dataset) error) error {
	d, err := FromTensor(p.Waiting(), ctx.Input(input))
	if err != nil {
		return err
	}
	defer d.Release()
	env := NewEnv(ctx, ctx.Device)
	defer env.Shutdown()
	c, end := env.NewCall(ctx.Step.Depth, ctx.Step.Cancellation)
	defer end()
	return f(c, d)
}

// Place is where a graph becomes a dataset: the device, the functions that its nodes may name, and the step. Waits is set where the graph
// may read files, which takes its time.
type Place struct {
	Device    kernels.Device
	Functions kernels.Functions
	Step      *kernels.Step
	Waits     bool
}

// WithPlace returns the constructor of a kernel that runs a function which needs a place for its datasets.
func WithPlace(run func(ctx *kernels.Context, p Place) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return kernels.Func(func(ctx *kernels.Context) error { return run(ctx, PlaceOf(ctx, c)) }), nil
	}
}

// WaitingWithPlace is WithPlace for kernels that wait for elements or files.
func WaitingWithPlace(run func(ctx *kernels.Context, p Place) error) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		return Waiting(func(ctx *kernels.Context) error { return run(ctx, PlaceOf(ctx, c).Waiting()) }), nil
	}
}

// PlaceOf returns the place of a kernel's execution.
func PlaceOf(ctx *kernels.Context, c *kernels.Construction) Place {
	return Place{Device: c.Device, Functions: c.Functions, Step: ctx.Step}
}

// Waiting returns the place for a kernel that may wait.
func (p Place) Waiting() Place {
	p.Waits = true
	return p
}
