package actors

import (
	"github.com/troupe-run/troupe/internal/view"
)

// Limits of a page of a graph. A page may have one node more than pageBytes allows.
const (
	pageNodes    = 1 << 13
	pageBytes    = 1 << 20
	maxNodeName  = 1 << 10 // bytes; longer names are cut
	maxNodeEdges = 1 << 12 // inputs and controls of a node; further ones are counted
)

// Graph returns a page of the graph of a session whose master is the task. It takes no lock.
func (t *Task) Graph(q *view.GraphQuery) *view.Graph {
	for _, s := range t.sessionsOf.all() {
		if s.name() == q.GetSession() {
			return s.page(q.GetFirst(), q.GetLimit())
		}
	}
	return &view.Graph{Session: q.GetSession()}
}

// page returns the nodes from number first on, at most limit of them.
func (s *Session) page(first, limit int64) *view.Graph {
	out := &view.Graph{Known: true, Session: s.name(), Who: s.rights.Who, First: max(first, 0)}
	g := s.graph.Load()
	if g == nil {
		return out
	}
	out.Nodes = int64(len(g.Nodes))
	if out.First >= out.Nodes {
		return out
	}
	if limit <= 0 || limit > pageNodes {
		limit = pageNodes
	}
	ops, devices := interned{of: &out.Ops}, interned{of: &out.Devices}
	size := 0
	for _, n := range g.Nodes[out.First:min(out.First+limit, out.Nodes)] {
		if size > pageBytes {
			break
		}
		v := &view.GraphNode{Name: view.Clip(n.Name, maxNodeName), Op: ops.index(n.Op), Device: devices.index(n.Assigned)}
		for _, in := range n.Inputs[:min(len(n.Inputs), maxNodeEdges)] {
			v.Inputs = append(v.Inputs, uint32(in.Node.ID))
		}
		for _, before := range n.Controls[:min(len(n.Controls), maxNodeEdges-len(v.Inputs))] {
			v.Controls = append(v.Controls, uint32(before.ID))
		}
		edges := len(v.Inputs) + len(v.Controls)
		v.Omitted = int64(len(n.Inputs) + len(n.Controls) - edges)
		size += len(v.Name) + 4*edges + 16
		out.Page = append(out.Page, v)
	}
	return out
}

// interned numbers strings in the order of their first appearance.
type interned struct {
	of *[]string
	at map[string]uint32
}

func (i *interned) index(s string) uint32 {
	at, ok := i.at[s]
	if !ok {
		if i.at == nil {
			i.at = map[string]uint32{}
		}
		at = uint32(len(*i.of))
		i.at[s] = at
		*i.of = append(*i.of, s)
	}
	return at
}
