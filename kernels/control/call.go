package control

import (
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/calls"
)

// NewCall returns the kernel of a node whose op is a function of the library: its inputs are the arguments, its outputs the results.
func NewCall(c *kernels.Construction, ref *graph.FunctionRef) (any, error) {
	fn, err := calls.Instantiate(c, ref)
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		callFunction(ctx, fn, calls.Arguments(ctx, 0), done)
	}), nil
}

func newPartitionedCall(c *kernels.Construction) (any, error) {
	ref, err := c.Attrs().Func("f")
	if err != nil {
		return nil, err
	}
	return NewCall(c, ref)
}

// callFunction runs fn and sets the outputs to its results.
func callFunction(ctx *kernels.Context, fn kernels.Function, args []kernels.Value, done func(error)) {
	fn.Call(ctx.Step, args, func(results []kernels.Value, err error) {
		if err == nil {
			err = deliver(ctx, results)
		}
		done(err)
	})
}

// deliver sets the node's outputs to results, after checking that they are what the node declares.
func deliver(ctx *kernels.Context, results []kernels.Value) error {
	if len(results) != len(ctx.Outputs) {
		calls.ReleaseAll(results)
		return status.Internalf("Expect to produce %d tensors, but only get %d", len(ctx.Outputs), len(results))
	}
	types := ctx.Node.OutTypes
	for i, r := range results {
		if r.Tensor != nil && i < len(types) && types[i].Valid() && r.Tensor.DType() != types[i].Base() {
			err := status.Internalf("Expect %d-th output is of type %v but get %v", i, types[i].Base(), r.Tensor.DType())
			calls.ReleaseAll(results)
			return err
		}
	}
	copy(ctx.Outputs, results)
	return nil
}

// truth reads a condition: a scalar is true if it is not zero or empty, any other tensor if it has elements.
func truth(t *tensor.Tensor) (bool, error) {
	if t.Rank() != 0 {
		return t.Len() > 0, nil
	}
	holds, ok := conditions[t.DType()]
	if !ok {
		return false, status.InvalidArgumentf("%v cannot be converted to a boolean", t.DType())
	}
	return holds(t), nil
}

// conditions report, for each type, whether a scalar counts as true.
var conditions = map[tensor.DType]func(*tensor.Tensor) bool{
	tensor.Bool: isNot(false), tensor.Float32: isNot[float32](0), tensor.Float64: isNot[float64](0),
	tensor.Int8: isNot[int8](0), tensor.Int16: isNot[int16](0), tensor.Int32: isNot[int32](0), tensor.Int64: isNot[int64](0), tensor.Uint8: isNot[uint8](0),
	tensor.String: func(t *tensor.Tensor) bool { return t.Strings()[0] != "" },
}

func isNot[T interface {
	comparable
	tensor.Elem
}](zero T) func(*tensor.Tensor) bool {
	return func(t *tensor.Tensor) bool { return tensor.Of[T](t)[0] != zero }
}

// toBool outputs a condition's value as a tensor.
func toBool(ctx *kernels.Context) error {
	v, err := truth(ctx.Input(0))
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Bool, v))
	}
	return err
}

func newIf(c *kernels.Construction) (any, error) {
	then, err := calls.FunctionAttr(c, "then_branch")
	if err != nil {
		return nil, err
	}
	otherwise, err := calls.FunctionAttr(c, "else_branch")
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		cond, err := truth(ctx.Input(0))
		if err != nil {
			done(err)
			return
		}
		fn := otherwise
		if cond {
			fn = then
		}
		callFunction(ctx, fn, calls.Arguments(ctx, 1), done)
	}), nil
}

// newCase returns the kernel that calls the function selected by its first input; an index out of range selects the last one.
func newCase(c *kernels.Construction) (any, error) {
	list, err := c.Attrs().List("branches")
	if err != nil {
		return nil, err
	}
	var branches []kernels.Function
	for _, f := range list.GetFunc() {
		fn, err := calls.Instantiate(c, &graph.FunctionRef{Name: f.GetName(), Attrs: f.GetAttr()})
		if err != nil {
			return nil, err
		}
		branches = append(branches, fn)
	}
	if len(branches) == 0 {
		return nil, status.InvalidArgumentf("Attr 'branches' of node %s must not be empty", c.Node.Name)
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		if err := args.NeedScalar(ctx.Input(0), tensor.Int32, "branch_index must be scalar, but it has shape %v"); err != nil {
			done(err)
			return
		}
		i := int(tensor.Of[int32](ctx.Input(0))[0])
		if i < 0 || i >= len(branches) {
			i = len(branches) - 1
		}
		callFunction(ctx, branches[i], calls.Arguments(ctx, 1), done)
	}), nil
}

// newFakeParam returns the kernel that stands for a value of a branch that was not taken. The value is never read, so unknown sizes are
// zero.
func newFakeParam(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	shape, _, err := c.Attrs().Shape("shape")
	if err != nil {
		return nil, err
	}
	shape = shape.Clone()
	for i, d := range shape {
		shape[i] = max(d, 0)
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		t, err := tensor.Zeros(ctx.Device.Pool(), dtype, shape)
		if err != nil {
			return err
		}
		ctx.SetOutput(0, t)
		return nil
	}), nil
}

// newSymbolicGradient returns the kernel that calls the gradient of a function.
func newSymbolicGradient(c *kernels.Construction) (any, error) {
	fn, err := calls.Instantiate(c, &graph.FunctionRef{Name: c.Node.Op, Attrs: c.Node.Attrs})
	if err != nil {
		return nil, err
	}
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		fn.Call(ctx.Step, calls.Arguments(ctx, 0), func(results []kernels.Value, err error) {
			if want, have := len(ctx.Outputs), len(results); err == nil && have != want {
				calls.ReleaseAll(results)
				results, err = nil, status.InvalidArgumentf("SymGrad expects to return %d tensor(s), but get %d tensor(s) instead.", want, have)
			}
			if err == nil {
				err = deliver(ctx, results)
			}
			done(err)
		})
	}), nil
}
