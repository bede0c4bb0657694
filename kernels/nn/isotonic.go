package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// isotonicKernel is IsotonicRegression: the closest non-increasing rows by least squares. Adjacent pools that would increase are merged,
// and take their mean.
type isotonicKernel[In element.Ordered, Out element.Floating] struct{}

func (k isotonicKernel[In, Out]) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, element.DTypeOf[In]()); err != nil {
		return err
	}
	columns := 1
	if in.Rank() > 0 {
		columns = in.Dim(in.Rank() - 1)
	}
	if in.Len() >= math.MaxInt32 && (columns >= math.MaxInt32 || in.Len()/columns >= math.MaxInt32) {
		return status.InvalidArgumentf("Tensor too large")
	}
	out, err := ctx.Allocate(0, element.DTypeOf[Out](), in.Shape())
	if err != nil {
		return err
	}
	segments, err := ctx.Allocate(1, tensor.Int32, in.Shape())
	if err != nil || in.Len() == 0 {
		return err
	}
	src, dst, ids := element.ViewOf[In](in), element.ViewOf[Out](out), tensor.Of[int32](segments)
	return element.WithScratch(ctx, len(src)/columns, max(1, element.CostlyGrain/columns), columns, func(sums []Out, lo, hi int) {
		end := ctx.Lookout()
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			isotonicRow(&end, dst[r*columns:][:columns], ids[r*columns:][:columns], src[r*columns:][:columns], sums)
		}
	})
}

// isotonicTime is the time in nanoseconds to pool an element, and isotonicPart the number of elements between two looks for the step's end.
const isotonicTime, isotonicPart = 16, 4096

// isotonicRow solves a row, unless the step ends. Until it is done, ids holds the ends of the pools and dst their means.
func isotonicRow[In element.Ordered, Out element.Floating](end *kernels.Lookout, dst []Out, ids []int32, src []In, sums []Out) {
	n := 0
	for i, v := range src {
		if i%isotonicPart == 0 && end.After(isotonicPart*isotonicTime) != nil {
			return
		}
		ids[n], sums[n], dst[n] = int32(i+1), Out(v), Out(v)
		n++
		for n > 1 && dst[n-1] > dst[n-2] {
			n--
			begin := int32(0)
			if n > 1 {
				begin = ids[n-2]
			}
			sums[n-1] += sums[n]
			ids[n-1] = ids[n]
			dst[n-1] = sums[n-1] / Out(ids[n-1]-begin)
		}
	}
	last := len(src)
	for p := n - 1; p >= 0; p-- {
		mean, begin := dst[p], 0
		if p > 0 {
			begin = int(ids[p-1])
		}
		for i := begin; i < last; i++ {
			dst[i], ids[i] = mean, int32(p)
		}
		last = begin
	}
}

// isotonicRows returns the rows for one pair of types, isotonicHalves those of the half types, which are computed in float32.
func isotonicRows[In element.Ordered, Out element.Floating]() []kernels.Def {
	return []kernels.Def{isotonicDef(element.DTypeOf[In](), element.DTypeOf[Out](), newIsotonic[In, Out])}
}

func isotonicHalves() (rows []kernels.Def) {
	for _, half := range halves.Types {
		rows = append(rows, isotonicDef(half, half, halves.Constructor(half, newIsotonic[float32, float32])))
	}
	return rows
}

func isotonicDef(in, out tensor.DType, construct func(*kernels.Construction) (any, error)) kernels.Def {
	return kernels.Def{Types: map[string][]tensor.DType{"T": {in}, "output_dtype": {out}}, Expensive: true, New: construct}
}

func newIsotonic[In element.Ordered, Out element.Floating](*kernels.Construction) (any, error) {
	return isotonicKernel[In, Out]{}, nil
}
