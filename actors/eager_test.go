package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/encoding/prototext"
)

// eagerTask is the name that the tests' client has for the task, and eagerPeer that of the client itself.
const (
	eagerTask = "/job:worker/replica:0/task:3"
	eagerPeer = "/job:client/replica:0/task:0"
	eagerCPU  = eagerTask + "/device:CPU:0"
)

// eagerClient is a TensorFlow 2 client with a context on a task.
type eagerClient struct {
	*EagerContext
	t    testing.TB
	node *node
}

func newEager(t testing.TB, n *node, spec EagerSpec) *eagerClient {
	t.Helper()
	if spec.Task == "" {
		spec.Task = eagerTask
	}
	c, err := n.task.CreateEagerContext(t.Context(), 0, everything, spec)
	if err != nil {
		t.Fatal(err)
	}
	return &eagerClient{c, t, n}
}

// A context whose session ends before the task knows the context stays unknown.
func TestEagerContextThatEndsAtOnce(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.Close(0)
	wantError(t, n.task.eager.add(c.EagerContext), status.Aborted, "Unable to find a context_id")
	if all := n.task.EagerContexts(); len(all) != 0 {
		t.Errorf("the contexts are %v", all)
	}
}

// op returns an operation. An input is a handle "op:output", attrs is the text of an Operation's attrs.
func op(id int64, name, attrs string, inputs ...string) *corepb.Operation {
	o := &corepb.Operation{}
	if err := prototext.Unmarshal([]byte(attrs), o); err != nil {
		panic(err)
	}
	o.Id, o.Name, o.Device = id, name, eagerCPU
	for _, in := range inputs {
		o.OpInputs = append(o.OpInputs, &corepb.Operation_Input{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: handle(in)}})
	}
	return o
}

func handle(name string) *corepb.RemoteTensorHandle {
	h := &corepb.RemoteTensorHandle{Device: eagerCPU}
	if _, err := fmt.Sscanf(name, "%d:%d", &h.OpId, &h.OutputNum); err != nil {
		panic(err)
	}
	return h
}

// attr returns the text of an attribute.
func attr(name, value string) string {
	return fmt.Sprintf("attrs { key: %q value { %s } } ", name, value)
}

// send makes a handle of a vector.
func (c *eagerClient) send(id int64, values ...float32) {
	c.t.Helper()
	v, err := tensor.FromValues(values)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendTensor(id, v)
}

func (c *eagerClient) sendTensor(id int64, v *tensor.Tensor) {
	c.t.Helper()
	defer v.Release()
	p, err := v.Proto()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.SendTensor(&corepb.SendTensorOp{OpId: id, Tensors: []*tensorProto{p}, DeviceName: eagerCPU}); err != nil {
		c.t.Fatal(err)
	}
}

// run runs an op.
func (c *eagerClient) run(o *corepb.Operation) *corepb.QueueResponse {
	c.t.Helper()
	r, err := c.Run(c.t.Context(), o)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// want checks the elements of a handle.
func (c *eagerClient) want(name string, values ...float32) {
	c.t.Helper()
	v, _ := c.handles.get(keyOf(handle(name)))
	if v == nil {
		c.t.Fatalf("there is no handle %s", name)
	}
	defer v.Release()
	wantValues(c.t, v, values...)
}

func wantValues(t testing.TB, v *tensor.Tensor, values ...float32) {
	t.Helper()
	got, err := tensor.Values[float32](v)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(values) {
		t.Errorf("got %v, want %v", got, values)
	}
}

func (c *eagerClient) close() { c.Close(c.View()) }

func TestEagerContext(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	_, err := n.task.EagerContext(9, 0)
	wantError(t, err, status.Aborted, "Unable to find a context_id matching the specified one (9). Perhaps the worker was restarted, or the context was GC'd?")
	c := newEager(t, n, EagerSpec{ID: 9, View: 3})
	d := c.Devices(nil)
	if len(d) != 1 || d[0].GetName() != eagerCPU || d[0].GetIncarnation() == 0 {
		t.Errorf("the devices are %v", d)
	}
	c.send(1, 1)
	_, err = n.task.CreateEagerContext(t.Context(), 0, everything, EagerSpec{ID: 9, View: 2, Task: eagerTask})
	wantError(t, err, status.InvalidArgument, "EagerService:CreateContext failed. Context id: <9> already exists.")
	other := everything
	other.Owner = "somebody else"
	_, err = n.task.CreateEagerContext(t.Context(), 0, other, EagerSpec{ID: 9, View: 3, Task: eagerTask})
	wantError(t, err, status.InvalidArgument, "already exists")
	for _, view := range []uint64{3, 4} { // the same view, and a newer one, replace the context
		c = newEager(t, n, EagerSpec{ID: 9, View: view})
		_, err = c.Run(t.Context(), op(2, "Neg", "", "1:0"))
		wantError(t, err, status.InvalidArgument, "Unable to find the relevant tensor remote_handle: Op ID: 1, Output num: 0. One possible cause is that")
	}
	wantError(t, c.Update(6, nil), status.InvalidArgument,
		"EagerService:UpdateContext failed. Context id: <9> currently at view #4 but received update request at view #6. View id should only be continuously incremented.")
	if err := c.Update(5, nil); err != nil {
		t.Error(err)
	}
	if err := c.Update(6, &EagerSpec{Peers: map[string]string{eagerPeer: "localhost:1"}}); err != nil || c.View() != 6 {
		t.Error(c.View(), err)
	}
	c.Close(5) // older
	if _, err := n.task.EagerContext(9, 0); err != nil {
		t.Error(err)
	}
	c.Close(6)
	_, err = n.task.EagerContext(9, 0)
	wantError(t, err, status.Aborted, "(9)")
	_, err = c.Run(t.Context(), op(2, "NoOp", ""))
	wantError(t, err, status.Aborted, "(9)")
	for _, name := range []string{"", "/job:worker", "nonsense", eagerCPU} {
		_, err := n.task.CreateEagerContext(t.Context(), 0, everything, EagerSpec{ID: 1, Task: name})
		wantError(t, err, status.InvalidArgument)
	}
	if all := n.task.EagerContexts(); len(all) != 0 || n.task.Sessions() != 0 {
		t.Errorf("%d contexts and %d sessions are left", len(all), n.task.Sessions())
	}
}

func TestEagerOps(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := newEager(t, n, EagerSpec{ID: 1})
	c.send(1, 1, 2)
	c.send(2, 10, 20)
	float := attr("T", "type: DT_FLOAT")
	for i, attrs := range []string{"", float} {
		id := int64(10 + i)
		if r := c.run(op(id, "AddV2", attrs, "1:0", "2:0")); len(r.Shape) != 1 || r.Shape[0].Dim[0].Size != 2 || r.Device != nil {
			t.Errorf("the response is %v", r)
		}
		c.want(fmt.Sprintf("%d:0", id), 11, 22)
	}
	c.run(op(12, "ConcatV2", attr("N", "i: 2"), "1:0", "2:0", c.scalar(3, 0)))
	c.want("12:0", 1, 2, 10, 20)
	c.run(op(13, "Pack", "", "1:0", "2:0", "1:0"))
	c.want("13:0", 1, 2, 10, 20, 1, 2)
	c.run(op(14, "IdentityN", "", "1:0", "3:0"))
	c.want("14:0", 1, 2)
	if r := c.run(op(15, "NoOp", "")); len(r.Shape) != 0 {
		t.Errorf("the response is %v", r)
	}
	unplaced := op(16, "Neg", "", "1:0")
	unplaced.Device = ""
	c.run(unplaced)
	c.want("16:0", -1, -2)
	direct := op(-1, "Neg", "", "1:0")
	r := c.run(direct)
	if len(r.Tensor) != 1 || len(r.Shape) != 0 {
		t.Errorf("the response is %v", r)
	}
	c.send(1, 5) // again, with the same number
	c.want("1:0", 5)
	if err := c.Decref(handle("12:0")); err != nil {
		t.Error(err)
	}
	for _, q := range []struct {
		op   *corepb.Operation
		code status.Code
		text string
	}{
		{op(20, "NoSuchOp", ""), status.NotFound, "'NoSuchOp' is neither a type of a primitive operation nor a name of a function registered in binary running on"},
		{op(20, "Neg", "", "12:0"), status.InvalidArgument, "Unable to find the relevant tensor remote_handle: Op ID: 12, Output num: 0. One possible cause"},
		{op(20, "Placeholder", attr("dtype", "type: DT_FLOAT")), status.InvalidArgument, "You must feed a value"},
		{op(20, "VarHandleOp", attr("dtype", "type: DT_FLOAT")), status.InvalidArgument, "NodeDef missing attr 'shape' from"},
		{op(20, "AddV2", "", "1:0"), status.InvalidArgument, "AddV2"},
		{op(20, "AddV2", "", "1:0", "3:0"), status.InvalidArgument, "AddV2"},
		{op(20, "Neg", attr("T", "i: 3"), "1:0"), status.InvalidArgument, "type"},
		{on("/job:worker/replica:0/task:7/device:CPU:0", op(20, "NoOp", "")), status.InvalidArgument, "/job:worker/replica:0/task:7/device:CPU:0 unknown device."},
		{on(n.name+"/device:CPU:0", op(20, "NoOp", "")), status.InvalidArgument, n.name + "/device:CPU:0 unknown device."},
		{on(eagerTask+"/device:CPU:4", op(20, "NoOp", "")), status.InvalidArgument, "unknown device"},
		{on("nonsense", op(20, "NoOp", "")), status.InvalidArgument, "nonsense"},
		{&corepb.Operation{Id: 20, Name: "Neg", OpInputs: []*corepb.Operation_Input{{}}}, status.InvalidArgument, "neither a handle nor a tensor"},
		{&corepb.Operation{Id: 20, Name: "Neg", OpInputs: []*corepb.Operation_Input{{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: &corepb.RemoteTensorHandle{OpId: 77, Device: eagerPeer + "/device:CPU:0"}}}}},
			status.InvalidArgument, eagerPeer + "/device:CPU:0 unknown device."},
	} {
		_, err := c.Run(t.Context(), q.op)
		wantError(t, err, q.code, q.text)
	}
	wantError(t, c.Decref(handle("99:0")), status.InvalidArgument, "Unable to find the relevant tensor remote_handle: Op ID: 99, Output num: 0")
	wantError(t, c.SendPackedHandle(&corepb.SendPackedHandleOp{OpId: 3}), status.Unimplemented, "send_packed_handle")
	c.close()
}

// on returns an op for another device.
func on(device string, o *corepb.Operation) *corepb.Operation {
	o.Device = device
	return o
}

// scalar makes a handle of an int32 and returns its name.
func (c *eagerClient) scalar(id int64, v int32) string {
	c.t.Helper()
	c.sendTensor(id, tensor.FromScalar(v))
	return fmt.Sprintf("%d:0", id)
}

type tensorProto = tensorpb.TensorProto

var _ = context.Background
var _ = time.Now
var _ = attrpb.AttrValue{}
var _ = typespb.DataType_DT_FLOAT
