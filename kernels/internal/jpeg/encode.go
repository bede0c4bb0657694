package jpeg

import (
	"encoding/binary"
	"errors"
	"math"
)

// Options are the attributes of TensorFlow's EncodeJpeg.
type Options struct {
	Quality     int  // 0 to 100
	Subsample   bool // one Cb and Cr for four pixels
	Progressive bool
	Optimize    bool // use the smallest Huffman codes, at the cost of a second pass
	DensityUnit uint8
	XDensity    int
	YDensity    int
	XMP         string // metadata
}

// ErrEncode is the error for an image that TensorFlow's library does not encode.
var ErrEncode = errors.New("JPEG encoding failed")

// EncodeBytes returns the maximum amount of memory that Encode uses, without its result.
func EncodeBytes(width, height, channels int) int {
	const side = 16
	return 2 * (width + side) * (height + side) * channels
}

// xmpName is the identifier of the segment with XMP metadata.
const xmpName = "http://ns.adobe.com/xap/1.0/\x00"

// Encode encodes rows of interleaved channels as a JPEG: 1 channel for grey, 3 for colour.
func Encode(pixels []uint8, width, height, channels int, o Options) ([]byte, error) {
	const side, segment = 65500, math.MaxUint16 - 2 // the limits of libjpeg and of the format
	if width < 1 || height < 1 || width > side || height > side || width*height >= maxSamples || len(o.XMP)+len(xmpName) > segment {
		return nil, ErrEncode
	}
	components := transform(pixels, width, height, channels, o)
	w := &writer{}
	w.out = append(w.out, 0xff, startOfImage)
	density := binary.BigEndian.AppendUint16([]byte{'J', 'F', 'I', 'F', 0, 1, 1, o.DensityUnit}, uint16(o.XDensity))
	w.segment(0xe0, append(binary.BigEndian.AppendUint16(density, uint16(o.YDensity)), 0, 0))
	if o.XMP != "" {
		w.segment(0xe1, append([]byte(xmpName), o.XMP...))
	}
	for i := range components[:min(len(components), 2)] {
		table := []byte{byte(i)}
		for _, at := range zigzag {
			table = append(table, byte(components[i].quantum[at]))
		}
		w.segment(0xdb, table)
	}
	frame := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte{8}, uint16(height)), uint16(width))
	frame = append(frame, byte(len(components)))
	for i, c := range components {
		frame = append(frame, byte(i+1), byte(c.across<<4|c.down), byte(c.tables))
	}
	if o.Progressive {
		w.segment(0xc2, frame)
	} else {
		w.segment(0xc0, frame)
	}
	for _, s := range scans(components, o.Progressive) {
		w.scan(s, o.Optimize || o.Progressive)
	}
	return append(w.out, 0xff, endOfImage), nil
}

// component is a plane of an image as blocks of quantized coefficients, in the order of their frequencies.
type component struct {
	across, down int // blocks of it in a unit of an interleaved scan
	tables       int // the quantization and Huffman tables that it uses: 0 for luma, 1 for colour
	quantum      [64]int
	// wide and high are the numbers of blocks that have pixels; stride is the number of blocks in a row of units.
	wide, high, stride int
	blocks             [][64]int16
}

// quanta holds the quantization tables of Annex K of ITU-T T.81, row by row.
var quanta = [2][64]int{{
	16, 11, 10, 16, 24, 40, 51, 61,
	12, 12, 14, 19, 26, 58, 60, 55,
	14, 13, 16, 24, 40, 57, 69, 56,
	14, 17, 22, 29, 51, 87, 80, 62,
	18, 22, 37, 56, 68, 109, 103, 77,
	24, 35, 55, 64, 81, 104, 113, 92,
	49, 64, 78, 87, 103, 121, 120, 101,
	72, 92, 95, 98, 112, 100, 103, 99,
}, {
	17, 18, 24, 47, 99, 99, 99, 99,
	18, 21, 26, 66, 99, 99, 99, 99,
	24, 26, 56, 99, 99, 99, 99, 99,
	47, 66, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
	99, 99, 99, 99, 99, 99, 99, 99,
}}

// scaled returns a table for a quality, by libjpeg's rule.
func scaled(table [64]int, quality int) [64]int {
	percent := 200 - 2*quality
	if quality = max(quality, 1); quality < 50 {
		percent = 5000 / quality
	}
	for i, v := range table {
		table[i] = min(max((v*percent+50)/100, 1), 255)
	}
	return table
}

// zigzag holds the place of each coefficient in a block, by its frequency.
var zigzag = func() (at [64]int) {
	row, column := 0, 0
	for i := range at {
		at[i] = 8*row + column
		up := (row+column)%2 == 0
		switch {
		case up && column == 7:
			row++
		case up && row == 0:
			column++
		case up:
			row, column = row-1, column+1
		case row == 7:
			column++
		case column == 0:
			row++
		default:
			row, column = row+1, column-1
		}
	}
	return at
}()

// transform computes an image's components.
func transform(pixels []uint8, width, height, channels int, o Options) []component {
	units := 8 // the side of a unit in pixels
	components := make([]component, channels)
	for i := range components {
		components[i] = component{across: 1, down: 1, tables: min(i, 1), quantum: scaled(quanta[min(i, 1)], o.Quality)}
	}
	if channels == 3 && o.Subsample {
		units = 16
		components[0].across, components[0].down = 2, 2
	}
	unitsWide, unitsHigh := (width+units-1)/units, (height+units-1)/units
	planes := make([][]uint8, channels) // of one row of units
	for i := range components {
		c := &components[i]
		c.stride = unitsWide * c.across
		c.wide, c.high = blocks(width*c.across, units), blocks(height*c.down, units)
		c.blocks = make([][64]int16, c.stride*unitsHigh*c.down)
		planes[i] = make([]uint8, unitsWide*units*units)
	}
	for u := range unitsHigh {
		for y := range units {
			row := pixels[min(u*units+y, height-1)*width*channels:][:width*channels]
			split(planes, row, y*unitsWide*units, unitsWide*units, channels)
		}
		for i := range components {
			c, plane, stride := &components[i], planes[i], unitsWide*units
			if units == 16 && c.across == 1 {
				stride /= 2
				halve(plane, 2*stride)
			}
			for r := range c.down {
				c.quantize(u*c.down+r, plane[r*8*stride:], stride)
			}
		}
	}
	return components
}

// blocks returns how many blocks of 8 samples a plane has in one direction, if there are 8 of its samples for each units of pixels.
func blocks(pixels, units int) int { return (pixels + units - 1) / units }

// split writes a row of pixels to the planes. The last pixel is repeated up to the planes' width.
func split(planes [][]uint8, row []uint8, at, wide, channels int) {
	width := len(row) / channels
	for x := range wide {
		p := row[min(x, width-1)*channels:]
		if channels == 1 {
			planes[0][at+x] = p[0]
			continue
		}
		r, g, b := int32(p[0]), int32(p[1]), int32(p[2])
		planes[0][at+x] = luma(r, g, b)
		planes[1][at+x], planes[2][at+x] = chroma(r, g, b)
	}
}

// halve averages squares of four samples in place. The rounding alternates.
func halve(plane []uint8, wide int) {
	for y := range 8 {
		upper, lower := plane[2*y*wide:][:wide], plane[(2*y+1)*wide:][:wide]
		for x := range wide / 2 {
			sum := int(upper[2*x]) + int(upper[2*x+1]) + int(lower[2*x]) + int(lower[2*x+1])
			plane[y*wide/2+x] = uint8((sum + 1 + x%2) >> 2)
		}
	}
}

// quantize fills a row of blocks from samples. Blocks beyond the image are flat, with the mean of the block before or above them.
func (c *component) quantize(row int, samples []uint8, stride int) {
	var reciprocals [64]float32
	for i, at := range zigzag {
		reciprocals[i] = 1 / float32(c.quantum[at])
	}
	var block [64]float32
	for b := range c.stride {
		dst := &c.blocks[row*c.stride+b]
		if b >= c.wide {
			dst[0] = c.blocks[row*c.stride+b-1][0]
			continue
		}
		if row >= c.high {
			dst[0] = c.blocks[(row-1)*c.stride+b][0]
			continue
		}
		for y := range 8 {
			for x, v := range samples[y*stride+8*b:][:8] {
				block[8*y+x] = float32(v) - 128
			}
		}
		cosines(&block)
		for i, at := range zigzag {
			v := block[at] * reciprocals[i]
			dst[i] = int16(v + float32(math.Copysign(0.5, float64(v))))
		}
	}
}

// halfCosines holds cos(kπ/16)/2 for each k.
var halfCosines = func() (c [8]float32) {
	for k := range c {
		c[k] = float32(math.Cos(float64(k)*math.Pi/16) / 2)
	}
	return c
}()

// cosines computes the two-dimensional cosine transform of a block, in place.
func cosines(b *[64]float32) {
	for i := range 8 {
		transform8(b[8*i:], 1)
	}
	for i := range 8 {
		transform8(b[i:], 8)
	}
}

// transform8 transforms eight elements that are step apart. The sums and the differences of mirrored elements yield the even and the odd
// frequencies.
func transform8(v []float32, step int) {
	c := &halfCosines
	var sum, diff [4]float32
	for i := range 4 {
		a, b := v[i*step], v[(7-i)*step]
		sum[i], diff[i] = a+b, a-b
	}
	v[0] = c[4] * (sum[0] + sum[1] + sum[2] + sum[3])
	v[4*step] = c[4] * (sum[0] - sum[1] - sum[2] + sum[3])
	outer, inner := sum[0]-sum[3], sum[1]-sum[2]
	v[2*step] = c[2]*outer + c[6]*inner
	v[6*step] = c[6]*outer - c[2]*inner
	v[step] = c[1]*diff[0] + c[3]*diff[1] + c[5]*diff[2] + c[7]*diff[3]
	v[3*step] = c[3]*diff[0] - c[7]*diff[1] - c[1]*diff[2] - c[5]*diff[3]
	v[5*step] = c[5]*diff[0] - c[1]*diff[1] + c[7]*diff[2] + c[3]*diff[3]
	v[7*step] = c[7]*diff[0] - c[5]*diff[1] + c[3]*diff[2] - c[1]*diff[3]
}
