package gradients

import (
	"github.com/troupe-run/troupe/graph/grad"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/tensor"
)

// flowCases are functions, conditionals and loops.
var flowCases = []gradCase{
	{name: "PartitionedCall", in: []input{in(2, 3), in(3)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		f := op.NewFunction(s, "f", op.ParamsOf(x[0]), func(s *op.Scope, args []op.Output) []op.Output {
			return []op.Output{op.Mul(s, op.Square(s, args[0]), x[1]), op.Sin(s, args[0])}
		})
		return f.Call(s, op.Tanh(s, x[0]))
	}},
	condCase(true), condCase(false), switchCase(0), switchCase(1), switchCase(7),
	{name: "While", in: []input{in(2), in(2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		one, limit := op.Const(s, int32(1)), op.Const(s, int32(4))
		return op.While(s, []op.Output{op.Const(s, int32(0)), x[0]},
			func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], limit) },
			func(s *op.Scope, v []op.Output) []op.Output {
				return []op.Output{op.AddV2(s, v[0], one), op.Tanh(s, op.Mul(s, v[1], x[1]))}
			})[1:]
	}},
	// The number of iterations depends on the values; one variable of the loop passes through unchanged, another is swapped.
	{name: "While", in: []input{number(1.3), in(2), in(2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		limit := op.Const(s, 40.0)
		return op.While(s, []op.Output{x[0], x[1], x[2], op.Square(s, x[0])},
			func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], limit) },
			func(s *op.Scope, v []op.Output) []op.Output {
				return []op.Output{op.AddV2(s, op.Mul(s, v[0], v[0]), v[3]), v[2], op.Mul(s, v[1], v[3]), v[3]}
			})
	}},
	// No iteration.
	{name: "While", in: []input{in(2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return op.While(s, []op.Output{x[0]}, func(s *op.Scope, v []op.Output) op.Output { return op.Const(s, false) },
			func(s *op.Scope, v []op.Output) []op.Output { return []op.Output{op.Exp(s, v[0])} })
	}},
	// Gradients of gradients.
	second("MatMul", func(s *op.Scope, x []op.Output) []op.Output {
		return []op.Output{op.Softmax(s, op.Tanh(s, op.MatMul(s, op.Reshape(s, x[0], vector(s, 1, 2)), op.Reshape(s, x[1], vector(s, 2, 1)))))}
	}),
	second("If", func(s *op.Scope, x []op.Output) []op.Output {
		return op.Cond(s, op.Identity(s, op.Const(s, true)), func(s *op.Scope) []op.Output { return []op.Output{op.Sin(s, op.Mul(s, x[0], x[1]))} },
			func(s *op.Scope) []op.Output { return []op.Output{x[0]} })
	}),
	second("While", func(s *op.Scope, x []op.Output) []op.Output {
		return op.While(s, []op.Output{op.Const(s, int32(0)), x[0]},
			func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], op.Const(s, int32(3))) },
			func(s *op.Scope, v []op.Output) []op.Output {
				return []op.Output{op.AddV2(s, v[0], op.Const(s, int32(1))), op.Sin(s, op.Mul(s, v[1], x[1]))}
			})[1:]
	}),
	nestedLoop(), recurrent(), loopOverVariable(),
	overVariable("If", func(s *op.Scope, v *op.Variable) []op.Output {
		read := func(which bool) op.Output {
			return op.Cond(s, op.Identity(s, op.Const(s, which)),
				func(s *op.Scope) []op.Output { return []op.Output{op.Square(s, v.Gather(s, vector(s, 0, 2, 2)))} },
				func(s *op.Scope) []op.Output { return []op.Output{op.Const(s, 1.0)} })[0]
		}
		return []op.Output{read(true), read(false)}
	}),
	overVariable("Case", func(s *op.Scope, v *op.Variable) []op.Output {
		return op.Case(s, op.Identity(s, op.Const(s, int32(1))), []func(s *op.Scope) []op.Output{
			func(s *op.Scope) []op.Output { return []op.Output{v.Read(s)} },
			func(s *op.Scope) []op.Output { return []op.Output{op.Exp(s, v.Read(s))} },
		})
	}),
	overVariable("StatefulPartitionedCall", func(s *op.Scope, v *op.Variable) []op.Output {
		f := op.NewFunction(s, "g", op.ParamsOf(op.Const(s, 1.0)), func(s *op.Scope, args []op.Output) []op.Output {
			return []op.Output{op.Mul(s, op.Exp(s, v.Read(s)), args[0])}
		})
		return f.Call(s, op.Sum(s, v.Read(s), vector(s, 0, 1)))
	}),
}

func condCase(which bool) gradCase {
	return gradCase{name: "If", in: []input{in(2), in(2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		y := op.Exp(s, x[0])
		return op.Cond(s, op.Identity(s, op.Const(s, which)),
			func(s *op.Scope) []op.Output { return []op.Output{op.Mul(s, y, x[1]), y} },
			func(s *op.Scope) []op.Output {
				return []op.Output{op.Sin(s, y), op.Cond(s, op.Const(s, true),
					func(s *op.Scope) []op.Output { return []op.Output{op.Square(s, x[0])} },
					func(s *op.Scope) []op.Output { return []op.Output{y} })[0]}
			})
	}}
}

func switchCase(index int32) gradCase {
	return gradCase{name: "Case", in: []input{in(2), in(2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		return op.Case(s, op.Identity(s, op.Const(s, index)), []func(s *op.Scope) []op.Output{
			func(s *op.Scope) []op.Output { return []op.Output{op.Mul(s, x[0], x[1])} },
			func(s *op.Scope) []op.Output { return []op.Output{op.Exp(s, x[1])} },
			func(s *op.Scope) []op.Output { return []op.Output{op.Sin(s, x[0])} },
		})
	}}
}

func nestedLoop() gradCase {
	return gradCase{name: "While", in: []input{in(2), in(2)}, tolerance: 1e-6, f: func(s *op.Scope, x []op.Output) []op.Output {
		count := func(s *op.Scope, n int32, start op.Output, round func(s *op.Scope, v op.Output) op.Output) op.Output {
			return op.While(s, []op.Output{op.Const(s, int32(0)), start},
				func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], op.Const(s, n)) },
				func(s *op.Scope, v []op.Output) []op.Output {
					return []op.Output{op.AddV2(s, v[0], op.Const(s, int32(1))), round(s, v[1])}
				})[1]
		}
		return []op.Output{count(s, 3, x[0], func(s *op.Scope, outer op.Output) op.Output {
			inner := count(s, 2, op.Sin(s, outer), func(s *op.Scope, v op.Output) op.Output {
				return op.Cond(s, op.Greater(s, op.Sum(s, v, op.Const(s, []int32{0})), op.Const(s, 0.0)),
					func(s *op.Scope) []op.Output { return []op.Output{op.Mul(s, v, op.AddV2(s, x[1], outer))} },
					func(s *op.Scope) []op.Output { return []op.Output{op.Cos(s, v)} })[0]
			})
			return op.AddV2(s, inner, outer)
		})}
	}}
}

// recurrent returns a network that reads its input from one list and writes its states to another.
func recurrent() gradCase {
	return gradCase{name: "While", in: []input{in(3, 2), in(2, 2), in(1, 2)}, f: func(s *op.Scope, x []op.Output) []op.Output {
		steps, one := op.Const(s, int32(3)), op.Const(s, int32(1))
		row := vector(s, 1, 2)
		inputs := op.TensorListFromTensor(s, op.ExpandDims(s, x[0], one), row)
		states := op.TensorListReserve(s, row, steps, tensor.Float64)
		end := op.While(s, []op.Output{op.Const(s, int32(0)), x[2], states},
			func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], steps) },
			func(s *op.Scope, v []op.Output) []op.Output {
				x0 := op.TensorListGetItem(s, inputs, v[0], row, tensor.Float64)
				state := op.Tanh(s, op.AddV2(s, x0, op.MatMul(s, v[1], x[1])))
				return []op.Output{op.AddV2(s, v[0], one), state, op.TensorListSetItem(s, v[2], v[0], state)}
			})
		return []op.Output{op.TensorListStack(s, end[2], row, tensor.Float64)}
	}}
}

// loopOverVariable reads a variable in each iteration.
func loopOverVariable() gradCase {
	handles := new([]op.Output)
	return gradCase{name: "While", in: []input{in(2)}, handles: handles, f: func(s *op.Scope, x []op.Output) []op.Output {
		v := op.VariableOf(s.WithName("looped"), tensor.Float64, shape.Of(2))
		*handles = []op.Output{v.Handle()}
		after := s.WithControlDependencies(v.Assign(s, x[0]))
		return op.While(after, []op.Output{op.Const(s, int32(0)), op.Const(s, []float64{0.5, 0.25})},
			func(s *op.Scope, v []op.Output) op.Output { return op.Less(s, v[0], op.Const(s, int32(3))) },
			func(s *op.Scope, loop []op.Output) []op.Output {
				return []op.Output{op.AddV2(s, loop[0], op.Const(s, int32(1))), op.Sin(s, op.AddV2(s, op.Mul(s, loop[1], v.Read(s)), loop[1]))}
			})[1:]
	}}
}

// overVariable returns a function of a variable that is read in functions' bodies.
func overVariable(name string, f func(s *op.Scope, v *op.Variable) []op.Output) gradCase {
	handles := new([]op.Output)
	return gradCase{name: name, in: []input{in(3, 2)}, handles: handles, f: func(s *op.Scope, x []op.Output) []op.Output {
		v := op.VariableOf(s.WithName("of"+name), tensor.Float64, shape.Of(3, 2))
		*handles = []op.Output{v.Handle()}
		return f(s.WithControlDependencies(v.Assign(s, x[0])), v)
	}}
}

// second differentiates the gradient of a function of two vectors.
func second(name string, f func(s *op.Scope, x []op.Output) []op.Output) gradCase {
	return gradCase{name: name, in: []input{in(2), in(2)}, f: func(s *op.Scope, x []op.Output) (out []op.Output) {
		for _, d := range grad.Gradients(s, []op.Output{op.Square(s, f(s, x)[0])}, x) {
			out = append(out, d.Dense(s))
		}
		return out
	}}
}
