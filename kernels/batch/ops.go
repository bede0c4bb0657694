package batch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/calls"
)

// Kinds of the resources that steps share.
const (
	kindBatcher     = "BatchResource"
	kindUnbatcher   = "UnbatchResource"
	kindUnbatchGrad = "UnbatchGradResource"
)

// meeting finds the resource of an op that has no handle. Its name defaults to the node's name, so all sessions with such a node share the
// resource.
type meeting[R kernels.Deletable] struct {
	kind, container, name string
	resources             kernels.Resources
	create                func() (containers.Resource, error)
	found                 atomic.Pointer[R]
}

func newMeeting[R kernels.Deletable](c *kernels.Construction, kind string, create func() (R, error)) (*meeting[R], error) {
	container, name, err := kernels.Named(c)
	if err != nil {
		return nil, err
	}
	return &meeting[R]{kind: kind, container: container, name: name, resources: c.Device.Resources(),
		create: func() (containers.Resource, error) { return create() }}, nil
}

func (m *meeting[R]) get() (R, error) {
	if r := m.found.Load(); r != nil && !(*r).Deleted() {
		return *r, nil
	}
	var found R
	r, err := m.resources.LookupOrCreate(m.container, m.kind, m.name, m.create)
	if err != nil {
		return found, err
	}
	found, ok := r.(R)
	if !ok {
		return found, kernels.WrongResource(m.container, m.name, r, found)
	}
	m.found.Store(&found)
	return found, nil
}

func newBatch(c *kernels.Construction) (any, error) {
	options, err := readBatchOptions(c)
	if err != nil {
		return nil, err
	}
	if n := len(options.allowed); n > 0 && options.allowed[n-1] != options.maxBatch {
		return nil, status.InvalidArgumentf("final entry in allowed_batch_sizes must equal max_batch_size")
	}
	queue, err := c.Attrs().Str("batching_queue")
	if err != nil {
		return nil, err
	}
	where, err := newMeeting(c, kindBatcher, func() (*batcher, error) {
		if options.threads < 1 {
			return nil, status.InvalidArgumentf("num_batch_threads must be positive; was %d", options.threads)
		}
		return newBatcher(options)
	})
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		enterBatch(ctx, where, queue, len(ctx.Inputs), nil, done)
	}), nil
}

func newBatchFunction(c *kernels.Construction) (any, error) {
	options, err := readBatchOptions(c)
	if err != nil {
		return nil, err
	}
	split, err := c.Attrs().Bool("enable_large_batch_splitting")
	if err != nil {
		return nil, err
	}
	if n := len(options.allowed); n > 0 && !split && options.allowed[n-1] != options.maxBatch {
		return nil, status.InvalidArgumentf("final entry in allowed_batch_sizes must equal max_batch_size when enable_large_batch_splitting is False")
	}
	options.splits = split
	if options.threads < 1 {
		// TensorFlow adapts the number of concurrent batches, up to this many, and always splits large inputs.
		options.adaptive, options.splits, options.threads = true, true, 64
	}
	a := c.Attrs().Reader()
	padding, queue, in := a.Str("batch_padding_policy"), a.Str("batching_queue"), a.TypeList("Tin")
	captured := a.TypeList("Tcaptured")
	if err := a.Err(); err != nil {
		return nil, err
	}
	options.trims = padding == "BATCH_DOWN" && split && len(options.allowed) > 0
	for i, d := range in {
		if d == tensor.Resource {
			return nil, status.InvalidArgumentf("BatchFunction cannot take resource inputs but input %d is a resource.", i)
		}
	}
	fn, err := calls.FunctionAttr(c, "f")
	if err != nil {
		return nil, err
	}
	if have := len(in) + len(captured); fn.NumArgs() != have {
		return nil, status.InvalidArgumentf("Function takes %d argument(s) but %d argument(s) were passed", fn.NumArgs(), have)
	}
	where, err := newMeeting(c, kindBatcher, func() (*batcher, error) { return newBatcher(options) })
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) { enterBatch(ctx, where, queue, len(in), fn, done) }), nil
}

// readBatchOptions reads the attributes shared by Batch and BatchFunction.
func readBatchOptions(c *kernels.Construction) (batchOptions, error) {
	var o batchOptions
	var timeout int
	a := c.Attrs().Reader()
	for name, to := range map[string]*int{"num_batch_threads": &o.threads, "max_batch_size": &o.maxBatch,
		"max_enqueued_batches": &o.maxEnqueued, "batch_timeout_micros": &timeout} {
		*to = int(a.Int32(name))
	}
	o.timeout = time.Duration(timeout) * time.Microsecond
	allowed := a.IntList("allowed_batch_sizes")
	for i, size := range allowed {
		if i > 0 && size <= allowed[i-1] {
			a.Failf("allowed_batch_sizes entries must be monotonically increasing")
		}
		o.allowed = append(o.allowed, int(size))
	}
	return o, a.Err()
}

// enterBatch adds the first n inputs of a step to a batch. The other inputs, which are the same for the whole batch, are kept separately.
func enterBatch(ctx *kernels.Context, where *meeting[*batcher], queue string, n int, fn kernels.Function, done func(error)) {
	if err := checkBatchInputs(ctx, n); err != nil {
		done(err)
		return
	}
	b, err := where.get()
	if err != nil {
		done(err)
		return
	}
	if ctx.Input(0).Dim(0) == 0 {
		done(emptyOutputs(ctx))
		return
	}
	kernels.Wait(ctx, kernels.Awaited{Text: "its batch to be full, or computed"}, done, func(end func(error)) func(error) {
		r := &batchRequest{ctx: ctx, end: end, fn: fn, id: int64(rand.Uint64()), captured: calls.Arguments(ctx, n), parts: 1}
		t := &batchTask{batchRequest: r, size: ctx.Input(0).Dim(0)}
		for i := range n {
			t.inputs = append(t.inputs, ctx.Take(i))
		}
		b.schedule(queue, t)
		return func(cause error) { b.cancel(r, kernels.Cancelled(cause)) }
	})
}

func checkBatchInputs(ctx *kernels.Context, n int) error {
	if n == 0 {
		return status.InvalidArgumentf("%s needs an input tensor", ctx.Node.Op)
	}
	for i := range n {
		t := ctx.Input(i)
		if t.Rank() == 0 {
			return status.InvalidArgumentf("Batching input tensors must have at least one dimension.\nBelow are the input tensors: \n%s", shapesOfInputs(ctx, n))
		}
		if t.Dim(0) != ctx.Input(0).Dim(0) {
			return status.InvalidArgumentf("Batching input tensors supplied in a given op invocation must have equal 0th-dimension size.\n"+
				"Below are the input tensors: \n%s", shapesOfInputs(ctx, n))
		}
	}
	return nil
}

func shapesOfInputs(ctx *kernels.Context, n int) string {
	var b strings.Builder
	for i := range n {
		name := fmt.Sprint("input ", i)
		if i < len(ctx.Node.Inputs) {
			from := ctx.Node.Inputs[i]
			name = from.Node.Name
			if from.Index > 0 {
				name = fmt.Sprintf("%s:%d", name, from.Index)
			}
		}
		fmt.Fprintf(&b, " - %s has shape %v\n", name, ctx.Input(i).Shape())
	}
	return b.String()
}

// emptyOutputs sets the outputs of a step without rows, which does not enter a batch.
func emptyOutputs(ctx *kernels.Context) error {
	for i := range ctx.Outputs {
		t, err := tensor.Zeros(ctx.Device.Pool(), ctx.Node.OutTypes[i], tensor.Shape{0})
		if err != nil {
			return err
		}
		ctx.SetOutput(i, t)
	}
	return nil
}
