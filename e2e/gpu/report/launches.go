package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// negative is a kernel that does almost nothing: its parameters are an input, a result and the number of elements.
const negative = "neg_f32"

// bound calls f on a thread that the card's context is bound to.
func (m *machine) bound(f func(gpu.Context) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := m.card.Open()
	if err != nil {
		return err
	}
	if err := c.Bind(); err != nil {
		return errors.Join(err, c.Close(false))
	}
	err = f(c)
	return errors.Join(err, c.Close(false))
}

// device makes a device of the card.
func (m *machine) device(name string) (*gpu.Device, error) {
	return gpu.Open(gpu.Options{Card: m.card, Name: name, Job: "report", Host: tensor.NewPool(name, 0), MemoryFraction: 0.1, AllowGrowth: true, Log: quiet})
}

// launches measures the overhead of operations that take no time on the card, from the driver up to sessions.
func launches(ctx context.Context, m *machine) error {
	m.head("what", "time")
	m.failed("launches by the driver", m.bound(m.driverLaunches))
	m.failed("launches by a device", m.deviceLaunches())
	b, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer b.end(&err)
	const many = 100
	var one, more time.Duration
	chain := func(length int) func(s *op.Scope) []*op.Operation {
		return func(s *op.Scope) []*op.Operation {
			y := random(s, tensor.Float32, 1, 16)
			for range length {
				y = op.Neg(s, y)
			}
			return []*op.Operation{y.Op}
		}
	}
	one, err = b.step(ctx, chain(1))
	if !m.failed("a step", err) {
		m.row("a step of a session with one operation", span(one.Seconds()))
	}
	more, err = b.step(ctx, chain(1+many))
	if !m.failed("a long step", err) {
		m.row(fmt.Sprintf("each of %d more operations of a step", many), span((more-one).Seconds()/many))
	}
	fetched, err := b.fetch(ctx)
	if !m.failed("a step that fetches", err) {
		m.row("a step that feeds and fetches 16 numbers", span(fetched.Seconds()))
	}
	return nil
}

// driverLaunches measures launches without a device's queue.
func (m *machine) driverLaunches(c gpu.Context) error {
	const bytes = 1 << 10
	x, err := c.Alloc(bytes)
	if err != nil {
		return err
	}
	begun := time.Now()
	f, err := c.Function(negative)
	if err != nil {
		return err
	}
	m.row("loading the first module of kernels", span(time.Since(begun).Seconds()))
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	count := pick(m, 20000, 100)
	took, err := m.best(func() error {
		for range count {
			if err := s.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, []uint64{x, x, 16}); err != nil {
				return err
			}
		}
		return s.Synchronize()
	})
	if err == nil {
		m.row("a launch by the driver", span(took.Seconds()/float64(count)))
		took, err = m.best(func() error {
			return errors.Join(s.Launch(f, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, 0, []uint64{x, x, 16}), s.Synchronize())
		})
	}
	if err == nil {
		m.row("a launch by the driver, and waiting for it", span(took.Seconds()))
	}
	return errors.Join(err, s.Close(), c.Free(x))
}

// newStep returns a step of a device, and a kernel context in it.
func newStep(node string) (*kernels.Step, *kernels.Context) {
	step := &kernels.Step{ID: 1, Cancellation: &kernels.Cancellation{}}
	return step, &kernels.Context{Node: &graph.Node{Name: node, Op: "Neg"}, Step: step}
}

// settle waits for a step's work on a device.
func settle(d *gpu.Device, step *kernels.Step) error {
	done := make(chan error, 1)
	d.Settle(step, func(err error) { done <- err })
	return <-done
}

// deviceLaunches measures launches through a device's queue.
func (m *machine) deviceLaunches() error {
	d, err := m.device("launches")
	if err != nil {
		return err
	}
	x, err := d.Memory().New(tensor.Float32, tensor.Shape{16})
	if err != nil {
		return errors.Join(err, d.Close())
	}
	count := pick(m, 20000, 100)
	took, err := m.best(func() error {
		step, ctx := newStep("launch")
		for range count {
			d.Launch(ctx, kernels.Launch{Function: negative, Grid: [3]int{1}, Block: [3]int{32}, Args: []uint64{x.Address(), x.Address(), 16}})
		}
		return settle(d, step)
	})
	if err == nil {
		m.row("a launch by a device", span(took.Seconds()/float64(count)))
	}
	x.Release()
	return errors.Join(err, d.Close())
}

// fetch returns the least time of a step with a feed and a fetch.
func (b *bench) fetch(ctx context.Context) (best time.Duration, err error) {
	root := op.NewScope()
	x := op.Placeholder(root, tensor.Float32)
	y := op.Neg(root.WithDevice(onGPU), x)
	session, end, err := b.session(ctx, root)
	if err != nil {
		return 0, err
	}
	defer end(&err)
	run, err := session.Prepare(ctx, []op.Output{x}, y)
	if err != nil {
		return 0, err
	}
	feed, err := tensor.FromValues(make([]float32, 16))
	if err != nil {
		return 0, err
	}
	defer feed.Release()
	return b.best(func() error { return release(run.Run(ctx, feed)) })
}
