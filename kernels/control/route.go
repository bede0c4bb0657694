package control

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

func nothing(*kernels.Context) error { return nil }

func passAll(ctx *kernels.Context) error {
	if len(ctx.Inputs) != len(ctx.Outputs) {
		return status.Internalf("#inputs != #outputs : %d vs. %d", len(ctx.Inputs), len(ctx.Outputs))
	}
	for i := range ctx.Inputs {
		ctx.Pass(i, i)
	}
	return nil
}

// runSwitch passes its first input to the output selected by its second, a bool. The executor makes the other output dead.
func runSwitch(ctx *kernels.Context) error {
	pred := ctx.Input(1)
	if err := args.NeedScalar(pred, tensor.Bool, "The second input must be a scalar, but it has shape %v"); err != nil {
		return err
	}
	o := 0
	if tensor.Of[bool](pred)[0] {
		o = 1
	}
	ctx.Pass(0, o)
	return nil
}

// runSwitchN treats an index out of range as the last output (a default branch).
func runSwitchN(ctx *kernels.Context) error {
	index := ctx.Input(1)
	if err := args.NeedScalar(index, tensor.Int32, "The second input must be a scalar, but it has shape %v"); err != nil {
		return err
	}
	o := int(tensor.Of[int32](index)[0])
	if o < 0 || o >= len(ctx.Outputs) {
		o = len(ctx.Outputs) - 1
	}
	ctx.Pass(0, o)
	return nil
}

// merge passes on the one input that is present, and outputs its index.
func merge(ctx *kernels.Context) error {
	for i, in := range ctx.Inputs {
		if in.Tensor == nil && in.Ref == nil {
			continue
		}
		ctx.Pass(i, 0)
		ctx.SetOutput(1, tensor.Scalar(tensor.Int32, int32(i)))
		return nil
	}
	return status.Internalf("Merge ran without a live input")
}

func refSelect(ctx *kernels.Context) error {
	index := ctx.Input(0)
	if err := args.NeedScalar(index, tensor.Int32, "Index must be a scalar, but it has shape %v"); err != nil {
		return err
	}
	i, n := tensor.Of[int32](index)[0], len(ctx.Inputs)-1
	if i < 0 || int(i) >= n {
		return status.InvalidArgumentf("Index must be in the range [0, %d) but got %d", n, i)
	}
	ctx.Pass(int(i)+1, 0)
	return nil
}

// newAbort returns the kernel of an op that ends TensorFlow's process. A server that other clients share must outlive it, so here the op
// fails the step.
func newAbort(c *kernels.Construction) (any, error) {
	msg, err := c.Attrs().Str("error_msg")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(*kernels.Context) error {
		return status.Errorf(status.Aborted, "The graph asked to abort the process: %s", msg)
	}), nil
}

// guaranteeConst passes on a tensor that is declared constant. A variable's handle is rejected, since it is not the value.
func guaranteeConst(ctx *kernels.Context) error {
	if ctx.Input(0).DType() == tensor.Resource {
		return status.InvalidArgumentf("Input tensor cannot be a resource variable handle.")
	}
	return kernels.PassInput(ctx)
}
