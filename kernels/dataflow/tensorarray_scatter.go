package dataflow

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Ops that write many elements of an array.

// tensorArrayScatter writes the rows of input 2 to the indices in input 1.
func tensorArrayScatter(ctx *kernels.Context) error {
	indices, t := ctx.Input(1), ctx.Input(2)
	a, err := arrayFor(ctx, t.DType(), writes)
	if err != nil {
		return err
	}
	switch {
	case t.Rank() == 0:
		return status.InvalidArgumentf("Input value for unpack must be at least a vector but received shape: %v", t.Shape())
	case indices.Rank() != 1:
		return status.InvalidArgumentf("Expected indices to be a vector, but received shape: %v", indices.Shape())
	case indices.Len() != t.Dim(0):
		return status.InvalidArgumentf("Expected len(indices) == values.shape[0], but saw: %d vs. %d", indices.Len(), t.Dim(0))
	}
	to, err := ctx.Ints(1)
	if err != nil {
		return err
	}
	if err := a.writeRows(ctx, to, t); err != nil {
		return err
	}
	ctx.Pass(3, 0)
	return nil
}

// tensorArrayUnpack writes the rows of input 1 to all elements.
func tensorArrayUnpack(ctx *kernels.Context) error {
	t := ctx.Input(1)
	a, err := arrayFor(ctx, t.DType(), writes)
	if err != nil {
		return err
	}
	if t.Rank() == 0 {
		return status.InvalidArgumentf("Input value for unpack must be at least a vector but received shape: %v", t.Shape())
	}
	size, err := a.size()
	if err != nil {
		return err
	}
	if n := t.Dim(0); size > n || size < n && !a.growing() {
		return status.InvalidArgumentf("Input value must have first dimension equal to the array size (%d vs. %d)", n, size)
	}
	if err := a.writeRows(ctx, upTo(t.Dim(0)), t); err != nil {
		return err
	}
	ctx.Pass(2, 0)
	return nil
}

// upTo returns the integers from 0 to n-1.
func upTo(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

// writeRows writes the rows of t to the indices.
func (a *tensorArray) writeRows(ctx *kernels.Context, to []int64, t *tensor.Tensor) error {
	row := t.Shape()[1:]
	n := row.Elements()
	return a.writeAll(ctx, to, func(i int) (*tensor.Tensor, error) { return layout.Part(ctx, t, row, i*n, n) })
}

// writeAll writes the tensors returned by get to the indices.
func (a *tensorArray) writeAll(ctx *kernels.Context, to []int64, get func(int) (*tensor.Tensor, error)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.open(); err != nil {
		return err
	}
	for _, i := range to {
		if i >= int64(len(a.elems)) && !a.dynamic {
			return status.InvalidArgumentf("Max scatter index must be < array size (%d vs. %d)", i, len(a.elems))
		}
	}
	for k, i := range to {
		t, err := get(k)
		if err != nil {
			return err
		}
		err = a.write(ctx, int(i), t)
		t.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// tensorArraySplit writes runs of rows of input 1 to the elements; input 2 holds the lengths of the runs.
func tensorArraySplit(ctx *kernels.Context) error {
	t, lengthsT := ctx.Input(1), ctx.Input(2)
	a, err := arrayFor(ctx, t.DType(), writes)
	if err != nil {
		return err
	}
	if lengthsT.Rank() != 1 {
		return status.InvalidArgumentf("Expected lengths to be a vector, received shape: %v", lengthsT.Shape())
	}
	if t.Rank() == 0 {
		return status.InvalidArgumentf("Expected value to be at least a vector, but received shape: %v", t.Shape())
	}
	lengths, err := ctx.Ints(2)
	if err != nil {
		return err
	}
	if total, ok := shapes.AddSize(lengths...); !ok || total != t.Shape()[0] {
		return status.InvalidArgumentf("Expected sum of lengths to be equal to values.shape[0], but sum of lengths is %d and value's shape is: %v", total, t.Shape())
	}
	size, err := a.size()
	if err != nil {
		return err
	}
	if size > len(lengths) || size < len(lengths) && !a.growing() {
		return status.InvalidArgumentf("TensorArray's size is not equal to the size of lengths (%d vs. %d), and the TensorArray is not marked as dynamically resizeable", size, len(lengths))
	}
	per, at := t.Shape()[1:].Elements(), int64(0)
	err = a.writeAll(ctx, upTo(len(lengths)), func(i int) (*tensor.Tensor, error) {
		n := lengths[i]
		at += n
		return layout.Part(ctx, t, shapes.Replaced(t.Shape(), 0, 1, n), int(at-n)*per, int(n)*per)
	})
	if err == nil {
		ctx.Pass(3, 0)
	}
	return err
}
