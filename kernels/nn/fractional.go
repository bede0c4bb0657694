package nn

import (
	"math"
	"math/rand/v2"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// fractional holds the attributes of pooling by a ratio that need not be an integer. See "Fractional Max-Pooling", Graham 2014. The sizes
// of the regions are drawn at random.
type fractional struct {
	ratio               [4]float32
	pseudo, overlapping bool
	seed, seed2         int64 // if both are zero, every run draws different numbers
}

func newFractional(c *kernels.Construction, what string) (f fractional, err error) {
	a := c.Attrs().Reader()
	ratio, pseudo, overlapping := a.FloatList("pooling_ratio"), a.Bool("pseudo_random"), a.Bool("overlapping")
	deterministic, seed, seed2 := a.Bool("deterministic"), a.Int("seed"), a.Int("seed2")
	if err := a.Err(); err != nil {
		return f, err
	}
	if len(ratio) != 4 {
		return f, status.InvalidArgumentf("pooling_ratio field must specify 4 dimensions")
	}
	for _, r := range ratio {
		if !(r >= 1) {
			return f, status.InvalidArgumentf("pooling_ratio cannot be smaller than 1, got: %v", r)
		}
	}
	if ratio[0] != 1 || ratio[3] != 1 {
		return f, status.Unimplementedf("Fractional %s pooling is not yet supported on the batch nor channel dimension.", what)
	}
	switch {
	case !deterministic && (seed != 0 || seed2 != 0):
		return f, status.InvalidArgumentf("Both seed and seed2 should be 0 if deterministic is false.")
	case deterministic && seed == 0 && seed2 == 0:
		seed, seed2 = int64(rand.Uint64()), int64(rand.Uint64())
	}
	return fractional{[4]float32(ratio), pseudo, overlapping, seed, seed2}, nil
}

// generator returns the random number generator of a run.
func (f *fractional) generator() philox.Philox {
	if f.seed == 0 && f.seed2 == 0 {
		return philox.New(rand.Uint64(), rand.Uint64())
	}
	return philox.New(uint64(f.seed), uint64(f.seed2))
}

// regions divides the rows or columns of an image: part i starts at borders[i]. An overlapping part also includes the first element of the
// next one.
type regions struct {
	borders     []int64
	in          int
	overlapping bool
}

// part returns the range of part i.
func (r *regions) part(i int) (lo, hi int) {
	lo, hi = int(r.borders[i]), int(r.borders[i+1])
	if r.overlapping && hi < math.MaxInt {
		hi++
	}
	return min(lo, r.in), min(hi, r.in)
}

// draw divides in elements into len(borders)-1 parts.
func (f *fractional) draw(gen *philox.Philox, borders []int64, in int) {
	parts := len(borders) - 1
	local := *gen
	if f.pseudo {
		gen.Skip(1)
		x := local.Next()
		pseudoRandom(borders[1:], in, philox.UnitDouble(x[0], x[1]))
	} else {
		gen.Skip(uint64(parts+3) / 4)
		sizes := borders[1:]
		for i := range sizes {
			sizes[i] = int64(in / parts)
			if i < in%parts {
				sizes[i]++
			}
		}
		numbers := philox.OneAtATime(&local)
		for i := range parts - 1 {
			j := i + int(numbers.Next()%uint32(parts-i))
			sizes[i], sizes[j] = sizes[j], sizes[i]
		}
	}
	borders[0] = 0
	for i := range parts {
		borders[i+1] += borders[i]
	}
}

// pseudoRandom sets the sizes of parts from a single number u between 0 and 1.
func pseudoRandom(sizes []int64, in int, u float64) {
	parts := len(sizes)
	alpha, k := float64(in)/float64(parts), float64(in/parts)
	u *= min((k+2)/alpha-1, (float64(in)+1-k)/alpha-float64(parts-1))
	last := int64(1)
	for i := range sizes {
		next := int64(in) + 1
		if i+1 < parts {
			next = int64(math.Ceil(alpha * (float64(i+1) + u)))
		}
		sizes[i], last = next-last, next
	}
}

// plan draws the regions and allocates the outputs.
func (f *fractional) plan(ctx *kernels.Context, dtype tensor.DType) (rows, cols regions, out *tensor.Tensor, err error) {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return rows, cols, nil, err
	}
	if in.Rank() != 4 {
		return rows, cols, nil, status.InvalidArgumentf("tensor_in must be 4-dimensional")
	}
	shape := make(tensor.Shape, 4)
	for i, r := range f.ratio {
		size := in.Dim(i)
		if float32(size) < r {
			return rows, cols, nil, status.InvalidArgumentf("Pooling ratio is higher than input dimension size for dimension %d. Input dim size: %d pooling ratio: %v", i, size, r)
		}
		shape[i] = min(int64(size), int64(float32(size)/r))
	}
	if out, err = ctx.Allocate(0, dtype, shape); err != nil {
		return rows, cols, nil, err
	}
	gen := f.generator()
	var parted [2]regions
	for i := range parted {
		borders, err := ctx.Allocate(1+i, tensor.Int64, tensor.Shape{shape[1+i] + 1})
		if err != nil {
			return rows, cols, nil, err
		}
		parted[i] = regions{tensor.Of[int64](borders), in.Dim(1 + i), f.overlapping}
		f.draw(&gen, parted[i].borders, in.Dim(1+i))
	}
	return parted[0], parted[1], out, nil
}

// cellWork is the cost of a region without pixels.
const cellWork = 8

// cell is the region of one place of the result. Its rows are counted through all images.
type cell struct{ place, top, bottom, left, right int }

// eachCell calls body for rows lo to hi of the result, also counted through all images, until the step ends.
func eachCell(ctx *kernels.Context, rows, cols *regions, lo, hi int, body func(c cell)) {
	height, width := len(rows.borders)-1, len(cols.borders)-1
	end := ctx.Lookout()
	for r := lo; r < hi; r++ {
		top, bottom := rows.part(r % height)
		image := r / height * rows.in
		for x := range width {
			left, right := cols.part(x)
			if end.After(cellWork+(bottom-top)*(right-left)) != nil { // a pixel may lie in many regions
				return
			}
			body(cell{r*width + x, image + top, image + bottom, left, right})
		}
	}
}

// fractionalKernel is FractionalMaxPool and FractionalAvgPool. It joins the pixels of each region, then finishes the result of n pixels.
type fractionalKernel[T element.Ordered] struct {
	fractional
	start  T
	join   func(dst, a, b []T)
	finish func(dst []T, n int)
}

func (k *fractionalKernel[T]) Compute(ctx *kernels.Context) error {
	rows, cols, out, err := k.plan(ctx, element.DTypeOf[T]())
	if err != nil {
		return err
	}
	src, dst, depth := element.ViewOf[T](ctx.Input(0)), element.ViewOf[T](out), out.Dim(3)
	grain := max(1, element.CostlyGrain/max(1, len(src)/max(1, out.Dim(0)*out.Dim(1))))
	ctx.Parallel(out.Dim(0)*out.Dim(1), grain, func(lo, hi int) {
		eachCell(ctx, &rows, &cols, lo, hi, func(c cell) {
			to := dst[c.place*depth:][:depth]
			for i := range to {
				to[i] = k.start
			}
			n := 0
			for y := c.top; y < c.bottom; y++ {
				for x := c.left; x < c.right; x++ {
					k.join(to, to, src[(y*cols.in+x)*depth:][:depth])
					n++
				}
			}
			k.finish(to, n)
		})
	})
	return nil
}

// fractionalMax and fractionalAvg return the rows of one element type. NaN is never the maximum.
func fractionalMax[T element.Ordered](least T) []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		f, err := newFractional(c, "max")
		return &fractionalKernel[T]{f, least, greater[T], func([]T, int) {}}, err
	})
}

func fractionalAvg[T element.Ordered]() []kernels.Def {
	return kernels.ForType("T", element.DTypeOf[T](), func(c *kernels.Construction) (any, error) {
		f, err := newFractional(c, "average")
		return &fractionalKernel[T]{f, 0, elementwise.Add[T], divided[T]}, err
	})
}

// greater sets dst to the elements of a, or of b where those are greater.
func greater[T element.Ordered](dst, a, b []T) {
	for i, v := range b {
		dst[i] = a[i]
		if a[i] < v {
			dst[i] = v
		}
	}
}

// divided divides all elements by n.
func divided[T element.Ordered](dst []T, n int) {
	if n == 0 {
		return
	}
	for i := range dst {
		dst[i] /= T(n)
	}
}
