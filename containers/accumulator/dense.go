package accumulator

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// dense is the sum of dense gradients.
type dense struct {
	options *Options
	sum     *tensor.Tensor // nil when there is none
}

// Apply adds a dense gradient of the given step and takes over its reference. It drops a gradient whose step is earlier than the
// accumulator's. The error is INVALID_ARGUMENT if the shape does not match the accumulator's or the other gradients', or if the accumulator
// is sparse.
func (a *Accumulator) Apply(changes *durable.Tx, localStep int64, gradient *tensor.Tensor) error {
	defer func() {
		if gradient != nil {
			gradient.Release()
		}
	}()
	return a.apply(changes, localStep, func() error {
		d, ok := a.sum.(*dense)
		if !ok {
			return status.InvalidArgumentf("Accumulator '%s' takes sparse gradients, not dense ones", a.options.Name)
		}
		if err := d.fits(gradient); err != nil {
			return err
		}
		if err := a.keeper.Admits(durable.Replaces(d.bytes(), gradient.ByteSize())); err != nil {
			return err
		}
		if d.sum == nil {
			err := own(&gradient, a.options.Pool)
			if err == nil {
				gradient, d.sum = nil, gradient
			}
			return err
		}
		if err := own(&d.sum, a.options.Pool); err != nil {
			return err
		}
		a.options.Arithmetic.Add(d.sum.Data(), d.sum.Data(), gradient.Data())
		return nil
	})
}

// bytes returns the size of the sum.
func (d *dense) bytes() int {
	if d.sum == nil {
		return 0
	}
	return d.sum.ByteSize()
}

func (d *dense) fits(gradient *tensor.Tensor) error {
	o := d.options
	if d.sum != nil && !d.sum.Shape().Equal(gradient.Shape()) {
		return status.InvalidArgumentf("Shape mismatch: expected %v, got %v", d.sum.Shape(), gradient.Shape())
	}
	if o.KnownShape && !gradient.Shape().Compatible(o.Shape) {
		return status.InvalidArgumentf("Shape mismatch: expected %v, got %v", o.Shape, gradient.Shape())
	}
	return nil
}

func (d *dense) take(count int) ([]*tensor.Tensor, error) {
	if d.options.Mean {
		if err := own(&d.sum, d.options.Pool); err != nil {
			return nil, err
		}
		d.options.Arithmetic.Divide(d.sum.Data(), count)
	}
	out := d.sum
	d.sum = nil
	return []*tensor.Tensor{out}, nil
}

func (d *dense) drop() {
	if d.sum != nil {
		d.sum.Release()
		d.sum = nil
	}
}

// own makes a tensor the caller's alone, so that it may be written to: others may use a gradient, and a sum may be on its way to the disk.
func own(t **tensor.Tensor, pool *tensor.Pool) error {
	if (*t).Exclusive() {
		return nil
	}
	c, err := (*t).Clone(pool)
	if err == nil {
		(*t).Release()
		*t = c
	}
	return err
}
