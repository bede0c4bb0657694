package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// gpuSelect is Select or, where broadcasts says so, SelectV2. A condition that is a scalar is not looked
// at by the host: it is stretched like any other.
type gpuSelect struct {
	gpuKernel
	broadcasts bool
	pack       int
}

func (k *gpuSelect) Compute(ctx *Context) error {
	cond, yes, no := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := firstError(checkType(ctx, 0, tensor.Bool), checkType(ctx, 1, k.in), checkType(ctx, 2, k.in)); err != nil {
		return err
	}
	shape, condShape := yes.Shape(), cond.Shape()
	var err error
	if k.broadcasts {
		shape, err = selectV2Shape(cond, yes, no)
	} else if err = checkSelect(ctx, cond, yes, no); cond.Rank() == 1 && yes.Rank() > 1 {
		condShape = leadingShape(cond.Len(), yes.Rank())
	}
	if err != nil {
		return err
	}
	out, err := ctx.ForwardAny(0, k.out, shape, 1, 2)
	if err != nil || out.Len() == 0 {
		return err
	}
	launchBroadcast(ctx, k.function, k.pack, out, operand{cond, condShape}, asIs(yes), asIs(no))
	return nil
}

// leadingShape is the shape of a vector that is stretched along all dimensions of a tensor but the first.
func leadingShape(n, rank int) tensor.Shape {
	shape := tensor.Shape{int64(n)}
	for len(shape) < rank {
		shape = append(shape, 1)
	}
	return shape
}

func selectOnGPU() {
	packs := map[string]int{"u16": 4, "u32": 4}
	for d := range suffixes {
		suffix := sizeSuffix(d)
		for op, broadcasts := range map[string]bool{"Select": false, "SelectV2": true} {
			Register(gpuRow(op, "T", d, &gpuSelect{gpuKernel{"select_" + suffix, d, d}, broadcasts, max(1, packs[suffix])}))
		}
	}
}

// gpuClip is ClipByValue.
type gpuClip struct{ gpuKernel }

func (k *gpuClip) Compute(ctx *Context) error {
	in, least, most := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := firstError(checkType(ctx, 0, k.in), checkType(ctx, 1, k.in), checkType(ctx, 2, k.in), checkClip(in, least, most)); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.out, in.Shape())
	if err != nil {
		return err
	}
	k.over(ctx, in.Len(), in.Address(), least.Address(), most.Address(), out.Address(), uint64(in.Len()),
		uint64(min(1, least.Rank())), uint64(min(1, most.Rank())))
	return nil
}

// mostTerms is how many tensors a launch adds up.
const mostTerms = 8

// gpuAddN adds tensors of the same shape; of halves the sum is rounded once for each launch.
type gpuAddN struct{ gpuKernel }

func (k *gpuAddN) Compute(ctx *Context) error {
	first := ctx.Inputs[0].Tensor
	order := make([]int, len(ctx.Inputs))
	for i := range ctx.Inputs {
		order[i] = i
		if err := checkType(ctx, i, k.in); err != nil {
			return err
		}
		if s := ctx.Input(i).Shape(); !s.Equal(first.Shape()) {
			return differentShapes(ctx, i, first.Shape(), s)
		}
	}
	if len(ctx.Inputs) == 1 {
		ctx.SetOutput(0, first.Retain())
		return nil
	}
	out, err := ctx.ForwardAny(0, k.out, first.Shape(), order...)
	if err != nil {
		return err
	}
	// The sum so far is the first term of the next launch. An input that is written over is in the first.
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
		k.over(ctx, out.Len(), append(args, uint64(n), out.Address(), uint64(out.Len()))...)
		if terms = terms[n:]; len(terms) > 0 {
			terms = append([]uint64{out.Address()}, terms...)
		}
	}
	return nil
}

func init() {
	selectOnGPU()
	for _, t := range append(exactly(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16), gpuReals...) {
		Register(gpuRow("ClipByValue", "T", t.dtype, &gpuClip{gpuKernel{"clip_" + t.suffix, t.dtype, t.dtype}}))
	}
	for _, t := range append(gpuIntegers, gpuReals...) {
		for _, op := range []string{"AddN", "AccumulateNV2"} {
			Register(gpuRow(op, "T", t.dtype, &gpuAddN{gpuKernel{"addn_" + t.suffix, t.dtype, t.dtype}}))
		}
	}

}
