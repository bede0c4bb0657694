package input

import (
	"errors"
	"io"
	"math"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// maxInflated bounds what one string may become; TensorFlow's buffers end there, too.
const maxInflated = math.MaxInt32

func newDecodeCompressed(c *kernels.Construction) (any, error) {
	name, err := c.Attrs().Str("compression_type")
	if err != nil {
		return nil, err
	}
	var decode func(*kernels.Meter, string) (string, error)
	switch compression, _ := tfrecord.ParseCompression(name); {
	case name == "ZSTD":
		decode = decodeZstd
	case compression != tfrecord.None:
		decode = func(m *kernels.Meter, s string) (string, error) { return inflate(m, s, compression) }
	case name == "":
		decode = func(_ *kernels.Meter, s string) (string, error) { return s, nil }
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
			out.Strings()[i], err = decode(&m, s)
		}
		return err
	}), nil
}

// inflate decompresses s; data that is cut off gives what there is of it.
func inflate(m *kernels.Meter, s string, c tfrecord.Compression) (string, error) {
	out := metered{meter: m}
	_, err := io.CopyN(&out, tfrecord.NewInflater(strings.NewReader(s), c), maxInflated)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return out.String(), err
}

// metered is a text that grows as far as there is memory for it.
type metered struct {
	strings.Builder
	meter *kernels.Meter
}

// Write appends b. The text lies in memory twice when it grows.
func (w *metered) Write(b []byte) (int, error) {
	if err := w.meter.Take(2 * len(b)); err != nil {
		return 0, err
	}
	return w.Builder.Write(b)
}

// decodeZstd decompresses a frame that says how long it is.
func decodeZstd(m *kernels.Meter, s string) (string, error) {
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
