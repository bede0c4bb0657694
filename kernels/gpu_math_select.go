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

// launchFill fills out with the element at from, an address on the device, or with the one whose bits
// are low, followed by zeros, where from is 0.
func launchFill(ctx *Context, out *tensor.Tensor, from, low uint64) {
	suffix, packs := sizeSuffix(out.DType()), map[string]int{"u8": 8, "u16": 4, "u32": 4, "u64": 2, "u128": 1}
	if n := out.Len(); n > 0 {
		a := accelerator(ctx.Device)
		a.Launch(ctx, elementwise(a, "fill_"+suffix, (n+packs[suffix]-1)/packs[suffix], from, low, 0, out.Address(), uint64(n)))
	}
}

// gpuFill is Fill: the sizes are on the host, the value is on the device.
func gpuFill(ctx *Context) error {
	shape, err := fillShape(ctx)
	if err != nil {
		return err
	}
	value := ctx.Input(1)
	out, err := ctx.Allocate(0, value.DType(), shape)
	if err == nil {
		launchFill(ctx, out, value.Address(), 0)
	}
	return err
}

func gpuZerosLike(ctx *Context) error {
	t := ctx.Input(0)
	out, err := ctx.Forward(0, 0, t.DType(), t.Shape())
	if err == nil && out.Len() > 0 {
		accelerator(ctx.Device).Fill(ctx, out, 0)
	}
	return err
}

// gpuOnesLike is OnesLike for a type. A complex 1 is a real 1, followed by zeros.
func gpuOnesLike(d tensor.DType) Func {
	part := map[tensor.DType]tensor.DType{tensor.Complex64: tensor.Float32, tensor.Complex128: tensor.Float64}[d]
	if part == tensor.Invalid {
		part = d
	}
	one, err := oneOf(part)
	if err != nil {
		panic(err) // of a type that no row is for
	}
	low := uint64(0)
	for i, b := range one.Data() {
		low |= uint64(b) << (8 * i)
	}
	return func(ctx *Context) error {
		if err := checkType(ctx, 0, d); err != nil {
			return err
		}
		out, err := ctx.Forward(0, 0, d, ctx.Input(0).Shape())
		if err == nil {
			launchFill(ctx, out, 0, low)
		}
		return err
	}
}

// gpuBias is BiasAdd.
type gpuBias struct {
	gpuKernel
	pack          int
	channelsFirst bool
}

func (k *gpuBias) Compute(ctx *Context) error {
	in, bias := ctx.Input(0), ctx.Input(1)
	if err := firstError(checkType(ctx, 0, k.in), checkType(ctx, 1, k.in)); err != nil {
		return err
	}
	channel, err := biasChannel(in, bias, k.channelsFirst)
	if err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.out, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	launchBroadcast(ctx, k.function, k.pack, out, asIs(in), operand{bias, leadingShape(bias.Len(), in.Rank()-channel)})
	return nil
}

func biasOnGPU(t gpuType) {
	k := gpuBias{gpuKernel: gpuKernel{"add_" + t.suffix, t.dtype, t.dtype}, pack: packOf(t.dtype)}
	Register(gpuRow("BiasAddV1", "T", t.dtype, &k),
		Def{Op: "BiasAdd", Device: "GPU", Types: map[string][]tensor.DType{"T": {t.dtype}}, New: func(c *Construction) (any, error) {
			own := k
			var err error
			own.channelsFirst, err = channelsFirst(c)
			return &own, err
		}})
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
	for _, t := range append(gpuBits, gpuReals...) {
		biasOnGPU(t)
	}
	for d := range suffixes {
		if d == tensor.Int32 { // the host's
			continue
		}
		fill := gpuRow("Fill", "T", d, Func(gpuFill))
		fill.HostInputs = []string{"dims"}
		Register(fill, gpuRow("ZerosLike", "T", d, Func(gpuZerosLike)), gpuRow("OnesLike", "T", d, gpuOnesLike(d)))
	}
}
