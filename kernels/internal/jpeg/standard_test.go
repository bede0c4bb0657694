package jpeg

import (
	"image"
	stdjpeg "image/jpeg"
	"math/rand/v2"
	"strings"
	"testing"
)

// The oracle is the standard library up to the planes of samples, and plain code after that. Its transform differs by a level or two.

// plainColours converts planes to pixels. Cb and Cr may have fewer samples.
func plainColours(m *image.YCbCr, smooth bool) []uint8 {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	across, down := 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		across = 2
	case image.YCbCrSubsampleRatio420:
		across, down = 2, 2
	case image.YCbCrSubsampleRatio440:
		down = 2
	case image.YCbCrSubsampleRatio411:
		across = 4
	case image.YCbCrSubsampleRatio410:
		across, down = 4, 2
	}
	wide, high := divideUp(width, across), divideUp(height, down)
	at := func(samples []uint8, x, y int) int32 {
		return int32(samples[min(max(y, 0), high-1)*m.CStride+min(max(x, 0), wide-1)])
	}
	sample := func(samples []uint8, x, y int) int32 {
		side, next := x/2-1+x%2*2, y/2-1+y%2*2
		sum := func(x int) int32 { return 3*at(samples, x, y/2) + at(samples, x, next) }
		switch {
		case across == 2 && down == 1 && smooth && wide > 2:
			return (3*at(samples, x/2, y) + at(samples, side, y) + 1 + int32(x%2)) >> 2
		case across == 2 && down == 2 && smooth && wide > 2:
			return (3*sum(x/2) + sum(side) + 8 - int32(x%2)) >> 4
		case across == 1 && down == 2 && smooth:
			return (sum(x) + 1 + int32(y%2)) >> 2
		}
		return at(samples, x/across, y/down)
	}
	level := func(v int32) uint8 { return uint8(min(max(v, 0), 255)) }
	pixels := make([]uint8, 0, width*height*3)
	for y := range height {
		for x := range width {
			l, b, r := int32(m.Y[y*m.YStride+x]), sample(m.Cb, x, y)-128, sample(m.Cr, x, y)-128
			pixels = append(pixels, level(l+(91881*r+half)>>16), level(l+(-22554*b-46802*r+half)>>16), level(l+(116130*b+half)>>16))
		}
	}
	return pixels
}

// expectStandard compares a file's pixels with those of the standard library's planes. Files that it does not read are not compared.
func expectStandard(t *testing.T, file string, smooth bool, most int) {
	t.Helper()
	img, err := stdjpeg.Decode(strings.NewReader(file))
	if err != nil {
		return
	}
	switch m := img.(type) {
	case *image.Gray:
		got := decoded(t, file, 1, smooth)
		for y := range m.Rect.Dy() {
			if off, _ := apart(got[y*m.Rect.Dx():][:m.Rect.Dx()], m.Pix[y*m.Stride:]); off > most {
				t.Fatalf("row %d is %d levels off", y, off)
			}
		}
	case *image.YCbCr:
		if off, _ := apart(decoded(t, file, 3, smooth), plainColours(m, smooth)); off > 3*most {
			t.Fatalf("%v: %d levels off", m.SubsampleRatio, off)
		}
		got := decoded(t, file, 1, smooth)
		for y := range m.Rect.Dy() {
			if off, _ := apart(got[y*m.Rect.Dx():][:m.Rect.Dx()], m.Y[y*m.YStride:]); off > most {
				t.Fatalf("row %d of luma is %d levels off", y, off)
			}
		}
	}
}

// FuzzAgainstStandard encodes random pictures and compares what is decoded from the files.
func FuzzAgainstStandard(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed, uint8(seed*37), uint8(seed*53), uint8(seed*11), uint8(seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, width, height, quality, flags uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		w, h := int(width)+1, int(height)+1
		channels := 1 + int(flags&2)
		pixels := make([]uint8, w*h*channels)
		coarse := 1 + r.IntN(12)
		for i := range pixels {
			x, y := i/channels%w/coarse, i/channels/w/coarse
			pixels[i] = uint8((x*x*31+y*57+x*y*11)*(i%channels+1)) / uint8(1+coarse%3)
		}
		o := Options{Quality: int(quality) % 101, Subsample: flags&4 != 0, Progressive: flags&8 != 0, Optimize: flags&16 != 0}
		file, err := Encode(pixels, w, h, channels, o)
		if err != nil {
			t.Fatal(err)
		}
		expectStandard(t, string(file), flags&32 != 0, 2)
	})
}
