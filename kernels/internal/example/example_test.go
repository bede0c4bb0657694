package example

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/example/examplepb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

var inline = Run{Pool: tensor.Host, Parallel: func(n, _ int, body func(lo, hi int)) { body(0, n) }}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wantedFeatures returns one feature of each kind.
func wantedFeatures() Features {
	return Features{
		Dense:  []Dense{{"x", tensor.Int64, tensor.Shape{2}}, {"y", tensor.Float32, tensor.Shape{-1}}},
		Sparse: []Sparse{{"z", tensor.String}},
		Ragged: []Ragged{{"w", tensor.Int64, tensor.Int64}},
	}
}

// lists are the values of the features above, as text.
type lists struct{ x, y, z, w []string }

// oracle parses an Example with the compiled messages. ok is false if that fails or if values do not fit.
func oracle(message []byte) (l lists, ok bool) {
	if proto.Unmarshal(message, &examplepb.Example{}) != nil {
		return l, false
	}
	l.x = []string{"7", "8"} // the default
	entriesOf(message, 1, func(features []byte) {
		entriesOf(features, 1, func(entry []byte) {
			key, value := "", []byte(nil)
			entriesOf(entry, 1, func(b []byte) { key = string(b) })
			entriesOf(entry, 2, func(b []byte) { value = b })
			to, dense := map[string]*[]string{"x": &l.x, "y": &l.y, "z": &l.z, "w": &l.w}[key], key == "x" || key == "y"
			if to == nil || dense && len(value) == 0 {
				return
			}
			*to = append([]string{string(value)}, "wire")
		})
	})
	for _, c := range []struct {
		to   *[]string
		kind string
	}{{&l.x, "i"}, {&l.y, "f"}, {&l.z, "s"}, {&l.w, "i"}} {
		if len(*c.to) == 2 && (*c.to)[1] == "wire" {
			feature := &examplepb.Feature{}
			if proto.Unmarshal([]byte((*c.to)[0]), feature) != nil {
				return l, false
			}
			kind, values := textOf(feature)
			if kind != c.kind && (kind != "" || (*c.to)[0] != "") {
				return l, false
			}
			*c.to = values
		}
	}
	return l, len(l.x) == 2
}

// entriesOf calls visit with the content of each field with the given number.
func entriesOf(message []byte, number protowire.Number, visit func([]byte)) {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(num, typ, message[n:])
		if num == number && typ == protowire.BytesType {
			b, _ := protowire.ConsumeBytes(message[n:])
			visit(b)
		}
		message = message[n+size:]
	}
}

func textOf(f *examplepb.Feature) (kind string, values []string) {
	switch k := f.Kind.(type) {
	case *examplepb.Feature_BytesList:
		for _, v := range k.BytesList.GetValue() {
			values = append(values, string(v))
		}
		return "s", values
	case *examplepb.Feature_FloatList:
		for _, v := range k.FloatList.GetValue() {
			values = append(values, fmt.Sprint(v))
		}
		return "f", values
	case *examplepb.Feature_Int64List:
		for _, v := range k.Int64List.GetValue() {
			values = append(values, fmt.Sprint(v))
		}
		return "i", values
	}
	return "", nil
}

// text returns a tensor's elements as text.
func text(t *tensor.Tensor) []string {
	var all []string
	switch t.DType() {
	case tensor.String:
		return append(all, t.Strings()...)
	case tensor.Float32:
		for _, v := range tensor.Of[float32](t) {
			all = append(all, fmt.Sprint(v))
		}
	default:
		for _, v := range tensor.Of[int64](t) {
			all = append(all, fmt.Sprint(v))
		}
	}
	return all
}

// sameAsOracle compares the parser's results for a message, alone and in a batch, with the oracle's.
func sameAsOracle(t *testing.T, message []byte) (compared bool) {
	t.Helper()
	defaults := []*tensor.Tensor{must(tensor.FromSlice(tensor.Int64, tensor.Shape{2}, []int64{7, 8})), tensor.Scalar(tensor.Float32, float32(0.5))}
	p := must(New(wantedFeatures()))
	one, errOne := p.One(inline, string(message), defaults)
	batch, errBatch := p.Batch(inline, []string{string(message), ""}, nil, defaults)
	if (errOne == nil) != (errBatch == nil) {
		t.Fatalf("%q: alone %v, in a batch %v", message, errOne, errBatch)
	}
	if errOne == nil {
		defer one.Release()
		defer batch.Release()
	}
	want, ok := oracle(message)
	if !ok {
		return false // a message may be malformed in parts that are skipped
	}
	if errOne != nil {
		t.Fatalf("%q: %v", message, errOne)
	}
	for _, c := range []struct {
		name      string
		one       *tensor.Tensor
		in, batch []string
	}{
		{"x", one.Dense[0], want.x, append(slices.Clone(want.x), "7", "8")},
		{"y", one.Dense[1], want.y, append(slices.Clone(want.y), slices.Repeat([]string{"0.5"}, len(want.y))...)},
		{"z", one.Values[0], want.z, want.z},
		{"w", one.RaggedValues[0], want.w, want.w},
	} {
		inBatch := map[string]*tensor.Tensor{"x": batch.Dense[0], "y": batch.Dense[1], "z": batch.Values[0], "w": batch.RaggedValues[0]}[c.name]
		if got := text(c.one); !slices.Equal(got, c.in) {
			t.Errorf("%q: %s is %q, want %q", message, c.name, got, c.in)
		}
		if got := text(inBatch); !slices.Equal(got, c.batch) {
			t.Errorf("%q: in a batch %s is %q, want %q", message, c.name, got, c.batch)
		}
	}
	if got := text(batch.Splits[0]); !slices.Equal(got, []string{"0", fmt.Sprint(len(want.w)), fmt.Sprint(len(want.w))}) {
		t.Errorf("%q: the splits are %q", message, got)
	}
	return true
}

// random returns an Example in one of its many equivalent encodings.
func random(rng *rand.Rand) []byte {
	var message []byte
	for range 1 + rng.IntN(2) {
		var features []byte
		for range rng.IntN(6) {
			value := randomFeature(rng)
			key := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), []string{"x", "y", "z", "w", "q"}[rng.IntN(5)])
			entry := append(key, field(2, value)...)
			if rng.IntN(4) == 0 {
				entry = append(field(2, value), key...)
			}
			features = append(append(features, stray(rng)...), field(1, entry)...)
		}
		message = append(append(message, stray(rng)...), field(1, features)...)
	}
	return message
}

func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// stray sometimes returns an unknown field.
func stray(rng *rand.Rand) []byte {
	switch rng.IntN(12) {
	case 0:
		return protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), rng.Uint64())
	case 1:
		return field(100, []byte("abc"))
	case 2:
		return protowire.AppendFixed64(protowire.AppendTag(nil, 7, protowire.Fixed64Type), 1)
	}
	return nil
}

func randomFeature(rng *rand.Rand) []byte {
	var feature []byte
	for range []int{0, 1, 1, 1, 1, 1, 2}[rng.IntN(7)] {
		kind := 1 + rng.IntN(3)
		var list []byte
		for range rng.IntN(3) {
			list = append(list, stray(rng)...)
			packed := rng.IntN(2) == 0
			n := 1 + rng.IntN(3)
			var pack []byte
			for range n {
				switch {
				case kind == 1:
					list = append(list, field(1, bytes.Repeat([]byte{'v'}, rng.IntN(20)))...)
				case kind == 2 && packed:
					pack = protowire.AppendFixed32(pack, rng.Uint32()>>2)
				case kind == 2:
					list = protowire.AppendFixed32(protowire.AppendTag(list, 1, protowire.Fixed32Type), rng.Uint32()>>2)
				case packed:
					pack = protowire.AppendVarint(pack, rng.Uint64()>>rng.IntN(64))
				default:
					list = protowire.AppendVarint(protowire.AppendTag(list, 1, protowire.VarintType), rng.Uint64()>>rng.IntN(64))
				}
			}
			if kind != 1 && packed {
				list = append(list, field(1, pack)...)
			}
		}
		feature = append(append(feature, stray(rng)...), field(protowire.Number(kind), list)...)
	}
	return feature
}

func TestAsCompiledMessages(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 6000 {
		m := random(rng)
		if sameAsOracle(t, m) {
			compared++
		}
		if len(m) > 0 && rng.IntN(2) == 0 { // and corrupt it sometimes
			m[rng.IntN(len(m))] ^= 1 << rng.IntN(8)
			sameAsOracle(t, m[:rng.IntN(len(m)+1)])
		}
	}
	if compared < 1000 {
		t.Errorf("only %d messages had values to compare", compared)
	}
}

func FuzzAsCompiledMessages(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(random(rng))
	}
	f.Fuzz(func(t *testing.T, message []byte) { sameAsOracle(t, message) })
}

// A small string must not keep a large message in memory; a large one must not be copied.
func TestSmallPartsAreCopied(t *testing.T) {
	message := string(bytes.Repeat([]byte("m"), 100))
	if s := own(message[:10], len(message)); unsafe.StringData(s) == unsafe.StringData(message) || s != message[:10] {
		t.Error("a small part is not copied")
	}
	if s := own(message[:60], len(message)); unsafe.StringData(s) != unsafe.StringData(message) || len(s) != 60 {
		t.Error("a large part is copied")
	}
}

func TestSizesAreCheckedBeforeMemoryIsTaken(t *testing.T) {
	var f Features
	for i := range 1 << 10 {
		f.Sparse = append(f.Sparse, Sparse{fmt.Sprint(i), tensor.Int64})
	}
	p := must(New(f))
	if _, err := p.Batch(inline, make([]string, 1<<18), nil, nil); err == nil {
		t.Error("a batch of 2^28 features is parsed")
	}
	s := must(NewSequence(f, Features{}))
	if _, _, err := s.Parse(inline, SequenceInput{Serialized: make([]string, 1<<18), Batch: true}); err == nil {
		t.Error("a batch of 2^28 features of contexts is parsed")
	}
}

func BenchmarkBatch(b *testing.B) {
	feature := func(list proto.Message, number protowire.Number) []byte {
		return field(number, must(proto.Marshal(list)))
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var batch []string
	for range 128 {
		var features []byte
		add := func(key string, value []byte) {
			features = append(features, field(1, append(field(1, []byte(key)), field(2, value)...))...)
		}
		floats := make([]float32, 64)
		ints := make([]int64, 32)
		for i := range floats {
			floats[i] = rng.Float32()
		}
		for i := range ints {
			ints[i] = rng.Int64N(1 << 20)
		}
		add("y", feature(&examplepb.FloatList{Value: floats}, 2))
		add("w", feature(&examplepb.Int64List{Value: ints}, 3))
		add("x", feature(&examplepb.Int64List{Value: ints[:2]}, 3))
		add("z", feature(&examplepb.BytesList{Value: [][]byte{[]byte("label"), []byte("other")}}, 1))
		batch = append(batch, string(field(1, features)))
	}
	p := must(New(wantedFeatures()))
	defaults := []*tensor.Tensor{must(tensor.New(tensor.Host, tensor.Int64, tensor.Shape{0})), tensor.Scalar(tensor.Float32, float32(0))}
	b.SetBytes(int64(len(batch) * len(batch[0])))
	b.ReportAllocs()
	for b.Loop() {
		must(p.Batch(inline, batch, nil, defaults)).Release()
	}
}
