package workerservice

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

const (
	sender = "/job:ps/replica:0/task:1"
	keyOf  = sender + "/device:CPU:0;0000000000000001;" + cpu0 + ";edge_1_x;0:0"
	// target is the line by which clients recognize the task that failed.
	target = "Additional GRPC error information from remote target " + sender + " while calling /tensorflow.WorkerService/RecvTensor:"
)

// rawTask is a task of another make, which answers RecvTensor with anything.
type rawTask struct {
	server   *http2.Server
	listener net.Listener
	conns    sync.WaitGroup
	dialled  chan net.Conn
}

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (c rawCodec) UnmarshalUntil(b mem.BufferSlice, v any, _ func() error) error {
	return c.Unmarshal(b, v)
}
func (rawCodec) Unmarshal(b mem.BufferSlice, v any) error { *v.(*[]byte) = b.Materialize(); return nil }

func rawServe(t *testing.T, answer func(ctx context.Context) ([]byte, error)) *rawTask {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	method := &http2.Method{Unary: func(ctx context.Context, read func(any) error) (any, error) {
		var q []byte
		if err := read(&q); err != nil {
			return nil, err
		}
		b, err := answer(ctx)
		if err != nil {
			return nil, err
		}
		return b, nil
	}}
	r := &rawTask{listener: l, dialled: make(chan net.Conn, 100)}
	r.server = http2.NewServer(http2.Config{Lookup: func(string) *http2.Method { return method }, Codec: rawCodec{}, Logger: silent})
	r.conns.Go(func() {
		for n := uint64(1); ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.dialled <- c
			r.server.Serve(c, nil, n, nil)
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.conns.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := r.server.Stop(ctx, 10*time.Second); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rawTask) address() string { return r.listener.Addr().String() }

// floats returns an answer with a tensor of n floats, and a content of any size.
func floats(n int64, content int) []byte {
	b, err := proto.Marshal(&corepb.RecvTensorResponse{Tensor: &tensorpb.TensorProto{Dtype: tensor.Float32.Proto(), TensorShape: tensor.Shape{n}.Proto(),
		TensorContent: make([]byte, content)}})
	if err != nil {
		panic(err)
	}
	return b
}

// Errors of the task and of the way to it name the task. Those of the receiver do not.
func TestErrorsOfPulls(t *testing.T) {
	pool := tensor.NewPool("receiving", 1<<20)
	puller := NewPuller(listen(t).Connect, pool)
	defer puller.Close()
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	_, _, err = puller.Pull(deadline(t), nobody.Addr().String(), 1, keyOf)
	refused(t, "nobody there", err, status.Unavailable, "failed to connect to all addresses; last error: UNKNOWN: ")
	refused(t, "nobody there", err, status.Unavailable, target)
	refused(t, "nobody there", err, status.Unavailable, "connection refused")

	for name, c := range map[string]struct {
		answer []byte
		err    error
		code   status.Code
		text   string
		remote bool
	}{
		"an error":          {nil, grpcstatus.Error(codes.Aborted, "RecvTensor expects a different device incarnation"), status.Aborted, "RecvTensor expects a different device incarnation\nAdditional", true},
		"another error":     {nil, grpcstatus.Error(codes.InvalidArgument, "Invalid rendezvous key (src): x"), status.InvalidArgument, "Invalid rendezvous key (src): x\n", true},
		"nothing":           {[]byte{3 << 3, 1}, nil, status.Internal, "has no tensor", false},
		"two tensors":       {[]byte("\x0a\x02\x08\x01\x0a\x02\x08\x01"), nil, status.InvalidArgument, "malformed", false},
		"a half":            {[]byte("\x0a\x20\x08\x01"), nil, status.InvalidArgument, "malformed", false},
		"a wrong size":      {floats(5, 4), nil, status.InvalidArgument, "tensor_content of 4 bytes does not fit", false},
		"an acknowledgment": {[]byte{5 << 3, 1}, nil, status.Unimplemented, "require_ack", false},
		"too much":          {floats(1<<20, 4<<20), nil, status.ResourceExhausted, "", false},
	} {
		r := rawServe(t, func(context.Context) ([]byte, error) { return c.answer, c.err })
		v, dead, err := puller.Pull(deadline(t), r.address(), 1, keyOf)
		if v != nil || dead {
			t.Errorf("%s: %v, %v", name, v, dead)
		}
		refused(t, name, err, c.code, c.text)
		if strings.Contains(err.Error(), target) != c.remote || !c.remote && !strings.Contains(err.Error(), "A tensor of "+sender+", at "+r.address()+", cannot be received: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes are in use", n)
	}
}

// A task that is lost while a pull waits is named in its error, and the next pull connects again.
func TestLostTask(t *testing.T) {
	entered := make(chan struct{}, 10)
	var again atomic.Bool
	r := rawServe(t, func(ctx context.Context) ([]byte, error) {
		entered <- struct{}{}
		if again.Load() {
			return floats(1, 4), nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	puller := NewPuller(listen(t).Connect, tensor.Host)
	defer puller.Close()
	failed := make(chan error, 1)
	go func() {
		_, _, err := puller.Pull(deadline(t), r.address(), 1, keyOf)
		failed <- err
	}()
	<-entered
	(<-r.dialled).Close()
	err := <-failed
	refused(t, "lost", err, status.Unavailable, "Socket closed: ")
	refused(t, "lost", err, status.Unavailable, target)
	again.Store(true)
	v, _, err := puller.Pull(deadline(t), r.address(), 1, keyOf)
	if err != nil {
		t.Fatal(err)
	}
	v.Release()
}

// A pull on a connection to a process that has just ended is made again, for the next process may be there by now. Whether it is or not, the
// error is that of the loss.
func TestRestartedTask(t *testing.T) {
	for name, next := range map[string]func() ([]byte, error){
		"another process is there": func() ([]byte, error) { return floats(1, 4), nil },
		"the same one": func() ([]byte, error) {
			return nil, grpcstatus.Error(codes.Aborted, "The same RecvTensor request was received twice")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rawTask
			var calls atomic.Int32
			r = rawServe(t, func(ctx context.Context) ([]byte, error) {
				switch calls.Add(1) {
				case 1:
					return floats(1, 4), nil
				case 2: // the process ends before it answers
					(<-r.dialled).Close()
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return next()
			})
			puller := NewPuller(listen(t).Connect, tensor.Host)
			defer puller.Close()
			for i := range 2 {
				v, _, err := puller.Pull(deadline(t), r.address(), 1, keyOf)
				if v != nil {
					v.Release()
				}
				if i == 1 && name == "the same one" {
					refused(t, name, err, status.Unavailable, "Socket closed: ")
				} else if err != nil {
					t.Error(err)
				}
			}
			if n := calls.Load(); n != 3 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// Connections are bounded, kept for the next pull, and closed when they have been idle or the puller is closed.
func TestPeers(t *testing.T) {
	answer := floats(1, 4)
	entered, release := make(chan struct{}, 10), make(chan struct{})
	busy := rawServe(t, func(context.Context) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return answer, nil
	})
	quick := []*rawTask{}
	for range 2 {
		quick = append(quick, rawServe(t, func(context.Context) ([]byte, error) { return answer, nil }))
	}
	puller := NewPuller(listen(t).Connect, tensor.Host)
	puller.peers.most = 2
	pull := func(r *rawTask) error {
		v, _, err := puller.Pull(deadline(t), r.address(), 1, keyOf)
		if err == nil {
			v.Release()
		}
		return err
	}
	var pulls sync.WaitGroup
	pulls.Go(func() {
		if err := pull(busy); err != nil {
			t.Error(err)
		}
	})
	<-entered
	for i, r := range []*rawTask{quick[0], quick[0], quick[1], quick[0]} { // the third closes the connection of the first two, the fourth that of the third
		if err := pull(r); err != nil {
			t.Errorf("pull %d: %v", i, err)
		}
	}
	if a, b := len(quick[0].dialled), len(quick[1].dialled); a != 2 || b != 1 {
		t.Errorf("%d and %d connections", a, b)
	}
	idle := func() (n int) {
		p := &puller.peers
		p.mu.Lock()
		for _, at := range p.of {
			at.idle = at.idle.Add(-idleTime)
		}
		p.mu.Unlock()
		p.closeIdle()
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.of)
	}
	if n := idle(); n != 1 {
		t.Errorf("%d connections are left while one is in use", n)
	}
	puller.peers.most = 1
	refused(t, "too many", pull(quick[1]), status.ResourceExhausted, "and the limit is 1")
	close(release)
	pulls.Wait()
	if n := idle(); n != 0 || puller.peers.sweep != nil {
		t.Errorf("%d idle connections are left", n)
	}
	if err := pull(quick[1]); err != nil {
		t.Error(err)
	}
	puller.Close()
	puller.Close()
	refused(t, "closed", pull(quick[1]), status.Unavailable, "shutting down")
}

// TestPeersOfOneClient checks that one client does not use up the connections to other tasks, nor the files that the process may open.
func TestPeersOfOneClient(t *testing.T) {
	p := &NewPuller(nil, tensor.Host).peers
	p.most = 4
	defer p.close()
	enter := func(client, address string) *peer {
		t.Helper()
		at, err := p.enter(client, address)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	a, again, b := enter("alice", "a:1"), enter("alice", "a:1"), enter("alice", "b:1")
	_, err := p.enter("alice", "c:1")
	refused(t, "a third task", err, status.ResourceExhausted, "c:1 is not connected: alice receives tensors from 2 other tasks, and the limit for one client is 2")
	_, err = p.enter("alice", "d:1")
	refused(t, "a fourth task", err, status.ResourceExhausted, "d:1 is not connected")
	c, shared := enter("bob", "c:1"), enter("bob", "a:1")
	p.leave("alice", a)
	_, err = p.enter("alice", "c:1")
	refused(t, "while another call uses the first one", err, status.ResourceExhausted, "c:1 is not connected")
	p.leave("alice", again)
	also := enter("alice", "c:1")
	for at, client := range map[*peer]string{b: "alice", also: "alice", shared: "bob"} {
		p.leave(client, at)
	}
	p.leave("bob", c)
	if len(p.used) != 0 || len(a.by)+len(b.by)+len(c.by) != 0 {
		t.Errorf("%v are in use", p.used)
	}
	for files, want := range map[uint64]int{0: maxPeers, 1 << 20: maxPeers, 1024: 128, 8: 2} {
		if got := mostPeers(files); got != want {
			t.Errorf("%d connections in a process that may open %d files, want %d", got, files, want)
		}
	}
}

func BenchmarkPull(b *testing.B) {
	for _, n := range []int64{1, 1 << 18} {
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{n}, make([]float32, n))
		if err != nil {
			b.Fatal(err)
		}
		defer v.Release()
		p := serve(b, &testTask{recv: func(context.Context, int64, string) (*tensor.Tensor, bool, error) { return v.Retain(), false, nil }})
		puller := NewPuller(listen(b).Connect, tensor.Host)
		defer puller.Close()
		b.Run(fmt.Sprint(4*n, " bytes"), func(b *testing.B) {
			b.SetBytes(4 * n)
			b.ReportAllocs()
			for b.Loop() {
				got, _, err := puller.Pull(b.Context(), p.Addr(), 1, keyOf)
				if err != nil {
					b.Fatal(err)
				}
				got.Release()
			}
		})
	}
}
