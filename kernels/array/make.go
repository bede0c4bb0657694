package array

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// runFill returns a tensor with the shape in input 0, filled with the scalar in input 1.
func runFill(ctx *kernels.Context) error {
	shape, err := fillShape(ctx)
	if err != nil {
		return err
	}
	value := ctx.Input(1)
	out, err := ctx.Allocate(0, value.DType(), shape)
	if err != nil {
		return err
	}
	layout.Fill(ctx, out, value)
	return nil
}

// fillShape returns the shape in input 0 of Fill. Input 1 must be a scalar.
func fillShape(ctx *kernels.Context) (tensor.Shape, error) {
	if dims := ctx.Input(0); dims.Rank() > 1 || dims.Rank() == 0 && dims.Len() != 1 {
		return nil, status.InvalidArgumentf("dims must represent a vector, got shape %v", dims.Shape())
	}
	value := ctx.Input(1)
	if value.Rank() != 0 && !(value.Rank() == 1 && value.Len() == 1) {
		return nil, status.InvalidArgumentf("value must represent a scalar, got shape %v", value.Shape())
	}
	sizes, err := ctx.Ints(0)
	if err != nil {
		return nil, err
	}
	return shapes.ShapeOf(sizes)
}

// zerosLike returns zeros of the input's type and shape, in the input's memory if it may be reused.
func zerosLike(ctx *kernels.Context) error {
	t := ctx.Input(0)
	if t.DType() == tensor.Variant {
		return variant.ZerosLike(ctx)
	}
	if t.DType() == tensor.Resource {
		return status.Unimplementedf("%s of elements of type %v is not supported", ctx.Node.Op, t.DType())
	}
	out, err := forwardPlain(ctx, 0, 0, t.DType(), t.Shape())
	if err == nil {
		layout.Zero(ctx, out)
	}
	return err
}

// forwardPlain is Forward, except that Go-valued elements always get new memory: such a tensor does not know whether its elements are
// shared.
func forwardPlain(ctx *kernels.Context, i, o int, dtype tensor.DType, shape tensor.Shape) (*tensor.Tensor, error) {
	if dtype.Size() == 0 {
		return ctx.Allocate(o, dtype, shape)
	}
	return ctx.Forward(i, o, dtype, shape)
}

func newOnesLike(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("T")
	if err != nil {
		return nil, err
	}
	one, err := layout.OneOf(dtype)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		out, err := ctx.Forward(0, 0, dtype, ctx.Input(0).Shape())
		if err == nil {
			layout.Fill(ctx, out, one)
		}
		return err
	}), nil
}

// newEmpty returns the kernel of Empty. In TensorFlow, the content is undefined unless init is set. Here it is always zero, so that memory
// never exposes other clients' data.
func newEmpty(c *kernels.Construction) (any, error) {
	dtype, err := c.Attrs().Type("dtype")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		sizes, err := args.VectorInts(ctx, 0, "shape")
		if err != nil {
			return err
		}
		shape, err := shapes.ShapeOf(sizes)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err == nil {
			layout.Zero(ctx, out)
		}
		return err
	}), nil
}

// runRange returns the kernel of Range for an element type. The inputs are start, limit and delta.
func runRange[T element.Ordered](sizeOf rangeSize[T]) kernels.Func {
	return func(ctx *kernels.Context) error {
		for i := range 3 {
			if err := args.CheckType(ctx, i, element.DTypeOf[T]()); err != nil {
				return err
			}
			if t := ctx.Input(i); t.Len() != 1 {
				return status.InvalidArgumentf("%s must be a scalar, not shape %v", [...]string{"start", "limit", "delta"}[i], t.Shape())
			}
		}
		start, limit, delta := tensor.Of[T](ctx.Input(0))[0], tensor.Of[T](ctx.Input(1))[0], tensor.Of[T](ctx.Input(2))[0]
		n, err := rangeLength(sizeOf, start, limit, delta)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, element.DTypeOf[T](), tensor.Shape{n})
		if err != nil {
			return err
		}
		for i := range tensor.Of[T](out) {
			tensor.Of[T](out)[i] = start + T(i)*delta
		}
		return nil
	}
}

// rangeRows returns the rows of Range.
func rangeRows() []kernels.Def {
	return []kernels.Def{
		rangeRow[float32](runRange(floatRange[float32])), rangeRow[float64](runRange(floatRange[float64])),
		rangeRow[element.Float16](rangeHalf(element.Float16.Float, element.ToFloat16)),
		rangeRow[element.BFloat16](rangeHalf(element.BFloat16.Float, element.ToBFloat16)),
		rangeRow[int8](runRange(signedRange[int8])), rangeRow[int16](runRange(signedRange[int16])),
		rangeRow[int32](runRange(signedRange[int32])), rangeRow[int64](runRange(signedRange[int64])),
		rangeRow[uint16](runRange(unsignedRange[uint16])), rangeRow[uint32](runRange(unsignedRange[uint32])),
		rangeRow[uint64](runRange(unsignedRange[uint64])),
	}
}

func rangeRow[T any](run kernels.Func) kernels.Def {
	return kernels.Def{Types: dtypes.Only("Tidx", element.DTypeOf[T]()), New: kernels.Always(run)}
}

// rangeHalf is runRange for 16-bit floats, which are rounded after each operation.
func rangeHalf[H element.HalfFloat](wide func(H) float32, narrow func(float32) H) kernels.Func {
	return func(ctx *kernels.Context) error {
		var in [3]float32
		for i, name := range []string{"start", "limit", "delta"} {
			if err := args.CheckType(ctx, i, element.DTypeOf[H]()); err != nil {
				return err
			}
			if t := ctx.Input(i); t.Len() != 1 {
				return status.InvalidArgumentf("%s must be a scalar, not shape %v", name, t.Shape())
			}
			in[i] = wide(tensor.Of[H](ctx.Input(i))[0])
		}
		if err := checkRange(in[0], in[1], in[2]); err != nil {
			return err
		}
		// The quotient that determines the length is rounded to the type as well.
		quotient := wide(narrow(wide(narrow(in[1]-in[0])) / in[2]))
		n, err := rangeLength(floatRange, 0, float32(math.Abs(float64(quotient))), 1)
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, element.DTypeOf[H](), tensor.Shape{n})
		if err != nil {
			return err
		}
		for i := range tensor.Of[H](out) {
			step := wide(narrow(wide(narrow(float32(i))) * in[2]))
			tensor.Of[H](out)[i] = narrow(in[0] + step)
		}
		return nil
	}
}

// checkRange rejects a delta that is 0 or leads away from the limit. Arguments that are NaN are rejected too.
func checkRange[T element.Ordered](start, limit, delta T) error {
	switch {
	case delta == 0:
		return status.InvalidArgumentf("Requires delta != 0: %v", delta)
	case delta > 0 && !(start <= limit):
		return status.InvalidArgumentf("Requires start <= limit when delta > 0: %v/%v", start, limit)
	case !(delta > 0) && !(start >= limit):
		return status.InvalidArgumentf("Requires start >= limit when delta < 0: %v/%v", start, limit)
	}
	return nil
}

// rangeLength returns the number of values from start, in steps of delta, before limit.
func rangeLength[T element.Ordered](sizeOf rangeSize[T], start, limit, delta T) (int64, error) {
	if err := checkRange(start, limit, delta); err != nil {
		return 0, err
	}
	n, ok := sizeOf(start, limit, delta)
	if !ok {
		return 0, status.InvalidArgumentf("Requires ((limit - start) / delta) <= %d", int64(math.MaxInt64))
	}
	return n, nil
}

// rangeSize computes rangeLength for arguments that checkRange accepts: floatRange, signedRange or unsignedRange. ok is false if the result
// does not fit, or an argument is NaN.
type rangeSize[T element.Ordered] func(start, limit, delta T) (n int64, ok bool)

func floatRange[T element.Floating](start, limit, delta T) (n int64, ok bool) {
	size := math.Ceil(math.Abs(float64((limit - start) / delta)))
	return int64(size), size < math.MaxInt64
}

func unsignedRange[T uint16 | uint32 | uint64](start, limit, delta T) (n int64, ok bool) {
	d := uint64(limit) - uint64(start)
	size := d/uint64(delta) + uint64(element.OneIf(d%uint64(delta) != 0))
	return int64(size), size <= math.MaxInt64
}

func signedRange[T element.SignedInt](start, limit, delta T) (n int64, ok bool) {
	// The difference of two int64s fits a uint64.
	d, step := uint64(int64(limit))-uint64(int64(start)), uint64(int64(delta))
	if delta < 0 {
		d, step = -d, -step
	}
	size := d/step + uint64(element.OneIf(d%step != 0))
	return int64(size), size <= math.MaxInt64
}

func linSpace[T element.Floating](ctx *kernels.Context) error {
	for i, name := range []string{"start", "stop", "num"} {
		if t := ctx.Input(i); t.Rank() != 0 {
			return status.InvalidArgumentf("%s must be a scalar, not shape %v", name, t.Shape())
		}
	}
	if err := args.FirstError(args.CheckType(ctx, 0, element.DTypeOf[T]()), args.CheckType(ctx, 1, element.DTypeOf[T]())); err != nil {
		return err
	}
	n, err := args.ScalarInt(ctx, 2, "num")
	if err != nil {
		return err
	}
	if n <= 0 {
		return status.InvalidArgumentf("Requires num > 0: %d", n)
	}
	start, stop := tensor.Of[T](ctx.Input(0))[0], tensor.Of[T](ctx.Input(1))[0]
	out, err := ctx.Allocate(0, element.DTypeOf[T](), tensor.Shape{n})
	if err != nil {
		return err
	}
	values := tensor.Of[T](out)
	values[0] = start
	if n > 1 {
		step := (stop - start) / T(n-1)
		for i := range values[1:] {
			values[i+1] = start + step*T(i+1)
		}
		values[n-1] = stop
	}
	return nil
}

// newOneHot returns the kernel that sets on_value where the indices point along a new axis, and off_value elsewhere. Indices beyond the
// depth are ignored.
func newOneHot(c *kernels.Construction) (any, error) {
	attr, err := c.Attrs().Int("axis")
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error { return oneHot(ctx, attr) }), nil
}

func oneHot(ctx *kernels.Context, attr int64) error {
	indices, on, off := ctx.Input(0), ctx.Input(2), ctx.Input(3)
	axis := int64(indices.Rank())
	if attr != -1 {
		axis = attr
	}
	if axis < 0 || axis > int64(indices.Rank()) {
		return status.InvalidArgumentf("Expected axis to be -1 or between [0, %d).  But received: %d", indices.Rank()+1, attr)
	}
	depthT := ctx.Input(1)
	if depthT.Rank() != 0 || depthT.DType() != tensor.Int32 {
		return status.InvalidArgumentf("depth must be a scalar, but got: %v", depthT.Shape())
	}
	depth := int64(tensor.Of[int32](depthT)[0])
	if depth < 0 {
		return status.InvalidArgumentf("depth must be non-negative, got: %d", depth)
	}
	if on.Rank() != 0 {
		return status.InvalidArgumentf("on_value must be a scalar, but got: %v", on.Shape())
	}
	if off.Rank() != 0 || off.DType() != on.DType() {
		return status.InvalidArgumentf("off_value must be a scalar, but got: %v", off.Shape())
	}
	if _, ok := shapes.MulSize(int64(indices.Len()), depth); !ok {
		return status.InvalidArgumentf("OneHot result would have shape %v + [%d], which exceeds 2**63 - 1 elements", indices.Shape(), depth)
	}
	shape := shapes.Replaced(indices.Shape(), int(axis), int(axis), depth)
	if !indices.OnHost() {
		return oneHotOn(ctx, shape, int(axis))
	}
	at, err := readSmallIndices(indices)
	if err != nil {
		return err
	}
	defer at.Free()
	out, err := ctx.Allocate(0, on.DType(), shape)
	if err != nil {
		return err
	}
	suffix := indices.Shape()[axis:].Elements()
	mover := layout.MoverOf(on.DType())
	if suffix == 1 && depth > 0 {
		// Fill a few rows, and set their elements while the rows are in the cache.
		ctx.Parallel(len(at.V), max(1, oneHotGrain/int(depth)), func(lo, hi int) {
			places := make([]int64, 0, min(hi-lo, oneHotRows(depth)))
			for ; lo < hi; lo += cap(places) {
				end := min(lo+cap(places), hi)
				mover.Fill(out, off, lo*int(depth), end*int(depth))
				places = hotPlaces(places[:0], at.V, lo, end, depth, 1)
				mover.Set(out, on, places)
			}
		})
		return nil
	}
	layout.Fill(ctx, out, off)
	meter := ctx.Meter()
	defer meter.Done()
	places, err := kernels.Scratch[int64](&meter, len(at.V))
	if err != nil {
		return err
	}
	mover.Set(out, on, hotPlaces(places[:0], at.V, 0, len(at.V), depth, suffix))
	return nil
}

// oneHotGrain is the number of elements that justify a thread.
const oneHotGrain = 1 << 14

// oneHotRows returns the number of rows to fill at once.
func oneHotRows(depth int64) int { return int(max(1, oneHotGrain/4/depth)) }

// hotPlaces appends the offsets of the elements that indices lo to hi select.
func hotPlaces(places, indices []int64, lo, hi int, depth int64, suffix int) []int64 {
	for i := lo; i < hi; i++ {
		if d := indices[i]; d >= 0 && d < depth {
			places = append(places, (int64(i/suffix)*depth+d)*int64(suffix)+int64(i%suffix))
		}
	}
	return places
}

// readSmallIndices reads indices, which may also be uint8 or int8.
func readSmallIndices(t *tensor.Tensor) (args.IndexList, error) {
	if read, ok := byteIndices[t.DType()]; ok {
		return read(t), nil
	}
	return args.ReadIndices(t)
}

var byteIndices = map[tensor.DType]func(*tensor.Tensor) args.IndexList{tensor.Uint8: widenedIndices[uint8], tensor.Int8: widenedIndices[int8]}

func widenedIndices[T int8 | uint8](t *tensor.Tensor) args.IndexList {
	return args.WidenIndices(tensor.Of[T](t))
}
