package batch

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/calls"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// endBatched ends requests whose parts are done or abandoned.
func endBatched(ended []*batchRequest) {
	for _, r := range ended {
		calls.ReleaseAll(r.captured)
		r.captured = nil
		if r.err == nil && r.fn != nil {
			r.err = r.compose()
		}
		for _, part := range r.outputs {
			kernels.ReleaseTensors(part)
		}
		r.outputs = nil
		r.end(r.err)
	}
}

// compose joins the outputs of the request's parts to its outputs.
func (r *batchRequest) compose() error {
	for o := range r.ctx.Outputs {
		var parts []*tensor.Tensor
		for _, part := range r.outputs {
			parts = append(parts, part[o])
		}
		joined, err := concatRows(r.ctx, parts, 0)
		if err != nil {
			return err
		}
		r.ctx.SetOutput(o, joined)
	}
	return nil
}

// inputsOf joins the inputs of a batch's tasks in the leader's memory, and pads them with the first row to an allowed size. It releases the
// tasks' own inputs.
func (b *batcher) inputsOf(g *gathering, leader *batchTask) (joined []*tensor.Tensor, err error) {
	defer func() {
		for _, t := range g.tasks {
			t.drop()
		}
		if err != nil {
			kernels.ReleaseTensors(joined)
			joined = nil
		}
	}()
	for _, t := range g.tasks {
		if len(t.inputs) != len(leader.inputs) {
			return nil, status.InvalidArgumentf("Batching inputs must have equal number of edges")
		}
	}
	for i := range leader.inputs {
		var parts []*tensor.Tensor
		for _, t := range g.tasks {
			parts = append(parts, t.inputs[i])
		}
		whole, err := concatRows(leader.ctx, parts, b.options.filled(g.size)-g.size)
		if err != nil {
			return joined, err
		}
		joined = append(joined, whole)
	}
	return joined, nil
}

// concatRows joins tensors along dimension 0, followed by the first row fill times.
func concatRows(ctx *kernels.Context, parts []*tensor.Tensor, fill int) (*tensor.Tensor, error) {
	first := parts[0]
	if len(parts) == 1 && fill == 0 {
		return first.Retain(), nil
	}
	rows := int64(fill)
	for i, p := range parts {
		switch {
		case p.DType() != first.DType():
			return nil, status.InvalidArgumentf("Types of all input tensors should match: input 0 is %v, input %d is %v", first.DType(), i, p.DType())
		case p.Rank() != first.Rank():
			return nil, status.InvalidArgumentf("Ranks of all input tensors should match: shape[0] = %v vs. shape[%d] = %v", first.Shape(), i, p.Shape())
		case p.Rank() == 0:
			return nil, status.InvalidArgumentf("Input tensors must have at least one dimension, but input %d is a scalar", i)
		case !p.Shape()[1:].Equal(first.Shape()[1:]):
			return nil, status.InvalidArgumentf("Dimensions of inputs should match: shape[0] = %v vs. shape[%d] = %v", first.Shape(), i, p.Shape())
		}
		rows += int64(p.Dim(0))
	}
	out, err := tensor.New(ctx.Device.Pool(), first.DType(), shapes.Replaced(first.Shape(), 0, 1, rows))
	if err != nil || out.Len() == 0 {
		return out, err
	}
	at := 0
	for _, p := range parts {
		if p.Len() > 0 {
			layout.Move(ctx, out, p, layout.NewNest([]int{p.Len()}, []int{1}, []int{1}, at, 0))
			at += p.Len()
		}
	}
	if row := out.Len() / out.Dim(0); fill > 0 && row > 0 {
		layout.Move(ctx, out, first, layout.NewNest([]int{fill, row}, []int{row, 1}, []int{0, 1}, at, 0))
	}
	return out, nil
}

// emit outputs a batch to the last of its steps and empty tensors to the others, together with their number.
func (b *batcher) emit(g *gathering, last *batchTask) []*batchRequest {
	joined, err := b.inputsOf(g, last)
	var ended []*batchRequest
	b.mu.Lock()
	for _, t := range g.tasks {
		switch {
		case t.over:
		case err != nil:
			t.fail(err)
		default:
			t.err = t.emit(g, joined, t == last)
		}
		ended = t.less(ended)
	}
	b.mu.Unlock()
	kernels.ReleaseTensors(joined)
	return ended
}

// emit sets the outputs of a Batch: the batch, the position of each task's rows in it, and the task's number.
func (t *batchTask) emit(g *gathering, joined []*tensor.Tensor, last bool) error {
	n := len(joined)
	if len(t.ctx.Outputs) != n+2 {
		return status.Internalf("%s has %d inputs and %d outputs", t.ctx.Node.Name, n, len(t.ctx.Outputs))
	}
	index, err := tensor.New(t.ctx.Device.Pool(), tensor.Int64, tensor.Shape{0, 3})
	if last && err == nil {
		index, err = tensor.New(t.ctx.Device.Pool(), tensor.Int64, tensor.Shape{int64(len(g.tasks)), 3})
	}
	if err != nil {
		return err
	}
	t.ctx.SetOutput(n, index)
	t.ctx.SetOutput(n+1, tensor.Scalar(tensor.Int64, t.id))
	if last {
		values := tensor.Of[int64](index)[:0]
		at := 0
		for _, other := range g.tasks {
			values = append(values, other.id, int64(at), int64(at+other.size))
			at += other.size
		}
	}
	for i, whole := range joined {
		if last {
			t.ctx.SetOutput(i, whole.Retain())
			continue
		}
		empty, err := tensor.New(t.ctx.Device.Pool(), whole.DType(), shapes.Replaced(whole.Shape(), 0, 1, 0))
		if err != nil {
			return err
		}
		t.ctx.SetOutput(i, empty)
	}
	return nil
}

// call runs a batch's function in the step of the last of its tasks.
func (b *batcher) call(g *gathering, leader *batchTask) {
	joined, err := b.inputsOf(g, leader)
	if err != nil {
		b.called(g, leader, nil, err)
		return
	}
	args := make([]kernels.Value, 0, len(joined)+len(leader.captured))
	for _, t := range joined {
		args = append(args, kernels.Value{Tensor: t})
	}
	for _, v := range leader.captured {
		if v.Tensor != nil {
			v.Tensor.Retain()
		}
		args = append(args, v)
	}
	leader.fn.Call(leader.ctx.Step, args, func(results []kernels.Value, err error) { b.called(g, leader, results, err) })
}

// called distributes a batch's results among its tasks.
func (b *batcher) called(g *gathering, leader *batchTask, results []kernels.Value, err error) {
	defer calls.ReleaseAll(results)
	if err == nil {
		err = b.checkResults(g, leader, results)
	}
	ofOthers := err
	if err != nil && status.From(err).Derived {
		// For the other steps, the cancellation of the leader's step is the cause of failure, not an error of their own.
		ofOthers = status.Errorf(status.Cancelled, "The step that ran the batch was cancelled: %v", err)
	}
	var ended []*batchRequest
	at := 0
	b.mu.Lock()
	for _, t := range g.tasks {
		switch {
		case t.over:
		case err != nil && t.batchRequest == leader.batchRequest:
			t.err = err // rather than the cancellation of its step, which this error may have caused
		case err != nil:
			t.fail(ofOthers)
		default:
			for _, r := range results {
				t.outputs[t.part] = append(t.outputs[t.part], r.Tensor.Rows(at, at+t.size))
			}
		}
		at += t.size
		ended = t.less(ended)
	}
	b.mu.Unlock()
	b.ran(leader)
	endBatched(ended)
	b.drain()
}

// checkResults checks that a function returned one row for each row of the batch.
func (b *batcher) checkResults(g *gathering, leader *batchTask, results []kernels.Value) error {
	if len(results) != len(leader.ctx.Outputs) {
		return status.Internalf("Wrong number of batched output tensors")
	}
	want := b.options.filled(g.size)
	for i, r := range results {
		switch {
		case r.Tensor == nil || r.Tensor.DType() != leader.ctx.Node.OutTypes[i]:
			return status.Internalf("Expect %d-th output to be a tensor of type %v", i, leader.ctx.Node.OutTypes[i])
		case r.Tensor.Rank() == 0:
			return status.Errorf(status.FailedPrecondition, "Batched output tensor has 0 dimensions")
		case r.Tensor.Dim(0) != want:
			return status.Errorf(status.FailedPrecondition, "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes "+
				"of the input tensors. 0th dimension size: %d; batch size: %d; unbatched tasks size: 0; padding size: %d", r.Tensor.Dim(0), g.size, want-g.size)
		}
	}
	return nil
}
