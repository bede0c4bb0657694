package quantized

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// convKernel is QuantizedConv2D, a convolution of the numbers' distances from zero. Sums wrap at 32 bits.
type convKernel struct {
	stride int
	same   bool
}

func newConv(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	strides, dilations, padding := a.IntList("strides"), a.IntList("dilations"), a.Str("padding")
	if err := a.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(strides) != 4:
		return nil, status.InvalidArgumentf("Sliding window strides field must specify 4 dimensions")
	case strides[1] != strides[2]:
		return nil, status.InvalidArgumentf("Current implementation only supports equal length strides in the row and column dimensions.")
	case strides[0] != 1 || strides[3] != 1:
		return nil, status.InvalidArgumentf("Current implementation does not yet support strides in the batch and depth dimensions.")
	case len(dilations) != 4:
		return nil, status.InvalidArgumentf("Dilations field must specify 4 dimensions")
	case dilations[1] != 1 || dilations[2] != 1:
		return nil, status.InvalidArgumentf("Current implementation only supports dilated rate as 1 in the row and column dimensions.")
	case dilations[0] != 1 || dilations[3] != 1:
		return nil, status.InvalidArgumentf("Current implementation does not yet support dilations in the batch and depth dimensions.")
	case strides[1] <= 0 || strides[1] > 1<<31-1:
		return nil, status.InvalidArgumentf("Stride must be > 0, but got %d", strides[1])
	case padding != "SAME" && padding != "VALID":
		return nil, status.InvalidArgumentf("Unknown padding type: %s", padding)
	}
	return &convKernel{int(strides[1]), padding == "SAME"}, nil
}

// slide describes how the window moves along a dimension: the number of places, and where the first one begins.
type slide struct{ in, size, out, begin int }

func (k *convKernel) slide(in, size int) (slide, error) {
	s := slide{in: in, size: size, out: (in - size + k.stride) / k.stride}
	if k.same {
		s.out = (in + k.stride - 1) / k.stride
	}
	if s.out <= 0 {
		return s, status.InvalidArgumentf("Computed output size would be negative: %d [input_size: %d, effective_filter_size: %d, stride: %d]", s.out, in, size, k.stride)
	}
	over := (s.out-1)*k.stride + size - in
	if !k.same {
		over++
	}
	s.begin = -(over / 2)
	return s, nil
}

// clip returns the part of the window at a place that lies in the input, and the index in the input that the window's first element would
// have.
func (s *slide) clip(place, stride int) (lo, hi, at int) {
	at = s.begin + place*stride
	return min(max(0, -at), s.size), max(0, min(s.size, s.in-at)), at
}

func (k *convKernel) Compute(ctx *kernels.Context) error {
	if err := checkTypes(ctx, tensor.QUint8, tensor.QUint8); err != nil {
		return err
	}
	in, filter := ctx.Input(0), ctx.Input(1)
	for _, d := range in.Shape() {
		if d == 0 {
			return status.InvalidArgumentf("Invalid input: Shapes dimension cannot be 0.")
		}
	}
	if in.Rank() != 4 {
		return status.InvalidArgumentf("input must be rank 4 but is rank %d", in.Rank())
	}
	if filter.Rank() != 4 {
		return status.InvalidArgumentf("filter must be rank 4 but is rank %d", filter.Rank())
	}
	plain := func(names ...string) func(int, *tensor.Tensor) error {
		return func(i int, t *tensor.Tensor) error {
			return status.InvalidArgumentf("%s must be rank 0 but is rank %d", names[i], t.Rank())
		}
	}
	xs, err1 := spanAt(ctx, 2, plain("min_input", "max_input"))
	ws, err2 := spanAt(ctx, 4, plain("min_filter", "max_filter"))
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	depth, count := in.Dim(3), filter.Dim(3)
	if depth != filter.Dim(2) {
		return status.InvalidArgumentf("input and filter must have the same depth: %d vs %d", depth, filter.Dim(2))
	}
	if filter.Len() == 0 {
		return status.InvalidArgumentf("Invalid filter: Shapes dimension cannot be 0.")
	}
	rows, err1 := k.slide(in.Dim(1), filter.Dim(0))
	cols, err2 := k.slide(in.Dim(2), filter.Dim(1))
	if err := args.FirstError(err1, err2); err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.QInt32, tensor.Shape{in.Shape()[0], int64(rows.out), int64(cols.out), int64(count)})
	if err != nil {
		return err
	}
	src, weights, dst := tensor.Of[uint8](in), tensor.Of[uint8](filter), tensor.Of[int32](out)
	zeroX, zeroW := int32(unclamped[uint8](0, xs)), int32(unclamped[uint8](0, ws))
	places := in.Dim(0) * rows.out * cols.out
	ctx.Parallel(places, max(1, element.CheapGrain/filter.Len()), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			sums := dst[p*count:][:count]
			clear(sums)
			image := p / (rows.out * cols.out) * rows.in
			ylo, yhi, y0 := rows.clip(p/cols.out%rows.out, k.stride)
			xlo, xhi, x0 := cols.clip(p%cols.out, k.stride)
			for y := ylo; y < yhi; y++ {
				for x := xlo; x < xhi; x++ {
					pixel := src[((image+y0+y)*cols.in+x0+x)*depth:][:depth]
					at := (y*cols.size + x) * depth * count
					for c, v := range pixel {
						v := int32(v) - zeroX
						for o, w := range weights[at+c*count:][:count] {
							sums[o] += v * (int32(w) - zeroW)
						}
					}
				}
			}
		}
	})
	return product[uint8, uint8, int32](xs, ws).put(ctx, 1)
}
