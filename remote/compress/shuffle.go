package compress

import "encoding/binary"

// shuffles reports whether elements of width bytes are shuffled. S2 does not: it has no entropy coding that would benefit, and is chosen
// for its speed.
func (a Algorithm) shuffles(width int) bool {
	return a.family() != familyS2 && (width == 2 || width == 4 || width == 8)
}

// shuffle sets dst to the first bytes of all elements of src, then all second ones, and so on. Both have the same length and do not
// overlap. The bytes after the last whole element stay at the end. width is 2, 4 or 8: constants in the loops make them twice as fast.
func shuffle(dst, src []byte, width int) {
	n := len(src) / width
	done := n &^ 7
	switch width {
	case 2:
		for i := 0; i < done; i += 8 {
			s := src[2*i:][:16]
			for p := range 2 {
				binary.LittleEndian.PutUint64(dst[p*n+i:], word(s[p], s[p+2], s[p+4], s[p+6], s[p+8], s[p+10], s[p+12], s[p+14]))
			}
		}
	case 4:
		for i := 0; i < done; i += 8 {
			s := src[4*i:][:32]
			for p := range 4 {
				binary.LittleEndian.PutUint64(dst[p*n+i:], word(s[p], s[p+4], s[p+8], s[p+12], s[p+16], s[p+20], s[p+24], s[p+28]))
			}
		}
	case 8:
		for i := 0; i < done; i += 8 {
			s := src[8*i:][:64]
			for p := range 8 {
				binary.LittleEndian.PutUint64(dst[p*n+i:], word(s[p], s[p+8], s[p+16], s[p+24], s[p+32], s[p+40], s[p+48], s[p+56]))
			}
		}
	}
	for i := done; i < n; i++ {
		for p := range width {
			dst[p*n+i] = src[i*width+p]
		}
	}
	copy(dst[n*width:], src[n*width:])
}

// word is inlined.
func word(a, b, c, d, e, f, g, h byte) uint64 {
	return uint64(a) | uint64(b)<<8 | uint64(c)<<16 | uint64(d)<<24 | uint64(e)<<32 | uint64(f)<<40 | uint64(g)<<48 | uint64(h)<<56
}

// unshuffle is shuffle's inverse.
func unshuffle(dst, src []byte, width int) {
	n := len(src) / width
	done := n &^ 7
	switch width {
	case 2:
		for i := 0; i < done; i += 8 {
			d := dst[2*i:][:16]
			for p := range 2 {
				v := binary.LittleEndian.Uint64(src[p*n+i:])
				d[p], d[p+2], d[p+4], d[p+6] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
				d[p+8], d[p+10], d[p+12], d[p+14] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
			}
		}
	case 4:
		for i := 0; i < done; i += 8 {
			d := dst[4*i:][:32]
			for p := range 4 {
				v := binary.LittleEndian.Uint64(src[p*n+i:])
				d[p], d[p+4], d[p+8], d[p+12] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
				d[p+16], d[p+20], d[p+24], d[p+28] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
			}
		}
	case 8:
		for i := 0; i < done; i += 8 {
			d := dst[8*i:][:64]
			for p := range 8 {
				v := binary.LittleEndian.Uint64(src[p*n+i:])
				d[p], d[p+8], d[p+16], d[p+24] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
				d[p+32], d[p+40], d[p+48], d[p+56] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
			}
		}
	}
	for i := done; i < n; i++ {
		for p := range width {
			dst[i*width+p] = src[p*n+i]
		}
	}
	copy(dst[n*width:], src[n*width:])
}
