package script

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// call returns the row of an op that calls a function. An eager op takes and returns eager tensors.
func call(eager bool) []kernels.Def {
	return []kernels.Def{{Program: true, New: func(c *kernels.Construction) (any, error) {
		token, err := c.Attrs().Str("token")
		if err != nil {
			return nil, err
		}
		program := kernels.ProgramOf(c.Device)
		if program == nil {
			return nil, status.InvalidArgumentf("%s calls a function of the program that owns the server, and the server of %s belongs to no program. "+
				"Start it in the program that has the function (troupe.Server, troupe.run, WithFunction), or place the op on a task of that program.", c.Node.Op, c.Device.Name())
		}
		for i, t := range c.Node.InTypes {
			if t == tensor.Resource || t == tensor.Variant {
				return nil, status.Unimplementedf("input %d of %s is a %v, which functions of a program do not take", i, c.Node.Op, t)
			}
		}
		k := &function{program: program, name: token, eager: eager, outputs: c.Node.OutTypes}
		return kernels.AsyncFunc(k.run), nil
	}}}
}

// function calls a function of the program.
type function struct {
	program kernels.Program
	name    string
	eager   bool
	outputs []tensor.DType
}

func (f *function) run(ctx *kernels.Context, done func(error)) {
	kernels.Wait(ctx, kernels.Awaited{Text: "the program's function " + f.name}, done, func(end func(error)) func(error) {
		inputs := make([]*tensor.Tensor, ctx.NumInputs())
		for i := range inputs {
			inputs[i] = ctx.Input(i).Retain()
		}
		q := kernels.ProgramCall{Name: f.name, Eager: f.eager, Inputs: inputs, Outputs: f.outputs, Pool: ctx.Device.Pool()}
		var given givenUp
		cancel := f.program.Call(q, func(results []*tensor.Tensor, err error) {
			if !given.first() { // the context is not to be used any more
				release(results)
				return
			}
			if err == nil {
				err = f.check(results)
			}
			if err != nil {
				release(results)
			} else {
				for i, t := range results {
					ctx.SetOutput(i, t)
				}
			}
			end(err)
		})
		return func(cause error) {
			if given.first() {
				end(kernels.Cancelled(cause))
			}
			cancel()
		}
	})
}

// check compares results with the node's declaration. Its errors have TensorFlow's texts (py_func.cc).
func (f *function) check(results []*tensor.Tensor) error {
	if len(results) != len(f.outputs) {
		return status.InvalidArgumentf("%s returns %d values, but expects to see %d values.", f.name, len(results), len(f.outputs))
	}
	for i, t := range results {
		if t.DType() != f.outputs[i] {
			return status.InvalidArgumentf("%d-th value returned by %s is %v, but expects %v", i, f.name, t.DType(), f.outputs[i])
		}
	}
	return nil
}

func release(all []*tensor.Tensor) {
	for _, t := range all {
		if t != nil {
			t.Release()
		}
	}
}
