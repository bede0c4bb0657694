package accumulator

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// dense is the sum of dense gradients.
type dense struct {
	options *Options
	sum     *tensor.Tensor // nil when there is none
}

// Apply adds a dense gradient of the given step and takes over its reference. It drops a gradient whose step is earlier than the
// accumulator's. The error is INVALID_ARGUMENT if the shape does not match the accumulator's or the other gradients', or if the accumulator
// is sparse.
func (a *Accumulator) Apply(localStep int64, gradient *tensor.Tensor) error {
	defer func() {
		if gradient != nil {
			gradient.Release()
		}
	}()
	return a.apply(localStep, func() error {
		d, ok := a.sum.(*dense)
		if !ok {
			return status.InvalidArgumentf("Accumulator '%s' takes sparse gradients, not dense ones", a.options.Name)
		}
		if err := d.fits(gradient); err != nil {
			return err
		}
		if d.sum != nil {
			a.options.Arithmetic.Add(d.sum.Data(), d.sum.Data(), gradient.Data())
			return nil
		}
		own, err := owned(gradient, a.options.Pool)
		gradient, d.sum = nil, own
		return err
	})
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

// owned returns a tensor with the elements of t that the caller may write to. It takes over the reference to t.
func owned(t *tensor.Tensor, pool *tensor.Pool) (*tensor.Tensor, error) {
	if t.Exclusive() {
		return t, nil
	}
	defer t.Release()
	return t.Clone(pool)
}
