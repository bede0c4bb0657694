package random

import (
	"math"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// newShuffle makes the kernel that puts rows into a random order.
func newShuffle(c *kernels.Construction) (any, error) {
	g, err := philox.NewGenerator(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		if in.Len() <= 1 || in.Dim(0) <= 1 {
			ctx.SetOutput(0, in.Retain())
			return nil
		}
		rows := in.Dim(0)
		gen := g.Reserve((int64(rows-1) + 3) / 4)
		x := philox.OneAtATime(&gen)
		order := make([]int, rows)
		for i := range order {
			order[i] = i
		}
		for i := range rows - 1 {
			j := i + int(x.Next()%uint32(rows-i))
			order[i], order[j] = order[j], order[i]
		}
		out, err := ctx.Allocate(0, in.DType(), in.Shape())
		if err != nil {
			return err
		}
		reorder(out, in, order)
		return nil
	}), nil
}

// reorder makes row i of dst row order[i] of src.
func reorder(dst, src *tensor.Tensor, order []int) {
	switch src.DType() {
	case tensor.String:
		reorderRows(dst.Strings(), src.Strings(), order)
	case tensor.Resource:
		reorderRows(dst.Handles(), src.Handles(), order)
	case tensor.Variant:
		reorderRows(dst.Variants(), src.Variants(), order)
		tensor.RetainVariants(dst.Variants())
	default:
		reorderRows(dst.Data(), src.Data(), order)
	}
}

func reorderRows[E any](dst, src []E, order []int) {
	n := len(src) / len(order)
	for i, o := range order {
		copy(dst[i*n:(i+1)*n], src[o*n:(o+1)*n])
	}
}

// multinomialKernel draws classes by their unnormalized log-probabilities.
type multinomialKernel[T element.Floating] struct {
	dtype, out tensor.DType
	// numbers is where so many random numbers come from.
	numbers func(ctx *kernels.Context, n int64) (philox.Philox, error)
}

func (k *multinomialKernel[T]) Compute(ctx *kernels.Context) error {
	logits, count := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, k.dtype), args.CheckType(ctx, 1, tensor.Int32)); err != nil {
		return err
	}
	if logits.Rank() != 2 {
		return status.InvalidArgumentf("logits should be a matrix, got shape %v", logits.Shape())
	}
	if count.Rank() != 0 {
		return status.InvalidArgumentf("num_samples should be a scalar, got shape %v", count.Shape())
	}
	samples := int(tensor.Of[int32](count)[0])
	if samples < 0 {
		return status.InvalidArgumentf("num_samples should be non-negative, got %d", samples)
	}
	classes := logits.Dim(1)
	if classes == 0 {
		return status.InvalidArgumentf("num_classes should be positive, got %d", classes)
	}
	out, err := ctx.Allocate(0, k.out, tensor.Shape{logits.Shape()[0], int64(samples)})
	if err != nil || out.Len() == 0 {
		return err
	}
	gen, err := k.numbers(ctx, int64(logits.Dim(0))*int64(samples+3)/4*4*2*philox.ReservedPerOutput)
	if err != nil {
		return err
	}
	x := philox.OneAtATime(&gen)
	cdf := make([]float64, classes)
	row := element.ViewOf[T](logits)
	for at := 0; at < out.Len(); at += samples {
		total := cumulate(cdf, row[:classes])
		row = row[classes:]
		for j := at; j < at+samples; j++ {
			x0 := x.Next()
			want := unitDouble(x0, x.Next()) * total
			class := sort.Search(classes, func(i int) bool { return cdf[i] > want })
			if k.out == tensor.Int32 {
				tensor.Of[int32](out)[j] = int32(class)
			} else {
				tensor.Of[int64](out)[j] = int64(class)
			}
		}
	}
	return nil
}

// cumulate sets cdf to the running sums of the exponentials of logits, whose maximum is taken
// out, and returns the last. Logits that are not finite count as impossible.
func cumulate[T element.Floating](cdf []float64, logits []T) float64 {
	finite := func(v T) bool { return v-v == 0 }
	top := math.Inf(-1)
	for _, v := range logits {
		if finite(v) {
			top = max(top, float64(v))
		}
	}
	total := 0.0
	for i, v := range logits {
		if finite(v) {
			total += math.Exp(float64(v) - top)
		}
		cdf[i] = total
	}
	return total
}

func multinomialRows[T element.Floating](table *kernels.Table) {
	dtype := element.DTypeOf[T]()
	for _, out := range []tensor.DType{tensor.Int32, tensor.Int64} {
		construct := func(c *kernels.Construction) (any, error) {
			g, err := philox.NewGenerator(c)
			return &multinomialKernel[T]{dtype, out, func(_ *kernels.Context, n int64) (philox.Philox, error) { return g.Reserve(n), nil }}, err
		}
		stateless := func(*kernels.Construction) (any, error) {
			return &multinomialKernel[T]{dtype, out, func(ctx *kernels.Context, _ int64) (philox.Philox, error) { return seedInput(ctx, 2) }}, nil
		}
		row := func(in tensor.DType, construct, stateless func(*kernels.Construction) (any, error)) {
			types := map[string][]tensor.DType{"T": {in}, "output_dtype": {out}}
			table.Add(kernels.Def{Op: "Multinomial", Types: types, HostInputs: []string{"num_samples"}, New: construct})
			table.Add(kernels.Def{Op: "StatelessMultinomial", Types: types, HostInputs: []string{"num_samples", "seed"}, New: stateless})
		}
		row(dtype, construct, stateless)
		if dtype == tensor.Float32 {
			for _, half := range halves.Types {
				row(half, halves.Constructor(half, construct), halves.Constructor(half, stateless))
			}
		}
	}
}
