package lower

import (
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// call inlines a function in place of a node that calls it.
func (s *site) call(ref *graph.FunctionRef, args []graph.Output, device string) error {
	begin, err := s.begin(args)
	if err != nil {
		return err
	}
	results, done, err := s.inline("", ref, args, device, begin)
	if err != nil {
		return err
	}
	s.done = append(slices.Clone(done), begin.nodes...)
	if begin.all {
		passed := make(map[graph.Output]bool, len(args))
		for _, a := range args {
			passed[a] = true
		}
		for i, r := range results {
			if passed[r] {
				if results[i], err = s.after(fmt.Sprintf("passed_%d", i), r, begin.nodes); err != nil {
					return err
				}
			}
		}
	}
	s.results, err = s.strict(results, done)
	return err
}

// after returns value, delayed until controls are done.
func (s *site) after(name string, value graph.Output, controls []*graph.Node) (graph.Output, error) {
	n, err := s.add(name, "Identity", value.Node.Requested, controls, value)
	return graph.Output{Node: n}, err
}

// begin adds a node that runs when everything that a call waits for is done. The call's sources and effects wait for it, and if the call
// has controls, everything in the call does. If an argument is dead, because it comes from a branch that is not taken, they do not run
// either; in a loop, they run once per iteration.
func (s *site) begin(args []graph.Output) (start, error) {
	controls := slices.Clone(s.node.Controls)
	for i, a := range args {
		arrived, err := s.add(fmt.Sprintf("arg_%d", i), "Identity", a.Node.Requested, nil, a)
		if err != nil {
			return start{}, err
		}
		controls = append(controls, arrived)
	}
	if len(controls) == 0 {
		return start{}, nil
	}
	n, err := s.add("start", "NoOp", s.node.Requested, controls)
	return start{nodes: []*graph.Node{n}, all: len(s.node.Controls) > 0}, err
}

// strict delays results until all effects are done.
func (s *site) strict(results []graph.Output, done []*graph.Node) ([]graph.Output, error) {
	if len(done) == 0 {
		return results, nil
	}
	out := make([]graph.Output, len(results))
	for i, r := range results {
		var err error
		if out[i], err = s.after(fmt.Sprintf("result_%d", i), r, done); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// conditional yields the results of one of several functions: the first one's if the condition is false or 0.
func (s *site) conditional(functions []*graph.FunctionRef) error {
	cond, args := s.node.Inputs[0], s.node.Inputs[1:]
	two := s.node.Op != "Case" && s.node.Op != "StatelessCase"
	if two {
		var err error
		if cond, err = s.truth("cond", cond); err != nil {
			return err
		}
	}
	return s.choose(len(functions), two, cond, args, func(i int, name string, args []graph.Output, begin start) ([]graph.Output, []*graph.Node, error) {
		return s.inline(name, functions[i], args, s.node.Requested, begin)
	})
}

// branch adds the nodes of a conditional's branch.
type branch func(i int, name string, args []graph.Output, begin start) (results []graph.Output, done []*graph.Node, err error)

// choose adds the nodes of a conditional with n branches.
func (s *site) choose(n int, two bool, cond graph.Output, args []graph.Output, body branch) error {
	pivot, err := s.route("switch_pred", two, n, cond, cond)
	if err != nil {
		return err
	}
	routed := []*graph.Node{}
	for i, a := range args {
		r, err := s.route(fmt.Sprintf("switch_%d", i), two, n, a, cond)
		if err != nil {
			return err
		}
		routed = append(routed, r)
	}
	var results [][]graph.Output
	var ends []graph.Output
	effects := false
	for i := range n {
		name := fmt.Sprintf("/branch%d", i)
		if two {
			name = []string{"/else", "/then"}[i]
		}
		taken, err := s.add(name[1:]+"/taken", "Identity", s.node.Requested, nil, graph.Output{Node: pivot, Index: i})
		if err != nil {
			return err
		}
		if err := s.spend(len(routed) + len(s.node.OutTypes)); err != nil {
			return err
		}
		inner := []graph.Output{}
		for _, r := range routed {
			inner = append(inner, graph.Output{Node: r, Index: i})
		}
		out, done, err := body(i, name, inner, start{nodes: []*graph.Node{taken}})
		if err != nil {
			return err
		}
		if len(out) != len(s.node.OutTypes) {
			return status.InvalidArgumentf("A branch has %d results, but %s has %d outputs", len(out), s.node.Op, len(s.node.OutTypes))
		}
		results = append(results, out)
		effects = effects || len(done) > 0
		end := taken
		if len(done) > 0 {
			if end, err = s.add(name[1:]+"/done", "Identity", s.node.Requested, done, graph.Output{Node: taken}); err != nil {
				return err
			}
		}
		ends = append(ends, graph.Output{Node: end})
	}
	merged := []graph.Output{}
	for k := range s.node.OutTypes {
		var in []graph.Output
		for i := range n {
			in = append(in, results[i][k])
		}
		m, err := s.add(fmt.Sprintf("merge_%d", k), "Merge", s.node.Requested, nil, in...)
		if err != nil {
			return err
		}
		merged = append(merged, graph.Output{Node: m})
	}
	s.results = merged
	if effects || len(merged) == 0 {
		executed, err := s.add("executed", "Merge", s.node.Requested, nil, ends...)
		if err != nil {
			return err
		}
		s.done = []*graph.Node{executed}
	}
	// A conditional that requests lowering runs only the effects that a step needs: its results need not wait for other effects.
	if effects && !asks(s.node) {
		s.results, err = s.strict(merged, s.done)
	}
	return err
}

// route adds the node that passes a value to the branch taken.
func (s *site) route(name string, two bool, n int, value, cond graph.Output) (*graph.Node, error) {
	device := value.Node.Requested
	if name == "switch_pred" {
		device = s.node.Requested
	}
	op := "Switch"
	if !two {
		op = "_SwitchN"
	}
	sw, err := s.add(name, op, device, s.node.Controls, value, cond)
	if err != nil || two {
		return sw, err
	}
	if err := s.spend(n); err != nil {
		return nil, err
	}
	sw.Attrs["num_outs"] = intAttr(int64(n))
	t := sw.OutTypes[0]
	sw.OutTypes = nil
	for range n {
		sw.OutTypes = append(sw.OutTypes, t)
	}
	return sw, nil
}
