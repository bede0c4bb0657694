package shape

import "math"

// patchOps are the other ops on windows of images.
var patchOps = []row{
	{"MaxPoolWithArgmax", func(c *call) {
		for _, k := range c.IntList("ksize") {
			if k <= 0 {
				c.fail("ksize must be a positive int32 value, got:%d", k)
				return
			}
		}
		c.pool2D(true, true)
		if len(c.r.Out) > 0 {
			c.set(1, c.r.Out[0])
		}
	}},
	{"MaxPoolGradWithArgmax", unchangedOf(4)},
	{"FractionalAvgPool FractionalMaxPool", fractionalPool},
	{"FractionalMaxPoolGrad", unchangedOf(4)},
	{"FractionalAvgPoolGrad", func(c *call) {
		if c.value(0) == nil {
			c.set(0, UnknownOf(4))
			return
		}
		c.set(0, c.shapeOf(0))
	}},
	{"Dilation2D", dilation2D},
	{"Dilation2DBackpropInput", unchanged},
	{"Dilation2DBackpropFilter", func(c *call) { c.set(0, c.in(1)) }},
	{"ExtractImagePatches", func(c *call) { c.patches(2) }},
	{"ExtractVolumePatches", func(c *call) { c.patches(3) }},
	{"FusedPadConv2D", func(c *call) { fusedPadConv2D(c, c.is(c.in(0), 4), 1) }},
	{"FusedResizeAndPadConv2D", func(c *call) {
		in := c.is(c.in(0), 4)
		c.merge(c.in(1), Of(2))
		size := Of(-1, -1)
		if c.value(1) != nil {
			size = c.sizes(1)
		}
		fusedPadConv2D(c, Of(in.at(0), max(-1, size.at(0)), max(-1, size.at(1)), in.at(3)), 2)
	}},
}

// fractionalPool divides each size by its ratio, in float32 as the kernels do.
func fractionalPool(c *call) {
	in := c.is(c.in(0), 4)
	ratio := c.FloatList("pooling_ratio")
	if len(ratio) != 4 {
		c.fail("pooling_ratio field must specify 4 dimensions")
		return
	}
	out := make([]int64, 4)
	for i, r := range ratio {
		if out[i] = in.at(i); out[i] < 0 {
			continue
		}
		if size := math.Floor(float64(float32(out[i]) / r)); size < 0 {
			c.fail("Size computed for dim %d is negative: %v", i, size)
			return
		} else if r >= 1 {
			out[i] = int64(size)
		}
	}
	for _, r := range ratio {
		if !(r >= 1) {
			c.fail("pooling_ratio cannot be smaller than 1, got: %v", r)
			return
		}
	}
	c.set(0, Of(out...))
	c.set(1, Of(out[1]))
	c.set(2, Of(out[2]))
}

func dilation2D(c *call) {
	in, filter := c.is(c.in(0), 4), c.is(c.in(1), 3)
	strides := c.IntList("strides")
	if len(strides) != 4 {
		c.fail("Dilation2D requires the stride attribute to contain 4 values, but got: %d", len(strides))
		return
	}
	rates := c.IntList("rates")
	if len(rates) != 4 {
		c.fail("Dilation2D requires the rates attribute to contain 4 values, but got: %d", len(rates))
		return
	}
	if in.at(1) < 0 || in.at(2) < 0 || filter.at(0) < 0 || filter.at(1) < 0 {
		c.set(0, Of(in.at(0), -1, -1, filter.at(2)))
		return
	}
	c.equal(in.at(3), filter.at(2))
	l := layout{rank: 4, spatial: 1, channel: 3}
	out := make([]int64, 2)
	for i := range out {
		out[i] = c.placesOf(in.at(1+i), widened(filter.at(i), rates[1+i]), strides[1+i])
	}
	c.set(0, l.shape(in.at(0), filter.at(2), out...))
}

// placesOf returns the number of positions of a window within a known size. Unlike slid, it accepts windows that are too wide by less than
// the stride.
func (c *call) placesOf(size, window, stride int64) int64 {
	if stride <= 0 {
		c.fail("Stride must be > 0, but got %d", stride)
		return -1
	}
	over := stride - window
	switch padding := c.Str("padding"); padding {
	case "SAME":
		over = stride - 1
	case "VALID":
	default:
		c.fail("%s is not an allowed padding type", padding)
		return -1
	}
	n := (size + over) / stride
	if n < 0 {
		c.fail("Computed output size would be negative: %d [input_size: %d, effective_filter_size: %d, stride: %d]", n, size, window, stride)
		return -1
	}
	return n
}

// widened returns the size that a window with gaps covers.
func widened(size, rate int64) int64 { return size + (size-1)*(rate-1) }

// patches is the rule of ops that place the elements of windows side by side.
func (c *call) patches(spatial int) {
	in := c.is(c.in(0), spatial+2)
	lists := map[string][]int64{"rates": {1, 1, 1, 1, 1}}
	for _, attr := range []string{"ksizes", "strides", "rates"} {
		if spatial == 3 && attr == "rates" {
			continue
		}
		v := c.IntList(attr)
		if len(v) != spatial+2 {
			name := attr
			if attr == "strides" {
				name = "stride"
			}
			c.fail("%s requires the %s attribute to contain %d values, but got: %d", c.Op, name, spatial+2, len(v))
			return
		}
		lists[attr] = v
	}
	depth, known := in.at(spatial+1), true
	for i := range spatial {
		depth = c.mul(depth, lists["ksizes"][1+i])
		known = known && in.at(1+i) >= 0
	}
	l := layout{rank: spatial + 2, spatial: 1, channel: spatial + 1}
	out := UnknownOf(spatial).dims
	if known {
		for i := range out {
			out[i] = c.placesOf(in.at(1+i), widened(lists["ksizes"][1+i], lists["rates"][1+i]), lists["strides"][1+i])
		}
	}
	c.set(0, l.shape(in.at(0), depth, out...))
}

// fusedPadConv2D pads and convolves. Input i is the paddings, and the next one the filter.
func fusedPadConv2D(c *call, in Shape, i int) {
	paddings := c.is(c.in(i), 2)
	c.merge(paddings, Of(4, 2))
	filter := c.is(c.in(i+1), 4)
	strides := c.IntList("strides")
	if len(strides) != 4 {
		c.fail("Operation requires the stride attribute to contain 4 values, but got: %d", len(strides))
		return
	}
	padded := UnknownOf(4)
	if p, ok := c.ints(i); ok && c.Err() == nil && len(p) == 8 {
		dims := make([]int64, 4)
		for i := range dims {
			if p[2*i] < 0 || p[2*i+1] < 0 {
				c.fail("Paddings must be non-negative")
				return
			}
			dims[i] = c.add(in.at(i), p[2*i]+p[2*i+1])
		}
		padded = Of(dims...)
	}
	c.equal(padded.at(3), filter.at(2))
	l := layout{rank: 4, spatial: 1, channel: 3}
	c.set(0, l.shape(padded.at(0), filter.at(3), c.slide(padded, l, 2, c.Str("padding"), func(i int) window {
		return window{size: filter.at(i), stride: strides[1+i], dilation: 1}
	})...))
}
