package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// Sizes of the tensors that are sent, in bytes.
const (
	Small = 64 << 10
	Large = 64 << 20
)

const (
	// leastPair is the minimum time of a pair. If not all pairs fit the whole time, some are left out.
	leastPair = 200 * time.Millisecond
	// leastRuns is the minimum number of runs of each measurement, whatever the time, unless the context ends.
	leastRuns = 3
	cleanTime = 5 * time.Second
)

// Samples are the durations of equal steps.
type Samples struct {
	Best, Median time.Duration
	Runs         int
}

// Pair is what was measured between two tasks. The step's master is To, and the tensor is a variable on From.
type Pair struct {
	From, To string
	// Empty is a step that does nothing on From. SmallStep and LargeStep send a tensor from From to To.
	Empty, SmallStep, LargeStep Samples
	// Error is why the measurement ended early; empty if it did not.
	Error string
}

// Local is the duration of steps that do nothing on one task, from the client's call to the answer.
type Local struct {
	Task  string
	Steps Samples
	Error string
}

// Report is what was measured.
type Report struct {
	Tasks []Local
	Pairs []Pair
	// Omitted are the pairs for which there was no time.
	Omitted int
	Machine Machine
}

// Task is a task to measure.
type Task struct{ Name, Target string }

// Run measures the tasks for about the given time: the machine, each task alone, and each ordered pair of tasks. When there
// are too many pairs, it takes neighbours in a ring, as many as fit. Errors of tasks are in the report; the error is of
// the machine's own measurement.
func Run(ctx context.Context, tasks []Task, budget time.Duration, opts ...client.Option) (*Report, error) {
	r := &Report{}
	var err error
	if r.Machine, err = measureMachine(ctx, budget/10); err != nil {
		return nil, err
	}
	b := &bench{opts: opts, name: fmt.Sprintf("troupe_bench_%016x", rand.Uint64())}
	for _, t := range tasks {
		r.Tasks = append(r.Tasks, b.alone(ctx, t, budget/10/time.Duration(len(tasks))))
	}
	pairs := ring(len(tasks))
	fit := max(int(budget*7/10/leastPair), 1)
	if fit < len(pairs) {
		r.Omitted = len(pairs) - fit
		pairs = pairs[:fit]
	}
	for _, p := range pairs {
		r.Pairs = append(r.Pairs, b.pair(ctx, tasks[p[0]], tasks[p[1]], budget*7/10/time.Duration(len(pairs))))
	}
	return r, nil
}

// ring lists all ordered pairs of n, the neighbours in a ring first: the first n pairs use every task.
func ring(n int) (pairs [][2]int) {
	for distance := 1; distance < n; distance++ {
		for i := range n {
			pairs = append(pairs, [2]int{i, (i + distance) % n})
		}
	}
	return pairs
}

type bench struct {
	opts []client.Option
	name string // of the variables; no other program has it
}

func (b *bench) device(s *op.Scope, t Task) *op.Scope { return s.WithDevice(t.Name + "/device:CPU:0") }

// alone measures steps of one task.
func (b *bench) alone(ctx context.Context, t Task, budget time.Duration) Local {
	l := Local{Task: t.Name}
	s := op.NewScope()
	nothing := op.NoOp(b.device(s, t))
	err := b.session(ctx, t, s, func(session *client.Session) (err error) {
		l.Steps, err = measure(ctx, session, nothing.Name(), budget)
		return err
	})
	if err != nil {
		l.Error = err.Error()
	}
	return l
}

// pair measures steps of the task to that have a part on the task from.
func (b *bench) pair(ctx context.Context, from, to Task, budget time.Duration) Pair {
	p := Pair{From: from.Name, To: to.Name}
	s := op.NewScope()
	nothing := op.NoOp(b.device(s, from))
	small, large := b.sent(s, from, to, Small), b.sent(s, from, to, Large)
	err := b.session(ctx, to, s, func(session *client.Session) (err error) {
		if _, err := session.Run(ctx, nil, nil, []string{small.fill, large.fill}); err != nil {
			return err
		}
		defer func() {
			// This must work even after ctx has ended: otherwise the variable would stay.
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
			defer cancel()
			_, failed := session.Run(cleaning, nil, nil, []string{small.destroy, large.destroy})
			err = errors.Join(err, failed)
		}()
		if p.Empty, err = measure(ctx, session, nothing.Name(), budget/4); err != nil {
			return err
		}
		if p.SmallStep, err = measure(ctx, session, small.send, budget/4); err != nil {
			return err
		}
		p.LargeStep, err = measure(ctx, session, large.send, budget/4)
		return err
	})
	if err != nil {
		p.Error = err.Error()
	}
	return p
}

// sending has the operations that make a tensor on a task, send it to another one, and drop it.
type sending struct{ fill, send, destroy string }

func (b *bench) sent(s *op.Scope, from, to Task, bytes int) sending {
	there := b.device(s, from)
	count := int32(bytes / tensor.Float32.Size())
	v := op.VarHandleOp(there, tensor.Float32, shape.Of(int64(count)), attr.SharedName(fmt.Sprintf("%s_%d", b.name, bytes)))
	fill := op.AssignVariableOp(there, v, op.Fill(there, op.Const(there, []int32{count}), op.Const(there, float32(1))))
	arrives := op.Identity(b.device(s, to), op.ReadVariableOp(there, v, tensor.Float32))
	return sending{fill.Name(), arrives.Op.Name(), op.DestroyResourceOp(there, v).Name()}
}

// session calls do with a session of its own on a task.
func (b *bench) session(ctx context.Context, t Task, s *op.Scope, do func(*client.Session) error) (err error) {
	def, err := s.GraphDef()
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, t.Target, b.opts...)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		err = errors.Join(err, c.Close(closing))
	}()
	session, err := c.NewSession(ctx, def, nil)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
		err = errors.Join(err, session.Close(closing))
	}()
	return do(session)
}

// measure runs a target for the time of the budget, after a first run that builds its plan.
func measure(ctx context.Context, session *client.Session, target string, budget time.Duration) (Samples, error) {
	targets := []string{target}
	once := func() error {
		_, err := session.Run(ctx, nil, nil, targets)
		return err
	}
	if err := once(); err != nil {
		return Samples{}, err
	}
	return sample(budget, once)
}

// sample calls once for the time of the budget, and at least a few times.
func sample(budget time.Duration, once func() error) (Samples, error) {
	var all []time.Duration
	for begun := time.Now(); len(all) < leastRuns || time.Since(begun) < budget; {
		at := time.Now()
		if err := once(); err != nil {
			return Samples{}, err
		}
		all = append(all, time.Since(at))
	}
	slices.Sort(all)
	return Samples{all[0], all[len(all)/2], len(all)}, nil
}
