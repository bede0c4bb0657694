package checkpoint

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"

	slicepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_slice_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Extent is a range of positions of a dimension; a Length of -1 stands for all.
type Extent struct{ Start, Length int64 }

// Slice is a part of a tensor: what one of the partitions of a variable holds.
type Slice []Extent

// ParseSlice reads what Saver writes for partitions: the sizes of the whole tensor, separated by
// spaces, then for each dimension "start,length" or "-", separated by colons.
func ParseSlice(spec string) (shape tensor.Shape, slice Slice, err error) {
	bad := func(why string) error {
		return status.InvalidArgumentf("Invalid shape and slice specification '%s': %s", spec, why)
	}
	words := strings.Split(spec, " ")
	extents := words[len(words)-1]
	for _, w := range words[:len(words)-1] {
		d, err := strconv.ParseInt(w, 10, 64)
		if err != nil || d < 0 {
			return nil, nil, bad("sizes must be numbers that are not negative")
		}
		shape = append(shape, d)
	}
	if extents != "" {
		for _, e := range strings.Split(extents, ":") {
			x := Extent{0, -1}
			if start, length, ok := strings.Cut(e, ","); ok {
				var err1, err2 error
				x.Start, err1 = strconv.ParseInt(start, 10, 64)
				x.Length, err2 = strconv.ParseInt(length, 10, 64)
				if err1 != nil || err2 != nil || x.Start < 0 || x.Length <= 0 {
					return nil, nil, bad("a slice is start,length or -")
				}
			} else if e != "-" {
				return nil, nil, bad("a slice is start,length or -")
			}
			slice = append(slice, x)
		}
	}
	if len(slice) != len(shape) {
		return nil, nil, bad("there must be as many slices as sizes")
	}
	if _, err := slice.Shape(shape); err != nil {
		return nil, nil, bad(err.Error())
	}
	if _, err := shape.NumElements(); err != nil {
		return nil, nil, err
	}
	return shape, slice, nil
}

// Shape is the shape of the slice of a tensor of the shape.
func (s Slice) Shape(whole tensor.Shape) (tensor.Shape, error) {
	if len(s) != len(whole) {
		return nil, status.InvalidArgumentf("A slice of %d dimensions of a tensor of shape %v", len(s), whole)
	}
	shape := whole.Clone()
	for i, e := range s {
		if e.Length < 0 {
			continue
		}
		if e.Start < 0 || e.Start > whole[i] || e.Length > whole[i]-e.Start {
			return nil, status.InvalidArgumentf("Extent in dimension %d out of bounds: shape = [%d,%d) of a size of %d", i, e.Start, e.Start+e.Length, whole[i])
		}
		shape[i] = e.Length
	}
	return shape, nil
}

// full tells whether the slice is all of a tensor of the shape.
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

func sliceFromProto(p *slicepb.TensorSliceProto) Slice {
	var s Slice
	for _, x := range p.GetExtent() {
		e := Extent{0, -1}
		if l, ok := x.GetHasLength().(*slicepb.TensorSliceProto_Extent_Length); ok {
			e = Extent{x.Start, l.Length}
		}
		s = append(s, e)
	}
	return s
}

// sliceKey is the key under which a slice of a tensor is found: TensorFlow's EncodeTensorNameSlice.
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

// appendUnsigned writes a number so that its bytes sort as it does: how many bytes, then these.
func appendUnsigned(b []byte, v uint64) []byte {
	var buf [8]byte
	binary.BigEndian.PutUint64(buf[:], v)
	n := (bits.Len64(v) + 7) / 8
	return append(append(b, byte(n)), buf[8-n:]...)
}

// appendSigned writes a number of either sign so that its bytes sort as it does. The leading
// bits tell how many bytes there are, seven bits of the number in each.
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
