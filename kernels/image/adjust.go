package image

import (
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// adjust returns the kernel of an op that changes images by a number, its input 1.
func adjust(name string, channels int64, change func(ctx *kernels.Context, dst, src []float32, shape tensor.Shape, by float32)) func(*kernels.Construction) (any, error) {
	return kernels.Always(func(ctx *kernels.Context) error {
		image, by := ctx.Input(0), ctx.Input(1)
		if image.Rank() < 3 {
			return status.InvalidArgumentf("input must be at least 3-D, got shape%v", image.Shape())
		}
		if by.Rank() != 0 {
			return status.InvalidArgumentf("%s must be scalar: %v", name, by.Shape())
		}
		if n := image.Shape()[image.Rank()-1]; channels > 0 && n != channels {
			return status.InvalidArgumentf("input must have %d channels but instead has %d channels.", channels, n)
		}
		out, err := ctx.Forward(0, 0, image.DType(), image.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		change(ctx, element.ViewOf[float32](out), element.ViewOf[float32](image), image.Shape(), element.ViewOf[float32](by)[0])
		return nil
	})
}

// eachPixel maps a function over pixels of three channels, on as many cores as are free.
func eachPixel(f func(r, g, b, by float32) (float32, float32, float32)) func(*kernels.Context, []float32, []float32, tensor.Shape, float32) {
	return func(ctx *kernels.Context, dst, src []float32, _ tensor.Shape, by float32) {
		ctx.Parallel(len(src)/3, element.BlockLen, func(lo, hi int) {
			for i := 3 * lo; i < 3*hi; i += 3 {
				dst[i], dst[i+1], dst[i+2] = f(src[i], src[i+1], src[i+2], by)
			}
		})
	}
}

// turnHue adds a fraction of the circle to the hue. The circle has six sectors; in each, one channel rises or falls between the smallest
// and the largest.
func turnHue(r, g, b, by float32) (float32, float32, float32) {
	least, most := min(r, g, b), max(r, g, b)
	hue := hueSector(r, g, b, least, most) + by*6
	if hue < 0 || hue >= 6 {
		hue = float32(math.Mod(float64(hue), 6))
		if hue < 0 {
			hue += 6
		}
	}
	sector := int(hue)
	part := hue - float32(sector)
	if sector&1 == 1 {
		part = 1 - part
	}
	mid := least + part*(most-least)
	switch sector {
	case 0:
		return most, mid, least
	case 1:
		return mid, most, least
	case 2:
		return least, most, mid
	case 3:
		return least, mid, most
	case 4:
		return mid, least, most
	}
	return most, least, mid
}

// hueSector returns the hue as a number from 0 to 6.
func hueSector(r, g, b, least, most float32) float32 {
	if most == least {
		return 0
	}
	var sector int
	switch {
	case r < g && b < r:
		sector = 1
	case r < g && b > g:
		sector = 3
	case r < g:
		sector = 2
	case b < g:
		sector = 0
	case b > r:
		sector = 4
	default:
		sector = 5
	}
	mid := max(min(r, g), min(max(r, g), b))
	part := (mid - least) / (most - least)
	if sector&1 == 1 {
		part = 1 - part
	}
	return float32(sector) + part
}

// scaleSaturation multiplies the saturation.
func scaleSaturation(r, g, b, by float32) (float32, float32, float32) {
	h, s, v := toHSV(r, g, b)
	return fromHSV(h, min(1, max(0, s*by)), v)
}

// toHSV returns hue, saturation and value, each from 0 to 1.
func toHSV[T element.Floating](r, g, b T) (h, s, v T) {
	v = max(r, g, b)
	span := v - min(r, g, b)
	if v > 0 {
		s = span / v
	}
	if !(span > 0) {
		return 0, s, v
	}
	norm := 1 / (6 * span)
	switch v {
	case r:
		h = norm * (g - b)
	case g:
		h = norm*(b-r) + 2.0/6
	default:
		h = norm*(r-g) + 4.0/6
	}
	if h < 0 {
		h++
	}
	return h, s, v
}

// fromHSV is the inverse of toHSV; a hue outside the circle is grey.
func fromHSV(h, s, v float32) (r, g, b float32) {
	c := s * v
	base := v - c
	sixth := h * 6
	within := float32(math.Mod(float64(sixth), 2))
	if within < 0 {
		within += 2
	}
	x := c * (1 - float32(math.Abs(float64(within-1))))
	switch {
	case !(sixth > -1 && sixth < 6):
	case sixth < 1:
		r, g = c, x
	case sixth < 2:
		r, g = x, c
	case sixth < 3:
		g, b = c, x
	case sixth < 4:
		g, b = x, c
	case sixth < 5:
		r, b = x, c
	default:
		r, b = c, x
	}
	return r + base, g + base, b + base
}

// hsvToRGB is the inverse of toHSV, as clamped linear functions. A hue out of range continues along them.
func hsvToRGB[T element.Floating](h, s, v T) (r, g, b T) {
	ramp := func(x T) T { return (1 - s + s*min(1, max(0, x))) * v }
	distance := func(x T) T { return T(math.Abs(float64(h*6 - x))) }
	return ramp(distance(3) - 1), ramp(2 - distance(2)), ramp(2 - distance(4))
}

// scaleContrast moves each element of an image away from the mean of its channel.
func scaleContrast(ctx *kernels.Context, dst, src []float32, shape tensor.Shape, by float32) {
	channels := int(shape[len(shape)-1])
	size := int(shape[len(shape)-3]*shape[len(shape)-2]) * channels
	ctx.Parallel(len(src)/size, max(1, element.BlockLen/size), func(lo, hi int) {
		sums, means := make([]float64, channels), make([]float32, channels)
		for i := lo; i < hi; i++ {
			from, to := src[i*size:(i+1)*size], dst[i*size:(i+1)*size]
			clear(sums)
			for j, v := range from {
				sums[j%channels] += float64(v)
			}
			for c, s := range sums {
				means[c] = float32(s / float64(size/channels))
			}
			for j, v := range from {
				m := means[j%channels]
				to[j] = m + (v-m)*by
			}
		}
	})
}

// adjustContrast returns the constructor of AdjustContrast, the first version: it outputs floats for images of any type, and clamps them.
func adjustContrast[T pixel](load loader[T]) func(*kernels.Construction) (any, error) {
	return kernels.Always(func(ctx *kernels.Context) error {
		image := ctx.Input(0)
		if image.Rank() < 3 {
			return status.InvalidArgumentf("input must be at least 3-D, got shape%v", image.Shape())
		}
		var numbers [3]float32
		for i, name := range []string{"contrast_factor", "min_value", "max_value"} {
			if err := args.NeedScalar(ctx.Input(1+i), tensor.Float32, name+" must be scalar: %v"); err != nil {
				return err
			}
			numbers[i] = tensor.Of[float32](ctx.Input(1 + i))[0]
		}
		out, err := ctx.Allocate(0, tensor.Float32, image.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		src, release, err := load(ctx, 0)
		if err != nil {
			return err
		}
		defer release()
		dst := tensor.Of[float32](out)
		ctx.Parallel(len(src), element.CheapGrain, func(lo, hi int) { element.Convert(dst[lo:hi], src[lo:hi]) })
		scaleContrast(ctx, dst, dst, image.Shape(), numbers[0])
		ctx.Parallel(len(dst), element.CheapGrain, func(lo, hi int) {
			for i, v := range dst[lo:hi] {
				v, _ = ordered(v, numbers[2])
				_, dst[lo+i] = ordered(v, numbers[1])
			}
		})
		return nil
	})
}

// colours returns the kernel of RGBToHSV or HSVToRGB.
func colours[T element.Floating](f func(a, b, c T) (T, T, T)) func(*kernels.Construction) (any, error) {
	return kernels.Always(func(ctx *kernels.Context) error {
		image, dtype := ctx.Input(0), element.DTypeOf[T]()
		if err := args.CheckType(ctx, 0, dtype); err != nil {
			return err
		}
		if image.Rank() < 1 {
			return status.InvalidArgumentf("input must be at least 1D%v", image.Shape())
		}
		if n := image.Dim(image.Rank() - 1); n != 3 {
			return status.Errorf(status.FailedPrecondition, "input must have 3 channels but input only has %d channels.", n)
		}
		out, err := ctx.Forward(0, 0, dtype, image.Shape())
		if err != nil || out.Len() == 0 {
			return err
		}
		src, dst := element.ViewOf[T](image), element.ViewOf[T](out)
		ctx.Parallel(len(src)/3, element.BlockLen, func(lo, hi int) {
			for i := 3 * lo; i < 3*hi; i += 3 {
				dst[i], dst[i+1], dst[i+2] = f(src[i], src[i+1], src[i+2])
			}
		})
		return nil
	})
}
