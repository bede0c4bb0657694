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
		if d.sum != nil {
			return d.add(gradient)
		}
		own, err := owned(gradient, a.options.Pool)
		gradient, d.sum = nil, own
		return err
	})
}

// add adds a gradient to the sum. The sum may be on its way to the disk, and is then not changed in place.
func (d *dense) add(gradient *tensor.Tensor) error {
	sum := d.sum.Data()
	if d.sum.Exclusive() {
		d.options.Arithmetic.Add(sum, sum, gradient.Data())
		return nil
	}
	next, err := tensor.New(d.options.Pool, d.sum.DType(), d.sum.Shape())
	if err != nil {
		return err
	}
	d.options.Arithmetic.Add(next.Data(), sum, gradient.Data())
	d.sum.Release()
	d.sum = next
	return nil
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

// own makes a sum the caller's alone, so that it may be written to.
func own(sum **tensor.Tensor, pool *tensor.Pool) error {
	if (*sum).Exclusive() {
		return nil
	}
	t, err := (*sum).Clone(pool)
	if err == nil {
		(*sum).Release()
		*sum = t
	}
	return err
}

// owned returns a tensor with the elements of t that the caller may write to. It takes over the reference to t.
func owned(t *tensor.Tensor, pool *tensor.Pool) (*tensor.Tensor, error) {
	if t.Exclusive() {
		return t, nil
	}
	defer t.Release()
	return t.Clone(pool)
}
