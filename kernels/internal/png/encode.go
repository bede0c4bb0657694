// Package png writes and reads PNG files with the channels and depths of TensorFlow's image ops: grey, grey
// with alpha, colour, and colour with alpha, of 8 or 16 bits.
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

// colour types of IHDR.
const (
	gray      = 0
	colour    = 2
	palette   = 3
	grayAlpha = 4
	rgbAlpha  = 6

	alpha = 4 // the bit of those that have it
)

var colourOf = [...]byte{1: gray, 2: grayAlpha, 3: colour, 4: rgbAlpha}

// maxPixels is what TensorFlow lets an image have.
const maxPixels = 1 << 29

// Encode makes a PNG of rows of interleaved channels, 1 to 4 of them, of type uint8 or uint16. Level is
// zlib's, -1 its default. The standard library's encoder would drop an alpha channel that is opaque
// everywhere, and has no gray with alpha.
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

// chunks makes each write to it an IDAT.
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
