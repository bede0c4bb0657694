package op

import (
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// While runs body as long as cond returns true, and returns the final values. cond and body get their own scope and the loop's variables,
// whose initial values are inputs; body returns the next values. Both may use variables and tensors of the surrounding graph. Loops may be
// nested.
//
//	sum := op.While(s, []op.Output{i, total},
//		func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], n) },
//		func(s *op.Scope, v []op.Output) []op.Output {
//			return []op.Output{op.AddV2(s, v[0], one), op.AddV2(s, v[1], v[0])}
//		})[1]
//
// A value keeps its type and its shape. If the shape changes from one iteration to the next, set the part that stays the same with
// attr.OutputShapes, one shape for each input. If less is known about a shape after an iteration than before, body is called again with a
// value of the less known shape. attr.ParallelIterations limits the iterations that may run at the same time if they do not wait for each
// other (default 10).
func While(s *Scope, inputs []Output, cond func(s *Scope, v []Output) Output, body func(s *Scope, v []Output) []Output, attrs ...attr.Attr) []Output {
	none := make([]Output, len(inputs))
	params := ParamsOf(inputs...)
	if err := invariants(params, attrs); err != nil {
		s.fail(err)
	}
	s = s.named("while")
	round := s.round(inputs, params, body)
	if round == nil {
		return none
	}
	condition := s.draw(s.opName+"_cond", params, func(s *Scope, v []Output) []Output { return []Output{cond(s, v)} })
	if condition == nil {
		return none
	}
	captures := union(condition, round)
	for _, c := range captures {
		round.results = append(round.results, round.body.take(c))
	}
	condition.finish(s, captures)
	round.finish(s, captures)
	op := "StatelessWhile"
	if condition.stateful || round.stateful {
		op = "While"
	}
	all := ParamsOf(slices.Concat(inputs, captures)...)
	copy(all, params)
	attrs = slices.DeleteFunc(slices.Clone(attrs), func(a attr.Attr) bool { return a.Name == "output_shapes" })
	n := s.after(condition, round).add(op, need{"cond": condition.Func(), "body": round.Func(), lowered: true,
		"output_shapes": each(all, func(p Param) shape.Shape { return p.Shape })}, attrs, List(slices.Concat(inputs, captures)))
	return n.yields(all)[:len(inputs)]
}

// round builds a loop's body, and stores in params what is known about its variables in all iterations.
func (s *Scope) round(inputs []Output, params []Param, body func(s *Scope, v []Output) []Output) *Function {
	for {
		library, functions := s.graph.library, maps.Clone(s.graph.functions)
		f := s.draw(s.opName+"_body", params, body)
		if f == nil {
			return nil
		}
		again, err := f.repeats(inputs, params)
		if err != nil {
			s.fail(err)
			return nil
		}
		if !again {
			return f
		}
		s.graph.library, s.graph.functions = library, functions
	}
}

// invariants replaces the shapes of a loop's variables with those given by attributes.
func invariants(params []Param, attrs []attr.Attr) error {
	for _, a := range attrs {
		shapes, ok := a.Value.([]shape.Shape)
		if a.Name != "output_shapes" || !ok {
			continue
		}
		if len(shapes) != len(params) {
			return status.InvalidArgumentf("A loop of %d variables gets %d shapes", len(params), len(shapes))
		}
		for i, known := range shapes {
			if !holds(known, params[i].Shape) {
				return status.InvalidArgumentf("Variable %d of a loop has the shape %v, which is not one of %v", i, params[i].Shape, known)
			}
			params[i].Shape = known
		}
	}
	return nil
}

// repeats reports whether the results of a loop's body can be its next arguments. It returns false without an error if less is known about
// them, and then stores that in params.
func (f *Function) repeats(inputs []Output, params []Param) (again bool, err error) {
	if len(f.results) != len(params) {
		return false, status.InvalidArgumentf("The loop's body gives %d values for its %d variables", len(f.results), len(params))
	}
	for i, r := range f.results {
		p := &params[i]
		if r.DType() != p.DType {
			return false, status.InvalidArgumentf("Variable %d of the loop, %s, is of type %v, but %v after an iteration", i, inputs[i].Name(), p.DType, r.DType())
		}
		if _, err := p.Shape.Merge(r.Shape()); err != nil {
			return false, status.InvalidArgumentf("Variable %d of the loop, %s, has the shape %v, but %v after an iteration: set what stays the same with attr.OutputShapes",
				i, inputs[i].Name(), p.Shape, r.Shape())
		}
		if !holds(p.Shape, r.Shape()) {
			p.Shape, again = common(p.Shape, r.Shape()), true
		}
	}
	return again, nil
}

// lowered is the attribute that makes TensorFlow, too, run a conditional or loop as part of the surrounding graph.
const lowered = "_lower_using_switch_merge"

// Cond returns the values of then if pred is true, otherwise those of otherwise. Only the operations of that branch run. pred is a scalar.
// Both branches must return the same number of values, of the same types, and may use tensors of the surrounding graph.
func Cond(s *Scope, pred Output, then, otherwise func(s *Scope) []Output, attrs ...attr.Attr) []Output {
	s = s.named("cond")
	return s.choose([]string{"StatelessIf", "If"}, pred, []string{"_true", "_false"}, []func(*Scope) []Output{then, otherwise},
		func(branches []*Function) need {
			return need{"then_branch": branches[0].Func(), "else_branch": branches[1].Func()}
		}, attrs)
}

// Case returns the values of the branch with the given index, or of the last branch if there is no such branch. Only the operations of
// that branch run. index is an int32 scalar. All branches must return the same number of values, of the same types.
func Case(s *Scope, index Output, branches []func(s *Scope) []Output, attrs ...attr.Attr) []Output {
	s = s.named("switch_case")
	if len(branches) == 0 {
		s.fail(status.New(status.InvalidArgument, "Case needs a branch"))
		return nil
	}
	return s.choose([]string{"StatelessCase", "Case"}, index, slices.Repeat([]string{"_branch"}, len(branches)), branches,
		func(branches []*Function) need { return need{"branches": each(branches, (*Function).Func)} }, attrs)
}

// choose adds an op that runs one of several functions. It uses the first of ops if none of the functions is stateful, otherwise the
// second.
func (s *Scope) choose(ops []string, by Output, suffixes []string, draw []func(*Scope) []Output, functions func([]*Function) need, attrs []attr.Attr) []Output {
	branches := make([]*Function, len(draw))
	op := ops[0]
	for i, d := range draw {
		b := s.draw(s.opName+suffixes[i], nil, func(s *Scope, _ []Output) []Output { return d(s) })
		if b == nil {
			return nil
		}
		branches[i] = b
		if b.stateful {
			op = ops[1]
		}
		if err := b.matches(branches[0], i); err != nil {
			s.fail(err)
			return nil
		}
	}
	captures := union(branches...)
	for _, b := range branches {
		b.finish(s, captures)
	}
	results := ParamsOf(branches[0].results...)
	for i := range results {
		for _, b := range branches[1:] {
			results[i].Shape = common(results[i].Shape, b.results[i].Shape())
		}
	}
	given := functions(branches)
	given["Tout"], given[lowered] = each(results, func(p Param) tensor.DType { return p.DType }), true
	given["output_shapes"] = each(results, func(p Param) shape.Shape { return p.Shape })
	return s.after(branches...).add(op, given, attrs, by, List(captures)).yields(results)
}

// matches checks that branch i returns values of the same number and types as the first one.
func (f *Function) matches(first *Function, i int) error {
	if len(f.results) != len(first.results) {
		return status.InvalidArgumentf("Branch %d gives %d values, branch 0 gives %d", i, len(f.results), len(first.results))
	}
	for k, r := range f.results {
		if want := first.results[k].DType(); r.DType() != want {
			return status.InvalidArgumentf("Value %d of branch %d is of type %v, that of branch 0 of type %v", k, i, r.DType(), want)
		}
	}
	return nil
}

// union returns the captures of all functions, without duplicates.
func union(functions ...*Function) []Output {
	var all []Output
	for _, f := range functions {
		for _, c := range f.body.body.outer {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// holds reports whether every tensor that matches t matches s.
func holds(s, t shape.Shape) bool {
	if !s.HasRank() {
		return true
	}
	if s.Rank() != t.Rank() {
		return false
	}
	for i := range s.Rank() {
		if s.Dim(i) >= 0 && s.Dim(i) != t.Dim(i) {
			return false
		}
	}
	return true
}

// common returns what is known about a tensor that has one of two shapes.
func common(s, t shape.Shape) shape.Shape {
	if !s.HasRank() || s.Rank() != t.Rank() {
		return shape.Unknown()
	}
	dims, _ := s.Dims()
	for i := range dims {
		if dims[i] != t.Dim(i) {
			dims[i] = -1
		}
	}
	return shape.Of(dims...)
}
