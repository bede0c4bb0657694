package remote

import (
	"fmt"
	"testing"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// What refusals contain of nodes that are malformed.
const (
	noFullName  = "no device's full name"
	onlyRuntime = "which only the runtime may use"
)

// TestClientsTransfersAreJudged checks that what a client sends and receives by nodes and operations of its own is judged as other ops are, in whatever
// form it names a device.
func TestClientsTransfersAreJudged(t *testing.T) {
	const other = "/job:w/replica:0/task:1/device:CPU:0"
	g := guardTasks(t, 2, Config{CPUs: 1}, `rules:
  - {who: "client:free", may: all}
  - {who: "client:ops", may: all, ops: {deny: [_Send, _Recv, _HostSend, _HostRecv]}}
  - {who: "client:devices", may: all, devices: {deny: ["/job:w/replica:0/task:1/device:*"]}}
  - {who: "client:nowhere", may: all, devices: {allow: ["/job:w/replica:0/task:1/*"]}}
`, "free", "ops", "devices", "nowhere")
	attrs := func(op, from, to string) map[string]*attrpb.AttrValue {
		all := transfer("t", 1)
		all["send_device"], all["recv_device"] = text(from), text(to)
		return only(op, all)
	}
	denied := func(who string) string { return "client:" + who + " may not use the " }

	// Nodes of a session's graph may not transfer anything, but those of its functions may.
	for _, c := range []struct{ who, op, from, to, want string }{
		{"free", "_Send", cpu0, other, ""},
		{"ops", "_Send", cpu0, cpu0, denied("ops") + "op _Send"},
		{"ops", "_Recv", cpu0, cpu0, denied("ops") + "op _Recv"},
		{"ops", "_HostSend", cpu0, cpu0, denied("ops") + "op _HostSend"},
		{"ops", "_HostRecv", cpu0, cpu0, denied("ops") + "op _HostRecv"},
		{"devices", "_Send", cpu0, cpu0, ""},
		{"devices", "_Send", cpu0, other, denied("devices") + "device " + other},
		{"devices", "_Recv", other, cpu0, denied("devices") + "device " + other},
		{"devices", "_Send", cpu0, "/job:w/replica:0/task:1", noFullName},
		{"devices", "_Send", cpu0, "/job:w/replica:0/task:1/device:CPU:0/task:0", noFullName},
		{"devices", "_Send", cpu0, "/job:w/replica:0/task:1/device:CPU:0/replica:0/task:0", noFullName},
		{"devices", "_Send", cpu0, "/job:w/replica:0/task:1/device:cpu:0", noFullName},
		{"devices", "_Send", cpu0, "/job:w/replica:0/task:1/cpu:0", noFullName},
		{"devices", "_Send", cpu0, "/job:w/replica:0/task:1/device:", noFullName},
		{"devices", "_Send", cpu0, "", noFullName},
	} {
		t.Run(fmt.Sprintf("%s: a node %s from %s to %s", c.who, c.op, c.from, c.to), func(t *testing.T) {
			n := &nodepb.NodeDef{Name: "n", Op: c.op, Attr: attrs(c.op, c.from, c.to)}
			run := func(def *graphpb.GraphDef, want string) {
				t.Helper()
				handle, err := g.open(c.who, def)
				if err == nil {
					err = g.run(c.who, handle, "n")
				}
				refusedWith(t, err, want)
			}
			if n.Attr["T"] != nil {
				n.Input = []string{"x"}
			}
			run(graphOf(constantNode("x", number(7)), n), onlyRuntime)
			if n.Attr["T"] != nil {
				n.Input = []string{"x:output:0"}
			}
			last := constantNode("y", number(8))
			last.Input = []string{"^n"}
			def := graphOf(&nodepb.NodeDef{Name: "n", Op: "f", Device: cpu0})
			def.Library = &functionpb.FunctionDefLibrary{Function: []*functionpb.FunctionDef{oneResult("f", "output", constantNode("x", number(7)), n, last)}}
			run(def, c.want)
		})
	}

	// Operations of an eager context.
	sent := func(device string) *corepb.QueueItem {
		return &corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: 1, DeviceName: device, Tensors: []*tensorpb.TensorProto{number(7)}}}}
	}
	operation := func(op string) *corepb.QueueItem {
		o := &corepb.Operation{Id: 2, Name: op, Device: cpu0, Attrs: attrs(op, cpu0, cpu0)}
		if op == "_Send" || op == "_HostSend" {
			o.OpInputs = []*corepb.Operation_Input{handleInput(1)}
		}
		return item(o)
	}
	anywhere := operation("_Send")
	anywhere.GetOperation().Device = ""
	for i, c := range []struct {
		who  string
		last *corepb.QueueItem
		want string
	}{
		{"free", operation("_Send"), ""},
		{"ops", operation("_Send"), denied("ops") + "op _Send"},
		{"ops", operation("_Recv"), denied("ops") + "op _Recv"},
		{"ops", operation("_HostSend"), onlyRuntime},
		{"ops", operation("_HostRecv"), onlyRuntime},
		{"devices", operation("_Send"), ""},
		{"nowhere", operation("_Send"), denied("nowhere") + "device " + cpu0},
		{"nowhere", operation("_Recv"), denied("nowhere") + "device " + cpu0},
		{"nowhere", anywhere, denied("nowhere") + "device " + cpu0},
		{"nowhere", sent(cpu0), denied("nowhere") + "device " + cpu0},
		{"nowhere", sent(""), denied("nowhere") + "device " + cpu0},
	} {
		t.Run(fmt.Sprintf("%s: %.60v", c.who, c.last), func(t *testing.T) {
			id := uint64(1000 + i)
			queue := []*corepb.QueueItem{c.last}
			if c.last.GetSendTensor() == nil && c.who != "nowhere" {
				queue = []*corepb.QueueItem{sent(cpu0), c.last}
			} else if o := c.last.GetOperation(); len(o.GetOpInputs()) > 0 {
				o.OpInputs = []*corepb.Operation_Input{tensorInput(number(7))}
			}
			server := &corepb.ServerDef{JobName: "w", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: g.nodes[0].Address(), 1: g.nodes[1].Address()}}}}}
			call := func(method string, q, a proto.Message) error {
				return g.call(c.who, "/tensorflow.eager.EagerService/"+method, q, a)
			}
			if err := call("CreateContext", &corepb.CreateContextRequest{ContextId: id, ServerDef: server, KeepAliveSecs: 60}, &corepb.CreateContextResponse{}); err != nil {
				t.Fatal(err)
			}
			refusedWith(t, call("Enqueue", &corepb.EnqueueRequest{ContextId: id, Queue: queue}, &corepb.EnqueueResponse{}), c.want)
		})
	}
}

// refusedWith checks an error: none, or a refusal that contains want.
func refusedWith(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want == noFullName, want == onlyRuntime:
		refusedBy(t, "it", err, codes.InvalidArgument, want)
	case want != "":
		refusedBy(t, "it", err, codes.PermissionDenied, want)
	}
}
