package shape

import "github.com/troupe-run/troupe/graph/tensor"

// raggedOps are the ops on ragged tensors: vectors of row splits, and values.
var raggedOps = []row{
	{"RaggedGather", func(c *call) {
		splits, out := int(c.Int32("PARAMS_RAGGED_RANK")), int(c.Int32("OUTPUT_RAGGED_RANK"))
		if splits < 0 || splits >= len(c.In) || out < splits-1 || out > splits+tensor.MaxRank {
			c.fail("RaggedGather with %d inputs cannot have PARAMS_RAGGED_RANK %d and OUTPUT_RAGGED_RANK %d", len(c.In), splits, out)
			return
		}
		c.is(c.in(splits+1), out-splits+1)
		c.splits(splits)
		values := c.atLeast(c.in(splits), 1)
		c.setAll(Of(-1))
		c.set(out, join(Of(-1), c.from(values, 1)))
	}},
	{"RaggedRange", raggedRange},
	{"RaggedTensorToSparse", func(c *call) {
		n := c.raggedRank("RAGGED_RANK", 1)
		values := c.atLeast(c.in(n), 1)
		c.splits(n)
		rank, count := int64(-1), c.elements(values)
		if values.known {
			rank = int64(len(values.dims) + n)
		}
		c.sparse(count, rank)
	}},
	{"RaggedTensorToVariant", func(c *call) {
		n := c.raggedRank("RAGGED_RANK", 0)
		c.atLeast(c.in(n), 1)
		c.splits(n)
		if !c.Bool("batched_input") {
			c.set(0, Scalar())
			return
		}
		c.set(0, Of(c.minus(c.in(0).at(0), 1)))
	}},
	{"RaggedTensorFromVariant", func(c *call) {
		in, out := int(c.Int32("input_ragged_rank")), int(c.Int32("output_ragged_rank"))
		if s := c.in(0); s.known && in >= 0 && len(s.dims) != out-in {
			c.fail("Shape must be rank %d but is rank %d", out-in, len(s.dims))
		}
		c.setAll(Of(-1))
		c.set(out, Shape{})
	}},
	{"RaggedTensorToVariantGradient", func(c *call) { c.set(0, c.shapeOrUnknown(2)) }},
	{"RaggedTensorToTensor", raggedToTensor},
}

// raggedRank returns the number of row splits that precede the values.
func (c *call) raggedRank(attr string, least int) int {
	n := int(c.Int32(attr))
	if n < least || n >= len(c.In) {
		c.fail("%s has %d inputs and cannot have %s %d", c.Op, len(c.In), attr, n)
		return 0
	}
	return n
}

// splits checks that the first n inputs are vectors.
func (c *call) splits(n int) {
	for i := range n {
		c.vector(i)
	}
}

func raggedRange(c *call) {
	rows, scalars := int64(-1), 0
	for i := range 3 {
		switch s := c.atMost(c.in(i), 1); s.Rank() {
		case 0:
			scalars++
		case 1:
			rows = c.equal(s.at(0), rows)
		}
	}
	switch {
	case rows >= 0:
		c.set(0, Of(c.add(rows, 1)))
	case scalars == 3:
		c.set(0, Of(2))
	default:
		c.set(0, Of(-1))
	}
	c.set(1, Of(-1))
}

func raggedToTensor(c *call) {
	want, values, fallback := c.shapeOrUnknown(0), c.in(1), c.in(2)
	l := c.List("row_partition_types")
	types := l.GetS()
	switch n := c.Int("num_row_partition_tensors"); {
	case len(types) == 0:
		c.fail("Partition info types should not be empty")
	case string(types[0]) == "VALUE_ROWIDS":
		c.fail("VALUE_ROWIDS cannot be first")
	case n != int64(len(types)):
		c.fail("Number of row partition tensors (%d) does not equal the number of row partition types(%d).", n, len(types))
	}
	ragged := 0
	for i, t := range types {
		switch s := c.in(3 + i); string(t) {
		case "FIRST_DIM_SIZE":
			if s.known && len(s.dims) != 0 {
				c.fail("FIRST_DIM_SIZE must be a scalar.")
			}
			continue
		case "VALUE_ROWIDS", "ROW_SPLITS":
			if s.known && len(s.dims) != 1 {
				c.fail("Row partition must be a vector.")
			}
			ragged++
		default:
			c.fail("Unsupported partition type: %s", t)
		}
	}
	c.raggedDefault(fallback, values)
	c.set(0, c.raggedDense(ragged, want, values))
}

// raggedDefault checks that a default value is usable as an innermost value.
func (c *call) raggedDefault(fallback, values Shape) {
	if !fallback.known || !values.known {
		return
	}
	if n, inner := len(fallback.dims), len(values.dims)-1; n > inner {
		c.fail("default_value.shape=%v and rt_input.flat_values.shape=%v are incompatible: default_value.rank = %d  must be less than rt_input.flat_values.rank = %d", fallback, values, n, inner+1)
		return
	}
	for i := 1; i <= len(fallback.dims); i++ {
		if a, b := fallback.at(-i), values.at(-i); a >= 0 && a != 1 && b >= 0 && a != b {
			c.fail("default_value.shape=%v and rt_input.flat_values.shape=%v are incompatible: default_value.shape[%d] = %d but rt_input.flat_values.shape[%d] = %d", fallback, values, -i, a, -i, b)
		}
	}
}

// raggedDense returns the shape of a ragged tensor as a dense one: the requested shape, completed with the values' inner sizes.
func (c *call) raggedDense(ragged int, want, values Shape) Shape {
	if !want.known && !values.known {
		return Shape{}
	}
	if !want.known {
		want = c.unknownOf(int64(ragged + len(values.dims)))
	}
	if !values.known || c.Err() != nil {
		return want
	}
	if len(want.dims) != ragged+len(values.dims) {
		c.fail("rt_input.shape and shape=%v are incompatible: rt_input.rank = %d but shape.rank = %d", want, ragged+len(values.dims), len(want.dims))
		return want
	}
	dims := want.dims.Clone()
	for i := 1; i < len(values.dims); i++ {
		at := ragged + i
		switch d := values.dims[i]; {
		case dims[at] < 0:
			dims[at] = d
		case d >= 0 && d != dims[at]:
			c.fail("rt_input.shape and shape=%v are incompatible: rt_input.shape[%d] = %d but shape[%d] = %d", want, at, d, at, dims[at])
		}
	}
	return Shape{dims, true}
}
