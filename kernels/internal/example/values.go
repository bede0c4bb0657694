package example

import (
	"strconv"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// values are a feature's encoded values: the content of its BytesList, FloatList or Int64List, and which of these it is.
type values struct {
	dtype tensor.DType
	body  string
}

// kind returns the element type of the list that a Feature's tag announces.
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

// valuesOf finds the values in a serialized Feature. The type is Invalid if there are none; ok is false if the feature is malformed.
func valuesOf(feature string) (v values, ok bool) {
	var pieces strings.Builder // of a list split into several messages
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
		case dtype == v.dtype: // list messages of one kind are merged
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

// count returns the number of values; ok is false if the list is malformed.
func (v values) count() (n int, ok bool) {
	return listKinds[v.dtype].count(v.body)
}

// listKind describes how the values of a type are encoded.
type listKind struct {
	// count returns the number of values; ok is false if the list is malformed.
	count func(body string) (n int, ok bool)
	// columnOf returns the column for a tensor of the type.
	columnOf func(t *tensor.Tensor) column
	// put writes the values of a counted list, as values.put does.
	put func(body string, dst column, at, message int)
	// text formats value i of a column in the text format of protocol buffers.
	text func(from column, i int) string
}

// listKinds are the three kinds of list in a Feature, and the empty kind.
var listKinds = [...]listKind{
	tensor.Invalid: {
		count: func(string) (int, bool) { return 0, true },
		put:   func(string, column, int, int) {},
	},
	tensor.String: {
		count:    countTexts,
		columnOf: func(t *tensor.Tensor) column { return column{texts: t.Strings()} },
		put:      putTexts,
		text:     func(from column, i int) string { return `"` + escape(from.texts[i]) + `"` },
	},
	tensor.Float32: {
		count:    func(body string) (int, bool) { return eachList(body, countFloats, 5) },
		columnOf: func(t *tensor.Tensor) column { return column{floats: t.Data()} },
		put:      putFloats,
		text:     floatText,
	},
	tensor.Int64: {
		count:    func(body string) (int, bool) { return eachList(body, countVarints, 0) },
		columnOf: func(t *tensor.Tensor) column { return column{ints: tensor.Of[int64](t)} },
		put:      putInts,
		text:     func(from column, i int) string { return strconv.FormatInt(from.ints[i], 10) },
	},
}

func countTexts(body string) (n int, ok bool) {
	for c := (cursor{body}); ; n++ {
		if _, done, ok := c.next(delimited(1)); done || !ok {
			return n, ok
		}
	}
}

// countFloats counts the numbers that fill s or, if not packed, measures the first one.
func countFloats(s string, packed bool) (n, size int, ok bool) {
	if packed {
		return len(s) / 4, len(s), len(s)%4 == 0
	}
	return 1, 4, len(s) >= 4
}

// eachList iterates over a list of numbers, packed or not. take receives a packed piece, or everything after the tag of a single value; it
// returns the number of values found and their size in bytes. wire is the wire type of single values.
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

// countVarints counts the varints that fill s or, if not packed, measures the first one.
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

// column is a destination for values: the elements of a tensor of one of the three types.
type column struct {
	floats []byte
	ints   []int64
	texts  []string
}

func columnOf(t *tensor.Tensor) column { return listKinds[t.DType()].columnOf(t) }

// put writes the values, which have been counted, from element at on. message is the size of the message that contains them.
func (v values) put(dst column, at, message int) { listKinds[v.dtype].put(v.body, dst, at, message) }

func putTexts(body string, dst column, at, message int) {
	for c := (cursor{body}); ; at++ {
		s, done, ok := c.next(delimited(1))
		if done || !ok {
			return
		}
		dst.texts[at] = own(s, message)
	}
}

func putFloats(body string, dst column, at, _ int) {
	to := dst.floats[4*at:]
	eachList(body, func(s string, packed bool) (int, int, bool) {
		if !packed {
			s = s[:4]
		}
		to = to[copy(to, s):]
		return 0, len(s), true
	}, 5)
}

func putInts(body string, dst column, at, _ int) {
	to := dst.ints[at:]
	eachList(body, func(s string, packed bool) (int, int, bool) {
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
