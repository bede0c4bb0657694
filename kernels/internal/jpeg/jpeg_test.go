package jpeg

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// record is an image, and what TensorFlow makes of it.
type record struct {
	height, width, channels, quality int
	subsample                        bool
	pixels                           []uint8
	file                             string
	smooth, rough                    []uint8 // read from the file
}

func records(t testing.TB) (all []record) {
	packed, err := os.Open("testdata/tensorflow.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var head [5]uint32
		if err := binary.Read(z, binary.LittleEndian, &head); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		var blobs [4][]byte
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
		all = append(all, record{int(head[0]), int(head[1]), int(head[2]), int(head[3]), head[4] != 0, blobs[0], string(blobs[1]), blobs[2], blobs[3]})
	}
}

// apart is by how much levels differ at most, and in the mean.
func apart(a, b []uint8) (most int, mean float64) {
	sum := 0
	for i := range a {
		d := max(int(a[i])-int(b[i]), int(b[i])-int(a[i]))
		most = max(most, d)
		sum += d
	}
	return most, float64(sum) / float64(len(a))
}

func decoded(t testing.TB, file string, channels int, smooth bool) []uint8 {
	t.Helper()
	h, ok := ReadHeader(file)
	if !ok {
		t.Fatal("not a JPEG")
	}
	pixels := make([]uint8, h.Width*h.Height*channels)
	if err := Decode(file, h, channels, smooth, pixels); err != nil {
		t.Fatal(err)
	}
	return pixels
}

// TestDecode reads TensorFlow's files. Its transform is in integers, ours is the standard library's.
func TestDecode(t *testing.T) {
	for _, r := range records(t) {
		for _, smooth := range []bool{true, false} {
			want := r.rough
			if smooth {
				want = r.smooth
			}
			most, mean := apart(decoded(t, r.file, r.channels, smooth), want)
			if most > 3 || mean > 0.2 {
				t.Errorf("%dx%dx%d of quality %d, subsampled %v, smooth %v: levels are %d off, %.3f in the mean",
					r.height, r.width, r.channels, r.quality, r.subsample, smooth, most, mean)
			}
		}
	}
}

// TestEncode compares how much is lost to what TensorFlow loses, whose transform is in integers, and how long the files are.
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

// TestOptimalCode makes codes of counts that grow so fast that their lengths have to be limited.
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
		f.Add(r.file)
	}
	f.Fuzz(func(t *testing.T, data string) {
		h, ok := ReadHeader(data)
		if !ok || h.Width*h.Height > 1<<16 || h.Components == 0 || h.Components > 4 {
			return
		}
		for _, channels := range []int{1, 3} {
			_ = Decode(data, h, channels, strings.Contains(data, "a"), make([]uint8, h.Width*h.Height*channels))
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	pixels := bytes.Repeat([]byte("photographs have 3 channels  "), 224*224*3/29+1)[:224*224*3]
	file, err := Encode(pixels, 224, 224, 3, Options{Quality: 90, Subsample: true})
	if err != nil {
		b.Fatal(err)
	}
	h, _ := ReadHeader(string(file))
	for b.Loop() {
		if err := Decode(string(file), h, 3, true, pixels); err != nil {
			b.Fatal(err)
		}
	}
}
