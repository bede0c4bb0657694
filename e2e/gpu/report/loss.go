package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-run/troupe/devices/gpu"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// wild is an address outside all allocations.
const wild = 0x10

// fault has a kernel write to a wild address, and returns the error of its step.
func fault(d *gpu.Device) error {
	step, ctx := newStep("fault")
	d.Launch(ctx, kernels.Launch{Function: negative, Grid: [3]int{1}, Block: [3]int{32}, Args: []uint64{wild, wild, 16}})
	return settle(d, step)
}

// works has a device negate some numbers, and checks them.
func works(d *gpu.Device) error {
	step, ctx := newStep("check")
	host, err := tensor.FromValues([]float32{1, 2, 3})
	if err != nil {
		return err
	}
	defer host.Release()
	x, err := d.Upload(ctx, host)
	if err != nil {
		return errors.Join(err, settle(d, step))
	}
	defer x.Release()
	d.Launch(ctx, kernels.Launch{Function: negative, Grid: [3]int{1}, Block: [3]int{32}, Args: []uint64{x.Address(), x.Address(), 3}})
	got := make(chan error, 1)
	d.Download(ctx, x, func(back *tensor.Tensor, err error) {
		if err == nil {
			if v := tensor.Of[float32](back); v[0] != -1 || v[1] != -2 || v[2] != -3 {
				err = fmt.Errorf("the card negates 1, 2, 3 to %v", v)
			}
			back.Release()
		}
		got <- err
	})
	return errors.Join(<-got, settle(d, step))
}

// fetch copies a tensor to the host.
func fetch(ctx *kernels.Context, d *gpu.Device, t *tensor.Tensor) error {
	done := make(chan error, 1)
	d.Download(ctx, t, func(host *tensor.Tensor, err error) {
		if err == nil {
			host.Release()
		}
		done <- err
	})
	return errors.Join(<-done, settle(d, ctx.Step))
}

// serves is like works, but first asks a device that is out of service to try again.
func serves(d *gpu.Device) error {
	err := works(d)
	if err != nil {
		d.Revive()
	}
	return err
}

// back returns how long it takes from now until f succeeds.
func back(ctx context.Context, f func() error) (time.Duration, error) {
	begun := time.Now()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return time.Since(begun), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("it does not come back: %w", err)
		case <-again.C:
		}
	}
}

// loss breaks the context a few times, and measures when this is noticed and when everything works again.
func loss(ctx context.Context, m *machine) (err error) {
	a, err := m.device("a")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	b, err := m.device("b")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	for _, d := range []*gpu.Device{a, b} {
		if err := works(d); err != nil {
			return fmt.Errorf("before anything was lost: %w", err)
		}
	}
	m.head("loss", "noticed after", "the device is back after", "the other device on the card is back after")
	var text string
	for i := range 3 {
		begun := time.Now()
		lost := fault(a)
		noticed := time.Since(begun)
		if lost == nil {
			return errors.New("a kernel wrote to a wild address, and its step did not fail")
		}
		if status.CodeOf(lost) != status.Unavailable {
			m.failed("the error of the loss", fmt.Errorf("it is not UNAVAILABLE: %w", lost))
		}
		text = lost.Error()
		after, err := back(ctx, func() error { return serves(a) })
		if err != nil {
			return err
		}
		other, err := back(ctx, func() error { return serves(b) })
		if err != nil {
			return fmt.Errorf("the other device: %w", err)
		}
		m.row(fmt.Sprint(i+1), span(noticed.Seconds()), span(after.Seconds()), span((after + other).Seconds()))
	}
	m.text("The error of the last one:\n\n```\n%s\n```", strings.TrimSpace(text))
	m.failed("a server in the process", m.lossOfServer(ctx, a))
	return nil
}

// lossOfServer breaks the context under a server, and measures until a new session computes there.
func (m *machine) lossOfServer(ctx context.Context, foreign *gpu.Device) (err error) {
	b, err := m.serve(ctx)
	if err != nil {
		return err
	}
	defer b.end(&err)
	compute := func() (err error) {
		root := op.NewScope()
		y := op.Neg(root, random(root.WithDevice(onGPU), tensor.Float32, 1, 16))
		session, end, err := b.session(ctx, root)
		if err != nil {
			return err
		}
		defer end(&err)
		return release(session.Eval(ctx, nil, y))
	}
	if err := compute(); err != nil {
		return fmt.Errorf("before anything was lost: %w", err)
	}
	root := op.NewScope()
	kept := op.Neg(root, random(root.WithDevice(onGPU), tensor.Float32, 1, 16))
	before, _, err := b.session(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, before.Close(ctx)) }()
	if fault(foreign) == nil {
		return errors.New("a kernel wrote to a wild address, and its step did not fail")
	}
	what := "no step of the session before failed"
	for range 3 {
		if err := release(before.Eval(ctx, nil, kept)); err != nil {
			what = fmt.Sprintf("a step of the session before failed with %v", status.CodeOf(err))
			break
		}
	}
	after, err := back(ctx, compute)
	if err != nil {
		return err
	}
	m.text("A server on the card: %s, and a new session computed %s later.", what, span(after.Seconds()))
	return nil
}
