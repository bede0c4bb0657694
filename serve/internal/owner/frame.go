package owner

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Kinds of messages.
const (
	kindCall    = 1
	kindTaken   = 2
	kindResults = 3
	kindError   = 4
	kindRoom    = 5
	kindWritten = 6
)

const (
	// prefixSize is the size of a message's kind and of its head's size.
	prefixSize = 5
	// maxHead bounds the head of a message in bytes: an error's text, or descriptions.
	maxHead = 1 << 20
)

var errMalformed = status.New(status.Internal, "the program that owns the server answered a call with a malformed message")

// readMessage reads a message's kind and head.
func readMessage(r io.Reader) (kind byte, head []byte, err error) {
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(prefix[1:])
	if n > maxHead {
		return 0, nil, errMalformed
	}
	head = make([]byte, n)
	_, err = io.ReadFull(r, head)
	return prefix[0], head, err
}

// begin begins a message; seal ends it.
func begin(kind byte) []byte { return append(make([]byte, 0, 256), kind, 0, 0, 0, 0) }

// seal sets the size of a complete head.
func seal(message []byte) []byte {
	binary.LittleEndian.PutUint32(message[1:], uint32(len(message)-prefixSize))
	return message
}

// description is what a message says about a tensor.
type description struct {
	dtype     tensor.DType
	shape     tensor.Shape
	elsewhere bool
	size      uint64 // bytes
}

const descriptionSize = 20 // without the dimensions

// describe appends the description of a tensor of size bytes, which lie at address if that is not 0.
func describe(b []byte, t *tensor.Tensor, size int, address uint64) []byte {
	elsewhere := byte(0)
	if address != 0 {
		elsewhere = 1
	}
	b = append(b, byte(t.DType()), byte(t.Rank()), elsewhere, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b = binary.LittleEndian.AppendUint64(b, address)
	for _, d := range t.Shape() {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	return b
}

// described reads a description, and returns what follows it. Except for strings, the size must match the type and
// shape.
func described(b []byte) (d description, rest []byte, err error) {
	if len(b) < descriptionSize || int(b[1]) > tensor.MaxRank || len(b) < descriptionSize+8*int(b[1]) {
		return d, nil, errMalformed
	}
	d = description{dtype: tensor.DType(b[0]), elsewhere: b[2] != 0, size: binary.LittleEndian.Uint64(b[4:]), shape: make(tensor.Shape, b[1])}
	b = b[descriptionSize:]
	for i := range d.shape {
		v := binary.LittleEndian.Uint64(b)
		if v > math.MaxInt64 {
			return d, nil, errMalformed
		}
		d.shape[i], b = int64(v), b[8:]
	}
	n, err := d.shape.NumElements()
	if err != nil {
		return d, nil, err
	}
	switch each := uint64(d.dtype.Size()); {
	case d.size > math.MaxInt64, d.dtype == tensor.String && uint64(n) > d.size/8:
		return d, nil, errMalformed
	case d.dtype != tensor.String && (each == 0 || uint64(n) > math.MaxInt64/each || d.size != uint64(n)*each):
		return d, nil, errMalformed
	}
	return d, b, nil
}

// packed returns the bytes of a tensor of strings as messages have them.
func packed(c *troupe.FunctionCall, t *tensor.Tensor) (*tensor.Tensor, error) {
	all := t.Strings()
	size := 8 * len(all)
	for _, s := range all {
		size += len(s)
	}
	p, err := c.New(tensor.Uint8, tensor.Shape{int64(size)})
	if err != nil {
		return nil, err
	}
	lengths, rest := p.Data()[:8*len(all)], p.Data()[8*len(all):]
	for i, s := range all {
		binary.LittleEndian.PutUint64(lengths[8*i:], uint64(len(s)))
		rest = rest[copy(rest, s):]
	}
	return p, nil
}

// unpacked returns the strings from the bytes that packed returned.
func unpacked(shape tensor.Shape, b []byte) (*tensor.Tensor, error) {
	n := shape.Elements()
	lengths, rest := b[:8*n], b[8*n:]
	values := make([]string, n)
	for i := range values {
		size := binary.LittleEndian.Uint64(lengths[8*i:])
		if size > uint64(len(rest)) {
			return nil, errMalformed
		}
		values[i], rest = string(rest[:size]), rest[size:]
	}
	if len(rest) > 0 {
		return nil, errMalformed
	}
	return tensor.FromStrings(shape, values)
}
