package jpeg

import (
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/internal/simd"
)

// maxScans bounds the work that a small file can cause, since a scan can cover all blocks without having bits for them. Most files have
// about ten scans.
const maxScans = 500

// decoder decodes one file.
type decoder struct {
	parser
	options  DecodeOptions
	pixels   []uint8
	colours  colours
	planes   [maxInScan]plane
	tables   [2][maxTables]lookup
	bits     bitReader
	queues   [maxInScan][2][64]int16
	lag      int // rows of the picture that must wait for the samples below them
	emitted  int // rows of the picture that are complete, whether they are wanted or not
	left     int // units until the next restart
	restarts int
	dry      bool // the scan's bits are used up, so its other units have none
	run      int  // blocks left in a run of blocks without further coefficients, in a progressive scan
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// Decode decodes the part of the picture that o selects into rows of interleaved channels. It reads broken files as libjpeg does: invalid
// codes are zeros, and pixels without bits are grey. If the only scan of a sequential file is cut off, and o.Recover is false, the error is
// ErrTruncated. After an error, rows is the number of decoded rows of the part, and the other rows are cleared, unless data is not a JPEG
// at all.
func Decode(data string, o DecodeOptions, pixels []uint8) (rows int, err error) {
	if !isJPEG(data) {
		return 0, ErrInvalid
	}
	d := decoders.Get().(*decoder)
	defer func() {
		d.reset()
		decoders.Put(d)
	}()
	d.data, d.at, d.recover = bytesIn(data), 2, o.Recover
	d.options, d.pixels = o, pixels
	if err := d.decode(); err != nil {
		rows = min(max(d.emitted-o.Top, 0), o.Height)
		clear(pixels[rows*o.Width*o.Channels:])
		return rows, err
	}
	return o.Height, nil
}

// reset prepares the decoder for another file, and drops all references to the last one.
func (d *decoder) reset() {
	d.parser = parser{}
	d.options, d.pixels = DecodeOptions{}, nil
	d.planes = [maxInScan]plane{}
	d.bits = bitReader{}
	d.queues = [maxInScan][2][64]int16{}
	d.lag, d.emitted, d.left, d.restarts, d.dry, d.run = 0, 0, 0, 0, false, 0
}

func (d *decoder) decode() error {
	more, err := d.segments()
	switch {
	case err != nil || !more:
		return ErrInvalid
	case d.arithmetic:
		return status.Unimplementedf("No kernel decodes JPEG files with arithmetic codes")
	}
	if err := d.chooseColours(); err != nil {
		return err
	}
	if err := d.lay(); err != nil {
		return err
	}
	if d.buffered {
		return d.decodeScans()
	}
	if err := d.begin(); err != nil {
		return err
	}
	if err := d.stream(); err != nil {
		return err
	}
	d.finish()
	if _, err := d.segments(); err != nil {
		// All pixels are decoded, but TensorFlow requires the end of the image.
		return ErrInvalid
	}
	return nil
}

// begin prepares for the bits of a scan.
func (d *decoder) begin() error {
	s := &d.scan
	for i, c := range s.components {
		p := &d.planes[c]
		p.before = 0
		if !p.fixed {
			q := d.components[c].quantum
			if q >= maxTables || d.quanta[q] == nil {
				return ErrInvalid
			}
			p.fix(d.quanta[q])
		}
		var err error
		if !d.progressive || s.first == 0 && s.high == 0 {
			if p.meansTable, err = d.table(0, s.means[i]); err != nil {
				return err
			}
		}
		if !d.progressive || s.first > 0 {
			if p.rest, err = d.table(1, s.rest[i]); err != nil {
				return err
			}
		}
	}
	d.bits.open(d.data, d.at)
	d.left, d.restarts, d.dry, d.run = d.interval, 0, false, 0
	return nil
}

// standardTables returns the tables of the standard's codes, which most files use.
var standardTables = sync.OnceValue(func() (t [4]*lookup) {
	for i, s := range standard {
		t[i] = new(lookup)
		if err := t[i].build(s, i%2 == 0); err != nil {
			panic("jpeg: the standard's codes are broken")
		}
	}
	return t
})

// table returns the table of a code: class 0 is for means, 1 for the other frequencies. Sequential files may omit the standard's codes.
func (d *decoder) table(class int, index byte) (*lookup, error) {
	if index >= maxTables {
		return nil, ErrInvalid
	}
	s := d.codes[class][index]
	if index < 2 {
		i := 2*int(index) + class
		if s == nil && !d.progressive || s != nil && s.lengths == standard[i].lengths && string(s.symbols) == string(standard[i].symbols) {
			return standardTables()[i], nil
		}
	}
	if s == nil {
		return nil, ErrInvalid
	}
	t := &d.tables[class][index]
	if d.fresh[class][index] {
		if err := t.build(*s, class == 0); err != nil {
			return nil, err
		}
		d.fresh[class][index] = false
	}
	return t, nil
}

// finish moves the parser to the end of a scan's bits.
func (d *decoder) finish() {
	d.at, d.marker = d.bits.at, d.bits.marker
	if d.bits.ended {
		d.at, d.marker = len(d.data), 0
	}
}

// beforeUnit is called before each unit, and reads a restart marker if one is due. skip is true once the scan's bits are used up.
func (d *decoder) beforeUnit() (skip bool, err error) {
	if d.interval > 0 {
		if d.left == 0 {
			if err := d.restart(); err != nil {
				return false, err
			}
		}
		d.left--
	}
	return d.dry, nil
}

// afterUnit checks that the unit's bits were present. If not, the scan has no more bits. If the file has ended and is not to be recovered,
// the error is ErrTruncated.
func (d *decoder) afterUnit() error {
	if d.bits.starved() {
		d.dry = true
		if d.bits.ended && !d.recover {
			return ErrTruncated
		}
	}
	return nil
}

// restart reads a restart marker. As in libjpeg, a marker that is one or two restarts ahead is left for a later restart, and one that is
// one or two restarts behind is skipped.
func (d *decoder) restart() error {
	b := &d.bits
	d.at, d.marker = b.at, b.marker
	if b.ended {
		if !d.recover {
			return ErrTruncated
		}
		d.at, d.marker = len(d.data), endOfImage
	}
	want := d.restarts
	d.restarts = (want + 1) & 7
	d.left, d.run = d.interval, 0
	for i := range d.planes {
		d.planes[i].before = 0
	}
	for {
		m, err := d.next()
		if err != nil {
			return err
		}
		if m < 0xc0 {
			continue
		}
		if m >= restart0 && m <= restart7 {
			switch (int(m-restart0) - want) & 7 {
			case 1, 2:
			case 6, 7:
				continue
			default:
				b.open(d.data, d.at)
				d.dry = false
				return nil
			}
		}
		// The bits after this marker belong to a later restart, or to none.
		b.open(d.data, d.at)
		b.marker, b.quick = m, -1
		return nil
	}
}

// stream decodes the only scan, and paints the picture at the same time.
func (d *decoder) stream() error {
	unitsWide, unitsHigh := d.units()
	for y := range unitsHigh {
		visible := d.visible(y)
		for x := range unitsWide {
			skip, err := d.beforeUnit()
			if err != nil {
				return err
			}
			for _, c := range d.scan.components {
				p := &d.planes[c]
				for i := range p.down * p.across {
					block, last := &p.queue[p.queued], 0
					if !skip {
						var difference int32
						difference, last = d.bits.block(p.meansTable, p.rest, block)
						p.before += difference
						block[0] = int16(p.before)
					}
					if visible && p.needed {
						p.put(last, x*p.across+i%p.across, y*p.down+i/p.across)
					} else {
						*block = [64]int16{}
					}
				}
			}
			if !skip {
				if err := d.afterUnit(); err != nil {
					return err
				}
			}
		}
		for i := range d.planes[:d.Components] {
			d.planes[i].flush()
		}
		d.emit(y, y+1 == unitsHigh)
	}
	return nil
}

// rowsInUnit returns how many rows of the picture a row of units covers.
func (d *decoder) rowsInUnit() int {
	_, down := d.factors()
	return 8 * down / d.options.Ratio
}

// visible reports whether the wanted part of the picture depends on a row of units.
func (d *decoder) visible(y int) bool {
	rows := d.rowsInUnit()
	return (y+1)*rows > d.options.Top-d.lag && y*rows < d.options.Top+d.options.Height+d.lag
}

// emit paints the rows of the picture whose samples are complete after row y of the units.
func (d *decoder) emit(y int, last bool) {
	_, height, _ := d.Shrunk(d.options.Ratio)
	end := min((y+1)*d.rowsInUnit()-d.lag, height)
	if last {
		end = height
	}
	o := d.options
	for row := max(d.emitted, o.Top); row < min(end, o.Top+o.Height); row++ {
		d.paint(row, d.pixels[(row-o.Top)*o.Width*o.Channels:][:o.Width*o.Channels])
	}
	d.emitted = max(d.emitted, end)
}

// colours is how samples are converted to pixels.
type colours int

const (
	lumaOnly    colours = iota // only the first plane is used
	grayToRGB                  // the first plane is repeated
	luminance                  // red, green and blue are converted to grey
	interleaved                // samples are copied
	yccToRGB
	inks      // cyan, magenta, yellow and black are converted to RGB
	yccToInks // like inks, with the first three as YCbCr
)

// chooseColours determines the meaning of the components by libjpeg's rules.
func (d *decoder) chooseColours() error {
	ycc := true
	switch d.Components {
	case 1:
		d.colours = grayToRGB
		if d.options.Channels == 1 {
			d.colours = lumaOnly
		}
		return nil
	case 3:
		switch {
		case d.jfif:
		case d.adobe:
			ycc = d.transform != 0
		default:
			c := d.components
			ycc = c[0].id != 'R' || c[1].id != 'G' || c[2].id != 'B'
		}
	case 4:
		ycc = d.adobe && d.transform != 0
	default:
		return ErrInvalid
	}
	gray := d.options.Channels == 1
	switch {
	case d.Components == 4 && gray:
		return ErrInvalid // libjpeg does not convert inks to grey
	case d.Components == 4 && ycc:
		d.colours = yccToInks
	case d.Components == 4:
		d.colours = inks
	case ycc && gray:
		d.colours = lumaOnly
	case ycc:
		d.colours = yccToRGB
	case gray:
		d.colours = luminance
	default:
		d.colours = interleaved
	}
	return nil
}

// paint computes a row of the picture.
func (d *decoder) paint(y int, dst []uint8) {
	var rows [maxInScan][]uint8
	from, to := d.options.Left, d.options.Left+d.options.Width
	for i := range rows[:d.Components] {
		if p := &d.planes[i]; p.needed {
			rows[i] = p.pixels(y)[from:to]
		}
	}
	a, b, c := rows[0], rows[1], rows[2]
	switch d.colours {
	case lumaOnly:
		copy(dst, a)
	case grayToRGB:
		for x, v := range a {
			dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
		}
	case luminance:
		for x, v := range a {
			dst[x] = luma(int32(v), int32(b[x]), int32(c[x]))
		}
	case interleaved:
		for x, v := range a {
			dst[3*x], dst[3*x+1], dst[3*x+2] = v, b[x], c[x]
		}
	case yccToRGB:
		simd.YCbCrToRGB(dst, a, b, c)
	case inks:
		for x := range a {
			d.mix(dst[3*x:][:3], a[x], b[x], c[x], rows[3][x])
		}
	case yccToInks:
		// As in libjpeg, the first three are the complements of red, green and blue.
		simd.YCbCrToRGB(dst, a, b, c)
		for x, black := range rows[3] {
			p := dst[3*x:][:3]
			d.mix(p, 255-p[0], 255-p[1], 255-p[2], black)
		}
	}
}

// mix writes the colour of inks. Adobe's programs store the complements of the inks.
func (d *decoder) mix(dst []uint8, cyan, magenta, yellow, black uint8) {
	if !d.adobe {
		cyan, magenta, yellow, black = 255-cyan, 255-magenta, 255-yellow, 255-black
	}
	for i, v := range [3]uint8{cyan, magenta, yellow} {
		dst[i] = uint8(int32(v) * int32(black) / 255)
	}
}
