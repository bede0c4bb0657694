package strings

import (
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
)

// newSubstr returns the kernel for substrings, in bytes or in UTF-8 characters.
func newSubstr(c *kernels.Construction) (any, error) {
	unit, err := c.Attrs().Str("unit")
	if err != nil {
		return nil, err
	}
	k := &substr{characters: unit == "UTF8_CHAR"}
	if !k.characters && unit != "BYTE" {
		return nil, status.InvalidArgumentf("Invalid char unit: %s", unit)
	}
	return k, nil
}

type substr struct{ characters bool }

func (k *substr) Compute(ctx *kernels.Context) error {
	in, pos, length := ctx.Input(0), ctx.Input(1), ctx.Input(2)
	if !pos.Shape().Equal(length.Shape()) {
		return status.InvalidArgumentf("pos and len should have the same shape, got: %v vs. %v", pos.Shape(), length.Shape())
	}
	b, err := broadcastParts(in.Shape(), pos.Shape())
	if err != nil {
		return err
	}
	out, err := ctx.Allocate(0, tensor.String, b.out)
	if err != nil {
		return err
	}
	at, err := args.ReadIndices(pos)
	if err != nil {
		return err
	}
	defer at.Free()
	lengths, err := args.ReadIndices(length)
	if err != nil {
		return err
	}
	defer lengths.Free()
	m := ctx.Meter()
	defer m.Done()
	for i := range out.Strings() {
		whole, p := in.Strings()[b.place(i, b.strings)], b.place(i, b.parts)
		part, ok := k.part(whole, at.V[p], lengths.V[p])
		if !ok {
			return k.outOfRange(whole, at.V[p], b, i)
		}
		if err := m.Take(len(part)); err != nil {
			return err
		}
		out.Strings()[i] = strings.Clone(part) // do not keep the whole string alive
	}
	return nil
}

// outOfRange returns TensorFlow's error for string i.
func (k *substr) outOfRange(whole string, pos int64, b *partsBroadcast, i int) error {
	row, column, pairs := i, 0, b.broadcasts && len(b.out) == 2
	if pairs {
		row, column = i/int(b.out[1]), i%int(b.out[1])
	}
	switch {
	case k.characters:
		return status.InvalidArgumentf("pos %d out of range for string at index %d", pos, row)
	case pairs:
		return status.InvalidArgumentf("pos %d out of range for string b'%s' at index (%d, %d)", pos, whole, row, column)
	}
	return status.InvalidArgumentf("pos %d out of range for string b'%s' at index %d", pos, whole, row)
}

// part returns the substring of the given length at pos; a negative pos counts from the end. It returns false if pos is outside the string.
func (k *substr) part(s string, pos, length int64) (string, bool) {
	if !k.characters {
		if pos < 0 {
			pos += int64(len(s))
		}
		if pos < 0 || pos > int64(len(s)) {
			return "", false
		}
		s = s[pos:]
		if length >= 0 && length < int64(len(s)) { // as in TensorFlow, a negative length is a very large one
			s = s[:length]
		}
		return s, true
	}
	if pos >= 0 {
		start, ok := forward(s, 0, pos)
		if !ok {
			return "", false
		}
		end, _ := forward(s, start, length)
		return s[start:end], true
	}
	after := max(0, -pos-length) // characters after the part
	end, ok := backward(s, len(s), after)
	if !ok {
		return "", false
	}
	start, ok := backward(s, end, -pos-after)
	return s[start:end], ok
}

// forward moves a position n characters forward; false if there are fewer.
func forward(s string, at int, n int64) (int, bool) {
	for ; n > 0 && at < len(s); n-- {
		for at++; at < len(s) && trails(s[at]); at++ {
		}
	}
	return at, n == 0
}

// backward moves a position n characters back.
func backward(s string, at int, n int64) (int, bool) {
	for ; n > 0 && at > 0; n-- {
		for at--; at > 0 && trails(s[at]); at-- {
		}
	}
	return at, n == 0
}

// trails reports whether a byte is not the first of a character.
func trails(b byte) bool { return b&0xc0 == 0x80 }

// partsBroadcast describes how strings and the positions of their parts are broadcast against each other. strings and parts are the strides
// along the dimensions of out.
type partsBroadcast struct {
	out            tensor.Shape
	strings, parts []int
	broadcasts     bool
}

func broadcastParts(in, pos tensor.Shape) (*partsBroadcast, error) {
	if len(pos) == 0 || in.Equal(pos) {
		b := &partsBroadcast{out: in, strings: strides(in, len(in)), parts: make([]int, len(in))}
		if len(pos) > 0 {
			b.parts = b.strings
		}
		return b, nil
	}
	rank := max(len(in), len(pos))
	b := &partsBroadcast{out: make(tensor.Shape, rank), strings: strides(in, rank), parts: strides(pos, rank), broadcasts: true}
	for d := range rank {
		x, y := sizeAt(in, rank, d), sizeAt(pos, rank, d)
		if x != y && x != 1 && y != 1 {
			return nil, status.InvalidArgumentf("Incompatible shapes: %v vs. %v", in, pos)
		}
		b.out[d] = x
		if x == 1 {
			b.out[d] = y
		}
	}
	if _, err := b.out.NumElements(); err != nil {
		return nil, err
	}
	if rank > 2 {
		return nil, status.Unimplementedf("Substr broadcast not implemented for %d dimensions", rank)
	}
	return b, nil
}

// sizeAt returns dimension d of a shape that is extended to a rank with leading ones.
func sizeAt(s tensor.Shape, rank, d int) int64 {
	if d -= rank - len(s); d >= 0 {
		return s[d]
	}
	return 1
}

// strides returns the strides of a broadcast tensor, zero for dimensions of size 1.
func strides(s tensor.Shape, rank int) []int {
	steps, step := make([]int, rank), 1
	for d := rank - 1; d >= 0; d-- {
		size := int(sizeAt(s, rank, d))
		if size > 1 {
			steps[d] = step
		}
		step *= size
	}
	return steps
}

// place returns the position of the result's element i in a tensor with the strides.
func (b *partsBroadcast) place(i int, strides []int) int {
	at := 0
	for d := len(b.out) - 1; d >= 0; d-- {
		size := int(b.out[d])
		at += i % size * strides[d]
		i /= size
	}
	return at
}
