package jpeg

import (
	"encoding/binary"
)

// bitReader reads the bits of a scan up to a marker. After the marker it reads zeros, as libjpeg does.
type bitReader struct {
	data   []byte
	at     int    // the next byte
	quick  int    // the last position at which eight bytes can be read at once, or -1 after a marker
	buffer uint64 // the next bits, the first one on top; the bits below those held may already be set, to those that follow
	held   int
	padded int  // zeros added to held after the marker; more than held once some of them were used
	marker byte // the marker that ended the bits, or 0
	ended  bool // the file ended the bits, which counts as the end of the image
}

// open starts reading at a byte.
func (r *bitReader) open(data []byte, at int) {
	*r = bitReader{data: data, at: at, quick: len(data) - 8}
}

// starved reports whether bits from beyond the marker were used.
func (r *bitReader) starved() bool { return r.held < r.padded }

// hasMarkerByte reports whether one of eight bytes is 0xff.
func hasMarkerByte(x uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	return (^x-ones)&x&tops != 0
}

// leastBits is the minimum number of bits held after fill: enough for an invalid code, which takes 17, and a number of 15.
const leastBits = 32

func (r *bitReader) fill() {
	if r.held >= leastBits {
		return
	}
	if r.at <= r.quick {
		if x := binary.BigEndian.Uint64(r.data[r.at:]); !hasMarkerByte(x) {
			n := (63 - r.held) >> 3
			r.buffer |= x >> (r.held & 63)
			r.at += n
			r.held += 8 * n
			return
		}
	}
	r.fillBytes()
}

func (r *bitReader) fillBytes() {
	for ; r.held <= 56; r.held += 8 {
		if r.marker == 0 {
			if b, ok := r.dataByte(); ok {
				r.buffer |= uint64(b) << (56 - r.held)
				continue
			}
		}
		r.padded += 8
	}
}

// dataByte reads a byte. At a marker or at the end of the file, it sets marker and ok is false.
func (r *bitReader) dataByte() (b byte, ok bool) {
	if r.at < len(r.data) {
		b = r.data[r.at]
		r.at++
		if b != 0xff {
			return b, true
		}
		for r.at < len(r.data) && r.data[r.at] == 0xff {
			r.at++
		}
	}
	r.quick = -1
	if r.at >= len(r.data) {
		r.marker, r.ended = endOfImage, true
		return 0, false
	}
	b = r.data[r.at]
	r.at++
	if b == 0 {
		r.quick = len(r.data) - 8
		return 0xff, true
	}
	r.marker = b
	return 0, false
}

// drop consumes n bits.
func (r *bitReader) drop(n int) {
	r.buffer <<= n & 63
	r.held -= n
}

// receive reads a number of up to 15 bits. The caller must have called fill, and read at most a code since.
func (r *bitReader) receive(n int) int32 {
	v := int32(r.buffer >> 1 >> (63 - n&63))
	r.drop(n)
	return v
}

// bit reads one bit.
func (r *bitReader) bit() bool {
	if r.held < 1 {
		r.fill()
	}
	set := r.buffer>>63 != 0
	r.drop(1)
	return set
}

// extend returns the number that n bits represent: those without the top bit are negative.
func extend(v int32, n int) int32 {
	if n > 0 && v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

// symbol reads a code and returns its symbol.
func (r *bitReader) symbol(t *lookup) byte {
	r.fill()
	e := t.short[r.buffer>>(64-lookBits)]
	if e == 0 {
		symbol, n := t.long(r.buffer)
		r.drop(n)
		return symbol
	}
	symbol := byte(e >> 8)
	n := int(e & 0x7f)
	if e&partial == 0 {
		n -= int(symbol & 15)
	}
	r.drop(n)
	return symbol
}

// number reads the code of a number's size, and then the number.
func (r *bitReader) number(t *lookup) int32 {
	n := int(r.symbol(t) & 15)
	return extend(r.receive(n), n)
}

// block reads the coefficients of a block of a sequential scan, except for its mean, of which it returns the difference to the previous
// block's. last is the highest frequency that is not zero, or 0.
func (r *bitReader) block(means, rest *lookup, block *[64]int16) (difference int32, last int) {
	if r.held < leastBits {
		r.fill()
	}
	if e := means.short[r.buffer>>(64-lookBits)]; e&partial == 0 && e != 0 {
		difference = int32(int16(e >> 16))
		r.drop(int(e & 0x7f))
	} else {
		difference = r.number(means)
	}
	data, at, quick, buffer, held := r.data, r.at, r.quick, r.buffer, r.held
	for k := 1; k < 64; k++ {
		if held < leastBits {
			filled := false
			if at <= quick {
				if x := binary.BigEndian.Uint64(data[at:]); !hasMarkerByte(x) {
					n := (63 - held) >> 3
					buffer |= x >> (held & 63)
					at += n
					held += 8 * n
					filled = true
				}
			}
			if !filled {
				r.at, r.buffer, r.held = at, buffer, held
				r.fillBytes()
				at, quick, buffer, held = r.at, r.quick, r.buffer, r.held
			}
		}
		e := rest.short[buffer>>(64-lookBits)]
		n := int(e & 0x7f)
		if e&partial == 0 && e != 0 {
			buffer <<= n & 63
			held -= n
			k += int(e>>12) & 15
			last = k
			block[natural[k&127]&63] = int16(e >> 16)
			continue
		}
		symbol := byte(e >> 8)
		if e == 0 {
			symbol, n = rest.long(buffer)
		}
		buffer <<= n & 63
		held -= n
		size := int(symbol & 15)
		k += int(symbol >> 4)
		if size == 0 {
			if symbol != 0xf0 {
				break
			}
			continue
		}
		v := int32(buffer >> ((64 - size) & 63))
		buffer <<= size & 63
		held -= size
		last = k
		block[natural[k&127]&63] = int16(extend(v, size))
	}
	r.at, r.buffer, r.held = at, buffer, held
	return difference, last
}

// natural is zigzag, extended for broken files: frequencies beyond the last one map to its place.
var natural = func() (at [128]uint8) {
	for i := range at {
		at[i] = uint8(zigzag[min(i, 63)])
	}
	return at
}()

// lookBits is the number of bits that are looked up at once: a code, and the number after it if both fit.
const lookBits = 10

// lookup is the table that decodes a Huffman code.
type lookup struct {
	// short is indexed by the next bits. An entry holds, from the lowest bit on: how many bits it covers (7 bits), partial (1 bit), the
	// symbol (8 bits) and the number (16 bits). It is 0 for longer codes.
	short   [1 << lookBits]uint32
	limits  [17]int32 // the greatest code of each length, or -1 if there is none
	offsets [17]int32 // for each length, the index of a code's symbol less the code
	symbols [256]byte
}

// partial marks entries that cover only a code, and not a number after it.
const partial = 0x80

// long reads a code that is too long for the table from the top of buffer. An invalid code takes 17 bits, and its symbol is 0.
func (t *lookup) long(buffer uint64) (symbol byte, n int) {
	for n := lookBits + 1; n <= 16; n++ {
		if code := int32(buffer >> (64 - n)); code <= t.limits[n] {
			return t.symbols[uint8(code+t.offsets[n])], n
		}
	}
	return 0, 17
}

// build makes the table of a code. If ofMeans is true, the symbols are sizes of numbers, without runs of zeros, and must be less than 16.
func (t *lookup) build(s codeSpec, ofMeans bool) error {
	copy(t.symbols[:], s.symbols)
	if ofMeans {
		for _, symbol := range s.symbols {
			if symbol > 15 {
				return ErrInvalid
			}
		}
	}
	clear(t.short[:])
	code, i := int32(0), 0
	for length := 1; length <= 16; length++ {
		t.limits[length], t.offsets[length] = -1, int32(i)-code
		for range s.lengths[length-1] {
			if length <= lookBits {
				t.enter(code, length, s.symbols[i])
			}
			t.limits[length] = code
			code++
			i++
			// No code may consist of ones only.
			if code >= 1<<length {
				return ErrInvalid
			}
		}
		code <<= 1
	}
	return nil
}

// enter fills in the entries that begin with a code.
func (t *lookup) enter(code int32, length int, symbol byte) {
	free := lookBits - length
	entries := t.short[code<<free:][:1<<free]
	size := int(symbol & 15)
	// A symbol with size 0 has no number after it: it describes a run of zeros, or the number 0 in a code of means.
	if size > free || size == 0 {
		for i := range entries {
			entries[i] = uint32(symbol)<<8 | partial | uint32(length)
		}
		return
	}
	for i := range entries {
		v := extend(int32(i>>(free-size)), size)
		entries[i] = uint32(uint16(v))<<16 | uint32(symbol)<<8 | uint32(length+size)
	}
}
