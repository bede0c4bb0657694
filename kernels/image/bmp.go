package image

import (
	"encoding/binary"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
)

// bmp reads an uncompressed BMP: grey, or blue, green, red and possibly alpha.
func (d *decoder) bmp(ctx *kernels.Context, data string) error {
	switch {
	case d.channels == 1:
		return status.InvalidArgumentf("`channels` must be 0, 3 or 4 for BMP, but got 1")
	case d.op == "DecodeAndCropJpeg":
		return d.allows("BMP")
	case d.op != "DecodeBmp" && d.op != "DecodeImage":
		return status.InvalidArgumentf("Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. Op used: %s", d.op)
	case len(data) < 32:
		return status.InvalidArgumentf("Incomplete bmp content, requires at least 32 bytes to find the header size, width, height, and bpp, got %d bytes", len(data))
	}
	number := func(at int) int { return int(int32(binary.LittleEndian.Uint32([]byte(data[at : at+4])))) }
	header, width, height := number(10), number(18), number(22)
	own := int(int16(binary.LittleEndian.Uint16([]byte(data[28:30])))) / 8
	upwards := height > 0 // the last row comes first in the file
	rows := max(height, -height)
	switch {
	case own != 1 && own != 3 && own != 4:
		return status.InvalidArgumentf("Number of channels inherent in the image must be 1, 3 or 4, was %d", own)
	case width <= 0:
		return status.InvalidArgumentf("Width must be positive")
	case height == 0:
		return status.InvalidArgumentf("Height must be nonzero")
	case header < 0:
		return status.InvalidArgumentf("header size must be nonnegative")
	case width*rows >= math.MaxInt32/8:
		return status.InvalidArgumentf("Total possible pixel bytes must be less than 2^30")
	}
	stride := (own*width + 3) / 4 * 4
	if more := len(data) - header - stride*rows; more != 0 {
		return status.InvalidArgumentf("Input size should match (header_size + row_size * abs_height) but they differ by %d", more)
	}
	channels := d.channels
	if channels == 0 {
		channels = own
	}
	m := ctx.Meter()
	defer m.Done()
	return d.emit(ctx, &m, d.still(rows, width, channels), func(pixels []uint8) error {
		for y := range rows {
			row := data[header+y*stride:][:own*width]
			if upwards {
				row = data[header+(rows-1-y)*stride:][:own*width]
			}
			for x := range width {
				putBMP(pixels[(y*width+x)*channels:][:channels], row[x*own:][:own])
			}
		}
		return nil
	})
}

// putBMP writes a pixel. It is opaque if the file has no alpha.
func putBMP(dst []uint8, src string) {
	if len(dst) == 4 {
		dst[3] = math.MaxUint8
	}
	if len(src) == 1 {
		for c := range dst[:min(len(dst), 3)] {
			dst[c] = src[0]
		}
		return
	}
	dst[0], dst[1], dst[2] = src[2], src[1], src[0]
	if len(dst) == 4 && len(src) == 4 {
		dst[3] = src[3]
	}
}
