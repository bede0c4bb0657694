package jpeg

import (
	"math"

	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// edge is the number of bytes on each side of a row of samples. padded sets the one next to the row.
const edge = 16

// upsampling is how a row of the picture is computed from a plane.
type upsampling int

const (
	whole        upsampling = iota // the plane has as many samples
	repeated                       // each sample is repeated
	smoothBoth                     // by interpolating in both directions, by two
	smoothAcross                   // by interpolating in one direction, by two
	smoothDown
)

// plane holds the samples of a component: a few rows, from which the rows of the picture are computed one after the other.
type plane struct {
	needed           bool // the picture depends on it
	method           upsampling
	across, down     int // blocks in a unit of an interleaved scan
	wideBy, highBy   int // pixels of the picture per sample
	side             int // samples on each side of a block: 8, or 4, 2 or 1 if the picture is made smaller
	wide, high       int // blocks that have pixels
	width, height    int // samples that have pixels
	stride, ring     int // bytes per row, and the number of rows held
	samples          []uint8
	line             []uint8 // a row of the picture
	transform        simd.Transform
	quanta           [64]int16
	fixed            bool // the quanta are those of the plane's first scan
	before           int32
	blocks           [][64]int16 // all coefficients, if there are several scans
	blocksInRow      int
	queue            *[2][64]int16 // up to two blocks, which are transformed together
	queued           int
	first            []uint8 // where the samples of the first block go
	meansTable, rest *lookup
}

// DecodeOptions are the attributes of TensorFlow's ops that decode JPEG files.
type DecodeOptions struct {
	Channels int  // 1 for grey, 3 for colour
	Ratio    int  // side of the square of pixels that becomes one pixel: 1, 2, 4 or 8
	Smooth   bool // interpolate colours if the file has fewer of them than pixels
	Fast     bool // use the fast transform, which is less accurate
	Recover  bool // decode a file that is cut off, with grey for the missing samples
	// The part of the picture to decode, in pixels after it was made smaller.
	Top, Left, Height, Width int
}

// divideUp returns a/b, rounded up.
func divideUp(a, b int) int { return (a + b - 1) / b }

// factors returns the greatest sampling factors of a frame.
func (h *Header) factors() (across, down int) {
	for _, c := range h.components[:h.Components] {
		across, down = max(across, c.across), max(down, c.down)
	}
	return across, down
}

// units returns how many units of an interleaved scan the image has in each direction.
func (h *Header) units() (wide, high int) {
	across, down := h.factors()
	return divideUp(h.Width, 8*across), divideUp(h.Height, 8*down)
}

// side returns the number of samples on each side of a component's block. If the picture is made smaller, a component with fewer samples
// than others is reduced less, so it needs no upsampling.
func (h *Header) side(c componentHeader, ratio int) int {
	across, down := h.factors()
	least := 8 / ratio
	side := least
	for side < 8 && across*least%(c.across*side*2) == 0 && down*least%(c.down*side*2) == 0 {
		side *= 2
	}
	return side
}

// maxSamples bounds the samples of an image, which must have fewer, as in TensorFlow.
const maxSamples = 1 << 29

// Shrunk returns the image's size if squares of side ratio become pixels. ok is false if TensorFlow does not decode images of that size.
func (h *Header) Shrunk(ratio int) (width, height int, ok bool) {
	width, height = divideUp(h.Width, ratio), divideUp(h.Height, ratio)
	return width, height, width > 0 && height > 0 && width*height*h.Components < maxSamples
}

// Bytes returns how much memory Decode uses, without its result and without tables of fixed size.
func (h *Header) Bytes(ratio int) int {
	unitsWide, unitsHigh := h.units()
	across, _ := h.factors()
	bytes := 0
	for _, c := range h.components[:min(h.Components, maxInScan)] {
		side := h.side(c, ratio)
		bytes += 2*c.down*side*(unitsWide*c.across*side+2*edge) + 8*unitsWide*across + 2*edge
		if h.buffered {
			bytes += unitsWide * c.across * unitsHigh * c.down * 64 * 2
		}
	}
	return bytes
}

// lay creates the planes. As in libjpeg, it fails for sampling factors that do not divide each other.
func (d *decoder) lay() error {
	o := d.options
	unitsWide, unitsHigh := d.units()
	across, down := d.factors()
	least := 8 / o.Ratio
	width, _, _ := d.Shrunk(o.Ratio)
	d.lag = 0
	for i, c := range d.components[:d.Components] {
		side := d.side(c, o.Ratio)
		// The component's samples in an area of across by down pixels of the picture.
		groupWide, groupHigh := c.across*side/least, c.down*side/least
		p := &d.planes[i]
		*p = plane{
			needed: d.colours != lumaOnly || i == 0,
			across: c.across, down: c.down, side: side,
			wide: divideUp(d.Width*c.across, 8*across), high: divideUp(d.Height*c.down, 8*down),
			width: divideUp(d.Width*c.across*side, 8*across), height: divideUp(d.Height*c.down*side, 8*down),
			stride: unitsWide*c.across*side + 2*edge, ring: 2 * c.down * side,
			blocksInRow: unitsWide * c.across, queue: &d.queues[i],
		}
		if o.Fast && side == 8 {
			p.transform = simd.FastTransform
		}
		if d.buffered {
			p.blocks = make([][64]int16, unitsWide*c.across*unitsHigh*c.down)
		}
		if !p.needed {
			continue
		}
		if across%groupWide != 0 || down%groupHigh != 0 {
			return ErrInvalid
		}
		p.wideBy, p.highBy = across/groupWide, down/groupHigh
		p.method = d.upsampling(p)
		if p.method == smoothBoth || p.method == smoothDown {
			d.lag = down
		}
		p.samples = make([]uint8, p.ring*p.stride)
		if p.wideBy > 1 || p.method == smoothDown {
			p.line = make([]uint8, max(p.width*p.wideBy, width))
		}
	}
	return nil
}

func (d *decoder) upsampling(p *plane) upsampling {
	smooth := d.options.Smooth && d.options.Ratio < 8
	switch {
	case p.wideBy == 1 && p.highBy == 1:
		return whole
	case p.wideBy == 2 && p.highBy == 1 && smooth && p.width > 2:
		return smoothAcross
	case p.wideBy == 1 && p.highBy == 2 && smooth:
		return smoothDown
	case p.wideBy == 2 && p.highBy == 2 && smooth && p.width > 2:
		return smoothBoth
	}
	return repeated
}

// fix sets the quanta from the current table, if they are not set yet.
func (p *plane) fix(table *[64]uint16) {
	if p.fixed {
		return
	}
	p.fixed = true
	for i, q := range table {
		p.quanta[i] = int16(q)
		if p.transform == simd.FastTransform {
			p.quanta[i] = int16((int32(q)*fastFactors[i] + 1<<11) >> 12)
		}
	}
}

// fastFactors are the factors of the fast transform's coefficients, in addition to their quanta, with 14 fractional bits. Two of the bits
// remain in the products.
var fastFactors = func() (f [64]int32) {
	scale := func(i int) float64 {
		if i == 0 {
			return 1
		}
		return math.Sqrt2 * math.Cos(float64(i)*math.Pi/16)
	}
	for i := range f {
		f[i] = int32(math.Round(scale(i/8) * scale(i%8) * (1 << 14)))
	}
	return f
}()

// start returns where a row of samples begins.
func (p *plane) start(row int) int { return row%p.ring*p.stride + edge }

// row returns a row of samples. Outside the plane, it returns the first or last row.
func (p *plane) row(y int) []uint8 {
	return p.samples[p.start(min(max(y, 0), p.height-1)):][:p.width]
}

// padded returns a row, preceded by its first sample and followed by its last one.
func (p *plane) padded(y int) []uint8 {
	at := p.start(min(max(y, 0), p.height-1))
	row := p.samples[at-1:][:p.width+2]
	row[0], row[len(row)-1] = row[1], row[len(row)-2]
	return row
}

// pixels returns the samples of row y of the picture. There may be more of them than the picture is wide.
func (p *plane) pixels(y int) []uint8 {
	// Of the two rows for a sample, the upper one is nearer to the sample above.
	near := y/2 - 1 + y%2*2
	switch p.method {
	case whole:
		return p.row(y)
	case smoothBoth:
		simd.UpsampleBoth(p.line[:2*p.width], p.padded(y/2), p.padded(near))
	case smoothAcross:
		simd.UpsampleAcross(p.line[:2*p.width], p.padded(y))
	case smoothDown:
		// The rounding alternates, to add no bias.
		other, bias := p.row(near), uint32(1+y%2)
		for i, v := range p.row(y / 2) {
			p.line[i] = uint8((3*uint32(v) + uint32(other[i]) + bias) >> 2)
		}
	case repeated:
		row := p.row(y / p.highBy)
		switch p.wideBy {
		case 1:
			return row
		case 2:
			simd.RepeatAcross(p.line[:2*p.width], row)
		default:
			for i, v := range row {
				for j := range p.wideBy {
					p.line[i*p.wideBy+j] = v
				}
			}
		}
	}
	return p.line
}

// at returns where the samples of a block go.
func (p *plane) at(column, row int) []uint8 { return p.samples[p.start(row*p.side)+column*p.side:] }

// put transforms the block after those in the queue, or leaves it in the queue until there are two. last is the highest frequency that is
// not zero.
func (p *plane) put(last, column, row int) {
	block := &p.queue[p.queued]
	switch {
	case column >= p.wide:
		*block = [64]int16{}
	case last == 0:
		p.putMean(p.at(column, row), block)
	case p.side < 8:
		shrunk(p.at(column, row), p.stride, block, &p.quanta, p.side)
	case p.queued == 0:
		p.first = p.at(column, row)
		p.queued = 1
	default:
		simd.InverseDCTs(p.transform, p.first, p.at(column, row), p.stride, p.queue, &p.quanta)
		p.queued = 0
	}
}

// flush transforms the block in the queue, if there is one.
func (p *plane) flush() {
	if p.queued > 0 {
		simd.InverseDCT(p.transform, p.first, p.stride, &p.queue[0], &p.quanta)
		p.queued = 0
	}
}

// putMean is put for a block that has only a mean.
func (p *plane) putMean(dst []uint8, block *[64]int16) {
	v := int32(block[0] * p.quanta[0])
	block[0] = 0
	switch {
	case p.transform == simd.FastTransform:
		v >>= 5
	case p.side == 1:
		v = (v + 4) >> 3
	default:
		v = (min(max(v<<2, -1<<15), 1<<15-1) + 16) >> 5
	}
	level := sample(v)
	if p.side == 8 {
		for y := range 8 {
			row := (*[8]uint8)(dst[y*p.stride:])
			*row = [8]uint8{level, level, level, level, level, level, level, level}
		}
		return
	}
	for y := range p.side {
		row := dst[y*p.stride:][:p.side]
		for x := range row {
			row[x] = level
		}
	}
}

// sample returns the sample for a level around zero.
func sample(v int32) uint8 { return uint8(min(max(v, -128), 127) + 128) }

// shrunk computes four, two or one samples on each side of a block, and clears the block. They are averages of the accurate transform.
func shrunk(dst []uint8, stride int, block, quanta *[64]int16, side int) {
	var work [64]int32
	for i, q := range quanta {
		work[i] = int32(block[i] * q)
	}
	*block = [64]int16{}
	if side == 1 {
		dst[0] = sample((work[0] + 4) >> 3)
		return
	}
	turn, extra := quarter, 1
	if side == 2 {
		turn, extra = pair, 2
	}
	for x := range 8 {
		turn(work[x:], 8, 11+extra)
	}
	for y := range side {
		row := work[8*y:][:8]
		turn(row, 1, 18+extra)
		for x, v := range row[:side] {
			dst[y*stride+x] = sample(v)
		}
	}
}

// quarter sets the first four of the eight numbers v[0], v[step] and so on to the averages of pairs of their transform, shifted right by
// shift bits. The factors have 13 fractional bits.
func quarter(v []int32, step, shift int) {
	at := func(i int) int32 { return v[i*step] }
	mean, slope := at(0)<<14, at(2)*15137-at(6)*6270
	outer := -at(7)*4176 - at(5)*4926 + at(3)*7373 + at(1)*20995
	inner := -at(7)*1730 + at(5)*11893 - at(3)*17799 + at(1)*8697
	half := int32(1) << (shift - 1)
	for i, s := range [4]int32{mean + slope + outer, mean - slope + inner, mean - slope - inner, mean + slope - outer} {
		v[i*step] = (s + half) >> shift
	}
}

// pair is quarter for two numbers, the averages of the halves.
func pair(v []int32, step, shift int) {
	at := func(i int) int32 { return v[i*step] }
	mean := at(0) << 15
	slope := -at(7)*5906 + at(5)*6967 - at(3)*10426 + at(1)*29692
	half := int32(1) << (shift - 1)
	v[0], v[step] = (mean+slope+half)>>shift, (mean-slope+half)>>shift
}
