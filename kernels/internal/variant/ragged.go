package variant

import (
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
)

// Ragged is a variant element that holds a ragged tensor: the row splits of each ragged dimension, outermost first, and the values. It is
// immutable.
type Ragged struct {
	refs   atomic.Int32
	Splits []*tensor.Tensor
	Values *tensor.Tensor
	depth  int // see TensorList
}

// Nested returns the nesting depth of the values.
func (r *Ragged) Nested() int { return r.depth }

// NewRagged returns a Ragged and takes over the references to the tensors.
func NewRagged(splits []*tensor.Tensor, values *tensor.Tensor) *Ragged {
	r := &Ragged{Splits: splits, Values: values, depth: Nesting(values)}
	r.refs.Store(1)
	return r
}

// Retain adds a reference.
func (r *Ragged) Retain() { r.refs.Add(1) }

// Release releases a reference; the last one releases the tensors.
func (r *Ragged) Release() {
	if r.refs.Add(-1) == 0 {
		kernels.ReleaseTensors(r.Splits)
		r.Values.Release()
		r.Splits, r.Values = nil, nil
	}
}

// withValues returns a ragged tensor with the same rows. It takes over the reference to the values.
func (r *Ragged) withValues(values *tensor.Tensor) *Ragged {
	for _, s := range r.Splits {
		s.Retain()
	}
	return NewRagged(slices.Clone(r.Splits), values)
}

// CheckSplits checks that t is a valid vector of row splits and returns it. last is the required last split, or -1 if any is allowed.
func CheckSplits(t *tensor.Tensor, last int64) ([]int64, error) {
	if t.Rank() != 1 {
		return nil, status.InvalidArgumentf("Invalid ragged splits: ragged splits must be rank 1 but is rank %d", t.Rank())
	}
	if t.Len() < 1 {
		return nil, status.InvalidArgumentf("Invalid ragged splits: ragged splits must have at least one splits, but is empty")
	}
	splits, err := Int64s(t)
	if err != nil {
		return nil, err
	}
	if splits[0] != 0 {
		return nil, status.InvalidArgumentf("Invalid ragged splits: first element of ragged splits  must be 0 but is %d", splits[0])
	}
	for i, s := range splits[1:] {
		if s < splits[i] {
			return nil, status.InvalidArgumentf("Invalid ragged splits: ragged splits must be monotonically increasing, but ragged_splits[%d]=%d is smaller than row_splits[%d]=%d", i+1, s, i, splits[i])
		}
	}
	if end := splits[len(splits)-1]; last >= 0 && end != last {
		return nil, status.InvalidArgumentf("Invalid ragged splits: last element of ragged splits must be the number of ragged values(%d) but is %d", last, end)
	}
	return splits, nil
}

// Int64s returns a copy of a tensor of int32 or int64.
func Int64s(t *tensor.Tensor) ([]int64, error) {
	list, err := args.ReadIndices(t)
	if err != nil {
		return nil, err
	}
	defer list.Free()
	return slices.Clone(list.V), nil
}

// VectorAs returns a vector of int32 or int64, for splits derived from valid ones.
func VectorAs(pool *tensor.Pool, dtype tensor.DType, v []int64) (*tensor.Tensor, error) {
	if dtype == tensor.Int64 {
		return layout.VectorOf(pool, v)
	}
	t, err := tensor.New(pool, dtype, tensor.Shape{int64(len(v))})
	if err == nil {
		for i, x := range v {
			tensor.Of[int32](t)[i] = int32(x)
		}
	}
	return t, err
}
