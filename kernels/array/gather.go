package array

import (
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variable"
)

// gather returns params[indices] along axis 0.
func gather(ctx *kernels.Context) error {
	return gatherAlong(ctx, ctx.Input(0), ctx.Input(1), 0, 0, false)
}

// newGatherV2 returns the kernel that gathers along the axis in input 2. The first batch_dims dimensions of params and indices correspond.
func newGatherV2(c *kernels.Construction) (any, error) {
	batchDims, err := c.Attrs().Int("batch_dims")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if t := ctx.Input(2); t.Rank() != 0 {
			return status.InvalidArgumentf("axis must be scalar")
		}
		axis, err := args.ScalarInt(ctx, 2, "axis")
		if err != nil {
			return err
		}
		return gatherAlong(ctx, ctx.Input(0), ctx.Input(1), axis, batchDims, false)
	}), nil
}

func newResourceGather(c *kernels.Construction) (any, error) {
	batchDims, err := c.Attrs().Int("batch_dims")
	if err != nil {
		return nil, err
	}
	if batchDims < 0 {
		return nil, status.InvalidArgumentf("batch_dims is negative (%d)", batchDims)
	}
	return withVariable(c, func(ctx *kernels.Context, params *tensor.Tensor) error {
		if batchDims > 0 && params.Rank() < int(batchDims) {
			return status.InvalidArgumentf("params must have at least %d (batch_dims) dimensions but it has shape %v", batchDims, params.Shape())
		}
		return gatherAlong(ctx, params, ctx.Input(1), batchDims, batchDims, true)
	})
}

// withVariable returns a kernel that reads the resource variable at input 0.
func withVariable(c *kernels.Construction, run func(*kernels.Context, *tensor.Tensor) error) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		return variable.View(ctx, 0, func(t *tensor.Tensor) error {
			if t.DType() != dtype {
				return status.InvalidArgumentf("Trying to read variable with wrong dtype. Expected %v got %v", dtype, t.DType())
			}
			return run(ctx, t)
		})
	}), nil
}

// gatherAlong returns slices of params. If the output is empty, it checks the indices only if always is set.
func gatherAlong(ctx *kernels.Context, params, indices *tensor.Tensor, axisArg, batchArg int64, always bool) error {
	if params.Rank() == 0 {
		return status.InvalidArgumentf("params must be at least 1 dimensional")
	}
	axis, ok := shapes.WrapAxis(axisArg, params.Rank())
	if !ok {
		least := axisArg + 1
		if axisArg < 0 {
			least = -axisArg
		}
		return status.InvalidArgumentf("Shape must be at least rank %d but is rank %d", least, params.Rank())
	}
	batch := 0
	if batchArg != 0 {
		rank := int64(indices.Rank())
		if batchArg < -rank || batchArg > rank {
			return status.InvalidArgumentf("Expected batch_dims in the range [%d, %d], but got %d", -rank, rank, batchArg)
		}
		if batchArg < 0 {
			batchArg += rank
		}
		batch = int(batchArg)
		if batch >= params.Rank() {
			return status.InvalidArgumentf("batch_dims (%d) must be less than rank(params) (%d).", batch, params.Rank())
		}
		if batch > axis {
			return status.InvalidArgumentf("batch_dims (%d) must be less than or equal to axis (%d).", batch, axis)
		}
		for i := range batch {
			if params.Dim(i) != indices.Dim(i) {
				return status.InvalidArgumentf("params.shape[%d]: %d should be equal to indices.shape[%d]: %d", i, params.Dim(i), i, indices.Dim(i))
			}
		}
	}
	if !params.OnHost() {
		return gatherOn(ctx, params, indices, axis, batch)
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	n := params.Dim(axis)
	shape := shapes.Replaced(params.Shape(), axis, axis+1, indices.Shape()[batch:]...)
	elements, err := shape.NumElements()
	if err != nil {
		return err
	}
	if always || elements > 0 {
		if err := at.Within(indices.Shape(), int64(n)); err != nil {
			return err
		}
	}
	out, err := ctx.Allocate(0, params.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	inner := params.Shape()[axis+1:].Elements()
	outer := params.Shape()[batch:axis].Elements()
	batches := params.Shape()[:batch].Elements()
	if batches*outer == 1 {
		return layout.MoveAt(ctx, out, params, nil, at.V, inner, len(at.V))
	}
	// Put the rows of all batches and outer positions into one list.
	per := len(at.V) / batches
	m := ctx.Meter()
	defer m.Done()
	from, err := kernels.Scratch[int64](&m, batches*outer*per)
	if err != nil {
		return err
	}
	from = from[:0]
	for b := range batches {
		for o := range outer {
			base := int64((b*outer + o) * n)
			for _, v := range at.V[b*per : (b+1)*per] {
				from = append(from, base+v)
			}
		}
	}
	return layout.MoveAt(ctx, out, params, nil, from, inner, len(from))
}

// newGatherNd returns the kernel that gathers the elements or slices of params that the rows of indices name.
func newGatherNd(c *kernels.Construction) (any, error) {
	ignore, err := ignoresBadIndices(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return gatherPoints(ctx, ctx.Input(0), ctx.Input(1), ignore) }), nil
}

func newResourceGatherNd(c *kernels.Construction) (any, error) {
	return withVariable(c, func(ctx *kernels.Context, params *tensor.Tensor) error {
		return gatherPoints(ctx, params, ctx.Input(1), false)
	})
}

// ignoresBadIndices reports whether indices out of range are skipped rather than an error. Graphs of older clients lack the attribute.
func ignoresBadIndices(c *kernels.Construction) (bool, error) {
	if _, ok := c.Attrs()["bad_indices_policy"]; !ok {
		return false, nil
	}
	policy, err := c.Attrs().Str("bad_indices_policy")
	switch {
	case err != nil:
		return false, err
	case policy == "IGNORE":
		return true, nil
	case policy == "" || policy == "DEFAULT" || policy == "ERROR":
		return false, nil
	}
	return false, status.InvalidArgumentf("Unknown bad indices handling attribute: %s", policy)
}

func gatherPoints(ctx *kernels.Context, params, indices *tensor.Tensor, ignore bool) error {
	if params.Rank() == 0 {
		return status.InvalidArgumentf("params must be at least a vector")
	}
	if indices.Rank() == 0 {
		return status.InvalidArgumentf("indices must be at least a vector")
	}
	last := indices.Rank() - 1
	depth := indices.Dim(last)
	if depth > params.Rank() {
		return status.InvalidArgumentf("index innermost dimension length must be <= params rank; saw: %d vs. %d", depth, params.Rank())
	}
	shape := append(append(tensor.Shape(nil), indices.Shape()[:last]...), params.Shape()[depth:]...)
	rows := indices.Shape()[:last].Elements()
	if rows > 0 && params.Len() == 0 {
		return status.InvalidArgumentf("Requested more than 0 entries, but params is empty.  Params shape: %v", params.Shape())
	}
	if !params.OnHost() {
		return gatherPointsOn(ctx, params, indices, shape)
	}
	at, err := args.ReadIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	from, bad := shapes.Points(at.V, rows, params.Shape()[:depth])
	if bad >= 0 && !ignore {
		return status.InvalidArgumentf("indices%s = [%s] does not index into param shape %v, node name: %s",
			args.Position(indices.Shape()[:last], bad), spaced(at.V[bad*depth:(bad+1)*depth]), params.Shape(), ctx.Node.Name)
	}
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, params.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	slice := params.Shape()[depth:].Elements()
	if bad < 0 {
		return layout.MoveAt(ctx, out, params, nil, from, slice, rows)
	}
	layout.Zero(ctx, out)
	to, from := inside(from)
	return layout.MoveAt(ctx, out, params, to, from, slice, len(to))
}

// inside returns the rows whose index is valid, and those indices.
func inside(at []int64) (rows, points []int64) {
	for i, p := range at {
		if p >= 0 {
			rows, points = append(rows, int64(i)), append(points, p)
		}
	}
	return rows, points
}

// spaced joins values with spaces, as TensorFlow does for indices.
func spaced(values []int64) string {
	s := ""
	for i, v := range values {
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprint(v)
	}
	return s
}
