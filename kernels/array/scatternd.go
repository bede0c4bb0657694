package array

import (
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/update"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// newScatterNd returns the kernel that adds updates at the rows of indices to a zero tensor with the shape in input 2.
func newScatterNd(c *kernels.Construction) (any, error) {
	ignore, err := ignoresBadIndices(c)
	if err != nil {
		return nil, err
	}
	dtype, err := c.Attrs().Type("T")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		indices, updates := ctx.Input(0), ctx.Input(1)
		if err := args.CheckType(ctx, 1, dtype); err != nil {
			return err
		}
		if ctx.Input(2).Rank() != 1 {
			return status.InvalidArgumentf("Shape must be a vector")
		}
		sizes, err := ctx.Ints(2)
		if err != nil {
			return err
		}
		shape, err := shapes.ShapeOf(sizes)
		if err != nil {
			return err
		}
		if err := scatterNdShapes(shape, indices, updates); err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil {
			return err
		}
		layout.Zero(ctx, out)
		return scatterPoints(ctx, update.Add, out, indices, updates, ignore)
	}), nil
}

// newTensorScatter returns the kernel that copies input 0 and applies updates at indices.
func newTensorScatter(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		ignore, err := ignoresBadIndices(c)
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			t, indices, updates := ctx.Input(0), ctx.Input(1), ctx.Input(2)
			if t.DType() != updates.DType() {
				return update.ScatterTypes(t.DType(), updates)
			}
			if err := tensorScatterShapes(t.Shape(), indices, updates); err != nil {
				return err
			}
			if indices.OnHost() {
				if err := checkPoints(t.Shape(), indices, ignore); err != nil {
					return err
				}
			}
			out, err := writable(ctx)
			if err != nil {
				return err
			}
			return scatterPoints(ctx, op, out, indices, updates, ignore)
		}), nil
	}
}

// checkPoints rejects bad indices before anything is written.
func checkPoints(shape tensor.Shape, indices *tensor.Tensor, ignore bool) error {
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	_, err = scatterTargets(at.V, shape, indices, ignore)
	return err
}

// newScatterNdVariable returns the kernel that updates a variable, by reference or by handle.
func newScatterNdVariable(op update.Op) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		ignore, err := ignoresBadIndices(c)
		if err != nil {
			return nil, err
		}
		return kernels.Func(func(ctx *kernels.Context) error {
			v, byRef, err := variableOf(ctx)
			if err != nil {
				return err
			}
			if err := scatterNdVariable(ctx, v, op, ignore); err != nil {
				return err
			}
			if byRef {
				ctx.Pass(0, 0)
			}
			return nil
		}), nil
	}
}

func scatterNdVariable(ctx *kernels.Context, v *containers.Variable, op update.Op, ignore bool) error {
	indices, updates := ctx.Input(1), ctx.Input(2)
	if err := update.ScatterTypes(v.DType(), updates); err != nil {
		return err
	}
	if indices.Rank() == 1 {
		// As in TensorFlow, a vector names positions of dimension 0.
		indices = indices.Reshaped(tensor.Shape{int64(indices.Len()), 1})
		defer indices.Release()
	}
	return variable.Update(ctx, v, func(t *tensor.Tensor) error {
		if err := scatterNdVariableShapes(t.Shape(), indices, updates); err != nil {
			return err
		}
		return scatterPoints(ctx, op, t, indices, updates, ignore)
	})
}

// pointDims returns the number of leading dimensions that updates and indices share, and the number of output dimensions that a row of
// indices names.
func pointDims(indices *tensor.Tensor) (lead, depth int) {
	last := indices.Rank() - 1
	return last, indices.Dim(last)
}

func scatterNdShapes(shape tensor.Shape, indices, updates *tensor.Tensor) error {
	if indices.Rank() == 0 {
		return status.InvalidArgumentf("Indices shape must have rank at least one. Found:%v", indices.Shape())
	}
	if updates.Rank() == 0 {
		// A single update for a single row of indices has the output's inner shape. It may be a scalar only if that shape is a scalar and
		// indices is a vector.
		if lead, depth := pointDims(indices); lead != 0 || depth != len(shape) {
			return status.InvalidArgumentf("Updates shape must have rank at least one. Found:%v", updates.Shape())
		}
	}
	if emptyMixed(shape, indices, updates) {
		return status.InvalidArgumentf("Indices and updates specified for empty output.  indices shape: %v", indices.Shape())
	}
	lead, depth := pointDims(indices)
	if updates.Rank() < lead || !updates.Shape()[:lead].Equal(indices.Shape()[:lead]) {
		return status.InvalidArgumentf("Dimensions [0,%d) of indices[shape=%v] must match dimensions [0,%d) of updates[shape=%v]", lead, indices.Shape(), lead, updates.Shape())
	}
	if depth > len(shape) || !updates.Shape()[lead:].Equal(shape[depth:]) {
		return status.InvalidArgumentf("Dimensions [%d,%d) of input[shape=%v] must match dimensions [%d,%d) of updates[shape=%v]",
			depth, len(shape), shape, lead, updates.Rank(), updates.Shape())
	}
	return nil
}

// emptyMixed reports whether some of the tensors of a scattered update are empty and others are not. TensorFlow rejects that, unless both
// indices and updates are empty.
func emptyMixed(shape tensor.Shape, indices, updates *tensor.Tensor) bool {
	if indices.Len() == 0 && updates.Len() == 0 {
		return false
	}
	return shape.Elements() == 0 || indices.Len() == 0 || updates.Len() == 0
}

// scatterNdVariableShapes is scatterNdShapes with the error texts of the ops that update a variable.
func scatterNdVariableShapes(shape tensor.Shape, indices, updates *tensor.Tensor) error {
	if len(shape) == 0 {
		return status.InvalidArgumentf("Output must be at least 1-D, got shape: %v", shape)
	}
	if indices.Rank() == 0 || updates.Rank() == 0 || emptyMixed(shape, indices, updates) {
		return scatterNdShapes(shape, indices, updates)
	}
	if a, b := indices.Dim(0), updates.Dim(0); indices.Rank() > 1 && a != b {
		return status.InvalidArgumentf("Dimensions [0,1) of indices[shape=%v] = %d must match dimensions [0,1) of updates[shape=%v] = %d", indices.Shape(), a, updates.Shape(), b)
	}
	if lead, depth := pointDims(indices); updates.Rank() >= lead && depth <= len(shape) && updates.Rank() != lead+len(shape)-depth {
		return status.InvalidArgumentf("Dimensions [%d,%d) of input[shape=%v] must match dimensions [%d,%d) of updates[shape=%v]",
			depth, len(shape), shape, depth, updates.Rank(), updates.Shape())
	}
	return scatterNdShapes(shape, indices, updates)
}

// tensorScatterShapes is scatterNdShapes with the error texts of the ops that update a tensor.
func tensorScatterShapes(shape tensor.Shape, indices, updates *tensor.Tensor) error {
	if indices.Rank() == 0 || updates.Rank() == 0 {
		return scatterNdShapes(shape, indices, updates)
	}
	lead, depth := pointDims(indices)
	switch {
	case emptyMixed(shape, indices, updates):
		return status.InvalidArgumentf("Indices and updates specified for empty output shape")
	case updates.Rank() < lead || !updates.Shape()[:lead].Equal(indices.Shape()[:lead]):
		return status.InvalidArgumentf("Outer dimensions of indices and update must match. Indices shape: %v, updates shape:%v", indices.Shape(), updates.Shape())
	case depth > len(shape) || updates.Rank()-lead != len(shape)-depth:
		return status.InvalidArgumentf("Inner dimensions of output shape must match inner dimensions of updates shape. Output: %v updates: %v", shape, updates.Shape())
	case !updates.Shape()[lead:].Equal(shape[depth:]):
		return status.InvalidArgumentf("The inner %d dimensions of output.shape=%v must match the inner %d dimensions of updates.shape=%v",
			len(shape)-depth, shape, updates.Rank()-lead, updates.Shape())
	}
	return nil
}

func scatterTargets(v []int64, shape tensor.Shape, indices *tensor.Tensor, ignore bool) ([]int64, error) {
	lead, depth := pointDims(indices)
	to, bad := shapes.Points(v, indices.Shape()[:lead].Elements(), shape[:depth])
	if bad >= 0 && !ignore {
		return nil, status.InvalidArgumentf("indices%s = [%s] does not index into shape %v",
			args.Position(indices.Shape()[:lead], bad), spaced(v[bad*depth:(bad+1)*depth]), shape)
	}
	return to, nil
}

// scatterPoints updates t at the rows of indices. The caller has checked the shapes. All indices are checked before anything is written,
// except on an accelerator, which ignores those out of range.
func scatterPoints(ctx *kernels.Context, op update.Op, t, indices, updates *tensor.Tensor, ignore bool) error {
	if !t.OnHost() {
		lead, depth := pointDims(indices)
		return update.ScatterOn(ctx, op, t, indices, indices.Shape()[:lead].Elements(), t.Shape()[:depth], updates)
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	to, err := scatterTargets(at.V, t.Shape(), indices, ignore)
	if err != nil {
		return err
	}
	if err := update.CheckDivisors(op, updates, false); err != nil {
		return err
	}
	_, depth := pointDims(indices)
	n := t.Shape()[depth:].Elements()
	if !ignore {
		return update.Rows(ctx, op, t, to, n, updates)
	}
	matrix := updates.Reshaped(tensor.Shape{int64(len(to)), int64(n)})
	defer matrix.Release()
	rows, kept := inside(to)
	for i, r := range rows {
		row := matrix.Rows(int(r), int(r)+1)
		err := update.Rows(ctx, op, t, kept[i:i+1], n, row)
		row.Release()
		if err != nil {
			return err
		}
	}
	return nil
}
