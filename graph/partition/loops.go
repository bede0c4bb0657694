package partition

import (
	"cmp"
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// loopKey is a device that participates in a frame.
type loopKey struct{ frame, dev int32 }

// loop is the small loop that counts the iterations of a frame on a device.
type loop struct{ enter, merge, next *graph.Node }

// duplicateEdges gives every device that reads an Enter or a NextIteration its own copy, so that the value crosses before it. A loop
// invariant thus crosses once instead of in each iteration.
func (s *splitter) duplicateEdges() {
	copies := map[arrival]*graph.Node{}
	onDevice := func(from *graph.Node, dev int32) *graph.Node {
		p := s.places[from.ID]
		if p.dev == dev || p.kind != Enter && p.kind != NextIteration || !s.runs(from, p.dev, dev) {
			return from
		}
		if in := from.Inputs[0]; in.Node.OutTypes[in.Index].IsRef() {
			return from // a variable is read once, not once for each device
		}
		k := arrival{from: from.ID, dev: dev}
		if copies[k] == nil {
			c := *from
			c.Name = s.namer.name(from, "copy")
			c.Attrs = maps.Clone(from.Attrs)
			c.Inputs = slices.Clone(from.Inputs)
			c.Controls = slices.Clone(from.Controls)
			p.dev = dev
			copies[k] = s.add(from, c, p)
		}
		return copies[k]
	}
	// The copies are visited, too: an Enter may enter what another Enter yields.
	for id := 0; id < len(s.nodes); id++ {
		node, dev := s.nodes[id], s.places[id].dev
		for i, in := range node.Inputs {
			node.Inputs[i].Node = onDevice(in.Node, dev)
		}
		for i, from := range node.Controls {
			node.Controls[i] = onDevice(from, dev)
		}
	}
}

// addLoops adds the small loops to all devices that need one.
func (s *splitter) addLoops() error {
	need := s.loopsNeeded()
	s.loops = make(map[loopKey]*loop, len(need))
	starts := map[int32]*graph.Node{}
	keys := slices.SortedFunc(maps.Keys(need), func(a, b loopKey) int {
		return cmp.Or(cmp.Compare(a.frame, b.frame), cmp.Compare(a.dev, b.dev))
	})
	// A frame comes after its parent, so the outer loop exists when the inner one needs it.
	for _, k := range keys {
		if err := s.addLoop(k, starts); err != nil {
			return err
		}
	}
	return nil
}

// loopsNeeded returns the devices that receive something inside a loop and those that run part of a loop without its LoopCond, in each
// case also for the enclosing loops.
func (s *splitter) loopsNeeded() map[loopKey]bool {
	need := map[loopKey]bool{}
	want := func(frame, dev int32) {
		for k := (loopKey{frame, dev}); k.frame != 0 && !need[k]; k.frame = s.info.Frames[k.frame].Parent {
			need[k] = true
		}
	}
	leaders := make([]int32, len(s.info.Frames))
	shared := make([]bool, len(s.info.Frames))
	for f, frame := range s.info.Frames {
		leaders[f] = -1
		if frame.LoopCond != nil {
			leaders[f] = s.places[frame.LoopCond.ID].dev
		}
	}
	seen := slices.Repeat([]int32{-1}, len(leaders))
	for id := range s.nodes {
		f, dev := s.places[id].frame(), s.places[id].dev
		shared[f] = shared[f] || seen[f] >= 0 && seen[f] != dev
		seen[f] = dev
	}
	for id, node := range s.nodes {
		to := s.places[id]
		if f := to.frame(); shared[f] && to.dev != leaders[f] {
			want(f, to.dev)
		}
		for _, in := range node.Inputs {
			if from := s.places[in.Node.ID]; from.dev != to.dev {
				want(to.in, to.dev)
				if in.Node.OutTypes[in.Index].IsRef() && len(node.Inputs)+len(node.Controls) > 1 {
					want(to.in, from.dev) // the variable's device receives a signal when to read
				}
			}
		}
		for _, from := range node.Controls {
			if s.places[from.ID].dev != to.dev {
				want(to.in, to.dev)
			}
		}
	}
	return need
}

// frame returns the loop that a node belongs to: for an Enter, the one that it leads into; for an Exit, the one that it leads out of.
func (p placed) frame() int32 {
	if p.kind == Enter {
		return p.out
	}
	return p.in
}

// addLoop adds the small loop of a frame to a device. starts holds the Consts that feed the outermost ones, by device.
func (s *splitter) addLoop(k loopKey, starts map[int32]*graph.Node) error {
	frame := &s.info.Frames[k.frame]
	if frame.LoopCond == nil {
		return status.InvalidArgumentf("A cross-device loop must have a pivot predicate: %s", frame.Name)
	}
	cond := s.nodes[frame.LoopCond.ID]
	if s.irregular[k.frame] || s.places[cond.ID].phase != always {
		return status.InvalidArgumentf("The LoopCond {{node %s}} does not run in every iteration of loop \"%s\", so that another device cannot take part in it", cond.Name, frame.Name)
	}
	start, err := s.starter(cond, frame.Parent, k.dev, s.entered[k.frame])
	if err != nil {
		return err
	}
	if start == nil {
		if starts[k.dev] == nil {
			starts[k.dev] = s.emptyConst(cond, "start", placed{dev: k.dev, phase: always})
		}
		start = starts[k.dev]
	}
	inside := placed{dev: k.dev, in: k.frame, out: k.frame, phase: always}
	node := func(op, what string, attrs graph.Attrs, kind Kind, from *graph.Node) *graph.Node {
		attrs["T"] = tokenType
		p := inside
		p.kind = kind
		return s.add(cond, graph.Node{
			Name: s.namer.name(cond, what), Op: op, Attrs: attrs, Inputs: []graph.Output{{Node: from}},
			InTypes: []tensor.DType{token}, OutTypes: []tensor.DType{token},
		}, p)
	}
	enter := node("Enter", "enter", graph.Attrs{
		"frame_name": stringAttr(frame.Name), "is_constant": no, "parallel_iterations": intAttr(int64(frame.ParallelIterations)),
	}, Enter, start)
	s.places[enter.ID].in, s.places[enter.ID].phase = frame.Parent, first
	merge := node("Merge", "merge", graph.Attrs{"N": intAttr(2)}, Merge, enter)
	sw := node("Switch", "switch", graph.Attrs{}, Switch, merge)
	next := node("NextIteration", "next", graph.Attrs{}, NextIteration, sw)
	s.places[next.ID].phase = later

	merge.Inputs, merge.InTypes = append(merge.Inputs, graph.Output{Node: next}), append(merge.InTypes, token)
	merge.OutTypes = append(merge.OutTypes, tensor.Int32)
	sw.Inputs, sw.InTypes = append(sw.Inputs, graph.Output{Node: cond}), append(sw.InTypes, tensor.Bool)
	sw.OutTypes = append(sw.OutTypes, token)
	next.Inputs[0].Index = 1
	s.loops[k] = &loop{enter, merge, next}
	return nil
}
