package sparse

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// editDistance is EditDistance: the number of insertions, deletions and replacements that turn the sequences of one sparse tensor into
// those of another, along the last dimension. normalize divides by the length of the truth.
type editDistance[T comparable] struct{ normalize bool }

func editDistances[T comparable]() []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		normalize, err := c.Attrs().Bool("normalize")
		return &editDistance[T]{normalize}, err
	})
}

// Compute implements kernels.Kernel.
func (k *editDistance[T]) Compute(ctx *kernels.Context) error {
	if err := checkDistance(ctx); err != nil {
		return err
	}
	hypotheses, err := newSequences[T](ctx, 0)
	if err != nil {
		return err
	}
	truths, err := newSequences[T](ctx, 3)
	if err != nil {
		return err
	}
	shape := make([]int64, len(truths.shape)-1)
	for d := range shape {
		shape[d] = max(truths.shape[d], hypotheses.shape[d])
	}
	dims, err := shapes.ShapeOf(shape)
	if err != nil {
		return err
	}
	if n, err := dims.NumElements(); err != nil || n == 0 {
		return status.InvalidArgumentf("Got output shape %v which has 0 elements", dims)
	}
	out, err := ctx.Allocate(0, tensor.Float32, dims)
	if err != nil {
		return err
	}
	dst := tensor.Of[float32](out)
	if err := kernels.Clear(ctx, dst); err != nil {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	return k.pairs(ctx, &m, hypotheses, truths, func(key []int64, d float32) error {
		at := int64(0)
		for i, x := range key {
			at = at*shape[i] + x
		}
		if at < 0 || at >= int64(len(dst)) {
			return status.Internalf("Got an inner product %d which would require writing to outside of the buffer for the output tensor (max elements %d)", at, len(dst))
		}
		dst[at] = d
		return nil
	})
}

// pairs finds the sequences at the same position, and calls set with their distances. A missing sequence is empty.
func (k *editDistance[T]) pairs(ctx *kernels.Context, m *kernels.Meter, hypotheses, truths *sequences[T], set func(key []int64, d float32) error) error {
	hKey, h := hypotheses.next()
	tKey, t := truths.next()
	for hKey != nil || tKey != nil {
		var order int
		switch {
		case hKey == nil:
			order = 1
		case tKey == nil:
			order = -1
		default:
			order = slices.Compare(hKey, tKey)
		}
		var err error
		switch {
		case order == 0:
			var d float32
			if d, err = k.distance(ctx, m, t, h); err == nil {
				err = set(tKey, d)
			}
		case order < 0 && k.normalize:
			err = set(hKey, float32(math.Inf(1)))
		case order < 0:
			err = set(hKey, float32(len(h)))
		case k.normalize:
			err = set(tKey, 1)
		default:
			err = set(tKey, float32(len(t)))
		}
		if err != nil {
			return err
		}
		if order <= 0 {
			hKey, h = hypotheses.next()
		}
		if order >= 0 {
			tKey, t = truths.next()
		}
	}
	return nil
}

// distance returns the Levenshtein distance. It computes the table of the prefixes' distances row by row.
func (k *editDistance[T]) distance(ctx *kernels.Context, m *kernels.Meter, truth, hypothesis []T) (float32, error) {
	row, err := kernels.Scratch[int32](m, len(hypothesis)+1)
	if err != nil {
		return 0, err
	}
	defer m.Give(4 * len(row))
	for j := range row {
		row[j] = int32(j)
	}
	for i, v := range truth {
		if err := ctx.Ended(); err != nil {
			return 0, err
		}
		corner := row[0] // the distance without the last element of both
		row[0] = int32(i + 1)
		for j, w := range hypothesis {
			replaced := corner
			if v != w {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	d := float32(row[len(row)-1])
	if k.normalize {
		d /= float32(len(truth))
	}
	return d, nil
}

// sequences are the runs of values of a sparse tensor that share all coordinates but the last.
type sequences[T any] struct {
	sparse
	values []T
	passed int // values
}

func newSequences[T any](ctx *kernels.Context, i int) (*sequences[T], error) {
	s, err := sparseInput(ctx, i)
	if err != nil {
		return nil, err
	}
	if _, err := s.dense(); err != nil {
		return nil, err
	}
	return &sequences[T]{sparse: s, values: element.ViewOf[T](s.values)}, nil
}

// next returns the position and the values of the next sequence; no position at the end.
func (s *sequences[T]) next() (key []int64, values []T) {
	if s.passed == s.count() {
		return nil, nil
	}
	last, first := len(s.shape)-1, s.passed
	key = s.at(first)[:last]
	for s.passed < s.count() && slices.Equal(s.at(s.passed)[:last], key) {
		s.passed++
	}
	return key, s.values[first:s.passed]
}

// checkDistance rejects inputs of EditDistance that are not sparse tensors of one rank.
func checkDistance(ctx *kernels.Context) error {
	names := []string{"hypothesis", "truth"}
	for i, part := range []string{"indices", "values", "shape"} {
		for s, name := range names {
			rank, want := 1, "vector"
			if i == 0 {
				rank, want = 2, "matrix"
			}
			if t := ctx.Input(3*s + i); t.Rank() != rank {
				return status.InvalidArgumentf("%s_%s should be a %s, but got shape: %v", name, part, want, t.Shape())
			}
		}
	}
	for s, name := range names {
		indices, values, shape := ctx.Input(3*s), ctx.Input(3*s+1), ctx.Input(3*s+2)
		switch {
		case s == 1 && shape.Len() < 2:
			return status.InvalidArgumentf("Input SparseTensors must have rank at least 2, but truth_shape rank is: %d", shape.Len())
		case values.Len() != indices.Dim(0):
			return status.InvalidArgumentf("Expected %s_values.NumElements == #rows(%s_indices), their shapes are: %v and %v", name, name, values.Shape(), indices.Shape())
		case shape.Len() != indices.Dim(1):
			return status.InvalidArgumentf("Expected %s_shape.NumElements == #cols(%s_indices), their shapes are: %v and %v", name, name, shape.Shape(), indices.Shape())
		}
	}
	if h, t := ctx.Input(2), ctx.Input(5); h.Len() != t.Len() {
		return status.InvalidArgumentf("Expected truth and hypothesis to have matching ranks, but their shapes are: %v and %v", t.Shape(), h.Shape())
	}
	return nil
}
