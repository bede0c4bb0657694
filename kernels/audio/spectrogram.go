package audio

import (
	"math"
	"math/bits"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// spectrogram is AudioSpectrogram, which computes the power of each frequency in windows of the sound. Each window starts stride frames
// after the previous one.
type spectrogram struct {
	window, stride int
	squared        bool
}

func newSpectrogram(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	return &spectrogram{int(a.Int("window_size")), int(a.Int("stride")), a.Bool("magnitude_squared")}, a.Err()
}

func (k *spectrogram) Compute(ctx *kernels.Context) error {
	in := ctx.Input(0)
	if err := args.CheckType(ctx, 0, tensor.Float32); err != nil {
		return err
	}
	if in.Rank() != 2 {
		return status.InvalidArgumentf("input must be 2-dimensional%v", in.Shape())
	}
	if k.window < 2 || k.stride < 1 || k.window > 1<<30 {
		return status.InvalidArgumentf("Spectrogram initialization failed for window size %d and stride %d", k.window, k.stride)
	}
	frames, channels, size := in.Dim(0), in.Dim(1), 1<<bits.Len(uint(k.window-1))
	height, width := 0, 1+size/2
	if frames >= k.window {
		height = 1 + (frames-k.window)/k.stride
	}
	out, err := ctx.Allocate(0, tensor.Float32, tensor.Shape{int64(channels), int64(height), int64(width)})
	if err != nil || out.Len() == 0 {
		return err
	}
	weights, release, err := element.Scratch[float64](ctx.Device, k.window)
	if err != nil {
		return err
	}
	defer release()
	for i := range weights {
		weights[i] = 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/float64(k.window))
	}
	roots, releaseRoots, err := element.Scratch[complex128](ctx.Device, size/2)
	if err != nil {
		return err
	}
	defer releaseRoots()
	for i := range roots {
		sin, cos := math.Sincos(-2 * math.Pi * float64(i) / float64(size))
		roots[i] = complex(cos, sin)
	}
	src, dst := tensor.Of[float32](in), tensor.Of[float32](out)
	err = element.WithScratch(ctx, channels*height, max(1, element.CostlyGrain/size), size, func(work []complex128, lo, hi int) {
		for r := lo; r < hi && ctx.Ended() == nil; r++ {
			channel, begin := r/height, r%height*k.stride
			clear(work[k.window:])
			for i, w := range weights {
				work[i] = complex(float64(src[(begin+i)*channels+channel])*w, 0)
			}
			transform(work, roots)
			for i, z := range work[:width] {
				power := float32(real(z)*real(z) + imag(z)*imag(z))
				if !k.squared {
					power = float32(math.Sqrt(float64(power)))
				}
				dst[r*width+i] = power
			}
		}
	})
	return args.FirstError(err, ctx.Ended())
}

// transform is the discrete Fourier transform, in place. The number of elements is a power of 2. roots is the first half of the roots of
// unity.
func transform(a, roots []complex128) {
	n := len(a)
	shift := 64 - bits.Len(uint(n-1))
	for i := range a {
		if j := int(bits.Reverse64(uint64(i)) >> shift); i < j {
			a[i], a[j] = a[j], a[i]
		}
	}
	for half := 1; half < n; half *= 2 {
		step := n / (2 * half)
		for from := 0; from < n; from += 2 * half {
			for i := range half {
				x, y := a[from+i], a[from+half+i]*roots[i*step]
				a[from+i], a[from+half+i] = x+y, x-y
			}
		}
	}
}
