package shape

import "slices"

var imageOps = slices.Concat([]row{
	{"AdjustContrast", func(c *call) {
		for i := 1; i < 4; i++ {
			c.scalar(i)
		}
		c.set(0, c.atLeast(c.in(0), 3))
	}},
	{"AdjustContrastv2", func(c *call) {
		c.scalar(1)
		c.set(0, c.atLeast(c.in(0), 3))
	}},
	{"ExtractGlimpse ExtractGlimpseV2", func(c *call) {
		in, offsets := c.is(c.in(0), 4), c.matrix(2)
		batch := c.equal(in.at(0), offsets.at(0))
		c.size(offsets.at(1), 2)
		if noise := c.Str("noise"); c.Bool("uniform_noise") && noise != "" && noise != "uniform" {
			c.fail("The uniform_noise and noise should not be specified at the same time")
			return
		}
		c.sized(batch, 1, in.at(3))
	}},
	{"ImageProjectiveTransformV2 ImageProjectiveTransformV3", func(c *call) {
		in := c.is(c.in(0), 4)
		c.sized(in.at(0), 2, in.at(3))
	}},
	{"RandomCrop", func(c *call) {
		in := c.is(c.in(0), 3)
		c.merge(c.in(1), Of(2))
		size := Of(-1, -1)
		if c.value(1) != nil {
			size = c.sizes(1)
		}
		c.set(0, Of(max(-1, size.at(0)), max(-1, size.at(1)), in.at(-1)))
	}},
	{"AdjustHue AdjustSaturation", unchangedFrom(3)},
	{"HSVToRGB RGBToHSV", func(c *call) {
		s := c.atLeast(c.in(0), 1)
		c.set(0, c.with(s, -1, c.size(s.at(-1), 3)))
	}},
	{"DecodePng DecodeJpeg DecodeBmp", func(c *call) {
		c.scalar(0)
		c.set(0, Of(-1, -1, c.channels()))
	}},
	{"DecodeAndCropJpeg", func(c *call) {
		c.scalar(0)
		c.merge(c.in(1), Of(4))
		w := []int64{0, 0, -1, -1}
		if v, ok := c.ints(1); ok && len(v) == 4 {
			w = v
		}
		c.set(0, Of(w[2], w[3], c.channels()))
	}},
	{"DecodeGif", gives(ranks(0), Of(-1, -1, -1, 3))},
	{"DecodeWebP", func(c *call) {
		c.scalar(0)
		c.set(0, Of(-1, -1, -1, c.channels()))
	}},
	{"ExtractJpegShape", gives(ranks(0), Of(3))},
	{"DecodeImage", func(c *call) {
		c.scalar(0)
		if d := c.channels(); !c.Bool("expand_animations") {
			c.set(0, Of(-1, -1, d))
		}
	}},
	{"EncodePng", func(c *call) { c.set(0, c.sub(c.atLeast(c.in(0), 3), 0, -3)) }},
	{"EncodeJpeg EncodeJpegVariableQuality", gives(ranks(3), Scalar())},
	{"ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResizeNearestNeighborGrad ScaleAndTranslate", resized},
	{"QuantizedResizeBilinear", func(c *call) {
		resized(c)
		c.scalar(2)
		c.scalar(3)
		c.set(1, Scalar())
		c.set(2, Scalar())
	}},
	{"ResizeBicubicGrad ResizeBilinearGrad ScaleAndTranslateGrad", func(c *call) { c.set(0, c.in(1)) }},
}, boxOps)

// resized is the rule of ops that resize images to the height and width in input 1.
func resized(c *call) {
	in := c.is(c.in(0), 4)
	c.sized(in.at(0), 1, in.at(3))
}

// sized sets output 0 to images of the height and width in input i.
func (c *call) sized(batch int64, i int, channels int64) {
	c.size(c.vector(i).at(0), 2)
	height, width := int64(-1), int64(-1)
	if c.value(i) != nil {
		if v, ok := c.ints(i); ok && len(v) == 2 {
			height, width = max(-1, v[0]), max(-1, v[1])
		}
	}
	c.set(0, Of(batch, height, width, channels))
}

// channels returns the number of channels requested by an attribute, or -1 for the image's own.
func (c *call) channels() int64 {
	n := c.Int("channels")
	switch {
	case n < 0:
		c.fail("channels must be non-negative, got %d", n)
		return -1
	case n == 0:
		return -1
	}
	return n
}
