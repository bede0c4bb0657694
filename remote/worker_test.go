package remote

import (
	"context"
	"fmt"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/port"
)

// eagerCaller makes calls of one client to one task.
type eagerCaller func(method string, q, a proto.Message) error

func (g *guarded) as(who string) eagerCaller {
	return func(method string, q, a proto.Message) error { return g.call(who, method, q, a) }
}

// status returns the first device of a task.
func (c eagerCaller) status() (name string, incarnation uint64, err error) {
	var a corepb.GetStatusResponse
	if err := c("/tensorflow.WorkerService/GetStatus", &corepb.GetStatusRequest{}, &a); err != nil {
		return "", 0, err
	}
	return a.DeviceAttributes[0].Name, a.DeviceAttributes[0].Incarnation, nil
}

func (c eagerCaller) enqueue(items ...*corepb.QueueItem) error {
	return c("/tensorflow.eager.EagerService/Enqueue", &corepb.EnqueueRequest{ContextId: 1, Queue: items}, &corepb.EnqueueResponse{})
}

// fetch returns a float that the device of a task sends.
func (c eagerCaller) fetch(key string) (float32, error) {
	var a corepb.RecvTensorResponse
	if err := c("/tensorflow.WorkerService/RecvTensor", &corepb.RecvTensorRequest{StepId: 1, RendezvousKey: key}, &a); err != nil {
		return 0, err
	}
	if b := a.GetTensor().GetTensorContent(); len(b) != 4 {
		return 0, fmt.Errorf("the content is % x", b)
	}
	return float32(a.GetTensor().GetTensorContent()[3]), nil
}

// sentTensor stores a float, whose last byte is given, as the output of op 1 of a device.
func sentTensor(device string, last byte) *corepb.QueueItem {
	return &corepb.QueueItem{Item: &corepb.QueueItem_SendTensor{SendTensor: &corepb.SendTensorOp{OpId: 1, DeviceName: device,
		Tensors: []*tensorpb.TensorProto{{Dtype: typespb.DataType_DT_FLOAT, TensorShape: &shapepb.TensorShapeProto{}, TensorContent: []byte{0, 0, 0, last}}}}}}
}

// transferOp is a _Send of op 1, or a _Recv of it.
func transferOp(id int64, name, from string, incarnation uint64, to string) *corepb.QueueItem {
	op := &corepb.Operation{Id: id, Name: name, Device: from, Attrs: map[string]*attrpb.AttrValue{"tensor_name": text(fmt.Sprint("t to ", to)), "send_device": text(from), "recv_device": text(to),
		"send_device_incarnation": {Value: &attrpb.AttrValue_I{I: int64(incarnation)}}, "client_terminated": {Value: &attrpb.AttrValue_B{}}}}
	if name == "_Recv" {
		op.Device = to
		op.Attrs["tensor_type"] = dtype(typespb.DataType_DT_FLOAT)
	} else {
		op.Attrs["T"] = dtype(typespb.DataType_DT_FLOAT)
		op.OpInputs = []*corepb.Operation_Input{{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: &corepb.RemoteTensorHandle{OpId: 1, Device: from}}}}
	}
	return &corepb.QueueItem{Item: &corepb.QueueItem_Operation{Operation: op}}
}

func keyOf(from string, incarnation uint64, to string) string {
	return fmt.Sprintf("%s;%016x;%s;t to %s;0:0", from, incarnation, to, to)
}

const pythonClient = "/job:client/replica:0/task:0/device:CPU:0"

// TestFetchedTensorsAreGuarded checks that GetStatus needs the right to open sessions or to list devices, and that what a client's context
// sends is for that client.
func TestFetchedTensorsAreGuarded(t *testing.T) {
	g := guard(t, `rules:
  - {who: "client:alice", may: [open, declare]}
  - {who: "client:bob", may: open}
  - {who: "client:looks", may: list}
  - {who: "client:none", may: []}
`, "alice", "bob", "looks", "none")
	const denied = codes.PermissionDenied
	device, incarnation, err := g.as("alice").status()
	if err != nil || device != cpu0 || incarnation == 0 {
		t.Fatalf("%s, %d, %v", device, incarnation, err)
	}
	for as, code := range map[string]codes.Code{"bob": codes.OK, "looks": codes.OK, "none": denied, "Bearer nobody": codes.Unauthenticated} {
		_, _, err := g.as(as).status()
		refusedBy(t, "the status for "+as, err, code, "")
	}
	if err := g.createContext("alice", 1); err != nil {
		t.Fatal(err)
	}
	if err := g.as("alice").enqueue(sentTensor(cpu0, 64), transferOp(2, "_Send", cpu0, incarnation, pythonClient)); err != nil {
		t.Fatal(err)
	}
	key := keyOf(cpu0, incarnation, pythonClient)
	_, err = g.as("none").fetch(key)
	refusedBy(t, "a fetch without rights", err, denied, "client:none may not open sessions")
	_, err = g.as("bob").fetch(key)
	refusedBy(t, "a fetch from another client's context", err, denied, "client:bob may not")
	if x, err := g.as("alice").fetch(key); err != nil || x != 64 {
		t.Errorf("alice fetches %v, %v", x, err)
	}
	_, err = g.as("alice").fetch(keyOf(cpu0, incarnation+1, pythonClient))
	refusedBy(t, "another incarnation", err, codes.Aborted, "RecvTensor expects a different device incarnation")
	_, err = g.as("alice").fetch("nonsense")
	refusedBy(t, "a malformed key", err, codes.InvalidArgument, "rendezvous key: nonsense")
	_, err = g.as("alice").fetch(keyOf("/job:w/replica:0/task:0/device:CPU:7", incarnation, pythonClient))
	refusedBy(t, "an unknown device", err, codes.InvalidArgument, "/device:CPU:7 unknown device.")
	_, err = g.as("alice").fetch(keyOf("/job:x/replica:0/task:0/device:CPU:0", incarnation, pythonClient))
	refusedBy(t, "another task's device", err, codes.InvalidArgument, "Invalid rendezvous key (src): /job:x")
}

// TestCopiesOverTLS copies a tensor from one task to another, which fetches it with its own certificate, and from there to the client.
func TestCopiesOverTLS(t *testing.T) {
	a := newAuthority(t)
	path := t.TempDir() + "/policy.yaml"
	write(t, path, []byte(`rules: [{who: "client:alice", may: [open, declare]}]`))
	policy, err := access.LoadPolicy(access.PolicyConfig{File: path, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(policy.Close)
	ps, worker := secured(t, a, func(c *Config) { c.Guard = access.NewGuard(nil, policy, nil) })
	alice := a.issue(t, access.ClientName("alice"))
	dial := func(n *Node) eagerCaller {
		config := alice.Client(port.ProtoHTTP2)
		config.ServerName = "127.0.0.1"
		conn, err := grpc.NewClient("passthrough:///"+n.Address(), grpc.WithTransportCredentials(credentials.NewTLS(config)), grpc.WithNoProxy())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return func(method string, q, a proto.Message) error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			return conn.Invoke(ctx, method, q, a)
		}
	}
	atPS, atWorker := dial(ps), dial(worker)
	cluster := &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "ps", Tasks: map[int32]string{0: ps.Address()}}, {Name: "worker", Tasks: map[int32]string{0: worker.Address()}}}}
	for job, at := range map[string]eagerCaller{"ps": atPS, "worker": atWorker} {
		q := &corepb.CreateContextRequest{ContextId: 1, KeepAliveSecs: 600, ServerDef: &corepb.ServerDef{JobName: job, Cluster: cluster}}
		if err := at("/tensorflow.eager.EagerService/CreateContext", q, &corepb.CreateContextResponse{}); err != nil {
			t.Fatal(err)
		}
	}
	from, incarnation, err := atPS.status()
	if err != nil {
		t.Fatal(err)
	}
	to, second, err := atWorker.status()
	if err != nil {
		t.Fatal(err)
	}
	copied := make(chan error, 1)
	go func() { // it waits until the tensor is sent
		copied <- atWorker.enqueue(transferOp(1, "_Recv", from, incarnation, to), transferOp(2, "_Send", to, second, pythonClient))
	}()
	if err := atPS.enqueue(sentTensor(from, 65), transferOp(2, "_Send", from, incarnation, to)); err != nil {
		t.Fatal(err)
	}
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	if x, err := atWorker.fetch(keyOf(to, second, pythonClient)); err != nil || x != 65 {
		t.Errorf("the client fetches %v, %v", x, err)
	}
}
