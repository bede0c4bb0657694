package array

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

// newInplace returns the constructor of InplaceUpdate and its variants. Rows of input 0 are replaced by, or combined with, those of input
// 2. Input 1 holds the row indices, modulo the number of rows. The input's memory is reused if nothing else refers to it. Otherwise the
// input stays unchanged, unlike in TensorFlow.
func newInplace(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtype, err := c.Attrs().Type("T")
		if err != nil {
			return nil, err
		}
		change := update.Updaters[op][dtype]
		if op != update.Set && (change == nil || dtype == tensor.Bool) {
			return nil, status.InvalidArgumentf("Unsupported data type: %v", dtype)
		}
		return kernels.Func(func(ctx *kernels.Context) error { return changeRows(ctx, op, change) }), nil
	}
}

func changeRows(ctx *kernels.Context, op update.Op, change update.Func) error {
	x, at, v := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := checkInplace(x, at, v); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, x.DType(), x.Shape())
	if err != nil {
		return err
	}
	if out != x {
		if err := layout.MoveAt(ctx, out, x, nil, nil, x.Len(), 1); err != nil {
			return err
		}
	}
	if x.Len() == 0 || v.Len() == 0 {
		return nil
	}
	rows, width := int64(x.Dim(0)), x.Len()/x.Dim(0)
	m := ctx.Meter()
	defer m.Done()
	to, err := kernels.Scratch[int64](&m, at.Len())
	if err != nil {
		return err
	}
	rowsOf := tensor.Of[int32](at)
	err = ctx.Each(len(to), divisionTime, func(lo, hi int) error {
		for i, r := range rowsOf[lo:hi] {
			to[lo+i] = (int64(r)%rows + rows) % rows
		}
		return nil
	})
	if err != nil {
		return err
	}
	if op == update.Set {
		return layout.MoveAt(ctx, out, v, to, nil, width, len(to))
	}
	size := width * x.DType().Size()
	return ctx.Each(len(to), changeTime+width, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			row := out.Data()[int(to[i])*size:][:size]
			change(row, row, v.Data()[i*size:][:size])
		}
		return nil
	})
}

// changeTime is the time in nanoseconds to change a row, beside that for its elements.
const changeTime = 64

// checkInplace rejects updates whose shapes do not match.
func checkInplace(x, at, v *tensor.Tensor) error {
	if at.Rank() != 1 {
		return status.InvalidArgumentf("i must be a vector. %v", at.Shape())
	}
	if x.Rank() != v.Rank() {
		return status.InvalidArgumentf("x and v shape doesn't match (ranks differ): %v vs. %v", x.Shape(), v.Shape())
	}
	if x.Rank() == 0 {
		return status.InvalidArgumentf("x must be at least a vector. %v", x.Shape())
	}
	for d := 1; d < x.Rank(); d++ {
		if x.Dim(d) != v.Dim(d) {
			return status.InvalidArgumentf("x and v shape doesn't match at index %d : %v vs. %v", d, x.Shape(), v.Shape())
		}
	}
	if at.Len() != v.Dim(0) {
		return status.InvalidArgumentf("i and x shape doesn't match at index 0: %v vs. %v", at.Shape(), v.Shape())
	}
	return nil
}

// deepCopy returns a copy of the input.
func deepCopy(ctx *kernels.Context) error {
	x := ctx.Input(0)
	out, err := ctx.Allocate(0, x.DType(), x.Shape())
	if err != nil {
		return err
	}
	return layout.MoveAt(ctx, out, x, nil, nil, x.Len(), 1)
}

// newParallelConcat returns the kernel of ParallelConcat, which joins tensors of one row each.
func newParallelConcat(c *kernels.Construction) (any, error) {
	n, err1 := c.Attrs().Int("N")
	shape, known, err2 := c.Attrs().Shape("shape")
	if err := args.FirstError(err1, err2); err != nil {
		return nil, err
	}
	if !known || len(shape) == 0 || shape[0] != n {
		return nil, status.InvalidArgumentf("The shape of the output must be known, with %d rows", n)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		row := append(tensor.Shape{1}, shape[1:]...)
		for i := range ctx.Inputs {
			if s := ctx.Input(i).Shape(); !s.Equal(row) {
				return status.InvalidArgumentf("value and update shape doesn't match: %v vs. %v", shape, s)
			}
		}
		out, err := ctx.Allocate(0, ctx.Input(0).DType(), shape)
		if err != nil {
			return err
		}
		width := row.Elements()
		for i := range ctx.Inputs {
			if err := layout.MoveAt(ctx, out, ctx.Input(i), []int64{int64(i)}, nil, width, 1); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

// unravelIndex converts flat indices to coordinates in a tensor of the given sizes, one row per dimension.
func unravelIndex(ctx *kernels.Context) error {
	indices, dims := ctx.Input(0), ctx.Input(1)
	switch {
	case indices.Rank() > 1:
		return status.InvalidArgumentf("The indices can only be scalar or vector, got \"%v\"", indices.Shape())
	case indices.Len() == 0:
		return status.InvalidArgumentf("received empty tensor indices: Tensor<type: %v shape: %v values: >", indices.DType(), indices.Shape())
	case dims.Rank() != 1:
		return status.InvalidArgumentf("The indices can only be 1-D, got \"%v\"", dims.Shape())
	}
	sizes, total, err := unravelSizes(ctx, dims)
	if err != nil {
		return err
	}
	shape := tensor.Shape{int64(len(sizes))}
	if indices.Rank() == 1 {
		shape = append(shape, int64(indices.Len()))
	}
	m := ctx.Meter()
	defer m.Done()
	n := indices.Len()
	if err := m.TakeMany(len(sizes), 8*n); err != nil {
		return err
	}
	at := make([]int64, len(sizes)*n)
	end := ctx.Lookout()
	for i := range n {
		if err := end.After(divisionTime * (1 + len(sizes))); err != nil {
			return err
		}
		v, err := args.IntAt(indices, i)
		if err != nil {
			return err
		}
		if v >= total {
			return status.InvalidArgumentf("index is out of bound as with dims")
		}
		stride := total
		for d, size := range sizes {
			rest := v % stride // also for negative indices
			stride /= size
			at[d*n+i] = rest / stride
		}
	}
	out, err := ctx.Allocate(0, indices.DType(), shape)
	if err != nil {
		return err
	}
	if indices.DType() == tensor.Int64 {
		copy(tensor.Of[int64](out), at)
		return nil
	}
	for i, v := range at {
		tensor.Of[int32](out)[i] = int32(v)
	}
	return nil
}

// divisionTime is the time in nanoseconds to divide by a size.
const divisionTime = 8

// unravelSizes reads the sizes, whose product must fit their type.
func unravelSizes(ctx *kernels.Context, dims *tensor.Tensor) (sizes []int64, total int64, err error) {
	if sizes, err = ctx.Ints(1); err != nil {
		return nil, 0, err
	}
	total = 1
	limit := int64(math.MaxInt64)
	if dims.DType() == tensor.Int32 {
		limit = math.MaxInt32
	}
	for i, d := range sizes {
		switch {
		case d == 0:
			return nil, 0, status.InvalidArgumentf("Input dims cannot contain a dim of zero, but dims contains zero at index %d", i)
		case d < 0:
			return nil, 0, status.InvalidArgumentf("Input dims cannot be negative. Got dim = %d at index %d", d, i)
		case total > limit/d:
			return nil, 0, status.InvalidArgumentf("Input dims product is causing integer overflow: (%v)", sizes)
		}
		total *= d
	}
	return sizes, total, nil
}
