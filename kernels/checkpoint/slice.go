package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	slicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_slice_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Extent is a range of positions in a dimension; a Length of -1 means all.
type Extent struct{ Start, Length int64 }

// Slice is a part of a tensor, such as one partition of a variable.
type Slice []Extent

// Whole returns the slice that covers a whole tensor of the given rank.
func Whole(rank int) Slice {
	s := make(Slice, rank)
	for i := range s {
		s[i].Length = -1
	}
	return s
}

// ParseSlice parses Saver's specification of a partition: the sizes of the whole tensor, separated by spaces, then for each dimension
// "start,length" or "-", separated by colons.
func ParseSlice(spec string) (whole tensor.Shape, slice Slice, err error) {
	words := strings.Split(spec, " ")
	if len(words) < 2 {
		return nil, nil, status.InvalidArgumentf("Need least two elements in shape_and_slice specification: %s", spec)
	}
	if slice, err = parseExtents(words[len(words)-1]); err != nil {
		return nil, nil, err
	}
	for _, w := range words[:len(words)-1] {
		d, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, nil, status.InvalidArgumentf("Non numerical dimension in shape_and_slice: %s", spec)
		}
		whole = append(whole, d)
	}
	if _, err := whole.NumElements(); err != nil {
		return nil, nil, err
	}
	_, err = slice.Shape(whole)
	return whole, slice, err
}

func parseExtents(text string) (slice Slice, err error) {
	for item := range strings.SplitSeq(text, ":") {
		switch item {
		case "":
			continue
		case "-":
			slice = append(slice, Extent{0, -1})
			continue
		}
		numbers := strings.FieldsFunc(item, func(c rune) bool { return c == ',' })
		var e [2]int64
		ok := len(numbers) == 2
		for i := 0; ok && i < 2; i++ {
			e[i], err = strconv.ParseInt(numbers[i], 10, 64)
			ok = err == nil
		}
		if !ok {
			return nil, status.InvalidArgumentf("Expected a pair of numbers or '-' but got '%s': string = %s", item, text)
		}
		if e[0] < 0 || e[1] <= 0 {
			return nil, status.InvalidArgumentf("Expected non-negative start and positive length but got start = %d, length = %d: string = %s", e[0], e[1], text)
		}
		slice = append(slice, Extent{e[0], e[1]})
	}
	return slice, nil
}

// String returns the form that ParseSlice parses.
func (s Slice) String() string {
	parts := make([]string, len(s))
	for i, e := range s {
		if parts[i] = "-"; e.Length >= 0 {
			parts[i] = fmt.Sprintf("%d,%d", e.Start, e.Length)
		}
	}
	return strings.Join(parts, ":")
}

// Shape returns the shape of the slice of a tensor with shape whole.
func (s Slice) Shape(whole tensor.Shape) (tensor.Shape, error) {
	if len(s) != len(whole) {
		return nil, status.Internalf("Mismatching ranks: shape = %v, slice = %v", whole, s)
	}
	shape := whole.Clone()
	for i, e := range s {
		if e.Length < 0 {
			continue
		}
		if e.Start < 0 || e.Start > whole[i] || e.Length > whole[i]-e.Start {
			return nil, status.Internalf("Extent in dimension %d out of bounds: shape = %v, slice = %v", i, whole, s)
		}
		shape[i] = e.Length
	}
	return shape, nil
}

// full reports whether the slice covers a whole tensor of shape whole.
func (s Slice) full(whole tensor.Shape) bool {
	for i, e := range s {
		if e.Length >= 0 && (e.Start != 0 || e.Length != whole[i]) {
			return false
		}
	}
	return true
}

func (s Slice) proto() *slicepb.TensorSliceProto {
	p := &slicepb.TensorSliceProto{}
	for _, e := range s {
		x := &slicepb.TensorSliceProto_Extent{}
		if e.Length >= 0 {
			x.Start = e.Start
			x.HasLength = &slicepb.TensorSliceProto_Extent_Length{Length: e.Length}
		}
		p.Extent = append(p.Extent, x)
	}
	return p
}

func sliceFromProto(p *slicepb.TensorSliceProto) (Slice, error) {
	var s Slice
	for _, x := range p.GetExtent() {
		e := Extent{x.Start, -1}
		if l, ok := x.GetHasLength().(*slicepb.TensorSliceProto_Extent_Length); ok {
			e.Length = l.Length
		}
		if e != (Extent{0, -1}) && (e.Start < 0 || e.Length <= 0) {
			return nil, status.InvalidArgumentf("Expected non-negative start and positive length but got start = %d, length = %d: extent = %v", e.Start, e.Length, x)
		}
		s = append(s, e)
	}
	return s, nil
}

// sliceKey returns the key of a tensor's slice: TensorFlow's EncodeTensorNameSlice.
func sliceKey(name string, s Slice) string {
	b := []byte{0}
	for i := range len(name) {
		switch c := name[i]; c {
		case 0:
			b = append(b, 0, 0xff)
		case 0xff:
			b = append(b, 0xff, 0)
		default:
			b = append(b, c)
		}
	}
	b = append(b, 0, 1)
	b = appendUnsigned(b, uint64(len(s)))
	for _, e := range s {
		b = appendSigned(appendSigned(b, e.Start), e.Length)
	}
	return string(b)
}

// appendUnsigned appends a number in an encoding whose bytes sort like the numbers: the byte count, then the bytes.
func appendUnsigned(b []byte, v uint64) []byte {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], v)
	n := (bits.Len64(v) + 7) / 8
	return append(append(b, byte(n)), buf[8-n:]...)
}

// appendSigned appends a number of either sign in an encoding whose bytes sort like the numbers. The leading bits give the number of bytes;
// each byte holds seven bits of the number.
func appendSigned(b []byte, v int64) []byte {
	x := v
	if v < 0 {
		x = ^v
	}
	n := bits.Len64(uint64(x))/7 + 1
	var buf [10]byte
	if v < 0 {
		buf[0], buf[1] = 0xff, 0xff
	}
	binary.BigEndian.PutUint64(buf[2:], uint64(v))
	out := buf[10-n:]
	header := uint16(0xffff) << (16 - n)
	out[0] ^= byte(header >> 8)
	if n > 1 {
		out[1] ^= byte(header)
	}
	return append(b, out...)
}
