package shape

import (
	"math"

	"github.com/troupe-run/troupe/graph/tensor"
)

var mathOps = []row{
	{`Abs Angle Bucketize Ceil ClipByValue ComplexAbs Cumprod Cumsum CumulativeLogsumexp Floor Imag IsFinite IsInf IsNan LogicalNot Real Rint Sign
		Acos Acosh Asin Asinh Atan Atanh Cos Cosh Exp Expm1 Log Log1p Rsqrt Sigmoid Sin Sinh Sqrt Tan Tanh
		Digamma Erf Erfc Erfinv Lgamma Ndtri Inv Neg Reciprocal Round Square Conj Invert PopulationCount
		InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad
		BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1
		Dawsn Expint FresnelCos FresnelSin Spence`, unchanged},
	{"Cast", same},
	{`Atan2 Complex DivNoNan FloorMod Igamma IgammaGradA Igammac Maximum Minimum Mod MulNoNan NextAfter
		Polygamma Pow RealDiv SquaredDifference TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta Div
		BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift LogicalAnd LogicalOr
		Greater GreaterEqual Less LessEqual RandomGammaGrad`, broadcastBoth},
	{"Add AddV2", arithmetic(func(a, b int64) (int64, bool) { return a + b, (a^(a+b))&(b^(a+b)) >= 0 })},
	{"Sub", arithmetic(func(a, b int64) (int64, bool) { return a - b, true })},
	{"Mul", arithmetic(func(a, b int64) (int64, bool) { return a * b, a == 0 || b == 0 || a <= math.MaxInt64/b })},
	{"FloorDiv", arithmetic(func(a, b int64) (int64, bool) {
		if b == 0 {
			return 0, false
		}
		return a / b, true
	})},
	{"Equal NotEqual", equality},
	{"ApproximateEqual", func(c *call) {
		c.merge(c.in(0), c.in(1))
		c.set(0, c.in(0))
	}},
	{"AddN", addN},
	{"AccumulateNV2", explicit},
	{"Betainc", func(c *call) { c.set(0, c.mergeTensors(3)) }},
	{"Cross", cross},
	{"Select", selectRows},
	{"SelectV2", func(c *call) {
		c.mergeBranches()
		c.set(0, c.broadcast(c.in(0), c.broadcast(c.in(1), c.in(2))))
	}},
	{"Range", rangeOf},
	{"LinSpace", linSpace},
	{"HistogramFixedWidth", func(c *call) {
		c.pair(1)
		c.scalar(2)
		n, ok := c.scalarInt(2)
		if ok && n <= 0 {
			c.fail("Requires nbins > 0: %d", n)
		}
		c.set(0, Of(orUnknown(n, ok)))
	}},
}

// arithmetic is broadcastBoth for ops with which programs compute sizes: f returns the result for two known values, and whether it fits.
func arithmetic(f func(a, b int64) (int64, bool)) rule {
	return func(c *call) {
		broadcastBoth(c)
		if t := outType(c); t != tensor.Int32 && t != tensor.Int64 {
			return
		}
		x, y := c.sizes(0), c.sizes(1)
		out := c.r.Out[0]
		if !x.known || !y.known || !out.known || len(out.dims) > 1 {
			return
		}
		n := int64(1)
		if len(out.dims) == 1 {
			n = out.dims[0]
		}
		if n < 0 || n > tensor.MaxRank {
			return
		}
		dims := make(tensor.Shape, n)
		for i := range dims {
			a, b := stretched(x, i), stretched(y, i)
			dims[i] = -1
			if a >= 0 && b >= 0 {
				if v, ok := f(a, b); ok && v >= 0 && (outType(c) == tensor.Int64 || v <= math.MaxInt32) {
					dims[i] = v
				}
			}
		}
		c.setValue(0, Shape{dims, true})
	}
}

func stretched(s Shape, i int) int64 {
	if len(s.dims) == 1 {
		i = 0
	}
	return s.at(i)
}

func outType(c *call) tensor.DType {
	if len(c.Out) > 0 {
		return c.Out[0]
	}
	return tensor.Invalid
}

func orUnknown(d int64, ok bool) int64 {
	if !ok {
		return -1
	}
	return d
}

func equality(c *call) {
	x, y := c.in(0), c.in(1)
	if c.Has("incompatible_shape_error") && !c.Bool("incompatible_shape_error") {
		// If the shapes are incompatible, the op returns a single false: the result is known only if both shapes are.
		if !x.known || !y.known {
			return
		}
		rank := max(len(x.dims), len(y.dims))
		for i := 1; i <= rank; i++ {
			a, b := int64(1), int64(1)
			if i <= len(x.dims) {
				a = x.at(-i)
			}
			if i <= len(y.dims) {
				b = y.at(-i)
			}
			if (a < 0 || b < 0) && a != 1 && b != 1 && (a >= 0 || b >= 0) {
				return
			}
		}
		probe := newCall(c.Node, &Result{})
		if s := probe.broadcast(x, y); probe.Err() == nil {
			c.set(0, s)
		} else {
			c.set(0, Scalar())
		}
		return
	}
	c.set(0, c.broadcast(x, y))
}

func addN(c *call) {
	all, ok := c.mergeAll()
	if !ok {
		return
	}
	handles := c.handles(len(c.In) - 1)
	if c.Type("T") == tensor.Variant {
		for i := len(c.In) - 2; i >= 0; i-- {
			handles = c.mergeHandles(handles, c.handles(i))
		}
	}
	c.set(0, all)
	c.setHandles(0, handles)
}

// mergeHandles merges what two handles refer to.
func (c *call) mergeHandles(a, b []Handle) []Handle {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	case len(a) != len(b):
		c.fail("Trying to merge handles pointing to different numbers of tensors: %d and %d", len(a), len(b))
		return a
	}
	out := make([]Handle, len(a))
	for i := range a {
		if a[i].DType != b[i].DType {
			c.fail("Trying to merge handles pointing to different dtypes: %v of shape %v and %v of shape %v", a[i].DType, a[i].Shape, b[i].DType, b[i].Shape)
		}
		out[i] = Handle{a[i].DType, c.merge(a[i].Shape, b[i].Shape)}
	}
	return out
}

// mergeTensors merges the shapes of the first n inputs; a scalar is compatible with any other.
func (c *call) mergeTensors(n int) Shape {
	out, scalars := Shape{}, 0
	for i := range n {
		switch s := c.in(i); {
		case !s.known:
		case len(s.dims) == 0:
			scalars++
		default:
			out = c.merge(out, s)
		}
	}
	if scalars == n {
		return Scalar()
	}
	return out
}

func cross(c *call) {
	s := c.merge(c.atLeast(c.in(0), 1), c.atLeast(c.in(1), 1))
	if s.known {
		c.size(s.at(-1), 3)
	}
	c.set(0, s)
}

// mergeBranches merges what the handles of both branches refer to.
func (c *call) mergeBranches() {
	if a, b := c.handles(1), c.handles(2); len(a) > 0 && len(b) > 0 {
		c.setHandles(0, c.mergeHandles(a, b))
	}
}

func selectRows(c *call) {
	c.mergeBranches()
	data, cond := c.merge(c.in(1), c.in(2)), c.in(0)
	switch {
	case !cond.known || !data.known || len(cond.dims) == 0:
	case len(cond.dims) != 1 || len(data.dims) == 0:
		data = c.merge(data, cond)
	default:
		c.merge(cond, Of(data.at(0)))
	}
	c.set(0, data)
}

// scalars checks that the first inputs, with these names, are scalars.
func (c *call) scalars(names ...string) {
	for i, name := range names {
		if s := c.in(i); s.known && len(s.dims) != 0 {
			c.fail("Shape must be rank 0 but is rank %d for '%s'", len(s.dims), name)
		}
	}
}

func rangeOf(c *call) {
	c.scalars("start", "limit", "delta")
	c.set(0, Of(c.rangeSize()))
}

func (c *call) rangeSize() int64 {
	v := [3]float64{}
	whole := [3]int64{}
	integral := true
	for i := range v {
		if n, ok := c.ints(i); ok && len(n) == 1 {
			whole[i], v[i] = n[0], float64(n[0])
			continue
		}
		integral = false
		t := c.value(i)
		if t == nil || t.Len() != 1 {
			return -1
		}
		switch t.DType() {
		case tensor.Float32:
			v[i] = float64(tensor.Of[float32](t)[0])
		case tensor.Float64:
			v[i] = tensor.Of[float64](t)[0]
		default:
			return -1
		}
	}
	start, limit, delta := v[0], v[1], v[2]
	switch {
	case start > limit && delta > 0:
		c.fail("Requires start <= limit when delta > 0: %v/%v", start, limit)
	case start < limit && delta < 0:
		c.fail("Requires start >= limit when delta < 0: %v/%v", start, limit)
	case delta == 0:
		c.fail("Requires delta != 0")
	case integral:
		span := uint64(whole[1]) - uint64(whole[0])
		if whole[1] < whole[0] {
			span = -span
		}
		step := uint64(whole[2])
		if whole[2] < 0 {
			step = -step
		}
		n := span / step
		if span%step != 0 {
			n++
		}
		if n <= math.MaxInt64 {
			return int64(n)
		}
		c.fail("Requires ((limit - start) / delta) <= %d", int64(math.MaxInt64))
	default:
		n := math.Abs((limit - start) / delta)
		if outType(c) == tensor.Float32 {
			n = float64(float32(math.Abs(float64(float32(float32(limit)-float32(start)) / float32(delta)))))
		}
		if n = math.Ceil(n); n < math.MaxInt64 {
			return int64(n)
		}
		c.fail("Requires ((limit - start) / delta) <= %d", int64(math.MaxInt64))
	}
	return -1
}

func linSpace(c *call) {
	c.scalars("start", "stop", "num")
	n, ok := c.scalarInt(2)
	if ok && n <= 0 {
		c.fail("Requires num > 0: %d", n)
	}
	c.set(0, Of(orUnknown(n, ok)))
}
