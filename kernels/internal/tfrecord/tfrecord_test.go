package tfrecord

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// written is the output of tf.io.TFRecordWriter for the records "hello" and "world!!".
const written = "0500000000000000eab2043e68656c6c6fbb1f1c190700000000000000bbd79f11776f726c6421217754cd5a"

func file(t testing.TB, c Compression, records ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b, c)
	for _, r := range records {
		if err := w.Write([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(nil); status.CodeOf(err) != status.FailedPrecondition {
		t.Errorf("writing after Close: %v", err)
	}
	return b.Bytes()
}

func records(r *Reader) (all []string, err error) {
	for {
		record, err := r.Next()
		if err != nil {
			return all, err
		}
		all = append(all, string(record))
	}
}

func TestRoundTrip(t *testing.T) {
	want := []string{"hello", "", "world!!", strings.Repeat("long ", 1<<20), "end"}
	for _, c := range []Compression{None, ZLIB, GZIP} {
		data := file(t, c, want...)
		for _, in := range []io.Reader{bytes.NewReader(data), iotest.HalfReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data))} {
			r := NewReader(in, c, 0)
			got, err := records(r)
			if !errors.Is(err, io.EOF) {
				t.Fatalf("compression %d: %v", c, err)
			}
			if strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("compression %d: %d records of %d came back", c, len(got), len(want))
			}
			if _, again := r.Next(); !errors.Is(again, io.EOF) {
				t.Errorf("after the end: %v", again)
			}
		}
	}
}

func TestBytesAreTensorFlows(t *testing.T) {
	if got := hex.EncodeToString(file(t, None, "hello", "world!!")); got != written {
		t.Errorf("wrote %s, want %s", got, written)
	}
}

// TestDamage compares errors with those of TensorFlow's TFRecordReader for the same files.
func TestDamage(t *testing.T) {
	plain := file(t, None, "hello", "world!!")
	deflated, zipped := file(t, ZLIB, "hello", "world!!"), file(t, GZIP, "hello", "world!!")
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[(at+len(b))%len(b)] ^= 1
		return b
	}
	sized := func(n uint64) []byte {
		b := binary.LittleEndian.AppendUint64(nil, n)
		return append(binary.LittleEndian.AppendUint32(b, checksum(b)), "some data"...)
	}
	const limit = 1 << 40
	for _, c := range []struct {
		name        string
		data        []byte
		compression Compression
		want        int // records
		err         string
	}{
		{"empty", nil, None, 0, "EOF"},
		{"header cut", plain[:5], None, 0, "EOF"},
		{"data missing", plain[:12], None, 0, "truncated record at 0' failed with Read less bytes than requested"},
		{"data cut", plain[:20], None, 0, "truncated record at 0' failed with Read less bytes than requested"},
		{"one record", plain[:21], None, 1, "EOF"},
		{"second header cut", plain[:25], None, 1, "EOF"},
		{"second record cut", plain[:35], None, 1, "truncated record at 21' failed with Read less bytes than requested"},
		{"length changed", flip(plain, 8), None, 0, "corrupted record at 0 (Is this even a TFRecord file?)"},
		{"data changed", flip(plain, 13), None, 0, "corrupted record at 12"},
		{"second length changed", flip(plain, 21+8), None, 1, "corrupted record at 21"},
		{"second data changed", flip(plain, 21+13), None, 1, "corrupted record at 33"},
		{"length of all there is", sized(math.MaxUint64), None, 0, "record size too large"},
		{"length beyond the limit", sized(limit + 1), None, 0, "record at 0 has 1099511627777 bytes, more than the limit of 1099511627776"},
		{"made-up length", sized(limit), None, 0, "truncated record at 0' failed with Read less bytes than requested"},
		{"zlib: nothing", nil, ZLIB, 0, "EOF"},
		{"zlib: header cut", deflated[:1], ZLIB, 0, "EOF"},
		{"zlib: trailer cut", deflated[:len(deflated)-5], ZLIB, 2, "EOF"},
		{"zlib: twice", append(bytes.Clone(deflated), deflated...), ZLIB, 2, "EOF"},
		{"zlib: gzip", zipped, ZLIB, 0, "inflate() failed with error -3: incorrect header check"},
		{"zlib: text", []byte("some text, no record"), ZLIB, 0, "inflate() failed with error -3: incorrect header check"},
		{"zlib: plain cut", deflate(plain[:39]), ZLIB, 1, "truncated record at 21' failed with EOF reached"},
		{"zlib: checksum", flip(deflated, -1), ZLIB, 2, "inflate() failed with error -3: incorrect data check"},
		{"gzip: header cut", zipped[:5], GZIP, 0, "EOF"},
		{"gzip: twice", append(bytes.Clone(zipped), zipped...), GZIP, 4, "EOF"},
		{"gzip: checksum", flip(zipped, -6), GZIP, 2, "inflate() failed with error -3: incorrect data check"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := records(NewReader(bytes.NewReader(c.data), c.compression, limit))
			if len(got) != c.want || err.Error() != c.err {
				t.Errorf("%d records, then %q; want %d, then %q", len(got), err, c.want, c.err)
			}
		})
	}
}

func deflate(data []byte) []byte {
	var b bytes.Buffer
	w := NewWriter(&b, ZLIB)
	w.out.Write(data)
	w.Close()
	return b.Bytes()
}

func TestErrorsOfTheFile(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, n := range []int{0, 12} {
		in := io.MultiReader(bytes.NewReader(file(t, None, "hello")[:n]), iotest.ErrReader(broken))
		if _, err := NewReader(in, None, 0).Next(); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
	for _, c := range []Compression{ZLIB, GZIP, Snappy} {
		w := NewWriter(brokenWriter{broken}, c)
		if err := errors.Join(w.Write([]byte("hello")), w.Close()); !errors.Is(err, broken) {
			t.Errorf("compression %v: a record was written to a broken file: %v", c, err)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func FuzzReader(f *testing.F) {
	for _, c := range []Compression{None, ZLIB, GZIP} {
		f.Add(file(f, c, "hello", "", "world!!"), uint8(c))
	}
	f.Fuzz(func(t *testing.T, data []byte, c uint8) {
		r := NewReader(bytes.NewReader(data), Compression(c%3), 1<<30)
		got, err := records(r)
		if err == nil {
			t.Fatal("no end")
		}
		// A writer of the same records reproduces the file.
		back := file(t, None, got...)
		if uint64(len(back)) != r.Offset() {
			t.Fatalf("%d records of %d bytes, but the offset is %d", len(got), len(back), r.Offset())
		}
		if c%3 == 0 && !bytes.HasPrefix(data, back) {
			t.Fatalf("records %q are not what the file holds", got)
		}
	})
}

// TestRecordsTakeCountedMemory reads a record that is much larger than its file, with each compression, in a process that has no memory for it.
func TestRecordsTakeCountedMemory(t *testing.T) {
	const size = 64 << 20
	before := tensor.Process.Limit()
	defer tensor.Process.SetLimit(before)
	packed := map[Compression][]byte{}
	for _, c := range []Compression{None, ZLIB, GZIP, Snappy} {
		if packed[c] = file(t, c, strings.Repeat("a", size), "b"); c != None && len(packed[c]) > size/8 {
			t.Fatalf("%v: the file has %d bytes", c, len(packed[c]))
		}
	}
	runtime.GC()
	tensor.Process.SetLimit(0) // measures what is held
	tensor.Process.SetLimit(tensor.Process.Held() + size/4)
	for c, data := range packed {
		if _, err := NewReader(bytes.NewReader(data), c, 0).Next(); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("%v: %v", c, err)
		}
	}
	tensor.Process.SetLimit(before)
	for c, data := range packed {
		if got, err := NewReader(bytes.NewReader(data), c, 0).Next(); err != nil || len(got) != size {
			t.Errorf("%v, with enough memory: %d bytes, %v", c, len(got), err)
		}
	}
}
