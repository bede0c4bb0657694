// Package gif reads GIF files as TensorFlow's image ops do: each image of an animation is drawn over the previous ones, whatever disposal
// method the file specifies, and a truncated file yields the images before the truncation.
package gif

import (
	"compress/lzw"
	"errors"
	"fmt"
	"io"
	"strings"
)

// File is a GIF whose images have been located but not decompressed.
type File struct {
	images []img
}

// img is one image of a file.
type img struct {
	left, top, width, height int
	interlaced               bool
	palette                  string // red, green and blue of each colour
	hasPalette               bool
	transparent              int // -1 if there is no such colour
	codeSize                 int
	data                     string // blocks of compressed pixels, each preceded by its length
}

// Is reports whether data begins like a GIF.
func Is(data string) bool { return strings.HasPrefix(data, "GIF8") }

// Frames returns the number of images, at least one.
func (f *File) Frames() int { return len(f.images) }

// Size returns the size of the largest image, which all frames get.
func (f *File) Size() (width, height int) {
	for _, i := range f.images {
		width, height = max(width, i.width), max(height, i.height)
	}
	return width, height
}

// Read errors, in giflib's words.
var (
	errRead     = errors.New("Failed to read from given file")
	errScreen   = errors.New("No screen descriptor detected")
	errImage    = errors.New("Image is defective, decoding aborted")
	errTooSoon  = errors.New("Image EOF detected before image complete")
	errRecord   = errors.New("Wrong record type detected")
	errEmpty    = errors.New("Unknown error") // giflib fails to allocate an image without pixels
	errNoImages = errors.New("No Image Descriptor detected")
)

// First bytes of the blocks of a file.
const (
	imageBlock     = 0x2c
	extensionBlock = 0x21
	endBlock       = 0x3b
	controls       = 0xf9 // the extension that specifies the transparent colour
)

// Parse locates the images.
func Parse(data string) (*File, error) {
	r := reader{data}
	screen, ok := r.take(13)
	switch {
	case !ok && len(data) < 6:
		return nil, fmt.Errorf("failed to open gif file: %w", errRead)
	case !ok:
		return nil, fmt.Errorf("failed to open gif file: %w", errScreen)
	}
	shared, hasShared, ok := r.palette(screen[10])
	if !ok {
		return nil, fmt.Errorf("failed to open gif file: %w", errScreen)
	}
	f := &File{}
	why := f.read(&r, shared, hasShared)
	if len(f.images) == 0 {
		if why == nil {
			why = errNoImages
		}
		return nil, fmt.Errorf("failed to slurp gif file: %w", why)
	}
	return f, nil
}

// Bytes returns the memory that Draw needs, except for its result.
func (f *File) Bytes() (bytes int) {
	for _, i := range f.images {
		bytes = max(bytes, i.width*i.height)
	}
	return bytes
}

// Truncate drops all images after the first frames.
func (f *File) Truncate(frames int) { f.images = f.images[:frames] }

// read collects images until the file ends or is truncated.
func (f *File) read(r *reader, shared string, hasShared bool) error {
	transparent := -1
	for {
		kind, ok := r.take(1)
		if !ok {
			return errRead
		}
		switch kind[0] {
		case endBlock:
			return nil
		case extensionBlock:
			label, ok := r.take(1)
			if !ok {
				return errRead
			}
			block, ok := r.block()
			if !ok {
				return errRead
			}
			if label[0] == controls && len(block) == 4 {
				if transparent = -1; block[0]&1 != 0 {
					transparent = int(block[3])
				}
			}
			if len(block) > 0 && !r.skip() {
				return errRead
			}
		case imageBlock:
			i, ok := r.image(shared, hasShared)
			if !ok {
				return errRead
			}
			if i.transparent = transparent; i.width == 0 || i.height == 0 {
				return errEmpty
			}
			f.images = append(f.images, i)
			transparent = -1
		default:
			return errRecord
		}
	}
}

// Draw decompresses the first frames and writes them one after the other, as rows of red, green and blue. A broken image ends the file:
// Draw returns the number of frames drawn before it, and an error if there are none or if the file has too few colours.
func (f *File) Draw(frames int, pixels []uint8) (drawn int, err error) {
	width, height := f.Size()
	var indices []uint8
	for k, i := range f.images[:frames] {
		if cap(indices) < i.width*i.height {
			indices = make([]uint8, i.width*i.height)
		}
		indices = indices[:i.width*i.height]
		if err := i.decompress(indices); err != nil {
			if k == 0 {
				return 0, fmt.Errorf("failed to slurp gif file: %w", err)
			}
			return k, nil
		}
		frame := pixels[k*width*height*3:][:width*height*3]
		if k == 0 {
			clear(frame)
		} else {
			copy(frame, pixels[(k-1)*width*height*3:])
		}
		if !i.hasPalette {
			return k, fmt.Errorf("missing color map for frame %d", k)
		}
		for y := range min(i.height, height-i.top) {
			for x := range min(i.width, width-i.left) {
				c := int(indices[i.row(y)*i.width+x])
				if c == i.transparent {
					continue
				}
				if 3*c >= len(i.palette) {
					return k, fmt.Errorf("found color index %d outside of color map range %d", c, len(i.palette)/3)
				}
				copy(frame[((i.top+y)*width+i.left+x)*3:][:3], i.palette[3*c:])
			}
		}
	}
	return frames, nil
}

// row returns the position of the image's row y in the data. Interlaced images store every eighth row first, then the rows halfway between
// those, and so on.
func (i img) row(y int) int {
	if !i.interlaced {
		return y
	}
	rows := func(from, step int) int { return (i.height - from + step - 1) / step }
	switch {
	case y%8 == 0:
		return y / 8
	case y%8 == 4:
		return rows(0, 8) + y/8
	case y%4 == 2:
		return rows(0, 4) + y/4
	default:
		return rows(0, 2) + y/2
	}
}

func (i img) decompress(indices []uint8) error {
	if i.codeSize < 2 || i.codeSize > 8 {
		return errImage
	}
	z := lzw.NewReader(&blocks{rest: reader{i.data}}, lzw.LSB, i.codeSize)
	switch _, err := io.ReadFull(z, indices); err {
	case nil:
		return nil
	case io.EOF, io.ErrUnexpectedEOF:
		return errTooSoon
	default:
		return errImage
	}
}

// reader takes parts off the front of a file.
type reader struct {
	left string
}

func (r *reader) take(n int) (string, bool) {
	if len(r.left) < n {
		return "", false
	}
	s := r.left[:n]
	r.left = r.left[n:]
	return s, true
}

// block takes a block, which is preceded by its length.
func (r *reader) block() (string, bool) {
	n, ok := r.take(1)
	if !ok {
		return "", false
	}
	return r.take(int(n[0]))
}

// skip takes blocks up to and including an empty one.
func (r *reader) skip() bool {
	for {
		if b, ok := r.block(); !ok || b == "" {
			return ok
		}
	}
}

// palette takes the colour table announced by flags.
func (r *reader) palette(flags byte) (colours string, has, ok bool) {
	if flags&0x80 == 0 {
		return "", false, true
	}
	colours, ok = r.take(3 << (flags&7 + 1))
	return colours, true, ok
}

// image takes an image, after the byte that announces it.
func (r *reader) image(shared string, hasShared bool) (i img, ok bool) {
	head, ok := r.take(9)
	if !ok {
		return img{}, false
	}
	word := func(at int) int { return int(head[at]) | int(head[at+1])<<8 }
	i = img{left: word(0), top: word(2), width: word(4), height: word(6), interlaced: head[8]&0x40 != 0}
	if i.palette, i.hasPalette, ok = r.palette(head[8]); !ok {
		return img{}, false
	}
	if !i.hasPalette {
		i.palette, i.hasPalette = shared, hasShared
	}
	size, ok := r.take(1)
	if !ok {
		return img{}, false
	}
	i.codeSize = int(size[0])
	i.data = r.left
	ok = r.skip()
	i.data = i.data[:len(i.data)-len(r.left)]
	return i, ok
}

// blocks joins the contents of an image's blocks. It implements io.ByteReader, so lzw does not read ahead.
type blocks struct {
	rest  reader
	block string
}

func (b *blocks) ReadByte() (byte, error) {
	if b.block == "" {
		var ok bool
		if b.block, ok = b.rest.block(); !ok || b.block == "" {
			return 0, io.EOF
		}
	}
	c := b.block[0]
	b.block = b.block[1:]
	return c, nil
}

func (b *blocks) Read(p []byte) (int, error) {
	for n := range p {
		c, err := b.ReadByte()
		if err != nil {
			return n, err
		}
		p[n] = c
	}
	return len(p), nil
}
