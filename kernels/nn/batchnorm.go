package nn

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// batchNorm holds the attributes of FusedBatchNorm, its later versions and their gradients.
type batchNorm struct {
	channelsFirst bool
	epsilon       float32
	training      bool
	average       float32 // weight of the batch in the running mean and variance
	outputs       int
	half          bool // whether the images have a half type
}

// reserve returns the shape of output 5 of FusedBatchNormV3, which cuDNN would use for the gradient. As in TensorFlow, whose float kernels
// come from oneDNN, it has no element for float32 and one for halves. Programs reshape it.
func (b *batchNorm) reserve() tensor.Shape {
	if b.half {
		return nil
	}
	return tensor.Shape{0}
}

func newBatchNorm(c *kernels.Construction, outputs int) (b batchNorm, err error) {
	b.outputs, b.average = outputs, 1
	dtype, err := c.Attrs().Type("T")
	if err != nil {
		return b, err
	}
	b.half = dtype != tensor.Float32
	b.channelsFirst, err = args.ChannelsFirst(c)
	a := c.Attrs().Reader()
	b.epsilon, b.training = a.Float("epsilon"), a.Bool("is_training")
	if a.Has("exponential_avg_factor") { // the gradients have none
		b.average = a.Float("exponential_avg_factor")
	}
	return b, args.FirstError(err, a.Err())
}

// perChannel checks that an input is a vector with one element per channel.
func perChannel(ctx *kernels.Context, i int, what string, channels int) error {
	t := ctx.Input(i)
	if err := args.CheckType(ctx, i, tensor.Float32); err != nil {
		return err
	}
	if t.Rank() != 1 {
		return status.InvalidArgumentf("%s must be 1-dimensional%v", what, t.Shape())
	}
	if t.Len() != channels {
		return status.InvalidArgumentf("%s must have the same number of elements as the channels of x, got %d and %d", what, t.Len(), channels)
	}
	return nil
}

// normChannels returns the number of channels of images of rank 4 or 5.
func normChannels(x tensor.Shape, channelsFirst bool) (int, error) {
	if len(x) != 4 && len(x) != 5 {
		return 0, status.InvalidArgumentf("input must be 4 or 5-dimensional%v", x)
	}
	if channelsFirst {
		return int(x[1]), nil
	}
	return int(x[len(x)-1]), nil
}

// checkForward checks inputs whose images have type dtype, and returns the number of channels.
func (b *batchNorm) checkForward(ctx *kernels.Context, dtype tensor.DType, channelsFirst bool) (channels int, err error) {
	if err := args.CheckType(ctx, 0, dtype); err != nil {
		return 0, err
	}
	if channels, err = normChannels(ctx.Input(0).Shape(), channelsFirst); err != nil {
		return 0, err
	}
	if err := args.FirstError(perChannel(ctx, 1, "scale", channels), perChannel(ctx, 2, "offset", channels)); err != nil {
		return 0, err
	}
	if b.training && b.average == 1 {
		return channels, nil
	}
	when := "When is_training=false"
	if b.training {
		when = "When exponential_avg_factor != 1"
	}
	return channels, args.FirstError(perChannel(ctx, 3, when+", mean", channels), perChannel(ctx, 4, when+", variance", channels))
}

// checkBackward is checkForward for the gradient.
func checkBackward(ctx *kernels.Context, dtype tensor.DType, channelsFirst bool) (channels int, err error) {
	dy, x := ctx.Input(0), ctx.Input(1)
	if err := args.FirstError(args.CheckType(ctx, 0, dtype), args.CheckType(ctx, 1, dtype)); err != nil {
		return 0, err
	}
	for _, t := range []*tensor.Tensor{dy, x} {
		if channels, err = normChannels(t.Shape(), channelsFirst); err != nil {
			return 0, err
		}
	}
	if !x.Shape().Equal(dy.Shape()) {
		return 0, status.InvalidArgumentf("x and y_backprop must have same shape, but x has shape %v and y_backprop has shape %v", x.Shape(), dy.Shape())
	}
	return channels, args.FirstError(perChannel(ctx, 2, "scale", channels), perChannel(ctx, 3, "reserve_space_1", channels), perChannel(ctx, 4, "reserve_space_2", channels))
}

func (b *batchNorm) forward(ctx *kernels.Context) error {
	channels, err := b.checkForward(ctx, tensor.Float32, false)
	if err != nil {
		return err
	}
	x := ctx.Input(0)
	y, err := ctx.Allocate(0, tensor.Float32, x.Shape())
	if err != nil {
		return err
	}
	stats, err := b.statistics(ctx, channels)
	if err != nil {
		return err
	}
	src, dst := tensor.Of[float32](x), tensor.Of[float32](y)
	mean, variance, savedMean, savedVariance := stats[0], stats[1], stats[2], stats[3]
	if len(src) == 0 {
		nan := float32(math.NaN())
		for i := range channels {
			mean[i], variance[i], savedMean[i], savedVariance[i] = nan, nan, 0, 0
		}
		return nil
	}
	if b.training {
		err = b.measure(ctx, src, stats)
	} else {
		copy(mean, tensor.Of[float32](ctx.Input(3)))
		copy(variance, tensor.Of[float32](ctx.Input(4)))
		// The saved statistics are for the gradient, which inference does not have.
		clear(savedMean)
		clear(savedVariance)
		savedMean, savedVariance = mean, variance
	}
	if err != nil {
		return err
	}
	scale, offset := tensor.Of[float32](ctx.Input(1)), tensor.Of[float32](ctx.Input(2))
	factor := make([]float32, channels)
	for i := range factor {
		factor[i] = scale[i] / element.Sqrt(savedVariance[i]+b.epsilon)
	}
	element.EachRow(ctx, len(src)/channels, channels, func(lo, hi int) {
		simd.NormalizeRows(dst[lo*channels:hi*channels], src[lo*channels:hi*channels], savedMean, factor, offset)
	})
	return nil
}

// statistics allocates the outputs after the first: mean, variance and the statistics saved for the gradient.
func (b *batchNorm) statistics(ctx *kernels.Context, channels int) (stats [4][]float32, err error) {
	for i := range stats {
		t, err := ctx.Allocate(i+1, tensor.Float32, tensor.Shape{int64(channels)})
		if err != nil {
			return stats, err
		}
		stats[i] = tensor.Of[float32](t)
	}
	if b.outputs > 5 {
		reserve, err := ctx.Allocate(5, tensor.Float32, b.reserve())
		if err != nil {
			return stats, err
		}
		layout.Zero(ctx, reserve)
	}
	return stats, nil
}

// rowsOfPart is the number of rows that are summed sequentially. It does not depend on the number of workers, so neither does rounding.
const rowsOfPart = 256

// partsOfRows calls add for parts of all rows, in parallel. Each part has n sums of its own, which start at 0. partsOfRows returns the sums
// of all parts; release frees their memory.
func partsOfRows(ctx *kernels.Context, rows, n, channels int, add func(sums [][]float32, lo, hi int)) (parts [][][]float32, release func(), err error) {
	parts = make([][][]float32, (rows+rowsOfPart-1)/rowsOfPart)
	work, release, err := element.Scratch[float32](ctx.Device, len(parts)*n*channels)
	if err != nil {
		return nil, nil, err
	}
	clear(work)
	for p := range parts {
		parts[p] = make([][]float32, n)
		for i := range parts[p] {
			parts[p][i], work = work[:channels], work[channels:]
		}
	}
	ctx.Parallel(len(parts), max(1, element.CheapGrain/(rowsOfPart*channels)), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			add(parts[p], p*rowsOfPart, min((p+1)*rowsOfPart, rows))
		}
	})
	return parts, release, nil
}

// sumInRows calls add for parts of all rows, in parallel, each with its own sums. It stores the totals in sums.
func sumInRows(ctx *kernels.Context, rows int, sums [][]float32, add func(sums [][]float32, lo, hi int)) error {
	parts, release, err := partsOfRows(ctx, rows, len(sums), len(sums[0]), add)
	if err != nil {
		return err
	}
	defer release()
	for i, sum := range sums {
		clear(sum)
		for _, part := range parts {
			simd.Add(sum, sum, part[i])
		}
	}
	return nil
}

// measure computes the batch's mean and variance.
func (b *batchNorm) measure(ctx *kernels.Context, src []float32, stats [4][]float32) error {
	mean, variance, batchMean, batchVariance := stats[0], stats[1], stats[2], stats[3]
	channels := len(mean)
	rows := len(src) / channels
	if err := moments(ctx, src, rows, batchMean, batchVariance); err != nil {
		return err
	}
	unbiased := float32(rows) / float32(max(1, rows-1))
	if b.average == 1 {
		copy(mean, batchMean)
		simd.MulScalar(variance, batchVariance, unbiased)
		return nil
	}
	oldMean, oldVariance := tensor.Of[float32](ctx.Input(3)), tensor.Of[float32](ctx.Input(4))
	for i := range mean {
		mean[i] = (1-b.average)*oldMean[i] + b.average*batchMean[i]
		variance[i] = (1-b.average)*oldVariance[i] + b.average*unbiased*batchVariance[i]
	}
	return nil
}

// moments computes the mean and the variance of each channel. It reads the rows only once: each part sums squared distances from its own
// mean, and the distances of those means from the overall mean are added afterwards. See Chan, Golub and LeVeque, "Algorithms for computing
// the sample variance", 1983.
func moments(ctx *kernels.Context, src []float32, rows int, mean, variance []float32) error {
	parts, release, err := partsOfRows(ctx, rows, 2, len(mean), func(sums [][]float32, lo, hi int) {
		part := src[lo*len(mean) : hi*len(mean)]
		simd.AddEachRow(sums[0], part)
		simd.DivScalar(sums[0], sums[0], float32(hi-lo))
		simd.AddSquares(sums[1], part, sums[0])
	})
	if err != nil {
		return err
	}
	defer release()
	rowsOf := func(p int) float32 { return float32(min(rowsOfPart, rows-p*rowsOfPart)) }
	clear(mean)
	clear(variance)
	for p, sums := range parts {
		simd.Axpy(mean, rowsOf(p)/float32(rows), sums[0])
	}
	for p, sums := range parts {
		n := rowsOf(p)
		for i, squares := range sums[1] {
			apart := sums[0][i] - mean[i]
			variance[i] += squares + n*apart*apart
		}
	}
	simd.DivScalar(variance, variance, float32(rows))
	return nil
}

func (b *batchNorm) backward(ctx *kernels.Context) error {
	channels, err := checkBackward(ctx, tensor.Float32, false)
	if err != nil {
		return err
	}
	dy, x := ctx.Input(0), ctx.Input(1)
	shapes := []tensor.Shape{x.Shape(), {int64(channels)}, {int64(channels)}, {0}, {0}}
	var out [5]*tensor.Tensor
	for i, s := range shapes {
		if out[i], err = ctx.Allocate(i, tensor.Float32, s); err != nil {
			return err
		}
	}
	dx, dScale, dOffset := tensor.Of[float32](out[0]), tensor.Of[float32](out[1]), tensor.Of[float32](out[2])
	if len(dx) == 0 {
		clear(dScale)
		clear(dOffset)
		return nil
	}
	g, src := tensor.Of[float32](dy), tensor.Of[float32](x)
	scale, mean, variance := tensor.Of[float32](ctx.Input(2)), tensor.Of[float32](ctx.Input(3)), tensor.Of[float32](ctx.Input(4))
	rows := len(src) / channels
	// Compute the sums of dy and of dy·(x-mean) first. Everything else follows from them.
	err = sumInRows(ctx, rows, [][]float32{dOffset, dScale}, func(sums [][]float32, lo, hi int) {
		simd.AddProducts(sums[0], sums[1], g[lo*channels:hi*channels], src[lo*channels:hi*channels], mean)
	})
	if err != nil {
		return err
	}
	factor, slope, shift := make([]float32, channels), make([]float32, channels), make([]float32, channels)
	for i := range channels {
		inverse := 1 / element.Sqrt(variance[i]+b.epsilon)
		factor[i] = scale[i] * inverse
		if b.training {
			slope[i] = -factor[i] * (dScale[i] / float32(rows) * inverse * inverse)
			shift[i] = -factor[i] * (dOffset[i] / float32(rows))
		}
		dScale[i] *= inverse
	}
	element.EachRow(ctx, rows, channels, func(lo, hi int) {
		lo, hi = lo*channels, hi*channels
		simd.NormalizeGradRows(dx[lo:hi], g[lo:hi], src[lo:hi], mean, factor, slope, shift)
	})
	return nil
}

// batchNormRows returns the rows of one op. Images of half types have float32 statistics.
func batchNormRows(outputs int, halfToo bool, run func(b *batchNorm, ctx *kernels.Context) error, images ...int) []kernels.Def {
	construct := func(c *kernels.Construction) (kernels.Kernel, error) {
		b, err := newBatchNorm(c, outputs)
		if err != nil {
			return nil, err
		}
		k := kernels.Kernel(kernels.Func(func(ctx *kernels.Context) error { return run(&b, ctx) }))
		if b.channelsFirst {
			k = &channelLayout{inner: k, images: images, sizes: -1, results: []int{0}}
		}
		return k, nil
	}
	rows := []kernels.Def{{Types: dtypes.Only("T", tensor.Float32), Expensive: true, New: func(c *kernels.Construction) (any, error) { return construct(c) }}}
	if !halfToo {
		return rows
	}
	for _, half := range halves.Types {
		rows = append(rows, kernels.Def{Types: map[string][]tensor.DType{"T": {half}, "U": {tensor.Float32}}, Expensive: true, New: func(c *kernels.Construction) (any, error) {
			k, err := construct(c)
			return &halves.ViaFloat{Inner: k, Half: half, FirstOnly: true}, err
		}})
	}
	return rows
}
