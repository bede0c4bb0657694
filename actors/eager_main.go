package actors

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels"
)

// An op or a function whose inputs, resources or nodes are on several tasks has a main: the task that the client sent it to. The main's
// instance is a plan of its own part, and a component function for each device of other tasks. These tasks run the components, and all
// parts exchange tensors under the number of the call, by TensorFlow's protocol: another task may be the client's own process.

// eagerMain is what a plan of a main has besides the main's own part.
type eagerMain struct {
	// feeds are the inputs of the op that the own part reads, and fetches the outputs that it makes, in its order.
	feeds, fetches []int
	outputs        int // of the op
	parts          []*eagerPart
}

// eagerPart is a part of a main that another task runs.
type eagerPart struct {
	device     string // the client's name
	function   *corepb.RegisterFunctionOp
	args, rets []int // the op's inputs and outputs that the component's are

	turn chan struct{} // held by the call that registers the function
	// Owned by the holder of turn.
	registered bool // with the other task
	tried      bool // the other task may have registered it: an error says nothing if it is one of the way there
}

func (p *eagerPart) name() string { return p.function.GetFunctionDef().GetSignature().GetName() }

// register registers the function with the part's task, if that has not been done. The other task may register it although the call is given up:
// the outcome is awaited even so, for backgroundTime, since remove must know it.
func (p *eagerPart) register(ctx context.Context, c *EagerContext) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
	if p.registered {
		<-p.turn
		return nil
	}
	done := make(chan error, 1)
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.task.background(func(life context.Context) {
		err := status.Internalf("the registration of component %s panicked", p.name()) // unless it does not
		defer func() {
			<-p.turn
			done <- err
		}()
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		defer context.AfterFunc(c.session.life, cancel)()
		p.tried = true
		err = c.enqueue(sending, p.device, &corepb.QueueItem{Item: &corepb.QueueItem_RegisterFunction{RegisterFunction: p.function}})
		p.registered = err == nil
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		time.AfterFunc(backgroundTime, cancel)
		return status.From(ctx.Err())
	}
}

// remove takes back the registration, once none is under way. One is enough: a task does not count those of a component. No call uses the part any more.
func (p *eagerPart) remove(c *EagerContext) {
	item, err := wire.RemoveFunction(p.name())
	if err != nil {
		c.task.Log.Warn("the registration of a component cannot be taken back", "component", p.name(), "error", err)
		return
	}
	c.later(2*backgroundTime, func(ctx context.Context) { // a registration that was given up may take the first half
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-p.turn }()
		if p.tried {
			c.execute(ctx, p.device, item)
		}
	})
}

// newFunctionStep returns a number for a call of a function over several tasks. It is negative, unlike the ids of contexts that clients use.
func newFunctionStep() int64 { return -1 - rand.Int64() }

// runMain runs an op or a function over several tasks. outputs are nil where r.made says that they stay elsewhere. The first error ends all
// parts and is the result. Every task that may have begun is asked to clean up.
func (r *eagerCall) runMain(call stepCall, p *plan, op *corepb.Operation, inputs []*tensor.Tensor) (outputs []*tensor.Tensor, err error) {
	c, m := r.context, p.main
	p.local.claim() // the components stay registered until all have ended
	defer p.local.release()
	if r.meet, err = c.task.eager.begin(newFunctionStep(), c); err != nil {
		p.local.release()
		return nil, err
	}
	defer c.task.eager.end(r.meet.id, c)
	ctx, cancel := call.bound(func() {})
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	defer context.AfterFunc(c.session.life, contain.Func(c.task.Log, "The end of "+op.GetName(), func() { fail(errNoContext(c.id)) }, fail))()
	r.made, r.kept = make([]eagerOutput, m.outputs), make([]string, m.outputs)
	var running sync.WaitGroup
	for _, part := range m.parts {
		running.Go(contain.Func(c.task.Log, "A component of "+op.GetName(), func() {
			if err := r.runPart(ctx, op, part); err != nil {
				fail(err)
			}
		}, fail))
	}
	call.ctx = ctx
	outputs, err = r.runOwn(call, p, inputs)
	if err != nil {
		fail(err)
	}
	running.Wait()
	for _, part := range m.parts {
		c.enqueueLater(part.device, &corepb.QueueItem{Item: &corepb.QueueItem_CleanupFunction{CleanupFunction: &corepb.CleanupFunctionOp{StepId: r.meet.id}}})
	}
	if ctx.Err() != nil {
		kernels.ReleaseTensors(outputs)
		r.disown(op)
		return nil, status.From(context.Cause(ctx))
	}
	return outputs, nil
}

// disown releases the outputs that other tasks keep for a call that has failed, or may keep: an answer may have been lost. The client knows of none.
func (r *eagerCall) disown(op *corepb.Operation) {
	kept := map[string][]*corepb.QueueItem{}
	for i, device := range r.kept {
		if device != "" {
			h := &corepb.RemoteTensorHandle{OpId: op.GetId(), OutputNum: int32(i), Device: device}
			kept[device] = append(kept[device], &corepb.QueueItem{Item: &corepb.QueueItem_HandleToDecref{HandleToDecref: h}})
		}
	}
	for device, items := range kept { // the first error ends a request, but a part keeps all of its outputs or none
		r.context.enqueueLater(device, items...)
	}
}

// runOwn runs the main's own part.
func (r *eagerCall) runOwn(call stepCall, p *plan, inputs []*tensor.Tensor) ([]*tensor.Tensor, error) {
	s, m := r.context.session, p.main
	st := s.task.takeStep()
	st.eager = r
	for _, i := range m.feeds {
		st.feeds = append(st.feeds, inputs[i])
	}
	made := make([]*tensor.Tensor, len(m.fetches))
	names := make([]string, len(m.fetches))
	for i, out := range m.fetches {
		names[i] = p.pruned.Signature.Fetches[out]
	}
	if _, err := s.run(st, call, p, names, nil, made, nil); err != nil {
		return nil, r.kernelError(err)
	}
	outputs := make([]*tensor.Tensor, m.outputs)
	for i, out := range m.fetches {
		outputs[out] = made[i]
	}
	return outputs, nil
}

// runPart has another task run its part.
func (r *eagerCall) runPart(ctx context.Context, op *corepb.Operation, part *eagerPart) error {
	c := r.context
	if err := part.register(ctx, c); err != nil {
		return err
	}
	address, err := c.peer(taskOf(part.device))
	if err != nil {
		return err
	}
	run := &corepb.Operation{Id: op.GetId(), Name: part.name(), Device: part.device, IsFunction: true, IsComponentFunction: true, FuncStepId: r.meet.id}
	for _, i := range part.args {
		run.OpInputs = append(run.OpInputs, &corepb.Operation_Input{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: r.away[i]}})
	}
	q := &corepb.RunComponentFunctionRequest{ContextId: c.id, Operation: run}
	for _, out := range part.rets {
		q.OutputNum = append(q.OutputNum, int32(out))
		r.kept[out] = part.device
	}
	a, err := c.task.EagerService.RunComponent(c.calling(ctx), address, part.device, q)
	if err != nil {
		return err
	}
	if len(a.GetShape()) != len(part.rets) {
		return status.Internalf("Component %s has %d outputs, but %s answered with the shapes of %d", part.name(), len(part.rets), part.device, len(a.GetShape()))
	}
	for i, out := range part.rets {
		r.made[out] = eagerOutput{part.device, a.GetShape()[i]}
	}
	return nil
}
