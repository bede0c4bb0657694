package audio

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// mfcc is Mfcc, which computes the mel-frequency cepstral coefficients of spectra: the cosine transform of the log power in perceptual
// frequency bands.
type mfcc struct {
	upper, lower        float64
	bands, coefficients int
}

func newMFCC(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	upper, lower := a.Float("upper_frequency_limit"), a.Float("lower_frequency_limit")
	bands, coefficients := a.Int("filterbank_channel_count"), a.Int("dct_coefficient_count")
	return &mfcc{float64(upper), float64(lower), int(bands), int(coefficients)}, a.Err()
}

// mel converts a frequency to the mel scale.
func mel(frequency float64) float64 { return 1127 * math.Log1p(frequency/700) }

// bin says how an element of a spectrum is split between two bands: weight of it goes to band, the rest to the next band.
type bin struct {
	band   int
	weight float64
}

// filters holds the bin of each element of a spectrum. The elements from begin to end, inclusive, are within the frequency limits.
type filters struct {
	bins       []bin
	begin, end int
}

func (k *mfcc) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.FirstError(args.CheckType(ctx, 0, tensor.Float32), args.CheckType(ctx, 1, tensor.Int32)); err != nil {
		return err
	}
	if in.Rank() != 3 {
		return status.InvalidArgumentf("spectrogram must be 3-dimensional%v", in.Shape())
	}
	rate, err := sampleRate(ctx)
	if err != nil {
		return err
	}
	width := in.Dim(2)
	if k.bands < 1 || k.bands >= math.MaxInt32-1 || rate <= 0 || width < 2 || k.lower < 0 || k.upper <= k.lower || k.coefficients < 1 || k.coefficients > k.bands {
		return status.InvalidArgumentf("Mfcc initialization failed for channel count %d, sample rate %d and filterbank_channel_count %d", width, rate, k.bands)
	}
	out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{in.Shape()[0], in.Shape()[1], int64(k.coefficients)})
	if err != nil || out.Len() == 0 {
		return err
	}
	m := ctx.Meter()
	defer m.Done()
	f, err := k.filters(&m, width, float64(rate))
	if err != nil {
		return err
	}
	if err := m.TakeMany(k.bands, 8*k.coefficients); err != nil {
		return err
	}
	cosines := make([]float64, k.bands*k.coefficients)
	norm, angle := math.Sqrt(2/float64(k.bands)), math.Pi/float64(k.bands)
	for i := range cosines {
		cosines[i] = norm * math.Cos(float64(i/k.bands)*angle*(float64(i%k.bands)+0.5))
	}
	src, dst := tensor.Of[float32](in), tensor.Of[float32](out)
	cost := width + k.bands*k.coefficients
	return element.WithScratch(ctx, len(src)/width, max(1, element.CostlyGrain/cost), k.bands, func(powers []float64, lo, hi int) {
		for r := lo; r < hi; r++ {
			to := dst[r*k.coefficients:][:k.coefficients]
			clear(to)
			if f.end >= width {
				continue // the spectrum ends below the upper limit
			}
			f.apply(powers, src[r*width:][:width])
			for i := range to {
				sum := 0.
				for j, p := range powers {
					sum += cosines[i*k.bands+j] * p
				}
				to[i] = float32(sum)
			}
		}
	})
}

// filters returns the filters for spectra whose width elements cover the frequencies up to half the rate.
func (k *mfcc) filters(m *kernels.Meter, width int, rate float64) (f filters, err error) {
	centers, err := kernels.Scratch[float64](m, k.bands+1)
	if err != nil {
		return f, err
	}
	if f.bins, err = kernels.Scratch[bin](m, width); err != nil {
		return f, err
	}
	low := mel(k.lower)
	spacing := (mel(k.upper) - low) / float64(k.bands+1)
	for i := range centers {
		centers[i] = low + spacing*float64(i+1)
	}
	step := 0.5 * rate / float64(width-1)
	f.begin, f.end = within(1.5+k.lower/step, width), within(k.upper/step, width)
	band := 0
	for i := f.begin; i < width && i <= f.end; i++ {
		at := mel(float64(i) * step)
		for band < k.bands && centers[band] < at {
			band++
		}
		before := low
		if band > 0 {
			before = centers[band-1]
		}
		f.bins[i] = bin{band - 1, (centers[band] - at) / (centers[band] - before)}
	}
	return f, nil
}

// within truncates v to an integer of at most limit.
func within(v float64, limit int) int {
	if !(v < float64(limit)) {
		return limit
	}
	return int(v)
}

// apply sets powers to the log powers of the bands.
func (f *filters) apply(powers []float64, spectrum []float32) {
	clear(powers)
	for i := f.begin; i <= f.end; i++ {
		magnitude, b := math.Sqrt(float64(spectrum[i])), f.bins[i]
		weighted := magnitude * b.weight
		if b.band >= 0 {
			powers[b.band] += weighted
		}
		if b.band+1 < len(powers) {
			powers[b.band+1] += magnitude - weighted
		}
	}
	const least = 1e-12
	for i, p := range powers {
		if p < least {
			p = least
		}
		powers[i] = math.Log(p)
	}
}
