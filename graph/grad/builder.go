package grad

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

// builder adds operations by op name, to keep formulas short.
type builder struct{ s *op.Scope }

// node adds an operation with attributes.
func (b builder) node(name string, attrs map[string]any, in ...op.Input) *op.Operation {
	return b.s.Add(op.Spec{Op: name, Inputs: in, Attrs: attrs})
}

// make returns the first output of an operation with attributes.
func (b builder) make(name string, attrs map[string]any, in ...op.Input) op.Output {
	return b.node(name, attrs, in...).Output(0)
}

// op returns the first output of an operation whose attributes are inferred from its inputs or have defaults.
func (b builder) op(name string, in ...op.Output) op.Output {
	inputs := make([]op.Input, len(in))
	for i, x := range in {
		inputs[i] = x
	}
	return b.make(name, nil, inputs...)
}

func (b builder) add(x, y op.Output) op.Output { return b.op("AddV2", x, y) }
func (b builder) sub(x, y op.Output) op.Output { return b.op("Sub", x, y) }
func (b builder) mul(x, y op.Output) op.Output { return b.op("Mul", x, y) }
func (b builder) div(x, y op.Output) op.Output { return b.op("RealDiv", x, y) }
func (b builder) neg(x op.Output) op.Output    { return b.op("Neg", x) }
func (b builder) square(x op.Output) op.Output { return b.op("Square", x) }

// scaled returns x times a number.
func (b builder) scaled(x op.Output, v float64) op.Output { return b.mul(x, b.number(x, v)) }

// where is SelectV2: x where c is true, y elsewhere.
func (b builder) where(c, x, y op.Output) op.Output { return b.op("SelectV2", c, x, y) }

func (b builder) conj(x op.Output) op.Output {
	if x.DType().Base().IsComplex() {
		return b.op("Conj", x)
	}
	return x
}

// cast converts x to another type.
func (b builder) cast(x op.Output, t tensor.DType) op.Output {
	if x.DType().Base() == t {
		return x
	}
	return b.make("Cast", map[string]any{"DstT": t}, x)
}

// constant returns a constant of the given shape and values.
func constant[T tensor.Elem](b builder, t tensor.DType, shape tensor.Shape, values ...T) op.Output {
	v, err := tensor.FromSlice(t, shape, values)
	if err != nil {
		b.s.Fail(err)
		return op.Output{}
	}
	defer v.Release()
	return b.make("Const", map[string]any{"dtype": t, "value": v})
}

// number returns a scalar constant of the type of x.
func (b builder) number(x op.Output, v float64) op.Output {
	switch t := x.DType().Base(); t {
	case tensor.Float32:
		return constant(b, t, nil, float32(v))
	case tensor.Int32:
		return constant(b, t, nil, int32(v))
	case tensor.Int64:
		return constant(b, t, nil, int64(v))
	default:
		return b.cast(constant(b, tensor.Float64, nil, v), t)
	}
}

// int returns an int32 scalar, ints an int32 vector.
func (b builder) int(v int32) op.Output { return constant(b, tensor.Int32, nil, v) }
func (b builder) ints(v ...int32) op.Output {
	return constant(b, tensor.Int32, tensor.Shape{int64(len(v))}, v...)
}
func (b builder) long(v int64) op.Output { return constant(b, tensor.Int64, nil, v) }
func (b builder) longs(v ...int64) op.Output {
	return constant(b, tensor.Int64, tensor.Shape{int64(len(v))}, v...)
}

// vector is ints or longs, depending on t.
func (b builder) vector(t tensor.DType, v ...int64) op.Output {
	if t == tensor.Int64 {
		return b.longs(v...)
	}
	short := make([]int32, len(v))
	for i, e := range v {
		short[i] = int32(e)
	}
	return b.ints(short...)
}

func (b builder) zeros(x op.Output) op.Output { return b.op("ZerosLike", x) }

// shape returns the shape of x as an int32 vector, a constant if it is known.
func (b builder) shape(x op.Output) op.Output { return b.shapeAs(x, tensor.Int32) }

// shapeAs returns the shape of x as a vector of int32 or int64.
func (b builder) shapeAs(x op.Output, t tensor.DType) op.Output {
	if dims, _ := x.Shape().Dims(); x.Shape().Full() {
		return b.vector(t, dims...)
	}
	return b.make("Shape", map[string]any{"out_type": t}, x)
}

// at returns element i of a vector; a negative i counts from the end.
func (b builder) at(v op.Output, i int32) op.Output {
	end := b.ints(i + 1)
	mask := 0
	if i == -1 {
		mask = 1
	}
	return b.make("StridedSlice", map[string]any{"shrink_axis_mask": 1, "end_mask": mask}, v, b.ints(i), end, b.ints(1))
}

// head returns a vector without its last n elements.
func (b builder) head(v op.Output, n int32) op.Output {
	return b.make("StridedSlice", map[string]any{"begin_mask": 1}, v, b.ints(0), b.ints(-n), b.ints(1))
}

// from returns a vector from element i on.
func (b builder) from(v op.Output, i int32) op.Output {
	return b.make("StridedSlice", map[string]any{"end_mask": 1}, v, b.ints(i), b.ints(0), b.ints(1))
}

// index returns x from begin to end along a negative axis, which counts from the last; an end of 0 means the end of the axis.
func (b builder) index(x op.Output, axis int32, begin, end int32) op.Output {
	// An ellipsis stands for the preceding axes.
	n := int(-axis) + 1
	begins, ends, strides := make([]int32, n), make([]int32, n), slices.Repeat([]int32{1}, n)
	begins[1], ends[1] = begin, end
	open := 0
	for i := 2; i < n; i++ {
		open |= 1 << i
	}
	endMask := open
	if end == 0 {
		endMask |= 2
	}
	return b.make("StridedSlice", map[string]any{"ellipsis_mask": 1, "begin_mask": open, "end_mask": endMask}, x, b.ints(begins...), b.ints(ends...), b.ints(strides...))
}

// concat concatenates along an axis.
func (b builder) concat(axis int32, x ...op.Output) op.Output {
	return b.make("ConcatV2", nil, op.List(x), b.int(axis))
}

func (b builder) reshape(x, shape op.Output) op.Output { return b.op("Reshape", x, shape) }

// reshapeLike reshapes x to the shape of another tensor.
func (b builder) reshapeLike(x, like op.Output) op.Output {
	if x.Shape().Full() && like.Shape().Full() {
		have, _ := x.Shape().Dims()
		want, _ := like.Shape().Dims()
		if have.Equal(want) {
			return x
		}
	}
	return b.reshape(x, b.shape(like))
}

// total sums over axes, which are removed or keep size 1.
func (b builder) total(x, axes op.Output, keep bool) op.Output {
	return b.make("Sum", map[string]any{"keep_dims": keep}, x, axes)
}

// expand adds an axis of size 1.
func (b builder) expand(x op.Output, axis int32) op.Output { return b.op("ExpandDims", x, b.int(axis)) }

// span returns the vector from, from+1, ... up to but excluding to.
func (b builder) span(from, to op.Output) op.Output { return b.op("Range", from, to, b.number(to, 1)) }

func (b builder) gather(x, indices op.Output) op.Output {
	return b.op("GatherV2", x, indices, b.int(0))
}

// fill returns a tensor of the given shape filled with value.
func (b builder) fill(shape, value op.Output) op.Output { return b.op("Fill", shape, value) }

// matmul multiplies batches of matrices.
func (b builder) matmul(x, y op.Output, adjointX, adjointY bool) op.Output {
	return b.make("BatchMatMulV2", map[string]any{"adj_x": adjointX, "adj_y": adjointY}, x, y)
}

// adjoint transposes the last two axes and conjugates.
func (b builder) adjoint(x op.Output) op.Output {
	rank := b.op("Rank", x)
	perm := b.concat(0, b.span(b.int(0), b.sub(rank, b.int(2))), b.expand(b.sub(rank, b.int(1)), 0), b.expand(b.sub(rank, b.int(2)), 0))
	name := "Transpose"
	if x.DType().Base().IsComplex() {
		name = "ConjugateTranspose"
	}
	return b.op(name, x, perm)
}

// known returns the value of an int32 or int64 constant.
func known(x op.Output) ([]int64, bool) {
	if x.Op == nil || x.Op.Type() != "Const" || x.DType() != tensor.Int32 && x.DType() != tensor.Int64 {
		return nil, false
	}
	p, err := x.Op.Attrs().Tensor("value")
	if err != nil {
		return nil, false
	}
	v, err := tensor.FromTensorProto(p, tensor.Host)
	if err != nil {
		return nil, false // the session that receives the graph reports it
	}
	defer v.Release()
	if v.DType() == tensor.Int64 {
		return slices.Clone(tensor.Of[int64](v)), true
	}
	out := make([]int64, v.Len())
	for i, e := range tensor.Of[int32](v) {
		out[i] = int64(e)
	}
	return out, true
}
