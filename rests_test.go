package troupe

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/golang-jwt/jwt/v5"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/queues/pipeline"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rests are the idle times between two operations. They are on both sides of the times after which links, leases, answers, batches and
// certificates end, and longer.
var rests = []time.Duration{time.Second, 59 * time.Second, 61 * time.Second, 10 * time.Minute, 2 * time.Hour, 25 * time.Hour}

// Except in full runs, TestRests uses the rests from longRest on once for each kind, not for each pair of operations. In make test,
// pairRest is the only rest that it uses for each pair.
const (
	longRest = 2 * time.Hour
	pairRest = 61 * time.Second
)

// resting is the state that the operations of a kind share.
type resting struct {
	*testing.T
	*simulation
	idled time.Duration // the time that the operation itself let pass
}

// idle lets time pass within an operation.
func (r *resting) idle(d time.Duration) {
	pass(d)
	r.idled += d
}

// restOperation is something that users do. It works in whatever state the earlier operations have left.
type restOperation struct {
	name string
	do   func()
}

// restKind is a kind of things that may be idle and have timers, by its name in internal/conventions/testdata/timers.txt.
type restKind struct {
	name  string
	tasks int
	setup func(t *testing.T) (options func(task int) []Option, make func(r *resting) []restOperation)
	// ends is the time after which something of the kind ends that is idle, if pairRest is not longer. All forms of TestRests rest for longer than that
	// between the operations of each pair.
	ends time.Duration
}

// all returns the rests of a kind.
func (k restKind) all() []time.Duration {
	if k.ends == 0 {
		return rests
	}
	return append([]time.Duration{k.ends + restMargin}, rests...)
}

// restMargin is how much later than at its time something may end: the loss of a connection, for example, is noticed late.
const restMargin = 5 * time.Second

var restKinds = []restKind{
	{name: "session", tasks: 2, setup: plainly(sessionsThatRest)},
	{name: "link", tasks: 2, setup: plainly(linksThatRest)},
	{name: "unused", tasks: 2, setup: plainly(unusedLinksThatRest), ends: time.Minute},
	{name: "orphan", tasks: 2, setup: plainly(orphansThatRest)},
	{name: "lease", tasks: 2, setup: plainly(leasesThatRest), ends: DefaultLease},
	{name: "context", tasks: 1, setup: plainly(contextsThatRest)},
	{name: "callable", tasks: 2, setup: plainly(callablesThatRest)},
	{name: "partial", tasks: 2, setup: plainly(partialRunsThatRest)},
	{name: "queue", tasks: 2, setup: plainly(queuesThatRest)},
	{name: "loan", tasks: 2, setup: plainly(loansThatRest)},
	{name: "pipeline", tasks: 2, setup: plainly(pipelinesThatRest)},
	{name: "iterator", tasks: 2, setup: plainly(iteratorsThatRest)},
	{name: "snapshot", tasks: 1, setup: plainly(snapshotsThatRest)},
	{name: "batch", tasks: 1, setup: plainly(batchesThatRest)},
	{name: "events", tasks: 1, setup: plainly(eventsThatRest), ends: eventsFlush},
	{name: "actor", tasks: 2, setup: plainly(actorsThatRest, restingActors...)},
	{name: "virtual", tasks: 2, setup: plainly(virtualActorsThatRest, restingVirtualActors)},
	{name: "watch", tasks: 2, setup: plainly(watchesThatRest, restingActors...)},
	{name: "ask", tasks: 2, setup: plainly(asksThatRest, restingActors...)},
	{name: "topic", tasks: 2, setup: plainly(topicsThatRest)},
	{name: "gossip", tasks: 3, setup: plainly(gossipThatRests)},
	{name: "token", tasks: 1, setup: tokensThatRest, ends: paperTime + signedLeeway},
	{name: "certificate", tasks: 2, setup: certificatesThatRest, ends: paperTime},
	{name: "trace", tasks: 2, setup: plainly(tracesThatRest)},
	{name: "guest", tasks: 2, setup: plainly(guestsThatRest)},
}

// plainly sets up tasks that all have the same options.
func plainly(make func(r *resting) []restOperation, options ...Option) func(t *testing.T) (func(task int) []Option, func(r *resting) []restOperation) {
	return func(*testing.T) (func(task int) []Option, func(r *resting) []restOperation) {
		return func(int) []Option { return options }, make
	}
}

// TestRests runs each pair of operations of each kind with each of the rests between them.
func TestRests(t *testing.T) {
	for _, k := range restKinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options, make := k.setup(t)
				r := &resting{T: t, simulation: simulatedEach(t, k.tasks, options)}
				operations := make(r)
				for _, rest := range k.all() {
					if rest != pairRest && rest != k.ends+restMargin && !extent.Full() && (rest >= longRest || !extent.Check() || extent.RaceDetector) {
						if rest <= longRest || extent.Check() && !extent.RaceDetector {
							r.round(operations, rest)
						}
						continue
					}
					for _, first := range operations {
						for _, second := range operations {
							r.pair(first, second, rest)
						}
					}
				}
			})
		})
	}
}

// round runs all operations, and runs them again after a rest. It is the short form for kinds whose pairs have had
// shorter rests.
func (r *resting) round(operations []restOperation, rest time.Duration) {
	for i := range 2 {
		for _, o := range operations {
			r.do(o)
			if r.Failed() {
				r.Fatalf("%s, after a rest of %v of all", o.name, rest)
			}
		}
		if i == 0 {
			pass(rest)
		}
	}
}

func (r *resting) pair(first, second restOperation, rest time.Duration) {
	r.do(first)
	pass(rest)
	r.do(second)
	if r.Failed() {
		r.Fatalf("%s, then %s after a rest of %v", first.name, second.name, rest)
	}
}

// do runs an operation, which must end in bounded time.
func (r *resting) do(o restOperation) {
	r.idled = 0
	start := time.Now()
	o.do()
	if d := time.Since(start) - r.idled; d > 20*time.Second {
		r.Errorf("%s took %v", o.name, d)
	}
}

// check ends the test with an error.
func (r *resting) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *resting) bounded() context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), 15*time.Second)
	r.Cleanup(cancel)
	return ctx
}

// dial returns a client of a task, on a host of its own, and a function that breaks its connections.
func (r *resting) dial(task int, opts ...client.Option) (c *Client, cut func()) {
	r.Helper()
	process := r.net.Host("10.0.1.1").Process()
	c, err := Dial(r.Context(), r.tasks[task].Target(), append([]client.Option{client.WithDialer(process.Dial)}, opts...)...)
	r.check(err)
	r.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			r.Error(err)
		}
	})
	return c, process.Break
}

// counting is a graph with a counter on a task, which count adds 1 to.
func counting(device, name string) (s *op.Scope, start *op.Operation, count op.Output) {
	s = op.NewScope().WithDevice(device)
	v := op.VariableV2(s, shape.Of(), tensor.Int64, attr.SharedName(name))
	return s, op.Assign(s, v, op.Const(s, int64(0))).Op, op.AssignAdd(s, v, op.Const(s, int64(1)))
}

// counter is a session that counts on a task of the cluster.
type counterOf struct {
	*resting
	session *Session
	count   op.Output
	want    int64
}

func (r *resting) counter(m Master, name string) *counterOf {
	s, start, count := counting("/job:w/task:1", name)
	session := sessionOf(r.T, m, s)
	_, err := session.Eval(r.bounded(), nil, start)
	r.check(err)
	return &counterOf{r, session, count, 0}
}

func (c *counterOf) run() {
	c.Helper()
	got, err := Fetch[int64](c.bounded(), c.session, nil, c.count)
	if c.want++; err != nil || got != c.want {
		c.Errorf("the counter is %d, %v; want %d", got, err, c.want)
	}
}

// sessionsThatRest are sessions over the network and in the process, whose steps span two tasks.
func sessionsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	far, near := r.counter(c, "far"), r.counter(r.tasks[0], "near")
	return []restOperation{
		{"a step over the network", far.run},
		{"a step in the process", near.run},
		{"a list of devices", func() {
			devices, err := c.Devices(r.bounded())
			if err != nil || len(devices) != 2 {
				r.Errorf("%v, %v", devices, err)
			}
		}},
		{"another session", func() {
			s, _, count := counting("/job:w/task:1", "far")
			session := sessionOf(r.T, c, s)
			got, err := Fetch[int64](r.bounded(), session, nil, count)
			if far.want++; err != nil || got != far.want {
				r.Errorf("it counts %d, %v; want %d", got, err, far.want)
			}
			r.check(session.Close(r.bounded()))
		}},
	}
}

// linksThatRest are tensors and messages of steps that go between tasks, in both directions.
func linksThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, on := range r.tasks {
		other := fmt.Sprintf("/job:w/task:%d", 1-i)
		for _, size := range []int64{1, 1 << 20} {
			s := op.NewScope()
			x := op.Placeholder(s.WithDevice(fmt.Sprintf("/job:w/task:%d", i)), tensor.Uint8, attr.Shape(shape.Of(size)))
			y := op.BitwiseXor(s.WithDevice(other), x, op.Const(s, uint8(1)))
			session := sessionOf(r.T, on, s)
			v, err := tensor.New(tensor.Host, tensor.Uint8, tensor.Shape{size})
			r.check(err)
			r.Cleanup(v.Release)
			all = append(all, restOperation{fmt.Sprintf("%d bytes from task %d to the other one and back", size, i), func() {
				got, err := session.Eval(r.bounded(), Feeds{x: v}, y)
				r.check(err)
				if b := got[0].Data(); int64(len(b)) != size || b[size-1] != v.Data()[size-1]^1 {
					r.Errorf("%d bytes came", len(b))
				}
				got[0].Release()
			}})
		}
	}
	return all
}

// unusedLinksThatRest are links that nothing holds, since the sessions that used them have been closed. They are closed, and the next session opens
// them again.
func unusedLinksThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, on := range r.tasks {
		all = append(all, restOperation{fmt.Sprintf("a session of task %d that is closed after a step on both tasks", i), func() {
			s := op.NewScope()
			far := op.Const(s.WithDevice(fmt.Sprintf("/job:w/task:%d", 1-i)), int64(3))
			session := sessionOf(r.T, on, s)
			n, err := Fetch[int64](r.bounded(), session, nil, far)
			r.check(err)
			if n != 3 {
				r.Errorf("%d came", n)
			}
			r.check(session.Close(r.bounded()))
		}})
	}
	return all
}

// orphansThatRest are the parts of a session whose master is lost: it starts anew, or comes back when the task that has the parts has forgotten them.
func orphansThatRest(r *resting) []restOperation {
	var counter *counterOf
	return []restOperation{
		{"a step", func() {
			if counter == nil {
				counter = r.counter(r.tasks[0], "orphaned")
			}
			counter.run()
		}},
		{"the master crashes, and starts anew", func() {
			r.kill(0)
			r.idle(15 * time.Second)
			r.restart(r.T, 0)
			r.idle(3 * time.Second)
			counter = nil
		}},
		{"the master is out of reach for longer than the lease", func() {
			r.host(0).Freeze(true)
			r.idle(DefaultLease + 15*time.Second)
			r.host(0).Freeze(false)
			r.idle(15 * time.Second)
		}},
	}
}

// leasesThatRest are sessions whose clients lose their connections: they continue if they come back within the lease, and get ABORTED
// otherwise.
func leasesThatRest(r *resting) []restOperation {
	c, cut := r.dial(0)
	counter := r.counter(c, "leased")
	gone := time.Time{}
	return []restOperation{
		{"the connection breaks", func() {
			cut()
			if gone.IsZero() {
				gone = time.Now()
			}
		}},
		{"a step", func() {
			if away := time.Since(gone); !gone.IsZero() && away >= DefaultLease {
				_, err := Fetch[int64](r.bounded(), counter.session, nil, counter.count)
				soon := away < DefaultLease+time.Second // it may be in time: the server learns of the break later
				if !(err == nil && soon) && (status.CodeOf(err) != status.Aborted || !strings.Contains(err.Error(), "lease")) {
					r.Errorf("a session whose client was away for %v: %v", away, err)
				}
				counter = r.counter(c, "leased")
			}
			gone = time.Time{}
			counter.run()
		}},
	}
}

// contextsThatRest are eager contexts of TensorFlow 2, which end when they are not used for the time that their clients ask for. Broken connections end nothing.
func contextsThatRest(r *resting) []restOperation {
	const keep = 30 * time.Second
	process := r.net.Host("10.0.1.1").Process()
	conn, err := grpc.NewClient("passthrough:///"+r.tasks[0].Address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(process.Dial))
	r.check(err)
	r.Cleanup(func() {
		if err := conn.Close(); err != nil {
			r.Error(err)
		}
	})
	broken := false
	call := func(method string, q, a proto.Message) error {
		invoke := func() error {
			return conn.Invoke(r.bounded(), "/tensorflow.eager.EagerService/"+method, q, a, grpc.WaitForReady(true))
		}
		err := invoke()
		if broken && grpcstatus.Code(err) == grpccodes.Unavailable {
			err = invoke() // the client notices the break when it sends
		}
		broken = false
		return err
	}
	id, used := uint64(0), time.Time{}
	open := func() {
		id++
		def := &corepb.ServerDef{JobName: "w", Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{{Name: "w", Tasks: map[int32]string{0: r.tasks[0].Address()}}}}}
		r.check(call("CreateContext", &corepb.CreateContextRequest{ContextId: id, ServerDef: def, KeepAliveSecs: int64(keep / time.Second)}, &corepb.CreateContextResponse{}))
		used = time.Now()
	}
	open()
	// uses makes a call, which fails if the context was idle for too long; the client then opens another one.
	uses := func(name string, do func() error) restOperation {
		return restOperation{name, func() {
			err := do()
			switch idle := time.Since(used); {
			case idle > keep+restMargin && err == nil:
				r.Errorf("a context that was idle for %v, and is kept for %v, is there", idle, keep)
			case idle < keep && err != nil:
				r.Errorf("a context that was idle for %v, and is kept for %v: %v", idle, keep, err)
			case err != nil:
				open()
				r.check(do())
			}
			used = time.Now()
		}}
	}
	return []restOperation{
		uses("an op", func() error {
			o := &corepb.EnqueueRequest{ContextId: id, Queue: []*corepb.QueueItem{{Item: &corepb.QueueItem_Operation{Operation: &corepb.Operation{Id: 1, Name: "NoOp"}}}}}
			return call("Enqueue", o, &corepb.EnqueueResponse{})
		}),
		uses("a sign of life", func() error {
			return call("KeepAlive", &corepb.KeepAliveRequest{ContextId: id}, &corepb.KeepAliveResponse{})
		}),
		{"the connection breaks", func() {
			process.Break()
			broken = true
		}},
	}
}

// callablesThatRest are prepared steps.
func callablesThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	var all []restOperation
	for i, m := range []Master{c, r.tasks[0]} {
		counter := r.counter(m, fmt.Sprintf("called%d", i))
		callable, err := counter.session.Prepare(r.bounded(), nil, counter.count)
		r.check(err)
		all = append(all, restOperation{fmt.Sprintf("a call with %T", m), func() {
			got, err := callable.Run(r.bounded())
			r.check(err)
			n, err := tensor.To[int64](got[0])
			if counter.want++; err != nil || n != counter.want {
				r.Errorf("it counts %d, %v; want %d", n, err, counter.want)
			}
			got[0].Release()
		}})
	}
	return all
}

// partialRunsThatRest are steps that are fed in two calls.
func partialRunsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	var all []restOperation
	for _, m := range []Master{c, r.tasks[0]} {
		s := op.NewScope()
		a := op.Placeholder(s.WithName("a"), tensor.Float32, attr.Shape(shape.Of()))
		b := op.Placeholder(s.WithName("b"), tensor.Float32, attr.Shape(shape.Of()))
		there := s.WithDevice("/job:w/task:1")
		op.Add(there.WithName("sum"), op.Neg(there.WithName("first"), a), b)
		session := sessionOf(r.T, m, s)
		var run *PartialRun
		half := func(feed, fetch string, want float32) {
			v := tensor.FromScalar(float32(2))
			defer v.Release()
			got, err := run.Run(r.bounded(), map[string]*tensor.Tensor{feed: v}, []string{fetch})
			r.check(err)
			if f := floatOf(r.T, got[0]); f != want {
				r.Errorf("%s is %v, want %v", fetch, f, want)
			}
		}
		all = append(all, restOperation{fmt.Sprintf("half of a step with %T", m), func() {
			if run != nil {
				half("b:0", "sum:0", 0)
				run = nil
				return
			}
			var err error
			run, err = session.PartialRun(r.bounded(), []string{"a:0", "b:0"}, []string{"first:0", "sum:0"}, nil)
			r.check(err)
			half("a:0", "first:0", -2)
		}})
	}
	return all
}

// queuesThatRest are elements that wait in a queue for dequeues, and dequeues that wait for elements.
func queuesThatRest(r *resting) []restOperation {
	type ends struct {
		enqueue func()
		dequeue func(ctx context.Context) error
	}
	endsOf := func(m Master) ends {
		s := op.NewScope().WithDevice("/job:w/task:1")
		types := []tensor.DType{tensor.Int64}
		q := op.FIFOQueueV2(s, types, attr.SharedName("q"), attr.Capacity(100))
		put, take := op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, int64(7))}), op.QueueDequeueV2(s, q, types)[0]
		session := sessionOf(r.T, m, s)
		return ends{
			func() {
				_, err := session.Eval(r.bounded(), nil, put)
				r.check(err)
			},
			func(ctx context.Context) error {
				got, err := Fetch[int64](ctx, session, nil, take)
				if err == nil && got != 7 {
					err = fmt.Errorf("%d was dequeued", got)
				}
				return err
			}}
	}
	c, _ := r.dial(0)
	producer, consumer := endsOf(r.tasks[1]), endsOf(c)
	elements := 0
	var blocked []chan error
	return []restOperation{
		{"an enqueue", func() {
			producer.enqueue()
			if len(blocked) == 0 {
				elements++
				return
			}
			r.check(<-blocked[0])
			blocked = blocked[1:]
		}},
		{"a dequeue", func() {
			if elements > 0 {
				r.check(consumer.dequeue(r.bounded()))
				elements--
				return
			}
			done := make(chan error, 1)
			blocked = append(blocked, done)
			go func() { done <- consumer.dequeue(r.Context()) }()
			synctest.Wait()
		}},
	}
}

// loansThatRest are elements of a queue that a consumer has leased, and has to renew.
func loansThatRest(r *resting) []restOperation {
	const lent = 30 * time.Second
	s := op.NewScope().WithDevice("/job:w/task:1")
	types := []tensor.DType{tensor.Int64}
	q := op.FIFOQueueV2(s, types, attr.SharedName("lent"), attr.Capacity(100), attr.Shapes([]shape.Shape{shape.Scalar()}))
	put := op.QueueEnqueueV2(s, q, []op.Output{op.Const(s, int64(7))})
	tokens := op.Placeholder(s, tensor.String, attr.Shape(shape.Of(-1)))
	lease, _, elements := op.TroupeQueueLease(s, q, op.Const(s, int32(1)), tokens, nil, types, attr.LeaseMs(lent.Milliseconds()))
	renewed, used := op.TroupeQueueRenew(s, q, tokens), op.TroupeQueueAcknowledge(s, q, tokens)
	c, _ := r.dial(0)
	session := sessionOf(r.T, c, s)
	_, err := session.Eval(r.bounded(), nil, put)
	r.check(err)
	token, since := "", time.Time{}
	run := func(held op.Output, names ...string) bool {
		v, err := tensor.FromStrings(tensor.Shape{int64(len(names))}, names)
		r.check(err)
		defer v.Release()
		got, err := session.Eval(r.bounded(), Feeds{tokens: v}, held)
		r.check(err)
		defer got[0].Release()
		kept := tensor.Of[bool](got[0])[0]
		if want := time.Since(since) < lent; kept != want {
			r.Errorf("after %v, whether an element is still lent for %v: %v", time.Since(since), lent, kept)
		}
		return kept
	}
	return []restOperation{
		{"an element is leased", func() {
			if token != "" && run(used, token) {
				_, err := session.Eval(r.bounded(), nil, put)
				r.check(err)
			} // else it is in the queue again
			none, err := tensor.FromStrings(tensor.Shape{0}, nil)
			r.check(err)
			defer none.Release()
			got, err := session.Eval(r.bounded(), Feeds{tokens: none}, lease, elements[0])
			r.check(err)
			if n := tensor.Of[int64](got[1])[0]; n != 7 {
				r.Errorf("%d was leased", n)
			}
			token, since = got[0].Strings()[0], time.Now()
			got[0].Release()
			got[1].Release()
		}},
		{"a lease is renewed", func() {
			if token != "" && run(renewed, token) {
				since = time.Now()
			}
		}},
	}
}

// pipelinesThatRest are Go values that wait in a queue for their consumer.
func pipelinesThatRest(r *resting) []restOperation {
	queue, err := pipeline.Declare[int64](pipeline.Queue{Name: "rows", Device: "/job:w/task:1", Capacity: 100})
	r.check(err)
	c, _ := r.dial(0)
	session := func(m Master) *Session {
		s, err := m.NewSession(r.Context(), nil, nil)
		r.check(err)
		return s
	}
	producer, err := queue.Producer(r.Context(), session(r.tasks[1]), pipeline.ProducerOptions{})
	r.check(err)
	consumer, err := queue.Consumer(r.Context(), session(c), pipeline.ConsumerOptions{})
	r.check(err)
	put, taken := int64(0), int64(0)
	// Another queue's consumer holds a lease for as long as the program has the batch, which it renews.
	lent, err := pipeline.Declare[int64](pipeline.Queue{Name: "lent", Device: "/job:w/task:1", Capacity: 100})
	r.check(err)
	lender, err := lent.Producer(r.Context(), session(r.tasks[1]), pipeline.ProducerOptions{})
	r.check(err)
	borrower, err := lent.Consumer(r.Context(), session(c), pipeline.ConsumerOptions{Lease: 30 * time.Second})
	r.check(err)
	loop, end := context.WithCancel(r.Context())
	r.Cleanup(end)
	values, next := make(chan int64), make(chan struct{})
	go func() {
		for batch, err := range borrower.Batches(loop) {
			if err != nil {
				if loop.Err() == nil {
					r.Error(err)
				}
				return
			}
			select {
			case values <- batch.At(0):
			case <-loop.Done():
				return
			}
			select {
			case <-next:
			case <-loop.Done():
				return
			}
		}
	}()
	borrowed := int64(0)
	return []restOperation{
		{"a value is leased", func() {
			r.check(lender.Put(r.bounded(), borrowed))
			if borrowed > 0 {
				next <- struct{}{} // the last one has been used
			}
			select {
			case v := <-values:
				if v != borrowed {
					r.Errorf("%d was leased, want %d", v, borrowed)
				}
			case <-r.bounded().Done():
				r.Fatal("nothing was leased")
			}
			borrowed++
		}},
		{"a value is put", func() {
			r.check(producer.Put(r.bounded(), put))
			put++
		}},
		{"a value is taken", func() {
			if taken == put {
				r.check(producer.Put(r.bounded(), put))
				put++
			}
			for batch, err := range consumer.Batches(r.bounded()) {
				r.check(err)
				if got := batch.At(0); got != taken {
					r.Errorf("%d was taken, want %d", got, taken)
				}
				taken++
				break
			}
		}},
	}
}

// iteratorsThatRest are iterators of datasets with stages that work ahead.
func iteratorsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	s := op.NewScope().WithDevice("/job:w/task:1")
	types, shapes := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Scalar()}
	numbers := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1<<40)), op.Const(s, int64(1)), types, shapes)
	ahead := op.PrefetchDataset(s, numbers, op.Const(s, int64(4)), types, shapes)
	it := op.IteratorV2(s, "it", "", types, shapes)
	begin, next := op.MakeIterator(s, ahead, it), op.IteratorGetNext(s, it, types, shapes)[0]
	session := sessionOf(r.T, c, s)
	want := int64(-1)
	anew := func() {
		_, err := session.Eval(r.bounded(), nil, begin)
		r.check(err)
		want = 0
	}
	anew()
	return []restOperation{
		{"the next element", func() {
			got, err := Fetch[int64](r.bounded(), session, nil, next)
			if err != nil || got != want {
				r.Errorf("%d, %v; want %d", got, err, want)
			}
			want++
		}},
		{"the iterator begins anew", anew},
	}
}

// snapshotsThatRest are iterators that write a snapshot, unless another one is writing it and has not been at it for too long.
func snapshotsThatRest(r *resting) []restOperation {
	const expiry = 30 * time.Second
	dir := r.TempDir()
	s := op.NewScope()
	types, shapes := []tensor.DType{tensor.Int64}, []shape.Shape{shape.Scalar()}
	numbers := op.RangeDataset(s, op.Const(s, int64(0)), op.Const(s, int64(1<<40)), op.Const(s, int64(1)), types, shapes)
	kept := op.SnapshotDataset(s, numbers, op.Const(s, dir), types, shapes, attr.PendingSnapshotExpirySeconds(int64(expiry/time.Second)))
	it := op.IteratorV2(s, "it", "", types, shapes)
	begin, next := op.MakeIterator(s, kept, it), op.IteratorGetNext(s, it, types, shapes)[0]
	session := sessionOf(r.T, r.tasks[0], s)
	want, runs, since := int64(0), 0, time.Time{}
	take := func() {
		got, err := Fetch[int64](r.bounded(), session, nil, next)
		if err != nil || got != want {
			r.Errorf("%d, %v; want %d", got, err, want)
		}
		want++
	}
	anew := func() {
		_, err := session.Eval(r.bounded(), nil, begin)
		r.check(err)
		want = 0
		take()
		if runs == 0 || time.Since(since) > expiry {
			runs, since = runs+1, time.Now()
		}
		// Each that writes has a folder of its own in that of the snapshot, with one file.
		if files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*")); err != nil || len(files) != runs {
			r.Errorf("%d iterators have written, not %d: %v, %v", len(files), runs, files, err)
		}
	}
	anew()
	return []restOperation{{"the next element", take}, {"the iterator begins anew", anew}}
}

// batchesThatRest are inputs that gather in batches, which are handled when they have waited long enough, and steps that wait for their rows of a batch
// of another step's.
func batchesThatRest(r *resting) []restOperation {
	const unclaimed = 30 * time.Second // how long a step waits for its rows, and rows for their step
	u := op.NewScope()
	rows := op.Placeholder(u, tensor.Float32, attr.Shape(shape.Of(-1, 1)))
	index := op.Placeholder(u, tensor.Int64, attr.Shape(shape.Of(-1, 3)))
	id := op.Placeholder(u, tensor.Int64, attr.Shape(shape.Of()))
	mine := op.Unbatch(u, rows, index, id, unclaimed.Microseconds(), attr.SharedName("u"))
	unbatching := sessionOf(r.T, r.tasks[0], u)
	// gets runs a step that brings rows of the steps with the given ids, each with its id, and gets those of its own.
	gets := func(own int64, ids ...int64) error {
		values, places := make([]float32, 0, len(ids)), make([]int64, 0, 3*len(ids))
		for i, id := range ids {
			values, places = append(values, float32(id)), append(places, id, int64(i), int64(i)+1)
		}
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{int64(len(ids)), 1}, values)
		r.check(err)
		defer v.Release()
		x, err := tensor.FromSlice(tensor.Int64, tensor.Shape{int64(len(ids)), 3}, places)
		r.check(err)
		defer x.Release()
		n := tensor.FromScalar(own)
		defer n.Release()
		got, err := unbatching.Eval(r.Context(), Feeds{rows: v, index: x, id: n}, mine)
		if err != nil {
			return err
		}
		defer got[0].Release()
		if f := tensor.Of[float32](got[0]); len(f) != 1 || f[0] != float32(own) {
			return fmt.Errorf("step %d got the rows %v", own, f)
		}
		return nil
	}
	next := int64(0)
	type waits struct {
		id    int64
		since time.Time
		done  chan error
	}
	var waiting []waits
	// late checks the steps whose time to wait is over.
	late := func() {
		for len(waiting) > 0 && time.Since(waiting[0].since) > unclaimed {
			if err := <-waiting[0].done; status.CodeOf(err) != status.DeadlineExceeded {
				r.Errorf("a step that waits for its rows since %v: %v", time.Since(waiting[0].since), err)
			}
			waiting = waiting[1:]
		}
	}
	s := op.NewScope()
	x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(1)))
	batched, _, _ := op.Batch(s, []op.Output{x}, 1, 100, 10_000, 60_000_000, attr.SharedName("b"), attr.BatchingQueue("q"))
	session := sessionOf(r.T, r.tasks[0], s)
	return []restOperation{{"a step waits for its rows", func() {
		late()
		w := waits{next, time.Now(), make(chan error, 1)}
		next++
		waiting = append(waiting, w)
		go func() { w.done <- gets(w.id) }()
		synctest.Wait()
	}}, {"a step brings rows", func() {
		late()
		own := next
		next += 2
		ids := []int64{own, own + 1} // nobody claims the second
		for _, w := range waiting {
			ids = append(ids, w.id)
		}
		r.check(gets(own, ids...))
		for _, w := range waiting {
			r.check(<-w.done)
		}
		waiting = nil
	}}, {"rows that were brought before", func() {
		late()
		own := next
		next += 2
		r.check(gets(own, own, own+1))
		r.check(gets(own + 1))
	}}, {"a batch of one", func() {
		v, err := tensor.FromSlice(tensor.Float32, tensor.Shape{1}, []float32{3})
		r.check(err)
		defer v.Release()
		got, err := session.Eval(r.bounded(), Feeds{x: v}, batched[0])
		r.check(err)
		if n, err := got[0].Shape().NumElements(); err != nil || n > 1 {
			r.Errorf("a batch of %d, %v", n, err)
		}
		got[0].Release()
	}}}
}

// eventsFlush is how long a summary may wait before it is written.
const eventsFlush = 120 * time.Second

// eventsThatRest are summaries that are flushed after a while.
func eventsThatRest(r *resting) []restOperation {
	dir := r.TempDir()
	s := op.NewScope()
	w := op.SummaryWriter(s, attr.SharedName("w"))
	open := op.CreateSummaryFileWriter(s, w, op.Const(s, dir), op.Const(s, int32(1000)), op.Const(s, int32(eventsFlush.Milliseconds())), op.Const(s, ".v2"))
	write := op.WriteScalarSummary(s, w, op.Const(s, int64(1)), op.Const(s, "a tag"), op.Const(s, float32(1)))
	session := sessionOf(r.T, r.tasks[0], s)
	_, err := session.Eval(r.bounded(), nil, open)
	r.check(err)
	var written []time.Time
	return []restOperation{
		{"a summary is written", func() {
			_, err := session.Eval(r.bounded(), nil, write)
			r.check(err)
			written = append(written, time.Now())
		}},
		{"the file is read", func() {
			files, err := filepath.Glob(filepath.Join(dir, "*.v2"))
			r.check(err)
			all, due := 0, 0
			for _, f := range files {
				b, err := os.ReadFile(f)
				r.check(err)
				all += bytes.Count(b, []byte("a tag"))
			}
			for _, at := range written {
				if time.Since(at) > eventsFlush {
					due++
				}
			}
			if all < due || all > len(written) {
				r.Errorf("the files have %d summaries; %d were written, %d of them more than %v ago", all, len(written), due, eventsFlush)
			}
		}},
	}
}

// restingActors are counters, and actors that keep the requests they get.
var restingActors = []Option{counters, WithActor("keeper", func(*ActorContext, any) (Actor, error) {
	var kept []*ActorRequest
	return ActorFunc(func(c *ActorContext, message any) {
		if _, keep := message.(*emptypb.Empty); keep {
			kept = append(kept, c.Keep())
			return
		}
		for _, q := range kept {
			if err := q.Reply(wrapperspb.Bool(true)); err != nil {
				panic(err)
			}
		}
		kept = nil
		if err := c.Reply(wrapperspb.Bool(true)); err != nil {
			panic(err)
		}
	}), nil
})}

// actorsThatRest are actors of both tasks, which are sent to and asked from the other one.
func actorsThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, from := range r.tasks {
		on := ActorAt(r.tasks[1-i].Task(), "c")
		_, err := from.Spawn(r.bounded(), "counter", on, nil)
		r.check(err)
		want := int64(0)
		all = append(all, restOperation{fmt.Sprintf("a message from task %d", i), func() {
			r.check(from.Send(r.bounded(), on, wrapperspb.Int64(1)))
			want++
		}}, restOperation{fmt.Sprintf("a question from task %d", i), func() {
			if got := sum(r.T, from, on); got != want {
				r.Errorf("the sum is %d, want %d", got, want)
			}
		}}, restOperation{fmt.Sprintf("an actor made by task %d", i), func() {
			ref, err := from.Spawn(r.bounded(), "counter", ActorAt(on.Task(), ""), nil)
			r.check(err)
			r.check(from.EndActor(r.bounded(), ref))
		}})
	}
	return all
}

// virtualIdle is how long a virtual actor lives without messages.
const virtualIdle = 30 * time.Second

// restingVirtualActors count their messages.
var restingVirtualActors = WithActor("virtual", func(*ActorContext, any) (Actor, error) {
	var n int64
	return ActorFunc(func(c *ActorContext, message any) {
		n++
		if _, asks := message.(*emptypb.Empty); asks {
			if err := c.Reply(wrapperspb.Int64(n)); err != nil {
				panic(err)
			}
		}
	}), nil
}, Virtual{Idle: virtualIdle})

// virtualActorsThatRest are virtual actors of either task, which end when nobody uses them, and begin again with their next message.
func virtualActorsThatRest(r *resting) []restOperation {
	type virtual struct {
		ref  ActorRef
		n    int64
		used time.Time
	}
	var actors []*virtual
	for i := range 4 { // some on each task
		actors = append(actors, &virtual{ref: VirtualActor("virtual", fmt.Sprint("v", i))})
	}
	pass(10 * time.Second) // until the tasks agree
	// use is called after a message to an actor, of which the actor says that it is the n-th; 0 if it says nothing.
	use := func(a *virtual, n int64) {
		idle := time.Since(a.used)
		a.n, a.used = a.n+1, time.Now()
		if idle > virtualIdle+restMargin {
			a.n = 1
		}
		if n != 0 && n != a.n {
			if n != 1 || idle < virtualIdle {
				r.Errorf("%v has %d messages after %v, want %d", a.ref, n, idle, a.n)
			}
			a.n = n
		}
	}
	var all []restOperation
	for i, from := range r.tasks {
		all = append(all, restOperation{fmt.Sprintf("messages from task %d", i), func() {
			for _, a := range actors {
				r.check(from.Send(r.bounded(), a.ref, wrapperspb.Int64(1)))
				use(a, 0)
			}
			r.idle(100 * time.Millisecond) // until they have arrived: there is no order between the tasks' messages
		}}, restOperation{fmt.Sprintf("questions from task %d", i), func() {
			for _, a := range actors {
				n, err := Ask[*wrapperspb.Int64Value](r.bounded(), from, a.ref, &emptypb.Empty{})
				r.check(err)
				use(a, n.Value)
			}
		}})
	}
	return all
}

// watchesThatRest are watches of actors on the other task, which end by a panic.
func watchesThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, by := range r.tasks {
		on := ActorAt(r.tasks[1-i].Task(), "ward")
		var watch <-chan ActorEnded
		set := func() {
			if watch == nil {
				_, err := by.Spawn(r.bounded(), "counter", on, nil)
				r.check(err)
				watch, err = by.WatchActor(r.Context(), on)
				r.check(err)
			}
		}
		all = append(all, restOperation{fmt.Sprintf("a watch of task %d", i), set}, restOperation{fmt.Sprintf("the end of what task %d watches", i), func() {
			set()
			r.check(r.tasks[1-i].Send(r.bounded(), on, wrapperspb.String("panic")))
			select {
			case e := <-watch:
				if e.Actor != on || status.CodeOf(e.Err) != status.Internal {
					r.Errorf("%v ended with %v", e.Actor, e.Err)
				}
			case <-time.After(time.Second):
				r.Error("the watcher was not told")
			}
			watch = nil
		}}, restOperation{fmt.Sprintf("a watch of task %d that is taken back", i), func() {
			ctx, cancel := context.WithCancel(r.Context())
			_, err := by.WatchActor(ctx, on)
			r.check(err)
			cancel()
		}})
	}
	return all
}

// topicsThatRest are topics that each task publishes to, with subscribers on the other one that stay, and some that do not.
func topicsThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, from := range r.tasks {
		topic, other, sent := fmt.Sprint("topic", i), r.tasks[1-i], int64(0)
		subscribe := func(ctx context.Context) <-chan any {
			messages, err := other.Subscribe(ctx, topic)
			r.check(err)
			return messages
		}
		publish := func() {
			sent++
			r.check(from.Publish(r.bounded(), topic, wrapperspb.Int64(sent)))
		}
		expect := func(messages <-chan any) {
			select {
			case m := <-messages:
				if got := m.(*wrapperspb.Int64Value).Value; got != sent {
					r.Errorf("message %d has arrived, not %d", got, sent)
				}
			case <-time.After(time.Second):
				r.Errorf("message %d has not arrived", sent)
			}
		}
		ctx, cancel := context.WithCancel(r.Context())
		r.Cleanup(cancel)
		messages := subscribe(ctx)
		all = append(all, restOperation{fmt.Sprintf("a message of task %d to a topic", i), func() {
			publish()
			expect(messages)
		}}, restOperation{fmt.Sprintf("a new subscriber to what task %d publishes", i), func() {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			more := subscribe(ctx)
			publish()
			expect(messages)
			expect(more)
			cancel()
			if _, open := <-more; open {
				r.Error("a message has arrived twice")
			}
		}})
	}
	return all
}

// asksThatRest are requests whose answers come later.
func asksThatRest(r *resting) []restOperation {
	var all []restOperation
	for i, from := range r.tasks {
		on := ActorAt(r.tasks[1-i].Task(), "keeper")
		_, err := from.Spawn(r.bounded(), "keeper", on, nil)
		r.check(err)
		var waiting []chan error
		all = append(all, restOperation{fmt.Sprintf("a request of task %d", i), func() {
			done := make(chan error, 1)
			waiting = append(waiting, done)
			go func() {
				_, err := Ask[*wrapperspb.BoolValue](context.WithoutCancel(r.Context()), from, on, &emptypb.Empty{})
				done <- err
			}()
			synctest.Wait()
		}}, restOperation{fmt.Sprintf("the answers to task %d", i), func() {
			_, err := Ask[*wrapperspb.BoolValue](r.bounded(), from, on, wrapperspb.Bool(true))
			r.check(err)
			for _, done := range waiting {
				select {
				case err := <-done:
					r.check(err)
				case <-time.After(time.Second):
					r.Fatal("a request was not answered")
				}
			}
			waiting = nil
		}})
	}
	return all
}

// gossipThatRests is what tasks know about each other, and what a program hears that watches them.
func gossipThatRests(r *resting) []restOperation {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	var mu sync.Mutex
	watched := map[string]TaskStatus{}
	go func() {
		for s := range r.tasks[0].WatchTasks(ctx) {
			mu.Lock()
			watched[s.Task] = s
			mu.Unlock()
		}
	}()
	all := func(want ...string) {
		r.Helper()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i, s := range r.tasks[0].Status() {
			if w := watched[s.Task]; w.State != want[i] || w.Boot != s.Boot {
				r.Errorf("who watches knows that task %d is %s (%s), and it is %s", i, w.State, w.Reason, want[i])
			}
		}
		for i, s := range r.tasks[:2] {
			for j, status := range s.Status() {
				if status.State != want[j] {
					r.Errorf("task %d knows that task %d is %s (%s), and it is %s", i, j, status.State, status.Reason, want[j])
				}
			}
		}
	}
	pass(3 * time.Second) // until all tasks know each other
	return []restOperation{
		{"a look", func() { all("up", "up", "up") }},
		{"a crash and a restart", func() {
			r.kill(2)
			r.idle(15 * time.Second)
			all("up", "up", "down")
			r.restart(r.T, 2)
			r.idle(3 * time.Second)
			all("up", "up", "up")
		}},
		{"an outage", func() {
			r.host(2).Freeze(true)
			r.idle(15 * time.Second)
			all("up", "up", "down")
			r.host(2).Freeze(false)
			r.idle(15 * time.Second)
			all("up", "up", "up")
		}},
	}
}

// papers are the certificates and the token of a cluster on a network in memory.
type papers struct {
	t         *testing.T
	dir       string
	authority *access.Authority
	expiry    time.Time // of the last one issued
}

// paperTime is how long certificates and tokens are valid: some rests are shorter, and some longer.
const paperTime = 90 * time.Minute

// signedLeeway is for how much longer a signed token is accepted, since the issuer's clock may be another one.
const signedLeeway = 30 * time.Second

// noticed bounds the time within which changed files are read again.
const noticed = 5 * time.Second

func newPapers(t *testing.T) *papers {
	t.Helper()
	authority, made, err := access.NewAuthority("test", time.Now().Add(10*365*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	p := &papers{t: t, dir: t.TempDir(), authority: authority}
	p.write("ca.pem", made.Cert)
	return p
}

func (p *papers) path(name string) string { return filepath.Join(p.dir, name) }

func (p *papers) write(name string, text []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), text, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// certify writes certificates for the tasks.
func (p *papers) certify(tasks int, until time.Time) {
	p.t.Helper()
	p.expiry = until
	for i := range tasks {
		pair, err := p.authority.Issue(access.Request{Name: access.TaskName("w", i), Hosts: []string{fmt.Sprintf("10.0.0.%d", i+1)}, Until: until})
		if err != nil {
			p.t.Fatal(err)
		}
		p.write(fmt.Sprintf("%d.pem", i), pair.Cert)
		p.write(fmt.Sprintf("%d.key", i), pair.Key)
	}
}

// of returns the credentials of a task, or those of a client, which has no certificate.
func (p *papers) of(task int) *access.Credentials {
	p.t.Helper()
	config := access.CredentialConfig{CredentialFiles: access.CredentialFiles{CA: p.path("ca.pem")}, Anonymous: true, Log: slog.New(slog.DiscardHandler)}
	if task >= 0 {
		config.Cert, config.Key = p.path(fmt.Sprintf("%d.pem", task)), p.path(fmt.Sprintf("%d.key", task))
	}
	k, err := access.LoadCredentials(config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(k.Close)
	return k
}

// tokensThatRest are the steps of a client whose token expires and is replaced.
func tokensThatRest(t *testing.T) (options func(task int) []Option, make func(r *resting) []restOperation) {
	p := newPapers(t)
	p.certify(1, time.Now().Add(9*365*24*time.Hour))
	p.write("secret", access.NewSecret())
	secret, err := access.LoadSecret(p.path("secret"))
	if err != nil {
		t.Fatal(err)
	}
	replace := func() {
		p.expiry = time.Now().Add(paperTime)
		token, line, err := access.NewToken("alice", p.expiry)
		if err != nil {
			t.Fatal(err)
		}
		p.write("token", []byte(token+"\n"))
		p.write("tokens", []byte(line+"\n"))
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "bob", "exp": p.expiry.Unix()}).SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		p.write("signed", []byte(signed+"\n"))
	}
	replace()
	tokens, err := access.LoadTokens(access.TokenConfig{File: p.path("tokens"), Keys: p.path("secret"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	files := map[string]*access.TokenFile{}
	for _, name := range []string{"token", "signed"} {
		if files[name], err = access.LoadTokenFile(p.path(name), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(files[name].Close)
	}
	server := p.of(0)
	return func(int) []Option { return []Option{WithCredentials(server), WithTokens(tokens)} }, func(r *resting) []restOperation {
		all := []restOperation{{"the tokens are replaced", func() {
			replace()
			pass(noticed)
		}}}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			c, _ := r.dial(0, client.WithCredentials(p.of(-1)), client.WithTokenFile(files[name]))
			s := op.NewScope()
			x := op.Const(s, int64(7))
			session := sessionOf(r.T, c, s)
			step := func() error {
				_, err := Fetch[int64](r.bounded(), session, nil, x)
				return err
			}
			all = append(all, restOperation{"a step with the " + name + " one", func() {
				err := step()
				if time.Now().After(p.expiry) {
					late := name == "signed" && time.Since(p.expiry) <= signedLeeway
					if (err != nil || !late) && (status.CodeOf(err) != status.Unauthenticated || !strings.Contains(err.Error(), "expired")) {
						r.Errorf("with a token that has expired: %v", err)
					}
					replace()
					pass(noticed)
					err = step()
				}
				r.check(err)
			}})
		}
		return all
	}
}

// certificatesThatRest are the steps of tasks whose certificates expire and are replaced.
func certificatesThatRest(t *testing.T) (options func(task int) []Option, make func(r *resting) []restOperation) {
	p := newPapers(t)
	p.certify(2, time.Now().Add(paperTime))
	all := []*access.Credentials{p.of(0), p.of(1)}
	p.write("secret", access.NewSecret())
	return func(task int) []Option { return []Option{WithCredentials(all[task]), WithSecretFile(p.path("secret"))} }, func(r *resting) []restOperation {
		counter := r.counter(r.tasks[0], "certified")
		replace := func() {
			p.certify(2, time.Now().Add(paperTime))
			pass(noticed)
		}
		return []restOperation{
			{"a step", func() {
				if time.Now().After(p.expiry) {
					// An existing link may continue. A new one is refused, by name.
					_, err := Fetch[int64](r.bounded(), counter.session, nil, counter.count)
					if err == nil {
						counter.want++
					} else if !strings.Contains(err.Error(), "expired") {
						r.Errorf("with certificates that have expired: %v", err)
					}
					replace()
				}
				counter.run()
			}},
			{"the certificates are replaced", replace},
		}
	}
}

// tracesThatRest are steps that are traced, alone and in a trace of everything that runs for a while.
func tracesThatRest(r *resting) []restOperation {
	counter := r.counter(r.tasks[0], "traced")
	return []restOperation{
		{"a step", counter.run},
		{"a step that is traced", func() {
			result, err := counter.session.RunStep(r.bounded(), Step{Fetches: []string{counter.count.Name()}, Options: &corepb.RunOptions{TraceLevel: corepb.RunOptions_FULL_TRACE}})
			r.check(err)
			counter.want++
			if n := len(result.Metadata.GetStepStats().GetDevStats()); n != 2 {
				r.Errorf("the trace has %d devices", n)
			}
			result.Tensors[0].Release()
		}},
		{"a trace of all tasks", func() {
			done := make(chan error, 1)
			go func() {
				got, err := r.tasks[0].node.Trace(r.bounded(), &view.TraceQuery{Duration: int64(3 * time.Second), Cluster: true})
				if err == nil && len(got.GetTasks()) != 2 {
					err = fmt.Errorf("the trace has %d tasks", len(got.GetTasks()))
				}
				done <- err
			}()
			pass(time.Second)
			counter.run()
			r.check(<-done)
		}},
	}
}

// guestsThatRest are sessions that declare a cluster of their own over the servers.
func guestsThatRest(r *resting) []restOperation {
	c, _ := r.dial(0)
	config := &corepb.ConfigProto{ClusterDef: &corepb.ClusterDef{}}
	for i, job := range []string{"here", "there"} {
		config.ClusterDef.Job = append(config.ClusterDef.Job, &corepb.JobDef{Name: job, Tasks: map[int32]string{0: r.host(i).Address(2222)}})
	}
	s, start, count := counting("/job:there", "guest")
	def, err := s.GraphDef()
	r.check(err)
	var session *Session
	want := int64(0)
	open := func() {
		var err error
		session, err = c.NewSession(r.bounded(), def, config)
		r.check(err)
		_, err = session.Eval(r.bounded(), nil, start)
		r.check(err)
		want = 0
	}
	return []restOperation{
		{"a step", func() {
			if session == nil {
				open()
			}
			got, err := Fetch[int64](r.bounded(), session, nil, count)
			if want++; err != nil || got != want {
				r.Errorf("%d, %v; want %d", got, err, want)
			}
		}},
		{"the session is closed", func() {
			if session != nil {
				r.check(session.Close(r.bounded()))
				session = nil
			}
		}},
	}
}
