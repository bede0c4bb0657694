package shape

var randomOps = []row{
	{"RandomStandardNormal RandomUniform TruncatedNormal", filled},
	{"RandomUniformInt", func(c *call) {
		c.limits(1, 2)
		filled(c)
	}},
	{"RandomShuffle", unchanged},
	{"RandomGamma RandomPoisson RandomPoissonV2", func(c *call) { c.set(0, join(c.shapeOf(0), c.in(1))) }},
	{"ParameterizedTruncatedNormal", filled},
	{"StatelessParameterizedTruncatedNormal", func(c *call) {
		all := c.in(2)
		for i := 3; i <= 5; i++ {
			all = c.broadcast(all, c.in(i))
		}
		stateless(c)
	}},
	{"SobolSample", func(c *call) {
		c.demand(ranks(0, 0, 0))
		c.set(0, Of(c.dimOf(1), c.dimOf(0)))
	}},
	{"StochasticCastToInt", func(c *call) {
		c.demand(ranks(-1, 1, 1, 0))
		c.set(0, c.in(0))
	}},
	{"Multinomial", multinomial},
	{"StatelessMultinomial", func(c *call) {
		c.pair(2)
		multinomial(c)
	}},
	{"StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformFullInt", stateless},
	{"StatelessRandomUniformInt", func(c *call) {
		c.limits(2, 3)
		stateless(c)
	}},
	{`StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformFullIntV2
		StatelessRandomGammaV3`, statelessV2},
	{"StatelessRandomUniformIntV2", func(c *call) {
		c.limits(4, 5)
		statelessV2(c)
	}},
	{"StatelessRandomGetKeyCounterAlg StatelessRandomGetKeyCounter", func(c *call) {
		c.pair(0)
		c.set(0, Of(1))
		c.set(1, Of(2))
		c.set(2, Scalar())
	}},
	{"StatelessRandomGetAlg", scalarOut},
	{"RandomIndexShuffle", randomIndexShuffle},
	{"StatelessShuffle", unchanged},
	{"StatelessRandomBinomial StatelessRandomPoisson StatelessRandomGammaV2", stateless},
	{"StatefulRandomBinomial StatefulUniform StatefulUniformFullInt StatefulStandardNormalV2 StatefulTruncatedNormal", stateful},
	{"StatefulUniformInt", func(c *call) {
		c.limits(3, 4)
		stateful(c)
	}},
	{"StatefulStandardNormal", func(c *call) { c.set(0, c.shapeOf(1)) }},
	{"RngSkip", takes(-1, 0, 0)},
	{"RngReadAndSkip", gives(ranks(-1, 0, 0), Of(3))},
	{"NonDeterministicInts", filled},
	{`UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler ThreadUnsafeUnigramCandidateSampler
		FixedUnigramCandidateSampler AllCandidateSampler`, candidates},
	{"ComputeAccidentalHits", func(c *call) {
		c.size(c.matrix(0).at(1), c.Int("num_true"))
		c.vector(1)
		c.setAll(Of(-1))
	}},
}

// limits checks that both ends of a range are scalars.
func (c *call) limits(low, high int) {
	if s := c.in(low); s.known && len(s.dims) != 0 {
		c.fail("minval must be a scalar; got a tensor of shape %v", s)
	}
	if s := c.in(high); s.known && len(s.dims) != 0 {
		c.fail("maxval must be a scalar; got a tensor of shape %v", s)
	}
}

func multinomial(c *call) {
	logits := c.matrix(0)
	c.scalar(1)
	c.set(0, Of(logits.at(0), c.dimOf(1)))
}

func stateless(c *call) {
	c.pair(1)
	filled(c)
}

// statelessV2 is for ops with the generator's state as a key and a counter.
func statelessV2(c *call) {
	c.size(c.vector(1).at(0), 1)
	c.vector(2)
	c.scalar(3)
	filled(c)
}

func randomIndexShuffle(c *call) {
	index, seed, top := c.atMost(c.in(0), 1), c.atMost(c.atLeast(c.in(1), 1), 2), c.atMost(c.in(2), 1)
	if d := seed.at(-1); seed.known && d != 3 {
		c.fail("Seed must have shape [3] or [n, 3] but got %v.", seed)
	}
	if index.Rank() == 0 && seed.Rank() == 1 && top.Rank() == 0 {
		c.set(0, Scalar())
		return
	}
	if index.Rank() != 1 && seed.Rank() != 2 && top.Rank() != 1 {
		return
	}
	n := int64(-1)
	if index.Rank() == 1 {
		n = index.at(0)
	}
	rows := func(what string, d int64) {
		switch {
		case n < 0:
			n = d
		case n > 1 && d > 1 && d != n:
			c.fail("%s has %d rows but must have %d, since index had shape [%d].", what, d, n, n)
		}
	}
	if seed.Rank() == 2 {
		rows("Seed", seed.at(0))
	}
	if top.Rank() == 1 {
		rows("Max index", top.at(0))
	}
	c.set(0, Of(n))
}

// stateful is for ops whose inputs are the variable with the generator's state, the algorithm, and the shape.
func stateful(c *call) {
	c.scalar(1)
	c.set(0, c.shapeOf(2))
}

func candidates(c *call) {
	sampled, trues := c.Int("num_sampled"), c.Int("num_true")
	if sampled < 1 || trues < 1 {
		c.fail("num_sampled and num_true must be at least 1, got %d and %d", sampled, trues)
		return
	}
	c.set(0, Of(sampled))
	c.set(1, Of(c.matrix(0).at(0), trues))
	c.set(2, Of(sampled))
}
