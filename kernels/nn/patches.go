package nn

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// patchesKernel is ExtractImagePatches and ExtractVolumePatches. The elements of each window become channels, with zeros for those outside
// the image.
type patchesKernel struct {
	padding
	// size, stride and rate have an entry for each of the two or three spatial dimensions.
	size, stride, rate []int64
}

// newPatches returns the kernel for images with the given number of spatial dimensions.
func newPatches(spatial int) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		k := &patchesKernel{}
		lists := map[string]*[]int64{"ksizes": &k.size, "strides": &k.stride, "rates": &k.rate}
		for _, name := range []string{"ksizes", "strides", "rates"} {
			if name == "rates" && spatial == 3 {
				k.rate = []int64{1, 1, 1}
				continue
			}
			v, err := c.Attrs().IntList(name)
			if err != nil {
				return nil, err
			}
			if len(v) != spatial+2 {
				return nil, status.InvalidArgumentf("%s requires the %s attribute to contain %d values, but got: %d", c.Node.Op, name, spatial+2, len(v))
			}
			if v[0] != 1 || v[spatial+1] != 1 {
				return nil, status.Unimplementedf("Only support %s across space.", name)
			}
			for _, n := range v {
				if n < 1 {
					return nil, status.Errorf(status.OutOfRange, "%s is out of range.", name)
				}
			}
			*lists[name] = v[1 : spatial+1]
		}
		var w windowing
		err := w.readPadding(c)
		k.padding = w.padding
		return k, err
	}
}

// plan computes the windows over planes, rows and columns, and the shape of the result.
func (k *patchesKernel) plan(in *tensor.Tensor) (windows [3]window, shape tensor.Shape, err error) {
	spatial := len(k.size)
	if in.Rank() != spatial+2 {
		return windows, nil, status.InvalidArgumentf("input must be %d-dimensional%v", spatial+2, in.Shape())
	}
	// An image is a volume of one plane.
	windows[0] = window{in: 1, out: 1, size: 1, stride: 1, dilation: 1}
	shape = tensor.Shape{in.Shape()[0]}
	depth := in.Shape()[spatial+1]
	for i := range spatial {
		w, err := k.over(in.Shape()[1+i], k.size[i], k.stride[i], k.rate[i], 0, 0)
		if err != nil {
			return windows, nil, err
		}
		windows[3-spatial+i] = w
		shape = append(shape, int64(w.out))
		var ok bool
		if depth, ok = shapes.MulSize(depth, k.size[i]); !ok {
			return windows, nil, status.InvalidArgumentf("A window of sizes %v over %d channels has too many elements", k.size, in.Dim(spatial+1))
		}
	}
	return windows, append(shape, depth), nil
}

func (k *patchesKernel) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	windows, shape, err := k.plan(in)
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, in.DType(), shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	patchers[in.DType().Size()](ctx, out, in, windows)
	return nil
}

// patchers maps an element size to its extract function.
var patchers = map[int]func(ctx *kernels.Context, out, in *tensor.Tensor, w [3]window){
	1: extract[uint8], 2: extract[uint16], 4: extract[uint32], 8: extract[uint64], 16: extract[complex128],
}

// extract copies the patches of volumes. w holds the windows over planes, rows and columns.
func extract[T tensor.Elem](ctx *kernels.Context, out, in *tensor.Tensor, w [3]window) {
	src, dst := tensor.Of[T](in), tensor.Of[T](out)
	depth := in.Dim(in.Rank() - 1)
	size := w[0].in * w[1].in * w[2].in * depth
	patch := w[0].size * w[1].size * w[2].size * depth
	places := w[0].out * w[1].out * w[2].out
	ctx.Parallel(len(dst)/patch, max(1, element.CheapGrain/patch), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			to, image := dst[p*patch:][:patch], src[p/places*size:][:size]
			clear(to)
			at := p % places
			z, y, x := at/(w[1].out*w[2].out), at/w[2].out%w[1].out, at%w[2].out
			zlo, zhi, z0 := w[0].clip(z)
			ylo, yhi, y0 := w[1].clip(y)
			xlo, xhi, x0 := w[2].clip(x)
			for i := zlo; i < zhi; i++ {
				for j := ylo; j < yhi; j++ {
					for k := xlo; k < xhi; k++ {
						from := (((z0+i*w[0].dilation)*w[1].in+y0+j*w[1].dilation)*w[2].in + x0 + k*w[2].dilation) * depth
						copy(to[((i*w[1].size+j)*w[2].size+k)*depth:][:depth], image[from:])
					}
				}
			}
		}
	})
}
