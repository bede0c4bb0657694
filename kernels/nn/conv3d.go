package nn

import (
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// volume3 holds the sizes of a convolution over volumes whose channels come last. For each place along the first spatial dimension, it is a
// sum of convolutions of the planes that the filter sees.
type volume3 struct {
	plane  convolution // of one plane
	planes window
	batch  int
}

// windowing3 is windowing with a third spatial dimension.
type windowing3 struct {
	windowing
	stridePlanes, dilatePlanes int64
}

func newWindowing3(c *kernels.Construction) (w windowing3, err error) {
	if _, ok := c.Attrs()["data_format"]; ok { // the first versions of the gradients lack it
		if w.channelsFirst, err = args.ChannelsFirst(c); err != nil {
			return w, err
		}
	}
	a := c.Attrs().Reader()
	strides, dilations := a.IntList("strides"), a.IntList("dilations")
	if err := a.Err(); err != nil {
		return w, err
	}
	if len(strides) != 5 {
		return w, status.InvalidArgumentf("Sliding window strides field must specify 5 dimensions")
	}
	if len(dilations) != 5 {
		return w, status.InvalidArgumentf("Dilation rates field must specify 5 dimensions")
	}
	first, depth := 1, 4
	if w.channelsFirst {
		first, depth = 2, 1
	}
	if strides[0] != 1 || strides[depth] != 1 {
		return w, status.InvalidArgumentf("Current implementation does not yet support strides in the batch and depth dimensions.")
	}
	if dilations[0] != 1 || dilations[depth] != 1 {
		return w, status.InvalidArgumentf("Current implementation does not yet support dilation rates in the batch and depth dimensions.")
	}
	if min(strides[first], strides[first+1], strides[first+2]) <= 0 {
		return w, status.InvalidArgumentf("Spatial strides should be larger than 0.")
	}
	if min(dilations[first], dilations[first+1], dilations[first+2]) <= 0 {
		return w, status.InvalidArgumentf("Dilated rates should be larger than 0.")
	}
	w.stridePlanes, w.strideRows, w.strideCol = strides[first], strides[first+1], strides[first+2]
	w.dilatePlanes, w.dilateRows, w.dilateCol = dilations[first], dilations[first+1], dilations[first+2]
	if w.kind, err = c.Attrs().Str("padding"); err == nil && w.kind != "SAME" && w.kind != "VALID" {
		err = status.Unimplementedf("Padding %s is not supported for volumes", w.kind)
	}
	return w, err
}

// plan checks the shapes of volume and filter and computes the windows.
func (w *windowing3) plan(image, filter tensor.Shape) (v volume3, err error) {
	if len(image) != 5 {
		return v, status.InvalidArgumentf("input must be 5-dimensional")
	}
	if len(filter) != 5 {
		return v, status.InvalidArgumentf("filter must be 5-dimensional")
	}
	if filter[3] == 0 {
		return v, status.InvalidArgumentf("filter_depth must be non-zero")
	}
	if image[4]%filter[3] != 0 {
		return v, status.InvalidArgumentf("Input depth must be evenly divisible by filter depth: %d vs %d", image[4], filter[3])
	}
	if n, err := filter.NumElements(); err != nil {
		return v, err
	} else if n == 0 {
		return v, errEmptyFilter()
	}
	if _, err := image.NumElements(); err != nil {
		return v, err
	}
	if v.planes, err = w.over(image[1], filter[0], w.stridePlanes, w.dilatePlanes, 0, 0); err != nil {
		return v, err
	}
	v.batch = int(image[0])
	v.plane, err = w.windowing.plan(tensor.Shape{1, image[2], image[3], image[4]}, filter[1:])
	return v, err
}

func (v *volume3) outShape() tensor.Shape {
	return tensor.Shape{int64(v.batch), int64(v.planes.out), int64(v.plane.rows.out), int64(v.plane.cols.out), int64(v.plane.outDepth)}
}

// checkGradient rejects a gradient that does not have the result's shape.
func (v *volume3) checkGradient(grad tensor.Shape) error {
	if want := v.outShape(); !grad.Equal(want) {
		return status.InvalidArgumentf("Size of out_backprop doesn't match computed: actual = %v, computed = %v", grad, want)
	}
	return nil
}

// each calls visit for each pair of a result plane and a filter plane that meet in a plane of the volume, with the offsets of all three.
// first is set for the first pair of a result plane.
func (v *volume3) each(visit func(out, image, filter int, first bool) error) error {
	p := &v.plane
	outSize, imageSize, filterSize := p.rows.out*p.cols.out*p.outDepth, p.rows.in*p.cols.in*p.inDepth, p.patch()*p.outDepth
	for n := range v.batch {
		for o := range v.planes.out {
			lo, hi, at := v.planes.clip(o)
			for k := lo; k < hi; k++ {
				image := (n*v.planes.in + at + k*v.planes.dilation) * imageSize
				if err := visit((n*v.planes.out+o)*outSize, image, k*filterSize, k == lo); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// conv3 returns the kernel of Conv3D. conv3InputGrad and conv3FilterGrad return those of its gradients.
func conv3[T element.Numeric](w windowing3, by methods[T]) kernels.Func {
	return func(ctx *kernels.Context) error {
		image, filter := ctx.Input(0), ctx.Input(1)
		dtype := element.DTypeOf[T]()
		if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype)); err != nil {
			return err
		}
		v, err := w.plan(image.Shape(), filter.Shape())
		if err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, v.outShape())
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, src, f := element.ViewOf[T](out), element.ViewOf[T](image), element.ViewOf[T](filter)
		if err := kernels.Clear(ctx, dst); err != nil {
			return err
		}
		p := &v.plane
		outSize, imageSize, filterSize := p.places()*p.outDepth, p.rows.in*p.cols.in*p.inDepth, p.patch()*p.outDepth
		return v.each(func(o, i, k int, first bool) error {
			return convolve(ctx, p, by, dst[o:o+outSize], src[i:i+imageSize], f[k:k+filterSize], !first)
		})
	}
}

// shape3 returns the shape that input i holds or, in the first versions of the ops, has.
func shape3(ctx *kernels.Context, i int, spelled bool, what string) (tensor.Shape, error) {
	if spelled {
		return sizesInput(ctx, i, 5, what)
	}
	s := ctx.Input(i).Shape()
	if len(s) != 5 {
		return nil, status.InvalidArgumentf("input and filter must be 5-dimensional, not %v", s)
	}
	return s, nil
}

func conv3InputGrad[T element.Numeric](w windowing3, by methods[T], spelled bool) kernels.Func {
	return func(ctx *kernels.Context) error {
		filter, grad := ctx.Input(1), ctx.Input(2)
		dtype := element.DTypeOf[T]()
		if err := args.FirstError(args.CheckType(ctx, 1, dtype), args.CheckType(ctx, 2, dtype)); err != nil {
			return err
		}
		shape, err := shape3(ctx, 0, spelled, "input_sizes")
		if err != nil {
			return err
		}
		if done, err := withoutFilter(ctx, dtype, filter.Shape(), shape); done {
			return err
		}
		v, err := w.plan(shape, filter.Shape())
		if err != nil {
			return err
		}
		if err := v.checkGradient(grad.Shape()); err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, g, f := element.ViewOf[T](out), element.ViewOf[T](grad), element.ViewOf[T](filter)
		if err := kernels.Clear(ctx, dst); err != nil {
			return err
		}
		p := &v.plane
		outSize, imageSize, filterSize := p.places()*p.outDepth, p.rows.in*p.cols.in*p.inDepth, p.patch()*p.outDepth
		return v.each(func(o, i, k int, _ bool) error {
			return inputGrad(ctx, p, by, dst[i:i+imageSize], f[k:k+filterSize], g[o:o+outSize], true)
		})
	}
}

func conv3FilterGrad[T element.Numeric](w windowing3, by methods[T], spelled bool) kernels.Func {
	return func(ctx *kernels.Context) error {
		image, grad := ctx.Input(0), ctx.Input(2)
		dtype := element.DTypeOf[T]()
		if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 2, dtype)); err != nil {
			return err
		}
		shape, err := shape3(ctx, 1, spelled, "filter_sizes")
		if err != nil {
			return err
		}
		if done, err := withoutFilter(ctx, dtype, shape, shape); done {
			return err
		}
		v, err := w.plan(image.Shape(), shape)
		if err != nil {
			return err
		}
		if err := v.checkGradient(grad.Shape()); err != nil {
			return err
		}
		out, err := ctx.Allocate(0, dtype, shape)
		if err != nil || out.Len() == 0 {
			return err
		}
		dst, g, src := element.ViewOf[T](out), element.ViewOf[T](grad), element.ViewOf[T](image)
		if err := kernels.Clear(ctx, dst); err != nil {
			return err
		}
		p := &v.plane
		outSize, imageSize, filterSize := p.places()*p.outDepth, p.rows.in*p.cols.in*p.inDepth, p.patch()*p.outDepth
		return v.each(func(o, i, k int, _ bool) error {
			return filterGrad(ctx, p, by, dst[k:k+filterSize], src[i:i+imageSize], g[o:o+outSize], true)
		})
	}
}

// window3Rows returns the rows of an op on volumes for one element type, like windowRows.
func window3Rows[T element.Numeric](by methods[T], make func(w windowing3, by methods[T]) kernels.Func, images []int, sizes int, results ...int) []kernels.Def {
	return halves.Rows("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		w, err := newWindowing3(c)
		if err != nil {
			return nil, err
		}
		return w.inLayout(make(w, by), images, sizes, results...), nil
	})
}

// convolve3Rows, convolve3InputGradRows and convolve3FilterGradRows return the rows of Conv3D and its gradients for one element type. The
// first versions of the gradients take the input or the filter itself; later versions take its shape.
func convolve3Rows[T element.Numeric](by methods[T]) []kernels.Def {
	return window3Rows(by, conv3[T], []int{0}, -1, 0)
}

func convolve3InputGradRows[T element.Numeric](by methods[T], spelled bool) []kernels.Def {
	return window3Rows(by, func(w windowing3, by methods[T]) kernels.Func { return conv3InputGrad(w, by, spelled) }, []int{2}, 0, 0)
}

func convolve3FilterGradRows[T element.Numeric](by methods[T], spelled bool) []kernels.Def {
	return window3Rows(by, func(w windowing3, by methods[T]) kernels.Func { return conv3FilterGrad(w, by, spelled) }, []int{0, 2}, -1)
}

// convRows returns the rows of Conv for one element type.
func convRows[T element.Numeric](by methods[T]) []kernels.Def {
	return halves.Rows("T", element.DTypeOf[T](), newConv(by))
}

// newConv returns the constructor of Conv, which is Conv2D or Conv3D depending on the number of strides.
func newConv[T element.Numeric](by methods[T]) func(c *kernels.Construction) (any, error) {
	return func(c *kernels.Construction) (any, error) {
		a := c.Attrs().Reader()
		format, strides, dilations := a.Str("data_format"), a.IntList("strides"), a.IntList("dilations")
		batchDims, groups := a.Int("batch_dims"), a.Int("groups")
		if err := a.Err(); err != nil {
			return nil, err
		}
		if batchDims < 0 {
			return nil, status.InvalidArgumentf("Batch dims must be non-negative.")
		}
		if groups != 1 {
			return nil, status.Unimplementedf("Conv with groups=%d is not supported", groups)
		}
		if len(dilations) == 0 {
			for range strides {
				dilations = append(dilations, 1)
			}
		}
		if len(dilations) != len(strides) {
			return nil, status.InvalidArgumentf("Dilation rates field must specify %d dimensions", len(strides))
		}
		inner := *c
		node := *c.Node
		inner.Node = &node
		node.Attrs = convAttrs(c.Attrs(), format, len(strides), dilations)
		kernel, err := convOf(&inner, len(strides), by)
		if err != nil {
			return nil, err
		}
		depth := len(strides) - 1
		if format == "CHANNELS_FIRST" {
			depth = 1
		}
		kernel = ungrouped(kernel, len(strides), depth)
		if batchDims != 1 {
			kernel = &batchedConv{kernel, int(min(batchDims, tensor.MaxRank)), len(strides) - 1}
		}
		return kernel, nil
	}
}

// ungrouped wraps a convolution to reject grouped channels and filters without elements, as Conv does. Older ops accept empty filters.
// depth is the channel dimension of the images.
func ungrouped(inner kernels.Kernel, rank, depth int) kernels.Kernel {
	return kernels.Func(func(ctx *kernels.Context) error {
		image, filter := ctx.Input(0).Shape(), ctx.Input(1).Shape()
		if slices.Contains(filter, 0) {
			return errEmptyFilter()
		}
		if len(image) == rank && len(filter) == rank && image[depth] != filter[rank-2] {
			return status.InvalidArgumentf("Input depth must be equal to filter depth: %d vs %d", image[depth], filter[rank-2])
		}
		return inner.Compute(ctx)
	})
}

// convOf returns the kernel of Conv2D or, given five strides, of Conv3D.
func convOf[T element.Numeric](c *kernels.Construction, strides int, by methods[T]) (kernels.Kernel, error) {
	if strides == 5 {
		w, err := newWindowing3(c)
		if err != nil {
			return nil, err
		}
		return w.inLayout(conv3(w, by), []int{0}, -1, 0), nil
	}
	w, err := newWindowing(c)
	if err != nil {
		return nil, err
	}
	return conv2(w, by), nil
}

// batchedConv is a convolution of images with any number of leading batch dimensions.
type batchedConv struct {
	inner  kernels.Kernel
	batch  int // the number of batch dimensions
	others int
}

func (k *batchedConv) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if in.Rank() != k.batch+k.others {
		return status.InvalidArgumentf("Input tensor must be rank %d, excluding extra batch dimensions, but got: %d", k.others+1, in.Rank()-(k.batch-1))
	}
	batch, item := in.Shape()[:k.batch], in.Shape()[k.batch:]
	flat := in.Reshaped(append(tensor.Shape{int64(batch.Elements())}, item...))
	defer flat.Release()
	sub := *ctx
	sub.Inputs = append([]kernels.Value{{Tensor: flat}}, ctx.Inputs[1:]...)
	sub.Outputs = make([]kernels.Value, len(ctx.Outputs))
	err := k.inner.Compute(&sub)
	out := sub.Outputs[0]
	defer out.Release()
	if err == nil {
		ctx.SetOutput(0, out.Tensor.Reshaped(append(batch.Clone(), out.Tensor.Shape()[1:]...)))
	}
	return err
}

// convAttrs returns Conv's attributes under the names that Conv2D and Conv3D use.
func convAttrs(attrs graph.Attrs, format string, rank int, dilations []int64) graph.Attrs {
	names := map[bool]string{false: "NHWC", true: "NCHW"}
	if rank == 5 {
		names = map[bool]string{false: "NDHWC", true: "NCDHW"}
	}
	out := maps.Clone(attrs)
	out["data_format"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(names[format == "CHANNELS_FIRST"])}}
	out["dilations"] = &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{I: dilations}}}
	return out
}
