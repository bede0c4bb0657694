package actors

import (
	"context"
	"errors"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// A function of a dataset may have captured a variable of a parameter server, or a table of the client's own process. Each call of it is
// then a call of a function over several tasks, whose main is the task of the dataset: see eagerMain.

// spreadFunction is a function that a kernel calls with resources of other tasks.
type spreadFunction struct {
	kernels.Function // on one device
	context          *EagerContext
	device           string
	call             *corepb.Operation
	function         *eagerFunction
}

// Spread implements devices.Spreader. The functions are the dataset's own: it may have come with some that the client has not registered
// here, or have outlived a registration. Equal ones, such as those of the next iterator, share their instances.
func (c *EagerContext) Spread(device string, ref *graph.FunctionRef, fn kernels.Function, defs map[string]*functionpb.FunctionDef) kernels.Function {
	f := &eagerFunction{library: map[string]localFunction{}, serial: c.library.serialOf(defs)}
	for name, def := range defs {
		local := c.names.local(c.names.given(def))
		if name == ref.Name {
			f.own = local
		} else {
			f.library[name] = local
		}
	}
	// A negative number asks for the outputs themselves.
	return &spreadFunction{fn, c, device, &corepb.Operation{Id: -1, Name: ref.Name, IsFunction: true, Attrs: ref.Attrs}, f}
}

// Call runs the function as a step of the context, which ends with the caller's.
func (f *spreadFunction) Call(step *kernels.Step, args []kernels.Value, done func([]kernels.Value, error)) {
	inputs := make([]*tensor.Tensor, len(args))
	for i, v := range args {
		inputs[i] = v.Tensor
	}
	fail := func(err error) { done(nil, err) }
	contain.Go(f.context.task.Log, "The function "+f.call.Name, func() {
		outputs, err := f.run(step, inputs)
		if err != nil {
			fail(err)
			return
		}
		results := make([]kernels.Value, len(outputs))
		for i, t := range outputs {
			results[i].Tensor = t
		}
		done(results, nil)
	}, fail)
}

// run takes over the inputs.
func (f *spreadFunction) run(step *kernels.Step, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	defer kernels.ReleaseTensors(inputs)
	if step.Depth > maxSpread {
		return nil, status.Errorf(status.ResourceExhausted, "Function %s: calls over several tasks are nested more than %d deep", f.call.Name, maxSpread)
	}
	ctx, cancel := context.WithCancelCause(f.context.session.life)
	defer cancel(nil)
	withdraw, ok := step.Cancellation.OnCancel(cancel)
	if !ok {
		return nil, kernels.Cancelled(step.Cancellation.Err())
	}
	defer withdraw()
	call := &eagerCall{context: f.context, meet: f.context.own, depth: step.Depth + 1}
	defer call.end()
	outputs, err := call.run(ctx, f.call, f.function, f.device, inputs)
	switch {
	case err == nil:
		return outputs, nil
	case step.Cancellation.Err() != nil:
		return nil, kernels.Cancelled(step.Cancellation.Err())
	case status.CodeOf(err) == status.Unavailable:
		return nil, status.Errorf(status.Unavailable, "%w", lostTask{err})
	}
	return nil, err
}

// maxSpread bounds the nesting of functions over several tasks that datasets call.
const maxSpread = 100

// lostTask is the cause of an error that is UNAVAILABLE because another task was lost.
type lostTask struct{ error }

func isLostTask(err error) bool { return errors.As(err, &lostTask{}) }

// given is the reverse of local for the devices of a function's nodes.
func (n names) given(def *functionpb.FunctionDef) *functionpb.FunctionDef {
	if n.client == n.own {
		return def
	}
	out := proto.CloneOf(def)
	for _, node := range out.NodeDef {
		node.Device = n.toClient(node.Device)
	}
	return out
}
