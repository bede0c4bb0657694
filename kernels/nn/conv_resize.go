package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// resizedShape returns the shape of the images at input 0 with the height and width that input 1 holds.
func resizedShape(ctx *kernels.Context) (tensor.Shape, error) {
	size := ctx.Input(1)
	if err := args.CheckType(ctx, 1, tensor.Int32); err != nil {
		return nil, err
	}
	if size.Rank() != 1 {
		return nil, status.InvalidArgumentf("shape_t must be 1-dimensional%v", size.Shape())
	}
	if size.Len() != 2 {
		return nil, status.InvalidArgumentf("shape_t must have two elements%v", size.Shape())
	}
	shape := ctx.Input(0).Shape().Clone()
	for i, n := range tensor.Of[int32](size) {
		if n <= 0 {
			return nil, status.InvalidArgumentf("output dimensions must be positive")
		}
		shape[1+i] = int64(n)
	}
	_, err := shape.NumElements()
	return shape, err
}

// blend is a pixel of a resized line: a mix of two pixels of the original.
type blend[T element.Floating] struct {
	lower, upper int32
	part         T
}

// blends lists the pixels of a line that is resized from from to to pixels.
func (k *padConvKernel[T]) blends(m *kernels.Meter, from, to int) ([]blend[T], error) {
	scale := float32(from) / float32(to)
	if k.align && from > 1 && to > 1 {
		scale = float32(from-1) / float32(to-1)
	}
	list, err := kernels.Scratch[blend[T]](m, to)
	for i := range list {
		at := float32(float32(i) * scale)
		floor := float32(math.Floor(float64(at)))
		upper := math.Ceil(float64(at))
		list[i] = blend[T]{
			lower: int32(min(int(floor), from-1)),
			upper: int32(min(int(upper), from-1)),
			part:  T(at - floor),
		}
	}
	return list, err
}

// resized returns images of another size, in which each pixel is a mix of four.
func (k *padConvKernel[T]) resized(ctx *kernels.Context, shape tensor.Shape) (*tensor.Tensor, error) {
	image := ctx.Input(0)
	meter := ctx.Meter()
	defer meter.Done()
	height, width, depth := image.Dim(1), image.Dim(2), image.Dim(3)
	rows, cols := int(shape[1]), int(shape[2])
	ys, err1 := k.blends(&meter, height, rows)
	xs, err2 := k.blends(&meter, width, cols)
	if err := args.FirstError(err1, err2); err != nil {
		return nil, err
	}
	out, err := tensor.New(ctx.Device.Pool(), element.DTypeOf[T](), shape)
	if err != nil {
		return nil, err
	}
	src, dst := element.ViewOf[T](image), element.ViewOf[T](out)
	ctx.Parallel(image.Dim(0)*rows, max(1, element.CostlyGrain/(cols*depth)), func(lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			y, first := ys[r%rows], r/rows*height
			top, bottom := src[(first+int(y.lower))*width*depth:], src[(first+int(y.upper))*width*depth:]
			for i, x := range xs {
				left, right, to := int(x.lower)*depth, int(x.upper)*depth, dst[(r*cols+i)*depth:][:depth]
				for c := range to {
					above, below := toward(top[left+c], top[right+c], x.part), toward(bottom[left+c], bottom[right+c], x.part)
					to[c] = toward(above, below, y.part)
				}
			}
		}
	})
	if err := ctx.Ended(); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// toward interpolates between a and b.
func toward[T element.Floating](a, b, part T) T { return a + (b-a)*part }
