package troupe

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/remote/client"
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
	{name: "quiet", tasks: 2, setup: plainly(quietClientsThatRest)},
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
