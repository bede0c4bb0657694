package jpeg

import (
	"encoding/binary"
)

// bitReader reads the bits of a scan up to a marker. Behind it there are zeros, as in libjpeg.
type bitReader struct {
	data   []byte
	at     int    // the next byte
	quick  int    // the last place where eight bytes can be read at once, or -1 behind a marker
	buffer uint64 // the next bits, the first one on top; below those that are held there may be some that follow
	held   int
	padded int  // how many of the held ones are zeros from behind the marker; more than held after some were used
	marker byte // what ended the bits, or 0
	ended  bool // the file ended them, which reads as the end of the image
}

// open starts to read at a byte.
func (r *bitReader) open(data []byte, at int) {
	*r = bitReader{data: data, at: at, quick: len(data) - 8}
}

// starved tells whether bits were used that are not there.
func (r *bitReader) starved() bool { return r.held < r.padded }

// hasMarkerByte tells whether one of eight bytes is 0xff.
func hasMarkerByte(x uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	return (^x-ones)&x&tops != 0
}

// leastBits is what the reader holds at least behind fill: as much as a code that is none and a number take.
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

// dataByte reads a byte, or the marker.
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

// drop uses n bits.
func (r *bitReader) drop(n int) {
	r.buffer <<= n & 63
	r.held -= n
}

// receive reads a number of up to 15 bits. The caller has filled the reader, and has read no more than a code since.
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

// extend is the number that n bits stand for: those without the top bit are negative.
func extend(v int32, n int) int32 {
	if n > 0 && v < 1<<(n-1) {
		v += -1<<n + 1
	}
	return v
}

// symbol reads a code.
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

// number reads a code of a number's size, and the number.
func (r *bitReader) number(t *lookup) int32 {
	n := int(r.symbol(t) & 15)
	return extend(r.receive(n), n)
}

// block reads the coefficients of a block of a sequential scan, but for the first one, whose difference to that of the block
// before it returns. last is the greatest frequency that is not zero, or 0.
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

// natural is zigzag, with the last place for frequencies that broken files have behind the last one.
var natural = func() (at [128]uint8) {
	for i := range at {
		at[i] = uint8(zigzag[min(i, 63)])
	}
	return at
}()

// lookBits is the length of codes that are looked up at once, together with their numbers as far as these fit.
const lookBits = 10

// lookup reads a Huffman code.
type lookup struct {
	// short has for the next bits, from the lowest bit on: how many of them the entry covers, in 7 bits; whether it covers the
	// code alone, and not the number behind it; the symbol; the number. It is 0 for codes that are longer.
	short   [1 << lookBits]uint32
	limits  [17]int32 // the greatest code of each length, or -1
	offsets [17]int32 // by how much a code's symbol lies further on than the code
	symbols [256]byte
}

// partial marks entries of codes without numbers.
const partial = 0x80

// long reads a code from the top of buffer that is not in the table. What is no code reads as the symbol 0, after 17 bits.
func (t *lookup) long(buffer uint64) (symbol byte, n int) {
	for n := lookBits + 1; n <= 16; n++ {
		if code := int32(buffer >> (64 - n)); code <= t.limits[n] {
			return t.symbols[uint8(code+t.offsets[n])], n
		}
	}
	return 0, 17
}

// build makes the table of a code. ofMeans tells that the symbols are sizes of numbers, without runs of zeros: they must be less
// than 16.
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
			// No code is of ones alone.
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
	// A size of 0 says how a run of zeros goes on, unless the code is of means, where it is the number 0.
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
