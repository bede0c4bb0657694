package example

import (
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// values are a feature's values as they lie on the wire: the content of its BytesList, FloatList or
// Int64List, and which of them it is.
type values struct {
	dtype tensor.DType
	body  string
}

// kind is the element type of the list that a tag of a Feature announces.
func kind(tag uint64) tensor.DType {
	switch tag {
	case delimited(1):
		return tensor.String
	case delimited(2):
		return tensor.Float32
	case delimited(3):
		return tensor.Int64
	}
	return tensor.Invalid
}

// valuesOf finds the values in a serialized Feature. The type is Invalid where it has none; ok is false
// where it is broken.
func valuesOf(feature string) (v values, ok bool) {
	var pieces strings.Builder // of a list in more than one
	for c := (cursor{feature}); len(c.s) > 0; {
		tag, ok := c.tag()
		if !ok {
			return values{}, false
		}
		dtype := kind(tag)
		if dtype == tensor.Invalid {
			if !c.skip(tag) {
				return values{}, false
			}
			continue
		}
		body, ok := c.bytes()
		switch {
		case !ok:
			return values{}, false
		case dtype == v.dtype: // a list in pieces is one list
			if pieces.Len() == 0 {
				pieces.WriteString(v.body)
			}
			pieces.WriteString(body)
		default: // the last member of a oneof counts
			v = values{dtype, body}
			pieces.Reset()
		}
	}
	if pieces.Len() > 0 {
		v.body = pieces.String()
	}
	return v, true
}

// count is the number of values; ok is false where the list is broken.
func (v values) count() (n int, ok bool) {
	switch v.dtype {
	case tensor.String:
		for c := (cursor{v.body}); ; n++ {
			if _, done, ok := c.next(delimited(1)); done || !ok {
				return n, ok
			}
		}
	case tensor.Float32:
		return eachList(v.body, func(s string, packed bool) (int, int, bool) {
			if packed {
				return len(s) / 4, len(s), len(s)%4 == 0
			}
			return 1, 4, len(s) >= 4
		}, 5)
	case tensor.Int64:
		return eachList(v.body, countVarints, 0)
	}
	return 0, true
}

// eachList goes through a list of numbers, packed or not. take gets a packed piece, or what follows the tag of
// a single value, and gives how many values it found in how many bytes. wire is the wire type of single values.
func eachList(body string, take func(s string, packed bool) (n, size int, ok bool), wire uint64) (n int, ok bool) {
	for c := (cursor{body}); len(c.s) > 0; {
		tag, ok := c.tag()
		if !ok {
			return 0, false
		}
		switch tag {
		case delimited(1):
			piece, ok := c.bytes()
			if !ok {
				return 0, false
			}
			more, _, ok := take(piece, true)
			if !ok {
				return 0, false
			}
			n += more
		case 1<<3 | wire:
			more, size, ok := take(c.s, false)
			if !ok {
				return 0, false
			}
			n += more
			c.s = c.s[size:]
		default:
			if !c.skip(tag) {
				return 0, false
			}
		}
	}
	return n, true
}

// countVarints counts the varints that fill s, or measures the one that it begins with.
func countVarints(s string, packed bool) (n, size int, ok bool) {
	run := 0
	for i := range len(s) {
		if s[i] >= 0x80 {
			if run++; run == 10 {
				return 0, 0, false
			}
			continue
		}
		n++
		run = 0
		if !packed {
			return 1, i + 1, true
		}
	}
	return n, len(s), packed && run == 0
}

// column is where values go: the elements of a tensor of one of the three types.
type column struct {
	floats []byte
	ints   []int64
	texts  []string
}

func columnOf(t *tensor.Tensor) column {
	switch t.DType() {
	case tensor.Float32:
		return column{floats: t.Data()}
	case tensor.Int64:
		return column{ints: tensor.Of[int64](t)}
	}
	return column{texts: t.Strings()}
}

// put writes the values, which were counted, from element at on. message is the size of the message that they
// are part of.
func (v values) put(dst column, at, message int) {
	switch v.dtype {
	case tensor.String:
		for c := (cursor{v.body}); ; at++ {
			s, done, ok := c.next(delimited(1))
			if done || !ok {
				return
			}
			dst.texts[at] = own(s, message)
		}
	case tensor.Float32:
		to := dst.floats[4*at:]
		eachList(v.body, func(s string, packed bool) (int, int, bool) {
			if !packed {
				s = s[:4]
			}
			to = to[copy(to, s):]
			return 0, len(s), true
		}, 5)
	case tensor.Int64:
		to := dst.ints[at:]
		eachList(v.body, func(s string, packed bool) (int, int, bool) {
			c := cursor{s}
			for len(c.s) > 0 {
				n, _ := c.varint()
				to[0] = int64(n)
				to = to[1:]
				if !packed {
					break
				}
			}
			return 0, len(s) - len(c.s), true
		}, 0)
	}
}
