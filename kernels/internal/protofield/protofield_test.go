package protofield

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message returns a message with a field of each type.
func message() []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 300)
	b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), []byte{1, 0x80, 1})
	b = protowire.AppendFixed32(protowire.AppendTag(b, 3, protowire.Fixed32Type), 1<<31)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 4, protowire.Fixed64Type), 1<<63)
	b = protowire.AppendTag(b, 5, protowire.StartGroupType)
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 1)
	b = protowire.AppendTag(b, 5, protowire.EndGroupType)
	return protowire.AppendBytes(protowire.AppendTag(b, 6, protowire.BytesType), nil)
}

func TestAll(t *testing.T) {
	want := []Field{
		{Number: 1, Type: protowire.VarintType, Varint: 300},
		{Number: 2, Type: protowire.BytesType, Bytes: []byte{1, 0x80, 1}},
		{Number: 3, Type: protowire.Fixed32Type, Fixed: 1 << 31},
		{Number: 4, Type: protowire.Fixed64Type, Fixed: 1 << 63},
		{Number: 5, Type: protowire.StartGroupType},
		{Number: 6, Type: protowire.BytesType, Bytes: []byte{}},
	}
	var got []Field
	for f, err := range All(message()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f)
	}
	if !slices.EqualFunc(got, want, equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !got[0].Is(1, protowire.VarintType) || got[0].Is(1, protowire.BytesType) || got[0].Is(2, protowire.VarintType) {
		t.Errorf("Is does not compare number and type of %v", got[0])
	}
}

func equal(a, b Field) bool {
	return a.Number == b.Number && a.Type == b.Type && a.Varint == b.Varint && a.Fixed == b.Fixed && bytes.Equal(a.Bytes, b.Bytes) &&
		(a.Bytes == nil) == (b.Bytes == nil)
}

func TestMalformedFieldHasItsOffset(t *testing.T) {
	b := message()
	fields := 0
	for _, err := range All(b[:4]) { // the second field, which begins at byte 3, is cut off
		if err == nil {
			fields++
			continue
		}
		var malformed *Error
		if !errors.As(err, &malformed) || malformed.Offset != 3 || !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != io.ErrUnexpectedEOF.Error() {
			t.Errorf("got %#v", err)
		}
	}
	if fields != 1 {
		t.Errorf("got %d fields before the error, want 1", fields)
	}
}

func TestVarints(t *testing.T) {
	for _, c := range []struct {
		field  Field
		want   []uint64
		offset int // of the error, or -1
	}{
		{Field{Type: protowire.VarintType, Varint: 7}, []uint64{7}, -1},
		{Field{Type: protowire.BytesType, Bytes: []byte{1, 0x80, 1}}, []uint64{1, 128}, -1},
		{Field{Type: protowire.BytesType, Bytes: []byte{}}, nil, -1},
		{Field{Type: protowire.BytesType, Bytes: []byte{1, 2, 0x80}}, []uint64{1, 2}, 2},
	} {
		var got []uint64
		offset := -1
		for v, err := range c.field.Varints() {
			var malformed *Error
			if errors.As(err, &malformed) {
				offset = malformed.Offset
			} else {
				got = append(got, v)
			}
		}
		if !slices.Equal(got, c.want) || offset != c.offset {
			t.Errorf("%v: got %v and an error at %d, want %v and %d", c.field, got, offset, c.want, c.offset)
		}
	}
}

func TestAllAllocatesNothing(t *testing.T) {
	b, sum := message(), uint64(0)
	n := testing.AllocsPerRun(100, func() {
		for f, err := range All(b) {
			if err != nil {
				t.Fatal(err)
			}
			if !f.Is(2, protowire.BytesType) {
				continue
			}
			for v, err := range f.Varints() {
				if err != nil {
					t.Fatal(err)
				}
				sum += v
			}
		}
	})
	if n > 0 {
		t.Errorf("reading a message allocates %v times", n)
	}
}

// FuzzAll checks that the fields and their values are those that protowire finds, and that both stop at the same byte.
func FuzzAll(f *testing.F) {
	f.Add(message())
	f.Add(message()[:20])
	f.Add([]byte{0x0c})
	f.Fuzz(func(t *testing.T, b []byte) {
		at := 0
		for got, err := range All(b) {
			number, kind, n := protowire.ConsumeField(b[at:])
			if err != nil {
				var malformed *Error
				if n >= 0 || !errors.As(err, &malformed) || malformed.Offset != at {
					t.Fatalf("%x: got %#v at byte %d, where protowire returns %d", b, err, at, n)
				}
				return
			}
			if n < 0 || got.Number != number || got.Type != kind {
				t.Fatalf("%x: got %v at byte %d, where protowire finds %d, %d, %d", b, got, at, number, kind, n)
			}
			_, _, head := protowire.ConsumeTag(b[at:])
			value := b[at+head : at+n]
			switch kind {
			case protowire.VarintType:
				if v, _ := protowire.ConsumeVarint(value); v != got.Varint {
					t.Fatalf("%x: got %v at byte %d", b, got, at)
				}
			case protowire.BytesType:
				if v, _ := protowire.ConsumeBytes(value); !bytes.Equal(v, got.Bytes) {
					t.Fatalf("%x: got %v at byte %d", b, got, at)
				}
			case protowire.Fixed32Type:
				if !bytes.Equal(value, protowire.AppendFixed32(nil, uint32(got.Fixed))) {
					t.Fatalf("%x: got %v at byte %d", b, got, at)
				}
			case protowire.Fixed64Type:
				if !bytes.Equal(value, protowire.AppendFixed64(nil, got.Fixed)) {
					t.Fatalf("%x: got %v at byte %d", b, got, at)
				}
			}
			at += n
		}
		if at != len(b) {
			t.Fatalf("%x: the fields end at byte %d", b, at)
		}
	})
}
