package workerservice

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/internal/port"
)

// tensorFlowServer is a server of TensorFlow's as the job worker, until its standard input ends.
const tensorFlowServer = `
import sys, tensorflow as tf
server = tf.distribute.Server({"worker": ["localhost:0"]}, job_name="worker", task_index=0)
print(server.target, flush=True)
sys.stdin.read()
`

// tensorFlow is a server of TensorFlow's with an eager context.
type tensorFlow struct {
	t       *testing.T
	port    *port.Port // from which it is called
	address string
	device  string
	number  uint64 // the device's incarnation
	ops     int64
}

const (
	contextID = 10
	client    = "/job:client/replica:0/task:0/device:CPU:0"
)

// startTensorFlow skips the test without a Python with TensorFlow, which TROUPE_PYTHON names.
func startTensorFlow(t *testing.T) *tensorFlow {
	t.Helper()
	python := os.Getenv("TROUPE_PYTHON")
	if python == "" {
		t.Skip("TROUPE_PYTHON names no Python with TensorFlow")
	}
	f := &tensorFlow{t: t, port: listen(t)}
	ctx, cancel := context.WithTimeout(context.Background(), extent.Slack(2*time.Minute))
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, python, "-c", tensorFlowServer)
	cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=-1", "TF_CPP_MIN_LOG_LEVEL=2")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill() // TensorFlow's servers do not end
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("TensorFlow's server: %q, %v", line, err)
	}
	f.address = strings.TrimPrefix(strings.TrimSpace(line), "grpc://")
	var a corepb.CreateContextResponse
	f.call("CreateContext", &corepb.CreateContextRequest{ContextId: contextID, KeepAliveSecs: 600, ServerDef: &corepb.ServerDef{JobName: "worker", Protocol: "grpc",
		Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "worker", Tasks: map[int32]string{0: f.address}}}}}}, &a)
	f.device, f.number = a.DeviceAttributes[0].Name, a.DeviceAttributes[0].Incarnation
	return f
}

func (f *tensorFlow) call(method string, q, a proto.Message) {
	f.t.Helper()
	if err := f.port.Call(deadline(f.t), f.address, "/tensorflow.eager.EagerService/"+method, q, a); err != nil {
		f.t.Fatalf("%s: %v", method, err)
	}
}

// run runs an op on the device and returns the id of its outputs.
func (f *tensorFlow) run(name string, attrs map[string]*attrpb.AttrValue, inputs ...int64) int64 {
	f.t.Helper()
	f.ops++
	op := &corepb.Operation{Id: f.ops, Name: name, Attrs: attrs, Device: f.device}
	for _, id := range inputs {
		op.OpInputs = append(op.OpInputs, &corepb.Operation_Input{Item: &corepb.Operation_Input_RemoteHandle{RemoteHandle: &corepb.RemoteTensorHandle{OpId: id, Device: f.device, OpDevice: f.device}}})
	}
	f.call("Enqueue", &corepb.EnqueueRequest{ContextId: contextID, Queue: []*corepb.QueueItem{{Item: &corepb.QueueItem_Operation{Operation: op}}}}, &corepb.EnqueueResponse{})
	return f.ops
}

// put stores a tensor on the device.
func (f *tensorFlow) put(v *tensor.Tensor) int64 {
	f.t.Helper()
	p, err := v.Proto()
	if err != nil {
		f.t.Fatal(err)
	}
	f.ops++
	send := &corepb.SendTensorOp{OpId: f.ops, DeviceName: f.device}
	send.Tensors = append(send.Tensors, p)
	f.call("Enqueue", &corepb.EnqueueRequest{ContextId: contextID, Queue: []*corepb.QueueItem{{Item: &corepb.QueueItem_SendTensor{SendTensor: send}}}}, &corepb.EnqueueResponse{})
	return f.ops
}

func (f *tensorFlow) key(name string) string {
	return fmt.Sprintf("%s;%016x;%s;%s;0:0", f.device, f.number, client, name)
}

// send sends a tensor of the device to the client.
func (f *tensorFlow) send(name string, dtype tensor.DType, id int64) {
	f.t.Helper()
	f.run("_Send", map[string]*attrpb.AttrValue{"T": typeOf(dtype), "tensor_name": text(name), "send_device": text(f.device), "recv_device": text(client),
		"send_device_incarnation": {Value: &attrpb.AttrValue_I{I: int64(f.number)}}, "client_terminated": {Value: &attrpb.AttrValue_B{B: false}}}, id)
}

func text(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

func typeOf(d tensor.DType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: d.Proto()}}
}

// TestPullFromTensorFlow fetches tensors of all kinds from TensorFlow's own server, and its errors.
func TestPullFromTensorFlow(t *testing.T) {
	f := startTensorFlow(t)
	var status0 corepb.GetStatusResponse
	if err := f.port.Call(deadline(t), f.address, "/tensorflow.WorkerService/GetStatus", &corepb.GetStatusRequest{}, &status0); err != nil || len(status0.DeviceAttributes) == 0 {
		t.Errorf("%v, %v", &status0, err)
	}
	pool := tensor.NewPool("receiving", 0)
	puller := NewPuller(f.port.Connect, pool)
	defer puller.Close()
	floats, err := tensor.FromSlice(tensor.Float32, tensor.Shape{1000, 1000}, make([]float32, 1e6))
	if err != nil {
		t.Fatal(err)
	}
	defer floats.Release()
	tensor.Of[float32](floats)[999_999] = 42
	words, err := tensor.New(tensor.Host, tensor.String, tensor.Shape{2})
	if err != nil {
		t.Fatal(err)
	}
	defer words.Release()
	copy(words.Strings(), []string{"a", strings.Repeat("b", 100_000)})
	large := f.put(floats)
	cell, err := tensor.FromSlice(tensor.Float32, tensor.Shape{1}, []float32{7})
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Release()
	one, err := tensor.FromSlice(tensor.Int32, tensor.Shape{1}, []int32{1})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Release()
	ten, err := tensor.FromSlice(tensor.Int32, nil, []int32{10})
	if err != nil {
		t.Fatal(err)
	}
	defer ten.Release()
	list := f.run("EmptyTensorList", map[string]*attrpb.AttrValue{"element_dtype": typeOf(tensor.Float32), "shape_type": typeOf(tensor.Int32)}, f.put(one), f.put(ten))
	list = f.run("TensorListPushBack", map[string]*attrpb.AttrValue{"element_dtype": typeOf(tensor.Float32)}, list, f.put(cell))
	variable := f.run("VarHandleOp", map[string]*attrpb.AttrValue{"dtype": typeOf(tensor.Float32), "shape": {Value: &attrpb.AttrValue_Shape{Shape: tensor.Shape{2}.Proto()}}, "shared_name": text("v")})
	for _, c := range []struct {
		name  string
		dtype tensor.DType
		id    int64
		holds func(v *tensor.Tensor) bool
	}{
		{"large", tensor.Float32, large, func(v *tensor.Tensor) bool { return v.Len() == 1_000_000 && tensor.Of[float32](v)[999_999] == 42 }},
		{"words", tensor.String, f.put(words), func(v *tensor.Tensor) bool { return v.Strings()[0] == "a" && len(v.Strings()[1]) == 100_000 }},
		{"variable", tensor.Resource, variable, func(v *tensor.Tensor) bool {
			return v.Handles()[0].Name == "v" && v.Handles()[0].Shape.Equal(tensor.Shape{2})
		}},
		{"list", tensor.Variant, list, func(v *tensor.Tensor) bool { return v.DType() == tensor.Variant && v.Len() == 1 }},
	} {
		asked := make(chan struct{})
		got := make(chan error, 1)
		go func() { // often, the request comes before the op
			close(asked)
			v, dead, err := puller.Pull(deadline(t), f.address, contextID, f.key(c.name))
			switch {
			case err == nil && (dead || v.DType() != c.dtype || !c.holds(v)):
				err = fmt.Errorf("dead %v, %v", dead, v)
				fallthrough
			case err == nil:
				v.Release()
			}
			got <- err
		}()
		<-asked
		f.send(c.name, c.dtype, c.id)
		if err := <-got; err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, _, err = puller.Pull(deadline(t), f.address, contextID, strings.Replace(f.key("x"), strconv.FormatUint(f.number, 16), "1", 1))
	refused(t, "another incarnation", err, status.Aborted, "RecvTensor expects a different device incarnation")
	refused(t, "another incarnation", err, status.Aborted, "\nAdditional GRPC error information from remote target /job:worker/replica:0/task:0 while calling /tensorflow.WorkerService/RecvTensor:")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err = puller.Pull(short, f.address, contextID, f.key("never"))
	refused(t, "never sent", err, status.DeadlineExceeded, "")
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}
