package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph"
)

// machine runs parts of a graph by the rules of dataflow with frames and dead tokens, one node at a time in random order. It is as simple
// as possible, since it is the reference for Split.
type machine struct {
	t     testing.TB
	rng   *rand.Rand
	parts []*part
	ready []execution
	// mail holds the tensors in flight, wanted the _Recvs that wait for one.
	mail   map[string]value
	wanted map[string]execution
	vars   map[string]*int64
	// ran is what each node of the user's graph yielded, by node and iteration.
	ran map[string]string
}

type part struct {
	g       *graph.Graph
	info    *FrameInfo
	readers [][]reader
	waiting map[execution]*arrived
	frames  map[string]*frameRun
}

// reader is the destination of an edge; input is -1 for a control edge.
type reader struct{ index, input, node int }

// execution is a node in an iteration. path identifies the frame: the names and iterations that lead to it.
type execution struct {
	part, node int
	path       string
	iter       int
}

type value struct {
	dead bool
	n    int64
	ref  *int64
}

// arrived is what an execution has received so far.
type arrived struct {
	inputs   []value
	got      []bool
	controls int
	dead     bool // a control input was dead
	started  bool
}

// frameRun is a running frame of a part.
type frameRun struct {
	parent    execution // its node does not matter
	depth     int
	iters     int
	constants map[int]value
	exits     map[int]bool // whether each Exit is dead; false once it was alive
}

func newMachine(t testing.TB, rng *rand.Rand, graphs ...*graph.Graph) *machine {
	m := &machine{t: t, rng: rng, mail: map[string]value{}, wanted: map[string]execution{}, vars: map[string]*int64{}, ran: map[string]string{}}
	for _, g := range graphs {
		info, err := Frames(g)
		if err != nil {
			t.Fatal(err)
		}
		p := &part{g: g, info: info, readers: make([][]reader, len(g.Nodes)), waiting: map[execution]*arrived{}, frames: map[string]*frameRun{"": {iters: 1}}}
		for id, n := range g.Nodes {
			for i, in := range n.Inputs {
				p.readers[in.Node.ID] = append(p.readers[in.Node.ID], reader{in.Index, i, id})
			}
			for _, c := range n.Controls {
				p.readers[c.ID] = append(p.readers[c.ID], reader{0, -1, id})
			}
			if len(n.Inputs) == 0 && len(n.Controls) == 0 {
				m.ready = append(m.ready, execution{part: len(m.parts), node: id})
			}
		}
		m.parts = append(m.parts, p)
	}
	return m
}

// run runs everything that can run, and fails if anything is left over.
func (m *machine) run() {
	for steps := 0; ; steps++ {
		if steps > 1_000_000 {
			m.t.Fatal("does not end")
		}
		if len(m.ready) == 0 && !m.endFrames() {
			break
		}
		if len(m.ready) == 0 {
			continue
		}
		i := m.rng.IntN(len(m.ready))
		e := m.ready[i]
		m.ready[i] = m.ready[len(m.ready)-1]
		m.ready = m.ready[:len(m.ready)-1]
		m.fire(e)
	}
	for key := range m.mail {
		m.t.Errorf("nobody received %s", key)
	}
	for key := range m.wanted {
		m.t.Errorf("nobody sent %s", key)
	}
}

// endFrames forwards the dead Exits of the innermost frames that have any.
func (m *machine) endFrames() bool {
	deepest := 0
	for _, p := range m.parts {
		for _, f := range p.frames {
			if len(f.exits) > 0 {
				deepest = max(deepest, f.depth)
			}
		}
	}
	if deepest == 0 {
		return false
	}
	for i, p := range m.parts {
		for _, f := range p.frames {
			if f.depth != deepest {
				continue
			}
			for node, dead := range f.exits {
				if dead {
					m.deliver(execution{i, node, f.parent.path, f.parent.iter}, []value{{dead: true}}, true)
				}
			}
			f.exits = nil
		}
	}
	return true
}

func (m *machine) fire(e execution) {
	p := m.parts[e.part]
	n := p.g.Nodes[e.node]
	kind := p.info.Kinds[e.node]
	var in []value
	dead := false
	if w := p.waiting[e]; w != nil {
		in, dead = w.inputs, w.dead
		for i := range in {
			dead = dead || in[i].dead
			if in[i].ref != nil && !n.InTypes[i].IsRef() {
				in[i] = value{n: *in[i].ref}
			}
		}
	}
	at := fmt.Sprintf("%s#%d", e.path, e.iter)
	var out []value
	switch kind {
	case Merge:
		out = mergeOf(p.waiting[e])
		dead = out[0].dead
	case Send:
		m.mail[string(n.Attrs["tensor_name"].GetS())+at] = value{dead: dead, n: first0(in).n}
		m.receive(string(n.Attrs["tensor_name"].GetS()) + at)
		m.pass(e, Send, nil, dead) // control edges leave from it
		return
	case Recv:
		m.wanted[string(n.Attrs["tensor_name"].GetS())+at] = e
		m.receive(string(n.Attrs["tensor_name"].GetS()) + at)
		return
	case ControlTrigger:
		dead = false
	default:
		out = m.compute(n, kind, in, dead)
	}
	if n.Attrs[UserNode] == nil && !dead {
		s := ""
		for _, o := range out {
			s += fmt.Sprint(o.dead, o.n, " ")
		}
		if _, twice := m.ran[n.Name+at]; twice {
			m.t.Fatalf("%s ran twice in %s", n.Name, at)
		}
		m.ran[n.Name+at] = s
	}
	m.pass(e, kind, out, dead)
}

// first0 returns the first of the values, or the zero value.
func first0(vs []value) value {
	if len(vs) == 0 {
		return value{}
	}
	return vs[0]
}

func mergeOf(w *arrived) []value {
	for i, v := range w.inputs {
		if w.got[i] && !v.dead {
			return []value{v, {n: int64(i)}}
		}
	}
	return []value{{dead: true}, {dead: true}}
}

const modulus = 1009

func (m *machine) compute(n *graph.Node, kind Kind, in []value, dead bool) []value {
	if dead {
		return slices.Repeat([]value{{dead: true}}, len(n.OutTypes))
	}
	b := func(is bool) []value {
		if is {
			return []value{{n: 1}}
		}
		return []value{{}}
	}
	switch kind {
	case Switch:
		out := []value{in[0], in[0]}
		out[1-in[1].n] = value{dead: true}
		return out
	case Enter, Exit, NextIteration, LoopCond:
		return in[:1]
	}
	switch n.Op {
	case "Const":
		return []value{{n: n.Attrs["n"].GetI()}}
	case "Identity", "Cast": // Split's casts must not change where values go
		return in[:1]
	case "AddN":
		sum := int64(0)
		for _, v := range in {
			sum += v.n
		}
		return []value{{n: sum % modulus}}
	case "Mul":
		return []value{{n: (in[0].n*in[1].n + 1) % modulus}}
	case "Less":
		return b(in[0].n%5 < in[1].n%5)
	case "Unpack":
		return []value{{n: in[0].n % 3}, {n: in[0].n % 7}}
	case "NoOp":
		return nil
	case "VariableV2":
		if m.vars[n.Name] == nil {
			m.vars[n.Name] = new(int64)
		}
		return []value{{ref: m.vars[n.Name]}}
	case "AssignAdd":
		*in[0].ref = (*in[0].ref*3 + in[1].n) % modulus
		return in[:1]
	}
	m.t.Fatalf("no op %s", n.Op)
	return nil
}

// receive delivers a tensor to the _Recv that waits for it, if both exist.
func (m *machine) receive(key string) {
	v, sent := m.mail[key]
	e, wanted := m.wanted[key]
	if !sent || !wanted {
		return
	}
	delete(m.mail, key)
	delete(m.wanted, key)
	dead := v.dead
	if w := m.parts[e.part].waiting[e]; w != nil && w.dead {
		dead = true
	}
	m.pass(e, Recv, []value{{dead: dead, n: v.n}}, dead)
}

// pass sends the outputs of an execution to the frame and iteration that they belong to.
func (m *machine) pass(e execution, kind Kind, out []value, dead bool) {
	p := m.parts[e.part]
	f := p.frames[e.path]
	switch kind {
	case Enter:
		name := p.info.Frames[p.info.Of[e.node]].Name
		path := fmt.Sprintf("%s#%d/%s", e.path, e.iter, name)
		child := p.frames[path]
		if child == nil {
			child = &frameRun{parent: e, depth: f.depth + 1, iters: 1, constants: map[int]value{}}
			p.frames[path] = child
		}
		e.path, e.iter = path, 0
		if constantEnter(p.g.Nodes[e.node]) {
			child.constants[e.node] = out[0]
			for e.iter = range child.iters {
				m.deliver(e, out, dead)
			}
			return
		}
	case Exit:
		if f.exits == nil {
			f.exits = map[int]bool{}
		}
		if f.exits[e.node] = dead; dead {
			return
		}
		e.path, e.iter = f.parent.path, f.parent.iter
	case NextIteration:
		if dead {
			return
		}
		e.iter++
		if e.iter == f.iters {
			f.iters++
			for node, v := range f.constants {
				m.deliver(execution{e.part, node, e.path, e.iter}, []value{v}, v.dead)
			}
		}
	}
	m.deliver(e, out, dead)
}

// deliver sends the outputs of a node to its readers, in the iteration of e.
func (m *machine) deliver(e execution, out []value, dead bool) {
	p := m.parts[e.part]
	for _, r := range p.readers[e.node] {
		n := p.g.Nodes[r.node]
		to := execution{e.part, r.node, e.path, e.iter}
		w := p.waiting[to]
		if w == nil {
			w = &arrived{inputs: make([]value, len(n.Inputs)), got: make([]bool, len(n.Inputs))}
			p.waiting[to] = w
		}
		v := value{dead: true}
		if r.input < 0 {
			w.controls++
			w.dead = w.dead || dead
		} else {
			if !dead {
				v = out[r.index]
			}
			w.inputs[r.input], w.got[r.input] = v, true
		}
		fromEnter := r.input >= 0 && p.info.Kinds[e.node] == Enter
		if !w.started && w.complete(n, p.info.Kinds[r.node], v.dead && fromEnter) {
			w.started = true
			m.ready = append(m.ready, to)
		}
	}
}

// complete reports whether a node has what it needs. A dead Enter starts a Merge at once, because a loop in a branch that is not taken has
// no NextIteration.
func (w *arrived) complete(n *graph.Node, kind Kind, deadEnter bool) bool {
	if w.controls < len(n.Controls) {
		return false
	}
	got, live := 0, false
	for i, is := range w.got {
		if is {
			got++
			live = live || !w.inputs[i].dead
		}
	}
	return got == len(n.Inputs) || kind == Merge && (live || deadEnter)
}
