// Package webp reads WebP files, both still images and animations, as libwebp does for TensorFlow's image ops. The frames are decoded by
// golang.org/x/image; colours are interpolated and converted, and frames composed, as in libwebp.
package webp

import (
	"encoding/binary"
	"errors"
	"image"
	"strings"

	"golang.org/x/image/webp"
)

// File is a WebP whose frames have been located but not decoded.
type File struct {
	Width, Height int
	Channels      int // 4 if any frame has alpha, 3 otherwise
	Animated      bool
	frames        []frame
}

// frame is an image of a file that covers part of the canvas.
type frame struct {
	x, y, width, height int
	data                string // a complete WebP file
	opaque              bool   // replaces the canvas instead of blending with it
	dispose             bool   // clears its part of the canvas afterwards
}

// Is reports whether data begins like a WebP.
func Is(data string) bool {
	return len(data) > 12 && strings.HasPrefix(data, "RIFF") && data[8:12] == "WEBP"
}

// ErrHeader reports a file that is not a WebP or is truncated before its first frame.
var ErrHeader = errors.New("Failed to decode WebP header.")

// Flags of the chunk VP8X.
const (
	animation = 1 << 1
	alpha     = 1 << 4
)

// Parse locates the frames of a file. Their pixels are not examined before Draw.
func Parse(data string) (*File, error) {
	if !Is(data) {
		return nil, ErrHeader
	}
	size := min(int(binary.LittleEndian.Uint32([]byte(data[4:8]))), len(data)-8)
	body := data[12 : 8+max(size, 4)]
	kind, content, rest, ok := chunk(body)
	if !ok {
		return nil, ErrHeader
	}
	if kind != "VP8X" {
		return still(data, kind, content)
	}
	if len(content) < 10 {
		return nil, ErrHeader
	}
	f := &File{Width: word24(content[4:]) + 1, Height: word24(content[7:]) + 1, Channels: 3, Animated: content[0]&animation != 0}
	if content[0]&alpha != 0 {
		f.Channels = 4
	}
	if !f.Animated {
		f.frames = []frame{{width: f.Width, height: f.Height, data: data}}
		return f, f.lookForAlpha(rest)
	}
	f.Channels = 4
	for rest != "" {
		if kind, content, rest, ok = chunk(rest); !ok {
			break
		}
		if kind == "ANMF" && len(content) >= 16 {
			f.frames = append(f.frames, newFrame(content))
		}
	}
	if len(f.frames) == 0 {
		return nil, ErrHeader
	}
	return f, nil
}

// lookForAlpha reads the chunks of a still image up to its pixels, to see whether it has alpha.
func (f *File) lookForAlpha(chunks string) error {
	for {
		kind, content, rest, ok := chunk(chunks)
		switch {
		case !ok:
			return ErrHeader
		case kind == "ALPH":
			f.Channels = 4
		case kind == "VP8 ":
			return nil
		case kind == "VP8L":
			own, err := still("", kind, content)
			if err != nil {
				return err
			}
			f.Channels = own.Channels
			return nil
		}
		chunks = rest
	}
}

// still reads the size of a file that consists of a single frame.
func still(data, kind, content string) (*File, error) {
	f := &File{Channels: 3}
	switch {
	case kind == "VP8 " && len(content) >= 10:
		f.Width, f.Height = int(content[6])|int(content[7]&0x3f)<<8, int(content[8])|int(content[9]&0x3f)<<8
	case kind == "VP8L" && len(content) >= 5 && content[0] == 0x2f:
		bits := binary.LittleEndian.Uint32([]byte(content[1:5]))
		f.Width, f.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
		if bits>>28&1 != 0 {
			f.Channels = 4
		}
	default:
		return nil, ErrHeader
	}
	if f.Width == 0 || f.Height == 0 {
		return nil, ErrHeader
	}
	f.frames = []frame{{width: f.Width, height: f.Height, data: data}}
	return f, nil
}

// newFrame reads a frame of an animation and makes a complete file of it.
func newFrame(content string) frame {
	f := frame{
		x: 2 * word24(content), y: 2 * word24(content[3:]), width: word24(content[6:]) + 1, height: word24(content[9:]) + 1,
		opaque: content[15]&2 != 0, dispose: content[15]&1 != 0,
	}
	chunks := content[16:]
	var head strings.Builder
	if strings.HasPrefix(chunks, "ALPH") {
		head.WriteString("VP8X\x0a\x00\x00\x00\x10\x00\x00\x00" + content[6:12]) // with alpha, of the frame's size
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(4+head.Len()+len(chunks)))
	f.data = "RIFF" + string(size) + "WEBP" + head.String() + chunks
	return f
}

// chunk splits off the first chunk.
func chunk(data string) (kind, content, rest string, ok bool) {
	if len(data) < 8 {
		return "", "", "", false
	}
	n := int(binary.LittleEndian.Uint32([]byte(data[4:8])))
	kind, data = data[:4], data[8:]
	if n > len(data) {
		return kind, data, "", kind == "VP8 " || kind == "VP8L"
	}
	return kind, data[:n], data[min(n+n%2, len(data)):], true
}

func word24(s string) int { return int(s[0]) | int(s[1])<<8 | int(s[2])<<16 }

// Frames returns the number of frames, at least one.
func (f *File) Frames() int { return len(f.frames) }

// Bytes returns an upper limit on the memory that Draw needs, except for its result.
func (f *File) Bytes() int {
	const samples = 8 // per pixel: the decoded ones, the alpha, the work on them, and a canvas
	return samples * (f.Width + 16) * (f.Height + 16)
}

// errFrame reports a frame that does not fit the canvas or contradicts its header.
var errFrame = errors.New("broken frame")

// Draw decodes the first frames and writes them one after the other, as rows of interleaved channels. It returns the number drawn; on an
// error, that is the frames before the broken one.
func (f *File) Draw(frames int, pixels []uint8) (drawn int, err error) {
	each := f.Width * f.Height * f.Channels
	if !f.Animated {
		if err := f.frames[0].draw(f.Channels, pixels); err != nil {
			return 0, err
		}
		return 1, nil
	}
	canvas := make([]uint8, each)
	var below frame
	for k, fr := range f.frames[:frames] {
		if fr.x+fr.width > f.Width || fr.y+fr.height > f.Height {
			return k, errFrame
		}
		if below.dispose {
			for y := range below.height {
				clear(canvas[((below.y+y)*f.Width+below.x)*4:][:below.width*4])
			}
		}
		own := make([]uint8, fr.width*fr.height*4)
		if err := fr.draw(4, own); err != nil {
			return k, err
		}
		for y := range fr.height {
			dst, src := canvas[((fr.y+y)*f.Width+fr.x)*4:][:fr.width*4], own[y*fr.width*4:]
			if fr.opaque {
				copy(dst, src)
				continue
			}
			for x := 0; x < len(dst); x += 4 {
				blend((*[4]uint8)(dst[x:]), (*[4]uint8)(src[x:]))
			}
		}
		copy(pixels[k*each:][:each], canvas)
		below = fr
	}
	return frames, nil
}

// blend draws a pixel over another, with non-premultiplied alpha, in libwebp's integer arithmetic.
func blend(dst, src *[4]uint8) {
	over := uint32(src[3])
	switch over {
	case 0:
		return
	case 255:
		*dst = *src
		return
	}
	under := uint32(dst[3]) * (256 - over) >> 8
	sum := over + under
	scale := uint32(1<<24) / sum
	for c := range 3 {
		dst[c] = uint8((uint32(src[c])*over + uint32(dst[c])*under) * scale >> 24)
	}
	dst[3] = uint8(sum)
}

// fits reports whether the encoded image has the frame's size. This must be checked first, since the decoder allocates memory for the
// pixels.
func (f frame) fits() bool {
	for rest := f.data[12:]; ; {
		kind, content, next, ok := chunk(rest)
		if !ok {
			return false
		}
		if kind == "VP8 " || kind == "VP8L" {
			own, err := still("", kind, content)
			return err == nil && own.Width == f.width && own.Height == f.height
		}
		rest = next
	}
}

// draw decodes a frame.
func (f frame) draw(channels int, pixels []uint8) error {
	if !f.fits() {
		return errFrame
	}
	img, err := webp.Decode(strings.NewReader(f.data))
	if err != nil {
		return err
	}
	if img.Bounds() != image.Rect(0, 0, f.width, f.height) {
		return errFrame
	}
	switch m := img.(type) {
	case *image.YCbCr:
		colours(m, channels, pixels)
		if channels == 4 {
			for i := 3; i < len(pixels); i += 4 {
				pixels[i] = 255
			}
		}
	case *image.NYCbCrA:
		colours(&m.YCbCr, channels, pixels)
		if channels == 4 {
			for y := range f.height {
				for x, a := range m.A[y*m.AStride:][:f.width] {
					pixels[(y*f.width+x)*4+3] = a
				}
			}
		}
	case *image.NRGBA:
		for y := range f.height {
			row := m.Pix[y*m.Stride:][:f.width*4]
			for x := range f.width {
				copy(pixels[(y*f.width+x)*channels:][:channels], row[4*x:])
			}
		}
	default:
		return errFrame
	}
	return nil
}
