package png

import (
	"encoding/binary"
	"image"
	"image/color"
	stdpng "image/png"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
)

// Is reports whether data begins with a PNG's signature.
func Is(data string) bool { return strings.HasPrefix(data, signature) }

// Header describes a PNG, as read from what precedes its pixels.
type Header struct {
	Width, Height int
	depth, colour byte
	transparent   bool // has a tRNS chunk
	channels      int
}

// errInit is TensorFlow's error for a PNG whose signature or header is invalid.
var errInit = status.New(status.InvalidArgument, "Invalid PNG. Failed to initialize decoder.")

// ReadHeader reads everything before the pixels. channels is the number of channels that the caller wants, or 0 for those of the file.
func ReadHeader(data string, channels int) (Header, error) {
	if !Is(data) {
		return Header{}, errInit
	}
	var h Header
	for at := len(signature); ; {
		kind, body, next, ok := readChunk(data, at)
		switch {
		case !ok || (at == len(signature)) != (kind == "IHDR"):
			return Header{}, errInit
		case kind == "IHDR":
			if len(body) != 13 {
				return Header{}, errInit
			}
			width, height := binary.BigEndian.Uint32([]byte(body)), binary.BigEndian.Uint32([]byte(body[4:]))
			if width == 0 || height == 0 || width >= 1<<31 || height >= 1<<31 {
				return Header{}, errInit
			}
			h.Width, h.Height, h.depth, h.colour = int(width), int(height), body[8], body[9]
		case kind == "tRNS":
			h.transparent = true
		case kind == "IDAT":
			if h.channels = channels; channels == 0 {
				h.channels = h.own()
			}
			return h, h.check(len(data))
		}
		at = next
	}
}

// readChunk splits off the chunk at a position.
func readChunk(data string, at int) (kind, body string, next int, ok bool) {
	if len(data)-at < 12 {
		return "", "", 0, false
	}
	n := int64(binary.BigEndian.Uint32([]byte(data[at : at+4])))
	if n > int64(len(data)-at-12) {
		// The pixels may be truncated; what precedes them can still be read.
		return data[at+4 : at+8], "", 0, data[at+4:at+8] == "IDAT"
	}
	return data[at+4 : at+8], data[at+8 : at+8+int(n)], at + 12 + int(n), true
}

// own returns the number of channels in the file.
func (h Header) own() int {
	switch {
	case h.colour == palette && h.transparent, h.colour == rgbAlpha:
		return 4
	case h.colour == grayAlpha:
		return 2
	case h.colour == gray:
		return 1
	}
	return 3
}

// check rejects sizes that TensorFlow rejects, and sizes that the compressed data cannot hold: deflate expands a byte to at most 1032.
func (h Header) check(compressed int) error {
	if h.Width >= 1<<27 || h.Height >= 1<<27 || h.Width*h.Height >= maxPixels {
		return status.InvalidArgumentf("PNG size too large for int: %d by %d", h.Width, h.Height)
	}
	if h.Width*h.Height/8 > compressed*1032 {
		return status.InvalidArgumentf("Invalid PNG data, size %d", compressed)
	}
	return nil
}

// Channels returns the number of channels that Decode produces.
func (h Header) Channels() int { return h.channels }

// Decode reads the pixels into rows of interleaved channels. The length of pixels must be Width x Height x Channels. Samples of another
// depth are widened or lose their low bits.
func Decode[T uint8 | uint16](data string, h Header, pixels []T) error {
	img, err := stdpng.Decode(strings.NewReader(data))
	if err != nil || img.Bounds() != image.Rect(0, 0, h.Width, h.Height) {
		return status.InvalidArgumentf("Invalid PNG data, size %d", len(data))
	}
	c := converter[T]{header: h, wide: h.depth == 16}
	for y := range h.Height {
		row := pixels[y*h.Width*h.channels:][:h.Width*h.channels]
		for x := range h.Width {
			c.put(row[x*h.channels:][:h.channels], sample(img, x, y))
		}
	}
	return nil
}

// sample returns a pixel with 16 bits per channel and without premultiplied alpha.
func sample(img image.Image, x, y int) color.NRGBA64 {
	switch m := img.(type) {
	case *image.Gray:
		return same(uint16(m.GrayAt(x, y).Y) * 0x101)
	case *image.Gray16:
		return same(m.Gray16At(x, y).Y)
	case *image.RGBA: // from files without alpha
		c := m.RGBAAt(x, y)
		return wide(c.R, c.G, c.B, c.A)
	case *image.RGBA64:
		c := m.RGBA64At(x, y)
		return color.NRGBA64(c)
	case *image.NRGBA:
		c := m.NRGBAAt(x, y)
		return wide(c.R, c.G, c.B, c.A)
	case *image.NRGBA64:
		return m.NRGBA64At(x, y)
	case *image.Paletted:
		switch c := m.At(x, y).(type) {
		case color.RGBA:
			return wide(c.R, c.G, c.B, c.A)
		case color.NRGBA:
			return wide(c.R, c.G, c.B, c.A)
		}
	}
	return color.NRGBA64Model.Convert(img.At(x, y)).(color.NRGBA64)
}

func same(v uint16) color.NRGBA64 { return color.NRGBA64{R: v, G: v, B: v, A: 0xffff} }

func wide(r, g, b, a uint8) color.NRGBA64 {
	return color.NRGBA64{R: uint16(r) * 0x101, G: uint16(g) * 0x101, B: uint16(b) * 0x101, A: uint16(a) * 0x101}
}

// converter writes pixels in the requested form.
type converter[T uint8 | uint16] struct {
	header Header
	wide   bool
}

func (c converter[T]) put(dst []T, p color.NRGBA64) {
	if c.header.channels < 3 {
		if c.header.colour&colour != 0 {
			p.R = c.luma(p)
		}
		dst[0] = c.narrow(p.R)
	} else {
		dst[0], dst[1], dst[2] = c.narrow(p.R), c.narrow(p.G), c.narrow(p.B)
	}
	if c.header.channels%2 == 0 {
		if h := c.header; !h.transparent && h.colour&alpha == 0 && h.depth < 8 {
			// libpng widens samples, but not the alpha that it adds to them.
			p.A = (1<<h.depth - 1) * 0x101
		}
		dst[c.header.channels-1] = c.narrow(p.A)
	}
}

// narrow returns the high bits of a sample for uint8.
func (c converter[T]) narrow(v uint16) T {
	if ^T(0) == 255 {
		return T(v >> 8)
	}
	return T(v)
}

// luma returns the gray value of a colour: by ITU-R 601, in fixed point as in libpng, at the file's depth.
func (c converter[T]) luma(p color.NRGBA64) uint16 {
	const red, green, blue = 9797, 19234, 32768 - 9797 - 19234
	if p.R == p.G && p.R == p.B {
		return p.R
	}
	if c.wide {
		return uint16((uint32(p.R)*red + uint32(p.G)*green + uint32(p.B)*blue + 16384) >> 15)
	}
	return uint16((uint32(p.R>>8)*red+uint32(p.G>>8)*green+uint32(p.B>>8)*blue)>>15) * 0x101
}
