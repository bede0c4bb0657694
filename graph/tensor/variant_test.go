package tensor

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/extent"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// twice is a variant that holds one tensor twice.
type twice struct{ t *Tensor }

func (v twice) Retain()  { v.t.Retain() }
func (v twice) Release() { v.t.Release() }
func (v twice) Portable() VariantData {
	return VariantData{Type: "twice", Tensors: []*Tensor{v.t, v.t}}
}

// TestVariantsThatShare: a variant with several holders is written once for each of them; the limit is checked before that is done.
func TestVariantsThatShare(t *testing.T) {
	v, err := Zeros(Host, Uint8, Shape{256})
	if err != nil {
		t.Fatal(err)
	}
	for range 18 { // 2¹⁸ variants
		outer, err := New(Host, Variant, nil)
		if err != nil {
			t.Fatal(err)
		}
		outer.Variants()[0] = twice{v}
		v = outer
	}
	defer v.Release()
	limitProcess(t, 32<<20)
	before := Host.Stats().InUse
	t.Run("until it ends", func(t *testing.T) {
		met := 0
		ended := func() error {
			if met++; met > 2 {
				return status.New(status.Cancelled, "enough")
			}
			return nil
		}
		for name, walk := range map[string]func() error{
			"Leaves":          func() error { return v.Leaves(ended) },
			"ProtoUntil":      func() error { _, err := v.ProtoUntil(ended); return err },
			"AppendWireUntil": func() error { _, _, err := v.AppendWireUntil(nil, ended); return err },
			"PackedVariants":  func() error { _, err := v.PackedVariants(ended); return err },
		} {
			if met = 0; status.CodeOf(walk()) != status.Cancelled || met != 3 {
				t.Errorf("%s looked %d times", name, met)
			}
		}
	})
	for name, walk := range map[string]func() error{
		"Leaves":         func() error { return v.Leaves(nil) },
		"Proto":          func() error { _, err := v.Proto(); return err },
		"AppendWire":     func() error { _, _, err := v.AppendWire(nil); return err },
		"PackedVariants": func() error { _, err := v.PackedVariants(nil); return err },
	} {
		t.Run(name, func(t *testing.T) {
			wantExhausted(t, walk())
			if n := Host.Stats().InUse; n != before {
				t.Errorf("%d bytes count after the walk, before it %d", n, before)
			}
		})
	}
}

// holder is a variant of any parts.
type holder VariantData

func (h holder) Portable() VariantData { return VariantData(h) }

// randomNest returns a tensor of variants, and of what they may hold.
func randomNest(t *testing.T, rng *rand.Rand, depth int) *Tensor {
	t.Helper()
	shape := make(Shape, rng.IntN(3))
	for i := range shape {
		shape[i] = int64(rng.IntN(4))
	}
	dtypes := []DType{Float32, Bool, String, Resource, Variant, Variant, Variant}
	if depth == 0 {
		dtypes = dtypes[:4]
	}
	v, err := Zeros(Host, dtypes[rng.IntN(len(dtypes))], shape)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Len() {
		switch v.DType() {
		case String:
			v.Strings()[i] = string(make([]byte, rng.IntN(300)))
		case Resource:
			v.Handles()[i] = Handle{Device: "d", Name: "n", DType: Float32, Shape: shape, KnownShape: true}
		case Variant:
			if rng.IntN(5) == 0 {
				continue
			}
			h := holder{Type: []string{"", "T"}[rng.IntN(2)], Metadata: make([]byte, rng.IntN(3))}
			for range rng.IntN(3) {
				h.Tensors = append(h.Tensors, randomNest(t, rng, depth-1))
			}
			v.Variants()[i] = h
		}
	}
	return v
}

// TestEncodingOfVariants compares the encodings of random variants with those of the messages that hold the same.
func TestEncodingOfVariants(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	deterministic := proto.MarshalOptions{Deterministic: true}
	marshal := func(m proto.Message) []byte {
		t.Helper()
		b, err := deterministic.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for range 300 {
		v := randomNest(t, rng, 4)
		if v.DType() != Variant {
			continue
		}
		p, err := v.Proto()
		if err != nil {
			t.Fatal(err)
		}
		head, content, err := v.AppendWire([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Concat(head, content); !bytes.Equal(got, append([]byte("before"), marshal(p)...)) {
			t.Fatalf("%v: %d bytes differ from those of the message", p, len(got))
		}
		var sizes, messages []byte
		for _, m := range p.VariantVal {
			b := marshal(m)
			sizes, messages = protowire.AppendVarint(sizes, uint64(len(b))), append(messages, b...)
		}
		packed := marshal(&tensorpb.TensorProto{Dtype: p.Dtype, TensorShape: p.TensorShape, TensorContent: append(sizes, messages...)})
		got, err := v.PackedVariants(nil)
		if err != nil || !bytes.Equal(got, packed) {
			t.Fatalf("%v: %d packed bytes differ from those of the message, %v", p, len(got), err)
		}
	}
}

// TestManyVariants encodes as many variants as a tensor may hold, nested or not. The time and the memory grow with their number alone.
func TestManyVariants(t *testing.T) {
	nested := Scalar(Int32, int32(1))
	for range 19 { // 2¹⁹ variants
		outer, err := New(Host, Variant, nil)
		if err != nil {
			t.Fatal(err)
		}
		outer.Variants()[0] = twice{nested}
		nested = outer
	}
	flat, err := New(Host, Variant, Shape{maxVariants})
	if err != nil {
		t.Fatal(err)
	}
	deep := Scalar(Int32, int32(1))
	for range maxVariantDepth {
		outer, err := New(Host, Variant, nil)
		if err != nil {
			t.Fatal(err)
		}
		outer.Variants()[0] = holder{Tensors: []*Tensor{deep}}
		deep = outer
	}
	many, err := New(Host, Variant, Shape{maxVariants / maxVariantDepth})
	if err != nil {
		t.Fatal(err)
	}
	for i := range flat.Variants() {
		flat.Variants()[i] = holder{Type: "T"}
	}
	for i := range many.Variants() {
		many.Variants()[i] = deep.Variants()[0]
	}
	for name, v := range map[string]*Tensor{"nested": nested, "flat": flat, "deep": many} {
		begun, bytes := time.Now(), 0
		allocated := testing.AllocsPerRun(1, func() {
			head, content, err := v.AppendWire(nil)
			if err != nil {
				t.Error(err)
			}
			bytes = len(head) + len(content)
		})
		// Portable makes a slice for a variant; nothing else is allocated for each.
		if took := time.Since(begun) / 2; took > extent.Slack(time.Second) || allocated > maxVariants+1000 {
			t.Errorf("%s: %d bytes took %v and %.0f allocations", name, bytes, took, allocated)
		}
		t.Log(name, time.Since(begun)/2, bytes, allocated)
	}
	// A tensor that is there many times is not copied without a bound.
	large, err := New(Host, Uint8, Shape{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	flat.Variants()[0] = holder{Tensors: []*Tensor{large}}
	for i := range 1 << 13 {
		flat.Variants()[i] = flat.Variants()[0]
	}
	limitProcess(t, 64<<20)
	for name, encode := range map[string]func() error{
		"Proto":      func() error { _, err := flat.Proto(); return err },
		"AppendWire": func() error { _, _, err := flat.AppendWire(nil); return err },
	} {
		if err := encode(); status.CodeOf(err) != status.ResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
	}
}
