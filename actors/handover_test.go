package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/kernelstest"
	"github.com/troupe-run/troupe/kernels/restore"
	"google.golang.org/protobuf/proto"
)

// stopInTime ends a task in order, with time for its running steps.
func (n *node) stopInTime(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	n.stop(ctx)
}

// unplaced is a variable, a queue and a table of the cluster, with ops on them.
const unplaced = `
	x = Placeholder()
	v = VarHandleOp() shared_name="v"
	set = AssignVariableOp(v, x)
	get = ReadVariableOp(v)
	q = FIFOQueueV2() shared_name="q"
	put = QueueEnqueueV2(q, x)
	take = QueueDequeueV2(q)
`

// TestHandOver ends the home of a large variable and of a queue: an open session of another task goes on with what they have.
func TestHandOver(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	first, second := open(t, a, unplaced), open(t, b, unplaced)
	large := kernelstest.Iota[int64](tensor.Int64, kernelstest.S(2*pieceBytes/8+5))
	set := func(c *client, v *tensor.Tensor, target string) {
		t.Helper()
		defer v.Release()
		r, err := c.session.Run(t.Context(), &StepRequest{Feeds: []Feed{{"x:0", v}}, Targets: []string{target}})
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
	}
	set(first, large.Retain(), "set")
	for i := range int64(3) {
		set(second, kernelstest.I64(kernelstest.S(1), i), "put")
	}
	a.stopInTime(20 * time.Second)
	r, err := second.session.Run(t.Context(), &StepRequest{Fetches: []string{"get:0"}})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Tensors[0]
	if want := tensor.Of[int64](large); fmt.Sprint(tensor.Of[int64](got)) != fmt.Sprint(want) {
		t.Errorf("the variable is %v, and was %v", got, large)
	}
	r.Release()
	large.Release()
	for i := range int64(3) {
		second.run(request(nil, "take:0"), i)
	}
}

// TestHandOverToAnother ends a task whose first successor has a resource of the same name already: what moves does not mix with it.
func TestHandOverToAnother(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	a := net.node(taskName("a"))
	const own = `
		x = Placeholder() @%[1]s0
		v = VarHandleOp() @%[1]s0 shared_name="v"
		set = AssignVariableOp(v, x) @%[1]s0
		get = ReadVariableOp(v) @%[1]s0`
	first := open(t, a, unplaced)
	first.run(request(map[string]int64{"x:0": 1}, "!set"))
	to := taskOf((&handing{task: a.task, lost: map[string]bool{a.name: true}}).successor(nil))
	job, other := "b", "c"
	if to == taskName("c") {
		job, other = other, job
	}
	there := open(t, net.node(to), fmt.Sprintf(own, job))
	there.run(request(map[string]int64{"x:0": 2}, "!set"))
	c := open(t, net.node(to), unplaced)
	c.run(request(nil, "get:0"), 1)
	a.stopInTime(20 * time.Second)
	c.run(request(nil, "get:0"), 1)
	there.run(request(nil, "get:0"), 2)
	open(t, net.node(taskName(other)), unplaced).run(request(nil, "get:0"), 1)
}

// TestStepsOfATaskThatLeaves runs steps of another task's session without a pause while a task leaves that they need. None fails.
func TestStepsOfATaskThatLeaves(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	const text = "one = Const() value=1\nv = VarHandleOp() shared_name=\"v\"\nset = AssignVariableOp(v, one)\nadd = AssignAddVariableOp(v, one)\nget = ReadVariableOp(v, ^add)"
	open(t, a, text).run(request(nil, "!set"))
	c := open(t, b, text)
	stop := make(chan struct{})
	counted := make(chan int64)
	for range 4 {
		go func() {
			n := int64(0)
			for {
				select {
				case <-stop:
					counted <- n
					return
				default:
				}
				if _, err := c.try(t.Context(), request(nil, "!add")); err != nil {
					t.Errorf("step %d: %v", n, err)
				}
				n++
			}
		}()
	}
	a.stopInTime(20 * time.Second)
	close(stop)
	total := int64(1)
	for range 4 {
		total += <-counted
	}
	c.run(request(nil, "get:0"), total+1)
}

// TestStepsWhileTasksLeaveInTurn runs steps of a session without a pause while the tasks that have the homes of its variables leave in turn and come
// back, empty. No step fails, and nothing that one has added is lost.
func TestStepsWhileTasksLeaveInTurn(t *testing.T) {
	net := newNetwork(t, "a", "b", "c")
	var text strings.Builder
	const variables = 4
	text.WriteString("one = Const() value=1\n")
	for i := range variables {
		fmt.Fprintf(&text, "v%[1]d = VarHandleOp() shared_name=\"v%[1]d\"\nset%[1]d = AssignVariableOp(v%[1]d, one)\nadd%[1]d = AssignAddVariableOp(v%[1]d, one)\nget%[1]d = ReadVariableOp(v%[1]d)\n", i)
	}
	for i := range variables {
		open(t, net.node(taskName([]string{"a", "b"}[i%2])), text.String()).run(request(nil, fmt.Sprintf("!set%d", i)))
	}
	c := open(t, net.node(taskName("c")), text.String())
	stop := make(chan struct{})
	counted := make([]int64, variables)
	var adding sync.WaitGroup
	for i := range variables {
		adding.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					counted[i] = n + 1
					return
				default:
				}
				if _, err := c.try(t.Context(), request(nil, fmt.Sprintf("!add%d", i))); err != nil {
					t.Errorf("step %d on v%d: %v", n, i, err)
				}
			}
		})
	}
	adding.Go(func() { // sessions that begin meanwhile find the variables as well
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			handle, err := c.node.task.CreateSession(t.Context(), 0, everything, kernelstest.GraphDef(t, text.String()), nil)
			if err != nil {
				t.Errorf("session %d: %v", n, err)
				continue
			}
			s, err := c.node.task.Session(handle, 0)
			if err != nil {
				t.Errorf("session %d: %v", n, err)
				continue
			}
			other := &client{t, c.node, s}
			if got, err := other.try(t.Context(), request(nil, fmt.Sprintf("get%d:0", n%variables))); err != nil || got[0] < 1 {
				t.Errorf("session %d read %v: %v", n, got, err)
			}
			other.close()
		}
	})
	for range 5 {
		for _, job := range []string{"a", "b"} {
			net.node(taskName(job)).stopInTime(20 * time.Second)
			net.start(job)
		}
	}
	close(stop)
	adding.Wait()
	for i, want := range counted {
		if got, err := c.try(t.Context(), request(nil, fmt.Sprintf("get%d:0", i))); err != nil || got[0] != want {
			t.Errorf("v%d is %v, %v: want %d", i, got, err, want)
		}
	}
}

// TestHomesThatMoveWhileTheyAreLearned has a task learn of a home after the news that the resource has moved from there: its session finds it where it
// is now.
func TestHomesThatMoveWhileTheyAreLearned(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	name := ""
	for i := 0; a.task.decider("", name) != a.name || name == ""; i++ {
		name = fmt.Sprintf("v%d", i)
	}
	text := strings.ReplaceAll(unplaced, `"v"`, strconv.Quote(name))
	open(t, a, text).run(request(map[string]int64{"x:0": 7}, "!set"))
	late, done := make(chan func(), 1), make(chan func(), 1)
	var left atomic.Bool
	net.filter(func(from, to string, m proto.Message, deliver func()) bool {
		switch m := m.(type) {
		case *wire.Homes:
			if to == b.name && slices.ContainsFunc(m.Resources, func(r *wire.Resource) bool { return r.Name == name }) {
				late <- deliver
				return false
			}
		case *wire.Left:
			left.Store(true)
		case *wire.Done:
			if to == a.name && left.CompareAndSwap(true, false) {
				done <- deliver
				return false
			}
		}
		return true
	})
	opened := make(chan *client, 1)
	go func() { opened <- open(t, b, text) }()
	answer := <-late
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.stopInTime(20 * time.Second)
	}()
	goes := <-done // b knows that it has moved
	answer()
	c := <-opened
	reads := func(when string) {
		if got, err := c.try(t.Context(), request(nil, "get:0")); err != nil || got[0] != 7 {
			t.Errorf("%s the variable is %v, %v", when, got, err)
		}
	}
	reads("when it has moved")
	goes()
	<-ended
	reads("when its former home has ended")
	open(t, b, text).run(request(nil, "get:0"), 7)
}

// TestPlansFromBeforeAMove begins a step with a plan that was looked up before a task left, when the session has followed what moved: the step is told to
// look again, and does not go to the task that is gone.
func TestPlansFromBeforeAMove(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	open(t, a, unplaced).run(request(map[string]int64{"x:0": 3}, "!set"))
	c := open(t, b, unplaced)
	c.run(request(nil, "get:0"), 3)
	s := c.session
	p, o, err := s.plan(t.Context(), graph.Signature{Fetches: []string{"get:0"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.stopInTime(20 * time.Second)
	c.run(request(nil, "get:0"), 3)
	_, err = s.run(s.task.takeStep(), s.callOf(t.Context(), nil, nil), p, p.pruned.Signature.Fetches, o, make([]*tensor.Tensor, 1), nil)
	if !errors.Is(err, errMoved) {
		t.Errorf("a step with the plan from before began: %v", err)
	}
}

// TestFirstStepsShareAPlan begins several steps at once that need a new plan on another task: those that come while it is being compiled wait for it, and
// are not sent again.
func TestFirstStepsShareAPlan(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	open(t, a, unplaced).run(request(map[string]int64{"x:0": 3}, "!set"))
	net.filter(func(_, _ string, m proto.Message, _ func()) bool {
		if done, ok := m.(*wire.PartitionDone); ok && done.UnknownPlan {
			t.Error("a step was told that its plan is unknown")
		}
		return true
	})
	for range 20 {
		c := open(t, b, unplaced)
		var all []<-chan error
		for range 8 {
			all = append(all, c.begin(t.Context(), request(nil, "get:0")))
		}
		for _, ended := range all {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}

// TestWaitingStepOfATaskThatLeaves ends a task while a dequeue of another task's session waits there: it fails when the time to drain is over, and the
// error says that the queue moves. A step that begins meanwhile waits for that.
func TestWaitingStepOfATaskThatLeaves(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	open(t, a, unplaced).run(request(map[string]int64{"x:0": 1}, "!set"))
	c := open(t, b, unplaced)
	waits := c.begin(t.Context(), request(nil, "take:0"))
	a.awaits("take")
	leaves := make(chan struct{})
	net.filter(func(_, to string, m proto.Message, _ func()) bool {
		if _, ok := m.(*wire.Leaves); ok && to == b.name {
			close(leaves)
		}
		return true
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.stopInTime(time.Second)
	}()
	<-leaves
	until(t, "b knows that a leaves", func() bool { return b.task.departures.of(a.name) != nil })
	c.run(request(map[string]int64{"x:0": 5}, "!put"))
	wantError(t, <-waits, status.Unavailable, "is shutting down", "move to another task: run the step again")
	<-ended
	c.run(request(nil, "take:0"), 5)
	c.run(request(nil, "get:0"), 1)
}

// TestAdoptionsThatEnd begins adoptions that are not completed, or are malformed. The memory of what had come is free again, which the network checks,
// and another adoption succeeds.
func TestAdoptionsThatEnd(t *testing.T) {
	net := newNetwork(t, "a", "b")
	b := net.node(taskName("b")).task
	v := kernelstest.I64(kernelstest.S(3), 1, 2, 3)
	source := open(t, net.node(taskName("a")), unplaced)
	source.run(request(map[string]int64{"x:0": 7}, "!set"))
	v.Release()
	r := &wire.Resource{Kind: "VarHandleOp", Name: "v", Device: taskName("a") + "/device:CPU:0"}
	_, _, found := net.node(taskName("a")).task.resourceOf(r)
	d := found.(interface {
		About() ([]byte, error)
		State(r durable.Recorder)
	})
	about, err := d.About()
	if err != nil {
		t.Fatal(err)
	}
	var pieces [][]byte
	image, err := durable.Take(d.State)
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Send(20, func(piece []byte) error {
		pieces = append(pieces, append([]byte(nil), piece...))
		return nil
	}); err != nil || len(pieces) < 3 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	number := uint64(0)
	begin := func() error {
		number++
		_, err := b.adoptPiece(&wire.Adopt{From: "x", Number: number, Resource: r, About: about, Entries: pieces[0]})
		return err
	}
	for name, end := range map[string]func() error{
		"another begins":   begin,
		"the task is lost": func() error { b.peerLost("x", status.New(status.Unavailable, "lost")); return nil },
		"it is malformed": func() error {
			_, err := b.adoptPiece(&wire.Adopt{From: "x", Number: number, Entries: []byte("\x00\xff"), Last: true})
			return err
		},
		"it ends too early": func() error { _, err := b.adoptPiece(&wire.Adopt{From: "x", Number: number, Last: true}); return err },
		"a piece is missing": func() error {
			_, err := b.adoptPiece(&wire.Adopt{From: "x", Number: number + 1, Last: true})
			return err
		},
	} {
		if err := begin(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := end(); (err == nil) != (name == "another begins" || name == "the task is lost") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range []*wire.Adopt{{From: "y", Last: true}, {From: "y", Resource: &wire.Resource{Kind: "Reader", Name: "r"}, Last: true},
		{From: "y", Resource: &wire.Resource{Kind: "Queue", Name: "q"}, About: []byte("{"), Last: true}} {
		if _, err := b.adoptPiece(m); err == nil {
			t.Errorf("%v was adopted", m)
		}
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	for i, piece := range pieces[1:] {
		home, err := b.adoptPiece(&wire.Adopt{From: "x", Number: number, Entries: piece, Last: i == len(pieces)-2})
		if last := i == len(pieces)-2; err != nil || last != (home != nil) {
			t.Fatalf("piece %d of %d: %v, %v", i+1, len(pieces), home, err)
		}
	}
	open(t, net.node(taskName("b")), strings.ReplaceAll(unplaced, "VarHandleOp()", "VarHandleOp() @b0")).run(request(nil, "get:0"), 7)
}

// TestKindsThatMove checks that each kind that can be described to another process has a home that can be handed over, and that no two share one.
func TestKindsThatMove(t *testing.T) {
	for _, kind := range restore.Kinds() {
		if got := kindOfHome(homeKind(kind)); got != kind {
			t.Errorf("a resource of kind %s is taken for one of kind %q when it moves", kind, got)
		}
	}
	if homeKind(kernels.KindSparseMap) != "" {
		t.Error("what cannot be described moves")
	}
}

// loseAnswer stops a task, and loses the first answer of another one to its hand-over that matches, together with their link, which comes back if again
// is set.
func (net *network) loseAnswer(of, leaves *node, matches func(*wire.Homes) bool, again bool) {
	net.t.Helper()
	var parting sync.WaitGroup
	var lost atomic.Bool
	net.filter(func(from, to string, m proto.Message, _ func()) bool {
		if m, ok := m.(*wire.Homes); !ok || from != of.name || to != leaves.name || !matches(m) || !lost.CompareAndSwap(false, true) {
			return true
		}
		parting.Go(func() {
			net.part(leaves.name, of.name)
			if again {
				net.join(leaves.name, of.name)
			}
		})
		return false
	})
	leaves.stopInTime(20 * time.Second)
	parting.Wait()
	if !lost.Load() {
		net.t.Fatal("nothing was handed over")
	}
}

// TestHandOverWithoutAnAnswer breaks the link to the task that has taken over a variable before it has said so: all tasks agree where the variable is,
// also when that task does not reach the leaving one again, and it moves on when its next home leaves.
func TestHandOverWithoutAnAnswer(t *testing.T) {
	for _, stays := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut=%v", stays), func(t *testing.T) {
			net := newNetwork(t, "a", "b", "c")
			a := net.node(taskName("a"))
			first, second := net.node(taskOf((&handing{task: a.task, lost: map[string]bool{a.name: true}}).successor(nil))), net.node(taskName("c"))
			if first == second {
				second = net.node(taskName("b"))
			}
			name := ""
			for i := 0; a.task.decider("", name) != first.name || name == ""; i++ { // it answers claims
				name = fmt.Sprintf("v%d", i)
			}
			text := strings.ReplaceAll(unplaced, `"v"`, strconv.Quote(name))
			open(t, a, text).run(request(map[string]int64{"x:0": 1}, "!set"))
			net.loseAnswer(first, a, func(m *wire.Homes) bool { return len(m.Resources) > 0 }, !stays)
			until(t, "the tasks agree on the home", func() bool {
				return len(first.task.shared.all())+len(second.task.shared.all()) == 1
			})
			c := open(t, second, text)
			c.run(request(nil, "get:0"), 1)
			c.run(request(map[string]int64{"x:0": 2}, "!set"))
			open(t, first, text).run(request(nil, "get:0"), 2)
			home := second
			if len(first.task.shared.all()) > 0 {
				home = first
			}
			other := first
			if home == first {
				other = second
			}
			home.stopInTime(20 * time.Second)
			open(t, other, text).run(request(nil, "get:0"), 2)
		})
	}
}

// TestHandOverAfterALinkBreaks breaks the link to the only task that is left while a variable is being handed over to it: it gets it over the next link.
func TestHandOverAfterALinkBreaks(t *testing.T) {
	net := newNetwork(t, "a", "b")
	a, b := net.node(taskName("a")), net.node(taskName("b"))
	open(t, a, unplaced).run(request(map[string]int64{"x:0": 1}, "!set"))
	net.loseAnswer(b, a, func(m *wire.Homes) bool { return len(m.Resources) == 0 }, true)
	open(t, b, unplaced).run(request(nil, "get:0"), 1)
}
