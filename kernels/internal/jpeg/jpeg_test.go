package jpeg

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
)

// record is an image with TensorFlow's results for it.
type record struct {
	height, width, channels, quality int
	subsample                        bool
	pixels                           []uint8
	file                             string
	smooth, rough                    []uint8 // decoded from the file
}

// goldens calls f for each record of a file that was made with TensorFlow. A record has some numbers and some lists of bytes.
func goldens(t testing.TB, name string, numbers, lists int, f func(numbers []uint32, lists [][]byte)) {
	t.Helper()
	packed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for {
		head, blobs := make([]uint32, numbers), make([][]byte, lists)
		if err := binary.Read(z, binary.LittleEndian, head); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		for i := range blobs {
			var n uint32
			if err := binary.Read(z, binary.LittleEndian, &n); err != nil {
				t.Fatal(err)
			}
			blobs[i] = make([]byte, n)
			if _, err := io.ReadFull(z, blobs[i]); err != nil {
				t.Fatal(err)
			}
		}
		f(head, blobs)
	}
}

func records(t testing.TB) (all []record) {
	goldens(t, "testdata/tensorflow.gz", 5, 4, func(n []uint32, b [][]byte) {
		all = append(all, record{int(n[0]), int(n[1]), int(n[2]), int(n[3]), n[4] != 0, b[0], string(b[1]), b[2], b[3]})
	})
	return all
}

// apart returns the maximum and the mean difference of levels.
func apart(a, b []uint8) (most int, mean float64) {
	sum := 0
	for i := range a {
		d := max(int(a[i])-int(b[i]), int(b[i])-int(a[i]))
		most = max(most, d)
		sum += d
	}
	return most, float64(sum) / float64(len(a))
}

// decodedBy decodes a whole picture.
func decodedBy(t testing.TB, file string, o DecodeOptions) []uint8 {
	t.Helper()
	h, ok := ReadHeader(file)
	if !ok {
		t.Fatal("not a JPEG")
	}
	o.Ratio = max(o.Ratio, 1)
	o.Width, o.Height, ok = h.Shrunk(o.Ratio)
	if !ok {
		t.Fatal("the picture has a bad size")
	}
	pixels := make([]uint8, o.Width*o.Height*o.Channels)
	if rows, err := Decode(file, o, pixels); err != nil || rows != o.Height {
		t.Fatal(rows, err)
	}
	return pixels
}

func decoded(t testing.TB, file string, channels int, smooth bool) []uint8 {
	t.Helper()
	return decodedBy(t, file, DecodeOptions{Channels: channels, Smooth: smooth})
}

// TestDecode decodes TensorFlow's files.
func TestDecode(t *testing.T) {
	for _, r := range records(t) {
		for _, smooth := range []bool{true, false} {
			want := r.rough
			if smooth {
				want = r.smooth
			}
			if got := decoded(t, r.file, r.channels, smooth); !bytes.Equal(got, want) {
				most, mean := apart(got, want)
				t.Errorf("%dx%dx%d of quality %d, subsampled %v, smooth %v: levels are %d off, %.3f in the mean",
					r.height, r.width, r.channels, r.quality, r.subsample, smooth, most, mean)
			}
		}
	}
}

// TestOptions decodes files of all kinds with all options.
func TestOptions(t *testing.T) {
	file, count := "", 0
	goldens(t, "testdata/options.gz", 6, 2, func(n []uint32, b [][]byte) {
		if len(b[0]) > 0 {
			file = string(b[0])
		}
		o := DecodeOptions{Channels: int(n[0]), Ratio: int(n[1]), Smooth: n[2] != 0, Fast: n[3] != 0}
		if got := decodedBy(t, file, o); !bytes.Equal(got, b[1]) {
			most, mean := apart(got, b[1])
			t.Errorf("%dx%d with %+v: levels are %d off, %.3f in the mean", n[4], n[5], o, most, mean)
		}
		o.Height, o.Width = int(n[4]), int(n[5])
		expectWindow(t, file, o, b[1])
		count++
	})
	if count < 500 {
		t.Errorf("%d records", count)
	}
}

// expectWindow compares a window of a picture with the whole.
func expectWindow(t *testing.T, file string, o DecodeOptions, whole []uint8) {
	t.Helper()
	stride := o.Width * o.Channels
	o.Top, o.Left = o.Height/3, o.Width/2
	o.Height, o.Width = (o.Height-o.Top+1)/2, (o.Width-o.Left+1)/2
	pixels := make([]uint8, o.Height*o.Width*o.Channels)
	if _, err := Decode(file, o, pixels); err != nil {
		t.Fatal(err)
	}
	row := o.Width * o.Channels
	for y := range o.Height {
		if !bytes.Equal(pixels[y*row:][:row], whole[(o.Top+y)*stride+o.Left*o.Channels:][:row]) {
			t.Fatalf("row %d of the window with %+v differs", y, o)
		}
	}
}

// TestDecodeTruncated cuts a file off at each byte.
func TestDecodeTruncated(t *testing.T) {
	for _, o := range []Options{{Quality: 90}, {Quality: 90, Progressive: true}} {
		r := records(t)[len(records(t))-1]
		encoded, err := Encode(r.pixels, r.width, r.height, r.channels, o)
		if err != nil {
			t.Fatal(err)
		}
		file := string(encoded)
		want := decoded(t, file, r.channels, true)
		before := 0
		for n := range len(file) {
			d := DecodeOptions{Channels: r.channels, Ratio: 1, Smooth: true, Height: r.height, Width: r.width}
			pixels := bytes.Repeat([]byte{1}, len(want))
			rows, err := Decode(file[:n], d, pixels)
			switch {
			case !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrInvalid):
				t.Fatalf("%d bytes: error %v", n, err)
			case errors.Is(err, ErrTruncated) && rows < before:
				t.Fatalf("%d bytes: %d rows, with a byte less %d", n, rows, before)
			case !bytes.Equal(pixels[:rows*r.width*r.channels], want[:rows*r.width*r.channels]):
				t.Fatalf("%d bytes: the %d rows that are there differ", n, rows)
			}
			before = max(before, rows)
			d.Recover = true
			if rows, err := Decode(file[:n], d, pixels); err == nil && rows != r.height || err != nil && !errors.Is(err, ErrInvalid) {
				t.Fatalf("%d bytes, recovered: %d rows, error %v", n, rows, err)
			}
		}
	}
}

// TestEncode compares the loss and the lengths of files with those of TensorFlow, whose transform is in integers.
func TestEncode(t *testing.T) {
	for _, r := range records(t) {
		var first []uint8
		for i, o := range []Options{{}, {Optimize: true}, {Progressive: true}, {XMP: "metadata"}} {
			o.Quality, o.Subsample, o.DensityUnit, o.XDensity, o.YDensity = r.quality, r.subsample, 1, 300, 300
			file, err := Encode(r.pixels, r.width, r.height, r.channels, o)
			if err != nil {
				t.Fatal(err)
			}
			got := decoded(t, string(file), r.channels, true)
			if i > 0 {
				if !bytes.Equal(got, first) {
					t.Errorf("%+v gives other pixels", o)
				}
				if o.Optimize && len(file) > len(r.file) {
					t.Errorf("%+v gives %d bytes, TensorFlow %d without optimizing", o, len(file), len(r.file))
				}
				continue
			}
			first = got
			_, ours := apart(got, r.pixels)
			if _, theirs := apart(decoded(t, r.file, r.channels, true), r.pixels); ours > 1.1*theirs+0.3 {
				t.Errorf("%dx%dx%d of quality %d, subsampled %v: levels are %.3f off in the mean, TensorFlow's %.3f",
					r.height, r.width, r.channels, r.quality, r.subsample, ours, theirs)
			}
			if d := len(file) - len(r.file); d > 8+len(r.file)/30 || -d > 8+len(r.file)/30 {
				t.Errorf("%dx%dx%d of quality %d, subsampled %v: %d bytes, TensorFlow's has %d", r.height, r.width, r.channels, r.quality, r.subsample, len(file), len(r.file))
			}
		}
	}
}

// TestOptimalCode makes a code for counts that grow so fast that the lengths must be limited.
func TestOptimalCode(t *testing.T) {
	var counts [257]int
	a, b := 1, 1
	for i := range 40 {
		counts[i] = a
		a, b = b, a+b
	}
	spec := optimal(counts)
	if len(spec.symbols) != 40 {
		t.Fatalf("%d symbols, want 40", len(spec.symbols))
	}
	room := 1 << 16
	for i, n := range spec.lengths {
		room -= int(n) << (15 - i)
	}
	if room < 1 {
		t.Errorf("the lengths %v leave no room for the code of ones", spec.lengths)
	}
	codes := spec.code()
	if codes[39].length > codes[0].length {
		t.Error("the commonest symbol has a longer code than the rarest")
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range records(f)[:8] {
		f.Add(r.file, uint16(len(r.file)))
	}
	f.Fuzz(func(t *testing.T, data string, flags uint16) {
		h, ok := ReadHeader(data)
		if !ok || h.Width*h.Height > 1<<16 || h.Components > 4 {
			return
		}
		o := DecodeOptions{
			Channels: 1 + int(flags&2), Ratio: 1 << (flags >> 2 & 3),
			Smooth: flags&16 != 0, Fast: flags&32 != 0, Recover: flags&64 != 0,
		}
		o.Width, o.Height, _ = h.Shrunk(o.Ratio)
		o.Left, o.Top = int(flags>>8&15)%o.Width, int(flags>>12)%o.Height
		o.Width, o.Height = o.Width-o.Left, o.Height-o.Top
		pixels := make([]uint8, o.Width*o.Height*o.Channels)
		for i := range pixels {
			pixels[i] = 1
		}
		rows, err := Decode(data, o, pixels)
		if err == nil != (rows == o.Height) && err == nil {
			t.Fatalf("%d rows of %d, error %v", rows, o.Height, err)
		}
		for _, v := range pixels[rows*o.Width*o.Channels:] {
			if v != 0 {
				t.Fatal("rows that are missing are not cleared")
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	picture := make([]uint8, 299*299*3)
	for i := range picture {
		x, y := float64(i/3%299), float64(i/3/299)
		picture[i] = uint8(127 + 60*math.Sin(x/17+float64(i%3)) + 60*math.Cos(y/11))
	}
	for _, o := range []Options{{Quality: 95, Subsample: true}, {Quality: 95}, {Quality: 95, Progressive: true}} {
		file, err := Encode(picture, 299, 299, 3, o)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("subsampled=%v,progressive=%v", o.Subsample, o.Progressive), func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			for b.Loop() {
				if _, err := Decode(string(file), DecodeOptions{Channels: 3, Ratio: 1, Smooth: true, Fast: true, Width: 299, Height: 299}, picture); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
