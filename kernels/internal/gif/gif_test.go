package gif

import (
	"bytes"
	"image"
	"image/color"
	stdgif "image/gif"
	"testing"
)

// animation returns a file of two frames.
func animation(t testing.TB) string {
	frame := func(r image.Rectangle) *image.Paletted {
		p := image.NewPaletted(r, color.Palette{color.Black, color.White, color.RGBA{255, 0, 0, 255}})
		for i := range p.Pix {
			p.Pix[i] = uint8(i % 3)
		}
		return p
	}
	var b bytes.Buffer
	if err := stdgif.EncodeAll(&b, &stdgif.GIF{Image: []*image.Paletted{frame(image.Rect(0, 0, 7, 5)), frame(image.Rect(2, 1, 5, 4))}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDraw draws the second frame over the first. TensorFlow's results for other files are among the goldens of kernels/all.
func TestDraw(t *testing.T) {
	f, err := Parse(animation(t))
	if err != nil {
		t.Fatal(err)
	}
	pixels := make([]uint8, 2*5*7*3)
	if n, err := f.Draw(2, pixels); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	at := func(frame, y, x int) [3]uint8 { return [3]uint8(pixels[((frame*5+y)*7+x)*3:]) }
	for _, c := range []struct {
		frame, y, x int
		want        [3]uint8
	}{{0, 0, 1, [3]uint8{255, 255, 255}}, {0, 0, 2, [3]uint8{255, 0, 0}}, {1, 0, 2, [3]uint8{255, 0, 0}}, {1, 1, 2, [3]uint8{}}, {1, 1, 3, [3]uint8{255, 255, 255}}} {
		if got := at(c.frame, c.y, c.x); got != c.want {
			t.Errorf("frame %d has %v at %d,%d, want %v", c.frame, got, c.y, c.x, c.want)
		}
	}
}

// FuzzDraw draws whatever can be parsed. Draw must not return more frames than requested.
func FuzzDraw(f *testing.F) {
	f.Add(animation(f))
	f.Add("GIF89a\x01\x00\x01\x00\x80\x00\x00abcdef\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b")
	f.Fuzz(func(t *testing.T, data string) {
		file, err := Parse(data)
		if err != nil {
			return
		}
		width, height := file.Size()
		if width*height*file.Frames() > 1<<16 {
			return
		}
		drawn, err := file.Draw(file.Frames(), make([]uint8, width*height*3*file.Frames()))
		if err != nil || drawn == file.Frames() {
			return
		}
		file.Truncate(drawn)
		width, height = file.Size()
		if again, err := file.Draw(drawn, make([]uint8, width*height*3*drawn)); again != drawn && err == nil {
			t.Errorf("drew %d frames, then %d", drawn, again)
		}
	})
}
