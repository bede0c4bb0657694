package kernels

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// rowGroup is how many threads share a row of so many columns: some of a warp, or all of a block.
func rowGroup(columns int) int {
	if columns > 1024 {
		return threads
	}
	return min(powerOf2((columns+1)/2), 32)
}

// eachRowOn is a launch of a function of softmax.cu or topk.cu, whose parameters rows, columns and group
// come between first and last.
func eachRowOn(a Accelerator, function string, rows, columns int, first []uint64, last ...uint64) Launch {
	group := rowGroup(columns)
	blocks := (rows*group + threads - 1) / threads
	args := append(first, uint64(rows), uint64(columns), uint64(group))
	return Launch{Function: function, Grid: [3]int{min(blocks, 32*a.Card().Processors)}, Block: [3]int{threads}, Args: append(args, last...)}
}

// gpuSoftmax is Softmax and LogSoftmax on an accelerator.
func gpuSoftmax(dtype tensor.DType, inLogs bool) Func {
	return func(ctx *Context) error {
		in := ctx.Input(0)
		if err := checkType(ctx, 0, dtype); err != nil {
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
		a := accelerator(ctx.Device)
		a.Launch(ctx, eachRowOn(a, "softmax_"+suffixes[dtype], in.Len()/columns, columns, []uint64{in.Address(), out.Address()}, uint64(oneIf(inLogs))))
		return nil
	}
}

// gpuXent is SoftmaxCrossEntropyWithLogits on an accelerator.
func gpuXent(dtype tensor.DType) Func {
	return func(ctx *Context) error {
		loss, grad, err := xentOutputs(ctx, dtype)
		if err != nil || grad.Len() == 0 {
			return err
		}
		logits, labels := ctx.Input(0), ctx.Input(1)
		a := accelerator(ctx.Device)
		steps := append(stretchSteps(logits.Shape()), stretchSteps(labels.Shape())...)
		a.Launch(ctx, eachRowOn(a, "xent_"+suffixes[dtype], grad.Dim(0), grad.Dim(1),
			[]uint64{logits.Address(), labels.Address(), loss.Address(), grad.Address()}, steps...))
		return nil
	}
}

// stretchSteps are the distances of rows and columns of an operand that is stretched to a matrix: 0
// where there is but one.
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

// gpuSparseXent is SparseSoftmaxCrossEntropyWithLogits on an accelerator, where labels that are no
// class give NaN, as with TensorFlow's.
func gpuSparseXent(dtype tensor.DType) Func {
	return func(ctx *Context) error {
		if err := checkSparseXent(ctx, dtype); err != nil {
			return err
		}
		loss, grad, err := sparseXentOutputs(ctx)
		if err != nil || grad.Len() == 0 {
			return err
		}
		logits, labels := ctx.Input(0), ctx.Input(1)
		a := accelerator(ctx.Device)
		a.Launch(ctx, eachRowOn(a, "sparse_xent_"+suffixes[dtype], logits.Dim(0), logits.Dim(1),
			[]uint64{logits.Address(), labels.Address(), indexKind(labels.DType()), loss.Address(), grad.Address()}))
		return nil
	}
}

func init() {
	for _, dtype := range floatTypes {
		for op, f := range map[string]Func{
			"Softmax": gpuSoftmax(dtype, false), "LogSoftmax": gpuSoftmax(dtype, true),
			"SoftmaxCrossEntropyWithLogits": gpuXent(dtype), "SparseSoftmaxCrossEntropyWithLogits": gpuSparseXent(dtype),
		} {
			Register(Def{Op: op, Device: "GPU", Types: only("T", dtype), New: always(f)})
		}
	}
}
