package workerservice

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/port"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.DiscardHandler)

const cpu0 = "/job:w/replica:0/task:0/device:CPU:0"

// testTask sends what recv returns, and knows the states of tasks by name.
type testTask struct {
	recv   func(ctx context.Context, step int64, key string) (*tensor.Tensor, bool, error)
	states map[string]error
}

func (t *testTask) Describe() []device.Attributes {
	return []device.Attributes{{Name: cpu0, Type: "CPU", MemoryLimit: 1 << 20, Incarnation: 77}}
}

func (t *testTask) EagerRecv(ctx context.Context, _ actors.EagerPeer, step int64, key string) (*tensor.Tensor, bool, error) {
	return t.recv(ctx, step, key)
}

func (t *testTask) EagerStates(_ context.Context, _ actors.EagerPeer, tasks []string) (all []error, err error) {
	for _, name := range tasks {
		state, ok := t.states[name]
		if !ok {
			return nil, status.InvalidArgumentf("Unexpected task %s", name)
		}
		all = append(all, state)
	}
	return all, nil
}

// listen returns a port that stops with the test.
func listen(t testing.TB) *port.Port {
	t.Helper()
	p, err := port.Listen(port.Config{Address: "127.0.0.1:0", Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := p.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

// serve returns a port with the service of a task.
func serve(t testing.TB, task *testTask) *port.Port {
	t.Helper()
	p := listen(t)
	Register(p.Services(), Config{Task: task, Log: silent})
	p.Services().Open()
	return p
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func call(t *testing.T, p *port.Port, method string, q, a proto.Message) error {
	t.Helper()
	return p.Call(deadline(t), p.Addr(), "/tensorflow.WorkerService/"+method, q, a)
}

// refused fails the test unless an error has a code and contains a text.
func refused(t *testing.T, what string, err error, code status.Code, text string) {
	t.Helper()
	if status.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v (%v), want %v %q", what, err, status.CodeOf(err), code, text)
	}
}

func TestService(t *testing.T) {
	p := serve(t, &testTask{})
	var a corepb.GetStatusResponse
	if err := call(t, p, "GetStatus", &corepb.GetStatusRequest{}, &a); err != nil {
		t.Fatal(err)
	}
	if len(a.DeviceAttributes) != 1 || a.DeviceAttributes[0].Name != cpu0 || a.DeviceAttributes[0].Incarnation != 77 {
		t.Errorf("the devices are %v", a.DeviceAttributes)
	}
	if err := call(t, p, "MarkRecvFinished", &corepb.MarkRecvFinishedRequest{RequestId: 1}, &corepb.MarkRecvFinishedResponse{}); err != nil {
		t.Error(err)
	}
	refused(t, "RunGraph", call(t, p, "RunGraph", &corepb.RunGraphRequest{}, &corepb.RunGraphResponse{}), status.Unimplemented, "tensorflow.WorkerService/RunGraph")
	refused(t, "a method that there is not", call(t, p, "Fly", &corepb.RunGraphRequest{}, &corepb.RunGraphResponse{}), status.Unimplemented, "/tensorflow.WorkerService/Fly")
	large := &corepb.RecvTensorRequest{RendezvousKey: strings.Repeat("k", maxRequest)}
	refused(t, "a large request", call(t, p, "RecvTensor", large, &corepb.RecvTensorResponse{}), status.ResourceExhausted, "the limit is 65536")
}

// Every type of tensor arrives as it was sent, and its memory is freed at both ends.
func TestTensorsOfAllTypes(t *testing.T) {
	sending, receiving := tensor.NewPool("sending", 0), tensor.NewPool("receiving", 0)
	task := &testTask{}
	p := serve(t, task)
	puller := NewPuller(listen(t).Connect, receiving)
	defer puller.Close()
	numbers := func(dtype tensor.DType, shape tensor.Shape) *tensor.Tensor {
		v, err := tensor.New(sending, dtype, shape)
		if err != nil {
			t.Fatal(err)
		}
		for i := range v.Data() {
			v.Data()[i] = byte(i * 31)
		}
		return v
	}
	texts := func(shape tensor.Shape, of func(i int) string) *tensor.Tensor {
		v := numbers(tensor.String, shape)
		for i := range v.Strings() {
			v.Strings()[i] = of(i)
		}
		return v
	}
	handle := numbers(tensor.Resource, tensor.Shape{2})
	for i := range handle.Handles() {
		handle.Handles()[i] = tensor.Handle{Device: cpu0, Container: "c", Name: fmt.Sprint(i), Type: "Var"}
	}
	for name, v := range map[string]*tensor.Tensor{
		"a scalar":      numbers(tensor.Float32, nil),
		"nothing":       numbers(tensor.Float32, tensor.Shape{0, 3}),
		"small":         numbers(tensor.Int32, tensor.Shape{2, 3}),
		"large":         numbers(tensor.Uint8, tensor.Shape{1000, 5000}),
		"a string":      texts(nil, func(int) string { return "text" }),
		"many strings":  texts(tensor.Shape{3000}, func(i int) string { return strings.Repeat("x", i%50) }),
		"handles":       handle,
		"no strings":    texts(tensor.Shape{0}, nil),
		"large strings": texts(tensor.Shape{2}, func(i int) string { return strings.Repeat("y", 100_000+i) }),
	} {
		task.recv = func(_ context.Context, step int64, key string) (*tensor.Tensor, bool, error) {
			if step != -5 || key != "the key" {
				t.Errorf("step %d, key %q", step, key)
			}
			return v.Retain(), false, nil
		}
		got, dead, err := puller.Pull(deadline(t), p.Addr(), -5, "the key")
		if err != nil || dead {
			t.Errorf("%s: dead %v, %v", name, dead, err)
			continue
		}
		want, err := v.Proto()
		if err != nil {
			t.Fatal(err)
		}
		have, err := got.Proto()
		if err != nil || !proto.Equal(want, have) {
			t.Errorf("%s arrived as %v, %v", name, got, err)
		}
		got.Release()
		v.Release()
	}
	task.recv = func(context.Context, int64, string) (*tensor.Tensor, bool, error) { return nil, true, nil }
	if got, dead, err := puller.Pull(deadline(t), p.Addr(), 1, "k"); got != nil || !dead || err != nil {
		t.Errorf("a dead value: %v, %v, %v", got, dead, err)
	}
	stop(t, p) // it has written everything then
	if sending.Stats().InUse != 0 || receiving.Stats().InUse != 0 {
		t.Errorf("%d and %d bytes are in use", sending.Stats().InUse, receiving.Stats().InUse)
	}
}

func stop(t *testing.T, p *port.Port) {
	t.Helper()
	if err := p.Stop(deadline(t)); err != nil {
		t.Error(err)
	}
}

// TensorFlow's client reads contents directly to their place if the type and the shape come before them.
func TestOrderOfFields(t *testing.T) {
	v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{3}, []float32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	m := &recvTensorResponse{ctx: t.Context(), tensor: v, start: time.UnixMicro(5)}
	b, err := m.MarshalWire()
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{3 << 3, 5, 1<<3 | 2, 22, 1 << 3, 1, 2<<3 | 2, 4, 2<<3 | 2, 2, 1 << 3, 3, 4<<3 | 2, 12}
	if got := b.Materialize(); !bytes.HasPrefix(got, want) || len(got) != len(want)+12 {
		t.Errorf("the message is % x", got)
	}
	dead := &recvTensorResponse{ctx: t.Context(), dead: true, start: time.UnixMicro(5)}
	if b, err = dead.MarshalWire(); err != nil {
		t.Fatal(err)
	}
	if got := b.Materialize(); !bytes.Equal(got, append([]byte{2 << 3, 1, 3 << 3, 5, 1<<3 | 2, 6}, noTensor...)) {
		t.Errorf("a dead value is % x", got)
	}
	var a corepb.RecvTensorResponse
	if err := proto.Unmarshal(b.Materialize(), &a); err != nil || a.GetTensor().GetTensorShape().GetDim()[0].GetSize() != 0 {
		t.Errorf("%v, %v", &a, err)
	}
}

// A request that is sent again is refused, since its tensor may have left. Requests without an id are not checked.
func TestSameRequestTwice(t *testing.T) {
	p := serve(t, &testTask{recv: func(context.Context, int64, string) (*tensor.Tensor, bool, error) {
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{1}, []float32{1})
		return v, false, err
	}})
	fetch := func(id int64) error {
		return call(t, p, "RecvTensor", &corepb.RecvTensorRequest{StepId: 10, RendezvousKey: "a;b", RequestId: id}, &corepb.RecvTensorResponse{})
	}
	for _, id := range []int64{0, 0, 4711, -3} {
		if err := fetch(id); err != nil {
			t.Errorf("id %d: %v", id, err)
		}
	}
	refused(t, "the same id", fetch(4711), status.Aborted, `The same RecvTensor (GrpcWorker) request was received twice. step_id: 10 rendezvous_key: "a;b" request_id: 4711`)
	ids := requestIDs{}
	ids.init(2)
	for _, id := range []int64{1, 2, 3, 1} {
		if !ids.add(id) {
			t.Errorf("id %d is not new", id)
		}
	}
}

// A tensor may be asked for before it is sent, by many at once. A caller that gives up ends its receive.
func TestWaiting(t *testing.T) {
	var waiting, ended sync.WaitGroup
	release := make(chan struct{})
	task := &testTask{recv: func(ctx context.Context, step int64, _ string) (*tensor.Tensor, bool, error) {
		waiting.Done()
		select {
		case <-release:
			v, err := tensor.FromSlice(tensor.Int64, tensor.Shape{1}, []int64{step})
			return v, false, err
		case <-ctx.Done():
			ended.Done()
			return nil, false, status.From(ctx.Err())
		}
	}}
	p := serve(t, task)
	puller := NewPuller(listen(t).Connect, tensor.Host)
	defer puller.Close()
	var pulls sync.WaitGroup
	const many = 100
	waiting.Add(many + 1)
	ended.Add(1)
	giveUp, cancel := context.WithCancel(deadline(t))
	pulls.Go(func() {
		_, _, err := puller.Pull(giveUp, p.Addr(), 1000, "k")
		if status.CodeOf(err) != status.Cancelled || strings.Contains(err.Error(), "remote target") {
			t.Errorf("given up: %v", err)
		}
	})
	for i := range many {
		pulls.Go(func() {
			v, _, err := puller.Pull(deadline(t), p.Addr(), int64(i), "k")
			if err != nil || tensor.Of[int64](v)[0] != int64(i) {
				t.Errorf("step %d: %v, %v", i, v, err)
				return
			}
			v.Release()
		})
	}
	waiting.Wait()
	cancel()
	ended.Wait()
	close(release)
	pulls.Wait()
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
