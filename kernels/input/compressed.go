package input

import (
	"errors"
	"io"
	"math"
	"strings"
	"unsafe"

	"github.com/klauspost/compress/zstd"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// maxInflated bounds the decompressed size of one string; TensorFlow's buffers have the same limit.
const maxInflated = math.MaxInt32

func newDecodeCompressed(c *kernels.Construction) (any, error) {
	name, err := c.Attrs().Str("compression_type")
	if err != nil {
		return nil, err
	}
	var decode func(*kernels.Context, *kernels.Meter, string) (string, error)
	switch compression, _ := tfrecord.ParseCompression(name); {
	case name == "ZSTD":
		decode = decodeZstd
	case compression != tfrecord.None:
		decode = func(ctx *kernels.Context, m *kernels.Meter, s string) (string, error) {
			return inflate(ctx, m, s, compression)
		}
	case name == "":
		decode = func(_ *kernels.Context, _ *kernels.Meter, s string) (string, error) { return s, nil }
	default:
		return nil, status.InvalidArgumentf("Only ZLIB, ZSTD, GZIP or NONE are supported compressions")
	}
	return kernels.Func(func(ctx *kernels.Context) error {
		in := ctx.Input(0)
		out, err := ctx.Allocate(0, tensor.String, in.Shape())
		m := ctx.Meter()
		defer m.Done()
		for i, s := range in.Strings() {
			if err != nil {
				return err
			}
			out.Strings()[i], err = decode(ctx, &m, s)
		}
		return err
	}), nil
}

// inflate decompresses s; truncated data yields what can be decompressed.
func inflate(ctx *kernels.Context, m *kernels.Meter, s string, c tfrecord.Compression) (string, error) {
	out := inflated{ctx: ctx, meter: m}
	_, err := io.CopyN(&out, tfrecord.NewInflater(strings.NewReader(s), c), maxInflated)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return out.text(), nil
}

// inflated is a text that grows in pieces. Writing fails if there is no memory for the text and its copy, or if the step has ended.
type inflated struct {
	ctx    *kernels.Context
	meter  *kernels.Meter
	pieces [][]byte
	size   int
}

// firstPiece and largestPiece are the smallest and largest sizes of pieces in bytes. Each piece doubles the text, within these bounds.
const (
	firstPiece   = 512
	largestPiece = 4 << 20
)

// Write appends b.
func (w *inflated) Write(b []byte) (int, error) {
	if err := w.ctx.Ended(); err != nil {
		return 0, err
	}
	if err := w.meter.Take(2 * len(b)); err != nil {
		return 0, err
	}
	for rest := b; len(rest) > 0; {
		last := len(w.pieces) - 1
		if last < 0 || len(w.pieces[last]) == cap(w.pieces[last]) {
			w.pieces = append(w.pieces, make([]byte, 0, min(max(w.size, firstPiece), largestPiece)))
			last++
		}
		p := &w.pieces[last]
		n := min(len(rest), cap(*p)-len(*p))
		*p = append(*p, rest[:n]...)
		rest = rest[n:]
		w.size += n
	}
	return len(b), nil
}

// text returns the whole text.
func (w *inflated) text() string {
	all := make([]byte, w.size)
	at := 0
	for _, p := range w.pieces {
		at += tensor.Copy(all[at:], p)
	}
	return unsafe.String(unsafe.SliceData(all), len(all)) // no longer written to
}

// decodeZstd decompresses a frame that states its size.
func decodeZstd(_ *kernels.Context, m *kernels.Meter, s string) (string, error) {
	var header zstd.Header
	if err := header.Decode([]byte(s)); err != nil || !header.HasFCS {
		return "", status.InvalidArgumentf("Failed to determine decompressed size")
	}
	if header.FrameContentSize > maxInflated {
		return "", status.Errorf(status.ResourceExhausted, "Decompressed zstd input would have %d bytes, more than %d", header.FrameContentSize, maxInflated)
	}
	if err := m.TakeMany(int(header.FrameContentSize), 2); err != nil {
		return "", err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(max(header.FrameContentSize, 64<<10)))
	if err != nil {
		return "", err
	}
	defer d.Close()
	out, err := d.DecodeAll([]byte(s), nil)
	if err != nil {
		return "", status.InvalidArgumentf("Failed to decompress zstd input: %v", err)
	}
	return string(out), nil
}
