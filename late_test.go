package troupe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/network/simnet"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// late is a cluster of two tasks, of which the second one may start late, or never.
type late struct {
	*testing.T
	*simulation
	log syncedBuffer // of the first task
}

// syncedBuffer is a buffer that several goroutines write to.
type syncedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

const (
	lateTask    = "/job:w/replica:0/task:1"
	lateAddress = "10.0.0.2:2222"
)

// newLate declares the cluster, and starts none of its tasks. It must be called in a synctest bubble.
func newLate(t *testing.T, address string) *late {
	l := &late{T: t}
	l.simulation = &simulation{net: simnet.New(1), cluster: ClusterSpec{"w": {"10.0.0.1:2222", address}}, tasks: make([]*Server, 2),
		process: map[*Server]*simnet.Process{}, killed: map[*Server]bool{}, places: [][]Option{{WithJob("w"), WithTask(0)}, {WithJob("w"), WithTask(1)}}}
	l.options = func(task int) []Option {
		if task == 0 {
			return []Option{counters, WithLogger(slog.New(slog.NewTextHandler(&l.log, nil)))}
		}
		return []Option{counters, WithConfig(&corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": 3}})}
	}
	l.host(1)                               // it is there, whether the task is or not
	t.Cleanup(func() { pass(time.Minute) }) // gossip's probes outlive the tasks by their timeouts
	return l
}

// client returns a client of the first task.
func (l *late) client() *Client {
	l.Helper()
	process := l.net.Host("10.0.1.1").Process()
	c, err := Dial(l.Context(), l.tasks[0].Target(), client.WithDialer(process.Dial))
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			l.Error(err)
		}
	})
	return c
}

// counts runs a counter on the second task, in a new session of the master.
func (l *late) counts(ctx context.Context, m Master, device string) error {
	s, start, count := counting(device, "late")
	session := sessionOf(l.T, m, s)
	defer session.Close(context.Background())
	if _, err := session.Eval(ctx, nil, start); err != nil {
		return err
	}
	got, err := Fetch[int64](ctx, session, nil, count)
	if err == nil && got != 1 {
		err = fmt.Errorf("the counter is %d", got)
	}
	return err
}

// countsOn is counts on a device that the second task may have. Its errors name the device. The session is soft if the device may be another.
func (l *late) countsOn(ctx context.Context, device string, soft bool) error {
	l.Helper()
	s, start, _ := counting(device, "late")
	def, err := s.GraphDef()
	if err != nil {
		return err
	}
	session, err := l.client().NewSession(ctx, def, &corepb.ConfigProto{AllowSoftPlacement: soft})
	if err != nil {
		if !strings.Contains(err.Error(), ", which requests "+device+": ") {
			err = fmt.Errorf("the error does not name the device: %w", err)
		}
		return err
	}
	defer session.Close(context.Background())
	_, err = session.Eval(ctx, nil, start)
	return err
}

// lateWays are the ways in which a program comes to need a task. Each is bounded by ctx.
var lateWays = []struct {
	name string
	do   func(l *late, ctx context.Context) error
}{
	{"a session in the process", func(l *late, ctx context.Context) error { return l.counts(ctx, l.tasks[0], "/job:w/task:1") }},
	{"a session of a client", func(l *late, ctx context.Context) error { return l.counts(ctx, l.client(), "/job:w/task:1") }},
	{"a step whose tensors cross tasks", func(l *late, ctx context.Context) error {
		s := op.NewScope()
		x := op.Placeholder(s.WithDevice("/job:w/task:0"), tensor.Float32, attr.Shape(shape.Of()))
		y := op.Neg(s.WithDevice("/job:w/task:1"), x)
		z := op.Neg(s.WithDevice("/job:w/task:0"), y)
		v := tensor.Scalar(tensor.Float32, float32(3))
		defer v.Release()
		got, err := Fetch[float32](ctx, sessionOf(l.T, l.tasks[0], s), Feeds{x: v}, z)
		if err == nil && got != 3 {
			err = fmt.Errorf("the result is %v", got)
		}
		return err
	}},
	{"variables whose homes are not decided", func(l *late, ctx context.Context) error {
		s := op.NewScope()
		var starts []*op.Operation
		for i := range 16 { // each task decides the homes of some names
			v := op.VariableV2(s, shape.Of(), tensor.Int64, attr.SharedName(fmt.Sprintf("v%d", i)))
			starts = append(starts, op.Assign(s, v, op.Const(s, int64(0))).Op)
		}
		def, err := s.GraphDef()
		if err != nil {
			return err
		}
		session, err := l.tasks[0].NewSession(ctx, def, nil)
		if err != nil {
			return err
		}
		for _, start := range starts {
			if _, err := session.Eval(ctx, nil, start); err != nil {
				return err
			}
		}
		return nil
	}},
	{"a device of the task", func(l *late, ctx context.Context) error { return l.countsOn(ctx, "/job:w/task:1/device:CPU:2", false) }},
	{"a device of any task", func(l *late, ctx context.Context) error { return l.countsOn(ctx, "/job:w/device:CPU:1", false) }},
	{"a device that may be another", func(l *late, ctx context.Context) error { return l.countsOn(ctx, "/job:w/task:1/device:GPU:0", true) }},
	{"a callable", func(l *late, ctx context.Context) error {
		s := op.NewScope()
		y := op.Neg(s.WithDevice("/job:w/task:1"), op.Const(s, float32(3)))
		callable, err := sessionOf(l.T, l.client(), s).Prepare(ctx, nil, y)
		if err != nil {
			return err
		}
		got, err := callable.Run(ctx)
		for _, v := range got {
			v.Release()
		}
		return err
	}},
	{"a pipeline", func(l *late, ctx context.Context) error {
		queue, err := pipeline.Declare[int64](pipeline.Queue{Name: "rows", Device: "/job:w/task:1", Capacity: 100})
		if err != nil {
			return err
		}
		session, err := l.client().NewSession(ctx, nil, nil)
		if err != nil {
			return err
		}
		producer, err := queue.Producer(ctx, session, pipeline.ProducerOptions{})
		if err != nil {
			return err
		}
		return producer.Put(ctx, 1)
	}},
	{"a new actor", func(l *late, ctx context.Context) error {
		_, err := l.tasks[0].Spawn(ctx, "counter", ActorAt(lateTask, "made"), nil)
		return err
	}},
	{"an ensured actor", func(l *late, ctx context.Context) error {
		ref, err := l.tasks[0].Ensure(ctx, "counter", ActorAt(lateTask, "ensured"), nil)
		if err != nil {
			return err
		}
		if err := l.tasks[0].Send(ctx, ref, wrapperspb.Int64(2)); err != nil {
			return err
		}
		_, err = Ask[*wrapperspb.Int64Value](ctx, l.tasks[0], ref, &emptypb.Empty{})
		return err
	}},
	{"a message", func(l *late, ctx context.Context) error {
		return l.tasks[0].Send(ctx, ActorAt(lateTask, "nobody"), wrapperspb.Int64(2))
	}},
	{"a request", func(l *late, ctx context.Context) error {
		_, err := Ask[*wrapperspb.Int64Value](ctx, l.tasks[0], ActorAt(lateTask, "nobody"), &emptypb.Empty{})
		if status.CodeOf(err) == status.NotFound { // the task has answered
			return nil
		}
		return err
	}},
}

const never = -1

// TestLateTasks checks that whatever needs a task that has never been seen waits for it while the cluster starts, says so, and ends soon after
// the task has come, the cluster's time to start is over, or the caller's.
func TestLateTasks(t *testing.T) {
	comings := []time.Duration{-3 * time.Second, 0, 3 * time.Second, 12 * time.Second, 90 * time.Second, never}
	for i, way := range lateWays {
		for k, after := range comings {
			if !extent.Check() && after != 12*time.Second && (i+k)%3 != 0 { // the short form has each way and each time
				continue
			}
			name := fmt.Sprintf("%s/%v", way.name, after)
			if after == never {
				name = way.name + "/never"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testLate(newLate(t, lateAddress), way.do, after) })
			})
		}
	}
}

func testLate(l *late, do func(l *late, ctx context.Context) error, after time.Duration) {
	if after < never {
		l.restart(l.T, 1)
		pass(-after)
	}
	l.restart(l.T, 0)
	began := time.Now()
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(l.Context(), time.Hour)
	defer cancel()
	go func() { done <- do(l, ctx) }()
	if after >= 0 {
		pass(after)
		l.restart(l.T, 1)
	}
	if after == never {
		pass(time.Minute)
		looked := time.Now()
		s := l.tasks[0].server.ClusterStatus(l.Context())
		if !strings.Contains(s.Tasks[1].Reason, "refused; it is awaited until ") {
			l.Errorf("the status is %+v", s)
		}
		if d := time.Since(looked); d > time.Second {
			l.Errorf("the status took %v", d)
		}
	}
	err := <-done
	took := time.Since(began)
	lines := strings.Count(l.log.String(), "a task that has never been seen is awaited")
	if after == never {
		if status.CodeOf(err) != status.Unavailable || !strings.Contains(err.Error(), "worker "+lateTask+" ("+lateAddress+") has not been reached since ") ||
			!strings.Contains(err.Error(), "refused") {
			l.Errorf("the error is %v", err)
		}
		if took < DefaultStartup-time.Second || took > DefaultStartup+10*time.Second {
			l.Errorf("it took %v", took)
		}
		after = DefaultStartup
	} else {
		if err != nil {
			l.Errorf("after %v: %v", took, err)
		}
		if took > max(after, 0)+3*time.Second {
			l.Errorf("it took %v, with a task that came after %v", took, after)
		}
	}
	if want := int(max(after, 0) / (10 * time.Second)); lines < want-1 || lines > want+1 {
		l.Errorf("%d lines of the log say that the task is awaited, of about %d", lines, want)
	}
}

// TestLateTasksAndOwnTimes checks that a caller's own time ends its wait for a task that has never been seen, and that its error names the task.
func TestLateTasksAndOwnTimes(t *testing.T) {
	for _, way := range lateWays {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLate(t, lateAddress)
				l.restart(t, 0)
				ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
				defer cancel()
				began := time.Now()
				err := way.do(l, ctx)
				if took := time.Since(began); err == nil || took < 6*time.Second || took > 7500*time.Millisecond {
					t.Errorf("after %v: %v", took, err)
				}
				if !strings.Contains(err.Error(), lateTask) || !strings.Contains(err.Error(), "refused") {
					t.Errorf("the error does not say what was awaited: %v", err)
				}
			})
		})
	}
}

// TestLateTaskHoldsUpNothingElse checks that a session whose step waits for a task goes on with others, says what it waits for, and closes at
// once.
func TestLateTaskHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, lateAddress)
		l.restart(t, 0)
		s := op.NewScope()
		there := op.Neg(s.WithDevice("/job:w/task:1"), op.Const(s, float32(3)))
		here := op.Neg(s.WithDevice("/job:w/task:0"), op.Const(s, float32(3)))
		session := sessionOf(t, l.tasks[0], s)
		done := make(chan error, 1)
		go func() {
			_, err := Fetch[float32](t.Context(), session, nil, there)
			done <- err
		}()
		pass(20 * time.Second)
		began := time.Now()
		if got, err := Fetch[float32](deadline(t), session, nil, here); err != nil || got != -3 {
			t.Errorf("a step that does not need the task: %v, %v", got, err)
		}
		seen := l.tasks[0].server.See(t.Context(), view.ForWhy())
		why := view.Awaits(seen, time.Second)
		if len(why) != 1 || !strings.Contains(why[0].Text, lateTask+" is never seen") || why[0].Seconds < 19 {
			t.Errorf("the reasons are %+v", why)
		}
		if err := session.Close(deadline(t)); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil {
			t.Error("a step of a closed session has ended without an error")
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("all that took %v", took)
		}
	})
}

// TestLateTaskAndTimeoutOfStep checks that the time limit of a step's options ends its wait.
func TestLateTaskAndTimeoutOfStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLate(t, lateAddress)
		l.restart(t, 0)
		s := op.NewScope()
		there := op.Neg(s.WithDevice("/job:w/task:1"), op.Const(s, float32(3)))
		session := sessionOf(t, l.client(), s)
		began := time.Now()
		_, err := session.RunStep(t.Context(), Step{Options: &corepb.RunOptions{TimeoutInMs: 5000}, Fetches: []string{there.Name()}})
		if took := time.Since(began); status.CodeOf(err) != status.DeadlineExceeded || took > 5*time.Second || !strings.Contains(err.Error(), lateTask) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// TestWrongAddressesAreToldSoon checks that a task's address that is wrong is not waited for, other than one where nothing is yet.
func TestWrongAddressesAreToldSoon(t *testing.T) {
	talk := func(f func(c net.Conn)) func(l net.Listener) {
		return func(l net.Listener) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					f(c)
				}()
			}
		}
	}
	wrong := 4500*time.Millisecond + time.Second
	for _, c := range []struct {
		name    string
		address string
		serve   func(l net.Listener) // nil: nobody listens
		within  time.Duration        // until the error; 0 if the task is waited for
		says    string
	}{
		{"nobody", lateAddress, nil, 0, "refused"},
		{"a name that does not resolve", "no.such.host:2222", nil, wrong, "no such host"},
		{"a web server", lateAddress, talk(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}), wrong, "http2"},
		{"another gRPC server", lateAddress, func(l net.Listener) { _ = grpc.NewServer().Serve(l) }, wrong, "unknown service"},
		{"a program that greets", lateAddress, talk(func(c net.Conn) {
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
			_, _ = io.Copy(io.Discard, c)
		}), wrong, "http2"},
		{"a proxy before nobody", lateAddress, talk(func(net.Conn) {}), 0, "the connection broke"},
		{"a process that does not answer", lateAddress, talk(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }), 0, "it did not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLate(t, c.address)
				l.restart(t, 0)
				if c.serve != nil {
					lis, err := l.host(1).Process().ListenTCP(&net.TCPAddr{IP: net.ParseIP("10.0.0.2"), Port: 2222})
					if err != nil {
						t.Fatal(err)
					}
					served := make(chan struct{})
					go func() {
						defer close(served)
						c.serve(lis)
					}()
					defer func() {
						if err := lis.Close(); err != nil {
							t.Error(err)
						}
						<-served
					}()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				began := time.Now()
				err := l.counts(ctx, l.tasks[0], "/job:w/task:1")
				took := time.Since(began)
				if status.CodeOf(err) != status.Unavailable && status.CodeOf(err) != status.DeadlineExceeded || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), lateTask) {
					t.Errorf("the error is %v", err)
				}
				if waits := c.within == 0; waits && took < 29*time.Second || !waits && took > c.within {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
