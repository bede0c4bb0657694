package gpu

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// submit queues a command of an execution; ctx is nil for a constructor. If that fails, so does the step.
func (d *core) submit(ctx *kernels.Context, c command, words []uint64) error {
	c.life = d.life.Load()
	var step *kernels.Step
	if ctx != nil {
		step = ctx.Step
		c.work, c.node = d.workOf(step), ctx.Node
	}
	err := c.life.over()
	if err != nil {
		d.Revive()
	}
	if err == nil {
		err = c.life.owns(ctx)
	}
	if err == nil {
		err = d.enqueue(c, words, step)
	}
	if err != nil && c.work != nil {
		c.work.fail(err, c.node)
	}
	return err
}

// enqueue adds a command of a step to the queue.
func (d *core) enqueue(c command, words []uint64, step *kernels.Step) error {
	switch d.queue.append(c, words, step, d.opts.grace) {
	case refused:
		return d.shut()
	case late:
		return status.Derive(status.Errorf(status.Unavailable, "%s has too much to do, %v after the step had ended", d.name, d.opts.grace))
	}
	return nil
}

// owns returns an error if an execution has tensors in memory of an earlier life of the device.
func (l *life) owns(ctx *kernels.Context) error {
	if ctx == nil {
		return nil
	}
	for _, list := range [2][]kernels.Value{ctx.Inputs, ctx.Outputs} {
		for _, v := range list {
			if v.Tensor != nil && !v.Tensor.OnHost() && !l.memory.Holds(v.Tensor) {
				return l.foreign()
			}
		}
	}
	return nil
}

func (l *life) foreign() error {
	return status.Errorf(status.Aborted, "A tensor is no longer in the memory of %s, which was started anew", l.device.name)
}

// Launch queues a kernel.
func (d *core) Launch(ctx *kernels.Context, k kernels.Launch) {
	c := command{kind: launchCommand, function: k.Function, shared: uint32(k.Shared)}
	for i := range 3 {
		c.grid[i], c.block[i] = uint32(max(k.Grid[i], 1)), uint32(max(k.Block[i], 1))
	}
	d.logError(ctx, d.submit(ctx, c, k.Args))
}

// logError logs an error that belongs to no step.
func (d *core) logError(ctx *kernels.Context, err error) {
	if err != nil && ctx == nil {
		d.opts.Log.Error("a GPU's work could not be queued", "device", d.name, "error", err)
	}
}

// Copy queues a copy within the device's memory.
func (d *core) Copy(ctx *kernels.Context, dst, src *tensor.Tensor) {
	d.logError(ctx, d.submit(ctx, command{kind: copyCommand, dst: dst.Address(), src: src.Address(), bytes: int64(src.DataSize())}, nil))
}

// Fill queues setting all bytes of dst to value.
func (d *core) Fill(ctx *kernels.Context, dst *tensor.Tensor, value byte) {
	d.logError(ctx, d.submit(ctx, command{kind: fillCommand, dst: dst.Address(), value: value, bytes: int64(dst.DataSize())}, nil))
}

// Settle calls done with the error of the step's work when all work given so far has run, or at once if the step has given none. If the
// step is cancelled, it waits for a bounded time.
func (d *core) Settle(step *kernels.Step, done func(error)) {
	d.mu.Lock()
	w := d.works[step]
	delete(d.works, step)
	d.mu.Unlock()
	if w == nil {
		resume(step, func() { done(nil) })
		return
	}
	report := func(err error) { resume(step, func() { done(status.Worse(w.problem(), err)) }) }
	e := watch(step, d.opts.grace, func(err error) {
		report(status.Derive(status.Errorf(status.Unavailable, "%s has not done its work %v after the step had ended: %v", d.name, d.opts.grace, err)))
	})
	then := func(err error) {
		if e.first() {
			report(err)
		}
	}
	c := command{kind: settleCommand, life: d.life.Load(), then: then}
	err := c.life.over()
	if err == nil {
		err = d.enqueue(c, nil, step)
	}
	if err != nil {
		then(err)
	}
}

// resume calls f on a goroutine of the step.
func resume(step *kernels.Step, f func()) {
	if step != nil {
		step.Continue("A step's work on a GPU", f)
		return
	}
	contain.Go(nil, "A step's work on a GPU", f, nil)
}
