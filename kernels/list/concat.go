package list

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// tensorListConcat concatenates the elements along their first dimension, which may differ, and returns the length of each. V2 of the op
// has an input for the length of elements that were never set.
func tensorListConcat(ctx *kernels.Context, dtype tensor.DType) error {
	l, err := typedList(ctx, dtype)
	if err != nil {
		return err
	}
	first, rest, err := concatShape(ctx, l)
	if err != nil {
		return err
	}
	lengths, err := concatLengths(ctx, l, first)
	if err != nil {
		return err
	}
	total, ok := shapes.AddSize(lengths...)
	if !ok {
		return status.InvalidArgumentf("The lengths of the list's elements do not fit 63 bits")
	}
	shape := shapes.Replaced(rest.Dims, 0, 0, total)
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, dtype, shape)
	if err != nil {
		return err
	}
	if err := args.OutputInts(ctx, 1, tensor.Int64, lengths); err != nil {
		return err
	}
	per, at, bytes := rest.Dims.Elements(), 0, dtype.Size()
	for i, t := range l.Elems {
		n := int(lengths[i]) * per
		switch {
		case n == 0:
		case t != nil:
			layout.Move(ctx, out, t, layout.NewNest([]int{n}, []int{1}, []int{1}, at, 0))
		default:
			tensor.Clear(out.Data()[at*bytes : (at+n)*bytes])
		}
		at += n
	}
	return nil
}

// concatShape returns the common length of all elements, -1 if there is none, and the shape of their rows. The op takes the elements' shape
// as an attribute, without the first dimension, or as an input.
func concatShape(ctx *kernels.Context, l *variant.TensorList) (first int64, rest shapes.PartialShape, err error) {
	first = -1
	if len(ctx.Inputs) > 1 {
		shape, err := shapes.PartialShapeInput(ctx, 1)
		if err != nil {
			return 0, rest, err
		}
		if shape, err = shape.Merge(l.Shape); err != nil {
			return 0, rest, err
		}
		if shape.Known {
			if len(shape.Dims) == 0 {
				return 0, rest, status.InvalidArgumentf("Concat requires elements to be at least vectors, found scalars instead.")
			}
			first, rest = shape.Dims[0], shapes.PartialShape{Dims: shape.Dims[1:], Known: true}
		}
	} else if dims, known, err := ctx.Node.Attrs.Shape("element_shape"); err != nil {
		return 0, rest, err
	} else if known {
		if len(dims) == 0 {
			return 0, rest, status.InvalidArgumentf("element_shape must not be empty")
		}
		rest = shapes.PartialShape{Dims: dims[1:], Known: true}
	}
	common := first // of the elements that are set; -1 if they differ
	differ := false
	for i, t := range l.Elems {
		if t == nil {
			continue
		}
		if t.Rank() == 0 {
			return 0, rest, status.InvalidArgumentf("Concat saw a scalar shape at index %d but requires at least vectors.", i)
		}
		if rest, err = rest.Merge(shapes.PartialShape{Dims: t.Shape()[1:], Known: true}); err != nil {
			return 0, rest, err
		}
		if first != -1 && first != t.Shape()[0] {
			return 0, rest, status.InvalidArgumentf("First entry of element_shape input does not match the first dim of list element at index: %d Expected: %d Actual: %d", i, first, t.Dim(0))
		}
		if common == -1 && !differ {
			common = t.Shape()[0]
		} else if common != t.Shape()[0] {
			common, differ = -1, true
		}
	}
	if !rest.Full() {
		if len(l.Elems) == 0 {
			return 0, rest, status.InvalidArgumentf("All except the first dimension must be fully defined when concating an empty tensor list. element_shape: %v", rest)
		}
		return 0, rest, status.InvalidArgumentf("Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not fully defined: %v", rest)
	}
	rest.Dims = rest.Dims.Clone()
	return common, rest, nil
}

func concatLengths(ctx *kernels.Context, l *variant.TensorList, first int64) ([]int64, error) {
	lengths := make([]int64, len(l.Elems))
	var given []int64
	if len(ctx.Inputs) > 2 {
		var err error
		if given, err = ctx.Ints(2); err != nil { // of any rank, as in TensorFlow
			return nil, err
		}
	}
	for i, t := range l.Elems {
		switch {
		case t != nil:
			lengths[i] = t.Shape()[0]
		case i >= len(given) && first != -1:
			lengths[i] = first
		case len(ctx.Inputs) < 3:
			return nil, status.InvalidArgumentf("Concating lists with uninitialized tensors is not supported in this version of TensorListConcat. Consider updating your GraphDef to run the newer version.")
		case i >= len(given):
			return nil, status.InvalidArgumentf("List contains uninitialized tensor at index %d but leading_dims has only %d elements.", i, len(given))
		default:
			lengths[i] = given[i]
		}
	}
	return lengths, nil
}
