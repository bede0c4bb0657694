package kernels

import (
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// binaryRow is a binary elementwise op for one element type.
type binaryRow struct {
	in, out *elem
	// each computes n elements of dst from as many of a and b. dst may be a or b.
	each func(dst, a, b unsafe.Pointer, n int)
	// withScalar, where it is there, is each with the same b for all elements; scalarWith with
	// the same a. Without them the driver spreads the scalar over a block.
	withScalar, scalarWith func(dst, v, scalar unsafe.Pointer, n int)
	// check, where it is there, refuses a second operand before anything is computed.
	check func(b unsafe.Pointer, n int) error
}

// binaryRows are the rows of an op, of all its element types.
type binaryRows []binaryRow

// on makes a row of a slice function.
func on[T, R any](f func(dst []R, a, b []T)) binaryRow {
	return binaryRow{in: elemOf[T](), out: elemOf[R](), each: func(dst, a, b unsafe.Pointer, n int) {
		f(unsafe.Slice((*R)(dst), n), unsafe.Slice((*T)(a), n), unsafe.Slice((*T)(b), n))
	}}
}

// floats2 makes rows for float and double, and for half and bfloat16 by way of float.
func floats2[A, B any](f32 func(dst []A, a, b []float32), f64 func(dst []B, a, b []float64)) binaryRows {
	rows := binaryRows{on(f32), on(f64)}
	switch f := any(f32).(type) {
	case func(dst, a, b []float32):
		rows = append(rows, on(widened[float16](f)), on(widened[bfloat16](f)))
	case func(dst []bool, a, b []float32):
		rows = append(rows, on(widenedTest[float16](f)), on(widenedTest[bfloat16](f)))
	}
	return rows
}

// quantized2 makes rows for the quantized types, of functions of the integers that stand for them.
func quantized2[R any](q8 func(dst []R, a, b []int8), q16 func(dst []R, a, b []int16), q32 func(dst []R, a, b []int32),
	qu8 func(dst []R, a, b []uint8), qu16 func(dst []R, a, b []uint16)) binaryRows {
	rows := binaryRows{on(q8), on(q16), on(q32), on(qu8), on(qu16)}
	for i, dtype := range []tensor.DType{tensor.QInt8, tensor.QInt16, tensor.QInt32, tensor.QUint8, tensor.QUint16} {
		in := *rows[i].in
		in.dtype = dtype
		rows[i].in = &in
	}
	return rows
}

// eachPair is a function of two numbers over slices of them.
func eachPair[T floating](f func(a, b T) T) func(dst, a, b []T) {
	return func(dst, a, b []T) {
		for i := range dst {
			dst[i] = f(a[i], b[i])
		}
	}
}

// perElement2 is floats2 for a function of two float64s.
func perElement2(f func(a, b float64) float64) binaryRows {
	return floats2(
		func(dst, a, b []float32) {
			for i := range dst {
				dst[i] = float32(f(float64(a[i]), float64(b[i])))
			}
		},
		func(dst, a, b []float64) {
			for i := range dst {
				dst[i] = f(a[i], b[i])
			}
		})
}

func widened[H halfFloat](f func(dst, a, b []float32)) func(dst, a, b []H) {
	return func(dst, a, b []H) {
		var x, y [halfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), halfBlock)
			widen(x[:n], a[:n])
			widen(y[:n], b[:n])
			f(x[:n], x[:n], y[:n])
			narrow(dst[:n], x[:n])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

func widenedTest[H halfFloat](f func(dst []bool, a, b []float32)) func(dst []bool, a, b []H) {
	return func(dst []bool, a, b []H) {
		var x, y [halfBlock]float32
		for len(dst) > 0 {
			n := min(len(dst), halfBlock)
			widen(x[:n], a[:n])
			widen(y[:n], b[:n])
			f(dst[:n], x[:n], y[:n])
			dst, a, b = dst[n:], a[n:], b[n:]
		}
	}
}

// signed2 makes rows for the integers with a sign, unsigned2 for those without.
func signed2[A, B, C, D any](f8 func(dst []A, a, b []int8), f16 func(dst []B, a, b []int16), f32 func(dst []C, a, b []int32), f64 func(dst []D, a, b []int64)) binaryRows {
	return binaryRows{on(f8), on(f16), on(f32), on(f64)}
}

func unsigned2[A, B, C, D any](f8 func(dst []A, a, b []uint8), f16 func(dst []B, a, b []uint16), f32 func(dst []C, a, b []uint32), f64 func(dst []D, a, b []uint64)) binaryRows {
	return binaryRows{on(f8), on(f16), on(f32), on(f64)}
}

// complex2 makes rows for the complex types.
func complex2[A, B any](f64 func(dst []A, a, b []complex64), f128 func(dst []B, a, b []complex128)) binaryRows {
	return binaryRows{on(f64), on(f128)}
}

// scalars gives the row of an element type slice functions for operands that are scalars.
func (rows binaryRows) scalars(withScalar, scalarWith func(dst, v []float32, s float32)) binaryRows {
	erase := func(f func(dst, v []float32, s float32)) func(dst, v, s unsafe.Pointer, n int) {
		return func(dst, v, s unsafe.Pointer, n int) {
			f(unsafe.Slice((*float32)(dst), n), unsafe.Slice((*float32)(v), n), *(*float32)(s))
		}
	}
	for i := range rows {
		if rows[i].in.dtype == tensor.Float32 {
			rows[i].withScalar, rows[i].scalarWith = erase(withScalar), erase(scalarWith)
		}
	}
	return rows
}

// checked gives rows of integers a check of their second operand.
func (rows binaryRows) checked(bad func(v int64) bool, err error) binaryRows {
	for i := range rows {
		if rows[i].in.dtype.IsInteger() {
			rows[i].check = checkInts(rows[i].in.dtype, bad, err)
		}
	}
	return rows
}

func checkInts(dtype tensor.DType, bad func(v int64) bool, err error) func(b unsafe.Pointer, n int) error {
	switch dtype {
	case tensor.Int8:
		return eraseCheck[int8](bad, err)
	case tensor.Int16:
		return eraseCheck[int16](bad, err)
	case tensor.Int32:
		return eraseCheck[int32](bad, err)
	case tensor.Int64:
		return eraseCheck[int64](bad, err)
	case tensor.Uint8:
		return eraseCheck[uint8](bad, err)
	case tensor.Uint16:
		return eraseCheck[uint16](bad, err)
	case tensor.Uint32:
		return eraseCheck[uint32](bad, err)
	}
	return eraseCheck[uint64](bad, err)
}

func eraseCheck[T integer](bad func(v int64) bool, err error) func(b unsafe.Pointer, n int) error {
	return func(b unsafe.Pointer, n int) error {
		for _, v := range unsafe.Slice((*T)(b), n) {
			if bad(int64(v)) {
				return err
			}
		}
		return nil
	}
}

// binaryOptions are how a binary op differs from the others.
type binaryOptions struct {
	grain int
	// sameShape ops do not broadcast; the error for other shapes names the op. Nor do sameCount ops: they go by the number
	// of elements, and the result has the shape of the first operand.
	sameShape, sameCount bool
	// mismatch, where it is there, is the result for shapes that do not go together when the
	// node's attribute incompatible_shape_error is off.
	mismatch *bool
}

// binary makes the table rows of a binary op.
func binary(op string, opts binaryOptions, sets ...binaryRows) []Def {
	if opts.grain == 0 {
		opts.grain = cheapGrain
	}
	var defs []Def
	for _, set := range sets {
		for _, row := range set {
			k := &binaryKernel{binaryRow: row, binaryOptions: opts}
			defs = append(defs, Def{Op: op, Types: map[string][]tensor.DType{"T": {row.in.dtype}}, New: k.construct})
		}
	}
	return defs
}

// binaryKernel owns shapes, memory and parallelism of binary elementwise ops.
type binaryKernel struct {
	binaryRow
	binaryOptions
	tolerant bool
}

func (k *binaryKernel) construct(c *Construction) (any, error) {
	if k.mismatch != nil {
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

// Compute is written for small operands of the same shape: they are most of a graph's nodes.
func (k *binaryKernel) Compute(ctx *Context) error {
	a, b := ctx.Inputs[0].Tensor, ctx.Inputs[1].Tensor
	if a.DType() != k.in.dtype || b.DType() != k.in.dtype {
		return firstError(checkType(ctx, 0, k.in.dtype), checkType(ctx, 1, k.in.dtype))
	}
	if !a.Shape().Equal(b.Shape()) {
		return k.broadcast(ctx, a, b)
	}
	n := a.Len()
	if k.check != nil {
		if err := k.check(elements(b), n); err != nil {
			return err
		}
	}
	out, err := ctx.ForwardAny(0, k.out.dtype, a.Shape(), 0, 1)
	if err != nil {
		return err
	}
	if n <= k.grain {
		k.each(elements(out), elements(a), elements(b), n)
		return nil
	}
	k.spans(ctx, out, a, b, 1, 1)
	return nil
}

// differentShapes is TensorFlow's error for input i of ops whose inputs have one shape.
func differentShapes(ctx *Context, i int, first, other tensor.Shape) error {
	return status.InvalidArgumentf("Inputs to operation %s of type %s must have the same size and shape.  Input 0: %v != input %d: %v",
		ctx.Node.Name, ctx.Node.Op, first, i, other)
}

// broadcast computes operands of different shapes.
func (k *binaryKernel) broadcast(ctx *Context, a, b *tensor.Tensor) error {
	if k.sameShape {
		return differentShapes(ctx, 1, a.Shape(), b.Shape())
	}
	if k.sameCount {
		if a.Len() != b.Len() {
			return status.InvalidArgumentf("The two arguments to a cwise op must have same number of elements, got %d and %d", a.Len(), b.Len())
		}
		out, err := ctx.ForwardAny(0, k.out.dtype, a.Shape(), 0)
		if err == nil {
			k.spans(ctx, out, a, b, 1, 1)
		}
		return err
	}
	shape, ok := broadcastShape(a.Shape(), b.Shape())
	if !ok {
		if k.tolerant {
			ctx.SetOutput(0, tensor.Scalar(tensor.Bool, *k.mismatch))
			return nil
		}
		return incompatible(a.Shape(), b.Shape())
	}
	if n, err := shape.NumElements(); err != nil {
		return err
	} else if k.check != nil && n > 0 {
		if err := k.check(elements(b), b.Len()); err != nil {
			return err
		}
	}
	out, err := ctx.ForwardAny(0, k.out.dtype, shape, 0, 1)
	if err != nil || out.Len() == 0 {
		return err
	}
	switch {
	case a.Len() == out.Len() && b.Len() == 1:
		k.spans(ctx, out, a, b, 1, 0)
	case b.Len() == out.Len() && a.Len() == 1:
		k.spans(ctx, out, a, b, 0, 1)
	case a.Len() == out.Len() && isSuffix(b.Shape(), shape):
		k.repeat(ctx, out, a, b, false)
	case b.Len() == out.Len() && isSuffix(a.Shape(), shape):
		k.repeat(ctx, out, b, a, true)
	default:
		k.rows(ctx, out, newWalk(shape, a.Shape(), b.Shape()), a, b)
	}
	return nil
}

// isSuffix tells whether s is the last dimensions of shape.
func isSuffix(s, shape tensor.Shape) bool {
	for len(s) > 0 && s[0] == 1 {
		s = s[1:]
	}
	return len(s) <= len(shape) && s.Equal(shape[len(shape)-len(s):])
}

// repeat computes a full operand with one that is the same for each row, and the first of the
// two where rowFirst says so. Short rows are taken several at a time.
func (k *binaryKernel) repeat(ctx *Context, out, full, row *tensor.Tensor, rowFirst bool) {
	dst, pf, pr := elements(out), elements(full), elements(row)
	n, width := out.Len(), row.Len()
	if width < shortRow && n > width {
		block := k.in.block()
		defer k.in.blocks.Put(block)
		several := min(blockLen, n) / width
		for i := range several {
			k.in.move(k.in.at(block, i*width), pr, width)
		}
		pr, width = block, several*width
	}
	parts := func(lo, hi int) {
		for i := lo * width; i < min(hi*width, n); i += width {
			m := min(width, n-i)
			if rowFirst {
				k.each(k.out.at(dst, i), pr, k.in.at(pf, i), m)
			} else {
				k.each(k.out.at(dst, i), k.in.at(pf, i), pr, m)
			}
		}
	}
	if rows := (n + width - 1) / width; n > k.grain {
		ctx.Device.Parallel(rows, max(1, k.grain/width), parts)
	} else {
		parts(0, rows)
	}
}

// spans computes all elements as one row.
func (k *binaryKernel) spans(ctx *Context, out, a, b *tensor.Tensor, strideA, strideB int) {
	dst, pa, pb := elements(out), elements(a), elements(b)
	if n := out.Len(); n > k.grain {
		ctx.Device.Parallel(n, k.grain, func(lo, hi int) {
			k.row(k.out.at(dst, lo), k.in.at(pa, lo*strideA), k.in.at(pb, lo*strideB), strideA, strideB, hi-lo)
		})
	} else {
		k.row(dst, pa, pb, strideA, strideB, n)
	}
}

// row computes n elements; a stride of 0 says that the operand is the same for all of them.
func (k *binaryKernel) row(dst, a, b unsafe.Pointer, strideA, strideB, n int) {
	switch {
	case strideA == strideB:
		k.each(dst, a, b, n)
	case strideB == 0 && k.withScalar != nil:
		k.withScalar(dst, a, b, n)
	case strideA == 0 && k.scalarWith != nil:
		k.scalarWith(dst, b, a, n)
	default:
		block := k.in.block()
		defer k.in.blocks.Put(block)
		if strideA == 0 {
			k.in.fill(block, a, min(n, blockLen))
		} else {
			k.in.fill(block, b, min(n, blockLen))
		}
		for i := 0; i < n; i += blockLen {
			m := min(blockLen, n-i)
			if strideA == 0 {
				k.each(k.out.at(dst, i), block, k.in.at(b, i), m)
			} else {
				k.each(k.out.at(dst, i), k.in.at(a, i), block, m)
			}
		}
	}
}

// shortRow is the length under which rows are gathered into blocks rather than computed singly.
const shortRow = 128

// rows computes operands that are stretched in some dimensions.
func (k *binaryKernel) rows(ctx *Context, out *tensor.Tensor, w *walk, a, b *tensor.Tensor) {
	dst, pa, pb := elements(out), elements(a), elements(b)
	inner := w.inner()
	parts := func(lo, hi int) {
		if inner < shortRow {
			k.shortRows(w, dst, pa, pb, lo, hi)
			return
		}
		sa, sb := w.innerStride(0), w.innerStride(1)
		w.each(lo, hi, func(r int, at []int) {
			k.row(k.out.at(dst, r*inner), k.in.at(pa, at[0]), k.in.at(pb, at[1]), sa, sb, inner)
		})
	}
	if rows := w.rows(); out.Len() > k.grain {
		ctx.Device.Parallel(rows, max(1, k.grain/inner), parts)
	} else {
		parts(0, rows)
	}
}

// shortRows brings rows of the operands together in blocks and computes a block at a time.
func (k *binaryKernel) shortRows(w *walk, dst, a, b unsafe.Pointer, lo, hi int) {
	inner := w.inner()
	per := blockLen / inner
	x, y := k.in.block(), k.in.block()
	defer k.in.blocks.Put(x)
	defer k.in.blocks.Put(y)
	if len(w.dims) == 2 {
		for r := lo; r < hi; r += per {
			n := min(per, hi-r)
			k.each(k.out.at(dst, r*inner), k.together(w, 0, x, a, r, n), k.together(w, 1, y, b, r, n), n*inner)
		}
		return
	}
	full, start := 0, lo
	gather := func(block unsafe.Pointer, o int, p unsafe.Pointer, at int) {
		if w.innerStride(o) == 0 {
			k.in.fill(k.in.at(block, full*inner), k.in.at(p, at), inner)
		} else {
			k.in.move(k.in.at(block, full*inner), k.in.at(p, at), inner)
		}
	}
	w.each(lo, hi, func(r int, at []int) {
		gather(x, 0, a, at[0])
		gather(y, 1, b, at[1])
		if full++; full == per || r == hi-1 {
			k.each(k.out.at(dst, start*inner), x, y, full*inner)
			full, start = 0, r+1
		}
	})
}

// together gives rows r to r+n of an operand of a walk of two dimensions as neighbours: where
// they are, or in block.
func (k *binaryKernel) together(w *walk, o int, block, p unsafe.Pointer, r, n int) unsafe.Pointer {
	inner, stride := w.inner(), w.strides[o][0]
	switch {
	case w.innerStride(o) == 0:
		k.in.spread(block, k.in.at(p, r*stride), n, inner)
	case stride == 0:
		for i := range n {
			k.in.move(k.in.at(block, i*inner), p, inner)
		}
	default:
		return k.in.at(p, r*stride)
	}
	return block
}

// firstError is the first of the errors that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
