package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/internal/extent"
)

// The eager contexts of the client with few rights: it runs its random graphs as functions in a context of its own, and reaches for bob's
// context, whose numbers and names it knows: his handles, functions, sends, steps and the container of his anonymous iterator.

const (
	enqueueMethod   = "/tensorflow.eager.EagerService/Enqueue"
	streamMethod    = "/tensorflow.eager.EagerService/StreamingEnqueue"
	componentMethod = "/tensorflow.eager.EagerService/RunComponentFunction"
	recvMethod      = "/tensorflow.WorkerService/RecvTensor"
)

// eagerBob is bob's eager context on the first task.
type eagerBob struct {
	id        uint64
	step      int64 // of a component that sends
	numbers   []int64
	anonymous *tensorpb.TensorProto // the handle of his iterator
	own, part string                // the rendezvous keys of what the context and the component send
	taken     int64                 // elements of the iterator
}

// The ops of bob's context, by number.
const (
	bobsNumber = 1 + iota
	bobsSend
	bobsRange
	bobsIterator
	bobsMake
)

func item(op *corepb.Operation) *corepb.QueueItem {
	return &corepb.QueueItem{Item: &corepb.QueueItem_Operation{Operation: op}}
}

func registering(f *functionpb.FunctionDef) *corepb.QueueItem {
	return &corepb.QueueItem{Item: &corepb.QueueItem_RegisterFunction{RegisterFunction: &corepb.RegisterFunctionOp{FunctionDef: f, IsComponentFunction: true}}}
}

func handleInput(op int64) *corepb.Operation_Input {
	return &corepb.Operation_Input{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: &corepb.RemoteTensorHandle{OpId: op, Device: cpu0, OpDevice: cpu0}}}
}

func tensorInput(t *tensorpb.TensorProto) *corepb.Operation_Input {
	return &corepb.Operation_Input{Item: &corepb.Operation_Input_Tensor{Tensor: t}}
}

func number(n int64) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: int64Type, TensorShape: shapeProto(nil), Int64Val: []int64{n}}
}

// transfer returns the attributes of a _Send or _Recv on the first device.
func transfer(name string, incarnation uint64) map[string]*attrpb.AttrValue {
	return map[string]*attrpb.AttrValue{"tensor_name": text(name), "send_device": text(cpu0), "recv_device": text(cpu0), "T": dtype(int64Type), "tensor_type": dtype(int64Type),
		"send_device_incarnation": {Value: &attrpb.AttrValue_I{I: int64(incarnation)}}, "client_terminated": {Value: &attrpb.AttrValue_B{}}}
}

func keyOfTransfer(name string, incarnation uint64) string {
	return fmt.Sprintf("%s;%016x;%s;%s;0:0", cpu0, incarnation, cpu0, name)
}

// only returns the attributes of an op without those that it lacks.
func only(op string, all map[string]*attrpb.AttrValue) map[string]*attrpb.AttrValue {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(name string, _ *attrpb.AttrValue) bool { return !hasAttr(opDef(op), name) })
	return all
}

// oneResult is a function that returns the output of its last node; without an output, it returns nothing.
func oneResult(name, output string, nodes ...*nodepb.NodeDef) *functionpb.FunctionDef {
	f := &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: name, IsStateful: true}, NodeDef: nodes}
	if output != "" {
		f.Signature.OutputArg = []*oppb.OpDef_ArgDef{{Name: "r", Type: int64Type}}
		f.Ret = map[string]string{"r": nodes[len(nodes)-1].Name + ":" + output + ":0"}
	}
	return f
}

func constantNode(name string, t *tensorpb.TensorProto) *nodepb.NodeDef {
	return &nodepb.NodeDef{Name: name, Op: "Const", Attr: map[string]*attrpb.AttrValue{"dtype": dtype(t.Dtype), "value": {Value: &attrpb.AttrValue_Tensor{Tensor: t}}}}
}

// asBob makes a call that must succeed.
func (v *vaults) asBob(method string, q, a proto.Message) {
	v.t.Helper()
	if err := v.call("bob", method, q, a); err != nil {
		v.t.Fatalf("bob's %s: %v\n%.2000v", method, err, q)
	}
}

func (v *vaults) enqueueAsBob(items ...*corepb.QueueItem) {
	v.t.Helper()
	for _, one := range items {
		v.asBob(enqueueMethod, &corepb.EnqueueRequest{ContextId: v.eager.id, Queue: []*corepb.QueueItem{one}}, &corepb.EnqueueResponse{})
	}
}

// described is the cluster of a context.
func (v *vaults) described() *corepb.ServerDef {
	return &corepb.ServerDef{JobName: "w", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: v.addresses}}},
		DefaultSessionConfig: &corepb.ConfigProto{OperationTimeoutInMs: 300}}
}

// openContext has bob make his context.
func (v *vaults) openContext() {
	v.t.Helper()
	e := v.eager
	e.taken = 0
	v.asBob("/tensorflow.eager.EagerService/CloseContext", &corepb.CloseContextRequest{ContextId: e.id, ContextViewId: 1 << 40}, &corepb.CloseContextResponse{})
	v.asBob("/tensorflow.eager.EagerService/CreateContext", &corepb.CreateContextRequest{ContextId: e.id, ServerDef: v.described(), KeepAliveSecs: 3600}, &corepb.CreateContextResponse{})
	_, incarnation, err := v.as("bob").status()
	if err != nil {
		v.t.Fatal(err)
	}
	e.own, e.part = keyOfTransfer("bobs", incarnation), keyOfTransfer("parts", incarnation)
	typed := map[string]*attrpb.AttrValue{"output_types": attribute("", types{int64Type}), "output_shapes": attribute("", shapes{nil})}
	v.enqueueAsBob(
		&corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: bobsNumber, DeviceName: cpu0, Tensors: []*tensorpb.TensorProto{number(e.numbers[0])}}}},
		registering(oneResult("BobsGive", "output", constantNode("c", number(e.numbers[1])))),
		registering(oneResult("BobsPart", "", constantNode("c", number(e.numbers[2])),
			&nodepb.NodeDef{Name: "s", Op: "_Send", Input: []string{"c:output:0"}, Device: cpu0, Attr: only("_Send", transfer("parts", incarnation))})),
		v.sending(incarnation),
		item(&corepb.Operation{Id: bobsRange, Name: "RangeDataset", Device: cpu0, Attrs: typed,
			OpInputs: []*corepb.Operation_Input{tensorInput(number(e.numbers[3])), tensorInput(number(e.numbers[3] + 1<<20)), tensorInput(number(1))}}),
		item(&corepb.Operation{Id: bobsIterator, Name: "AnonymousIteratorV3", Device: cpu0, Attrs: typed}),
		item(&corepb.Operation{Id: bobsMake, Name: "MakeIterator", Device: cpu0, OpInputs: []*corepb.Operation_Input{handleInput(bobsRange), handleInput(bobsIterator)}}),
	)
	var got corepb.EnqueueResponse
	v.asBob(enqueueMethod, &corepb.EnqueueRequest{ContextId: e.id, Queue: []*corepb.QueueItem{
		item(&corepb.Operation{Id: -1, Name: "Identity", Device: cpu0, OpInputs: []*corepb.Operation_Input{handleInput(bobsIterator)}})}}, &got)
	e.anonymous = got.QueueResponse[0].Tensor[0]
	v.beginPart()
}

// sending has bob's context send what is behind his handle.
func (v *vaults) sending(incarnation uint64) *corepb.QueueItem {
	return item(&corepb.Operation{Id: bobsSend, Name: "_Send", Device: cpu0, OpInputs: []*corepb.Operation_Input{handleInput(bobsNumber)}, Attrs: only("_Send", transfer("bobs", incarnation))})
}

// beginPart begins a step of components, in which one has sent a number.
func (v *vaults) beginPart() {
	v.t.Helper()
	v.eager.step--
	v.asBob(componentMethod, &corepb.RunComponentFunctionRequest{ContextId: v.eager.id,
		Operation: &corepb.Operation{Id: -1, Name: "BobsPart", IsFunction: true, IsComponentFunction: true, FuncStepId: v.eager.step, Device: cpu0}}, &corepb.RunComponentFunctionResponse{})
}

// probe returns what bob finds in his context. What it takes is put back.
func (v *vaults) probe() map[string]string {
	v.t.Helper()
	e := v.eager
	all := map[string]string{}
	get := func(what, method string, q, a proto.Message) {
		ctx, cancel := context.WithTimeout(v.t.Context(), extent.Slack(3*time.Second)) // all is there
		defer cancel()
		if err := v.callIn(ctx, "bob", method, q, a); err != nil {
			all[what] = err.Error()
			return
		}
		if r, ok := a.(*corepb.RecvTensorResponse); ok {
			r.SendStartMicros = 0
		}
		all[what] = fmt.Sprint(a)
	}
	run := func(what string, op *corepb.Operation) {
		op.Id, op.Device = -1, cpu0
		get(what, enqueueMethod, &corepb.EnqueueRequest{ContextId: e.id, Queue: []*corepb.QueueItem{item(op)}}, &corepb.EnqueueResponse{})
	}
	run("a handle of bob's", &corepb.Operation{Name: "Identity", OpInputs: []*corepb.Operation_Input{handleInput(bobsNumber)}})
	run("a function of bob's", &corepb.Operation{Name: "BobsGive", IsFunction: true})
	get("a send of bob's", recvMethod, &corepb.RecvTensorRequest{StepId: int64(e.id), RendezvousKey: e.own}, &corepb.RecvTensorResponse{})
	get("a send of bob's component", recvMethod, &corepb.RecvTensorRequest{StepId: e.step, RendezvousKey: e.part}, &corepb.RecvTensorResponse{})
	var got corepb.EnqueueResponse
	err := v.call("bob", enqueueMethod, &corepb.EnqueueRequest{ContextId: e.id, Queue: []*corepb.QueueItem{item(&corepb.Operation{Id: -1, Name: "IteratorGetNext", Device: cpu0,
		OpInputs: []*corepb.Operation_Input{handleInput(bobsIterator)}, Attrs: map[string]*attrpb.AttrValue{"output_types": attribute("", types{int64Type}), "output_shapes": attribute("", shapes{nil})}})}}, &got)
	all["bob's iterator"] = fmt.Sprint(err)
	if err == nil {
		n, _ := protowire.ConsumeFixed64(got.QueueResponse[0].Tensor[0].GetTensorContent())
		if list := got.QueueResponse[0].Tensor[0].GetInt64Val(); len(list) > 0 {
			n = uint64(list[0])
		}
		all["bob's iterator"] = fmt.Sprint(int64(n) - e.numbers[3] - e.taken)
		e.taken++
	}
	var alive corepb.KeepAliveResponse
	get("the view of bob's context", "/tensorflow.eager.EagerService/KeepAlive", &corepb.KeepAliveRequest{ContextId: e.id}, &alive)
	if _, incarnation, err := v.as("bob").status(); err == nil {
		_ = v.call("bob", enqueueMethod, &corepb.EnqueueRequest{ContextId: e.id, Queue: []*corepb.QueueItem{v.sending(incarnation)}}, &corepb.EnqueueResponse{}) // the next probe finds what is missing
	}
	cleanup := &corepb.QueueItem{Item: &corepb.QueueItem_CleanupFunction{CleanupFunction: &corepb.CleanupFunctionOp{StepId: e.step}}}
	if v.call("bob", enqueueMethod, &corepb.EnqueueRequest{ContextId: e.id, Queue: []*corepb.QueueItem{cleanup}}, &corepb.EnqueueResponse{}) == nil {
		e.step--
		_ = v.call("bob", componentMethod, &corepb.RunComponentFunctionRequest{ContextId: e.id,
			Operation: &corepb.Operation{Id: -1, Name: "BobsPart", IsFunction: true, IsComponentFunction: true, FuncStepId: e.step, Device: cpu0}}, &corepb.RunComponentFunctionResponse{}) // likewise
	}
	return all
}

// contextWays are what alice tries in a context: her own, or bob's.
var contextWays = []way[func(a *intruder, b *block, context uint64)]{
	{"a graph as a function", func(a *intruder, b *block, context uint64) {
		f, _ := b.function(nil, func(b *block, _ []output) []output {
			got := plain(b.attempt(1))
			for i, o := range got {
				if o.ref {
					got[i] = b.first("Identity", values{"T": o.dtype}, o)
				}
			}
			return got
		})
		for _, one := range b.functions {
			a.enqueue(b.said, context, registering(one))
		}
		a.operate(b.said, context, &corepb.Operation{Name: string(f), IsFunction: true, Device: pick(a.Rand, "", cpu0, b.device)})
	}},
	{"an op", func(a *intruder, b *block, context uint64) {
		def := pick(a.Rand, resourceOps...)
		if op := readers[b.aim.kind]; op != "" && a.IntN(2) == 0 {
			def = opDef(op)
		}
		handle := b.forged()
		if a.IntN(4) == 0 {
			handle, def = a.eager.anonymous, opDef("IteratorGetNext")
		}
		op := &corepb.Operation{Name: def.Name, Device: pick(a.Rand, "", cpu0, b.device), Attrs: map[string]*attrpb.AttrValue{}}
		v := b.anyValues(def, values{"output_types": types{int64Type}, "output_shapes": shapes{nil}})
		for _, d := range def.Attr {
			if given, ok := v[d.Name]; ok {
				op.Attrs[d.Name] = attribute(d.Type, given)
			}
		}
		for _, arg := range def.InputArg {
			for _, t := range argTypes(arg, def, v) {
				op.OpInputs = append(op.OpInputs, a.input(b, t, handle, context))
			}
		}
		for _, f := range b.functions {
			a.enqueue(b.said, context, registering(f))
		}
		a.operate(b.said, context, op)
	}},
	{"a handle", func(a *intruder, b *block, context uint64) {
		a.operate(b.said, context, &corepb.Operation{Name: pick(a.Rand, "Identity", "Identity", "IteratorToStringHandle", "Shape"), Device: pick(a.Rand, "", cpu0),
			OpInputs: []*corepb.Operation_Input{handleInput(pick[int64](a.Rand, bobsNumber, bobsNumber, bobsRange, bobsIterator))}})
	}},
	{"a function of the context", func(a *intruder, b *block, context uint64) {
		a.operate(b.said, context, &corepb.Operation{Name: pick(a.Rand, "BobsGive", "BobsGive", "BobsPart"), IsFunction: true, Device: pick(a.Rand, "", cpu0)})
	}},
	{"RecvTensor", func(a *intruder, b *block, context uint64) {
		a.ask(b.said, recvMethod, &corepb.RecvTensorRequest{StepId: pick(a.Rand, int64(context), a.eager.step, int64(a.eager.id), -3), RendezvousKey: pick(a.Rand, a.eager.own, a.eager.part),
			RequestId: a.Int64()}, &corepb.RecvTensorResponse{})
	}},
	{"_Recv", func(a *intruder, b *block, context uint64) {
		incarnation := a.incarnation
		a.operate(b.said, context, &corepb.Operation{Name: "_Recv", Device: cpu0, Attrs: only("_Recv", transfer(pick(a.Rand, "bobs", "parts"), incarnation))})
	}},
	{"a component", func(a *intruder, b *block, context uint64) {
		name := fmt.Sprint("Take", b.count, a.Uint32())
		recv := &nodepb.NodeDef{Name: "r", Op: "_Recv", Device: cpu0, Attr: only("_Recv", transfer(pick(a.Rand, "bobs", "parts"), a.incarnation))}
		a.enqueue(b.said, context, registering(oneResult(name, "tensor", recv)))
		a.ask(b.said, componentMethod, &corepb.RunComponentFunctionRequest{ContextId: context,
			Operation: &corepb.Operation{Id: -1, Name: name, IsFunction: true, IsComponentFunction: true, Device: cpu0, FuncStepId: pick(a.Rand, a.eager.step, int64(a.eager.id), int64(context), -a.Int64())}},
			&corepb.RunComponentFunctionResponse{})
	}},
	{"an act", func(a *intruder, b *block, context uint64) {
		remove, err := wire.RemoveFunction("BobsGive")
		if err != nil {
			a.t.Fatal(err)
		}
		const service = "/tensorflow.eager.EagerService/"
		var acts = []func(){
			func() { a.enqueue(b.said, context, remove) },
			func() {
				a.enqueue(b.said, context, &corepb.QueueItem{Item: &corepb.QueueItem_HandleToDecref{HandleToDecref: &corepb.RemoteTensorHandle{OpId: bobsNumber}}})
			},
			func() {
				a.enqueue(b.said, context, &corepb.QueueItem{Item: &corepb.QueueItem_CleanupFunction{CleanupFunction: &corepb.CleanupFunctionOp{StepId: a.eager.step}}})
			},
			func() {
				a.enqueue(b.said, context, &corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: bobsNumber, DeviceName: cpu0, Tensors: []*tensorpb.TensorProto{number(7)}}}})
			},
			func() {
				a.ask(b.said, service+"UpdateContext", &corepb.UpdateContextRequest{ContextId: context, ContextViewId: 1, ServerDef: pick(a.Rand, nil, a.described())}, &corepb.UpdateContextResponse{})
			},
			func() {
				a.ask(b.said, service+"CloseContext", &corepb.CloseContextRequest{ContextId: context, ContextViewId: 9}, &corepb.CloseContextResponse{})
			},
			func() {
				a.ask(b.said, service+"KeepAlive", &corepb.KeepAliveRequest{ContextId: context}, &corepb.KeepAliveResponse{})
			},
			func() {
				a.ask(b.said, service+"WaitQueueDone", &corepb.WaitQueueDoneRequest{ContextId: context}, &corepb.WaitQueueDoneResponse{})
			},
			func() {
				a.ask(b.said, "/tensorflow.WorkerService/GetStatus", &corepb.GetStatusRequest{}, &corepb.GetStatusResponse{})
			},
		}
		pick(a.Rand, acts...)()
	}},
}

// input returns an input of an op: the handle, a tensor that the op may accept, or a handle of the context.
func (a *intruder) input(b *block, t typespb.DataType, handle *tensorpb.TensorProto, context uint64) *corepb.Operation_Input {
	if t == handle.Dtype {
		if a.IntN(3) > 0 {
			return tensorInput(handle)
		}
		a.enqueue(b.said, context, &corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: 77, DeviceName: cpu0, Tensors: []*tensorpb.TensorProto{handle}}}})
		return handleInput(77)
	}
	b.guess(t)
	if last := b.nodes[len(b.nodes)-1].GetAttr()["value"].GetTensor(); last.GetDtype() == t {
		return tensorInput(last)
	}
	return tensorInput(&tensorpb.TensorProto{Dtype: t, TensorShape: shapeProto(nil)})
}

// enqueue has a context execute an item, over a stream at times.
func (a *intruder) enqueue(said []string, context uint64, item *corepb.QueueItem) bool {
	method := enqueueMethod
	if a.IntN(4) == 0 {
		method = streamMethod
	}
	return a.ask(said, method, &corepb.EnqueueRequest{ContextId: context, Queue: []*corepb.QueueItem{item}}, &corepb.EnqueueResponse{})
}

// operate runs an op or a function and asks for its outputs.
func (a *intruder) operate(said []string, context uint64, op *corepb.Operation) {
	op.Id = -1
	a.enqueue(said, context, item(op))
}

// inContext tries something with eager contexts.
func (a *intruder) inContext(number int) {
	if a.context == 0 || a.IntN(8) == 0 {
		q := &corepb.CreateContextRequest{ContextId: pick(a.Rand, a.Uint64(), a.Uint64(), a.eager.id, uint64(a.eager.step)), ServerDef: a.described(), KeepAliveSecs: 60, ContextViewId: pick[uint64](a.Rand, 0, 5)}
		if a.IntN(6) == 0 {
			b, err := proto.Marshal(&wire.NewerCreateContextRequest{ClearExistingContexts: true})
			if err != nil {
				a.t.Fatal(err)
			}
			q.ProtoReflect().SetUnknown(b)
		}
		if a.ask([]string{"a new context"}, "/tensorflow.eager.EagerService/CreateContext", q, &corepb.CreateContextResponse{}) && q.ContextId != a.eager.id {
			a.context = q.ContextId
		}
	}
	context := a.context
	if context == 0 || a.IntN(3) == 0 {
		context = a.eager.id
	}
	b := &block{draft: a.draft(number), device: pick(a.Rand, vaultDevices...)}
	choose(b, "context ", contextWays).draw(a, b, context)
}

// leaveContext closes the round's context.
func (a *intruder) leaveContext() {
	if a.context != 0 {
		a.ask(nil, "/tensorflow.eager.EagerService/CloseContext", &corepb.CloseContextRequest{ContextId: a.context, ContextViewId: 9}, &corepb.CloseContextResponse{})
	}
}

// callIn is call with a context; a method that streams gets one request.
func (g *guarded) callIn(ctx context.Context, as, method string, q, a proto.Message) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.tokens[as])
	if method != streamMethod {
		return g.conn.Invoke(ctx, method, q, a)
	}
	s, err := g.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err == nil {
		err = s.SendMsg(q)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return s.RecvMsg(a)
}

// TestFewRightsInContextsAreWatched is TestFewRightsAreWatched for eager contexts: alice may use those of others.
func TestFewRightsInContextsAreWatched(t *testing.T) {
	v := newVaults(t, rand.New(rand.NewPCG(6, 1)))
	open := limits{rule: `{who: "client:alice", may: [open, declare, others], files: all}`, hides: func(place) bool { return true }, isolate: true,
		op: named(), container: named(), device: named()}
	missing := map[string]bool{"change of bob's context": true}
	for _, w := range contextWays {
		missing["context "+w.name] = true
	}
	delete(missing, "context an act") // it changes bob's context, which is found as that
	if !extent.Check() {
		missing = map[string]bool{"change of bob's context": true, "context an op": true}
	}
	for seed := uint64(1); seed <= 100; seed++ {
		wanted := slices.Sorted(maps.Keys(missing))
		if len(wanted) == 0 {
			t.Logf("all found in %d rounds", seed-1)
			return
		}
		v.round(seed, open, wanted[int(seed)%len(wanted)], func(said []string) {
			for _, what := range said {
				delete(missing, what)
			}
		})
	}
	t.Errorf("with all doors open, nothing was found by %v", slices.Sorted(maps.Keys(missing)))
}

// TestCallsNeedTheirDevice calls a function without nodes, which returns its argument, on a device that the policy denies.
func TestCallsNeedTheirDevice(t *testing.T) {
	g := guardTasks(t, 1, Config{CPUs: 2}, `rules: [{who: "client:alice", may: [open, declare], devices: {deny: ["*CPU:1"]}}]`, "alice")
	const context = 77
	described := &corepb.ServerDef{JobName: "w", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: g.node.Address()}}}}}
	create := &corepb.CreateContextRequest{ContextId: context, ServerDef: described, KeepAliveSecs: 60}
	if err := g.call("alice", "/tensorflow.eager.EagerService/CreateContext", create, &corepb.CreateContextResponse{}); err != nil {
		t.Fatal(err)
	}
	f := &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: "Same", InputArg: []*oppb.OpDef_ArgDef{{Name: "a", Type: int64Type}}, OutputArg: []*oppb.OpDef_ArgDef{{Name: "r", Type: int64Type}}},
		Ret: map[string]string{"r": "a"}}
	run := func(device string) error {
		op := &corepb.Operation{Id: -1, Name: "Same", IsFunction: true, Device: device, OpInputs: []*corepb.Operation_Input{tensorInput(number(7))}}
		return g.call("alice", enqueueMethod, &corepb.EnqueueRequest{ContextId: context, Queue: []*corepb.QueueItem{registering(f), item(op)}}, &corepb.EnqueueResponse{})
	}
	if err := run(cpu0); err != nil {
		t.Error(err)
	}
	refusedBy(t, "a call on a denied device", run("/job:w/replica:0/task:0/device:CPU:1"), codes.PermissionDenied, "may not use the device")
}
