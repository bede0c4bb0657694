package shape

import (
	"math"
	"math/bits"
)

var nnOps = []row{
	{"Elu LeakyRelu Relu Relu6 Selu Softplus Softsign DataFormatDimMap DataFormatVecPermute", unchanged},
	{"EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad", mergeBoth},
	{"LogSoftmax Softmax", unchangedFrom(1)},
	{"BiasAdd BiasAddV1", biasAdd},
	{"BiasAddGrad", func(c *call) {
		if c.channelsFirst() {
			c.set(0, Of(c.atLeast(c.in(0), 3).at(1)))
		} else {
			c.set(0, Of(c.atLeast(c.in(0), 2).at(-1)))
		}
	}},
	{"LRN", unchangedOf(4)},
	{"LRNGrad", func(c *call) { c.set(0, c.merge(c.merge(c.is(c.in(0), 4), c.in(1)), c.in(2))) }},
	{"InTopK InTopKV2", func(c *call) { c.set(0, Of(c.equal(c.matrix(0).at(0), c.vector(1).at(0)))) }},
	{"TopK", func(c *call) {
		k := c.Int("k")
		if k < 0 {
			c.fail("Need k >= 0, got %d", k)
		}
		c.topK(k)
	}},
	{"TopKV2", func(c *call) { c.topK(c.dimOf(1)) }},
	{"ApproxTopK", approxTopK},
	{"IsotonicRegression", func(c *call) { c.setAll(c.in(0)) }},
	{"NthElement", func(c *call) {
		s, n := c.atLeast(c.in(0), 1), c.dimOf(1)
		if last := s.at(-1); last >= 0 && n >= 0 && last <= n {
			c.fail("Input must have last dimension > n = %d but is %d", n, last)
		}
		c.set(0, c.sub(s, 0, -1))
	}},
	{"SoftmaxCrossEntropyWithLogits", softmaxCrossEntropy},
	{"SparseSoftmaxCrossEntropyWithLogits", func(c *call) {
		features := c.matrix(0)
		batch := c.equal(features.at(0), c.vector(1).at(0))
		c.set(0, Of(batch))
		c.set(1, c.with(features, 0, batch))
	}},
}

func (c *call) channelsFirst() bool {
	return c.Has("data_format") && c.Str("data_format") == "NCHW"
}

func biasAdd(c *call) {
	channel, rank := -1, 2
	if c.channelsFirst() {
		channel, rank = 1, 3
	}
	in := c.atLeast(c.in(0), rank)
	bias := c.vector(1).at(0)
	if in.known {
		c.set(0, c.with(in, channel, c.equal(in.at(channel), bias)))
	}
}

func (c *call) topK(k int64) {
	s := c.atLeast(c.in(0), 1)
	if last := s.at(-1); last >= 0 && k >= 0 && last < k {
		c.fail("input must have last dimension >= k = %d but is %d", k, last)
	}
	s = join(c.sub(s, 0, -1), Of(k))
	c.set(0, s)
	c.set(1, s)
}

func approxTopK(c *call) {
	k, axis := c.Int("k"), c.Int("reduction_dimension")
	override, aggregate := c.Int("reduction_input_size_override"), c.Bool("aggregate_to_topk")
	target := c.Float("recall_target")
	in := c.atLeast(c.in(0), 1)
	if !in.known {
		return
	}
	rank := int64(in.Rank())
	at := axis
	if at < 0 {
		at += rank
	}
	if at < 0 || at >= rank {
		c.fail("Invalid reduction dimension: %d. Must be within the range of [%d, %d]", axis, -rank, rank-1)
		return
	}
	d := in.at(int(at))
	if d < k {
		c.fail("input must have last dimension >= k = %d but was %d", k, d)
	}
	if !(target > 0 && target <= 1) {
		c.fail("Invalid recall target: %v. Valid value range in : [0, 1.0].", target)
	}
	if c.Err() != nil {
		return
	}
	if !aggregate {
		k = approxTopKSize(k, d, override, rank, float64(target))
	}
	out := c.with(in, int(at), max(k, -1))
	c.set(0, out)
	c.set(1, out)
}

// approxTopKSize returns how many of d candidates are kept for k results without the final aggregation: whole tiles of a TPU.
func approxTopKSize(k, d, override, rank int64, recall float64) int64 {
	tile := int64(128)
	if rank == 1 {
		tile = 1024
	}
	switch {
	case d <= tile || recall == 1:
		return d
	case k == 1:
		return tile
	}
	logical := uint64(d)
	if override >= 0 {
		logical = uint64(override)
	}
	m := min(max(uint64(float64(1-k)/math.Log(recall)), uint64(tile)), uint64(d))
	by := log2Floor(logical / m)
	if by == 0 {
		return d
	}
	by = min(by, log2Ceil(uint64(d/tile)))
	tiles := (d + tile - 1) / tile
	parts := int64(1) << min(by, 62)
	return ((tiles-1)/parts + 1) * tile
}

func log2Floor(v uint64) int {
	if v == 0 {
		return 0
	}
	return bits.Len64(v) - 1
}

func log2Ceil(v uint64) int {
	if v == 0 {
		return 0
	}
	return bits.Len64(v - 1)
}

func softmaxCrossEntropy(c *call) {
	out, ok := c.in(0), false
	if out.Rank() == 2 || !out.known {
		m, err := c.unknownIs(out, 2).Merge(c.in(1))
		out, ok = m, err == nil
	}
	if !ok {
		out = c.broadcast(c.in(0), c.in(1))
		if !out.known {
			c.fail("Shape must be broadcasted with rank 2, but is rank is unknown.")
		} else if len(out.dims) != 2 {
			c.fail("Shape must be broadcasted with rank 2, but is rank %d", len(out.dims))
		}
	}
	c.set(0, Of(out.at(0)))
	c.set(1, out)
}

// unknownIs returns s, or a shape of the given rank if s is unknown.
func (c *call) unknownIs(s Shape, rank int) Shape {
	if !s.known {
		return UnknownOf(rank)
	}
	return s
}
