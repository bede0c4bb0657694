package shape

var normOps = []row{
	{"FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", batchNorm},
	{"FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", batchNormGrad},
	{"BatchNormWithGlobalNormalization", func(c *call) {
		x := c.is(c.in(0), 4)
		c.set(0, c.with(x, 3, c.channelsOf(x.at(3), 1, 5)))
	}},
	{"BatchNormWithGlobalNormalizationGrad", func(c *call) {
		x := c.merge(c.is(c.in(0), 4), c.in(4))
		channels := c.channelsOf(x.at(3), 1, 4)
		c.setAll(Of(channels))
		c.set(0, c.with(x, 3, channels))
	}},
}

// channelsOf returns the number of channels, which must be the length of the vectors at inputs from (inclusive) to to (exclusive).
func (c *call) channelsOf(channels int64, from, to int) int64 {
	for i := from; i < to; i++ {
		channels = c.equal(channels, c.vector(i).at(0))
	}
	return channels
}

// batchNorm leaves the sixth output of V3 unknown: its content depends on the device.
func batchNorm(c *call) {
	l := c.layoutOf(c.spatialOf())
	x := c.is(c.in(0), l.rank)
	n := 5
	factor := float32(1)
	if c.Has("exponential_avg_factor") {
		factor = c.Float("exponential_avg_factor")
	}
	if c.Bool("is_training") && factor == 1 {
		n = 3
	}
	channels := x.at(l.channel)
	for i := 1; i < n; i++ {
		channels = c.equal(channels, c.vector(i).at(0))
	}
	c.set(0, c.with(x, l.channel, channels))
	for i := 1; i < 5; i++ {
		c.set(i, Of(channels))
	}
}

func batchNormGrad(c *call) {
	l := c.layoutOf(c.spatialOf())
	dy, x := c.is(c.in(0), l.rank), c.is(c.in(1), l.rank)
	channels := c.equal(dy.at(l.channel), x.at(l.channel))
	for i := 2; i < 5; i++ {
		channels = c.equal(channels, c.vector(i).at(0))
	}
	c.set(0, c.with(dy, l.channel, channels))
	c.set(1, Of(channels))
	c.set(2, Of(channels))
	c.set(3, Of(0))
	c.set(4, Of(0))
}

// spatialOf returns the number of spatial dimensions in the data format.
func (c *call) spatialOf() int {
	if f := c.Str("data_format"); f == "NDHWC" || f == "NCDHW" {
		return 3
	}
	return 2
}
