package math

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// gpuSelect is Select or, if broadcasts is set, SelectV2. The host never reads a scalar condition, which is broadcast like any other.
type gpuSelect struct {
	elementwise.GPUKernel
	broadcasts bool
	pack       int
}

func (k *gpuSelect) Compute(ctx *kernels.Context) error {
	cond, yes, no := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Bool), args.CheckType(ctx, 1, k.In), args.CheckType(ctx, 2, k.In)); err != nil {
		return err
	}
	shape, condShape := yes.Shape(), cond.Shape()
	var err error
	if k.broadcasts {
		shape, err = selectV2Shape(cond, yes, no)
	} else if err = checkSelect(ctx, cond, yes, no); cond.Rank() == 1 && yes.Rank() > 1 {
		condShape = shapes.LeadingShape(cond.Len(), yes.Rank())
	}
	if err != nil {
		return err
	}
	out, err := ctx.ForwardAny(0, k.Out, shape, 1, 2)
	if err != nil || out.Len() == 0 {
		return err
	}
	elementwise.LaunchBroadcast(ctx, k.Function, k.pack, out, elementwise.Operand{Tensor: cond, Shape: condShape}, elementwise.AsIs(yes), elementwise.AsIs(no))
	return nil
}

func selectOnGPU(table *kernels.Table) {
	packs := map[string]int{"u16": 4, "u32": 4}
	for d := range launch.Suffixes {
		suffix := launch.SizeSuffix(d)
		for op, broadcasts := range map[string]bool{"Select": false, "SelectV2": true} {
			table.Add(elementwise.RowOnGPU(op, "T", d, &gpuSelect{elementwise.GPUKernel{Function: "select_" + suffix, In: d, Out: d}, broadcasts, max(1, packs[suffix])}))
		}
	}
}

// gpuClip is ClipByValue.
type gpuClip struct{ elementwise.GPUKernel }

func (k *gpuClip) Compute(ctx *kernels.Context) error {
	in, least, most := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.In), args.CheckType(ctx, 1, k.In), args.CheckType(ctx, 2, k.In), checkClip(in, least, most)); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.Out, in.Shape())
	if err != nil {
		return err
	}
	k.Over(ctx, in.Len(), in.Address(), least.Address(), most.Address(), out.Address(), uint64(in.Len()),
		uint64(min(1, least.Rank())), uint64(min(1, most.Rank())))
	return nil
}

// mostTerms is the maximum number of tensors that one launch adds up.
const mostTerms = 8

// gpuAddN adds tensors of the same shape. Sums of halves are rounded once per launch.
type gpuAddN struct{ elementwise.GPUKernel }

func (k *gpuAddN) Compute(ctx *kernels.Context) error {
	first := ctx.Inputs[0].Tensor
	order := make([]int, len(ctx.Inputs))
	for i := range ctx.Inputs {
		order[i] = i
		if err := args.CheckType(ctx, i, k.In); err != nil {
			return err
		}
		if s := ctx.Input(i).Shape(); !s.Equal(first.Shape()) {
			return elementwise.DifferentShapes(ctx, i, first.Shape(), s)
		}
	}
	if len(ctx.Inputs) == 1 {
		ctx.SetOutput(0, first.Retain())
		return nil
	}
	out, err := ctx.ForwardAny(0, k.Out, first.Shape(), order...)
	if err != nil {
		return err
	}
	// The sum so far is the first term of the next launch. An input that the output overwrites goes into the first launch.
	var terms []uint64
	for i := range ctx.Inputs {
		if address := ctx.Input(i).Address(); address == out.Address() {
			terms = append([]uint64{address}, terms...)
		} else {
			terms = append(terms, address)
		}
	}
	for len(terms) > 0 {
		n := min(len(terms), mostTerms)
		args := append(make([]uint64, 0, mostTerms+3), terms[:n]...)[:mostTerms]
		k.Over(ctx, out.Len(), append(args, uint64(n), out.Address(), uint64(out.Len()))...)
		if terms = terms[n:]; len(terms) > 0 {
			terms = append([]uint64{out.Address()}, terms...)
		}
	}
	return nil
}
