package elementwise

import (
	"slices"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// BinaryRow is a binary elementwise op for one element type.
type BinaryRow struct {
	In, out *Elem
	// Each computes n elements of dst from n elements of a and of b. dst may be a or b.
	Each func(dst, a, b unsafe.Pointer, n int)
	// withScalar, if not nil, is Each with the same b for all elements; scalarWith, with the same a. Without them, the driver spreads the
	// scalar over a block.
	withScalar, scalarWith func(dst, v, scalar unsafe.Pointer, n int)
	// check, if not nil, returns an error if the second operand is not allowed. It is called before anything is computed.
	check func(b unsafe.Pointer, n int) error
}

// BinaryRows are the rows of an op for all its element types.
type BinaryRows []BinaryRow

// On makes a row from a slice function.
func On[T, R any](f func(dst []R, a, b []T)) BinaryRow {
	return BinaryRow{In: ElemOf[T](), out: ElemOf[R](), Each: func(dst, a, b unsafe.Pointer, n int) {
		f(unsafe.Slice((*R)(dst), n), unsafe.Slice((*T)(a), n), unsafe.Slice((*T)(b), n))
	}}
}

// Floats2 makes rows for float and double, and for half and bfloat16 computed as float.
func Floats2[A, B any](f32 func(dst []A, a, b []float32), f64 func(dst []B, a, b []float64)) BinaryRows {
	rows := BinaryRows{On(f32), On(f64)}
	switch f := any(f32).(type) {
	case func(dst, a, b []float32):
		rows = append(rows, On(widened[element.Float16](f)), On(widened[element.BFloat16](f)))
	case func(dst []bool, a, b []float32):
		rows = append(rows, On(widenedTest[element.Float16](f)), On(widenedTest[element.BFloat16](f)))
	}
	return rows
}

// Quantized2 makes rows for the quantized types from functions of the underlying integers.
func Quantized2[R any](q8 func(dst []R, a, b []int8), q16 func(dst []R, a, b []int16), q32 func(dst []R, a, b []int32),
	qu8 func(dst []R, a, b []uint8), qu16 func(dst []R, a, b []uint16)) BinaryRows {
	rows := BinaryRows{On(q8), On(q16), On(q32), On(qu8), On(qu16)}
	for i, dtype := range []tensor.DType{tensor.QInt8, tensor.QInt16, tensor.QInt32, tensor.QUint8, tensor.QUint16} {
		in := *rows[i].In
		in.DType = dtype
		rows[i].In = &in
	}
	return rows
}

// EachPair makes a slice function from a function of two numbers.
func EachPair[T element.Floating](f func(a, b T) T) func(dst, a, b []T) {
	return func(dst, a, b []T) {
		for i := range dst {
			dst[i] = f(a[i]*T(one), b[i]*T(one)) // as Read
		}
	}
}

// PerElement2 is Floats2 for a function of two float64s, which are as Read returns them.
func PerElement2(f func(a, b float64) float64) BinaryRows {
	return Floats2(
		func(dst, a, b []float32) {
			for i := range dst {
				dst[i] = float32(f(float64(a[i]), float64(b[i])))
			}
		},
		func(dst, a, b []float64) {
			for i := range dst {
				dst[i] = f(Read(a[i]), Read(b[i]))
			}
		})
}

func widened[H element.HalfFloat](f func(dst, a, b []float32)) func(dst, a, b []H) {
	return func(dst, a, b []H) {
		var x, y [element.HalfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), element.HalfBlock)
			element.Widen(x[:n], a[:n])
			element.Widen(y[:n], b[:n])
			f(x[:n], x[:n], y[:n])
			element.Narrow(dst[:n], x[:n])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

func widenedTest[H element.HalfFloat](f func(dst []bool, a, b []float32)) func(dst []bool, a, b []H) {
	return func(dst []bool, a, b []H) {
		var x, y [element.HalfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), element.HalfBlock)
			element.Widen(x[:n], a[:n])
			element.Widen(y[:n], b[:n])
			f(dst[:n], x[:n], y[:n])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

// Signed2 makes rows for the signed integers.
func Signed2[A, B, C, D any](f8 func(dst []A, a, b []int8), f16 func(dst []B, a, b []int16), f32 func(dst []C, a, b []int32), f64 func(dst []D, a, b []int64)) BinaryRows {
	return BinaryRows{On(f8), On(f16), On(f32), On(f64)}
}

// Unsigned2 makes rows for the unsigned integers.
func Unsigned2[A, B, C, D any](f8 func(dst []A, a, b []uint8), f16 func(dst []B, a, b []uint16), f32 func(dst []C, a, b []uint32), f64 func(dst []D, a, b []uint64)) BinaryRows {
	return BinaryRows{On(f8), On(f16), On(f32), On(f64)}
}

// Complex2 makes rows for the complex types.
func Complex2[A, B any](f64 func(dst []A, a, b []complex64), f128 func(dst []B, a, b []complex128)) BinaryRows {
	return BinaryRows{On(f64), On(f128)}
}

// Scalars sets the slice functions for scalar operands in the row of the float32 type.
func (rows BinaryRows) Scalars(withScalar, scalarWith func(dst, v []float32, s float32)) BinaryRows {
	erase := func(f func(dst, v []float32, s float32)) func(dst, v, s unsafe.Pointer, n int) {
		return func(dst, v, s unsafe.Pointer, n int) {
			f(unsafe.Slice((*float32)(dst), n), unsafe.Slice((*float32)(v), n), *(*float32)(s))
		}
	}
	for i := range rows {
		if rows[i].In.DType == tensor.Float32 {
			rows[i].withScalar, rows[i].scalarWith = erase(withScalar), erase(scalarWith)
		}
	}
	return rows
}

// Checked adds a check of the second operand to the integer rows.
func (rows BinaryRows) Checked(bad func(v int64) bool, err error) BinaryRows {
	for i := range rows {
		if rows[i].In.DType.IsInteger() {
			rows[i].check = integerChecks[rows[i].In.DType](bad, err)
		}
	}
	return rows
}

// integerChecks turn a check of one integer into a check of a slice.
var integerChecks = map[tensor.DType]func(bad func(v int64) bool, err error) func(b unsafe.Pointer, n int) error{
	tensor.Int8: eraseCheck[int8], tensor.Int16: eraseCheck[int16], tensor.Int32: eraseCheck[int32], tensor.Int64: eraseCheck[int64],
	tensor.Uint8: eraseCheck[uint8], tensor.Uint16: eraseCheck[uint16], tensor.Uint32: eraseCheck[uint32], tensor.Uint64: eraseCheck[uint64],
}

func eraseCheck[T element.Integer](bad func(v int64) bool, err error) func(b unsafe.Pointer, n int) error {
	return func(b unsafe.Pointer, n int) error {
		for _, v := range unsafe.Slice((*T)(b), n) {
			if bad(int64(v)) {
				return err
			}
		}
		return nil
	}
}

// BinaryOptions are the properties that differ between binary ops.
type BinaryOptions struct {
	Grain int
	// SameShape ops do not broadcast; the error for different shapes names the op. SameCount ops do not broadcast either: the operands need
	// the same number of elements, and the result has the shape of the first.
	SameShape, SameCount bool
	// Mismatch, if not nil, is the result for incompatible shapes when the node's attribute incompatible_shape_error is off.
	Mismatch *bool
}

// Binary returns the table rows of a binary op, without its name.
func Binary(opts BinaryOptions, sets ...BinaryRows) []kernels.Def {
	if opts.Grain == 0 {
		opts.Grain = element.CheapGrain
	}
	var defs []kernels.Def
	for _, set := range sets {
		for _, row := range set {
			k := &BinaryKernel{BinaryRow: row, BinaryOptions: opts}
			defs = append(defs, kernels.Def{Types: map[string][]tensor.DType{"T": {row.In.DType}}, New: k.construct})
		}
	}
	return defs
}

// BinaryKernel handles the shapes, memory and parallelism of binary elementwise ops.
type BinaryKernel struct {
	BinaryRow
	BinaryOptions
	tolerant bool
}

func (k *BinaryKernel) construct(c *kernels.Construction) (any, error) {
	if k.Mismatch != nil {
		strict, err := c.Attrs().Bool("incompatible_shape_error")
		if err != nil {
			return nil, err
		}
		if !strict {
			tolerant := *k
			tolerant.tolerant = true
			return &tolerant, nil
		}
	}
	return k, nil
}

// Compute is optimized for small operands of the same shape, since most of a graph's nodes have them.
func (k *BinaryKernel) Compute(ctx *kernels.Context) error {
	a, b := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	if a.DType() != k.In.DType || b.DType() != k.In.DType {
		return args.FirstError(args.CheckType(ctx, 0, k.In.DType), args.CheckType(ctx, 1, k.In.DType))
	}
	if !a.Shape().Equal(b.Shape()) {
		return k.broadcast(ctx, a, b)
	}
	n := a.Len()
	if k.check != nil {
		if err := k.check(element.Elements(b), n); err != nil {
			return err
		}
	}
	out, err := ctx.ForwardAny(0, k.out.DType, a.Shape(), 0, 1)
	if err != nil {
		return err
	}
	if n <= k.Grain {
		k.Each(element.Elements(out), element.Elements(a), element.Elements(b), n)
		return nil
	}
	k.spans(ctx, out, a, b, 1, 1)
	return ctx.Ended()
}

// broadcast computes operands of different shapes.
func (k *BinaryKernel) broadcast(ctx *kernels.Context, a, b *tensor.Tensor) error {
	if k.SameShape {
		return DifferentShapes(ctx, 1, a.Shape(), b.Shape())
	}
	if k.SameCount {
		if a.Len() != b.Len() {
			return status.InvalidArgumentf("The two arguments to a cwise op must have same number of elements, got %d and %d", a.Len(), b.Len())
		}
		out, err := ctx.ForwardAny(0, k.out.DType, a.Shape(), 0)
		if err != nil {
			return err
		}
		k.spans(ctx, out, a, b, 1, 1)
		return ctx.Ended()
	}
	shape, ok := shapes.BroadcastShape(a.Shape(), b.Shape())
	if !ok {
		if k.tolerant {
			ctx.SetOutput(0, tensor.Scalar(tensor.Bool, *k.Mismatch))
			return nil
		}
		return shapes.Incompatible(a.Shape(), b.Shape())
	}
	if n, err := shape.NumElements(); err != nil {
		return err
	} else if k.check != nil && n > 0 {
		if err := k.check(element.Elements(b), b.Len()); err != nil {
			return err
		}
	}
	out, err := ctx.ForwardAny(0, k.out.DType, shape, 0, 1)
	if err != nil || out.Len() == 0 {
		return err
	}
	switch {
	case a.Len() == out.Len() && b.Len() == 1:
		k.spans(ctx, out, a, b, 1, 0)
	case b.Len() == out.Len() && a.Len() == 1:
		k.spans(ctx, out, a, b, 0, 1)
	case a.Len() == out.Len() && isSuffix(b.Shape(), shape):
		k.Repeat(ctx, out, a, b, false)
	case b.Len() == out.Len() && isSuffix(a.Shape(), shape):
		k.Repeat(ctx, out, b, a, true)
	default:
		k.Rows(ctx, out, NewWalk(shape, a.Shape(), b.Shape()), a, b)
	}
	return ctx.Ended()
}

// isSuffix reports whether s, without leading ones, is the last dimensions of shape.
func isSuffix(s, shape tensor.Shape) bool {
	for len(s) > 0 && s[0] == 1 {
		s = s[1:]
	}
	return len(s) <= len(shape) && s.Equal(shape[len(shape)-len(s):])
}

// Repeat computes a full operand with one that is the same for each row; rowFirst reports that the latter is the first operand. Several
// short rows are computed together.
func (k *BinaryKernel) Repeat(ctx *kernels.Context, out, full, row *tensor.Tensor, rowFirst bool) {
	dst, pf, pr := element.Elements(out), element.Elements(full), element.Elements(row)
	n, width := out.Len(), row.Len()
	if width < shortRow && n > width {
		block := k.In.Block()
		defer k.In.Blocks.Put(block)
		several := min(element.BlockLen, n) / width
		for i := range several {
			k.In.move(k.In.At(block, i*width), pr, width)
		}
		pr, width = block, several*width
	}
	parts := func(lo, hi int) {
		for i := lo * width; i < min(hi*width, n); i += width {
			m := min(width, n-i)
			if rowFirst {
				k.strip(ctx, k.out.At(dst, i), pr, k.In.At(pf, i), 1, 1, m)
			} else {
				k.strip(ctx, k.out.At(dst, i), k.In.At(pf, i), pr, 1, 1, m)
			}
		}
	}
	if rows := (n + width - 1) / width; n > k.Grain {
		ctx.Parallel(rows, max(1, k.Grain/width), parts)
	} else {
		parts(0, rows)
	}
}

// spans computes all elements as one row.
func (k *BinaryKernel) spans(ctx *kernels.Context, out, a, b *tensor.Tensor, strideA, strideB int) {
	dst, pa, pb := element.Elements(out), element.Elements(a), element.Elements(b)
	if n := out.Len(); n > k.Grain {
		ctx.Parallel(n, k.Grain, func(lo, hi int) {
			k.strip(ctx, k.out.At(dst, lo), k.In.At(pa, lo*strideA), k.In.At(pb, lo*strideB), strideA, strideB, hi-lo)
		})
	} else {
		k.row(dst, pa, pb, strideA, strideB, n)
	}
}

// strip is row in pieces. It stops when the step is cancelled, since an element of some ops takes microseconds.
func (k *BinaryKernel) strip(ctx *kernels.Context, dst, a, b unsafe.Pointer, strideA, strideB, n int) {
	for i := 0; i < n && ctx.Ended() == nil; i += k.Grain {
		k.row(k.out.At(dst, i), k.In.At(a, i*strideA), k.In.At(b, i*strideB), strideA, strideB, min(k.Grain, n-i))
	}
}

// row computes n elements; a stride of 0 means that the operand is the same for all of them.
func (k *BinaryKernel) row(dst, a, b unsafe.Pointer, strideA, strideB, n int) {
	switch {
	case strideA == strideB:
		k.Each(dst, a, b, n)
	case strideB == 0 && k.withScalar != nil:
		k.withScalar(dst, a, b, n)
	case strideA == 0 && k.scalarWith != nil:
		k.scalarWith(dst, b, a, n)
	default:
		block := k.In.Block()
		defer k.In.Blocks.Put(block)
		if strideA == 0 {
			k.In.fill(block, a, min(n, element.BlockLen))
		} else {
			k.In.fill(block, b, min(n, element.BlockLen))
		}
		for i := 0; i < n; i += element.BlockLen {
			m := min(element.BlockLen, n-i)
			if strideA == 0 {
				k.Each(k.out.At(dst, i), block, k.In.At(b, i), m)
			} else {
				k.Each(k.out.At(dst, i), k.In.At(a, i), block, m)
			}
		}
	}
}

// shortRow is the length below which rows are gathered into blocks rather than computed individually.
const shortRow = 128

// Rows computes operands that are broadcast in some dimensions.
func (k *BinaryKernel) Rows(ctx *kernels.Context, out *tensor.Tensor, w *Walk, a, b *tensor.Tensor) {
	dst, pa, pb := element.Elements(out), element.Elements(a), element.Elements(b)
	inner := w.Inner()
	parts := func(lo, hi int) {
		if inner < shortRow {
			k.shortRows(w, dst, pa, pb, lo, hi)
			return
		}
		sa, sb := w.InnerStride(0), w.InnerStride(1)
		w.Each(lo, hi, func(r int, at []int) {
			k.strip(ctx, k.out.At(dst, r*inner), k.In.At(pa, at[0]), k.In.At(pb, at[1]), sa, sb, inner)
		})
	}
	if rows := w.Rows(); out.Len() > k.Grain {
		ctx.Parallel(rows, max(1, k.Grain/inner), parts)
	} else {
		parts(0, rows)
	}
}

// shortRows gathers rows of the operands into blocks and computes one block at a time.
func (k *BinaryKernel) shortRows(w *Walk, dst, a, b unsafe.Pointer, lo, hi int) {
	inner := w.Inner()
	per := element.BlockLen / inner
	x, y := k.In.Block(), k.In.Block()
	defer k.In.Blocks.Put(x)
	defer k.In.Blocks.Put(y)
	if last := len(w.Dims) - 2; last == 0 || last > 0 && w.Dims[last] >= per {
		k.planes(w, dst, a, b, x, y, lo, hi)
		return
	}
	full, start := 0, lo
	gather := func(block unsafe.Pointer, o int, p unsafe.Pointer, at int) {
		if w.InnerStride(o) == 0 {
			k.In.fill(k.In.At(block, full*inner), k.In.At(p, at), inner)
		} else {
			k.In.move(k.In.At(block, full*inner), k.In.At(p, at), inner)
		}
	}
	w.Each(lo, hi, func(r int, at []int) {
		gather(x, 0, a, at[0])
		gather(y, 1, b, at[1])
		if full++; full == per || r == hi-1 {
			k.Each(k.out.At(dst, start*inner), x, y, full*inner)
			full, start = 0, r+1
		}
	})
}

// planes is shortRows for many rows in the innermost two dimensions. It processes one such plane after the other and uses an operand in
// place if it has the whole plane. x and y are blocks.
func (k *BinaryKernel) planes(w *Walk, dst, a, b, x, y unsafe.Pointer, lo, hi int) {
	inner, last := w.Inner(), len(w.Dims)-2
	per, rows := element.BlockLen/inner, w.Dims[last]
	outer := Walk{Dims: w.Dims[:last+1], Strides: [][]int{w.Strides[0][:last+1], w.Strides[1][:last+1]}}
	outer.Each(lo/rows, (hi+rows-1)/rows, func(plane int, at []int) {
		first := plane * rows
		from, to := max(lo-first, 0), min(hi-first, rows)
		for r := from; r < to; r += per {
			n := min(per, to-r)
			k.Each(k.out.At(dst, (first+r)*inner),
				k.together(w, 0, x, k.In.At(a, at[0]), r, n, r == from), k.together(w, 1, y, k.In.At(b, at[1]), r, n, r == from), n*inner)
		}
	})
}

// together returns rows r to r+n of an operand in a plane as contiguous memory: in place, or copied to block. fresh reports that the block
// does not contain rows of the plane yet. No later call for the same plane has a greater n.
func (k *BinaryKernel) together(w *Walk, o int, block, p unsafe.Pointer, r, n int, fresh bool) unsafe.Pointer {
	inner, stride := w.Inner(), w.Strides[o][len(w.Dims)-2]
	switch {
	case w.InnerStride(o) == 0:
		k.In.spread(block, k.In.At(p, r*stride), n, inner)
	case stride == 0 && fresh:
		for i := range n {
			k.In.move(k.In.At(block, i*inner), p, inner)
		}
	case stride == 0:
	default:
		return k.In.At(p, r*stride)
	}
	return block
}

// Joined concatenates sets of rows.
func Joined(sets ...BinaryRows) BinaryRows { return slices.Concat(sets...) }

// Into returns functions that add the rows of a unary and of a binary op to a table, so a family can list one op per line.
func Into(table *kernels.Table) (unary func(op string, grain int, sets ...UnaryRows), binary func(op string, opts BinaryOptions, sets ...BinaryRows)) {
	unary = func(op string, grain int, sets ...UnaryRows) { table.Op(op, Unary(grain, sets...)) }
	binary = func(op string, opts BinaryOptions, sets ...BinaryRows) { table.Op(op, Binary(opts, sets...)) }
	return unary, binary
}
