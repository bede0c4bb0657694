package actors

import (
	"context"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// IsSilent reports whether an op or a registered function has no outputs. It is false for unknown ones.
func (c *EagerContext) IsSilent(op *corepb.Operation) bool {
	if f := c.library.get(op.GetName()); f != nil {
		return len(f.own.given.GetSignature().GetOutputArg()) == 0
	}
	def, err := graph.LookupOp(op.GetName())
	return err == nil && len(def.GetOutputArg()) == 0
}

// Run runs an op or a function and waits for it. Its outputs become handles of the op's number, and the response has their shapes; if the
// number is negative, the response has the tensors instead. An op that waits, such as a dequeue, ends with ctx.
func (c *EagerContext) Run(ctx context.Context, op *corepb.Operation) (*corepb.QueueResponse, error) {
	device, err := c.device(op.GetDevice())
	if err != nil {
		return nil, err
	}
	call := &eagerCall{context: c, meet: c.own}
	defer call.end()
	inputs, err := call.inputs(op)
	if err != nil {
		return nil, err
	}
	defer kernels.ReleaseTensors(inputs)
	var outputs []*tensor.Tensor
	switch op.GetName() {
	case "_Send":
		if err = c.admit(device, op.GetName()); err == nil {
			err = c.send(op, inputs)
		}
	case "_Recv":
		if err = c.admit(device, op.GetName()); err == nil {
			outputs, err = c.recv(ctx, op)
		}
	default:
		outputs, err = call.execute(ctx, c.withPrivateTable(op), device, inputs)
	}
	if err != nil {
		return nil, err
	}
	r := &corepb.QueueResponse{}
	if op.GetIsFunction() {
		r.Device = make([]string, len(outputs)) // empty for the op's own device
		for i := range call.made {
			r.Device[i] = call.made[i].device
		}
	}
	at := make([]int32, len(outputs))
	for i := range at {
		at[i] = int32(i)
	}
	if r.Shape, r.Tensor, err = c.answer(op.GetId(), at, outputs, call.made); err != nil {
		call.disown(op)
		return nil, err
	}
	return r, nil
}

// answer makes outputs handles of an op and returns their shapes or, if the op's number is negative, returns the tensors. at are the outputs'
// numbers. It takes over the references. Outputs that are nil were made elsewhere, where they have their handles.
func (c *EagerContext) answer(op int64, at []int32, outputs []*tensor.Tensor, made []eagerOutput) (shapes []*shapepb.TensorShapeProto, tensors []*tensorpb.TensorProto, err error) {
	if op >= 0 {
		keys := make([]handleKey, 0, len(outputs))
		here := outputs[:0]
		for i, t := range outputs {
			if t == nil {
				shapes = append(shapes, made[i].shape)
				continue
			}
			keys, here = append(keys, handleKey{op, at[i]}), append(here, t)
			shapes = append(shapes, t.Shape().Proto())
		}
		return shapes, nil, c.put(keys, here)
	}
	defer func() { kernels.ReleaseTensors(outputs) }()
	for i := range outputs {
		t, err := c.names.forClient(outputs[i])
		outputs[i] = t
		var p *tensorpb.TensorProto
		if err == nil {
			p, err = t.Proto()
		}
		if err != nil {
			return nil, nil, err
		}
		tensors = append(tensors, p)
	}
	return nil, tensors, nil
}

// execute runs an op or a function as a step of the context's session and returns its outputs. The caller keeps the inputs.
func (r *eagerCall) execute(ctx context.Context, op *corepb.Operation, device string, inputs []*tensor.Tensor) (outputs []*tensor.Tensor, err error) {
	c, s := r.context, r.context.session
	if s.closed.Load() {
		return nil, errNoContext(c.id)
	}
	f := c.library.get(op.GetName())
	if f == nil {
		if _, unknown := graph.LookupOp(op.GetName()); unknown != nil {
			return nil, status.Errorf(status.NotFound, "'%s' is neither a type of a primitive operation nor a name of a function registered in binary running on %s. "+
				"Make sure the operation or function is registered in the binary running in this process.", op.GetName(), c.task.name)
		}
	}
	return r.run(ctx, op, f, device, inputs)
}

// run runs an op, or function f.
func (r *eagerCall) run(ctx context.Context, op *corepb.Operation, f *eagerFunction, device string, inputs []*tensor.Tensor) (outputs []*tensor.Tensor, err error) {
	s := r.context.session
	call := s.callOf(ctx, nil, nil)
	if call.span = s.beginRun(ctx); call.span != nil {
		defer func() { call.span.End(err) }()
	}
	p, err := r.instanceOf(&call, op, f, device, inputs)
	if err != nil {
		return nil, err
	}
	if p.main != nil {
		return r.runMain(call, p, op, inputs)
	}
	st := s.task.takeStep()
	st.eager = r
	st.feeds = append(st.feeds, inputs...)
	outputs = make([]*tensor.Tensor, len(p.pruned.Signature.Fetches))
	if _, err = s.run(st, call, p, p.pruned.Signature.Fetches, nil, outputs, nil); err != nil {
		return nil, r.kernelError(err)
	}
	return outputs, nil
}

// kernelError returns the error of a step as its client must see it: UNAVAILABLE means that a task was lost, so a kernel's own is INTERNAL, as
// in TensorFlow.
func (r *eagerCall) kernelError(err error) error {
	if e := status.From(err); e.Code == status.Unavailable && !r.lost.Load() && !isLostTask(err) && !r.context.session.closed.Load() {
		return status.Errorf(status.Internal, "%s", e.Message)
	}
	return err
}
