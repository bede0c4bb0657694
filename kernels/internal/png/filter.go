package png

// filter encodes each row as differences from its neighbours before compression, with whichever of PNG's five filter types makes the bytes
// smallest.
type filter struct {
	pixel     int       // bytes per pixel, the distance to the left neighbour
	now, last []byte    // this row and the one above it
	tries     [5][]byte // the row in each filter type, after the type's number
}

func newFilter(row, pixel int) *filter {
	f := &filter{pixel: pixel, now: make([]byte, row), last: make([]byte, row)}
	for i := range f.tries {
		f.tries[i] = make([]byte, 1+row)
		f.tries[i][0] = byte(i)
	}
	return f
}

// row returns the buffer for the next row.
func (f *filter) row() []byte { return f.now }

// best returns the filtered row, valid until the next call, and makes the current row the previous one.
func (f *filter) best() []byte {
	var cost [5]int
	for i, v := range f.now {
		var left, corner byte
		if i >= f.pixel {
			left, corner = f.now[i-f.pixel], f.last[i-f.pixel]
		}
		up := f.last[i]
		for way, d := range [...]byte{v, v - left, v - up, v - byte((int(left)+int(up))/2), v - paeth(left, up, corner)} {
			f.tries[way][1+i] = d
			cost[way] += size(d)
		}
	}
	best := 0
	for way, c := range cost {
		if c < cost[best] {
			best = way
		}
	}
	f.now, f.last = f.last, f.now
	return f.tries[best]
}

// size returns the magnitude of a difference modulo 256.
func size(d byte) int {
	if d < 128 {
		return int(d)
	}
	return 256 - int(d)
}

// paeth predicts a byte as the neighbour that is closest to left+up-corner.
func paeth(left, up, corner byte) byte {
	p := int(left) + int(up) - int(corner)
	toLeft, toUp, toCorner := distance(p, left), distance(p, up), distance(p, corner)
	switch {
	case toLeft <= toUp && toLeft <= toCorner:
		return left
	case toUp <= toCorner:
		return up
	}
	return corner
}

func distance(p int, b byte) int { return max(p-int(b), int(b)-p) }
