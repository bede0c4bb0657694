package actors

import (
	"context"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// RunComponent runs this task's part of a function that spreads over tasks, for the task that runs the function. The parts exchange
// tensors in a step of their own, which other tasks may already be waiting in. The outputs become handles of the function's op, under
// their numbers among its outputs; if the op's number is negative, the response has the tensors instead. What was sent in the step and not received
// stays until Cleanup, unless the part fails. A caller that has given up gets no handles.
func (c *EagerContext) RunComponent(ctx context.Context, m *corepb.RunComponentFunctionRequest) (_ *corepb.RunComponentFunctionResponse, err error) {
	op := m.GetOperation()
	if !op.GetIsComponentFunction() {
		return nil, status.InvalidArgumentf("%s is run as a component, but the request says that it is none", op.GetName())
	}
	device, err := c.device(op.GetDevice())
	if err != nil {
		return nil, err
	}
	call := &eagerCall{context: c}
	defer call.end()
	inputs, err := call.inputs(op)
	if err != nil {
		return nil, err
	}
	defer kernels.ReleaseTensors(inputs)
	if call.meet, err = c.task.eager.begin(op.GetFuncStepId(), c); err != nil {
		return nil, err
	}
	defer func() { c.task.eager.done(call.meet, err) }()
	outputs, err := call.execute(ctx, op, device, inputs)
	if err != nil {
		return nil, err
	}
	if op.GetId() >= 0 && len(m.GetOutputNum()) != len(outputs) {
		kernels.ReleaseTensors(outputs)
		return nil, status.InvalidArgumentf("Component %s has %d outputs, but the request has %d output numbers", op.GetName(), len(outputs), len(m.GetOutputNum()))
	}
	out := &corepb.RunComponentFunctionResponse{}
	if out.Shape, out.Tensor, err = c.answer(op.GetId(), m.GetOutputNum(), outputs, nil); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // only now: from here on, the handles are there when the caller releases what it got no answer about
		for _, output := range m.GetOutputNum() {
			c.release(handleKey{op.GetId(), output}) // unless the caller has; there are none for a negative number of the op
		}
		return nil, status.From(err)
	}
	return out, nil
}

// Cleanup ends a step of components: what was sent and not received is released. Unknown steps are ignored.
func (c *EagerContext) Cleanup(step int64) { c.task.eager.end(step, c) }
