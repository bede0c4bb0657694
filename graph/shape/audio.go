package shape

import "math/bits"

var audioOps = []row{
	{"AudioSpectrogram", spectrogram},
	{"DecodeWav", func(c *call) {
		c.scalar(0)
		channels, frames := c.wanted("desired_channels", "channels"), c.wanted("desired_samples", "samples")
		c.set(0, Of(frames, channels))
		c.set(1, Scalar())
	}},
	{"EncodeWav", gives(ranks(2, 0), Scalar())},
	{"Mfcc", func(c *call) {
		in := c.is(c.in(0), 3)
		c.scalar(1)
		c.set(0, Of(in.at(0), in.at(1), max(-1, c.Int("dct_coefficient_count"))))
	}},
}

// wanted returns the size requested by an attribute, or -1 for the actual size.
func (c *call) wanted(attr, what string) int64 {
	n := c.Int(attr)
	if n < -1 {
		c.fail("%s must be non-negative, got %d", what, n)
		return -1
	}
	return n
}

func spectrogram(c *call) {
	in := c.is(c.in(0), 2)
	window, stride := c.Int("window_size"), c.Int("stride")
	if window <= 1 {
		c.fail("window size must be > 1, got %d", window)
		return
	}
	if stride <= 0 {
		c.fail("stride must be strictly positive, got %d", stride)
		return
	}
	rows := in.at(0)
	if rows >= window {
		rows = 1 + (rows-window)/stride
	} else if rows >= 0 {
		rows = 0
	}
	width := int64(-1)
	if n := bits.Len64(uint64(window - 1)); n < 63 {
		width = 1 + int64(1)<<n/2
	}
	c.set(0, Of(in.at(1), rows, width))
}
