package shape

// parsingOps decode records. Those for tf.Example return sparse tensors first, followed by dense and ragged ones.
var parsingOps = []row{
	{"DecodeCSV", func(c *call) {
		for i := 1; i < len(c.In); i++ {
			if s := c.atMost(c.in(i), 1); s.Rank() == 1 && s.at(0) > 1 {
				c.fail("Shape of a default must be a length-0 or length-1 vector, or a scalar, but is %v.", s)
			}
		}
		c.setAll(c.in(0))
	}},
	{"DecodeRaw", func(c *call) { c.set(0, join(c.in(0), Of(-1))) }},
	{"DecodePaddedRaw", func(c *call) {
		c.set(0, join(c.in(0), Of(c.div(c.dimOf(1), int64(c.Type("out_type").Size()), true))))
	}},
	{"DecodeProtoV2", func(c *call) {
		n := c.countOf("output_types")
		c.set(0, join(c.in(0), Of(n)))
		for i := range int(n) {
			c.set(1+i, join(c.in(0), Of(-1)))
		}
	}},
	{"EncodeProto", func(c *call) {
		var out Shape
		for i := len(c.In) - 1; i >= 1; i-- {
			s := c.atLeast(c.in(i), 2)
			out = c.merge(c.sub(s, 0, -1), out)
		}
		c.set(0, out)
	}},
	{"ParseTensor", unknown},
	{"SerializeTensor", scalarOut},
	{"ParseExample", func(c *call) {
		in, p := c.vector(0), &parsed{call: c}
		c.vector(1)
		p.sparse(c.Int("Nsparse"), in, 1)
		p.dense("dense_shapes", in)
	}},
	{"ParseExampleV2", func(c *call) {
		in, p := c.atMost(c.in(0), 1), &parsed{call: c}
		c.atMost(c.in(1), 1)
		c.alike("num_sparse", "sparse_types")
		c.alike("Tdense", "dense_shapes")
		p.sparse(c.Int("num_sparse"), in, 1)
		p.dense("dense_shapes", in)
		p.ragged(c.countOf("ragged_value_types"), false, in)
	}},
	{"ParseSingleExample", func(c *call) {
		in, p := c.scalar(0), &parsed{call: c}
		c.alike("sparse_keys", "sparse_types", "num_sparse")
		c.alike("dense_keys", "Tdense", "dense_shapes")
		p.sparse(c.Int("num_sparse"), in, 1)
		p.dense("dense_shapes", in)
	}},
	{"ParseSequenceExample", func(c *call) {
		in, p := c.vector(0), &parsed{call: c}
		c.vector(1)
		c.alike("context_sparse_keys", "context_sparse_types", "Ncontext_sparse")
		c.alike("context_dense_keys", "Tcontext_dense", "context_dense_shapes")
		c.alike("feature_list_sparse_keys", "feature_list_sparse_types", "Nfeature_list_sparse")
		p.sparse(c.Int("Ncontext_sparse"), in, 1)
		p.dense("context_dense_shapes", in)
		p.sparse(c.Int("Nfeature_list_sparse"), in, 2)
		p.dense("feature_list_dense_shapes", Of(in.at(0), -1))
		p.add(c.Int("Nfeature_list_dense"), in)
	}},
	{"ParseSequenceExampleV2", func(c *call) {
		in, p := c.atMost(c.in(0), 1), &parsed{call: c}
		c.atMost(c.in(1), 1)
		c.alike("Ncontext_sparse", "context_sparse_types")
		c.alike("Tcontext_dense", "context_dense_shapes")
		c.alike("Nfeature_list_sparse", "feature_list_sparse_types")
		p.sparse(c.Int("Ncontext_sparse"), in, 1)
		p.dense("context_dense_shapes", in)
		p.ragged(c.countOf("context_ragged_value_types"), false, in)
		p.sparse(c.Int("Nfeature_list_sparse"), in, 2)
		p.dense("feature_list_dense_shapes", join(in, Of(-1)))
		p.add(c.Int("Nfeature_list_dense"), in)
		p.ragged(c.countOf("feature_list_ragged_value_types"), true, in)
	}},
	{"ParseSingleSequenceExample", func(c *call) {
		in, p := c.scalar(0), &parsed{call: c}
		c.vector(1)
		p.sparse(c.Int("Ncontext_sparse"), in, 1)
		p.dense("context_dense_shapes", in)
		p.sparse(c.Int("Nfeature_list_sparse"), in, 2)
		p.dense("feature_list_dense_shapes", Of(-1))
	}},
}

// parsed sets the outputs one after the other.
type parsed struct {
	*call
	at int
}

// add sets n outputs.
func (p *parsed) add(n int64, s Shape) {
	for ; n > 0 && p.at < len(p.r.Out); n-- {
		p.set(p.at, s)
		p.at++
	}
}

// sparse sets the outputs of n sparse tensors whose rank exceeds that of records by more.
func (p *parsed) sparse(n int64, records Shape, more int) {
	rank := int64(-1)
	if records.known {
		rank = int64(len(records.dims) + more)
	}
	p.add(n, Of(-1, rank))
	p.add(n, Of(-1))
	p.add(n, Of(rank))
}

func (p *parsed) dense(attr string, prefix Shape) {
	for _, s := range p.attrShapes(attr) {
		p.add(1, join(prefix, s))
	}
}

// ragged sets the values and row splits of n ragged tensors, with a second vector of row splits if inner is set.
func (p *parsed) ragged(n int64, inner bool, records Shape) {
	examples := int64(-1)
	if records.Rank() == 1 {
		examples = records.at(0)
	}
	p.add(n, Of(-1))
	p.add(n, Of(p.call.add(examples, 1)))
	if inner {
		p.add(n, Of(-1))
	}
}

// alike checks that attributes agree on a number: a list by its length, a number by its value.
func (c *call) alike(attrs ...string) {
	first := c.countOf(attrs[0])
	for _, other := range attrs[1:] {
		if n := c.countOf(other); n != first {
			c.fail("%s and %s must be of the same length, but are %d and %d.", attrs[0], other, first, n)
		}
	}
}

// countOf returns the length of a list attribute, or the value of a number.
func (c *call) countOf(attr string) int64 {
	if v, err := c.Attrs.Int(attr); err == nil {
		return v
	}
	l := c.List(attr)
	return int64(max(len(l.GetS()), len(l.GetType()), len(l.GetShape())))
}
