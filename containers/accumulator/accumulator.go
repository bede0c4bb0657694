// Package accumulator holds TensorFlow's conditional accumulators (ConditionalAccumulatorBase). They sum the gradients of many workers and
// drop stale ones. Taking the sum waits until enough gradients have been applied.
package accumulator

import (
	"fmt"

	"github.com/troupe-run/troupe/containers/internal/waiting"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/internal/view"
)

// Arithmetic holds operations on the element type. The slices are the memory of elements.
type Arithmetic struct {
	// Add sets the elements of dst to the sums of the elements of a and b. dst may be a.
	Add func(dst, a, b []byte)
	// Divide divides the elements of dst by n. n is first rounded to the element type.
	Divide func(dst []byte, n int)
}

// Options configure an accumulator. They are the attributes of its op.
type Options struct {
	// Name is the accumulator's name in error messages.
	Name string
	// DType is the gradients' element type; Arithmetic holds its operations.
	DType      tensor.DType
	Arithmetic Arithmetic
	// Shape is the shape that gradients must match; -1 matches any size. KnownShape is false for unknown rank.
	Shape      tensor.Shape
	KnownShape bool
	// Mean selects the mean of the gradients instead of their sum.
	Mean bool
	// Pool is the memory for sums.
	Pool *tensor.Pool
}

// Accumulator is a conditional accumulator, dense or sparse. All methods may be called concurrently; none waits.
type Accumulator struct {
	waiting.Users
	options Options
	room    waiting.Room
	takes   *waiting.Line

	// Guarded by room.
	count  int
	step   int64 // gradients of an earlier step are stale
	stale  int64 // dropped gradients
	sum    sum
	keeper durable.Keeper
}

// sum is the sum of the gradients that an accumulator has accepted so far.
type sum interface {
	// take returns the sum or mean of count gradients as the outputs of the op that takes them. It changes nothing if it fails.
	take(count int) ([]*tensor.Tensor, error)
	// drop releases the sum.
	drop()
	// parts returns what holds the sum: bytes, and references to tensors that are not changed from now on.
	parts(b []byte) ([]byte, tuple.Tuple)
	// restore makes the sum what parts has returned, and takes over the references. It reports whether they were legal.
	restore(b []byte, t tuple.Tuple) bool
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

// DType returns the gradients' element type.
func (a *Accumulator) DType() tensor.DType { return a.options.DType }

// apply adds a gradient by calling add, which asks the keeper first, unless its step is earlier than the accumulator's. changes are those of the
// step that adds it.
func (a *Accumulator) apply(changes *durable.Tx, localStep int64, add func() error) error {
	return a.room.Do(func() error {
		if localStep < a.step {
			a.stale++
			return nil
		}
		err := add()
		if err == nil {
			a.count++
			a.record(changes)
		}
		return err
	})
}

// Take waits until at least required gradients have been applied, and returns the outputs of the op that takes them: the mean or sum of a
// dense accumulator; indices, values and shape of a sparse one. The accumulator is then empty and its step increases by one. done is called
// once and owns the tensors. The error is INVALID_ARGUMENT if required is not positive, CANCELLED if the caller's step ended or cancel was
// called, ABORTED if the accumulator was deleted. changes are those of the step, here and below; nil for a change by no step.
func (a *Accumulator) Take(step waiting.Step, changes *durable.Tx, required int, done func([]*tensor.Tensor, error)) (cancel func(cause error)) {
	if required <= 0 {
		done(nil, status.InvalidArgumentf("Argument num_required must be positive, but was %d", required))
		return func(error) {}
	}
	var out []*tensor.Tensor
	return a.takes.Ask(step, func() (bool, error) {
		if a.count < required {
			return false, nil
		}
		err := a.keeper.Admits(durable.Removes())
		if err == nil {
			out, err = a.sum.take(a.count)
		}
		if err == nil {
			a.count = 0
			a.step++
			a.record(changes)
		}
		return true, err
	}, "TakeGrad operation was cancelled", func(err error) { done(out, err) })
}

// SetGlobalStep makes gradients of steps before step stale. The step may decrease, for example when a program starts over. was is the
// previous step.
func (a *Accumulator) SetGlobalStep(changes *durable.Tx, step int64) (was int64, err error) {
	err = a.room.Do(func() error {
		if err := a.keeper.Admits(durable.Removes()); err != nil { // no larger than before
			return err
		}
		was, a.step = a.step, step
		a.record(changes)
		return nil
	})
	return was, err
}

// NumAccumulated returns the number of gradients applied since the last take.
func (a *Accumulator) NumAccumulated() (n int) {
	a.room.Look(func() { n = a.count })
	return n
}

// Close deletes the accumulator: pending takes fail with ABORTED.
func (a *Accumulator) Close() {
	a.room.Close(status.Errorf(status.Aborted, "Accumulator '%s' was deleted.", a.options.Name), a.sum.drop)
}

// Deleted reports whether Close was called.
func (a *Accumulator) Deleted() bool { return a.room.Closed() }

// Describe describes the accumulator for listings.
func (a *Accumulator) Describe() string {
	return fmt.Sprintf("accumulator of %v %s, %d gradients", a.options.DType, a.options.shape(), a.NumAccumulated())
}

// Show adds the accumulator's state to a listing.
func (a *Accumulator) Show(r *view.Resource) {
	s := &view.Store{Kind: "accumulator"}
	a.room.Look(func() { s.Size, s.Dropped, s.Step, r.Durable = int64(a.count), a.stale, a.step, a.keeper.Kept() })
	a.Tell(s)
	r.Store = s
}

// shape returns the declared shape as TensorFlow prints it.
func (o *Options) shape() string {
	if !o.KnownShape {
		return "<unknown>"
	}
	return o.Shape.String()
}

// rank returns the rank of the declared shape, or -1 if it is unknown.
func (o *Options) rank() int {
	if !o.KnownShape {
		return -1
	}
	return len(o.Shape)
}
