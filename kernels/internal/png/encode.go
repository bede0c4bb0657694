// Package png writes and reads PNG files with the channels and depths of TensorFlow's image ops: gray, gray with alpha, colour, and colour
// with alpha, at 8 or 16 bits.
package png

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/troupe-run/troupe/graph/status"
)

const signature = "\x89PNG\r\n\x1a\n"

// Colour types of IHDR.
const (
	gray      = 0
	colour    = 2
	palette   = 3
	grayAlpha = 4
	rgbAlpha  = 6

	alpha = 4 // the bit set in types with alpha
)

var colourOf = [...]byte{1: gray, 2: grayAlpha, 3: colour, 4: rgbAlpha}

// maxPixels is TensorFlow's limit on the pixels of an image.
const maxPixels = 1 << 29

// Encode returns a PNG of rows of 1 to 4 interleaved channels of uint8 or uint16. level is zlib's compression level, -1 for its default.
// The standard library's encoder cannot be used: it drops an alpha channel that is opaque everywhere and does not support gray with alpha.
func Encode[T uint8 | uint16](pixels []T, width, height, channels, level int) ([]byte, error) {
	if width <= 0 || height <= 0 || channels < 1 || channels > 4 || height >= maxPixels/width || len(pixels) != width*height*channels {
		return nil, status.Internalf("PNG encoding failed")
	}
	bytesOf := binary.Size(T(0))
	var out bytes.Buffer
	out.WriteString(signature)
	header := binary.BigEndian.AppendUint32(nil, uint32(width))
	header = binary.BigEndian.AppendUint32(header, uint32(height))
	chunk(&out, "IHDR", append(header, byte(8*bytesOf), colourOf[channels], 0, 0, 0))
	data := bufio.NewWriterSize(chunks{&out}, 64<<10)
	z, err := zlib.NewWriterLevel(data, level)
	if err != nil {
		return nil, status.InvalidArgumentf("compression should be in [-1,9], got %d", level)
	}
	f := newFilter(width*channels*bytesOf, channels*bytesOf)
	for y := range height {
		if _, err := binary.Encode(f.row(), binary.BigEndian, pixels[y*width*channels:][:width*channels]); err != nil {
			return nil, status.Internalf("PNG encoding failed: %v", err)
		}
		if _, err := z.Write(f.best()); err != nil {
			return nil, status.Internalf("PNG encoding failed: %v", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, status.Internalf("PNG encoding failed: %v", err)
	}
	if err := data.Flush(); err != nil {
		return nil, status.Internalf("PNG encoding failed: %v", err)
	}
	chunk(&out, "IEND", nil)
	return out.Bytes(), nil
}

// chunks writes each Write as an IDAT chunk.
type chunks struct{ out *bytes.Buffer }

var _ io.Writer = chunks{}

func (c chunks) Write(p []byte) (int, error) {
	chunk(c.out, "IDAT", p)
	return len(p), nil
}

func chunk(out *bytes.Buffer, kind string, data []byte) {
	b := binary.BigEndian.AppendUint32(out.AvailableBuffer(), uint32(len(data)))
	b = append(append(b, kind...), data...)
	out.Write(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:])))
}
