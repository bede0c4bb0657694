package devices

import (
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/kernels"
)

// began is when the process began. Times are kept relative to it, so taking one is a single cheap clock reading.
var began = time.Now()

// SinceStart returns the time since the process began, from a monotonic clock.
func SinceStart() time.Duration { return time.Since(began) }

// Wait describes a running, unfinished kernel of a step.
type Wait struct {
	Node *graph.Node
	// Device is where it runs.
	Device string
	// Function is the name of the function whose body has the node; empty for a node of the program itself.
	Function string
	// Since is when it began; zero if unknown.
	Since time.Time
	// Kind is the kind of what it waits for.
	Kind WaitKind
	// Awaited is what the kernel says that it waits for, if Kind is AwaitsResource.
	Awaited kernels.Awaited
}

// WaitKind is the kind of what a kernel waits for.
type WaitKind int8

const (
	// Computes is a kernel that is computing and waits for nothing.
	Computes WaitKind = iota
	// AwaitsInput is a receive whose tensor has not been sent or has not arrived.
	AwaitsInput
	// AwaitsRoom is a send of a large tensor that waits for room in the send queue.
	AwaitsRoom
	// AwaitsFeed is an argument that has not been fed.
	AwaitsFeed
	// AwaitsResource is an operation that says what it waits for.
	AwaitsResource
)

// Use is a node that has not run, and that may use a named resource when it does.
type Use struct {
	Node *graph.Node
	Verb string
	// Device has the container that holds the resource of this kind and name.
	Device, Container, Kind, Name string
	// Waits are the indexes of those Look.Waits that it comes after.
	Waits []int
}

// Outgoing is an edge to another device that has not been sent.
type Outgoing struct {
	Edge, To string
	Waits    []int
}

// Look is a snapshot of a run and of the functions within it.
type Look struct {
	Waits []Wait
	Uses  []Use
	Sends []Outgoing
}

// list adds the run to its step's list, once. Its owner calls it.
func (r *run) list() {
	if !r.listed && r.step.Runs != nil {
		r.listed = true
		r.step.Runs.Add(kernels.ListedRun{Run: r, Number: r.num})
	}
}

// stamp records since when the run waits for each of its calls. Its owner calls it with the lock held.
func (r *run) stamp() {
	now := SinceStart()
	for c := range r.waits {
		if c.since == 0 {
			c.since = now
		}
	}
}

// LookAt returns what the listed runs of a step on one task wait for, at most limit kernels. With detail, it also returns their remaining
// uses of resources and their remaining sends. It may be called at any time, by any goroutine.
func LookAt(runs *kernels.Runs, limit int, detail bool) Look {
	var l Look
	var found []*sight
	for _, listed := range runs.All() {
		if r, ok := listed.Run.(*run); ok {
			if s := r.look(listed.Number, &l, limit); s != nil {
				found = append(found, s)
			}
		}
	}
	if !detail || len(l.Waits) == 0 {
		return l
	}
	for _, s := range found {
		s.ahead(&l)
	}
	return l
}

// sight is a run that has been inspected.
type sight struct {
	program     *Program
	first, last int     // its own part of Look.Waits
	calls       []*node // calls of functions, which wait for what other runs of the step wait for
}

// look adds the run's kernels that have begun and not ended. It returns nil if the run with this number is over.
func (r *run) look(number uint64, l *Look, limit int) *sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	if number != r.num {
		return nil
	}
	s := &sight{program: r.p, first: len(l.Waits)}
	add := func(n *node, since time.Duration, kind WaitKind, on kernels.Awaited) {
		if len(l.Waits) < limit {
			w := Wait{Node: n.graph, Device: r.p.device.Name(), Function: r.p.function, Kind: kind, Awaited: on}
			if since > 0 {
				w.Since = began.Add(since)
			}
			l.Waits = append(l.Waits, w)
		}
	}
	for c := range r.waits {
		switch {
		case c.n.calls && c.on == (kernels.Awaited{}):
			s.calls = append(s.calls, c.n)
		case c.stall:
			add(c.n, c.since, AwaitsRoom, c.on)
		case c.n.recv:
			add(c.n, c.since, AwaitsInput, c.on)
		case c.n.kind == kindArg:
			add(c.n, c.since, AwaitsFeed, c.on)
		case c.n.async != nil:
			add(c.n, c.since, AwaitsResource, c.on)
		default:
			add(c.n, c.since, Computes, c.on)
		}
	}
	if at := r.at.Load(); r.owned && at != nil {
		add(at, time.Duration(r.atSince.Load()), Computes, kernels.Awaited{})
	}
	s.last = len(l.Waits)
	slices.SortFunc(l.Waits[s.first:], func(a, b Wait) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	return s
}

// ahead adds the uses and sends of nodes that come after the program's waiting kernels, or after calls of functions with waiting kernels.
func (s *sight) ahead(l *Look) {
	p := s.program
	after := map[*node][]int{} // by node, the waits that it comes after
	for i := range l.Waits {
		if s.first <= i && i < s.last {
			if n := p.nodeOf(l.Waits[i].Node); n != nil {
				p.reach(n, i, after)
			}
		} else if l.Waits[i].Function != "" {
			for _, n := range s.calls {
				p.reach(n, i, after)
			}
		}
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		waits := after[n]
		if len(waits) == 0 {
			continue
		}
		if n.send {
			edge, to := n.graph.Attrs["tensor_name"], n.graph.Attrs["recv_device"]
			l.Sends = append(l.Sends, Outgoing{string(edge.GetS()), string(to.GetS()), waits})
		}
		if u, ok := kernels.UseOf(n.graph.Op); ok {
			if kind, container, name, ok := p.resourceOf(n, u.Input); ok {
				l.Uses = append(l.Uses, Use{n.graph, u.Verb, p.device.Name(), container, kind, name, waits})
			}
		}
	}
}

// nodeOf returns the program's node for a graph node.
func (p *Program) nodeOf(g *graph.Node) *node {
	for i := range p.nodes {
		if p.nodes[i].graph == g {
			return &p.nodes[i]
		}
	}
	return nil
}

// reach records that the nodes behind n come after wait i.
func (p *Program) reach(n *node, i int, after map[*node][]int) {
	seen := map[*node]bool{n: true}
	for next := []*node{n}; len(next) > 0; {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		visit := func(to *node) {
			if !seen[to] {
				seen[to] = true
				if k := len(after[to]); k == 0 || after[to][k-1] != i {
					after[to] = append(after[to], i)
				}
				next = append(next, to)
			}
		}
		for _, e := range at.edges {
			visit(e.dst)
		}
		for _, c := range at.ctrl {
			visit(c)
		}
	}
}

// named is a kernel that returns the handle of a named resource, or uses one itself.
type named interface {
	ResourceName() (kind, container, name string)
}

// resourceOf returns the name of the resource whose handle is an input of a node, if the program makes the handle. For kernels.OwnName it
// returns the resource that the node itself names.
func (p *Program) resourceOf(n *node, input int) (kind, container, name string, ok bool) {
	if input == kernels.OwnName {
		k, ok := n.async.(named)
		if !ok {
			return "", "", "", false
		}
		kind, container, name = k.ResourceName()
		return kind, container, name, true
	}
	g := n.graph
	const passed = 8 // identities to look through
	for range passed {
		if input >= len(g.Inputs) {
			return "", "", "", false
		}
		g, input = g.Inputs[input].Node, 0
		if n := p.nodeOf(g); n != nil {
			if k, yes := n.sync.(named); yes {
				kind, container, name = k.ResourceName()
				return kind, container, name, true
			}
		}
		switch g.Op {
		case "Identity", "RefIdentity", "Enter", "RefEnter":
		default:
			return "", "", "", false
		}
	}
	return "", "", "", false
}
