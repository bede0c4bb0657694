package queues

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

var update = flag.Bool("update", false, "write what the transcripts' commands give into testdata")

// TestTranscripts runs testdata/*.txt: blocks of commands, a line of dashes, and the results: completions in order, then the queue. The
// commands are
//
//	queue [kind=KIND] capacity=N types=T,… [shapes=S;…] [name=NAME] [min=N] [seeds=N,N] [random=N,…]
//	enqueue ID VALUE | (TYPE SHAPE, …)     a tuple whose components are full of VALUE, or zero
//	enqueue_many ID VALUE… | (TYPE SHAPE, …)
//	dequeue ID
//	dequeue_many ID N
//	dequeue_up_to ID N
//	late ID MS | late_many ID N MS         a dequeue that waits up to MS for a closed, empty queue to be reopened
//	open ID MS                             reopens the queue, waiting up to MS until its elements have been taken
//	expire                                 ends the wait of the first of these
//	close ID [cancel]
//	cancel ID
//	end ID                                 ends the operation's step; the operation is not cancelled yet
//	size | is_closed | delete
//	matches OP [kind=KIND] capacity=N types=T,… [shapes=S;…] …
//
// A queue that shuffles cycles through the numbers given as random.
//
// At the end of each file all memory must be back in the pool.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t, pool: tensor.NewPool("test", 0), now: noon, tokens: map[string]string{}, cancels: map[string]func(error){}, steps: map[string]*step{}}
			var out []string
			for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
				commands, _, _ := strings.Cut(block, "\n----")
				out = append(out, commands+"\n----"+s.block(commands))
			}
			s.end()
			got := strings.Join(out, "\n\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("the transcript is now\n%s", got)
			}
		})
	}
}

// script is the run of a transcript. The queue works inline, so completions arrive in the machine's order.
type script struct {
	t       *testing.T
	pool    *tensor.Pool
	queue   *Queue
	dead    *Queue // for dead letters
	now     time.Time
	tokens  map[string]string // of leases
	cancels map[string]func(error)
	steps   map[string]*step // of the operations
	out     []string
}

// step is the step of one operation.
type step struct{ err error }

func (s *step) Err() error { return s.err }

// step returns the step of a new operation.
func (s *script) step(name string) Step {
	s.steps[name] = &step{}
	return s.steps[name]
}

func (s *script) block(commands string) string {
	s.out = nil
	for line := range strings.SplitSeq(commands, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		s.command(strings.Fields(line))
	}
	if s.queue != nil {
		s.say("%s", s.picture())
	}
	return "\n" + strings.Join(s.out, "\n")
}

func (s *script) end() {
	for _, q := range []*Queue{s.queue, s.dead} {
		if q != nil {
			q.Close()
		}
	}
	s.dead = nil
	if n := s.pool.Stats().InUse; n != 0 {
		s.t.Errorf("%d bytes still in use", n)
	}
}

func (s *script) say(format string, args ...any) { s.out = append(s.out, fmt.Sprintf(format, args...)) }

func (s *script) command(f []string) {
	q := s.queue
	switch f[0] {
	case "queue":
		s.spawn(s.options(f[1:]))
	case "dead_letters":
		dead, err := Spawn(nil, s.options(f[1:]))
		if err != nil {
			s.t.Fatal(err)
		}
		s.dead = dead
	case "dead_dequeue":
		s.cancels[f[1]] = s.dead.Dequeue(s.given(f[1], false))
	case "dead_delete":
		s.dead.Close()
	case "enqueue_once":
		s.cancels[f[1]] = q.For(Origin{}, s.step(f[1]), nil).EnqueueManyOnce(f[2], int64(s.number(f[3])), s.tuple(true, f[4:]), s.done(f[1]))
	case "lease":
		s.cancels[f[1]] = q.For(first, s.step(f[1]), nil).Lease(s.number(f[2]), s.terms(f[3:]), s.lent(f[1]))
	case "acknowledge":
		q.Acknowledge(s.named(f[1:]), s.held(f))
	case "return":
		q.Return(s.named(f[1:]), s.held(f))
	case "renew":
		q.Renew(s.named(f[1:]), s.held(f))
	case "wait":
		s.now = s.now.Add(s.milliseconds(f[1]))
		q.runner.send(tickOnce)
	case "matches":
		s.say("%s", outcome(q.Matches(f[1], s.options(f[2:]))))
	case "enqueue":
		s.cancels[f[1]] = q.For(Origin{}, s.step(f[1]), nil).Enqueue(s.tuple(false, f[2:]), s.done(f[1]))
	case "enqueue_many":
		s.cancels[f[1]] = q.For(Origin{}, s.step(f[1]), nil).EnqueueMany(s.tuple(true, f[2:]), s.done(f[1]))
	case "dequeue":
		s.cancels[f[1]] = q.For(Origin{}, s.step(f[1]), nil).Dequeue(s.given(f[1], false))
	case "dequeue_many":
		s.cancels[f[1]] = q.For(Origin{}, s.step(f[1]), nil).DequeueMany(s.number(f[2]), s.given(f[1], true))
	case "dequeue_up_to":
		s.cancels[f[1]] = q.For(Origin{}, s.step(f[1]), nil).DequeueUpTo(s.number(f[2]), s.given(f[1], true))
	case "late":
		s.cancels[f[1]] = q.For(second, s.step(f[1]), nil).AwaitingOpen(s.milliseconds(f[2])).Dequeue(s.given(f[1], false))
	case "late_many":
		s.cancels[f[1]] = q.For(second, s.step(f[1]), nil).AwaitingOpen(s.milliseconds(f[3])).DequeueMany(s.number(f[2]), s.given(f[1], true))
	case "open":
		s.cancels[f[1]] = q.For(second, s.step(f[1]), nil).Open(s.milliseconds(f[2]), s.done(f[1]))
	case "expire":
		q.runner.send(&expiry{expireOne, cmp.Or(q.core.state.opens.first, q.core.state.late.first)})
	case "close":
		q.For(first, s.step(f[1]), nil).CloseQueue(len(f) > 2, nil, s.done(f[1]))
	case "give_up":
		q.For(first, s.step(f[1]), nil).CloseQueue(false, status.New(status.DataLoss, strings.Join(f[2:], " ")), s.done(f[1]))
	case "end":
		s.steps[f[1]].err = status.New(status.Cancelled, "the step has ended")
	case "cancel":
		s.cancels[f[1]](nil)
	case "size":
		q.Size(func(n int, err error) { s.say("size: %d %s", n, outcome(err)) })
	case "is_closed":
		q.IsClosed(func(c bool, err error) { s.say("is_closed: %v %s", c, outcome(err)) })
	case "delete":
		q.Close()
	default:
		s.t.Fatalf("no command %q", f)
	}
}

func (s *script) spawn(o Options) {
	q, err := Spawn(nil, o)
	if err != nil {
		s.say("%s", outcome(err))
		return
	}
	s.end()
	s.queue = q
	q.core.state.now = func() time.Time { return s.now }
}

// terms reads the terms of a lease: its milliseconds, and the number of deliveries.
func (s *script) terms(f []string) Terms {
	t := Terms{Duration: s.milliseconds(f[0])}
	if len(f) > 1 {
		t.MaxDeliveries, t.DeadLetters = s.number(f[1]), s.dead
	}
	return t
}

// named returns the tokens of named leases; a name without a lease is a token.
func (s *script) named(names []string) []string {
	var tokens []string
	for _, name := range names {
		tokens = append(tokens, cmp.Or(s.tokens[name], name))
	}
	return tokens
}

func (s *script) held(f []string) func([]bool, error) {
	return func(held []bool, err error) { s.say("%s: %v %s", strings.Join(f, " "), held, outcome(err)) }
}

func (s *script) lent(name string) func(string, []*tensor.Tensor, error) {
	return func(token string, tuple []*tensor.Tensor, err error) {
		s.tokens[name] = token
		s.given(name, true)(tuple, err)
	}
}

// The time at which the transcripts' queues are closed, and the origins of that and of later operations.
var (
	noon   = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	first  = Origin{Step: 1, Session: "a", Master: "/job:worker/replica:0/task:0"}
	second = Origin{Step: 2, Session: "b", Master: "/job:worker/replica:0/task:1"}
)

func (s *script) milliseconds(text string) time.Duration {
	return time.Duration(s.number(text)) * time.Millisecond
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return fmt.Sprintf("%v %v", status.CodeOf(err), err)
}

func (s *script) done(name string) func(error) {
	return func(err error) { s.say("%s: %s", name, outcome(err)) }
}

func (s *script) given(name string, many bool) func([]*tensor.Tensor, error) {
	return func(tuple []*tensor.Tensor, err error) {
		if err != nil {
			s.say("%s: %s", name, outcome(err))
			return
		}
		s.say("%s: %s", name, values(s.t, tuple, many))
		release(tuple)
	}
}

// values returns the values that fill the elements of a tuple. An element of mixed values fails the test.
func values(t *testing.T, tuple []*tensor.Tensor, many bool) string {
	t.Helper()
	var want string
	for i, c := range tuple {
		rows := 1
		if many {
			rows = c.Dim(0)
		}
		var got []string
		for row := range rows {
			per := c.Len() / rows
			for at := row * per; at < (row+1)*per; at++ {
				v := valueAt(c, at)
				if at == row*per {
					got = append(got, v)
				} else if v != got[row] {
					t.Errorf("component %d, row %d is mixed: %s and %s", i, row, got[row], v)
				}
			}
		}
		if text := fmt.Sprint(got); i == 0 {
			want = text
		} else if text != want {
			t.Errorf("components differ: %s and %s", want, text)
		}
	}
	if !many {
		want = strings.Trim(want, "[]")
	}
	return want
}

func valueAt(c *tensor.Tensor, i int) string {
	switch c.DType() {
	case tensor.Int64:
		return fmt.Sprint(tensor.Of[int64](c)[i])
	case tensor.Float32:
		return fmt.Sprint(tensor.Of[float32](c)[i])
	case tensor.Uint8:
		return fmt.Sprint(tensor.Of[uint8](c)[i])
	}
	return c.Strings()[i]
}

func fill(c *tensor.Tensor, from, to int, v int) {
	for i := from; i < to; i++ {
		switch c.DType() {
		case tensor.Int64:
			tensor.Of[int64](c)[i] = int64(v)
		case tensor.Float32:
			tensor.Of[float32](c)[i] = float32(v)
		case tensor.Uint8:
			tensor.Of[uint8](c)[i] = uint8(v)
		case tensor.String:
			c.Strings()[i] = strconv.Itoa(v)
		}
	}
}

// tupleOf makes a tuple for a queue: an element filled with the one value, or a row for each value.
func tupleOf(t testing.TB, o *Options, pool *tensor.Pool, many bool, vs ...int) []*tensor.Tensor {
	t.Helper()
	var tuple []*tensor.Tensor
	for i, d := range o.DTypes {
		shape := tensor.Shape{}
		if len(o.Shapes) > 0 {
			shape = o.Shapes[i]
		}
		if many {
			shape = rowsOf(shape, int64(len(vs)))
		}
		c, err := tensor.New(pool, d, shape)
		if err != nil {
			t.Fatal(err)
		}
		for row, v := range vs {
			per := c.Len() / len(vs)
			fill(c, row*per, (row+1)*per, v)
		}
		tuple = append(tuple, c)
	}
	return tuple
}

func (s *script) tuple(many bool, f []string) []*tensor.Tensor {
	if text := strings.Join(f, " "); strings.HasPrefix(text, "(") {
		var tuple []*tensor.Tensor
		for part := range strings.SplitSeq(strings.Trim(text, "()"), ", ") {
			d, shape, _ := strings.Cut(part, " ")
			c, err := tensor.Zeros(s.pool, s.dtype(d), s.shape(shape))
			if err != nil {
				s.t.Fatal(err)
			}
			tuple = append(tuple, c)
		}
		return tuple
	}
	var vs []int
	for _, v := range f {
		vs = append(vs, s.number(v))
	}
	return tupleOf(s.t, &s.queue.options, s.pool, many, vs...)
}

func (s *script) options(f []string) Options {
	o := Options{Name: "_0_q", Pool: s.pool}
	for _, arg := range f {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "name":
			o.Name = value
		case "kind":
			o.Kind = s.kind(value)
		case "min":
			o.MinAfterDequeue = s.number(value)
		case "seeds":
			a, b, _ := strings.Cut(value, ",")
			o.Seed, o.Seed2 = int64(s.number(a)), int64(s.number(b))
		case "random":
			numbers, next := strings.Split(value, ","), 0
			o.Random = func() uint32 {
				next++
				return uint32(s.number(numbers[(next-1)%len(numbers)]))
			}
		case "capacity":
			o.Capacity = s.number(value)
		case "types":
			for d := range strings.SplitSeq(value, ",") {
				o.DTypes = append(o.DTypes, s.dtype(d))
			}
		case "shapes":
			for shape := range strings.SplitSeq(value, ";") {
				o.Shapes = append(o.Shapes, s.shape(shape))
			}
		default:
			s.t.Fatalf("no option %s", name)
		}
	}
	return o
}

func (s *script) kind(name string) Kind {
	for k := FIFO; k <= Priority; k++ {
		if k.String() == name {
			return k
		}
	}
	s.t.Fatalf("no kind %s", name)
	return 0
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) dtype(name string) tensor.DType {
	for d := tensor.DType(1); d < 32; d++ {
		if d.String() == name {
			return d
		}
	}
	s.t.Fatalf("no dtype %s", name)
	return 0
}

func (s *script) shape(text string) tensor.Shape {
	shape := tensor.Shape{}
	for d := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
		switch d {
		case "":
		case "?":
			shape = append(shape, -1)
		default:
			shape = append(shape, int64(s.number(d)))
		}
	}
	return shape
}

// picture shows the queue: its values, and what waits.
func (s *script) picture() string {
	st := s.queue.core.state
	var b strings.Builder
	b.WriteString("=")
	for _, r := range elements(st.order) {
		tuple, err := r.element(s.pool)
		if err != nil {
			s.t.Fatal(err)
		}
		b.WriteString(" " + valueAt(tuple[0], 0))
		release(tuple)
	}
	if st.closed {
		b.WriteString(" closed")
	}
	if l := st.leases; l.elems+int(l.stored+l.dropped) > 0 {
		fmt.Fprintf(&b, " | %d leased, %d dead letters stored, %d dropped", l.elems, l.stored, l.dropped)
	}
	for w := st.enqueues.first; w != nil; w = w.next {
		if w.action == enqueue {
			fmt.Fprintf(&b, " | enqueue of %d waits", w.in.len())
		} else {
			b.WriteString(" | close waits")
		}
	}
	for w := st.dequeues.first; w != nil; w = w.next {
		got := 0
		for _, r := range w.got {
			got += r.len()
		}
		fmt.Fprintf(&b, " | dequeue waits, has %d, wants %d", got, w.want)
	}
	return b.String()
}

// elements returns the elements of an order one by one, as it stores them.
func elements(o order) []run {
	var all []run
	switch o := o.(type) {
	case *fifo:
		for i := range o.runs {
			for r := *o.at(i); r.len() > 0; {
				var first run
				first, r = r.split(1)
				all = append(all, first)
			}
		}
	case *shuffle:
		all = append(all, o.elems...)
	case *heap:
		for _, e := range o.elems {
			all = append(all, e.run)
		}
	}
	return all
}
