package metamorphic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Variant is one way to run a program.
type Variant struct {
	Shape   int    // of the cluster
	Masters [2]int // of the two sessions
	Turn    int    // by how many devices the places are rotated
	Lower   Lowering
	// FeedConsts feeds the constants at the top, Trace asks for a trace with some steps, Shuffle changes the nodes' order.
	FeedConsts, Trace bool
	Shuffle           uint64
}

// programs counts the programs that ran: each has different resource names.
var programs atomic.Int64

// player runs a program's script on a cluster, and in a machine that computes the expected results.
type player struct {
	p        *Program
	v        Variant
	cluster  *Cluster
	damage   func(*graphpb.GraphDef)
	deadline time.Duration // of an action
	machine  *Machine
	graph    *Graph
	sessions [2]*troupe.Session
	top      map[int]*Stmt
	have     [2]int // the last statement that each session's graph has
	upto     int
}

// Play runs a program's script in a variant. The error describes the first action with a wrong result.
func (c *Clusters) Play(ctx context.Context, p *Program, v Variant, deadline time.Duration) (err error) {
	cluster := c.all[v.Shape]
	var devices []string
	for i := range cluster.devices {
		devices = append(devices, cluster.devices[(i+v.Turn)%len(cluster.devices)])
	}
	form := Form{Names: fmt.Sprintf("p%d_", programs.Add(1)), Devices: devices, Lower: v.Lower, FeedConsts: v.FeedConsts, Shuffle: v.Shuffle}
	pl := newPlayer(p, v, Draw(p, form))
	pl.cluster, pl.damage, pl.deadline = cluster, c.damage, deadline
	defer func() {
		bounded, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		for i := range pl.sessions {
			if e := pl.close(bounded, i); err == nil && e != nil {
				err = fmt.Errorf("closing session %d: %w", i, e)
			}
		}
	}()
	for i, a := range p.Script {
		if err := pl.act(ctx, a); err != nil {
			return fmt.Errorf("action %d, %s: %w", i, a.Kind, err)
		}
	}
	return nil
}

func newPlayer(p *Program, v Variant, g *Graph) *player {
	pl := &player{p: p, v: v, machine: NewMachine(p), graph: g, top: map[int]*Stmt{}}
	for _, s := range p.Stmts {
		pl.top[s.ID] = s
	}
	return pl
}

func (pl *player) close(ctx context.Context, i int) error {
	s := pl.sessions[i]
	pl.sessions[i], pl.have[i] = nil, 0
	if s == nil {
		return nil
	}
	return s.Close(ctx)
}

func (pl *player) act(ctx context.Context, a *Action) error {
	ctx, cancel := context.WithTimeout(ctx, pl.deadline)
	defer cancel()
	switch a.Kind {
	case Reopen:
		return pl.close(ctx, a.Session)
	case Extend:
		before := pl.upto
		pl.upto = max(a.Upto, before)
		inits := pl.graph.Inits(before, pl.upto)
		if len(inits) == 0 {
			return nil
		}
		s, err := pl.session(ctx, 0)
		if err == nil {
			_, err = s.Run(ctx, nil, nil, inits)
		}
		return err
	case Parallel:
		return pl.parallel(ctx, a)
	}
	s, err := pl.session(ctx, a.Session)
	if err != nil {
		return err
	}
	switch a.Kind {
	case Callable:
		return pl.callable(ctx, s, a)
	case Partial:
		return pl.partial(ctx, s, a)
	case Fail:
		return pl.failing(ctx, s, a)
	default:
		st := pl.step(a, a.Seed)
		if st == nil {
			return nil
		}
		st.expect(pl.machine)
		return pl.run(ctx, s, st)
	}
}

// session returns a session whose graph has the program as far as it is extended.
func (pl *player) session(ctx context.Context, i int) (*troupe.Session, error) {
	var err error
	def := pl.graph.Def(pl.have[i], pl.upto)
	if pl.damage != nil {
		pl.damage(def)
	}
	if pl.sessions[i] == nil {
		server := pl.cluster.servers[pl.v.Masters[i]%len(pl.cluster.servers)]
		pl.sessions[i], err = server.NewSession(ctx, def, nil)
	} else if pl.have[i] < pl.upto {
		err = pl.sessions[i].Extend(ctx, def)
	}
	if err != nil {
		return nil, err
	}
	pl.have[i] = pl.upto
	return pl.sessions[i], nil
}

func (pl *player) run(ctx context.Context, s *troupe.Session, st *step) error {
	fed, err := st.tensors(st.feeds)
	if err != nil {
		return err
	}
	defer release(fed)
	if !pl.v.Trace {
		out, err := s.Run(ctx, fed, st.fetches, st.others)
		if err != nil {
			return err
		}
		return st.compare(st.fetch, out)
	}
	r, err := s.RunStep(ctx, troupe.Step{Feeds: fed, Fetches: st.fetches, Targets: st.others,
		Options: &corepb.RunOptions{TraceLevel: corepb.RunOptions_FULL_TRACE}})
	if err != nil {
		return err
	}
	if r.Metadata.GetStepStats() == nil {
		return errors.New("there is no trace")
	}
	return st.compare(st.fetch, r.Tensors)
}

// callable prepares a step once and runs it a few times.
func (pl *player) callable(ctx context.Context, s *troupe.Session, a *Action) error {
	var c *troupe.Callable
	for i := range 1 + a.Seed%3 {
		st := pl.step(a, a.Seed+i)
		if st == nil {
			return nil
		}
		st.expect(pl.machine)
		fed, err := st.tensors(st.feeds)
		if err != nil {
			return err
		}
		defer release(fed)
		var names []string
		var values []*tensor.Tensor
		for _, id := range st.feeds {
			names, values = append(names, tensorName(id)), append(values, fed[tensorName(id)])
		}
		if c == nil {
			if c, err = s.PrepareStep(ctx, &corepb.CallableOptions{Feed: names, Fetch: st.fetches, Target: st.others}); err != nil {
				return err
			}
		}
		out, err := c.Run(ctx, values...)
		if err != nil {
			return err
		}
		if err := st.compare(st.fetch, out); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
	}
	return c.Close(ctx)
}

// partial runs a step in two parts: fetches that need only some of the feeds come first.
func (pl *player) partial(ctx context.Context, s *troupe.Session, a *Action) error {
	once := *a
	once.Fetch = unique(a.Fetch) // each is fetched once
	st := pl.step(&once, a.Seed)
	if st == nil {
		return nil
	}
	m := pl.machine
	st.expect(m)
	cut := int(a.Seed % uint64(len(st.fetch)+1))
	early, late := st.fetch[:cut], st.fetch[cut:]
	isFed := map[int]bool{}
	for _, id := range st.feeds {
		isFed[id] = true
	}
	var first, second []int
	need := map[int]bool{}
	for _, x := range m.f.closure(m.p, early, isFed) {
		need[x.ID] = true
		for _, id := range m.f.uses(x) {
			need[id] = true
		}
	}
	for _, id := range st.feeds {
		if need[id] || slices.Contains(early, id) {
			first = append(first, id)
		} else {
			second = append(second, id)
		}
	}
	var names []string
	for _, id := range st.feeds {
		names = append(names, tensorName(id))
	}
	run, err := s.PartialRun(ctx, names, st.fetches, st.others)
	if err != nil {
		return err
	}
	parts := []struct{ feeds, fetch []int }{{first, early}, {second, late}}
	if len(first)+len(early) == 0 {
		parts = parts[1:]
	} else if len(second)+len(late) == 0 {
		parts = parts[:1]
	}
	for i, part := range parts {
		fed, err := st.tensors(part.feeds)
		if err != nil {
			return err
		}
		var fetches []string
		for _, id := range part.fetch {
			fetches = append(fetches, tensorName(id))
		}
		out, err := run.Run(ctx, fed, fetches)
		release(fed)
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
		if err := st.compare(part.fetch, out); err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

// parallel runs independent steps concurrently.
func (pl *player) parallel(ctx context.Context, a *Action) error {
	var steps []*step
	var sessions []*troupe.Session
	for _, part := range a.Parts {
		st := pl.step(part, part.Seed)
		if st == nil {
			continue
		}
		s, err := pl.session(ctx, part.Session)
		if err != nil {
			return err
		}
		steps, sessions = append(steps, st), append(sessions, s)
	}
	if !independent(pl.p, pl.machine.f, a.Parts) {
		return nil
	}
	for _, st := range steps {
		st.expect(pl.machine)
	}
	errs := make([]error, len(steps))
	var wg sync.WaitGroup
	for i, st := range steps {
		wg.Go(func() { errs[i] = pl.run(ctx, sessions[i], st) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("part %d: %w", i, err)
		}
	}
	return nil
}

// failing runs a step that must fail with the error of its check.
func (pl *player) failing(ctx context.Context, s *troupe.Session, a *Action) error {
	st := pl.step(a, a.Seed)
	if st == nil || !slices.Contains(st.fetch, a.Fail) || changes(pl.p, pl.machine.f, a) {
		return nil
	}
	fed, err := st.tensors(st.feeds)
	if err != nil {
		return err
	}
	defer release(fed)
	no, err := tensor.FromSlice(tensor.Bool, tensor.Shape{}, []bool{false})
	if err != nil {
		return err
	}
	fed[guardName(a.Fail)] = no
	out, err := s.Run(ctx, fed, st.fetches, st.others)
	for _, t := range out {
		t.Release()
	}
	if status.CodeOf(err) != status.InvalidArgument {
		return fmt.Errorf("a check fails: %w", err)
	}
	return nil
}
