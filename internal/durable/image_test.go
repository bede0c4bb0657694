package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/troupe-run/troupe/graph/status"
)

// counted is a value that counts its releases.
type counted struct {
	text     string
	size     int // 0: that of the text
	err      error
	released *int
}

func (c counted) Append(b []byte) ([]byte, error) { return append(b, c.text...), c.err }
func (c counted) Release()                        { *c.released++ }
func (c counted) Size() int                       { return max(c.size, len(c.text)) }

// entriesOfImage returns what comes of an image that is sent in pieces of a size.
func entriesOfImage(t *testing.T, size int, state func(r Recorder)) []string {
	t.Helper()
	image, err := Take(state)
	if err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := image.Send(size, func(piece []byte) error {
		if len(piece) == 0 || len(piece) > size {
			t.Errorf("a piece of %d bytes", len(piece))
		}
		sent.Write(piece)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	from := Received(iotest.HalfReader(&sent))
	if from.Cell() != nil {
		t.Error("what was received has a cell")
	}
	if err := from.Each(func(key, value []byte) error {
		got = append(got, fmt.Sprintf("%s=%s", key, value))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestImage(t *testing.T) {
	released, values := 0, 0
	long := strings.Repeat("long", copyBytes/3)
	state := func(r Recorder) {
		r.Set([]byte("a"), Bytes("1"))
		r.Set([]byte("b"), counted{text: "two", released: &released})
		r.Delete([]byte("a"))
		r.Set(nil, Bytes(""))
		r.Set([]byte("c"), Bytes(long))
		r.Set([]byte("d"), Bytes("4"))
		r.Set([]byte("e"), counted{text: long, released: &released})
		values += 2
	}
	want := []string{"a=1", "b=two", "=", "c=" + long, "d=4", "e=" + long}
	for _, size := range []int{1000, 4 << 20} {
		if got := entriesOfImage(t, size, state); !slices.Equal(got, want) {
			t.Errorf("in pieces of %d bytes: %.100q", size, got)
		}
	}
	if got := entriesOfImage(t, 10, func(Recorder) {}); len(got) != 0 {
		t.Errorf("nothing becomes %q", got)
	}
	image, err := Take(state)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if err := image.Send(5, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a piece that is not sent: %v", err)
	}
	image.Release()
	if released != values {
		t.Errorf("%d of %d values were released", released, values)
	}
}

// What cannot be sent within the bounds of memory is refused, and released.
func TestImageLimits(t *testing.T) {
	released := 0
	large := Bytes(make([]byte, 16<<20))
	_, err := Take(func(r Recorder) {
		r.Set([]byte("first"), counted{text: "x", released: &released})
		for range maxImage/len(large) + 1 {
			r.Set([]byte("k"), large)
		}
		r.Set([]byte("last"), counted{text: "x", released: &released})
	})
	if status.CodeOf(err) != status.ResourceExhausted || released != 2 {
		t.Errorf("%v, with %d values released", err, released)
	}
	broken := errors.New("no encoding")
	for want, v := range map[string]counted{"an entry of it has": {text: "x", size: maxEntry + 1}, "no encoding": {text: "x", err: broken}} {
		released = 0
		v.released = &released
		image, err := Take(func(r Recorder) { r.Set(nil, v) })
		if err != nil {
			t.Fatal(err)
		}
		if err := image.Send(100, func([]byte) error { return nil }); err == nil || !strings.Contains(err.Error(), want) || released != 1 {
			t.Errorf("%v, with %d values released; want %s", err, released, want)
		}
	}
}

// Malformed entries are DATA_LOSS, and take no more memory than has come. The reader's own error is passed on.
func TestReceivedDamage(t *testing.T) {
	lost := status.Errorf(status.Unavailable, "the task is lost")
	for _, c := range []struct {
		name string
		from io.Reader
		code status.Code
	}{
		{"half a length", strings.NewReader("\xff"), status.DataLoss},
		{"half a key", strings.NewReader("\x05abc"), status.DataLoss},
		{"no length of a value", strings.NewReader("\x01a"), status.DataLoss},
		{"half a value", strings.NewReader("\x01a\x03bc"), status.DataLoss},
		{"a huge value", strings.NewReader("\x01a\xff\xff\xff\xff\xff\xff\xff\xff\x7fbc"), status.DataLoss},
		{"an entry, and half of one", strings.NewReader("\x01a\x01b\x01"), status.DataLoss},
		{"a lost task", io.MultiReader(strings.NewReader("\x01a\x05b"), iotest.ErrReader(lost)), status.Unavailable},
	} {
		if err := Received(c.from).Each(func(_, _ []byte) error { return nil }); status.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	stop := errors.New("stop")
	if err := Received(strings.NewReader("\x01a\x01b")).Each(func(_, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a visit that fails: %v", err)
	}
}
