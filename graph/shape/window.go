package shape

// windowOps are the ops that slide a window over the spatial dimensions: convolutions and pools.
var windowOps = []row{
	{"Conv", conv},
	{"Conv2D", conv2D},
	{"Conv3D", conv3D},
	{"DepthwiseConv2dNative", depthwise},
	{"Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter", spelledOf(1, 4)},
	{"Conv2DBackpropInput", conv2DBackpropInput},
	{"DepthwiseConv2dNativeBackpropInput", spelledOf(0, 4)},
	{"Conv3DBackpropFilterV2", spelledOf(1, 5)},
	{"Conv3DBackpropInputV2", spelledOf(0, 5)},
	{"AvgPool", func(c *call) { c.pool2D(false, true) }},
	{"MaxPool", func(c *call) { c.pool2D(true, false) }},
	{"MaxPoolV2", maxPoolV2},
	{"AvgPool3D MaxPool3D", pool3D},
	{"AvgPoolGrad", spelledOf(0, 4)},
	{"AvgPool3DGrad", spelledOf(0, 5)},
	{"MaxPoolGrad MaxPoolGradV2", unchangedOf(4)},
	{"MaxPool3DGrad", unchangedOf(5)},
	{"MaxPoolGradGrad", gradGrad(func(c *call) { c.pool2D(true, false) })},
	{"MaxPoolGradGradV2", gradGrad(maxPoolV2)},
	{"MaxPool3DGradGrad", gradGrad(pool3D)},
	{"Conv3DBackpropInput", unchangedOf(5)},
	{"Conv3DBackpropFilter", func(c *call) { c.set(0, c.is(c.in(1), 5)) }},
}

// spelledOf is for ops whose output shape is the value of an input.
func spelledOf(input, rank int) rule {
	return func(c *call) { c.set(0, c.is(c.shapeOf(input), rank)) }
}

// window is how a window moves over one dimension.
type window struct {
	size, stride, dilation int64
	before, after          int64 // explicit padding
}

// slid returns the output size of a window that slides over a dimension.
func (c *call) slid(d int64, w window, padding string) int64 {
	if w.stride <= 0 {
		c.fail("Stride must be > 0, but got %d", w.stride)
		return -1
	}
	if w.dilation < 1 {
		c.fail("Dilation rate must be >= 1, but got %d", w.dilation)
		return -1
	}
	switch padding {
	case "SAME":
		return c.div(c.add(d, w.stride-1), w.stride, false)
	case "VALID":
		w.before, w.after = 0, 0
	case "EXPLICIT":
	default:
		c.fail("%s is not an allowed padding type", padding)
		return -1
	}
	d = c.add(d, c.add(w.before, w.after))
	size := w.size
	if w.dilation > 1 {
		size = c.add(c.mul(c.minus(size, 1), w.dilation), 1)
	}
	return c.div(c.add(c.minus(d, size), w.stride), w.stride, false)
}

// numbers returns an attribute with a number for each dimension.
func (c *call) numbers(attr string, n int) []int64 {
	v := c.IntList(attr)
	if len(v) != n {
		c.fail("%s requires the %s attribute to contain %d values, but got: %d", c.Op, attr, n, len(v))
		return make([]int64, n)
	}
	return v
}

// paddingOf returns the padding attributes: the kind, and for an explicit one, the padding of each dimension.
func (c *call) paddingOf(l layout) (kind string, explicit []int64) {
	kind = c.Str("padding")
	if c.Has("explicit_paddings") {
		explicit = c.IntList("explicit_paddings")
	}
	if kind != "EXPLICIT" {
		if len(explicit) > 0 {
			c.fail("explicit_paddings attribute must be empty if the padding attribute is not EXPLICIT")
		}
		return kind, make([]int64, 8)
	}
	if len(explicit) != 8 {
		c.fail("explicit_paddings attribute must contain 8 values, but got: %d", len(explicit))
		return kind, make([]int64, 8)
	}
	for i, p := range explicit {
		if p < 0 {
			c.fail("All elements of explicit_paddings must be nonnegative")
			return kind, make([]int64, 8)
		}
		if dim := i / 2; p != 0 && (dim == 0 || dim == l.channel) {
			c.fail("Nonzero explicit padding in the batch or depth dimensions is not supported")
		}
	}
	return kind, explicit
}

// groups checks that the depths of the input and of the filter match, and that the depth of the output matches their ratio.
func (c *call) groups(in, filter, out int64) {
	if in < 0 || filter < 0 {
		return
	}
	switch {
	case filter == 0:
		c.fail("Depth of filter must not be 0")
	case in%filter != 0:
		c.fail("Depth of input (%d) is not a multiple of input depth of filter (%d)", in, filter)
	case in == filter || out < 0:
	case in/filter == 0:
		c.fail("Number of groups must not be 0")
	case out%(in/filter) != 0:
		c.fail("Depth of output (%d) is not a multiple of the number of groups (%d)", out, in/filter)
	}
}

func conv2D(c *call) {
	l := c.layoutOf(2)
	if l.packed {
		c.fail("Conv2D on data format NCHW_VECT_C is not supported")
		return
	}
	in, filter := c.is(c.in(0), 4), c.is(c.in(1), 4)
	dilations, strides := c.numbers("dilations", 4), c.numbers("strides", 4)
	c.groups(in.at(l.channel), filter.at(2), filter.at(3))
	kind, pad := c.paddingOf(l)
	c.set(0, l.shape(in.at(0), filter.at(3), c.slide(in, l, 2, kind, func(i int) window {
		d := l.spatial + i
		return window{filter.at(i), strides[d], dilations[d], pad[2*d], pad[2*d+1]}
	})...))
}

// slide slides windows over the spatial dimensions.
func (c *call) slide(in Shape, l layout, spatial int, padding string, w func(i int) window) []int64 {
	out := make([]int64, spatial)
	for i := range out {
		out[i] = c.slid(in.at(l.spatial+i), w(i), padding)
	}
	return out
}

func conv3D(c *call) {
	l := c.layoutOf(3)
	in, filter := c.is(c.in(0), 5), c.is(c.in(1), 5)
	dilations, strides := c.numbers("dilations", 5), c.numbers("strides", 5)
	c.groups(in.at(l.channel), filter.at(3), filter.at(4))
	c.set(0, l.shape(in.at(0), filter.at(4), c.slide(in, l, 3, c.Str("padding"), func(i int) window {
		return window{size: filter.at(i), stride: strides[l.spatial+i], dilation: dilations[l.spatial+i]}
	})...))
}

func depthwise(c *call) {
	l := c.layoutOf(2)
	if l.packed {
		c.fail("DepthwiseConv2dNative on data format NCHW_VECT_C is not supported")
		return
	}
	in, filter := c.is(c.in(0), 4), c.is(c.in(1), 4)
	strides, dilations := c.numbers("strides", 4), c.numbers("dilations", 4)
	depth := c.mul(c.equal(in.at(l.channel), filter.at(2)), filter.at(3))
	kind, pad := c.paddingOf(l)
	c.set(0, l.shape(in.at(0), depth, c.slide(in, l, 2, kind, func(i int) window {
		d := l.spatial + i
		return window{filter.at(i), strides[d], dilations[d], pad[2*d], pad[2*d+1]}
	})...))
}

// conv is the convolution with several batch dimensions and explicit groups.
func conv(c *call) {
	in, filter := c.in(0), c.in(1)
	if !in.known || !filter.known {
		return
	}
	batch := int(c.Int32("batch_dims"))
	rank := len(in.dims) - (batch - 1)
	switch {
	case batch < 0:
		c.fail("Batch dims must be non-negative.")
	case rank != 4 && rank != 5:
		c.fail("Input tensor must be rank 4 or 5, excluding extra batch dimensions, but got: %d", rank)
	case len(filter.dims) != 4 && len(filter.dims) != 5:
		c.fail("Filter tensor must be rank 4 or 5, but got: %d", rank)
	case len(filter.dims) != rank:
		c.fail("Input tensor rank must be the same as filter rank.")
	}
	format := c.Str("data_format")
	if format != "CHANNELS_LAST" && format != "CHANNELS_FIRST" {
		c.fail("Invalid data format: %s", format)
	}
	if c.Err() != nil {
		return
	}
	spatial := rank - 2
	l := layout{rank: rank, spatial: 1, channel: rank - 1}
	if format == "CHANNELS_FIRST" {
		l = layout{rank: rank, spatial: 2, channel: 1}
	}
	dilations := c.IntList("dilations")
	if len(dilations) == 0 {
		dilations = []int64{1, 1, 1, 1, 1}[:rank]
	}
	strides := c.numbers("strides", rank)
	if len(dilations) != rank {
		c.fail("Conv requires the dilation attribute to contain %d values, but got: %d", rank, len(dilations))
		return
	}
	depth, filterDepth, out := in.at(batch-1+l.channel), filter.at(-2), filter.at(-1)
	groups := c.Int("groups")
	switch {
	case groups < 1:
		c.fail("Groups attribute should be a positive integer")
	case depth >= 0 && depth%groups != 0:
		c.fail("Number of groups should divide input depth")
	case out >= 0 && out%groups != 0:
		c.fail("Number of groups should divide output depth")
	case depth < 0 || filterDepth < 0:
	case filterDepth == 0:
		c.fail("Depth of filter must not be 0")
	case depth%filterDepth != 0:
		c.fail("Depth of input (%d) is not a multiple of input depth of filter (%d)", depth, filterDepth)
	case depth/filterDepth != groups:
		c.fail("Input depth divided by filter input depth does not match with groups parameter (%d)", groups)
	}
	kind, pad := c.paddingOf(layout{rank: 4, spatial: l.spatial, channel: min(l.channel, 3)})
	if spatial == 3 && kind == "EXPLICIT" {
		c.fail("Explicit padding not supported for 3D Convolution")
		return
	}
	var item Shape
	if batch > 0 {
		item = c.from(in, batch-1)
	} else {
		item = join(Of(-1), in)
	}
	sizes := c.slide(item, l, spatial, kind, func(i int) window {
		d := l.spatial + i
		w := window{size: filter.at(i), stride: strides[d], dilation: dilations[d]}
		if kind == "EXPLICIT" {
			w.before, w.after = pad[2*d], pad[2*d+1]
		}
		return w
	})
	c.set(0, join(c.sub(in, 0, batch), Shape{l.shape(0, out, sizes...).dims[1:], true}))
}

func conv2DBackpropInput(c *call) {
	l := c.layoutOf(2)
	if l.packed {
		c.fail("Conv2DBackpropInput on data format NCHW_VECT_C is not supported")
		return
	}
	grad, filter := c.is(c.in(2), 4), c.is(c.in(1), 4)
	c.equal(grad.at(l.channel), filter.at(3))
	want := c.shapeOf(0)
	if !want.known {
		want = UnknownOf(4)
	}
	switch len(want.dims) {
	case 4:
		c.equal(want.at(0), grad.at(0))
		c.set(0, l.shape(grad.at(0), want.at(l.channel), want.at(l.spatial), want.at(l.spatial+1)))
	case 2:
		c.set(0, l.shape(grad.at(0), filter.at(2), want.at(0), want.at(1)))
	default:
		c.fail("Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: %d", len(want.dims))
	}
}

// pool2D is the rule of image pooling; overDepth allows the window to cover channels as well.
func (c *call) pool2D(overDepth, noExplicit bool) {
	strides, sizes := c.numbers("strides", 4), c.numbers("ksize", 4)
	l := c.layoutOf(2)
	kind := c.Str("padding")
	pad := make([]int64, 8)
	if !noExplicit && c.Has("explicit_paddings") {
		kind, pad = c.paddingOf(l)
	}
	c.pooled(l, strides, sizes, kind, pad, overDepth)
}

func (c *call) pooled(l layout, strides, sizes []int64, kind string, pad []int64, overDepth bool) {
	in := c.is(c.in(0), l.rank)
	c.packedChannels(l, in)
	out := c.slide(in, l, 2, kind, func(i int) window {
		d := l.spatial + i
		return window{sizes[d], strides[d], 1, pad[2*d], pad[2*d+1]}
	})
	depth := in.at(l.channel)
	if overDepth {
		depth = c.slid(depth, window{size: sizes[l.channel], stride: strides[l.channel], dilation: 1}, kind)
	}
	c.set(0, l.shape(in.at(0), depth, out...))
}

// maxPoolV2 has the window's sizes and strides as its last two inputs.
func maxPoolV2(c *call) {
	l := c.layoutOf(2)
	c.is(c.in(0), l.rank)
	c.packedChannels(l, c.in(0))
	c.size(c.is(c.in(-2), 1).at(0), 4)
	c.size(c.is(c.in(-1), 1).at(0), 4)
	sizes, ok := c.ints(-2)
	strides, ok2 := c.ints(-1)
	if !ok || !ok2 || c.Err() != nil {
		return
	}
	if len(sizes) != 4 || len(strides) != 4 {
		c.fail("%s requires ksize and strides of 4 values, but got: %d and %d", c.Op, len(sizes), len(strides))
		return
	}
	c.pooled(l, strides, sizes, c.Str("padding"), make([]int64, 8), true)
}

func pool3D(c *call) {
	l := c.layoutOf(3)
	in := c.is(c.in(0), 5)
	strides, sizes := c.numbers("strides", 5), c.numbers("ksize", 5)
	c.set(0, l.shape(in.at(0), in.at(l.channel), c.slide(in, l, 3, c.Str("padding"), func(i int) window {
		return window{size: sizes[l.spatial+i], stride: strides[l.spatial+i], dilation: 1}
	})...))
}

// gradGrad is for second gradients, whose inputs are the pool's input, its output, and a gradient of the input's shape.
func gradGrad(pool rule) rule {
	return func(c *call) {
		pool(c)
		c.merge(c.in(0), c.in(2))
		if len(c.r.Out) > 0 {
			c.merge(c.in(1), c.r.Out[0])
		}
	}
}
