package op

import (
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// one returns a body or branch that returns values from outside its scope.
func one(out ...Output) func(*Scope) []Output { return func(*Scope) []Output { return out } }

// TestMistakesInBodies: errors of loops, conditionals, functions and resources name the line of the program.
func TestMistakesInBodies(t *testing.T) {
	floats := []tensor.DType{tensor.Float32}
	always := func(s *Scope, v []Output) Output { return Const(s, true) }
	for want, build := range map[string]func(s *Scope, x Output){
		"gives 2 values for its 1 variables": func(s *Scope, x Output) {
			While(s, []Output{x}, always, func(s *Scope, v []Output) []Output { return []Output{v[0], v[0]} })
		},
		"is of type float, but int32 after an iteration": func(s *Scope, x Output) {
			While(s, []Output{x}, always, func(s *Scope, v []Output) []Output { return []Output{Const(s, int32(1))} })
		},
		"has the shape [2,3], but [2] after an iteration": func(s *Scope, x Output) {
			While(s, []Output{x}, always, func(s *Scope, v []Output) []Output { return []Output{Const(s, []float32{1, 2})} })
		},
		"has the shape [2,3], which is not one of [3,?]": func(s *Scope, x Output) {
			While(s, []Output{x}, always, func(s *Scope, v []Output) []Output { return v }, attr.OutputShapes([]shape.Shape{shape.Of(3, -1)}))
		},
		"Branch 1 gives 2 values, branch 0 gives 1": func(s *Scope, x Output) { Cond(s, Const(s, true), one(x), one(x, x)) },
		"Value 0 of branch 1 is of type int32, that of branch 0 of type float": func(s *Scope, x Output) {
			Cond(s, Const(s, true), one(x), one(Const(s, int32(1))))
		},
		"Case needs a branch": func(s *Scope, x Output) { Case(s, Const(s, int32(0)), nil) },
		"Result 0 of function f is no": func(s *Scope, x Output) {
			NewFunction(s, "f", nil, func(*Scope, []Output) []Output { return []Output{{}} })
		},
		"reference to a variable, which functions": func(s *Scope, x Output) {
			ref := VariableV2(s, shape.Of(2), tensor.Float32)
			NewFunction(s, "f", nil, func(s *Scope, _ []Output) []Output { return []Output{Identity(s, ref)} })
		},
		"Function f takes 1 arguments, not 2": func(s *Scope, x Output) {
			NewFunction(s, "f", ParamsOf(x), func(_ *Scope, v []Output) []Output { return v }).Call(s, x, x)
		},
		"Argument 0 of function f has the shape [2,3], not [2]": func(s *Scope, x Output) {
			NewFunction(s, "f", ParamsOf(x), func(_ *Scope, v []Output) []Output { return v }).Call(s, Const(s, []float32{1, 2}))
		},
		"function's body that this operation is not in": func(s *Scope, x Output) {
			var inside Output
			NewFunction(s, "f", ParamsOf(x), func(s *Scope, v []Output) []Output { inside = Neg(s, v[0]); return v })
			Neg(s, inside)
		},
		"cannot be made in the body": func(s *Scope, x Output) {
			Cond(s, Const(s, true), func(s *Scope) []Output { return []Output{NewVariable(s, x).Read(s)} }, one(x))
		},
		"Variable w is of type float, its new value": func(s *Scope, x Output) {
			NewVariable(s.WithName("w"), x).Assign(s, Const(s, int32(1)))
		},
		"Variable w has the shape [2,3], its new value": func(s *Scope, x Output) {
			NewVariable(s.WithName("w"), x).AssignAdd(s, Const(s, []float32{1}))
		},
		"Queue q has elements of 1 components, not 2":           func(s *Scope, x Output) { NewFIFOQueue(s.WithName("q"), floats).Enqueue(s, x, x) },
		"Component 0 of queue q:0 is of type float, and Const:": func(s *Scope, x Output) { NewFIFOQueue(s.WithName("q"), floats).Enqueue(s, Const(s, "text")) },
		"A ragged value is not a tensor":                        func(s *Scope, x Output) { Const(s, [][]int32{{1}, {2, 3}}) },
	} {
		s := NewScope()
		build(s, Placeholder(s.WithName("x"), tensor.Float32, attr.Shape(shape.Of(2, 3))))
		checkError(t, s, want, "control_test.go:")
	}
}

// TestShapesOfLoops: if less is known about a value after an iteration, less is known about it in all iterations.
func TestShapesOfLoops(t *testing.T) {
	s := NewScope()
	x := Placeholder(s, tensor.Float32, attr.Shape(shape.Of(2, 3)))
	unknown := Placeholder(s, tensor.Float32, attr.Shape(shape.Of(-1, 3)))
	var drawn int
	out := While(s, []Output{x}, func(s *Scope, v []Output) Output { return Const(s, true) }, func(s *Scope, v []Output) []Output {
		drawn++
		inner := NewFunction(s, "inner", ParamsOf(v...), func(_ *Scope, v []Output) []Output { return v })
		return []Output{Cond(s, Const(s, true), one(inner.Call(s, v[0])[0]), one(unknown))[0]}
	})
	def, err := s.GraphDef()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := graph.Build(def); err != nil {
		t.Fatal(err)
	}
	if got := out[0].Shape().String(); got != "[?,3]" || drawn != 2 {
		t.Errorf("shape %s after %d drawings", got, drawn)
	}
	if n := len(def.Library.Function); n != 5 {
		t.Errorf("%d functions are in the library: one of a drawing that was given up", n)
	}
	for _, f := range def.Library.Function {
		library, err := (&graph.Library{}).Merge(def.Library)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := library.Instantiate(f.Signature.Name, nil); err != nil {
			t.Errorf("%s: %v", f.Signature.Name, err)
		}
	}
}

// TestControlsOfBodies: a call waits for whatever an operation in its body waits for in the surrounding graph.
func TestControlsOfBodies(t *testing.T) {
	s := NewScope()
	x := Placeholder(s.WithName("x"), tensor.Float32)
	before := NoOp(s.WithName("before"))
	out := Cond(s, Const(s, true), func(s *Scope) []Output { return []Output{Neg(s.WithControlDependencies(before), x)} }, one(x))
	if c := out[0].Op.Controls(); len(c) != 1 || c[0] != before {
		t.Errorf("the conditional waits for %v", c)
	}
	if _, err := s.GraphDef(); err != nil {
		t.Error(err)
	}
}
