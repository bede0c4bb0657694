package lower

import (
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// frame is a loop under construction.
type frame struct {
	*site
	name     string
	parallel int64
	vars     []variable
	pivot    *graph.Node // a Merge that the condition's nodes wait for
	cond     *graph.Node // the LoopCond
}

// variable is one of a loop's variables. A constant one has only an Enter.
type variable struct {
	start    graph.Output
	constant bool
	enter    *graph.Node
	merge    *graph.Node
	choice   *graph.Node // its Switch
}

// while builds the frame of a While.
func (s *site) while(cond, body *graph.FunctionRef) error {
	fg, err := s.body(body)
	if err != nil {
		return err
	}
	if len(fg.Rets) != len(s.node.Inputs) {
		return status.InvalidArgumentf("While loop body returned %d arguments. Expected: %d", len(fg.Rets), len(s.node.Inputs))
	}
	f := s.newFrame()
	for i, in := range s.node.Inputs {
		// A variable that the body passes through is the same in every iteration.
		constant := i < len(fg.Args) && fg.Rets[i].Inputs[0].Node == fg.Args[i] && in.Node.OutTypes[in.Index] != tensor.Variant
		f.vars = append(f.vars, variable{start: in, constant: constant})
	}
	if err := f.open(); err != nil {
		return err
	}
	results, done, err := s.inline("/cond", cond, f.read(0, len(s.node.Inputs)), s.node.Requested, start{nodes: []*graph.Node{f.pivot}, all: true})
	if err != nil {
		return err
	}
	if len(results) != 1 {
		return status.InvalidArgumentf("Expected a single scalar which can be converted to a boolean, got %d tensors.", len(results))
	}
	if err := f.decide(results[0], done); err != nil {
		return err
	}
	taken, err := f.taken()
	if err != nil {
		return err
	}
	next, done, err := s.inline("/body", body, f.inside(0, len(s.node.Inputs)), s.node.Requested, start{nodes: []*graph.Node{taken}, all: true})
	if err != nil {
		return err
	}
	if err := f.close(next, taken, done); err != nil {
		return err
	}
	s.results = s.results[:len(s.node.Inputs)]
	return nil
}

// newFrame returns a frame with the loop attributes of the node.
func (s *site) newFrame() *frame {
	f := &frame{site: s, name: s.name(s.node.Name + "/frame"), parallel: 10}
	if v, ok := s.node.Attrs["parallel_iterations"]; ok {
		f.parallel = max(v.GetI(), 1)
	}
	return f
}

// open builds the entry of the loop. At least one variable must be passed from iteration to iteration.
func (f *frame) open() error {
	constants := 0
	for _, v := range f.vars {
		if v.constant {
			constants++
		}
	}
	if constants == len(f.vars) {
		anchor, err := f.anchor()
		if err != nil {
			return err
		}
		token, err := f.constant("token", intTensor(0), anchor...)
		if err != nil {
			return err
		}
		f.vars = append(f.vars, variable{start: token})
	}
	for i := range f.vars {
		v := &f.vars[i]
		device := f.node.Requested
		if isHandle(v.start.Node.OutTypes[v.start.Index]) {
			device = "" // It is placed where the resource is.
		}
		var err error
		if v.enter, err = f.add(fmt.Sprintf("enter_%d", i), "Enter", device, f.node.Controls, v.start); err != nil {
			return err
		}
		v.enter.Attrs["frame_name"], v.enter.Attrs["is_constant"] = stringAttr(f.name), boolAttr(v.constant)
		v.enter.Attrs["parallel_iterations"] = intAttr(f.parallel)
		if v.constant {
			continue
		}
		// The second input is later replaced with the value from the previous iteration.
		if v.merge, err = f.add(fmt.Sprintf("merge_%d", i), "Merge", device, nil, graph.Output{Node: v.enter}, graph.Output{Node: v.enter}); err != nil {
			return err
		}
		if f.pivot == nil {
			f.pivot = v.merge
		}
	}
	return nil
}

// read returns variables lo to hi as the condition sees them.
func (f *frame) read(lo, hi int) []graph.Output {
	out := make([]graph.Output, 0, hi-lo)
	for _, v := range f.vars[lo:hi] {
		n := v.merge
		if v.constant {
			n = v.enter
		}
		out = append(out, graph.Output{Node: n})
	}
	return out
}

// decide makes the condition end or continue the loop, once the condition's effects are done.
func (f *frame) decide(more graph.Output, done []*graph.Node) error {
	more, err := f.truth("cond/bool", more)
	if err != nil {
		return err
	}
	if f.cond, err = f.add("LoopCond", "LoopCond", f.node.Requested, done, more); err != nil {
		return err
	}
	for i := range f.vars {
		v := &f.vars[i]
		if v.constant {
			continue
		}
		if v.choice, err = f.add(fmt.Sprintf("switch_%d", i), "Switch", v.merge.Requested, nil, graph.Output{Node: v.merge}, graph.Output{Node: f.cond}); err != nil {
			return err
		}
	}
	return nil
}

// taken adds the node that runs in iterations that run the body.
func (f *frame) taken() (*graph.Node, error) {
	for _, v := range f.vars {
		if !v.constant {
			return f.add("body/taken", "Identity", f.node.Requested, nil, graph.Output{Node: v.choice, Index: 1})
		}
	}
	return nil, status.Internalf("A loop without variables")
}

// inside returns variables lo to hi as the body sees them.
func (f *frame) inside(lo, hi int) []graph.Output {
	out := make([]graph.Output, 0, hi-lo)
	for _, v := range f.vars[lo:hi] {
		if v.constant {
			out = append(out, graph.Output{Node: v.enter})
		} else {
			out = append(out, graph.Output{Node: v.choice, Index: 1})
		}
	}
	return out
}

// close passes next on to the next iteration, once the body's effects are done, and builds the exit.
func (f *frame) close(next []graph.Output, taken *graph.Node, done []*graph.Node) error {
	for i, v := range f.vars {
		f.results = append(f.results, v.start)
		if v.constant {
			continue
		}
		value := graph.Output{Node: v.choice, Index: 1}
		if i < len(next) {
			value = next[i]
		}
		if have, want := value.Node.OutTypes[value.Index].Base(), v.merge.OutTypes[0]; have != want {
			return status.InvalidArgumentf("The loop's variable %d is %v, but its body returns %v", i, want, have)
		}
		before := done
		if f.invariant(value.Node) { // it is alive in the last iteration, too, and would start another one
			before = append(slices.Clip(done), taken)
		}
		n, err := f.add(fmt.Sprintf("next_iteration_%d", i), "NextIteration", v.merge.Requested, before, value)
		if err != nil {
			return err
		}
		v.merge.Inputs[1] = graph.Output{Node: n}
		exit, err := f.add(fmt.Sprintf("exit_%d", i), "Exit", v.merge.Requested, nil, graph.Output{Node: v.choice})
		if err != nil {
			return err
		}
		if len(f.done) == 0 {
			f.done = []*graph.Node{exit}
		}
		f.results[len(f.results)-1] = graph.Output{Node: exit}
	}
	// Values that the loop passes through wait for its end. A step that needs only these still runs the loop, for its effects.
	for i, v := range f.vars {
		if !v.constant {
			continue
		}
		var err error
		if f.results[i], err = f.after(fmt.Sprintf("passed_%d", i), v.start, append(slices.Clone(f.done), f.node.Controls...)); err != nil {
			return err
		}
	}
	return nil
}

// invariant reports whether a node is the Enter of a constant variable.
func (f *frame) invariant(n *graph.Node) bool {
	return slices.ContainsFunc(f.vars, func(v variable) bool { return v.constant && v.enter == n })
}
