package nn

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// pooling holds the attributes of a pooling op.
type pooling struct {
	windowing
	sizeRows, sizeCol, sizeDepth, strideDepth int64
}

// whenSizes says whether an op rejects windows without elements before or after it rejects windows that move over the batch. Ops not listed
// reject windows without elements when they lay out windows.
var whenSizes = map[string]int{
	"MaxPool": before, "MaxPoolV2": before, "QuantizedMaxPool": before, "MaxPoolWithArgmax": before, "MaxPoolGradWithArgmax": before,
	"MaxPool3D": before, "AvgPool3D": before, "AvgPool3DGrad": before,
	"AvgPool": after,
}

const (
	before = 1 + iota
	after
)

// setWindow sets the window from ksize and strides, which are attributes or inputs.
func (p *pooling) setWindow(op string, ksize, strides []int64) error {
	if err := checkWindow(op, ksize, strides, 4); err != nil {
		return err
	}
	h, w, d := p.height(), p.width(), p.depth()
	p.sizeRows, p.sizeCol, p.sizeDepth = ksize[h], ksize[w], ksize[d]
	p.strideRows, p.strideCol, p.strideDepth = strides[h], strides[w], strides[d]
	return nil
}

// checkWindow checks the sizes and strides of a window over images, or over volumes if there are five dimensions.
func checkWindow(op string, ksize, strides []int64, dims int) error {
	if len(ksize) != dims {
		return status.InvalidArgumentf("Sliding window ksize field must specify %d dimensions", dims)
	}
	if len(strides) != dims {
		return status.InvalidArgumentf("Sliding window stride field must specify %d dimensions", dims)
	}
	var errSizes, errBatch error
	if slices.Min(ksize) <= 0 {
		errSizes = status.InvalidArgumentf("Sliding window ksize must be positive. The specified or inferred ksize is: %v", tensor.Shape(ksize))
	}
	if ksize[0] != 1 || strides[0] != 1 {
		errBatch = status.Unimplementedf("Pooling is not yet supported on the batch dimension.")
	}
	switch whenSizes[op] {
	case before:
		return args.FirstError(errSizes, errBatch)
	case after:
		return args.FirstError(errBatch, errSizes)
	}
	return errBatch
}

// newPooling reads the attributes of a pooling op. If window is not set, ksize and strides come from inputs.
func newPooling(c *kernels.Construction, window bool) (p pooling, err error) {
	if p.channelsFirst, err = args.ChannelsFirst(c); err != nil {
		return p, err
	}
	if err := p.readPadding(c); err != nil || !window {
		return p, err
	}
	a := c.Attrs().Reader()
	ksize, strides := a.IntList("ksize"), a.IntList("strides")
	if err := a.Err(); err != nil {
		return p, err
	}
	return p, p.setWindow(c.Node.Op, ksize, strides)
}

// pool holds the sizes of a pooling over images whose channels come last.
type pool struct {
	batch      int
	rows, cols window
	depth      int
	over       int // channels pooled into one; more than 1 only with a window of one row and column
}

func (p *pool) outShape() tensor.Shape {
	return tensor.Shape{int64(p.batch), int64(p.rows.out), int64(p.cols.out), int64(p.depth / p.over)}
}

// plan checks the image's shape and computes the windows.
func (p *pooling) plan(image tensor.Shape) (out pool, err error) {
	if len(image) != 4 {
		return out, status.InvalidArgumentf("tensor_in must be 4-dimensional: %v", image)
	}
	if p.sizeDepth != 1 {
		if p.sizeRows != 1 || p.sizeCol != 1 {
			return out, status.Unimplementedf("MaxPooling supports exactly one of pooling across depth or pooling across width/height.")
		}
		if image[3]%p.sizeDepth != 0 {
			return out, status.Unimplementedf("Depthwise max pooling requires the depth window to evenly divide the input depth")
		}
		if p.strideDepth != p.sizeDepth {
			return out, status.Unimplementedf("Depthwise max pooling requires the depth window to equal the depth stride")
		}
	}
	rows, err := p.rows(image[1], p.sizeRows)
	if err != nil {
		return out, err
	}
	cols, err := p.columns(image[2], p.sizeCol)
	if err != nil {
		return out, err
	}
	if p.kind == "EXPLICIT" {
		for _, side := range []struct {
			name       string
			pad, limit int64
		}{{"Top", p.top, p.sizeRows}, {"Bottom", p.bottom, p.sizeRows}, {"Left", p.left, p.sizeCol}, {"Right", p.right, p.sizeCol}} {
			if side.pad >= side.limit {
				return out, status.InvalidArgumentf("%s padding %d needs to be smaller than the window size %d", side.name, side.pad, side.limit)
			}
		}
	}
	return pool{batch: int(image[0]), rows: rows, cols: cols, depth: int(image[3]), over: int(p.sizeDepth)}, nil
}

// eachPlace calls body for each place in result rows lo to hi, counted through all images, with the offset of its image and the part of its
// window that lies in the image.
func (p *pool) eachPlace(lo, hi int, body func(place, image int, rows, cols [3]int)) {
	imageSize := p.rows.in * p.cols.in * p.depth
	for r := lo; r < hi; r++ {
		top, bottom, y := p.rows.clip(r % p.rows.out)
		for x := range p.cols.out {
			left, right, at := p.cols.clip(x)
			body(r*p.cols.out+x, r/p.rows.out*imageSize, [3]int{top, bottom, y}, [3]int{left, right, at})
		}
	}
}

// eachRun calls body for runs of places in result rows lo to hi, counted through all images. It passes the index of the run's first place,
// its windows, which may have no taps, and the offset of their first tap in the image.
func (p *pool) eachRun(lo, hi int, runs []run, body func(place int, t *simd.Taps, at int)) {
	line := p.cols.in * p.depth
	t := simd.BorrowTaps()
	defer t.Return()
	for r := lo; r < hi; r++ {
		top, bottom, y := p.rows.clip(r % p.rows.out)
		for _, run := range runs {
			*t = simd.Taps{
				Places: run.n, PlaceDst: p.depth, PlaceA: p.cols.stride * p.depth,
				Rows: max(0, bottom-top), RowA: line, Cols: max(0, run.hi-run.lo), ColA: p.depth,
			}
			body(r*p.cols.out+run.first, t, (r/p.rows.out*p.rows.in+y+top)*line+(run.at+run.lo)*p.depth)
		}
	}
}

// grain returns the number of rows of the result that justify a part of their own.
func (p *pool) grain() int {
	return max(1, element.CostlyGrain/max(1, p.cols.out*p.depth*p.rows.size*p.cols.size/4))
}

// poolMath holds the pooling functions of an element type. For float32, these are functions of simd.Taps.
type poolMath[T element.Ordered] struct {
	least    T
	max, sum func(t *simd.Taps, dst, a []T, at, n int)
	mean     func(t *simd.Taps, dst, a []T, at, n int, by T)
	divide   func(dst, a []T, by T)
}

var (
	of32 = poolMath[float32]{float32(math.Inf(-1)), (*simd.Taps).Max, (*simd.Taps).Sum, (*simd.Taps).Mean, simd.DivScalar}
	of64 = poolMath[float64]{math.Inf(-1), maxOf(math.Inf(-1)).max, sumOfTaps, meanOfTaps, divideBy}
)

// maxOf returns the functions of max pooling for a type that SIMD does not support.
func maxOf[T element.Ordered](least T) poolMath[T] {
	return poolMath[T]{least: least, max: func(t *simd.Taps, dst, a []T, at, n int) {
		simd.EachTap(t, dst, at, n, least, func(to []T, from int) { elementwise.Maximum(to, to, a[from:][:n]) })
	}}
}

func divideBy(dst, a []float64, by float64) {
	for i, v := range a {
		dst[i] = v / by
	}
}

func sumOfTaps(t *simd.Taps, dst, a []float64, at, n int) {
	simd.EachTap(t, dst, at, n, 0, func(to []float64, from int) { elementwise.Add(to, to, a[from:][:n]) })
}

func meanOfTaps(t *simd.Taps, dst, a []float64, at, n int, by float64) {
	sumOfTaps(t, dst, a, at, n)
	for p := range t.Places {
		to := dst[p*t.PlaceDst:][:n]
		divideBy(to, to, by)
	}
}

// maxPoolKernel is MaxPool, and MaxPoolV2, whose window comes from inputs.
type maxPoolKernel[T element.Ordered] struct {
	pooling
	poolMath[T]
	dtype      tensor.DType
	fromInputs bool
}

func (k *maxPoolKernel[T]) Compute(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	attrs := k.pooling
	if k.fromInputs {
		if err := attrs.windowInputs(ctx, 1); err != nil {
			return err
		}
	}
	p, err := attrs.plan(image.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	src, dst := element.ViewOf[T](image), element.ViewOf[T](out)
	if p.over > 1 {
		for i := range dst {
			dst[i] = k.least
			for _, v := range src[i*p.over : (i+1)*p.over] {
				dst[i] = max(dst[i], v)
			}
		}
		return nil
	}
	runs := p.cols.runs()
	ctx.Parallel(p.batch*p.rows.out, p.grain(), func(lo, hi int) {
		p.eachRun(lo, hi, runs, func(place int, t *simd.Taps, at int) {
			to := dst[place*p.depth:][:t.Places*p.depth]
			if t.Rows*t.Cols > 0 {
				k.max(t, to, src, at, p.depth)
				return
			}
			for i := range to {
				to[i] = k.least
			}
		})
	})
	return nil
}

// windowInputs reads ksize and strides from inputs i and i+1. As in TensorFlow, they may have any shape of four elements.
func (p *pooling) windowInputs(ctx *kernels.Context, i int) error {
	ksize, errK := ctx.Ints(i)
	strides, errS := ctx.Ints(i + 1)
	if err := args.FirstError(errK, errS); err != nil {
		return err
	}
	return p.setWindow(ctx.Node.Op, ksize, strides)
}

// avgPoolKernel is AvgPool: the mean of the part of the window that lies in the image.
type avgPoolKernel[T element.Floating] struct {
	pooling
	poolMath[T]
	dtype tensor.DType
}

// planAvg is plan for ops that do not pool over channels.
func (p *pooling) planAvg(image tensor.Shape) (pool, error) {
	if p.sizeDepth != 1 {
		return pool{}, status.Unimplementedf("Pooling is not yet supported on the depth dimension.")
	}
	return p.plan(image)
}

func (k *avgPoolKernel[T]) Compute(ctx *kernels.Context) error {
	image := ctx.Input(0)
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	p, err := k.planAvg(image.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, k.dtype, p.outShape())
	if err != nil || out.Len() == 0 {
		return err
	}
	src, dst := element.ViewOf[T](image), element.ViewOf[T](out)
	runs := p.cols.runs()
	ctx.Parallel(p.batch*p.rows.out, p.grain(), func(lo, hi int) {
		p.eachRun(lo, hi, runs, func(place int, t *simd.Taps, at int) {
			to := dst[place*p.depth:][:t.Places*p.depth]
			if n := t.Rows * t.Cols; n > 0 {
				k.mean(t, to, src, at, p.depth, T(n))
			} else {
				element.Fill(to, T(math.NaN())) // 0/0
			}
		})
	})
	return nil
}

// poolRows returns the rows of a pooling op for one element type, like windowRows. sized ops have the window's size and strides as
// attributes, others as inputs.
func poolRows(dtype tensor.DType, sized bool, make func(p pooling) kernels.Kernel, images []int, sizes int) []kernels.Def {
	return halves.Rows("T", dtype, func(c *kernels.Construction) (any, error) {
		p, err := newPooling(c, sized)
		return p.inLayout(make(p), images, sizes, 0), err
	})
}

// maxPool returns the rows of MaxPool or, if inputs hold the window, of MaxPoolV2.
func maxPool(sized bool) []kernels.Def {
	return slices.Concat(
		maxPoolOf(sized, of32), maxPoolOf(sized, of64),
		maxPoolOf(sized, maxOf[int8](math.MinInt8)),
		maxPoolOf(sized, maxOf[int16](math.MinInt16)),
		maxPoolOf(sized, maxOf[int32](math.MinInt32)),
		maxPoolOf(sized, maxOf[int64](math.MinInt64)),
		maxPoolOf(sized, maxOf[uint8](0)),
		maxPoolOf(sized, maxOf[uint16](0)),
		maxPoolOf(sized, maxOf[uint32](0)),
		maxPoolOf(sized, maxOf[uint64](0)))
}

func maxPoolOf[T element.Ordered](sized bool, m poolMath[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return poolRows(dtype, sized, func(p pooling) kernels.Kernel { return &maxPoolKernel[T]{p, m, dtype, !sized} }, []int{0}, -1)
}

// maxPoolGrad and maxPoolGradGrad return the rows of the gradients of maxPool.
func maxPoolGrad(sized bool) []kernels.Def {
	return slices.Concat(maxPoolGradOf(sized, (*simd.Taps).MaxGrad), maxPoolGradOf(sized, simd.MaxGradOfTaps[float64]),
		maxPoolGradOf(sized, simd.MaxGradOfTaps[int8]), maxPoolGradOf(sized, simd.MaxGradOfTaps[int16]), maxPoolGradOf(sized, simd.MaxGradOfTaps[int32]), maxPoolGradOf(sized, simd.MaxGradOfTaps[int64]),
		maxPoolGradOf(sized, simd.MaxGradOfTaps[uint8]), maxPoolGradOf(sized, simd.MaxGradOfTaps[uint16]), maxPoolGradOf(sized, simd.MaxGradOfTaps[uint32]), maxPoolGradOf(sized, simd.MaxGradOfTaps[uint64]))
}

func maxPoolGradOf[T element.Ordered](sized bool, maxGrad func(t *simd.Taps, dst, a, grad []T, at, n int)) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return poolRows(dtype, sized, func(p pooling) kernels.Kernel { return &maxPoolGradKernel[T]{p, dtype, maxGrad, !sized} }, []int{0, 1, 2}, -1)
}

func maxPoolGradGrad(sized bool) []kernels.Def {
	return slices.Concat(maxPoolGradGradOf[float32](sized), maxPoolGradGradOf[float64](sized),
		maxPoolGradGradOf[int8](sized), maxPoolGradGradOf[int16](sized), maxPoolGradGradOf[int32](sized), maxPoolGradGradOf[int64](sized),
		maxPoolGradGradOf[uint8](sized), maxPoolGradGradOf[uint16](sized), maxPoolGradGradOf[uint32](sized), maxPoolGradGradOf[uint64](sized))
}

func maxPoolGradGradOf[T element.Ordered](sized bool) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return poolRows(dtype, sized, func(p pooling) kernels.Kernel { return &maxPoolGradGradKernel[T]{p, dtype, !sized} }, []int{0, 1, 2}, -1)
}

// avgPool and avgPoolGrad return the rows of average pooling for one element type.
func avgPool[T element.Floating](m poolMath[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return poolRows(dtype, true, func(p pooling) kernels.Kernel { return &avgPoolKernel[T]{p, m, dtype} }, []int{0}, -1)
}

func avgPoolGrad[T element.Floating](m poolMath[T]) []kernels.Def {
	dtype := element.DTypeOf[T]()
	return poolRows(dtype, true, func(p pooling) kernels.Kernel { return &avgPoolGradKernel[T]{p, m, dtype} }, []int{1}, 0)
}
