package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/extent"
	"github.com/troupe-run/troupe/kernels"
)

// TestRandomSchedules runs steps of three tasks whose messages, failures, cuts and cancellations come in random orders.
func TestRandomSchedules(t *testing.T) {
	n := 10_000
	switch {
	case extent.Full():
		n = 1_000_000
	case extent.RaceDetector:
		n = 1000
	}
	seen := map[string]int{}
	for seed := range uint64(n) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(random.IntN)
		if err := c.run(random.IntN(60)); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c.history())
		}
		seen[status.CodeOf(c.master.Err()).String()]++
	}
	t.Log(seen)
	for _, code := range []status.Code{status.OK, status.Cancelled, status.Internal, status.Unavailable} {
		if seen[code.String()] < n/100 {
			t.Errorf("only %d of %d steps end with %v", seen[code.String()], n, code)
		}
	}
}

// FuzzSchedules runs a step of three tasks in the order that the input chooses.
func FuzzSchedules(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Fuzz(func(t *testing.T, order []byte) {
		c := newCluster(func(n int) int {
			if len(order) == 0 {
				return 0
			}
			i := int(order[0]) % n
			order = order[1:]
			return i
		})
		if err := c.run(len(order)); err != nil {
			t.Fatalf("%v\n%s", err, c.history())
		}
	})
}

const theStep = 7

// cluster is three tasks, of which a is the step's master. What is under way is a list of events; choose says which happens next.
type cluster struct {
	choose func(n int) int
	pool   *tensor.Pool
	log    []string
	faults []string

	now     time.Time
	master  Master
	overs   int
	session Session[string, *runs]
	entry   *Entry[string, *runs] // of the step at its master
	tables  map[string]*Table[string, *runs]
	runs    map[string]*runs // the part that a task has begun
	knows   map[string]bool  // the task has the plan
	links   map[[2]string][]message
	bulk    []arriving      // tensors that travel beside the messages
	pending []event         // things that a goroutine is about to do
	late    int             // tensors that are yet to be sent
	severed bool            // some link of the master was cut
	closed  map[string]bool // the task has the client's next request: its part must not begin
}

type event struct {
	name string
	do   func()
}

// message is what one task tells another.
type message struct {
	name    string
	tensors []Arrival
	take    func(tensors []Arrival)
}

type arriving struct {
	from, to string
	Arrival
}

// runs is a part that has begun.
type runs struct {
	task      string
	part      Part
	entry     *Entry[string, *runs]
	programs  int // that have not ended
	waits     bool
	cancelled bool
	over      bool
	received  []Arrival
}

func newCluster(choose func(n int) int) *cluster {
	c := &cluster{choose: choose, pool: tensor.NewPool("test", 0), now: midnight, tables: map[string]*Table[string, *runs]{}, runs: map[string]*runs{},
		knows: map[string]bool{"a": true}, closed: map[string]bool{}, links: map[[2]string][]message{}, late: 4}
	for _, task := range []string{"a", "b", "c"} {
		c.tables[task] = NewTable[string, *runs](task, Limits{Session: 10, Steps: 10, Full: status.New(status.ResourceExhausted, "full")})
	}
	return c
}

func (c *cluster) note(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

func (c *cluster) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
	c.note(format, args...)
}

func (c *cluster) history() string {
	return strings.Join(c.log, "\n")
}

// run runs the step for some events, and then to its end.
func (c *cluster) run(events int) error {
	c.master.Begin("a", "b", "c")
	own := &runs{task: "a", entry: &Entry[string, *runs]{ID: theStep, Master: "step"}}
	own.entry.Part = own
	c.entry = own.entry
	if err := c.tables["a"].Enter(&c.session, c.entry); err != nil {
		return err
	}
	c.begin(own)
	for _, task := range []string{"b", "c"} {
		c.later("dispatch "+task, func() { c.dispatch(task) })
	}
	for range events {
		all := c.normal()
		if c.choose(8) == 0 || len(all) == 0 {
			all = c.faulty()
		}
		all[c.choose(len(all))].do()
	}
	for left := 10_000; ; left-- {
		all := c.normal()
		if len(all) == 0 {
			break
		}
		if left == 0 {
			return fmt.Errorf("it does not end")
		}
		all[c.choose(len(all))].do()
	}
	return c.check()
}

// check checks that nothing is left.
func (c *cluster) check() error {
	if c.overs != 1 || !c.master.Over() {
		c.fault("the step ended %d times, and %s", c.overs, pictureOf(&c.master))
	}
	c.now = c.now.Add(time.Hour)
	for task, t := range c.tables {
		dropped, _ := t.Tick(c.now)
		Release(dropped)
		if len(t.steps) != 0 || t.masters != 0 || t.parts != 0 || len(t.parked) != 0 || t.bytes != 0 || t.waiting.Len() != 0 {
			c.fault("the table of %s has %d steps, %d of masters, %d parts, %d parked, %d bytes", task, len(t.steps), t.masters, t.parts, len(t.parked), t.bytes)
		}
	}
	for task, r := range c.runs {
		if !r.over {
			c.fault("the part of %s has not ended", task)
		}
	}
	if n := c.pool.Stats().InUse; n != 0 {
		c.fault("%d bytes are in use", n)
	}
	if len(c.faults) > 0 {
		return fmt.Errorf("%s", c.faults[0])
	}
	return nil
}

func (c *cluster) later(name string, do func()) { c.pending = append(c.pending, event{name, do}) }

// normal returns what may happen next without a fault. If nothing may, all has ended.
func (c *cluster) normal() (all []event) {
	for i, e := range c.pending {
		all = append(all, event{e.name, func() {
			c.note("%s", e.name)
			c.pending = slices.Delete(c.pending, i, i+1)
			e.do()
		}})
	}
	for _, link := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "a"}, {"b", "c"}, {"c", "a"}, {"c", "b"}} {
		if queue := c.links[link]; len(queue) > 0 {
			all = append(all, event{"message", func() {
				c.note("%s -> %s: %s", link[0], link[1], queue[0].name)
				c.links[link] = queue[1:]
				queue[0].take(queue[0].tensors)
			}})
		}
	}
	for i, a := range c.bulk {
		all = append(all, event{"bulk", func() {
			c.note("%s -> %s: a tensor", a.from, a.to)
			c.bulk = slices.Delete(c.bulk, i, i+1)
			c.deposit(a.to, a.Arrival)
		}})
	}
	for _, task := range []string{"a", "b", "c"} {
		r := c.runs[task]
		if r == nil || r.programs == 0 {
			continue
		}
		if c.late > 0 && !r.cancelled {
			all = append(all, event{"send", func() { c.send(r) }})
		}
		if r.waits && c.master.failed && !r.cancelled {
			continue // for another part, which may have ended: only an abort ends it
		}
		all = append(all, event{"end", func() {
			var err error
			if r.cancelled {
				err = &status.Error{Code: status.Cancelled, Message: "cancelled", Derived: true}
			}
			c.end(r, err)
		}})
	}
	return all
}

// faulty returns what may go wrong next.
func (c *cluster) faulty() (all []event) {
	for _, task := range []string{"a", "b", "c"} {
		if r := c.runs[task]; r != nil && r.programs > 0 {
			all = append(all, event{"fail", func() { c.end(r, status.Internalf("{{node x}} of %s", task)) }})
		}
	}
	for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
		all = append(all, event{"cut", func() { c.cut(pair[0], pair[1]) }})
	}
	all = append(all, event{"cancel", func() {
		c.note("the client cancels")
		c.do(c.master.Fail(status.New(status.Cancelled, "the client cancelled")))
		for _, task := range []string{"b", "c"} {
			c.next(task)
		}
	}}, event{"time", func() {
		c.now = c.now.Add(6 * time.Second)
		for _, task := range []string{"a", "b", "c"} {
			dropped, _ := c.tables[task].Tick(c.now)
			Release(dropped)
		}
	}}, event{"abort", func() { // by somebody who guesses the step's number
		task := string(rune('a' + c.choose(3)))
		c.note("%s is told to abort", task)
		c.refuse(task, status.New(status.Aborted, "aborted"))
	}})
	if c.master.failed {
		all = append(all, event{"abandon", func() {
			c.note("the master abandons the others")
			c.do(c.master.Abandon(status.New(status.DeadlineExceeded, "they do not end")))
		}})
	}
	return all
}

// next sends what the client sent after it cancelled the step, such as an element for a queue. A part that runs when this arrives, or begins
// later, could dequeue the element.
func (c *cluster) next(task string) {
	c.tell("a", task, message{name: "the client's next request", take: func([]Arrival) {
		if c.severed {
			return // the abort may be lost: no order is promised
		}
		c.closed[task] = true
		if r := c.runs[task]; r != nil && r.programs > 0 && !r.cancelled {
			c.fault("the cancelled part of %s runs when the client's next request arrives", task)
		}
	}})
}

// do does what the master has answered.
func (c *cluster) do(e Effects) {
	if e.AbortOwn {
		c.refuse("a", status.Derive(e.Err))
	}
	for _, task := range e.Abort {
		c.tell("a", task, message{name: "abort", take: func([]Arrival) { c.refuse(task, status.Derive(e.Err)) }})
	}
	if e.Over {
		c.note("the step is over: %s", outcome(c.master.Err()))
		c.overs++
		if gone, _ := c.tables["a"].Leave(c.entry); !gone {
			c.fault("the step was not in its session")
		}
	}
}

// tell sends a message.
func (c *cluster) tell(from, to string, m message) {
	c.links[[2]string{from, to}] = append(c.links[[2]string{from, to}], m)
}

// dispatch asks a task to run its part, on a goroutine that may be slow.
func (c *cluster) dispatch(task string) {
	start, e := c.master.Start(task)
	c.do(e)
	if !start {
		return
	}
	if c.overs > 0 {
		c.fault("the part of %s is started after the end", task)
	}
	cut := len(c.log) // a cut from here on reaches the part
	c.later("send the start of "+task, func() {
		if slices.Contains(c.log[cut:], "cut a "+task) && c.choose(2) == 0 { // the connection that it was to be sent on is gone
			c.do(c.master.Ended(task, status.New(status.Unavailable, "not reached")))
			return
		}
		c.tell("a", task, message{name: "start", take: func([]Arrival) { c.start(task) }})
		c.later("the start of "+task+" is sent", func() { c.do(c.master.Started(task)) })
	})
}

// start handles the message that starts a part.
func (c *cluster) start(task string) {
	if !c.knows[task] && c.choose(2) == 0 {
		c.knows[task] = true
		c.tell(task, "a", message{name: "unknown plan", take: func([]Arrival) {
			if c.master.Unknown(task) {
				c.later("dispatch "+task+" again", func() { c.dispatch(task) })
			}
		}})
		return
	}
	r := &runs{task: task, entry: &Entry[string, *runs]{ID: theStep}}
	r.entry.Part = r
	c.begin(r)
}

// begin begins a part.
func (c *cluster) begin(r *runs) {
	arrived, err := c.tables[r.task].Begin(r.entry)
	if err != nil {
		Release(arrived)
		ok, err := r.part.Refuse(err)
		if !ok {
			c.fault("a part that has not begun cannot be refused")
		}
		c.answer(r, err)
		return
	}
	if old := c.runs[r.task]; old != nil {
		c.fault("%s begins its part twice", r.task)
	}
	if c.closed[r.task] && !c.severed {
		c.fault("the cancelled part of %s begins after the client's next request", r.task)
	}
	c.runs[r.task] = r
	r.received = arrived
	r.part.Use(map[string]bool{"a": true, "b": true, "c": true})
	r.programs, r.waits = 1+c.choose(2), c.choose(2) == 0
	r.part.Begin(r.programs)
}

// end ends a program of a part.
func (c *cluster) end(r *runs, err error) {
	c.note("a program of %s ends: %s", r.task, outcome(err))
	r.programs--
	last := r.part.Ending(err)
	over, err := r.part.Ended()
	if last != over {
		c.fault("the last program of %s: %v, and it is over: %v", r.task, last, over)
	}
	if !over {
		return
	}
	r.over = true
	Release(r.received)
	c.answer(r, err)
	c.tables[r.task].End(r.entry)
}

// answer tells the master how a part has ended.
func (c *cluster) answer(r *runs, err error) {
	if r.task == "a" {
		c.do(c.master.EndedOwn(err))
		return
	}
	c.tell(r.task, "a", message{name: "done", take: func([]Arrival) { c.do(c.master.Ended(r.task, err)) }})
}

// send sends a tensor to one of the other tasks, with a message or beside it.
func (c *cluster) send(r *runs) {
	c.late--
	to := string(rune('a' + c.choose(3)))
	if to == r.task {
		return
	}
	v, err := tensor.New(c.pool, tensor.Uint8, tensor.Shape{64})
	if err != nil {
		c.fault("%v", err)
		return
	}
	a := Arrival{Key: kernels.Key{Edge: "x"}, Tensor: v}
	if c.choose(2) == 0 {
		c.bulk = append(c.bulk, arriving{r.task, to, a})
		return
	}
	c.tell(r.task, to, message{name: "tensors", tensors: []Arrival{a}, take: func(all []Arrival) {
		for _, a := range all {
			c.deposit(to, a)
		}
	}})
}

// deposit handles a tensor that has arrived.
func (c *cluster) deposit(task string, a Arrival) {
	part, live, dropped := c.tables[task].Deposit(c.now, theStep, a)
	if live {
		part.received = append(part.received, a)
	}
	Release(dropped)
}

// refuse fails the part of a task, now or when it begins.
func (c *cluster) refuse(task string, err error) {
	part, live, dropped := c.tables[task].Refuse(theStep, err)
	if live {
		c.fail(part, err)
	}
	Release(dropped)
}

func (c *cluster) fail(r *runs, err error) {
	if r.part.Fail(err) {
		r.cancelled = true
	}
}

// cut breaks the link between two tasks: what is under way is lost, and both learn of it.
func (c *cluster) cut(x, y string) {
	c.note("cut %s %s", x, y)
	c.severed = c.severed || x == "a"
	for _, link := range [][2]string{{x, y}, {y, x}} {
		for _, m := range c.links[link] {
			Release(m.tensors)
		}
		delete(c.links, link)
	}
	c.bulk = slices.DeleteFunc(c.bulk, func(a arriving) bool {
		gone := a.from == x && a.to == y || a.from == y && a.to == x
		if gone {
			Release([]Arrival{a.Arrival})
		}
		return gone
	})
	lost := status.New(status.Unavailable, "the link broke")
	for _, end := range [][2]string{{x, y}, {y, x}} {
		self, other := end[0], end[1]
		parts := c.tables[self].Parts()
		c.later(self+" learns of the cut", func() {
			for _, r := range parts {
				if r.part.Meets(other) {
					c.fail(r, lost)
				}
			}
		})
	}
	if x == "a" && !c.master.Over() {
		c.later("the master learns of the cut", func() {
			e := c.master.Lost(y, lost)
			c.do(e)
			if e.Stray { // the next message to the task aborts what is left
				c.tell("a", y, message{name: "abort the stray", take: func([]Arrival) { c.refuse(y, lost) }})
			}
		})
	}
}
