package png

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"image"
	stdpng "image/png"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/troupe-run/troupe/graph/status"
)

// TestDecodeLikeTensorFlow decodes files of every colour type and depth in all ways and compares the results with TensorFlow's
// (testdata/decode.py).
func TestDecodeLikeTensorFlow(t *testing.T) {
	f, err := os.Open("testdata/decode.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name     string
		File     []byte
		Channels int
		Bits     int
		Shape    []int
		Want     []int
	}
	if err := json.NewDecoder(z).Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		h, err := ReadHeader(string(c.File), c.Channels)
		if err != nil || !slices.Equal([]int{h.Height, h.Width, h.Channels()}, c.Shape) {
			t.Errorf("%s: %+v, %v; want %v", c.Name, h, err, c.Shape)
			continue
		}
		var got []int
		if c.Bits == 8 {
			got, err = decoded[uint8](string(c.File), h)
		} else {
			got, err = decoded[uint16](string(c.File), h)
		}
		if err != nil || !slices.Equal(got, c.Want) {
			t.Errorf("%s: %v\n got %v\nwant %v", c.Name, err, got, c.Want)
		}
	}
}

func decoded[T uint8 | uint16](file string, h Header) (out []int, err error) {
	pixels := make([]T, h.Width*h.Height*h.Channels())
	err = Decode(file, h, pixels)
	for _, v := range pixels {
		out = append(out, int(v))
	}
	return out, err
}

func TestEncode(t *testing.T) {
	for channels := 1; channels <= 4; channels++ {
		for _, size := range [][2]int{{1, 1}, {7, 5}, {300, 100}} {
			encodeAndBack[uint8](t, size[0], size[1], channels)
			encodeAndBack[uint16](t, size[0], size[1], channels)
		}
	}
}

func encodeAndBack[T uint8 | uint16](t *testing.T, width, height, channels int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(width*channels)))
	pixels := make([]T, width*height*channels)
	for i := range pixels {
		// Half noise, half a gradient, so every filter gets used.
		if pixels[i] = T(rng.Uint32()); i%2 == 0 || i > len(pixels)/2 {
			pixels[i] = T(i * 3)
		}
		if channels%2 == 0 && i%channels == channels-1 {
			pixels[i] = ^T(0) // opaque, but must be kept
		}
	}
	for _, level := range []int{-1, 0, 9} {
		file, err := Encode(pixels, width, height, channels, level)
		if err != nil {
			t.Fatal(err)
		}
		h, err := ReadHeader(string(file), 0)
		if err != nil || h.Channels() != channels {
			t.Fatalf("%+v, %v; want %d channels", h, err, channels)
		}
		back := make([]T, len(pixels))
		if err := Decode(string(file), h, back); err != nil || !slices.Equal(back, pixels) {
			t.Errorf("%dx%dx%d of %T, level %d: the pixels differ, %v", width, height, channels, pixels, level, err)
		}
		if _, err := stdpng.Decode(bytes.NewReader(file)); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range [][3]int{{0, height, channels}, {width, height, 5}, {width, height + 1, channels}, {-1, -1, channels}} {
		if _, err := Encode(pixels, bad[0], bad[1], bad[2], -1); status.CodeOf(err) != status.Internal {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestFiltersPay(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 256, 256))
	for i := range m.Pix {
		m.Pix[i] = byte(i + i/256)
	}
	file, err := Encode(m.Pix, 256, 256, 1, -1)
	if err != nil || len(file) > 2000 {
		t.Errorf("a gradient takes %d bytes, %v", len(file), err)
	}
}

func FuzzDecode(f *testing.F) {
	for channels := 1; channels <= 4; channels++ {
		file, err := Encode(make([]uint8, 6*channels), 3, 2, channels, -1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(file), channels)
	}
	f.Fuzz(func(t *testing.T, file string, channels int) {
		h, err := ReadHeader(file, channels&3)
		if err != nil || h.Width*h.Height > 1<<20 {
			return
		}
		_ = Decode(file, h, make([]uint16, h.Width*h.Height*h.Channels()))
	})
}
