package jpeg

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unsafe"
)

// The errors for files that cannot be decoded.
var (
	ErrInvalid   = errors.New("invalid JPEG data")
	ErrTruncated = errors.New("truncated JPEG data")
)

// Markers of segments.
const (
	startOfImage = 0xd8
	endOfImage   = 0xd9
	startOfScan  = 0xda
	restart0     = 0xd0
	restart7     = 0xd7
)

// Header is what a JPEG declares before its samples.
type Header struct {
	Width, Height int
	Components    int // 1 for grey, 3 for colour, 4 for inks
	progressive   bool
	arithmetic    bool
	buffered      bool // the coefficients come in several scans
	jfif, adobe   bool // the file has JFIF's or Adobe's segment
	transform     byte // Adobe's colour transform
	components    [maxComponents]componentHeader
}

// The limits of libjpeg.
const (
	maxComponents  = 10
	maxSide        = 65500
	maxFactor      = 4
	maxTables      = 4
	maxInScan      = 4
	maxBlocksInMCU = 10
)

type componentHeader struct {
	id           byte
	across, down int // blocks in a unit of an interleaved scan
	quantum      byte
}

// scanHeader is what a scan declares.
type scanHeader struct {
	components  []int // indices of the frame's components
	means, rest [maxInScan]byte
	first, last int // frequencies
	high, low   int // the lowest bits that are known before the scan (0 if none) and after it
	numbers     [maxInScan]int
}

// parser reads the segments of a file.
type parser struct {
	data    []byte
	at      int  // the next byte
	marker  byte // a marker that has already been read, or 0
	recover bool // the end of the file counts as the end of the image
	Header
	framed    bool
	precision byte
	codes     [2][maxTables]*codeSpec // for means, and for other frequencies
	specs     [2][maxTables]codeSpec
	fresh     [2][maxTables]bool // no table has been made from the spec yet
	quanta    [maxTables]*[64]uint16
	tables    [maxTables][64]uint16
	interval  int // units between restarts, or 0
	scan      scanHeader
	scans     int
}

// bytesIn returns a string's bytes, which must not be modified.
func bytesIn(data string) []byte { return unsafe.Slice(unsafe.StringData(data), len(data)) }

// isJPEG reports whether data begins like a JPEG file.
func isJPEG(data string) bool { return strings.HasPrefix(data, "\xff\xd8\xff") }

// ReadHeader reads up to the first scan. ok is false if data is not a JPEG that libjpeg reads, or ends before the scan.
func ReadHeader(data string) (h Header, ok bool) {
	if !isJPEG(data) {
		return Header{}, false
	}
	p := parser{data: bytesIn(data), at: 2}
	if more, err := p.segments(); err != nil || !more {
		return Header{}, false
	}
	return p.Header, true
}

// next reads the next marker, and skips what precedes it.
func (p *parser) next() (byte, error) {
	if m := p.marker; m != 0 {
		p.marker = 0
		return m, nil
	}
	for {
		i := bytes.IndexByte(p.data[p.at:], 0xff)
		if i < 0 {
			break
		}
		p.at += i
		for p.at < len(p.data) && p.data[p.at] == 0xff {
			p.at++
		}
		if p.at == len(p.data) {
			break
		}
		m := p.data[p.at]
		p.at++
		if m != 0 {
			return m, nil
		}
	}
	p.at = len(p.data)
	if p.recover {
		return endOfImage, nil
	}
	return 0, ErrTruncated
}

// segments reads up to the next scan, and reports whether there is one.
func (p *parser) segments() (more bool, err error) {
	for {
		m, err := p.next()
		switch {
		case err != nil:
			return false, err
		case m == endOfImage:
			return false, nil
		case m == 0x01, m >= restart0 && m <= restart7:
			continue
		case m == startOfImage:
			return false, ErrInvalid
		}
		if p.at+2 > len(p.data) {
			return false, ErrTruncated
		}
		size := int(p.data[p.at])<<8 | int(p.data[p.at+1])
		if size < 2 {
			return false, ErrInvalid
		}
		if p.at+size > len(p.data) {
			return false, ErrTruncated
		}
		body := p.data[p.at+2 : p.at+size]
		p.at += size
		if m == startOfScan {
			return true, p.readScan(body)
		}
		if err := p.segment(m, body); err != nil {
			return false, err
		}
	}
}

func (p *parser) segment(m byte, body []byte) error {
	switch {
	case m == 0xc4:
		return p.readCodes(body)
	case m == 0xdb:
		return p.readQuanta(body)
	case m == 0xdd:
		if len(body) != 2 {
			return ErrInvalid
		}
		p.interval = int(body[0])<<8 | int(body[1])
	case m == 0xcc, m == 0xdc, m == 0xfe: // arithmetic coding conditions, number of lines, comment
	case m >= 0xc0 && m <= 0xcf:
		return p.readFrame(m, body)
	case m >= 0xe0 && m <= 0xef:
		switch {
		case m == 0xe0 && len(body) >= 14 && string(body[:5]) == "JFIF\x00":
			p.jfif = true
		case m == 0xee && len(body) >= 12 && string(body[:5]) == "Adobe":
			p.adobe, p.transform = true, body[11]
		}
	default:
		return ErrInvalid
	}
	return nil
}

func (p *parser) readFrame(m byte, body []byte) error {
	switch m {
	case 0xc0, 0xc1:
	case 0xc2:
		p.progressive = true
	case 0xc9:
		p.arithmetic = true
	case 0xca:
		p.arithmetic, p.progressive = true, true
	default: // lossless or hierarchical
		return ErrInvalid
	}
	if p.framed || len(body) < 6 {
		return ErrInvalid
	}
	p.framed = true
	p.precision = body[0]
	p.Height, p.Width, p.Components = int(body[1])<<8|int(body[2]), int(body[3])<<8|int(body[4]), int(body[5])
	if p.Height == 0 || p.Width == 0 || p.Components == 0 || len(body) != 6+3*p.Components {
		return ErrInvalid
	}
	for i := range min(p.Components, maxComponents) {
		c := body[6+3*i:]
		p.components[i] = componentHeader{c[0], int(c[1] >> 4), int(c[1] & 15), c[2]}
	}
	return nil
}

// checkFrame returns an error if libjpeg does not read such a frame.
func (p *parser) checkFrame() error {
	if !p.framed || p.precision != 8 || p.Width > maxSide || p.Height > maxSide || p.Components > maxComponents {
		return ErrInvalid
	}
	for _, c := range p.components[:p.Components] {
		if c.across < 1 || c.across > maxFactor || c.down < 1 || c.down > maxFactor {
			return ErrInvalid
		}
	}
	if p.Components == 1 {
		// With one component, a unit is one block, regardless of the factors.
		p.components[0].across, p.components[0].down = 1, 1
	}
	return nil
}

func (p *parser) readCodes(body []byte) error {
	for len(body) > 0 {
		if len(body) < 17 || body[0]&0xf >= maxTables || body[0]>>4 > 1 {
			return ErrInvalid
		}
		class, index := body[0]>>4, body[0]&0xf
		s := &p.specs[class][index]
		copy(s.lengths[:], body[1:])
		n := 0
		for _, count := range s.lengths {
			n += int(count)
		}
		if n > 256 || len(body) < 17+n {
			return ErrInvalid
		}
		s.symbols = body[17:][:n:n]
		p.codes[class][index], p.fresh[class][index] = s, true
		body = body[17+n:]
	}
	return nil
}

func (p *parser) readQuanta(body []byte) error {
	for len(body) > 0 {
		wide, index := body[0]>>4 != 0, body[0]&0xf
		size := 64
		if wide {
			size = 128
		}
		if index >= maxTables || len(body) < 1+size {
			return ErrInvalid
		}
		table := &p.tables[index]
		for i, at := range zigzag {
			if wide {
				table[at] = uint16(body[1+2*i])<<8 | uint16(body[2+2*i])
			} else {
				table[at] = uint16(body[1+i])
			}
		}
		p.quanta[index] = table
		body = body[1+size:]
	}
	return nil
}

func (p *parser) readScan(body []byte) error {
	p.scans++
	if p.scans == 1 {
		if err := p.checkFrame(); err != nil {
			return err
		}
	}
	if len(body) < 1 {
		return ErrInvalid
	}
	n := int(body[0])
	if n < 1 || n > maxInScan || len(body) != 4+2*n {
		return ErrInvalid
	}
	s := &p.scan
	s.components = s.numbers[:0]
	blocks := 0
	for i := range n {
		id, tables := body[1+2*i], body[2+2*i]
		which := -1
		for j, c := range p.components[:p.Components] {
			if c.id == id && which < 0 && !slices.Contains(s.components, j) {
				which = j
			}
		}
		if which < 0 {
			return ErrInvalid
		}
		s.components = append(s.components, which)
		s.means[i], s.rest[i] = tables>>4, tables&0xf
		blocks += p.components[which].across * p.components[which].down
	}
	if n > 1 && blocks > maxBlocksInMCU {
		return ErrInvalid
	}
	tail := body[1+2*n:]
	s.first, s.last, s.high, s.low = int(tail[0]), int(tail[1]), int(tail[2]>>4), int(tail[2]&0xf)
	if p.scans == 1 {
		p.buffered = p.progressive || n < p.Components
	}
	return nil
}
