package random

import (
	"math"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/philox"
)

// newShuffle returns the kernel that shuffles rows.
func newShuffle(c *kernels.Construction) (any, error) {
	g, err := philox.NewGenerator(c)
	if err != nil {
		return nil, err
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		return shuffle(ctx, func(groups int64) philox.Philox { return g.Reserve(groups) })
	}), nil
}

// statelessShuffle is the kernel of the op that takes the generator's state as inputs.
func statelessShuffle(ctx *kernels.Context) error {
	gen, err := fromKey(ctx, max(1, ctx.Input(0).Len()))
	if err != nil {
		return err
	}
	return shuffle(ctx, func(int64) philox.Philox { return gen })
}

// shuffle shuffles the rows of input 0.
func shuffle(ctx *kernels.Context, numbers func(groups int64) philox.Philox) error {
	in := ctx.Input(0)
	if in.Len() <= 1 || in.Dim(0) <= 1 {
		ctx.SetOutput(0, in.Retain())
		return nil
	}
	rows := in.Dim(0)
	gen := numbers((int64(rows-1) + 3) / 4)
	x := philox.OneAtATime(&gen)
	m := ctx.Meter()
	defer m.Done()
	order, err := kernels.Scratch[int64](&m, rows)
	if err != nil {
		return err
	}
	for i := range order {
		order[i] = int64(i)
	}
	for i := range rows - 1 {
		j := i + int(x.Next()%uint32(rows-i))
		order[i], order[j] = order[j], order[i]
	}
	out, err := ctx.Allocate(0, in.DType(), in.Shape())
	if err != nil {
		return err
	}
	return layout.MoveAt(ctx, out, in, nil, order, in.Len()/rows, rows)
}

// multinomialKernel draws classes by their unnormalized log-probabilities.
type multinomialKernel[T element.Floating] struct {
	dtype, out tensor.DType
	numbers    multinomialSource
}

// multinomialSource returns a generator for n random numbers.
type multinomialSource func(ctx *kernels.Context, n int64) (philox.Philox, error)

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
	if err != nil {
		return err
	}
	gen, err := k.numbers(ctx, int64(logits.Dim(0))*int64(samples+3)/4*4*2*philox.ReservedPerOutput)
	if err != nil || out.Len() == 0 {
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
			want := philox.UnitDouble(x0, x.Next()) * total
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

// cumulate sets cdf to the running sums of the exponentials of logits, relative to their maximum, and returns the last sum. Logits that are
// not finite count as impossible.
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

// multinomialOf and statelessMultinomialOf return the rows of Multinomial and StatelessMultinomial for one type of logits.
func multinomialOf[T element.Floating]() []kernels.Def {
	return multinomialRows[T](func(c *kernels.Construction) (multinomialSource, error) {
		g, err := philox.NewGenerator(c)
		return func(_ *kernels.Context, n int64) (philox.Philox, error) { return g.Reserve(n), nil }, err
	}, "num_samples")
}

func statelessMultinomialOf[T element.Floating]() []kernels.Def {
	return multinomialRows[T](func(*kernels.Construction) (multinomialSource, error) {
		return func(ctx *kernels.Context, _ int64) (philox.Philox, error) { return seedInput(ctx, 2) }, nil
	}, "num_samples", "seed")
}

func multinomialRows[T element.Floating](numbers func(*kernels.Construction) (multinomialSource, error), hostInputs ...string) []kernels.Def {
	dtype := element.DTypeOf[T]()
	row := func(out tensor.DType) []kernels.Def {
		return halves.With("T", kernels.Def{Types: dtypes.Only("output_dtype", out), HostInputs: hostInputs, New: func(c *kernels.Construction) (any, error) {
			source, err := numbers(c)
			return &multinomialKernel[T]{dtype, out, source}, err
		}}, dtype)
	}
	return append(row(tensor.Int32), row(tensor.Int64)...)
}
