package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
)

// rowGroup returns the number of threads that share a row of the given length: some of a warp, or all of a block.
func rowGroup(columns int) int {
	if columns > 1024 {
		return launch.Threads
	}
	return min(reduce.PowerOf2((columns+1)/2), 32)
}

// eachRowOn returns a launch of a function of softmax.cu or topk.cu. The parameters rows, columns and group go between first and last.
func eachRowOn(a kernels.Accelerator, function string, rows, columns int, first []uint64, last ...uint64) kernels.Launch {
	group := rowGroup(columns)
	blocks := (rows*group + launch.Threads - 1) / launch.Threads
	args := append(first, uint64(rows), uint64(columns), uint64(group))
	return kernels.Launch{Function: function, Grid: [3]int{min(blocks, 32*a.Card().Processors)}, Block: [3]int{launch.Threads}, Args: append(args, last...)}
}

// gpuSoftmax is Softmax and LogSoftmax on an accelerator.
func gpuSoftmax(dtype tensor.DType, inLogs bool) kernels.Func {
	return func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		if in.Rank() < 1 {
			return status.InvalidArgumentf("logits must have >= 1 dimension, got %v", in.Shape())
		}
		out, err := ctx.Forward(0, 0, dtype, in.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		columns := in.Dim(in.Rank() - 1)
		a := kernels.AcceleratorOf(ctx.Device)
		a.Launch(ctx, eachRowOn(a, "softmax_"+launch.Suffixes[dtype], in.Len()/columns, columns, []uint64{in.Address(), out.Address()}, uint64(element.OneIf(inLogs))))
		return nil
	}
}

// gpuXent is SoftmaxCrossEntropyWithLogits on an accelerator.
func gpuXent(dtype tensor.DType) kernels.Func {
	return func(ctx *kernels.Context) error {
		loss, grad, err := xentOutputs(ctx, dtype)
		if err != nil || grad.Len() == 0 {
			return err
		}
		logits, labels := ctx.Input(0), ctx.Input(1)
		a := kernels.AcceleratorOf(ctx.Device)
		steps := append(stretchSteps(logits.Shape()), stretchSteps(labels.Shape())...)
		a.Launch(ctx, eachRowOn(a, "xent_"+launch.Suffixes[dtype], grad.Dim(0), grad.Dim(1),
			[]uint64{logits.Address(), labels.Address(), loss.Address(), grad.Address()}, steps...))
		return nil
	}
}

// stretchSteps returns the steps between rows and between columns of an operand that is broadcast to a matrix. A step is 0 if there is only
// one row or column.
func stretchSteps(shape tensor.Shape) []uint64 {
	rows, columns := int64(1), int64(1)
	if n := len(shape); n > 0 {
		columns = shape[n-1]
		if n > 1 {
			rows = shape[n-2]
		}
	}
	steps := make([]uint64, 2)
	if rows > 1 {
		steps[0] = uint64(columns)
	}
	if columns > 1 {
		steps[1] = 1
	}
	return steps
}

// gpuSparseXent is SparseSoftmaxCrossEntropyWithLogits on an accelerator. As in TensorFlow, invalid labels yield NaN.
func gpuSparseXent(dtype tensor.DType) kernels.Func {
	return func(ctx *kernels.Context) error {
		if err := checkSparseXent(ctx, dtype); err != nil {
			return err
		}
		loss, grad, err := sparseXentOutputs(ctx)
		if err != nil || grad.Len() == 0 {
			return err
		}
		logits, labels := ctx.Input(0), ctx.Input(1)
		a := kernels.AcceleratorOf(ctx.Device)
		a.Launch(ctx, eachRowOn(a, "sparse_xent_"+launch.Suffixes[dtype], logits.Dim(0), logits.Dim(1),
			[]uint64{logits.Address(), labels.Address(), launch.IndexKind(labels.DType()), loss.Address(), grad.Address()}))
		return nil
	}
}
