package actors

import (
	"context"
	"fmt"
	"maps"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// create takes in the session's first graph.
func (s *Session) create(ctx context.Context, def *graphpb.GraphDef) error {
	return s.apply(ctx, &change{message: &wire.Create{}, def: def})
}

// Extend adds nodes to the graph of version from and returns the new version. A repetition of the
// last extension, from a client that did not get the answer, is answered like the first time.
func (s *Session) Extend(ctx context.Context, def *graphpb.GraphDef, from int64) (int64, error) {
	if s.closed.Load() {
		return 0, errClosed()
	}
	s.touch()
	m := &change{message: &wire.Extend{Version: from}, def: def}
	if err := s.apply(ctx, m); err != nil {
		return 0, err
	}
	return m.version, nil
}

// work does what a change takes, beside the actor, which lets no other change pass meanwhile.
func (s *Session) work(ctx context.Context, m *change) (err error) {
	switch msg := m.message.(type) {
	case *wire.Create:
		err = s.worker.inTurn(ctx, size(m.def), func(check func() error) (err error) {
			if m.graph, err = graph.BuildChecked(m.def, check); err != nil {
				return err
			}
			m.graph, err = s.place(ctx, m.graph, 0, check)
			return err
		})
	case *wire.Extend:
		old := s.graph.Load()
		if msg.Version == s.version-1 && old.Contains(m.def) {
			m.graph, m.version = old, s.version
			return nil
		}
		if msg.Version != s.version {
			return status.Errorf(status.Aborted, "Current version is %d but caller expected %d.", s.version, msg.Version)
		}
		m.version = s.version + 1
		err = s.worker.inTurn(ctx, size(m.def), func(check func() error) (err error) {
			if m.graph, err = old.ExtendChecked(m.def, check); err != nil {
				return err
			}
			m.graph, err = s.place(ctx, m.graph, len(old.Nodes), check)
			return err
		})
	case *wire.BuildPlan:
		sig := graph.Signature{Feeds: msg.Feeds, Fetches: msg.Fetches, Targets: msg.Targets}
		m.key = string(append(appendSignature(nil, sig), msg.Watches...))
		if have := (*s.plans.Load())[m.key]; have != nil && !s.worker.stale(have.local) {
			return nil // somebody else was first
		}
		m.plan, err = s.buildPlan(ctx, s.graph.Load(), sig, msg.Watches)
	}
	return err
}

// size is about how many nodes a graph takes to build.
func size(def *graphpb.GraphDef) int { return len(def.GetNode()) + len(def.GetLibrary().GetFunction()) }

// publish lets steps see a change whose work is done; in the actor.
func (s *Session) publish(m *change) {
	switch msg := m.message.(type) {
	case *wire.Create, *wire.Extend:
		s.graph.Store(m.graph)
		s.version = m.version
	case *wire.BuildPlan:
		if m.plan != nil {
			s.publishPlans(func(all map[string]*plan) { all[m.key] = m.plan })
		}
	case *wire.ForgetPlans:
		s.publishPlans(func(all map[string]*plan) {
			maps.DeleteFunc(all, func(_ string, p *plan) bool { return p.remote[msg.Task] != nil })
		})
	}
}

// place puts the nodes of functions that need it in the place of their callers, and assigns devices to the
// new nodes, those from number from on. The result is the graph with all of them.
//
// Where the new nodes do not go with the places of old ones (an old node without a device, to which a new one with
// another device is colocated) all nodes are placed anew but for those with state, which stay where it is: as
// TensorFlow does at each extension. Plans made before keep the nodes that they were made of.
func (s *Session) place(ctx context.Context, g *graph.Graph, from int, check func() error) (*graph.Graph, error) {
	g, err := lower.Functions(g, from, lower.Options{Devices: s.devices.Devices(), Supports: supports, Check: check})
	if err != nil {
		return nil, err
	}
	o := place.Options{
		Prepared:      s.devices,
		SoftPlacement: s.options.soft,
		Supports:      supports,
		Colocations:   &s.colocations,
		Check:         check,
		Warn:          func(m string) { s.task.Log.Debug("placement", "session", s.handle, "warning", m) },
	}
	if !s.options.isolated {
		o.Home = func(r []place.Resource) ([]string, error) { return s.task.homes(ctx, r) }
	}
	if s.options.log {
		o.Log = func(n *graph.Node) { s.task.Log.Info(fmt.Sprintf("%s: (%s): %s", n.Name, n.Op, n.Assigned)) }
	}
	err = place.Place(g, g.Nodes[from:], o)
	if err == nil || from == 0 {
		return g, err
	}
	anew := g.Copy()
	for i, n := range g.Nodes[:from] {
		if n.Def == nil || n.Def.IsStateful {
			anew.Nodes[i].Requested = n.Assigned
		}
	}
	o.Colocations = &place.Colocations{}
	if place.Place(anew, anew.Nodes, o) != nil {
		return g, err
	}
	s.colocations = *o.Colocations
	return anew, nil
}

// supports tells whether a node can run on a type of device. The library's functions run on CPUs.
func supports(n *graph.Node, deviceType string) bool {
	if kernels.Supports(n, deviceType) {
		return true
	}
	if deviceType != "CPU" {
		return false
	}
	_, err := graph.LookupOp(n.Op)
	return err != nil
}

// ready gives the plan of a signature, claimed for the caller, where it is built.
func (s *Session) ready(key []byte) *plan {
	if p := (*s.plans.Load())[string(key)]; s.take(p) {
		return p
	}
	return nil
}

// take claims a plan for the caller, unless there is none or it is of no use any more.
func (s *Session) take(p *plan) bool {
	return p != nil && !p.dropped.Load() && !s.worker.stale(p.local) && p.local.claim()
}

// plan gives the plan of a signature and of what a debugger watches, building it at the first step that needs it, and claims
// it for the caller. Failures are not kept.
func (s *Session) plan(ctx context.Context, sig graph.Signature, watches []byte) (*plan, error) {
	key := append(appendSignature(nil, sig), watches...)
	for {
		if p := s.ready(key); p != nil {
			return p, nil
		}
		m := &change{message: &wire.BuildPlan{Feeds: sig.Feeds, Fetches: sig.Fetches, Targets: sig.Targets, Watches: watches}}
		if err := s.apply(ctx, m); err != nil {
			return nil, err
		}
	}
}

// maxPlans bounds the plans of a session; the one that was used the longest ago makes room.
const maxPlans = 512

// publishPlans replaces the published plans by changed ones; in the actor. Plans that are not published
// any more lose the table's claim.
func (s *Session) publishPlans(change func(map[string]*plan)) {
	old := *s.plans.Load()
	m := maps.Clone(old)
	change(m)
	for len(m) > maxPlans {
		var oldest string
		for k, p := range m {
			if o := m[oldest]; o == nil || p.used.Load() < o.used.Load() {
				oldest = k
			}
		}
		delete(m, oldest)
	}
	s.plans.Store(&m)
	gone := false
	for k, p := range old {
		if m[k] != p {
			p.dropped.Store(true)
			p.local.release()
			gone = true
		}
	}
	if gone {
		s.forgetDropped()
	}
}

// forgetDropped has callables let go of plans that were dropped, which they would keep in memory until they run again.
func (s *Session) forgetDropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.callables {
		if p := c.plan.Load(); p != nil && p.dropped.Load() {
			c.plan.CompareAndSwap(p, nil)
		}
	}
}

// forgetPlans drops the plans that have a part on a task, whose process is another one now.
func (s *Session) forgetPlans(ctx context.Context, task string) error {
	return s.apply(ctx, &change{message: &wire.ForgetPlans{Task: task}})
}
