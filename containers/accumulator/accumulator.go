// Package accumulator holds TensorFlow's conditional accumulators (ConditionalAccumulatorBase). They sum the
// gradients of many workers and drop stale ones. Taking the sum waits until enough gradients have come.
package accumulator

import (
	"fmt"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
)

// Arithmetic is what the element type's numbers can do; slices are the memory of elements.
type Arithmetic struct {
	// Add sets the elements of dst to the sums of those of a and b. dst may be a.
	Add func(dst, a, b []byte)
	// Divide divides the elements of dst by n, rounded to the element type first.
	Divide func(dst []byte, n int)
}

// Options are what an accumulator is made from: the attributes of its op.
type Options struct {
	// Name is what error messages call it.
	Name string
	// DType is the gradients' element type, and Arithmetic what belongs to it.
	DType      tensor.DType
	Arithmetic Arithmetic
	// Shape is the shape that gradients must fit; -1 fits any size. KnownShape is false for unknown rank.
	Shape      tensor.Shape
	KnownShape bool
	// Mean selects the mean of the gradients instead of their sum.
	Mean bool
	// Pool is where sums are kept.
	Pool *tensor.Pool
}

// Accumulator is a conditional accumulator, dense or sparse. All methods may be called concurrently; none waits.
type Accumulator struct {
	waiting.Users
	options Options
	room    waiting.Room
	takes   *waiting.Line

	// What the room guards.
	count int
	step  int64 // gradients of an earlier step are stale
	stale int64 // gradients that were dropped
	sum   sum
}

// sum is the gradients that an accumulator has taken so far.
type sum interface {
	// take hands over the sum or mean of count gradients as the outputs of the op that takes them. After an
	// error nothing has changed.
	take(count int) ([]*tensor.Tensor, error)
	// drop gives up what the sum holds.
	drop()
}

// NewDense makes an accumulator of dense gradients.
func NewDense(o Options) *Accumulator {
	a := newAccumulator(o)
	a.sum = &dense{options: &a.options}
	return a
}

// NewSparse makes an accumulator of gradients that are slices of rows.
func NewSparse(o Options) *Accumulator {
	a := newAccumulator(o)
	a.sum = &sparse{options: &a.options}
	return a
}

func newAccumulator(o Options) *Accumulator {
	o.Shape = o.Shape.Clone()
	a := &Accumulator{options: o}
	a.takes = a.room.NewLine(true)
	return a
}

// DType is the gradients' element type.
func (a *Accumulator) DType() tensor.DType { return a.options.DType }

// apply adds a gradient by way of add, unless it is of an earlier step than the accumulator's.
func (a *Accumulator) apply(localStep int64, add func() error) error {
	return a.room.Do(func() error {
		if localStep < a.step {
			a.stale++
			return nil
		}
		err := add()
		if err == nil {
			a.count++
		}
		return err
	})
}

// Take waits until at least required gradients have been applied, and returns the outputs of the op that takes
// them: the mean or sum of a dense accumulator; indices, values and shape of a sparse one. The accumulator is
// then empty and its step increases by one. done is called once and owns the tensors. INVALID_ARGUMENT if
// required is not positive, CANCELLED if cancel was called, ABORTED if the accumulator was deleted.
func (a *Accumulator) Take(required int, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	if required <= 0 {
		done(nil, status.InvalidArgumentf("Argument num_required must be positive, but was %d", required))
		return func(error) {}
	}
	var out []*tensor.Tensor
	return a.takes.Ask(func() (bool, error) {
		if a.count < required {
			return false, nil
		}
		var err error
		if out, err = a.sum.take(a.count); err == nil {
			a.count = 0
			a.step++
		}
		return true, err
	}, "TakeGrad operation was cancelled", func(err error) { done(out, err) })
}

// SetGlobalStep makes gradients of steps before step stale. It may decrease.
func (a *Accumulator) SetGlobalStep(step int64) error {
	return a.room.Do(func() error {
		a.step = step
		return nil
	})
}

// NumAccumulated is how many gradients were applied since the last were taken.
func (a *Accumulator) NumAccumulated() (n int) {
	a.room.Look(func() { n = a.count })
	return n
}

// Close deletes the accumulator: pending takes get ABORTED.
func (a *Accumulator) Close() {
	a.room.Close(status.Errorf(status.Aborted, "Accumulator '%s' was deleted.", a.options.Name), a.sum.drop)
}

// Deleted tells whether Close was called.
func (a *Accumulator) Deleted() bool { return a.room.Closed() }

// Describe is the accumulator for listings.
func (a *Accumulator) Describe() string {
	return fmt.Sprintf("accumulator of %v %s, %d gradients", a.options.DType, a.options.shape(), a.NumAccumulated())
}

// Show adds the accumulator's state to a listing.
func (a *Accumulator) Show(r *view.Resource) {
	s := &view.Store{Kind: "accumulator"}
	a.room.Look(func() { s.Size, s.Dropped = int64(a.count), a.stale })
	a.Tell(s)
	r.Store = s
}

// shape is the declared shape as TensorFlow prints it.
func (o *Options) shape() string {
	if !o.KnownShape {
		return "<unknown>"
	}
	return o.Shape.String()
}

// rank is the rank of the declared shape, -1 where it is unknown.
func (o *Options) rank() int {
	if !o.KnownShape {
		return -1
	}
	return len(o.Shape)
}
