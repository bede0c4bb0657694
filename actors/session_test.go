package actors

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/kernelstest"
)

// client is a session that a test opened on a task.
type client struct {
	t       testing.TB
	node    *node
	session *Session
}

// everything are the rights of a client in tests that are not about rights.
var everything = Rights{Who: "the test", Files: AllFiles}

// open creates a session over the text of a graph.
func open(t testing.TB, n *node, text string) *client {
	t.Helper()
	return openWith(t, n, text, nil)
}

func openWith(t testing.TB, n *node, text string, config *corepb.ConfigProto) *client {
	t.Helper()
	return openAs(t, n, everything, text, config)
}

func openAs(t testing.TB, n *node, rights Rights, text string, config *corepb.ConfigProto) *client {
	t.Helper()
	handle, err := n.task.CreateSession(t.Context(), 0, rights, kernelstest.GraphDef(t, text), config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := n.task.Session(handle, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, n, s}
}

// request returns a step that feeds vectors of length three and fetches.
func request(feeds map[string]int64, fetches ...string) *StepRequest {
	req := &StepRequest{}
	for name, v := range feeds {
		req.Feeds = append(req.Feeds, Feed{name, kernelstest.I64(kernelstest.S(3), v, v, v)})
	}
	for _, f := range fetches {
		if f[0] == '!' {
			req.Targets = append(req.Targets, f[1:])
		} else {
			req.Fetches = append(req.Fetches, f)
		}
	}
	return req
}

func (r *StepRequest) done() {
	for _, f := range r.Feeds {
		f.Tensor.Release()
	}
}

// try runs a step and returns the first element of each result.
func (c *client) try(ctx context.Context, req *StepRequest) ([]int64, error) {
	defer req.done()
	result, err := c.session.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	return values(result), nil
}

func values(r *StepResult) []int64 {
	defer r.Release()
	var out []int64
	for _, t := range r.Tensors {
		out = append(out, tensor.Of[int64](t)[0])
	}
	return out
}

// run is try for a step that must return want.
func (c *client) run(req *StepRequest, want ...int64) {
	c.t.Helper()
	got, err := c.try(c.t.Context(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			c.t.Errorf("got %v, want %v", got, want)
			break
		}
	}
}

// begin runs a step on its own goroutine.
func (c *client) begin(ctx context.Context, req *StepRequest) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := c.try(ctx, req)
		ended <- err
	}()
	return ended
}

func (c *client) close() {
	c.t.Helper()
	if err := c.node.task.CloseSession(c.t.Context(), c.session.handle); err != nil {
		c.t.Error(err)
	}
}

const arithmetic = `
	x = Placeholder()
	two = Const() value=2 wide=true
	y = Mul(x, two)
	z = AddV2(y, x)
`

func TestSession(t *testing.T) {
	net := newNetwork(t, "a")
	n := net.node(taskName("a"))
	c := open(t, n, arithmetic)
	c.run(request(map[string]int64{"x:0": 5}, "y:0", "z:0"), 10, 15)
	c.run(request(map[string]int64{"y:0": 5, "x:0": 1}, "z:0"), 6)
	if n.task.Sessions() != 1 {
		t.Errorf("there are %d sessions", n.task.Sessions())
	}
	t.Run("extension", func(t *testing.T) {
		more := kernelstest.GraphDef(t, "w = Neg(z)")
		for range 2 { // the second time, as if the client had missed the answer
			if v, err := c.session.Extend(t.Context(), more, 0); v != 1 || err != nil {
				t.Fatal(v, err)
			}
		}
		c.run(request(map[string]int64{"x:0": 5}, "w:0"), -15)
		_, err := c.session.Extend(t.Context(), kernelstest.GraphDef(t, "v = Neg(z)"), 0)
		wantError(t, err, status.Aborted, "Current version is 1 but caller expected 0.")
		_, err = c.session.Extend(t.Context(), kernelstest.GraphDef(t, "z = Neg(x)"), 1)
		wantError(t, err, status.InvalidArgument, "z")
		_, err = c.session.Extend(t.Context(), kernelstest.GraphDef(t, "v = Neg(nobody)"), 1)
		wantError(t, err, status.InvalidArgument, "nobody")
		c.run(request(map[string]int64{"x:0": 5}, "w:0"), -15)
	})
	t.Run("errors", func(t *testing.T) {
		_, err := c.try(t.Context(), request(nil, "z:0"))
		wantError(t, err, status.InvalidArgument, "You must feed a value for placeholder tensor 'x'", "{{node x}}")
		_, err = c.try(t.Context(), request(nil))
		wantError(t, err, status.InvalidArgument, "Must specify at least one target to fetch or execute.")
		_, err = c.try(t.Context(), request(nil, "nobody:0"))
		wantError(t, err, status.NotFound, "nobody")
		req := &StepRequest{Feeds: []Feed{{"x:0", kernelstest.F32(nil, 1)}}, Fetches: []string{"z:0"}}
		_, err = c.try(t.Context(), req)
		wantError(t, err, status.InvalidArgument, "x:0", "float", "int64")
		_, err = n.task.Session("nonsense", 0)
		wantError(t, err, status.Aborted, "Session nonsense is not found.")
		_, err = n.task.CreateSession(t.Context(), 0, everything, kernelstest.GraphDef(t, "v = Neg(nobody)"), nil)
		wantError(t, err, status.InvalidArgument, "nobody")
		if n.task.Sessions() != 1 {
			t.Errorf("there are %d sessions", n.task.Sessions())
		}
	})
	c.close()
	_, err := c.try(t.Context(), request(map[string]int64{"x:0": 5}, "y:0"))
	wantError(t, err, status.FailedPrecondition, "Session is closed.")
	wantError(t, n.task.CloseSession(t.Context(), c.session.handle), status.Aborted, "is not found")
	_, err = c.session.Extend(t.Context(), kernelstest.GraphDef(t, "v = Neg(z)"), 1)
	wantError(t, err, status.FailedPrecondition, "Session is closed.")
}

// waiting is a graph with a value that arrives when something is put in a queue of the job.
const waiting = `
	q = FIFOQueueV2() @b0 shared_name="q"
	take = QueueDequeueV2(q) @b0
	one = Const() value=1
	put = QueueEnqueueV2(q, one) @b0
	five = Const() value=5 wide=true
	far = AddV2(take, five) @b0
	x = AddV2(far, five) @a0
	y = Neg(x) @c0
	z = Square(y) @a0
`

// awaits returns once one of the task's parts of steps waits for the node.
func (n *node) awaits(node string) {
	n.net.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		for _, st := range n.task.steps.parts() {
			for _, w := range devices.LookAt(&st.runs, 10, false).Waits {
				if w.Node.UserName() == node {
					return
				}
			}
		}
		if time.Now().After(deadline) {
			n.net.t.Fatalf("%s never waits for %s", n.name, node)
		}
		runtime.Gosched()
	}
}

func TestSteps(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	c := open(t, a, waiting)
	for range 10 {
		ended := c.begin(t.Context(), request(nil, "x:0", "z:0"))
		c.run(request(nil, "!put"))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		c.run(request(nil, "!put"))
		c.run(request(nil, "x:0", "z:0", "y:0"), 11, 121, -11)
	}
	t.Run("the client goes away", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := c.begin(ctx, request(nil, "z:0"))
		b.awaits("take")
		cancel()
		wantError(t, <-ended, status.Cancelled, "client")
	})
	t.Run("time is over", func(t *testing.T) {
		var err error
		for range 10 { // b has askMargin to answer, which may be too short on a busy machine
			req := request(nil, "z:0")
			req.Options = &corepb.RunOptions{TimeoutInMs: 200}
			if _, err = c.try(t.Context(), req); !strings.Contains(err.Error(), "is silent") {
				break
			}
		}
		wantError(t, err, status.DeadlineExceeded, "{{node take}} (QueueDequeueV2) on /job:b/replica:0/task:0")
	})
	t.Run("the session is closed", func(t *testing.T) {
		ended := c.begin(t.Context(), request(nil, "z:0"))
		b.awaits("take")
		c.close()
		wantError(t, <-ended, status.Cancelled, "Session::Close()")
	})
	c.idle()
}

// A call that gives up while the master is busy changes nothing: the session that it would end stays, with its client or its lease.
func TestCloseThatGivesUp(t *testing.T) {
	n := newNetwork(t, "a").node(taskName("a"))
	c := open(t, n, arithmetic)
	busy, goOn, reset := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		reset <- n.task.Reset(context.Background(), nil, "the test", func(*Session) bool {
			close(busy)
			<-goOn
			return false
		})
	}()
	<-busy
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err := n.task.CloseSession(over, c.session.handle)
	wantError(t, err, status.Cancelled)
	wantError(t, n.task.Reset(over, nil, "the test", nil), status.Cancelled)
	close(goOn)
	if err := <-reset; err != nil {
		t.Fatal(err)
	}
	c.run(request(map[string]int64{"x:0": 5}, "y:0"), 10)
	c.close()
	if n.task.Sessions() != 0 || len(n.task.sessions) != 0 {
		t.Error("there is a session")
	}
}

// A tensor goes to one task in one step and to another in the next. Each step sends and receives its own, though the nodes have the same
// names.
func TestReadersOfSeveralTasks(t *testing.T) {
	net := newNetwork(t, "p", "a", "b")
	const text = `
	x = Placeholder() @p0
	r = Square(x) @p0
	a = Identity(r) @a0
	c = Neg(r) @b0
	both = AddV2(a, c) @p0
`
	for _, master := range []string{"p", "a", "b"} {
		t.Run(master, func(t *testing.T) {
			c := open(t, net.node(taskName(master)), text)
			defer c.close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for i, fetch := range []string{"c:0", "a:0", "c:0", "both:0", "a:0", "r:0"} {
				got, err := c.try(ctx, request(map[string]int64{"x:0": 3}, fetch))
				if err != nil {
					t.Fatalf("step %d, %s: %v", i, fetch, err)
				}
				if want := map[string]int64{"a:0": 9, "c:0": -9, "both:0": 0, "r:0": 9}[fetch]; got[0] != want {
					t.Errorf("step %d, %s: got %d, want %d", i, fetch, got[0], want)
				}
			}
		})
	}
}
