package elementwise

import (
	"math/bits"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// mostAxes is the maximum number of axes of a launch with broadcasting, mostIndex the maximum number of elements: the device divides
// indices as 32-bit numbers. Larger operations are launched in parts.
const (
	mostAxes  = 8
	mostIndex = 1 << 30
)

// Operand is a tensor with the shape that it is broadcast from.
type Operand struct {
	*tensor.Tensor
	Shape tensor.Shape
}

// AsIs returns a tensor as an operand of its own shape.
func AsIs(t *tensor.Tensor) Operand { return Operand{t, t.Shape()} }

// LaunchBroadcast launches a function of up to three operands that are broadcast to the shape of out, which must not be empty. Threads
// process pack elements at once where possible.
func LaunchBroadcast(ctx *kernels.Context, function string, pack int, out *tensor.Tensor, operands ...Operand) {
	l := broadcastLaunch{ctx: ctx, function: function, pack: pack, out: out, operands: operands}
	if n := out.Len(); n <= mostIndex && l.flat() {
		l.launch(0, make([]int, len(operands)), []int{n}, l.steps)
		return
	}
	shapes := make([]tensor.Shape, len(operands))
	for i, o := range operands {
		shapes[i] = o.Shape
	}
	w := NewWalk(out.Shape(), shapes...)
	broadcastParts(w.Dims, w.Strides, mostAxes, mostIndex, l.launch)
}

// broadcastParts calls launch for parts of a walk that have at most axes axes and most elements, with where they begin in the result and in
// the operands.
func broadcastParts(dims []int, strides [][]int, axes, most int, launch func(from int, at []int, dims []int, strides [][]int)) {
	var part func(from int, at []int, dims []int, strides [][]int)
	part = func(from int, at []int, dims []int, strides [][]int) {
		inner := 1
		for _, d := range dims[1:] {
			inner *= d
		}
		if len(dims) <= axes && inner*dims[0] <= most {
			launch(from, at, dims, strides)
			return
		}
		// As many rows of the outermost axis as possible, or each row separately, without that axis.
		rows, single := most/inner, len(dims) > axes || inner > most
		if single {
			rows = 1
		}
		for i := 0; i < dims[0]; i += rows {
			start, rest, left := make([]int, len(at)), append([]int{min(rows, dims[0]-i)}, dims[1:]...), strides
			for o := range at {
				start[o] = at[o] + i*strides[o][0]
			}
			if single {
				rest, left = dims[1:], make([][]int, len(strides))
				for o := range strides {
					left[o] = strides[o][1:]
				}
			}
			part(from+i*inner, start, rest, left)
		}
	}
	part(0, make([]int, len(strides)), dims, strides)
}

type broadcastLaunch struct {
	ctx      *kernels.Context
	function string
	pack     int
	out      *tensor.Tensor
	operands []Operand
	steps    [][]int
}

// Steps of operands that have one element, and of those that have all.
var stepOf = [2][]int{{0}, {1}}

// flat reports whether each operand has either one element or all elements of the result, in its order, as is usual.
func (l *broadcastLaunch) flat() bool {
	l.steps = make([][]int, len(l.operands))
	for i, o := range l.operands {
		switch o.Len() {
		case l.out.Len():
			l.steps[i] = stepOf[1]
		case 1:
			l.steps[i] = stepOf[0]
		default:
			return false
		}
	}
	return true
}

// launch launches a part.
func (l *broadcastLaunch) launch(from int, at []int, dims []int, strides [][]int) {
	n, last := 1, len(dims)-1
	for _, d := range dims {
		n *= d
	}
	wide := l.pack > 1 && (last == 0 || dims[last]%l.pack == 0)
	args := make([]uint64, 0, len(l.operands)+4+3*mostAxes)
	for i, o := range l.operands {
		address := o.Address() + uint64(at[i]*o.DType().Size())
		args = append(args, address)
		if strides[i][last] != 0 {
			wide = wide && address%uint64(l.pack*o.DType().Size()) == 0
			for _, s := range strides[i][:last] {
				wide = wide && s%l.pack == 0
			}
		}
	}
	out := l.out.Address() + uint64(from*l.out.DType().Size())
	wide = wide && out%uint64(l.pack*l.out.DType().Size()) == 0
	count := n
	if wide {
		count = (n + l.pack - 1) / l.pack
	}
	args = append(args, out, uint64(n), uint64(element.OneIf(wide)), uint64(len(dims)))
	args = appendAxes(args, dims, strides)
	a := kernels.AcceleratorOf(l.ctx.Device)
	a.Launch(l.ctx, launch.PerElement(a, l.function, count, args...))
}

// appendAxes appends the device's Axes, innermost first: for each, the size, the numbers to divide by it with, and three strides, 32 bits
// each.
func appendAxes(args []uint64, dims []int, strides [][]int) []uint64 {
	for d := len(dims) - 1; d >= 0; d-- {
		size := uint64(dims[d])
		shift := uint64(bits.Len64(size - 1))
		magic := (1<<shift-size)<<32/size + 1
		var step [3]uint64
		for o := range strides {
			step[o] = uint64(strides[o][d])
		}
		args = append(args, size|magic<<32, shift|step[0]<<32, step[1]|step[2]<<32)
	}
	return args[:len(args)+3*(mostAxes-len(dims))]
}

// GPUBinary is a function of two elements, with broadcasting.
type GPUBinary struct {
	GPUKernel
	Pack int
	// swapped functions take the operands in reverse order.
	swapped bool
	// mismatch, if not nil, is the result for incompatible shapes.
	mismatch *bool
}

// Compute implements kernels.Kernel.
func (k *GPUBinary) Compute(ctx *kernels.Context) error {
	a, b := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	if err := args.FirstError(args.CheckType(ctx, 0, k.In), args.CheckType(ctx, 1, k.In)); err != nil {
		return err
	}
	shape, ok := a.Shape(), true
	if !shape.Equal(b.Shape()) {
		shape, ok = shapes.BroadcastShape(a.Shape(), b.Shape())
	}
	if !ok && k.mismatch != nil {
		t, err := kernels.AcceleratorOf(ctx.Device).Upload(ctx, tensor.Scalar(tensor.Bool, *k.mismatch))
		if err == nil {
			ctx.SetOutput(0, t)
		}
		return err
	}
	if !ok {
		return shapes.Incompatible(a.Shape(), b.Shape())
	}
	if _, err := shape.NumElements(); err != nil {
		return err
	}
	out, err := ctx.ForwardAny(0, k.Out, shape, 0, 1)
	if err != nil || out.Len() == 0 {
		return err
	}
	if k.swapped {
		a, b = b, a
	}
	LaunchBroadcast(ctx, k.Function, k.Pack, out, AsIs(a), AsIs(b))
	return nil
}

// BinaryOnGPU registers an op of two operands whose function moves packs where possible.
func BinaryOnGPU(table *kernels.Table, op, function string, sets ...[]launch.Type) {
	binaryRowsOnGPU(table, op, function, true, sets)
}

// SinglyOnGPU is BinaryOnGPU for functions that process one element at a time.
func SinglyOnGPU(table *kernels.Table, op, function string, sets ...[]launch.Type) {
	binaryRowsOnGPU(table, op, function, false, sets)
}

func binaryRowsOnGPU(table *kernels.Table, op, function string, packed bool, sets [][]launch.Type) {
	for _, set := range sets {
		for _, t := range set {
			k := &GPUBinary{GPUKernel: GPUKernel{function + "_" + t.Suffix, t.DType, t.DType}, Pack: 1}
			if packed {
				k.Pack = launch.PackOf(t.DType)
			}
			table.Add(RowOnGPU(op, "T", t.DType, k))
		}
	}
}

// CompareOnGPU registers a comparison.
func CompareOnGPU(table *kernels.Table, op, function string, swapped bool, sets ...[]launch.Type) {
	for _, set := range sets {
		for _, t := range set {
			table.Add(RowOnGPU(op, "T", t.DType, &GPUBinary{GPUKernel{function + "_" + t.Suffix, t.DType, tensor.Bool}, launch.PackOf(t.DType), swapped, nil}))
		}
	}
}

// EqualOnGPU registers Equal or NotEqual. If the attribute incompatible_shape_error is off, the result for incompatible shapes is mismatch.
func EqualOnGPU(table *kernels.Table, op, function string, mismatch bool, sets ...[]launch.Type) {
	for _, set := range sets {
		for _, t := range set {
			k := GPUBinary{GPUKernel{function + "_" + t.Suffix, t.DType, tensor.Bool}, launch.PackOf(t.DType), false, nil}
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {t.DType}}, New: func(c *kernels.Construction) (any, error) {
				strict, err := c.Attrs().Bool("incompatible_shape_error")
				own := k
				if !strict {
					own.mismatch = &mismatch
				}
				return &own, err
			}})
		}
	}
}
