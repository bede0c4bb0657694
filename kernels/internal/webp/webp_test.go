package webp

import (
	"testing"
)

// lossless is a file of one transparent pixel.
const lossless = "RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00"

// TestStill reads one pixel. TensorFlow's results for other files are among the goldens of kernels/all.
func TestStill(t *testing.T) {
	f, err := Parse(lossless)
	if err != nil {
		t.Fatal(err)
	}
	if f.Width != 1 || f.Height != 1 || f.Channels != 4 || f.Animated || f.Frames() != 1 {
		t.Errorf("read %+v", *f)
	}
	var pixel [4]uint8
	if n, err := f.Draw(1, pixel[:]); n != 1 || err != nil || pixel[3] != 0 {
		t.Error(n, err, pixel)
	}
}

// TestBlend blends half-transparent white over half-transparent black, and checks opaque and fully transparent pixels.
func TestBlend(t *testing.T) {
	for _, c := range []struct{ dst, src, want [4]uint8 }{
		{[4]uint8{0, 0, 0, 255}, [4]uint8{255, 255, 255, 128}, [4]uint8{127, 127, 127, 255}},
		{[4]uint8{1, 2, 3, 4}, [4]uint8{9, 9, 9, 0}, [4]uint8{1, 2, 3, 4}},
		{[4]uint8{1, 2, 3, 4}, [4]uint8{9, 9, 9, 255}, [4]uint8{9, 9, 9, 255}},
		{[4]uint8{1, 2, 3, 0}, [4]uint8{9, 9, 9, 3}, [4]uint8{8, 8, 8, 3}},
	} {
		got := c.dst
		if blend(&got, &c.src); got != c.want {
			t.Errorf("%v over %v is %v, want %v", c.src, c.dst, got, c.want)
		}
	}
}

func FuzzDraw(f *testing.F) {
	f.Add(lossless)
	f.Add("RIFF\x4e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00ANMF\x26\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + lossless[12:])
	f.Fuzz(func(_ *testing.T, data string) {
		file, err := Parse(data)
		if err != nil || file.Width*file.Height*file.Frames() > 1<<14 {
			return
		}
		_, _ = file.Draw(file.Frames(), make([]uint8, file.Width*file.Height*file.Channels*file.Frames()))
	})
}
