package troupe

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
)

// onBoth runs a test against a session in the process and against one over the network, on a server of its own
// each: the same program, and the same results.
func onBoth(t *testing.T, test func(t *testing.T, m Master)) {
	t.Run("in the process", func(t *testing.T) { test(t, localServer(t)) })
	overNetwork(t, localServer(t), test)
}

// onBothOf is onBoth on an existing server.
func onBothOf(t *testing.T, server *Server, test func(t *testing.T, m Master)) {
	t.Run("in the process", func(t *testing.T) { test(t, server) })
	overNetwork(t, server, test)
}

func overNetwork(t *testing.T, server *Server, test func(t *testing.T, m Master)) {
	t.Run("over the network", func(t *testing.T) {
		c, err := Dial(t.Context(), server.Target())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
		test(t, c)
	})
}

// sessionOf opens a session over the graph that was built.
func sessionOf(t *testing.T, m Master, s *op.Scope) *Session {
	t.Helper()
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	session, err := m.NewSession(t.Context(), def, nil)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func floatOf(t *testing.T, v *tensor.Tensor) float32 {
	t.Helper()
	f, err := tensor.To[float32](v)
	if err != nil {
		t.Error(err)
	}
	v.Release()
	return f
}

// counterGraph is a graph with a counter: next adds x to it.
func counterGraph() (s *op.Scope, x, next op.Output, reset *op.Operation) {
	s = op.NewScope()
	x = op.Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of()))
	counter := op.VariableV2(s.WithName("counter"), shape.Of(), tensor.Float32)
	zero := op.Sub(s, x, x)
	return s, x, op.AssignAdd(s.WithName("next"), counter, x), op.Assign(s.WithName("reset"), counter, zero).Op
}

func TestStepsOfABuiltGraph(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		s, x, next, reset := counterGraph()
		session := sessionOf(t, m, s)
		if _, err := session.Eval(t.Context(), Feeds{x: float32(0)}, reset); err != nil {
			t.Fatal(err)
		}
		two := tensor.FromScalar(float32(2))
		defer two.Release()
		for i, value := range []any{float32(1), two, float32(3)} {
			got, err := Fetch[float32](t.Context(), session, Feeds{x: value}, next)
			if want := []float32{1, 3, 6}[i]; err != nil || got != want {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
		}
		for what, feeds := range map[string]Feeds{
			"x:0: A ragged value is not a tensor": {x: [][]float32{{1}, {2, 3}}},
			"has type int32":                      {x: int32(1)},
			"could not be added":                  {op.Output{}: float32(1)},
		} {
			if _, err := session.Eval(t.Context(), feeds, next); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := session.Eval(t.Context(), nil, op.Output{}); status.CodeOf(err) != status.InvalidArgument {
			t.Error(err)
		}
		if err := session.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCallables(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		s, x, next, reset := counterGraph()
		y := op.Placeholder(s.WithName("y"), tensor.Float32, attr.Shape(shape.Of()))
		difference := op.Sub(s, x, y)
		session := sessionOf(t, m, s)
		if _, err := session.Eval(t.Context(), Feeds{x: float32(0)}, reset); err != nil {
			t.Fatal(err)
		}
		one, two := tensor.FromScalar(float32(1)), tensor.FromScalar(float32(2))
		defer one.Release()
		defer two.Release()
		c, err := session.Prepare(t.Context(), []op.Output{y, x}, difference, difference, next)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			out, err := c.Run(t.Context(), one, two)
			if err != nil {
				t.Fatal(err)
			}
			for j, want := range []float32{1, 1, float32(2*i) + 2} {
				if got := floatOf(t, out[j]); got != want {
					t.Errorf("run %d, result %d is %v, not %v", i, j, got, want)
				}
			}
		}
		fetched := make([]*tensor.Tensor, 3)
		if err := c.RunInto(t.Context(), fetched, []*tensor.Tensor{two, one}); err != nil {
			t.Fatal(err)
		}
		if got := floatOf(t, fetched[0]); got != -1 {
			t.Errorf("1-2 is %v", got)
		}
		fetched[1].Release()
		fetched[2].Release()

		integer := tensor.FromScalar(int32(1))
		defer integer.Release()
		vector, err := tensor.From([]float32{1, 2})
		if err != nil {
			t.Fatal(err)
		}
		defer vector.Release()
		for name, feeds := range map[string][]*tensor.Tensor{"one": {one}, "type": {one, integer}, "shape": {one, vector}, "none": {one, nil}} {
			if out, err := c.Run(t.Context(), feeds...); out != nil || status.CodeOf(err) != status.InvalidArgument {
				t.Errorf("%s: %v, %v", name, out, err)
			}
		}
		if err := c.RunInto(t.Context(), fetched[:1], []*tensor.Tensor{one, two}); status.CodeOf(err) != status.InvalidArgument {
			t.Error(err)
		}
		if _, err := session.PrepareStep(t.Context(), &corepb.CallableOptions{Feed: []string{"x:0"}, Fetch: []string{"absent:0"}}); err == nil || !strings.Contains(err.Error(), "absent") {
			t.Errorf("a tensor that is not there: %v", err)
		}
		if _, err := session.PrepareStep(t.Context(), &corepb.CallableOptions{Fetch: []string{difference.Name()},
			FeedDevices: map[string]string{"x:0": "/device:GPU:0"}}); status.CodeOf(err) != status.Unimplemented {
			t.Error(err)
		}
		// The graph may grow: prepared steps stay prepared.
		more := op.NewScope()
		op.Placeholder(more.WithName("z"), tensor.Float32)
		def, err := more.GraphDef()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Extend(t.Context(), def); err != nil {
			t.Fatal(err)
		}
		out, err := c.Run(t.Context(), one, two)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range out {
			v.Release()
		}
		other, err := session.Prepare(t.Context(), []op.Output{y, x}, difference)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := c.Run(t.Context(), one, two); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("a released callable: %v", err)
		}
		if err := session.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := other.Run(t.Context(), one, two); status.CodeOf(err) != status.Aborted {
			t.Errorf("a callable of a closed session: %v", err)
		}
	})
}

func TestPartialRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		s, x, next, reset := counterGraph()
		y := op.Placeholder(s.WithName("y"), tensor.Float32, attr.Shape(shape.Of()))
		product := op.Mul(s.WithName("product"), next, y)
		session := sessionOf(t, m, s)
		if _, err := session.Eval(t.Context(), Feeds{x: float32(0)}, reset); err != nil {
			t.Fatal(err)
		}
		two := tensor.FromScalar(float32(2))
		defer two.Release()
		p, err := session.PartialRun(t.Context(), []string{"x:0", "y:0"}, []string{"next:0", product.Name()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := p.Run(t.Context(), map[string]*tensor.Tensor{"x:0": two}, []string{"next:0"})
		if err != nil || floatOf(t, first[0]) != 2 {
			t.Errorf("%v, %v", first, err)
		}
		if _, err := p.Run(t.Context(), nil, []string{product.Name()}); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("a fetch that lacks a feed: %v", err)
		}
		second, err := p.Run(t.Context(), map[string]*tensor.Tensor{"y:0": two}, []string{product.Name()})
		if err != nil || floatOf(t, second[0]) != 4 { // the counter was incremented once
			t.Errorf("%v, %v", second, err)
		}
		if _, err := p.Run(t.Context(), nil, []string{"next:0"}); status.CodeOf(err) != status.InvalidArgument {
			t.Errorf("a partial run that is over: %v", err)
		}
	})
}

func TestContextsCancelSteps(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		s := op.NewScope()
		queue := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32})
		element := op.QueueDequeueV2(s, queue, []tensor.DType{tensor.Float32})[0]
		put := op.QueueEnqueueV2(s, queue, []op.Output{op.Const(s, float32(1))})
		session := sessionOf(t, m, s)
		c, err := session.Prepare(t.Context(), nil, element)
		if err != nil {
			t.Fatal(err)
		}
		for name, run := range map[string]func(ctx context.Context) error{
			"step":     func(ctx context.Context) error { _, err := session.Eval(ctx, nil, element); return err },
			"callable": func(ctx context.Context) error { _, err := c.Run(ctx); return err },
		} {
			// First with an element: the steps below then wait for an element and for nothing else.
			if _, err := session.Eval(t.Context(), nil, put); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			if err := run(ctx); status.CodeOf(err) != status.Cancelled {
				t.Errorf("%s: cancelled: %v", name, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
			if err := run(ctx); status.CodeOf(err) != status.DeadlineExceeded || !strings.Contains(err.Error(), element.Op.Name()) {
				t.Errorf("%s: too late: %v", name, err)
			}
			cancel()
			if err := run(ctx); status.CodeOf(err) != status.DeadlineExceeded && status.CodeOf(err) != status.Cancelled {
				t.Errorf("%s: with a context that has ended: %v", name, err)
			}
		}
	})
}

// A cancelled step takes no elements that its client enqueues afterwards, wherever the queue is.
func TestCancelledStepsTakeNothing(t *testing.T) {
	tries := 400
	if extent.Check() && !extent.RaceDetector {
		tries = 10_000
	}
	cluster, err := NewLocalCluster(t.Context(), map[string]int{"worker": 2}, silent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	onBothOf(t, cluster.Server("worker", 0), func(t *testing.T, m Master) {
		for task := range 2 {
			t.Run(fmt.Sprintf("the queue of task %d", task), func(t *testing.T) {
				s := op.NewScope().WithDevice(fmt.Sprintf("/job:worker/task:%d", task))
				queue := op.FIFOQueueV2(s, []tensor.DType{tensor.Float32})
				element := op.QueueDequeueV2(s, queue, []tensor.DType{tensor.Float32})[0]
				put := op.QueueEnqueueV2(s, queue, []op.Output{op.Const(s, float32(1))})
				session := sessionOf(t, m, s)
				for try := range tries {
					ctx, cancel := context.WithCancel(t.Context())
					give := time.AfterFunc(time.Duration(try%40)*20*time.Microsecond, cancel)
					if _, err := session.Eval(ctx, nil, element); status.CodeOf(err) != status.Cancelled {
						t.Fatalf("cancelled: %v", err)
					}
					give.Stop()
					cancel()
					if _, err := session.Eval(t.Context(), nil, put); err != nil {
						t.Fatal(err)
					}
					ctx, cancel = context.WithTimeout(t.Context(), extent.Slack(10*time.Second))
					if _, err := session.Eval(ctx, nil, element); err != nil {
						t.Fatalf("the element of try %d is lost: %v", try, err)
					}
					cancel()
				}
			})
		}
	})
}

func TestRunMetadata(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		s, x, next, reset := counterGraph()
		session := sessionOf(t, m, s)
		zero := tensor.FromScalar(float32(0))
		defer zero.Release()
		feeds := map[string]*tensor.Tensor{x.Name(): zero}
		r, err := session.RunStep(t.Context(), Step{Feeds: feeds, Targets: []string{reset.Name()},
			Options: &corepb.RunOptions{TraceLevel: corepb.RunOptions_FULL_TRACE, OutputPartitionGraphs: true}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Tensors) != 0 || len(r.Metadata.GetStepStats().GetDevStats()) != 1 || len(r.Metadata.GetPartitionGraphs()) != 1 {
			t.Errorf("%v", r.Metadata)
		}
		if r, err = session.RunStep(t.Context(), Step{Feeds: feeds, Fetches: []string{next.Name()}}); err != nil || r.Metadata != nil {
			t.Errorf("%v, %v", r, err)
		}
		r.Tensors[0].Release()
	})
}

func TestMasters(t *testing.T) {
	onBoth(t, func(t *testing.T, m Master) {
		devices, err := m.Devices(t.Context())
		if err != nil || len(devices) == 0 || !devices[0].Local || !strings.HasSuffix(devices[0].Name, "/device:CPU:0") || devices[0].Incarnation == 0 {
			t.Errorf("%+v, %v", devices, err)
		}
		s, x, next, reset := counterGraph()
		session := sessionOf(t, m, s)
		if of, err := session.Devices(t.Context()); err != nil || len(of) != len(devices) || of[0] != devices[0] {
			t.Errorf("%+v, %v", of, err)
		}
		if _, err := session.Eval(t.Context(), Feeds{x: float32(1)}, reset); err != nil {
			t.Fatal(err)
		}
		if err := m.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := session.Eval(t.Context(), Feeds{x: float32(1)}, next); status.CodeOf(err) != status.Aborted {
			t.Errorf("a session outlived a reset: %v", err)
		}
		session = sessionOf(t, m, s)
		if _, err := session.Eval(t.Context(), Feeds{x: float32(1)}, next); status.CodeOf(err) != status.FailedPrecondition {
			t.Errorf("a variable outlived a reset: %v", err)
		}
	})
}
