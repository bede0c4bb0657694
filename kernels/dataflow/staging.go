package dataflow

import (
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/containers/staging"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// stagingArea finds the area that a staging op names. Any of its ops creates it, with its own limits.
type stagingArea[R kernels.Deletable] struct {
	kind, container, name string
	create                func() R
}

// newStagingArea reads the attributes that all staging ops have.
func newStagingArea[R kernels.Deletable](c *kernels.Construction, kind string, create func(name string, limits staging.Limits) R) (*stagingArea[R], error) {
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	var limits staging.Limits
	if limits.Capacity, err = c.Attrs().Int("capacity"); err != nil {
		return nil, err
	}
	if limits.Bytes, err = c.Attrs().Int("memory_limit"); err != nil {
		return nil, err
	}
	return &stagingArea[R]{kind, container, name, func() R { return create(name, limits) }}, nil
}

func (s *stagingArea[R]) find(ctx *kernels.Context) (R, error) {
	var found R
	r, err := ctx.Device.Resources().LookupOrCreate(s.container, s.kind, s.name, func() (containers.Resource, error) { return s.create(), nil })
	if err != nil {
		return found, err
	}
	found, ok := r.(R)
	if !ok {
		return found, kernels.WrongResource(s.container, s.name, r, found)
	}
	return found, nil
}

// stagingOp is the kernel of an op on a staging area that may wait.
type stagingOp[R kernels.Deletable] struct {
	area  *stagingArea[R]
	use   kernels.Use
	keyed bool // the first input is the key of a tuple to take
	start func(ctx *kernels.Context, r R, end func(error)) (cancel func(error))
}

// newStagingOp returns the kernel of a node.
func newStagingOp[R kernels.Deletable](c *kernels.Construction, area *stagingArea[R], keyed bool, start func(*kernels.Context, R, func(error)) func(error)) *stagingOp[R] {
	use, _ := kernels.UseOf(c.Node.Op) // other ops do not wait
	if area.container == "" {
		area.container = c.Device.Resources().DefaultContainer()
	}
	return &stagingOp[R]{area: area, use: use, keyed: keyed, start: start}
}

// ComputeAsync finds the area and starts the op's operation on it.
func (k *stagingOp[R]) ComputeAsync(ctx *kernels.Context, done func(error)) {
	r, err := k.area.find(ctx)
	if err != nil {
		done(err)
		return
	}
	on := kernels.Awaited{Resource: r, Verb: k.use.Verb}
	if k.keyed {
		if key := ctx.Input(0); key.DType() == tensor.Int64 && key.Len() == 1 {
			on.Text = "key " + strconv.FormatInt(tensor.Of[int64](key)[0], 10)
		}
	}
	kernels.Wait(ctx, on, done, func(end func(error)) func(error) { return k.start(ctx, r, end) })
}

// ResourceName returns the area's kind, container and name.
func (k *stagingOp[R]) ResourceName() (kind, container, name string) {
	return k.area.kind, k.area.container, k.area.name
}

// bufferOp returns the constructor of an op on a buffer that may wait.
func bufferOp(start func(ctx *kernels.Context, b *staging.Buffer, end func(error)) (cancel func(error))) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		area, err := newStagingArea(c, kernels.KindBuffer, staging.NewBuffer)
		if err != nil {
			return nil, err
		}
		return newStagingOp(c, area, false, start), nil
	}
}

// noting returns a function that ends an operation. If it succeeded, it first records the step that performed it.
func noting(ctx *kernels.Context, note func(by kernels.Origin), end func(error)) func(error) {
	by := ctx.Step.Origin
	return func(err error) {
		if err == nil {
			note(by)
		}
		end(err)
	}
}

// atOnce adapts an op that does not wait to the form of one that may.
func atOnce[R any](f func(ctx *kernels.Context, r R) error) func(*kernels.Context, R, func(error)) func(error) {
	return func(ctx *kernels.Context, r R, end func(error)) func(error) {
		end(f(ctx, r))
		return func(error) {}
	}
}

func stage(ctx *kernels.Context, b *staging.Buffer, end func(error)) func(error) {
	tuple := make([]*tensor.Tensor, ctx.NumInputs())
	for i := range tuple {
		tuple[i] = ctx.Take(i)
	}
	return b.Put(ctx.Step.Cancellation, ctx.Changes(), tuple, noting(ctx, b.HasPut, end))
}

func unstage(ctx *kernels.Context, b *staging.Buffer, end func(error)) func(error) {
	return b.Get(ctx.Step.Cancellation, ctx.Changes(), staged(ctx, noting(ctx, b.HasTaken, end)))
}

func stagePeek(ctx *kernels.Context, b *staging.Buffer, end func(error)) func(error) {
	err := error(nil)
	if ctx.Input(0).Rank() != 0 {
		err = status.InvalidArgumentf("index must be scalar")
	}
	index := 0
	if err == nil {
		index, err = args.ScalarInput32(ctx, 0, "")
	}
	if err != nil {
		end(err)
		return func(error) {}
	}
	return b.Peek(ctx.Step.Cancellation, index, staged(ctx, end))
}

// staged sets the outputs to a tuple taken from a buffer.
func staged(ctx *kernels.Context, end func(error)) func([]*tensor.Tensor, error) {
	return func(tuple []*tensor.Tensor, err error) {
		if err == nil && len(tuple) != len(ctx.Outputs) {
			err = status.InvalidArgumentf("Mismatch stage/unstage: %d vs. %d", len(tuple), len(ctx.Outputs))
		}
		end(setTuple(ctx, 0, tuple, err))
	}
}

// setTuple sets the outputs, starting at from, to the tuple, unless there is an error. An area may hold other types than the op declares;
// that is an error in the client's program.
func setTuple(ctx *kernels.Context, from int, tuple []*tensor.Tensor, err error) error {
	for i, t := range tuple {
		if want := ctx.Node.OutTypes[min(from+i, len(ctx.Node.OutTypes)-1)]; err == nil && t.DType() != want {
			err = status.Internalf("Output %d of type %v does not match declared output type %v for node {{node %s}}", from+i, t.DType(), want, ctx.Node.Name)
		}
	}
	for i, t := range tuple {
		if err != nil {
			t.Release()
		} else {
			ctx.SetOutput(from+i, t)
		}
	}
	return err
}

func stageClear(ctx *kernels.Context, b *staging.Buffer, end func(error)) func(error) {
	return b.Clear(ctx.Step.Cancellation, ctx.Changes(), end)
}

func stageSize(ctx *kernels.Context, b *staging.Buffer) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(b.Size())))
	return nil
}

// mapOp returns the constructor of an op on a map that may wait.
func mapOp(ordered bool, start func(ctx *kernels.Context, m *staging.Map, end func(error)) (cancel func(error))) func(*kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		dtypes, err := c.Attrs().TypeList("dtypes")
		if err != nil {
			return nil, err
		}
		kind := kernels.KindMap
		if ordered {
			kind = kernels.KindOrderedMap
		}
		area, err := newStagingArea(c, kind, func(name string, limits staging.Limits) *staging.Map {
			return staging.NewMap(name, len(dtypes), ordered, limits)
		})
		if err != nil {
			return nil, err
		}
		keyed := strings.HasSuffix(c.Node.Op, "MapUnstage") || strings.HasSuffix(c.Node.Op, "MapPeek")
		return newStagingOp(c, area, keyed, start), nil
	}
}

// mapInputs reads the key at input 0, if the op has one, and the indices after it.
func mapInputs(ctx *kernels.Context, key bool) (id int64, indices []int32, err error) {
	i := 0
	if key {
		if err := args.NeedScalar(ctx.Input(0), tensor.Int64, "key must be an int64 scalar: %v"); err != nil {
			return 0, nil, err
		}
		id, i = tensor.Of[int64](ctx.Input(0))[0], 1
	}
	indices, err = mapIndices(ctx, i)
	return id, indices, err
}

func mapIndices(ctx *kernels.Context, i int) ([]int32, error) {
	if err := args.CheckType(ctx, i, tensor.Int32); err != nil {
		return nil, err
	}
	return slices.Clone(tensor.Of[int32](ctx.Input(i))), nil
}

func mapStage(ctx *kernels.Context, m *staging.Map, end func(error)) func(error) {
	indices, err := mapIndices(ctx, 1)
	key := ctx.Input(0)
	switch {
	case err != nil:
	case key.DType() != tensor.Int64:
		err = args.CheckType(ctx, 0, tensor.Int64)
	case key.Len() == 0:
		err = status.InvalidArgumentf("key must not be empty")
	case key.Len() != 1:
		err = status.InvalidArgumentf("key must be an int64 scalar, got tensor with shape: %v", key.Shape())
	}
	if err != nil {
		end(err)
		return func(error) {}
	}
	values := make([]*tensor.Tensor, ctx.NumInputs()-2)
	for i := range values {
		values[i] = ctx.Take(i + 2)
	}
	return m.Put(ctx.Step.Cancellation, ctx.Changes(), ctx.Take(0), indices, values, noting(ctx, m.HasPut, end))
}

func mapUnstage(ctx *kernels.Context, m *staging.Map, end func(error)) func(error) {
	return mapTake(ctx, m, true, noting(ctx, m.HasTaken, end))
}

func mapPeek(ctx *kernels.Context, m *staging.Map, end func(error)) func(error) {
	return mapTake(ctx, m, false, end)
}

func mapTake(ctx *kernels.Context, m *staging.Map, remove bool, end func(error)) func(error) {
	key, indices, err := mapInputs(ctx, true)
	if err == nil {
		err = asManyOutputs(indices, len(ctx.Outputs))
	}
	if err != nil {
		end(err)
		return func(error) {}
	}
	done := func(tuple []*tensor.Tensor, err error) { end(setTuple(ctx, 0, tuple, err)) }
	if remove {
		return m.Take(ctx.Step.Cancellation, ctx.Changes(), key, indices, done)
	}
	return m.Peek(ctx.Step.Cancellation, key, indices, done)
}

func mapUnstageNoKey(ctx *kernels.Context, m *staging.Map, end func(error)) func(error) {
	end = noting(ctx, m.HasTaken, end)
	_, indices, err := mapInputs(ctx, false)
	if err == nil {
		err = asManyOutputs(indices, len(ctx.Outputs)-1)
	}
	if err != nil {
		end(err)
		return func(error) {}
	}
	return m.TakeAny(ctx.Step.Cancellation, ctx.Changes(), indices, func(key *tensor.Tensor, tuple []*tensor.Tensor, err error) {
		if err = setTuple(ctx, 1, tuple, err); err == nil {
			ctx.SetOutput(0, key)
		} else if key != nil {
			key.Release()
		}
		end(err)
	})
}

// asManyOutputs checks that the op has one output per index, before anything is taken from the map.
func asManyOutputs(indices []int32, outputs int) error {
	if len(indices) > 0 && len(indices) != outputs {
		return status.InvalidArgumentf("output/indices size mismatch: %d vs. %d", outputs, len(indices))
	}
	return nil
}

func mapClear(ctx *kernels.Context, m *staging.Map, end func(error)) func(error) {
	return m.Clear(ctx.Step.Cancellation, ctx.Changes(), end)
}

func mapSize(ctx *kernels.Context, m *staging.Map) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(m.Size())))
	return nil
}

func mapIncompleteSize(ctx *kernels.Context, m *staging.Map) error {
	ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(m.IncompleteSize())))
	return nil
}
