package math

import (
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// selectKernel picks each element from one of two tensors by a condition.
type selectKernel[T any] struct {
	dtype tensor.DType
	pick  func(dst []T, cond []bool, a, b []T)
	// broadcasts is set for SelectV2. Without it (Select), the condition may be a scalar or a vector that picks rows.
	broadcasts bool
}

func (k *selectKernel[T]) Compute(ctx *kernels.Context) error {
	cond, yes, no := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Bool), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype)); err != nil {
		return err
	}
	if k.broadcasts {
		return k.broadcast(ctx, cond, yes, no)
	}
	if err := checkSelect(ctx, cond, yes, no); err != nil {
		return err
	}
	switch {
	case cond.Rank() == 0:
		k.whole(ctx, tensor.Of[bool](cond)[0])
		return nil
	case cond.Rank() != 1 || yes.Rank() == 1:
		return k.elements(ctx, cond, yes, no)
	}
	out, err := k.output(ctx, yes.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	defer k.filled(out)
	dst, a, b := element.ViewOf[T](out), element.ViewOf[T](yes), element.ViewOf[T](no)
	n := len(dst) / cond.Len()
	for i, c := range tensor.Of[bool](cond) {
		if c {
			copy(dst[i*n:(i+1)*n], a[i*n:])
		} else {
			copy(dst[i*n:(i+1)*n], b[i*n:])
		}
	}
	return nil
}

// checkSelect rejects inputs of Select whose shapes do not match. The condition must have the shape of the others, be a scalar, or be a
// vector that picks rows.
func checkSelect(ctx *kernels.Context, cond, yes, no *tensor.Tensor) error {
	switch {
	case cond.Rank() == 0:
	case cond.Rank() != 1 || yes.Rank() == 1:
		for i := range 2 {
			if s := ctx.Input(i + 1).Shape(); !s.Equal(cond.Shape()) {
				return elementwise.DifferentShapes(ctx, i+1, cond.Shape(), s)
			}
		}
	case yes.Rank() == 0:
		return status.InvalidArgumentf("'then' must be at least a vector, but saw shape: %v", yes.Shape())
	case yes.Dim(0) != cond.Len():
		return status.InvalidArgumentf("Number of batches of 'then' must match size of 'cond', but saw: %d vs. %d", yes.Dim(0), cond.Len())
	}
	if !yes.Shape().Equal(no.Shape()) {
		return status.InvalidArgumentf("'then' and 'else' must have the same size.  but received: %v vs. %v", yes.Shape(), no.Shape())
	}
	return nil
}

// selectV2Shape returns the shape to which the inputs of SelectV2 broadcast.
func selectV2Shape(cond, yes, no *tensor.Tensor) (tensor.Shape, error) {
	shape, ok := shapes.BroadcastShape(yes.Shape(), no.Shape())
	if ok {
		shape, ok = shapes.BroadcastShape(cond.Shape(), shape)
	}
	if !ok {
		return nil, status.InvalidArgumentf("condition %v, then %v, and else %v must be broadcastable", cond.Shape(), yes.Shape(), no.Shape())
	}
	_, err := shape.NumElements()
	return shape, err
}

// whole forwards one of the two inputs unchanged.
func (k *selectKernel[T]) whole(ctx *kernels.Context, yes bool) {
	i := 2
	if yes {
		i = 1
	}
	ctx.SetOutput(0, ctx.Input(i).Retain())
}

// output returns the memory of the result: that of an operand if nothing else refers to it. Variants get new memory, since elements that
// hold references must not be overwritten.
func (k *selectKernel[T]) output(ctx *kernels.Context, shape tensor.Shape) (*tensor.Tensor, error) {
	if k.dtype == tensor.Variant {
		return ctx.Allocate(0, k.dtype, shape)
	}
	return ctx.ForwardAny(0, k.dtype, shape, 1, 2)
}

// filled retains the references that the picked elements hold.
func (k *selectKernel[T]) filled(out *tensor.Tensor) {
	if k.dtype == tensor.Variant {
		tensor.RetainVariants(out.Variants())
	}
}

// elements picks element by element.
func (k *selectKernel[T]) elements(ctx *kernels.Context, cond, yes, no *tensor.Tensor) error {
	out, err := k.output(ctx, yes.Shape())
	if err != nil {
		return err
	}
	defer k.filled(out)
	dst, c, a, b := element.ViewOf[T](out), tensor.Of[bool](cond), element.ViewOf[T](yes), element.ViewOf[T](no)
	if len(dst) <= element.CheapGrain {
		k.pick(dst, c, a, b)
		return nil
	}
	ctx.Parallel(len(dst), element.CheapGrain, func(lo, hi int) { k.pick(dst[lo:hi], c[lo:hi], a[lo:hi], b[lo:hi]) })
	return nil
}

// pickEach is pick for Go values.
func pickEach[T any](dst []T, cond []bool, a, b []T) {
	cond, a, b = cond[:len(dst)], a[:len(dst)], b[:len(dst)]
	for i := range dst {
		v := b[i]
		if cond[i] {
			v = a[i]
		}
		dst[i] = v
	}
}

func (k *selectKernel[T]) broadcast(ctx *kernels.Context, cond, yes, no *tensor.Tensor) error {
	shape, err := selectV2Shape(cond, yes, no)
	if err != nil {
		return err
	}
	if yes.Shape().Equal(shape) && no.Shape().Equal(shape) && cond.Shape().Equal(shape) {
		return k.elements(ctx, cond, yes, no)
	}
	out, err := k.output(ctx, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	defer k.filled(out)
	dst := element.ViewOf[T](out)
	w := elementwise.NewWalk(shape, cond.Shape(), yes.Shape(), no.Shape())
	inner := w.Inner()
	ctx.Parallel(w.Rows(), max(1, element.CheapGrain/inner), func(lo, hi int) {
		c := spread[bool]{from: tensor.Of[bool](cond), stride: w.InnerStride(0)}
		a := spread[T]{from: element.ViewOf[T](yes), stride: w.InnerStride(1)}
		b := spread[T]{from: element.ViewOf[T](no), stride: w.InnerStride(2)}
		w.Each(lo, hi, func(r int, at []int) {
			for i := 0; i < inner; i += element.BlockLen {
				part := dst[r*inner:][i:min(i+element.BlockLen, inner)]
				k.pick(part, c.run(at[0], i, len(part)), a.run(at[1], i, len(part)), b.run(at[2], i, len(part)))
			}
		})
	})
	return nil
}

// spread presents an operand as runs of elements: consecutive ones or, if the stride is 0, one element repeated.
type spread[T any] struct {
	from   []T
	stride int
	room   []T
	value  int // the index of the element in room, plus one
}

// run returns n elements, at most element.BlockLen, from the i-th of a row that starts at index at.
func (s *spread[T]) run(at, i, n int) []T {
	if s.stride != 0 {
		return s.from[at+i:][:n]
	}
	if n == 1 {
		return s.from[at:][:1]
	}
	if s.value != at+1 || len(s.room) < n {
		if len(s.room) < n {
			s.room = make([]T, n)
		}
		s.value = at + 1
		for i := range s.room {
			s.room[i] = s.from[at]
		}
	}
	return s.room[:n]
}

// selectRows returns the rows of SelectV2, which broadcasts, or of Select. Elements are only copied, so types of the same size share a
// kernel.
func selectRows(broadcasts bool) []kernels.Def {
	return slices.Concat(
		selectOf(broadcasts, simd.Select[uint8], tensor.Uint8, tensor.Int8, tensor.Bool, tensor.QInt8, tensor.QUint8),
		selectOf(broadcasts, simd.Select[uint16], tensor.Uint16, tensor.Int16, tensor.Float16, tensor.BFloat16, tensor.QInt16, tensor.QUint16),
		selectOf(broadcasts, simd.Select[uint32], tensor.Uint32, tensor.Int32, tensor.Float32, tensor.QInt32),
		selectOf(broadcasts, simd.Select[uint64], tensor.Uint64, tensor.Int64, tensor.Float64, tensor.Complex64),
		selectOf(broadcasts, pickEach[complex128], tensor.Complex128),
		selectOf(broadcasts, pickEach[string], tensor.String),
		selectOf(broadcasts, pickEach[tensor.Handle], tensor.Resource),
		selectOf(broadcasts, pickEach[any], tensor.Variant))
}

func selectOf[T any](broadcasts bool, pick func(dst []T, cond []bool, a, b []T), types ...tensor.DType) []kernels.Def {
	var rows []kernels.Def
	for _, dtype := range types {
		rows = append(rows, kernels.Def{Types: dtypes.Only("T", dtype), New: func(*kernels.Construction) (any, error) {
			return &selectKernel[T]{dtype, pick, broadcasts}, nil
		}})
	}
	return rows
}

// clipKernel implements ClipByValue. Each bound has the tensor's shape or is a scalar.
type clipKernel[T element.Ordered] struct{ dtype tensor.DType }

func (k *clipKernel[T]) Compute(ctx *kernels.Context) error {
	in, least, most := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype), checkClip(in, least, most)); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.dtype, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	dst, src, lo, hi := element.ViewOf[T](out), element.ViewOf[T](in), element.ViewOf[T](least), element.ViewOf[T](most)
	strideLo, strideHi := min(1, least.Rank()), min(1, most.Rank())
	ctx.Parallel(len(dst), element.CheapGrain, func(from, to int) {
		for i := from; i < to; i++ {
			dst[i] = clip(src[i], lo[i*strideLo], hi[i*strideHi])
		}
	})
	return nil
}

// clip returns the lower bound if the bounds cross. NaN bounds have no effect.
func clip[T element.Ordered](v, lo, hi T) T {
	if hi < v {
		v = hi
	}
	if v < lo {
		v = lo
	}
	return v
}

// complexClipKernel implements ClipByValue in a box of the complex plane.
type complexClipKernel[C element.ComplexNum, T float32 | float64] struct{ dtype tensor.DType }

func (k *complexClipKernel[C, T]) Compute(ctx *kernels.Context) error {
	in, least, most := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, k.dtype), args.CheckType(ctx, 2, k.dtype), checkClip(in, least, most)); err != nil {
		return err
	}
	out, err := ctx.Forward(0, 0, k.dtype, in.Shape())
	if err != nil || out.Len() == 0 {
		return err
	}
	parts := func(t *tensor.Tensor) []T { return unsafe.Slice((*T)(element.Elements(t)), 2*t.Len()) }
	dst, src, lo, hi := parts(out), parts(in), parts(least), parts(most)
	for i := range dst { // real and imaginary parts alternate
		l, h := i, i
		if least.Rank() == 0 {
			l %= 2
		}
		if most.Rank() == 0 {
			h %= 2
		}
		dst[i] = clip(src[i], lo[l], hi[h])
	}
	return nil
}

// checkClip rejects bounds that are neither scalars nor of the tensor's shape.
func checkClip(in, least, most *tensor.Tensor) error {
	for _, t := range []*tensor.Tensor{least, most} {
		if t.Rank() != 0 && !t.Shape().Equal(in.Shape()) {
			return status.InvalidArgumentf("clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. input shape: %vclip_value_min shape: %vclip_value_max shape: %v",
				in.Shape(), least.Shape(), most.Shape())
		}
	}
	return nil
}

// clipOf and clipComplexOf return the rows of ClipByValue for one element type.
func clipOf[T element.Ordered]() []kernels.Def {
	dtype := element.DTypeOf[T]()
	return halves.Rows("T", dtype, func(*kernels.Construction) (any, error) { return &clipKernel[T]{dtype}, nil })
}

func clipComplexOf[C element.ComplexNum, T float32 | float64]() []kernels.Def {
	dtype := element.DTypeOf[C]()
	return kernels.ForType("T", dtype, func(*kernels.Construction) (any, error) { return &complexClipKernel[C, T]{dtype}, nil })
}
