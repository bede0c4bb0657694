package actors

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// create sets the session's first graph.
func (s *Session) create(ctx context.Context, def *graphpb.GraphDef) error {
	return s.apply(ctx, &change{message: &wire.Create{}, def: def})
}

// Extend adds nodes to the graph of version from and returns the new version. If a client that did not get the answer repeats the last
// extension, it gets the same answer.
func (s *Session) Extend(ctx context.Context, def *graphpb.GraphDef, from int64) (int64, error) {
	if s.closed.Load() {
		return 0, errClosed()
	}
	s.touch()
	call := s.callOf(ctx, nil, nil)
	ctx, cancel := call.bound(func() {})
	defer cancel()
	m := &change{message: &wire.Extend{Version: from}, def: def}
	if err := s.apply(ctx, m); err != nil {
		return 0, err
	}
	return m.version, nil
}

// work does the work of a change, outside the actor, which holds back other changes meanwhile.
func (s *Session) work(ctx context.Context, m *change) (err error) {
	switch msg := m.message.(type) {
	case *wire.Create:
		err = s.growing(ctx, m.def, func(check func() error) (err error) {
			if m.graph, err = graph.BuildChecked(m.def, check); err != nil {
				return err
			}
			return s.place(ctx, m, 0, check)
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
		err = s.growing(ctx, m.def, func(check func() error) (err error) {
			if m.graph, err = old.ExtendChecked(m.def, check); err != nil {
				return err
			}
			return s.place(ctx, m, len(old.Nodes), check)
		})
	case *wire.MoveHomes:
		err = s.worker.inTurn(ctx, len(s.graph.Load().Nodes), func(check func() error) error { return s.placeMoved(ctx, m, check) })
	case *wire.BuildPlan:
		sig := graph.Signature{Feeds: msg.Feeds, Fetches: msg.Fetches, Targets: msg.Targets}
		m.other = string(append(signatureKey(sig), msg.Watches...))
		sig, m.order = sorted(sig)
		m.key = string(append(signatureKey(sig), msg.Watches...))
		if have := (*s.plans.Load())[m.key]; have.plan != nil && !s.worker.stale(have.local) {
			return nil // another caller was first
		}
		m.plan, err = s.buildPlan(ctx, s.graph.Load(), sig, msg.Watches)
	case *wire.BuildInstance:
		m.key = string(msg.Key)
		if have := (*s.plans.Load())[m.key]; have.plan != nil && !have.dropped.Load() && !s.worker.stale(have.local) {
			return nil // another caller was first
		}
		if m.main != nil {
			m.plan, err = s.eager.buildMain(ctx, m.def, msg.Node, m.main)
		} else {
			m.plan, err = s.buildInstance(ctx, m.def, msg.Node)
		}
	}
	return err
}

// graphNode is about what a node of a session's graph takes beside its message, in bytes.
const graphNode = 512

// growing does the work on nodes that the session's graph gets. They count as memory of the session from then on, unless the work fails.
func (s *Session) growing(ctx context.Context, def *graphpb.GraphDef, work func(check func() error) error) error {
	bytes := int64(proto.Size(def)) + int64(size(def))*graphNode
	if err := s.worker.hold(bytes); err != nil {
		return err
	}
	err := s.worker.inTurn(ctx, size(def), work)
	if err != nil {
		s.worker.drop(bytes)
	}
	return err
}

// size returns about how many nodes' work a graph takes to build.
func size(def *graphpb.GraphDef) int { return len(def.GetNode()) + len(def.GetLibrary().GetFunction()) }

// publish makes a change whose work is done visible to steps. It runs in the actor.
func (s *Session) publish(m *change) {
	switch msg := m.message.(type) {
	case *wire.Create, *wire.Extend, *wire.MoveHomes:
		if m.graph == nil {
			return
		}
		s.graph.Store(m.graph)
		s.version = m.version
		if m.homes != nil {
			s.homes.Store(m.homes)
			s.followed.Store(0)
		}
		if len(m.left) > 0 {
			s.publishPlans(func(all plans) {
				maps.DeleteFunc(all, func(_ string, e entry) bool {
					return slices.ContainsFunc(e.others, func(task string) bool { return m.left[task] })
				})
			})
		}
	case *wire.BuildPlan, *wire.BuildInstance:
		if m.plan == nil && m.order == nil {
			return
		}
		s.publishPlans(func(all plans) {
			if m.plan != nil {
				all[m.key] = entry{m.plan, nil}
			}
			if have, ok := all[m.key]; ok && m.order != nil {
				all[m.other] = entry{have.plan, m.order}
			}
		})
	case *wire.DropInstances:
		s.publishPlans(func(all plans) {
			maps.DeleteFunc(all, func(_ string, e entry) bool { return msg.Function == "" || e.calls(msg.Function) })
		})
	case *wire.ForgetPlans:
		s.publishPlans(func(all plans) {
			maps.DeleteFunc(all, func(_ string, e entry) bool { return e.remote[msg.Task] != nil })
		})
	}
}

// place replaces calls of functions that need it by the functions' nodes in the graph of a change, and assigns devices to the new nodes, those
// from number from on. The change then has the graph with all of them, and the homes of its resources.
//
// If the new nodes do not fit the placement of old ones (a new node with a device is colocated with an old node that requested none and is
// on another), all nodes are placed anew except those with state, which stay where it is. TensorFlow does that at each extension. Plans
// made before keep the nodes that they were made of.
func (s *Session) place(ctx context.Context, m *change, from int, check func() error) error {
	g, err := lower.Functions(m.graph, from, lower.Options{Devices: s.devices.Load().Devices(), Supports: supports, KeepConditionals: s.options.branches, Check: check})
	if err != nil {
		return err
	}
	if err := s.missingDevices(g.Nodes[from:]); err != nil {
		return err
	}
	programs := lower.NewPrograms(g.Library, kernels.CallsProgram, check)
	if err := s.learnPrograms(g.Nodes[from:], programs); err != nil {
		return err
	}
	p := s.placing(ctx, programs, check)
	if err := place.Place(g, g.Nodes[from:], p.options); err != nil {
		if from == 0 {
			return err
		}
		anew, failed := p.again(g, func(n *graph.Node) bool { return n.ID < from && (n.Def == nil || n.Def.IsStateful) })
		if failed != nil {
			return err
		}
		g = anew
	}
	m.graph = g
	if len(p.homes) > 0 {
		all := homes{}
		if have := s.homes.Load(); have != nil {
			maps.Copy(all, *have)
		}
		maps.Copy(all, p.homes)
		m.homes = &all
	}
	return nil
}

// placing is a placement of nodes of a session's graph.
type placing struct {
	session *Session
	options place.Options
	homes   homes // of the resources that were looked up
}

func (s *Session) placing(ctx context.Context, programs *lower.Programs, check func() error) *placing {
	p := &placing{session: s, homes: homes{}, options: place.Options{
		CallsProgram:  programs.Calls,
		Prepared:      s.devices.Load(),
		SoftPlacement: s.options.soft,
		Supports:      supports,
		Colocations:   &s.colocations,
		Check:         check,
		Warn:          s.warnOfPlacement,
	}}
	if !s.options.isolated && !s.options.own {
		p.options.Stable, p.options.Filtered = s.task.stable(), len(s.options.filters) > 0
		p.options.Home = func(r []place.Resource) ([]string, error) { return p.look(ctx, r) }
	}
	if s.options.log {
		p.options.Log = func(n *graph.Node) { s.task.Log.Info(fmt.Sprintf("%s: (%s): %s", n.Name, n.Op, n.Assigned)) }
	}
	return p
}

// look returns the homes of resources, and remembers those that the session can use.
func (p *placing) look(ctx context.Context, resources []place.Resource) ([]string, error) {
	found, err := p.session.lookHomes(ctx, resources)
	if err != nil {
		return nil, err
	}
	for i, r := range resources {
		if p.options.Prepared.Has(found[i]) {
			p.homes[resourceName{r.Container, r.Kind, r.Name}] = found[i]
		}
	}
	return found, nil
}

// known returns the homes of resources that the session has looked up before.
func (p *placing) known(resources []place.Resource) ([]string, error) {
	found := make([]string, len(resources))
	for i, r := range resources {
		found[i] = cmp.Or(p.homes[resourceName{r.Container, r.Kind, r.Name}], r.Default)
	}
	return found, nil
}

// again places all nodes of a copy of a graph anew, except for those that stay where they are.
func (p *placing) again(g *graph.Graph, stays func(n *graph.Node) bool) (*graph.Graph, error) {
	anew := g.Copy()
	for i, n := range g.Nodes {
		if stays(n) {
			anew.Nodes[i].Requested = n.Assigned
		}
	}
	o := p.options
	o.Colocations = &place.Colocations{}
	err := place.Place(anew, anew.Nodes, o)
	for i, n := range g.Nodes {
		anew.Nodes[i].Requested = n.Requested // what the client wants may matter again
	}
	if err != nil {
		return nil, err
	}
	p.session.colocations = *o.Colocations
	return anew, nil
}

// lookHomes returns the devices of resources that request none. It claims nothing in a container that the session may not use: its steps are
// refused there, and other sessions decide where such names live.
func (s *Session) lookHomes(ctx context.Context, resources []place.Resource) ([]string, error) {
	homes := make([]string, len(resources))
	var asked []place.Resource
	var at []int
	for i, r := range resources {
		homes[i] = r.Default
		device, err := place.Parse(r.Default)
		if err != nil {
			return nil, err
		}
		if s.rights.scope().Container(r.Container, device.Job) == nil { // a default container has the name of its task's job
			asked, at = append(asked, r), append(at, i)
		}
	}
	found, err := s.task.homesOf(ctx, s.rights.Client, asked)
	for i, home := range found {
		homes[at[i]] = home
	}
	return homes, err
}

// supports reports whether a node can run on a type of device. The library's functions run on CPUs.
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

// ready returns the plan of a signature, claimed for the caller, and the order of the signature's names. The plan is nil if it is not
// built, or if this order of its names is new.
func (s *Session) ready(key []byte) (*plan, *order) {
	if e := (*s.plans.Load())[string(key)]; s.claim(e.plan) {
		return e.plan, e.order
	}
	return nil, nil
}

// claim claims a plan for the caller. It reports false if p is nil or is no longer of use.
func (s *Session) claim(p *plan) bool {
	return p != nil && !p.dropped.Load() && !s.worker.stale(p.local) && p.local.claim()
}

// plan returns the plan of a signature and of what a debugger watches, claimed for the caller, and the order of the signature's names. The
// first step that needs the plan builds it. Failures are not kept.
func (s *Session) plan(ctx context.Context, sig graph.Signature, watches []byte) (*plan, *order, error) {
	key := append(signatureKey(sig), watches...)
	for {
		if p, o := s.ready(key); p != nil {
			return p, o, nil
		}
		m := &change{message: &wire.BuildPlan{Feeds: sig.Feeds, Fetches: sig.Fetches, Targets: sig.Targets, Watches: watches}}
		if err := s.apply(ctx, m); err != nil {
			return nil, nil, err
		}
	}
}

// maxPlans bounds the plans of a session; the least recently used one makes room.
const maxPlans = 512

// publishPlans replaces the published plans by changed ones. It runs in the actor. Plans that are no longer published lose the table's
// claim.
func (s *Session) publishPlans(change func(plans)) {
	old := *s.plans.Load()
	m := maps.Clone(old)
	change(m)
	m.trim()
	s.plans.Store(&m)
	gone := false
	for k, e := range old {
		if e.order == nil && m[k].plan != e.plan {
			e.dropped.Store(true)
			e.local.release()
			gone = true
		}
	}
	if gone {
		s.forgetDropped()
	}
}

// forgetDropped makes callables release dropped plans, which they would keep in memory until their next run.
func (s *Session) forgetDropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.callables {
		if p := c.plan.Load(); p != nil && p.dropped.Load() {
			c.plan.CompareAndSwap(p, nil)
		}
	}
}

// forgetPlans drops the plans that have a part on a task whose process was replaced.
func (s *Session) forgetPlans(ctx context.Context, task string) error {
	return s.apply(ctx, &change{message: &wire.ForgetPlans{Task: task}})
}
