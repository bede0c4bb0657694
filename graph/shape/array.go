package shape

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

var arrayOps = []row{
	{"Const", constant},
	{"Placeholder PlaceholderV2 FakeParam ImmutableConst", explicit},
	{"PlaceholderWithDefault", func(c *call) {
		s := c.attrShape("shape")
		c.merge(c.in(0), s)
		c.set(0, s)
	}},
	{"Identity GuaranteeConst PreventGradient Snapshot StopGradient", same},
	{`CheckNumerics CheckNumericsV2 DebugGradientIdentity DebugGradientRefIdentity MatrixBandPart OnesLike RefIdentity
		ZerosLike _EagerConst DeepCopy`, unchanged},
	{"IdentityN", func(c *call) {
		for i := range c.In {
			c.set(i, c.in(i))
			c.setHandles(i, c.handles(i))
			c.setValue(i, c.sizes(i))
		}
	}},
	{"EnsureShape", func(c *call) {
		want := c.attrShape("shape")
		c.set(0, c.merge(want, c.in(0)))
		c.setValue(0, c.sizes(0))
	}},
	{"Shape ShapeN", func(c *call) {
		for i, s := range c.In {
			c.set(i, Of(int64(s.Rank())))
			c.setValue(i, s)
		}
	}},
	{"Rank", func(c *call) {
		c.set(0, Scalar())
		if s := c.in(0); s.known {
			c.setValue(0, Of(int64(len(s.dims))))
		}
	}},
	{"Size", func(c *call) {
		c.set(0, Scalar())
		if n := c.elements(c.in(0)); n >= 0 && (outType(c) == tensor.Int64 || n == int64(int32(n))) {
			c.setValue(0, Of(n))
		}
	}},
	{"Reshape", reshape},
	{"Bitcast", bitcast},
	{"ExpandDims", expandDims},
	{"Squeeze", squeeze},
	{"Empty", filled},
	{"StridedSliceGrad", filled},
	{"Fill", fill},
	{"Tile", tile},
	{"BroadcastTo", broadcastTo},
	{"BroadcastArgs", func(c *call) {
		x, y := c.vector(0).at(0), c.vector(1).at(0)
		if x < 0 || y < 0 {
			c.set(0, Of(-1))
			return
		}
		c.set(0, Of(max(x, y)))
		if s, t := c.sizes(0), c.sizes(1); s.Full() && t.Full() {
			c.setValue(0, c.broadcast(s, t))
		}
	}},
	{"BroadcastGradientArgs", gives(ranks(1, 1), Of(-1), Of(-1))},
	{"Transpose ConjugateTranspose", transpose},
	{"InplaceAdd InplaceSub InplaceUpdate", unchanged},
	{"UnravelIndex", func(c *call) {
		sizes, indices := c.vector(1), c.in(0)
		switch {
		case indices.known && indices.Rank() == 0:
			c.set(0, Of(sizes.at(0)))
		case indices.known:
			c.set(0, Of(sizes.at(0), c.elements(indices)))
		}
	}},
	{"InvertPermutation", unchangedOf(1)},
	{"ListDiff", gives(ranks(1, 1), Of(-1), Of(-1))},
	{"LowerBound UpperBound", func(c *call) {
		c.matrix(0)
		c.matrix(1)
		c.set(0, c.in(1))
	}},
	{"OneHot", oneHot},
	{"Unique", func(c *call) {
		c.vector(0)
		c.set(0, Of(-1))
		c.set(1, c.in(0))
	}},
	{"UniqueWithCounts", func(c *call) {
		c.set(0, Of(-1))
		c.set(1, c.in(0))
		c.set(2, Of(-1))
	}},
	{"UniqueV2 UniqueWithCountsV2", func(c *call) {
		c.set(0, c.unknownOf(int64(c.in(0).Rank())))
		c.set(1, c.uniqueIndex())
		c.set(2, Of(-1))
	}},
	{"Where", func(c *call) { c.set(0, Of(-1, int64(c.in(0).Rank()))) }},
	{"Roll", func(c *call) {
		c.atLeast(c.in(0), 1)
		c.merge(c.atMost(c.in(1), 1), c.atMost(c.in(2), 1))
		unchanged(c)
	}},
}

func constant(c *call) {
	v, err := c.Attrs.Tensor("value")
	c.Fail(err)
	dims, known := tensor.ShapeFromProto(v.GetTensorShape())
	s := c.declared(dims, known)
	if c.Err() == nil && !s.Full() {
		c.fail("Shape %v of a constant is not known in full", s)
	}
	c.set(0, s)
}

func reshape(c *call) {
	in, out := c.in(0), c.shapeOf(1)
	c.set(0, out)
	if !out.known || !in.known {
		return
	}
	inN, inAt, inMany := c.knownPart(in)
	outN, outAt, outMany := c.knownPart(out)
	if inMany || outMany || c.Err() != nil {
		return
	}
	switch {
	case inAt < 0 && outAt < 0:
		if inN != outN {
			c.fail("Cannot reshape a tensor with %d elements to shape %v (%d elements)", inN, out, outN)
		}
	case inAt < 0 && outN > 0:
		c.set(0, c.with(out, outAt, c.div(inN, outN, true)))
	case inAt >= 0 && outAt < 0 && inN != 0:
		c.div(outN, inN, true)
	}
}

// knownPart returns the product of the known sizes, the index of the unknown one (-1 for none), and whether several are unknown. A size of
// 0 makes the product known.
func (c *call) knownPart(s Shape) (n int64, at int, many bool) {
	if n = c.elements(s); n >= 0 {
		return n, -1, false
	}
	n, at = 1, -1
	for i, d := range s.dims {
		switch {
		case d >= 0:
			n = c.mul(n, d)
		case at >= 0:
			return n, at, true
		default:
			at = i
		}
	}
	return n, at, false
}

func bitcast(c *call) {
	in := c.in(0)
	from, to := int64(c.Type("T").Size()), int64(c.Type("type").Size())
	if from <= 0 || to <= 0 {
		c.fail("Cannot bitcast types %v and %v, whose elements have no fixed size", c.Type("T"), c.Type("type"))
		return
	}
	switch {
	case !in.known || from == to:
		c.set(0, in)
	case from > to:
		c.set(0, join(in, Of(from/to)))
	case len(in.dims) == 0 || (in.at(-1) >= 0 && in.at(-1) != to/from):
		c.fail("Cannot bitcast due to shape. %v does not end in %d elements, which make one of %v", in, to/from, c.Type("type"))
	default:
		c.set(0, c.sub(in, 0, -1))
	}
}

func expandDims(c *call) {
	in := c.in(0)
	at, ok := c.ints(1)
	if t := c.value(1); ok && len(at) != 1 || t != nil && t.Len() != 1 {
		c.fail("'dim' input must be a tensor with a single value")
		return
	}
	if c.in(1).known && len(c.in(1).dims) == 0 && c.sizes(0).known {
		c.setValue(0, c.sizes(0)) // a scalar becomes a vector of one
	}
	if !ok || !in.known {
		return
	}
	rank, d := int64(len(in.dims)), at[0]
	if d < -rank-1 || d > rank {
		c.fail("dim %d not in the interval [%d, %d].", d, -rank-1, rank)
		return
	}
	if d < 0 {
		d += rank + 1
	}
	c.set(0, join(c.sub(in, 0, int(d)), Of(1), c.from(in, int(d))))
}

func squeeze(c *call) {
	in := c.in(0)
	axes := c.IntList("squeeze_dims")
	if !in.known {
		return
	}
	rank := int64(len(in.dims))
	gone := make([]bool, rank)
	for i, a := range axes {
		if a < -rank || a >= rank {
			c.fail("squeeze_dims[%d] not in [-%d,%d).", i, rank, rank)
			return
		}
		gone[(a+rank)%rank] = true
	}
	dims := tensor.Shape{}
	for i, d := range in.dims {
		switch {
		case d < 0 && gone[i], d == 1 && (gone[i] || len(axes) == 0):
		case d < 0 && len(axes) == 0:
			return
		case gone[i]:
			c.fail("Can not squeeze dim[%d], expected a dimension of 1, got %d", i, d)
		default:
			dims = append(dims, d)
		}
	}
	c.set(0, Shape{dims, true})
	c.setValue(0, c.sizes(0))
}

func fill(c *call) {
	c.vector(0)
	c.scalar(1)
	if dims, ok := c.ints(0); ok {
		for _, d := range dims {
			if d < 0 {
				c.fail("Fill dimensions must be >= 0")
			}
		}
	}
	out := c.shapeOf(0)
	c.set(0, out)
	c.setHandles(0, c.handles(1))
	if v := c.sizes(1); len(v.dims) == 1 && len(out.dims) == 1 && out.dims[0] >= 0 && out.dims[0] <= tensor.MaxRank {
		c.setValue(0, Shape{slices.Repeat(v.dims, int(out.dims[0])), true})
	}
}

func tile(c *call) {
	in, by := c.in(0), c.shapeOf(1)
	if in.known {
		by = c.is(by, len(in.dims))
		c.merge(c.in(1), Of(int64(len(in.dims))))
	}
	if !by.known {
		return
	}
	in = c.is(in, len(by.dims))
	dims := make(tensor.Shape, len(by.dims))
	for i := range dims {
		dims[i] = c.mul(in.at(i), by.at(i))
	}
	c.set(0, Shape{dims, true})
}

func broadcastTo(c *call) {
	c.vector(1)
	in, out := c.in(0), c.shapeOf(1)
	if in.known && out.known {
		in = c.atMost(in, len(out.dims))
		for i := 1; i <= len(in.dims); i++ {
			if d := in.at(-i); d > 1 {
				out = c.with(out, -i, c.equal(d, out.at(-i)))
			}
		}
	}
	c.set(0, out)
}

func transpose(c *call) {
	in, perm := c.in(0), c.in(1)
	n := c.elements(perm)
	order, ok := c.ints(1)
	var rank int64
	switch {
	case in.known:
		rank = int64(len(in.dims))
	case n >= 0:
		rank = n
	case ok:
		rank = int64(len(order))
	default:
		return
	}
	if !in.known && rank < 2 {
		return
	}
	out := c.unknownOf(rank)
	in = c.is(in, len(out.dims))
	c.is(perm, 1)
	c.size(n, rank)
	if ok && c.Err() == nil {
		if int64(len(order)) != rank {
			c.fail("perm has %d dimensions for an input of rank %d", len(order), rank)
			return
		}
		for i, p := range order {
			if p < -rank || p >= rank {
				c.fail("perm dim %d is out of range of input rank %d", p, rank)
				return
			}
			out.dims[i] = in.at(int(p))
		}
	}
	c.set(0, out)
}

func oneHot(c *call) {
	axis := int(c.Int32("axis"))
	if axis < -1 {
		c.fail("axis must be >= -1")
	}
	depth := c.dimOf(1)
	in := c.in(0)
	if !in.known || c.Err() != nil {
		return
	}
	rank := len(in.dims) + 1
	at := (axis + rank) % rank
	c.set(0, join(c.sub(in, 0, at), Of(depth), c.from(in, at)))
}

// uniqueIndex returns the shape of the indices into the unique elements along an axis.
func (c *call) uniqueIndex() Shape {
	in := c.in(0)
	axis, ok := c.ints(1)
	if !ok || !in.known {
		return Of(-1)
	}
	rank := int64(len(in.dims))
	switch {
	case c.in(1).Rank() != 1:
		c.fail("axis expects a 1D vector.")
	case len(axis) == 0 && rank != 1:
		c.fail("x expects a 1D vector.")
	case len(axis) == 0:
		return in
	case len(axis) > 1:
		c.fail("axis does not support input tensors larger than 1 elements.")
	case axis[0] < -rank || axis[0] >= rank:
		c.fail("axis expects to be in the range [%d, %d)", -rank, rank)
	default:
		return Of(in.at(int(axis[0])))
	}
	return Of(-1)
}
