package grad

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	register(map[string]unary{
		"SegmentSum": func(g *call, x, y, dy op.Output) op.Output { return g.gather(dy, g.x(1)) },
		"SegmentMean": func(g *call, x, y, dy op.Output) op.Output {
			// The number of rows of each segment, as a column.
			ids := g.x(1)
			rest := g.fill(g.expand(g.sub(g.op("Rank", x), g.int(1)), 0), g.int(1))
			ones := g.fill(g.concat(0, g.shape(ids), rest), g.number(dy, 1))
			return g.gather(g.div(dy, g.op("SegmentSum", ones, ids)), ids)
		},
		"SegmentProd": func(g *call, x, y, dy op.Output) op.Output {
			ids := g.x(1)
			segments := func(name string, v op.Output) op.Output { return g.op(name, v, ids) }
			return g.segmentProduct(x, y, dy, segments, "SegmentSum", "SegmentProd", func(v op.Output) op.Output { return g.gather(v, ids) })
		},
		"UnsortedSegmentProd": func(g *call, x, y, dy op.Output) op.Output {
			ids, kept := g.present()
			segments := func(name string, v op.Output) op.Output { return g.op(name, v, g.x(1), g.x(2)) }
			return g.segmentProduct(x, y, dy, segments, "UnsortedSegmentSum", "UnsortedSegmentProd", func(v op.Output) op.Output {
				return g.where(kept(v), g.gather(v, ids), g.number(v, 0))
			})
		},
		"SegmentMax":         segmentExtreme,
		"SegmentMin":         segmentExtreme,
		"UnsortedSegmentMax": unsortedExtreme,
		"UnsortedSegmentMin": unsortedExtreme,
		"UnsortedSegmentSum": func(g *call, x, y, dy op.Output) op.Output {
			ids, kept := g.present()
			return g.where(kept(dy), g.gather(dy, ids), g.number(dy, 0))
		},
		"SparseSegmentSum":                  sparseSegment("SparseSegmentSumGrad"),
		"SparseSegmentMean":                 sparseSegment("SparseSegmentMeanGrad"),
		"SparseSegmentSqrtN":                sparseSegment("SparseSegmentSqrtNGrad"),
		"SparseSegmentSumWithNumSegments":   sparseSegment("SparseSegmentSumGrad"),
		"SparseSegmentMeanWithNumSegments":  sparseSegment("SparseSegmentMeanGrad"),
		"SparseSegmentSqrtNWithNumSegments": sparseSegment("SparseSegmentSqrtNGrad"),
	}, one)
}

func sparseSegment(name string) unary {
	return func(g *call, x, y, dy op.Output) op.Output {
		return g.op(name, dy, g.x(1), g.x(2), g.at(g.shape(x), 0))
	}
}

func segmentExtreme(g *call, x, y, dy op.Output) op.Output {
	ids := g.x(1)
	chosen := g.op("Equal", x, g.gather(y, ids))
	count := g.op("SegmentSum", g.cast(chosen, dy.DType().Base()), ids)
	return g.where(chosen, g.gather(g.div(dy, count), ids), g.number(dy, 0))
}

func unsortedExtreme(g *call, x, y, dy op.Output) op.Output {
	ids, kept := g.present()
	chosen := g.op("LogicalAnd", g.op("Equal", x, g.gather(y, ids)), kept(y))
	count := g.op("UnsortedSegmentSum", g.cast(chosen, dy.DType().Base()), g.x(1), g.x(2))
	return g.where(chosen, g.gather(g.div(dy, count), ids), g.number(dy, 0))
}

// present returns the segment ids, with 0 in place of negative ones, which belong to no segment. kept returns a mask of the non-negative
// ones, in a shape that broadcasts over the rows of v.
func (g *call) present() (ids op.Output, kept func(v op.Output) op.Output) {
	zero := g.number(g.x(1), 0)
	ids = g.op("Maximum", g.x(1), zero)
	there := g.op("GreaterEqual", g.x(1), zero)
	return ids, func(v op.Output) op.Output {
		rest := g.fill(g.expand(g.sub(g.op("Rank", v), g.int(1)), 0), g.int(1))
		return g.reshape(there, g.concat(0, g.shape(there), rest))
	}
}

// segmentProduct returns the gradient of products by segment: for each element, the product of the others of its segment, which must be
// computed without dividing by zero.
func (g *call) segmentProduct(x, y, dy op.Output, segments func(name string, v op.Output) op.Output, sum, prod string, gather func(op.Output) op.Output) op.Output {
	zero := g.op("Equal", x, g.number(x, 0))
	zeros := segments(sum, g.cast(zero, tensor.Int32))
	dy = g.where(g.op("Greater", zeros, g.int(1)), g.number(dy, 0), dy)
	others := g.where(zero, g.number(x, 1), x)
	rest := g.where(zero, gather(segments(prod, others)), g.div(gather(y), others))
	return g.mul(gather(dy), rest)
}
