package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// topKKernel is TopK and TopKV2: the greatest elements of each row and their indices, the greatest first and, among equals, the lowest
// index first. The order is the same if sorted is false.
type topKKernel[T element.Ordered] struct {
	dtype, index tensor.DType
	rows         topKRows[T] // for the type of indices
	k            int64       // the attribute of TopK; TopKV2 has an input instead
	fromInput    bool
}

func (k *topKKernel[T]) Compute(ctx *kernels.Context) error {
	input := -1
	if k.fromInput {
		input = 1
	}
	values, indices, err := topKOutputs(ctx, k.dtype, k.index, k.k, input)
	if err != nil || values.Len() == 0 {
		return err
	}
	in := ctx.Input(0)
	count, columns := values.Dim(in.Rank()-1), in.Dim(in.Rank()-1)
	src, dst := element.ViewOf[T](in), element.ViewOf[T](values)
	return k.rows(ctx, dst, indices, src, count, columns)
}

// topKRows finds the greatest elements of rows and stores their indices in indices.
type topKRows[T element.Ordered] func(ctx *kernels.Context, dst []T, indices *tensor.Tensor, src []T, count, columns int) error

// topKOutputs allocates the outputs. Each row has count elements or, if input is not negative, as many as that input says.
func topKOutputs(ctx *kernels.Context, dtype, index tensor.DType, count int64, input int) (values, indices *tensor.Tensor, err error) {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return nil, nil, err
	}
	if input >= 0 {
		t := ctx.Input(input)
		if t.Rank() != 0 {
			return nil, nil, status.InvalidArgumentf("k must be scalar, got shape %v", t.Shape())
		}
		if t.DType() == tensor.Int16 {
			count = int64(tensor.Of[int16](t)[0])
		} else if count, err = args.IntAt(t, 0); err != nil {
			return nil, nil, err
		}
	}
	if count < 0 {
		return nil, nil, status.InvalidArgumentf("Need k >= 0, got %d", count)
	}
	if in.Rank() == 0 {
		return nil, nil, status.InvalidArgumentf("input must be >= 1-D, got shape %v", in.Shape())
	}
	columns := in.Dim(in.Rank() - 1)
	if int64(columns) < count {
		return nil, nil, status.InvalidArgumentf("input must have at least k columns. Had %d, needed %d", columns, count)
	}
	shape := in.Shape().Clone()
	shape[len(shape)-1] = count
	if values, err = ctx.Allocate(0, dtype, shape); err != nil {
		return nil, nil, err
	}
	indices, err = ctx.Allocate(1, index, shape)
	return values, indices, err
}

func (r ranking[T, K]) rows16(ctx *kernels.Context, dst []T, indices *tensor.Tensor, src []T, count, columns int) error {
	return topRows(r, ctx, dst, tensor.Of[int16](indices), src, count, columns)
}

func (r ranking[T, K]) rows32(ctx *kernels.Context, dst []T, indices *tensor.Tensor, src []T, count, columns int) error {
	return topRows(r, ctx, dst, tensor.Of[int32](indices), src, count, columns)
}

func (r ranking[T, K]) rows64(ctx *kernels.Context, dst []T, indices *tensor.Tensor, src []T, count, columns int) error {
	return topRows(r, ctx, dst, tensor.Of[int64](indices), src, count, columns)
}

func topRows[T element.Ordered, K rankKey, I int16 | int32 | int64](r ranking[T, K], ctx *kernels.Context, dst []T, at []I, src []T, count, columns int) error {
	rows := len(src) / columns
	if !r.least && (count <= fewTop || columns > longestRanked) {
		element.EachRow(ctx, rows, columns, func(lo, hi int) {
			best := make([]int, 0, min(count, fewTop))
			for ; lo < hi; lo++ {
				row := src[lo*columns : (lo+1)*columns]
				best = top(best[:0], row, count)
				for i, b := range best {
					dst[lo*count+i], at[lo*count+i] = row[b], I(b)
				}
			}
		})
		return nil
	}
	return element.WithScratch(ctx, rows, max(1, element.CostlyGrain/columns), r.words(count, columns), func(work []uint64, lo, hi int) {
		for ; lo < hi; lo++ {
			row := src[lo*columns : (lo+1)*columns]
			for i, b := range r.top(work, row, count) {
				dst[lo*count+i], at[lo*count+i] = row[b.at], I(b.at)
			}
		}
	})
}

// fewTop is the count up to which the greatest elements are kept in a sorted list, into which each element may be inserted.
const fewTop = 32

// top appends the indices of the count greatest elements of row to best, in order.
func top[T element.Ordered](best []int, row []T, count int) []int {
	// NaN is greater than all numbers.
	before := func(i, j int) bool {
		a, b := row[i], row[j]
		return a > b || a != a && b == b
	}
	for i := range row {
		if len(best) == count && !before(i, best[count-1]) {
			continue
		}
		if len(best) < count {
			best = append(best, i)
		}
		at := len(best) - 1
		for ; at > 0 && before(i, best[at-1]); at-- {
			best[at] = best[at-1]
		}
		best[at] = i
	}
	return best
}

// topKAttr and topKInput return the rows for one element type: of TopK, which has the number of elements as an attribute, and of TopKV2,
// which has it as an input.
func topKAttr[T element.Ordered, K rankKey](r ranking[T, K]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		k, err := c.Attrs().Int("k")
		return &topKKernel[T]{dtype: dtype, index: tensor.Int32, rows: r.rows32, k: k}, err
	})
}

func topKInput[T element.Ordered, K rankKey](r ranking[T, K]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	rowsOf := map[tensor.DType]topKRows[T]{tensor.Int16: r.rows16, tensor.Int32: r.rows32, tensor.Int64: r.rows64}
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		index, err := topKIndex(c)
		if err == nil && rowsOf[index] == nil {
			err = status.InvalidArgumentf("Value for attr 'index_type' of %v is not in the list of allowed values: int16, int32, int64", index)
		}
		return &topKKernel[T]{dtype: dtype, index: index, rows: rowsOf[index], fromInput: true}, err
	})
}

// topKIndex returns the type of TopKV2's indices. Graphs of older clients lack the attribute.
func topKIndex(c *kernels.Construction) (tensor.DType, error) {
	if _, ok := c.Attrs()["index_type"]; !ok {
		return tensor.Int32, nil
	}
	return c.Attrs().Type("index_type")
}

// inTopKKernel is InTopK and InTopKV2: whether fewer than k classes have a higher prediction than the target. If the target is not a class,
// or predictions are not finite, the result is false.
type inTopKKernel struct {
	k         int64
	fromInput bool
}

func (k *inTopKKernel) Compute(ctx *kernels.Context) error {
	predictions, targets := ctx.Input(0), ctx.Input(1)
	out, count, err := k.output(ctx)
	if err != nil {
		return err
	}
	classes := predictions.Dim(1)
	rows, dst := tensor.Of[float32](predictions), tensor.Of[bool](out)
	for r := range dst {
		target, err := args.IntAt(targets, r)
		if err != nil {
			return err
		}
		dst[r] = inTop(rows[r*classes:(r+1)*classes], target, count)
	}
	return nil
}

func newInTopK(c *kernels.Construction) (any, error) {
	k, err := c.Attrs().Int("k")
	return &inTopKKernel{k: k}, err
}

func newInTopKV2(*kernels.Construction) (any, error) { return &inTopKKernel{fromInput: true}, nil }

// output allocates the output and returns k.
func (k *inTopKKernel) output(ctx *kernels.Context) (out *tensor.Tensor, count int64, err error) {
	predictions, targets := ctx.Input(0), ctx.Input(1)
	if err := args.CheckType(ctx, 0, tensor.Float32); err != nil {
		return nil, 0, err
	}
	count = k.k
	if k.fromInput {
		t := ctx.Input(2)
		if t.Rank() != 0 {
			return nil, 0, status.InvalidArgumentf("k must be 0-D, got shape %v", t.Shape())
		}
		if count, err = args.IntAt(t, 0); err != nil {
			return nil, 0, err
		}
	}
	if predictions.Rank() != 2 {
		return nil, 0, status.InvalidArgumentf("predictions must be 2-dimensional")
	}
	if targets.Rank() != 1 {
		return nil, 0, status.InvalidArgumentf("targets must be 1-dimensional")
	}
	if predictions.Dim(0) != targets.Len() {
		return nil, 0, status.InvalidArgumentf("First dimension of predictions %d must match length of targets %d", predictions.Dim(0), targets.Len())
	}
	out, err = ctx.Allocate(0, tensor.Bool, targets.Shape())
	return out, count, err
}

func inTop(row []float32, target, k int64) bool {
	if target < 0 || target >= int64(len(row)) {
		return false
	}
	own, better := row[target], int64(0)
	for _, v := range row {
		if v-v != 0 {
			return false
		}
		if v > own {
			better++
		}
	}
	return better < k
}
