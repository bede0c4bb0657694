package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// window describes how a window moves along one dimension of an image.
type window struct {
	in, out      int // sizes of the image's dimension and of the result's
	size, stride int
	dilation     int // distance between the elements of the window
	before       int // padding before the first element
}

// clip returns the part of the window at result o that lies in the image: elements lo to hi of the window, and the index in the image that
// its element 0 would have.
func (w *window) clip(o int) (lo, hi, at int) {
	at = o*w.stride - w.before
	if at < 0 {
		lo = (-at + w.dilation - 1) / w.dilation
	}
	hi = w.size
	if over := at + (w.size-1)*w.dilation - (w.in - 1); over > 0 {
		hi = w.size - (over+w.dilation-1)/w.dilation
	}
	return min(lo, w.size), max(hi, 0), at
}

// run is a sequence of results whose windows the image clips alike, to elements lo to hi. Element 0 of the first window would have index at
// in the image.
type run struct{ first, n, lo, hi, at int }

// runs divides the results into runs.
func (w *window) runs() []run {
	var runs []run
	for o := range w.out {
		lo, hi, at := w.clip(o)
		if last := len(runs) - 1; last >= 0 && runs[last].lo == lo && runs[last].hi == hi {
			runs[last].n++
		} else {
			runs = append(runs, run{o, 1, lo, hi, at})
		}
	}
	return runs
}

// within returns the part of the run from result lo up to hi, for windows that move by stride.
func (r run) within(lo, hi, stride int) run {
	first := max(r.first, lo)
	return run{first, min(r.first+r.n, hi) - first, r.lo, r.hi, r.at + (first-r.first)*stride}
}

// eachRectangle calls visit for the parts of result rows lo to hi, counted through all images, whose windows an image clips alike: the runs
// y of rows and x of columns of image n. down and across hold the runs.
func eachRectangle(rows *window, lo, hi int, down, across []run, visit func(n int, y, x run)) {
	for n := lo / rows.out; n*rows.out < hi; n++ {
		for _, y := range down {
			if y = y.within(lo-n*rows.out, hi-n*rows.out, rows.stride); y.n <= 0 {
				continue
			}
			for _, x := range across {
				visit(n, y, x)
			}
		}
	}
}

// reversed returns a window over results. Its positions are the elements of the image that lie a stride apart, starting at index at; at
// each, it covers the results whose windows see that element. first is the first element of w that sees one. Element j of the returned
// window stands for element first + (size-1-j)·stride of w. If size is not positive, it has no elements.
func (w *window) reversed(at int) (over window, first int) {
	first = (at + w.before) % w.stride
	size := (w.size - first + w.stride - 1) / w.stride
	return window{
		in: w.out, out: (w.in - at + w.stride - 1) / w.stride, size: size, stride: 1, dilation: 1,
		before: size - 1 - (at+w.before-first)/w.stride,
	}, first
}

// phases returns the reversed windows that start at each element below the stride, as far as the image has that many.
func (w *window) phases() []window {
	phases := make([]window, min(w.stride, w.in))
	for i := range phases {
		phases[i], _ = w.reversed(i)
	}
	return phases
}

// padding holds an op's padding attributes: SAME, VALID or EXPLICIT with the rows and columns to add.
type padding struct {
	kind                     string
	top, bottom, left, right int64
}

// windowing holds the attributes of ops that move a window over images.
type windowing struct {
	channelsFirst         bool
	strideRows, strideCol int64
	dilateRows, dilateCol int64
	padding
}

// height, width and depth return the indices of these dimensions in lists of four.
func (w *windowing) height() int { return w.width() - 1 }

func (w *windowing) width() int {
	if w.channelsFirst {
		return 3
	}
	return 2
}

func (w *windowing) depth() int {
	if w.channelsFirst {
		return 1
	}
	return 3
}

// readPadding reads padding and, if the op has it, explicit_paddings.
func (w *windowing) readPadding(c *kernels.Construction) error {
	kind, err := c.Attrs().Str("padding")
	if err != nil {
		return err
	}
	w.kind = kind
	switch kind {
	case "SAME", "VALID":
		return nil
	case "EXPLICIT":
	default:
		return status.InvalidArgumentf("Unknown padding type: %s", kind)
	}
	p, err := c.Attrs().IntList("explicit_paddings")
	if err != nil {
		return err
	}
	if len(p) != 8 {
		return status.InvalidArgumentf("explicit_paddings attribute must contain 8 values, but got: %d", len(p))
	}
	for i, v := range p {
		if v < 0 || v > 1<<31-1 {
			return status.InvalidArgumentf("All elements of explicit_paddings must be nonnegative")
		}
		if d := i / 2; v != 0 && (d == 0 || d == w.depth()) {
			return status.InvalidArgumentf("Nonzero explicit padding in the batch or depth dimensions is not supported")
		}
	}
	w.top, w.bottom = p[2*w.height()], p[2*w.height()+1]
	w.left, w.right = p[2*w.width()], p[2*w.width()+1]
	return nil
}

// rows and columns return the windows over an image of the given height or width.
func (w *windowing) rows(in, size int64) (window, error) {
	return w.over(in, size, w.strideRows, max(1, w.dilateRows), w.top, w.bottom)
}

func (w *windowing) columns(in, size int64) (window, error) {
	return w.over(in, size, w.strideCol, max(1, w.dilateCol), w.left, w.right)
}

func (p *padding) over(in, size, stride, dilation, before, after int64) (window, error) {
	if stride <= 0 {
		return window{}, status.InvalidArgumentf("Stride must be > 0, but got %d", stride)
	}
	const most = 1<<31 - 1
	if size <= 0 || in > most || size > most || stride > most || dilation > most {
		return window{}, status.InvalidArgumentf("A window of size %d with stride %d and dilation %d cannot move over %d elements", size, stride, dilation, in)
	}
	effective := (size-1)*dilation + 1
	out := int64(0)
	switch p.kind {
	case "SAME":
		out = (in + stride - 1) / stride
		before = max(0, (out-1)*stride+effective-in) / 2
	case "VALID":
		before = 0
		out = (in - effective + stride) / stride
	case "EXPLICIT":
		out = (in + before + after - effective + stride) / stride
	}
	if out < 0 {
		return window{}, status.InvalidArgumentf("Computed output size would be negative: %d [input_size: %d, effective_filter_size: %d, stride: %d]", out, in, effective, stride)
	}
	return window{in: int(in), out: int(out), size: int(size), stride: int(stride), dilation: int(dilation), before: int(before)}, nil
}

// channelLayout adapts a kernel for images whose channels come last to images whose channels come first.
type channelLayout struct {
	inner kernels.Kernel
	// images are the inputs and results the outputs that are images. sizes is the input that holds the shape of an image, or -1.
	images  []int
	sizes   int
	results []int
}

func (k *channelLayout) Compute(ctx *kernels.Context) error {
	sub := *ctx
	sub.Inputs = append([]kernels.Value(nil), ctx.Inputs...)
	sub.Outputs = make([]kernels.Value, len(ctx.Outputs))
	defer func() {
		for i, v := range sub.Inputs {
			if v.Tensor != ctx.Inputs[i].Tensor {
				v.Release()
			}
		}
		for _, v := range sub.Outputs {
			v.Release()
		}
	}()
	for _, i := range k.images {
		if t := ctx.Inputs[i].Tensor; t.Rank() > 2 {
			s := t.Shape()
			last := append(append(tensor.Shape{s[0]}, s[2:]...), s[1])
			moved, err := ctx.Device.Memory().New(t.DType(), last)
			if err != nil {
				return err
			}
			sub.Inputs[i].Tensor = moved
			moveChannels(ctx, moved, t, int(s[0]), int(s[1]), s[2:].Elements())
		}
	}
	if k.sizes >= 0 {
		if t := ctx.Inputs[k.sizes].Tensor; t.Rank() == 1 && t.Len() > 2 && t.DType().Size() > 0 {
			moved, err := tensor.New(ctx.Device.Pool(), t.DType(), t.Shape())
			if err != nil {
				return err
			}
			sub.Inputs[k.sizes].Tensor = moved
			size, from := t.DType().Size(), t.Data()
			to := append(append(moved.Data()[:0], from[:size]...), from[2*size:]...)
			copy(moved.Data()[len(to):], from[size:2*size])
		}
	}
	if err := k.inner.Compute(&sub); err != nil {
		return err
	}
	for _, o := range k.results {
		t := sub.Outputs[o].Tensor
		s := t.Shape()
		last := len(s) - 1
		out, err := ctx.Allocate(o, t.DType(), append(tensor.Shape{s[0], s[last]}, s[1:last]...))
		if err != nil {
			return err
		}
		moveChannels(ctx, out, t, int(s[0]), s[1:last].Elements(), int(s[last]))
	}
	for o, v := range sub.Outputs {
		if ctx.Outputs[o].Tensor == nil {
			ctx.Outputs[o], sub.Outputs[o] = v, kernels.Value{}
		}
	}
	return nil
}

// moveChannels transposes each of n matrices of the given size.
func moveChannels(ctx *kernels.Context, dst, src *tensor.Tensor, n, rows, columns int) {
	dev := ctx.Device
	if src.Len() == 0 {
		return
	}
	if a, ok := dev.(kernels.Accelerator); ok {
		moveChannelsOn(ctx, a, dst, src, n, rows, columns)
		return
	}
	transposers[src.DType().Size()](ctx, dst, src, n, rows, columns)
}

// transposers maps an element size to a function that transposes matrices. It has the sizes that images and filters use.
var transposers = map[int]func(ctx *kernels.Context, dst, src *tensor.Tensor, n, rows, columns int){
	1: transposer(simd.TransposeAny[uint8]), 2: transposer(simd.TransposeAny[uint16]), 4: transposer(simd.Transpose[uint32]), 8: transposer(simd.TransposeAny[uint64]),
}

func transposer[T tensor.Elem](turn func(dst []T, ldd int, src []T, lds, rows, columns int)) func(ctx *kernels.Context, dst, src *tensor.Tensor, n, rows, columns int) {
	return func(ctx *kernels.Context, out, in *tensor.Tensor, n, rows, columns int) {
		dst, src, size := tensor.Of[T](out), tensor.Of[T](in), rows*columns
		ctx.Parallel(n, max(1, element.CheapGrain/size), func(lo, hi int) {
			for at := lo * size; at < hi*size; at += size {
				turn(dst[at:][:size], rows, src[at:][:size], columns, columns, rows)
			}
		})
	}
}
