package dataflow

import (
	"slices"

	"github.com/troupe-run/troupe/containers/accumulator"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

func newDenseAccumulator(c *kernels.Construction) (any, error) {
	return newAccumulator(c, accumulator.NewDense)
}

func newSparseAccumulator(c *kernels.Construction) (any, error) {
	return newAccumulator(c, accumulator.NewSparse)
}

// newAccumulator returns the kernel that outputs an accumulator's handle. An accumulator without shared_name is private to the session. The
// node that creates an accumulator determines its attributes; those of other nodes are not compared with them, as in TensorFlow.
func newAccumulator(c *kernels.Construction, create func(accumulator.Options) *accumulator.Accumulator) (any, error) {
	o := accumulator.Options{Pool: c.Device.Pool()}
	var err error
	if o.DType, err = c.Attrs().Type("dtype"); err != nil {
		return nil, err
	}
	if o.Shape, o.KnownShape, err = c.Attrs().Shape("shape"); err != nil {
		return nil, err
	}
	reduction, err := c.Attrs().Str("reduction_type")
	if err != nil {
		return nil, err
	}
	o.Mean = reduction == "MEAN"
	o.Arithmetic = update.Arithmetic(o.DType)
	return kernels.NewSource(c, kernels.KindAccumulator, kernels.NamedBySession, func(name string) (*accumulator.Accumulator, error) {
		named := o
		named.Name = name
		return create(named), nil
	}, nil)
}

// accumulatorOf returns the accumulator named by the handle at input 0.
func accumulatorOf(ctx *kernels.Context) (*accumulator.Accumulator, error) {
	return kernels.ResourceAt[*accumulator.Accumulator](ctx, 0, kernels.KindAccumulator)
}

// accumulatorStep reads the step at input 1, an int64 scalar; name is the argument's name in the error.
func accumulatorStep(ctx *kernels.Context, name string) (int64, error) {
	if err := args.NeedScalar(ctx.Input(1), tensor.Int64, "Argument "+name+" must be scalar, but had bad shape %v"); err != nil {
		return 0, err
	}
	return tensor.Of[int64](ctx.Input(1))[0], nil
}

func applyGradient(ctx *kernels.Context) error {
	a, err := accumulatorOf(ctx)
	if err != nil {
		return err
	}
	if err := matchSignature(ctx, []tensor.DType{handleType(ctx), tensor.Int64, a.DType()}, nil); err != nil {
		return err
	}
	step, err := accumulatorStep(ctx, "local_step")
	if err != nil {
		return err
	}
	if err := a.Apply(ctx.Changes(), step, ctx.Take(2)); err != nil {
		return err
	}
	a.HasPut(ctx.Step.Origin)
	return nil
}

func newApplySparseGradient(c *kernels.Construction) (any, error) {
	knownShape, err := c.Attrs().Bool("has_known_shape")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		a, err := accumulatorOf(ctx)
		if err != nil {
			return err
		}
		if err := matchSignature(ctx, []tensor.DType{handleType(ctx), tensor.Int64, tensor.Int64, a.DType(), tensor.Int64}, nil); err != nil {
			return err
		}
		step, err := accumulatorStep(ctx, "local_step")
		if err != nil {
			return err
		}
		g := accumulator.Slices{Indices: ctx.Input(2), Values: ctx.Input(3)}
		if knownShape {
			g.Shape = ctx.Input(4)
		}
		if err := a.ApplySparse(ctx.Changes(), step, g); err != nil {
			return err
		}
		a.HasPut(ctx.Step.Origin)
		return nil
	}), nil
}

func newTakeGradient(c *kernels.Construction) (any, error) {
	return kernels.AsyncFunc(func(ctx *kernels.Context, done func(error)) {
		a, required, err := takeInputs(ctx)
		if err != nil {
			done(err)
			return
		}
		kernels.Wait(ctx, kernels.Awaited{Resource: a, Verb: "take", Amount: int64(required)}, done, func(end func(error)) func(error) {
			end = noting(ctx, a.HasTaken, end)
			return a.Take(ctx.Step.Cancellation, ctx.Changes(), required, func(out []*tensor.Tensor, err error) {
				for i, t := range out {
					ctx.SetOutput(i, t)
				}
				end(err)
			})
		})
	}), nil
}

func takeInputs(ctx *kernels.Context) (a *accumulator.Accumulator, required int, err error) {
	if a, err = accumulatorOf(ctx); err != nil {
		return nil, 0, err
	}
	outputs := []tensor.DType{a.DType()}
	if len(ctx.Node.OutTypes) == 3 {
		outputs = []tensor.DType{tensor.Int64, a.DType(), tensor.Int64}
	}
	if err := matchSignature(ctx, []tensor.DType{handleType(ctx), tensor.Int32}, outputs); err != nil {
		return nil, 0, err
	}
	required, err = args.ScalarInput32(ctx, 1, "Argument num_required must be scalar, but had bad shape %v")
	return a, required, err
}

func setGlobalStep(ctx *kernels.Context) error {
	a, err := accumulatorOf(ctx)
	if err != nil {
		return err
	}
	// TensorFlow's message names another op's argument.
	step, err := accumulatorStep(ctx, "num_required")
	if err != nil {
		return err
	}
	was, err := a.SetGlobalStep(ctx.Changes(), step)
	if err == nil && step < was && ctx.Step.Log != nil {
		ctx.Step.Log.Warn("the step of an accumulator decreases", "node", ctx.Node.Name, "from", was, "to", step)
	}
	return err
}

func numAccumulated(ctx *kernels.Context) error {
	a, err := accumulatorOf(ctx)
	if err == nil {
		ctx.SetOutput(0, tensor.Scalar(tensor.Int32, int32(a.NumAccumulated())))
	}
	return err
}

// handleType returns the type of the handle at input 0: a resource, or a reference to strings.
func handleType(ctx *kernels.Context) tensor.DType {
	if ref := ctx.Ref(0); ref != nil {
		return ref.DType().Ref()
	}
	return ctx.Input(0).DType()
}

// matchSignature compares the types of the inputs and outputs with those that the resource at input 0 expects
// (OpKernelContext::MatchSignature).
func matchSignature(ctx *kernels.Context, inputs, outputs []tensor.DType) error {
	have := make([]tensor.DType, len(ctx.Inputs))
	have[0] = handleType(ctx)
	for i := 1; i < len(have); i++ {
		have[i] = ctx.Input(i).DType()
	}
	if slices.Equal(have, inputs) && slices.Equal(ctx.Node.OutTypes, outputs) {
		return nil
	}
	return status.InvalidArgumentf("Signature mismatch, have: %s->%s expected: %s->%s",
		dtypes.TypeNames(have), dtypes.TypeNames(ctx.Node.OutTypes), dtypes.TypeNames(inputs), dtypes.TypeNames(outputs))
}
