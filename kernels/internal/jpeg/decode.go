package jpeg

import (
	"errors"
	"image"
	stdjpeg "image/jpeg"
	"io"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Header is what a JPEG says of itself in front of its samples.
type Header struct {
	Width, Height int
	Components    int // 1 of gray, 3 of colour, 4 of print
	progressive   bool
}

// Markers of segments.
const (
	startOfImage = 0xd8
	endOfImage   = 0xd9
	startOfScan  = 0xda
)

// ReadHeader reads up to the first scan. It is not ok if data is not a JPEG or ends before.
func ReadHeader(data string) (h Header, ok bool) {
	if !strings.HasPrefix(data, "\xff\xd8\xff") {
		return Header{}, false
	}
	for at := 2; ; {
		// Any number of 0xff may be in front of a marker.
		for at < len(data) && data[at] == 0xff {
			at++
		}
		if at+3 > len(data) {
			return Header{}, false
		}
		marker, size := data[at], int(data[at+1])<<8|int(data[at+2])
		if marker == startOfScan {
			return h, h.Components > 0
		}
		if marker == endOfImage || size < 2 || at+1+size > len(data) {
			return Header{}, false
		}
		segment := data[at+3 : at+1+size]
		if frame := marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc; frame {
			if len(segment) < 6 {
				return Header{}, false
			}
			h = Header{
				Height: int(segment[1])<<8 | int(segment[2]), Width: int(segment[3])<<8 | int(segment[4]),
				Components: int(segment[5]), progressive: marker == 0xc2,
			}
		}
		if at += 1 + size; at >= len(data) || data[at] != 0xff {
			return Header{}, false
		}
	}
}

// maxSamples is what TensorFlow lets an image have.
const maxSamples = 1 << 29

// Shrunk is the image's size when squares of side ratio become pixels. It is not ok if TensorFlow does not decode images of it.
func (h Header) Shrunk(ratio int) (width, height int, ok bool) {
	width, height = (h.Width+ratio-1)/ratio, (h.Height+ratio-1)/ratio
	return width, height, width > 0 && height > 0 && width*height*h.Components < maxSamples
}

// Bytes is at most how much memory Decode takes, but for its result.
func (h Header) Bytes() int {
	bytes := 1
	if h.progressive {
		bytes += 4 // the coefficients, until the last scan
	}
	const block = 32 // samples that the largest unit of an interleaved scan has on a side
	return (h.Width + block) * (h.Height + block) * h.Components * bytes
}

// Why a file cannot be decoded.
var (
	ErrInvalid   = errors.New("invalid JPEG data")
	ErrTruncated = errors.New("truncated JPEG data")
)

// Decode reads the pixels into rows of interleaved channels, of which there must be Width x Height x channels: 1 for gray, 3
// for colour. Smooth asks for colours that are interpolated where the file has fewer of them than pixels.
func Decode(data string, h Header, channels int, smooth bool, pixels []uint8) error {
	img, err := stdjpeg.Decode(strings.NewReader(data))
	var unsupported stdjpeg.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		return status.Unimplementedf("No kernel decodes JPEG files of this kind: %v", err)
	case errors.Is(err, io.ErrUnexpectedEOF), err != nil && strings.Contains(err.Error(), "short Huffman data"):
		return ErrTruncated
	case err != nil, img.Bounds() != image.Rect(0, 0, h.Width, h.Height):
		return ErrInvalid
	}
	switch m := img.(type) {
	case *image.Gray:
		for y := range h.Height {
			widen(pixels[y*h.Width*channels:][:h.Width*channels], m.Pix[y*m.Stride:][:h.Width], channels)
		}
	case *image.YCbCr:
		if channels == 1 {
			for y := range h.Height {
				copy(pixels[y*h.Width:][:h.Width], m.Y[y*m.YStride:])
			}
			return nil
		}
		colours(m, smooth, pixels)
	case *image.RGBA:
		for y := range h.Height {
			for x := range h.Width {
				p := m.Pix[y*m.Stride+4*x:]
				put(pixels[(y*h.Width+x)*channels:][:channels], int32(p[0]), int32(p[1]), int32(p[2]))
			}
		}
	case *image.CMYK:
		if channels == 1 {
			return ErrInvalid // libjpeg has no gray of inks
		}
		for y := range h.Height {
			for x := range h.Width {
				p := m.Pix[y*m.Stride+4*x:]
				paper := 255 - int32(p[3])
				put(pixels[(y*h.Width+x)*3:][:3], paper*(255-int32(p[0]))/255, paper*(255-int32(p[1]))/255, paper*(255-int32(p[2]))/255)
			}
		}
	default:
		return status.Unimplementedf("No kernel decodes JPEG files that give a %T", img)
	}
	return nil
}

// widen repeats each sample for all channels.
func widen(dst, row []uint8, channels int) {
	if channels == 1 {
		copy(dst, row)
		return
	}
	for x, v := range row {
		dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
	}
}

// put writes a colour, or its luma.
func put(dst []uint8, r, g, b int32) {
	if len(dst) == 1 {
		dst[0] = luma(r, g, b)
		return
	}
	dst[0], dst[1], dst[2] = uint8(r), uint8(g), uint8(b)
}

// Shrink averages squares of side ratio of rows of interleaved channels. What is left over at the right and at the bottom is
// averaged alone.
func Shrink(dst, src []uint8, width, height, channels, ratio int) {
	for y := 0; y < height; y += ratio {
		rows := min(ratio, height-y)
		for x := 0; x < width; x += ratio {
			columns := min(ratio, width-x)
			for c := range channels {
				sum := rows * columns / 2
				for i := range rows {
					for j := range columns {
						sum += int(src[((y+i)*width+x+j)*channels+c])
					}
				}
				dst[c] = uint8(sum / (rows * columns))
			}
			dst = dst[channels:]
		}
	}
}
