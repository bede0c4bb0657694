package tensor

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	handlepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/resource_handle_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

func TestBuffersComeBack(t *testing.T) {
	pool := NewPool("test", 1<<20)
	for n := 0; n < 70000; n += 997 {
		a, err := New(pool, Uint8, Shape{int64(n)})
		if err != nil {
			t.Fatal(err)
		}
		b := a.Reshaped(Shape{1, int64(n)})
		if n > 16 && (a.Exclusive() || &a.Data()[0] != &b.Data()[0]) {
			t.Fatalf("%d bytes: a reshaped tensor must share memory", n)
		}
		a.Release()
		if !b.Exclusive() {
			t.Fatal("the last tensor on a buffer is its only user")
		}
		b.Release()
	}
	if s := pool.Stats(); s.InUse != 0 || s.Peak == 0 {
		t.Fatalf("after all releases: %+v", s)
	}
	pool.Trim()
	if pool.Trim(); pool.Stats().Idle != 0 {
		t.Fatalf("an idle pool keeps %d bytes after Trim", pool.Stats().Idle)
	}
}

func TestLimit(t *testing.T) {
	pool := NewPool("small", 1<<20)
	_, err := New(pool, Float32, Shape{1 << 20})
	if status.CodeOf(err) != status.ResourceExhausted {
		t.Fatalf("4 MiB from a pool of 1 MiB: %v", err)
	}
	if _, err = New(pool, Float32, Shape{1 << 40, 1 << 40}); status.CodeOf(err) != status.InvalidArgument {
		t.Fatalf("2^80 elements: %v", err)
	}
	if pool.Stats().InUse != 0 {
		t.Fatal("a refused allocation is still counted")
	}
}

func TestSizeClasses(t *testing.T) {
	for n := 1; n < 1<<20; n += 1 + n/7 {
		class, size := classOf(n)
		if size < n || n > 256 && size > n+n/4+1 {
			t.Fatalf("classOf(%d) = %d, %d", n, class, size)
		}
		if c, s := classOf(size); c != class || s != size {
			t.Fatalf("classOf(%d) = %d, %d but its size gives %d, %d", n, class, size, c, s)
		}
	}
}

// TestWire: the fast and the general path decode every encoding of every dtype alike.
func TestWire(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for d := range dtypes {
		if d == Variant || d == Resource {
			continue
		}
		for _, shape := range []Shape{nil, {0}, {3}, {2, 0, 4}, {2, 3, 1, 2, 1}} {
			a, err := New(Host, d, shape)
			if err != nil {
				t.Fatal(err)
			}
			for i := range a.data {
				a.data[i] = byte(r.Uint32()) & 1
			}
			if d == String {
				for i := range a.Strings() {
					a.Strings()[i] = string(rune('a' + i))
				}
			}
			head, content, err := a.AppendWire(nil)
			if err != nil {
				t.Fatal(err)
			}
			wire := append(head, content...)
			var p tensorpb.TensorProto
			if err := proto.Unmarshal(wire, &p); err != nil {
				t.Fatal(err)
			}
			slow, err := FromTensorProto(&p, Host)
			if err != nil {
				t.Fatal(err)
			}
			fast, err := ReadWire(NewBytes(wire), len(wire), Host)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range []*Tensor{slow, fast} {
				if b.DType() != d || !b.Shape().Equal(shape) || !bytes.Equal(a.data, b.data) {
					t.Fatalf("%v %v: came back as %v %v", d, shape, b.DType(), b.Shape())
				}
			}
			if d == String && len(shape) == 1 && shape[0] == 3 && fast.Strings()[2] != "c" {
				t.Fatal("strings", fast.Strings())
			}
		}
	}
}

// TestStringsOnTheWire: the fast and the general path decode strings alike, however many and long, in a field each or packed.
func TestStringsOnTheWire(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, given := range []int{0, 1, 2, 99, 100, 101, 300} {
		for _, longest := range []int{0, 3, 100, 2000} {
			list, fields := make([]string, given), make([][]byte, given)
			for n := range list {
				b := make([]byte, r.IntN(longest+1))
				for i := range b {
					b[i] = byte(r.Uint32())
				}
				list[n], fields[n] = string(b), b
			}
			for name, p := range map[string]*tensorpb.TensorProto{
				"fields":                    {StringVal: fields},
				"packed":                    {TensorContent: appendPacked(nil, list)},
				"packed, one byte too many": {TensorContent: append(appendPacked(nil, list), 'x')},
				"packed, and other fields":  {TensorContent: appendPacked(nil, list), StringVal: fields[:given/2]},
				"fields, and another":       {StringVal: fields, Uint32Val: []uint32{7}}, // which takes the general path
				"packed, and another":       {TensorContent: appendPacked(nil, list), Uint32Val: []uint32{7}},
			} {
				p.Dtype, p.TensorShape = typespb.DataType_DT_STRING, Shape{10, 10}.Proto()
				wire, err := proto.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				pool := NewPool("strings", 1<<20)
				slow, slowErr := FromTensorProto(p, pool)
				fast, err := ReadWire(NewBytes(wire), len(wire), pool)
				if status.CodeOf(err) != status.CodeOf(slowErr) || err == nil && !slices.Equal(fast.Strings(), slow.Strings()) {
					t.Errorf("%d strings of up to %d bytes in %s: %v, want %v", given, longest, name, err, slowErr)
				}
				if err == nil && (slow.Strings()[0] != fast.Strings()[0] || given > 0 && fast.Strings()[0] != list[0]) {
					t.Errorf("%d strings of up to %d bytes in %s: the first is %q", given, longest, name, fast.Strings()[0])
				}
				for _, got := range []*Tensor{slow, fast} {
					if got != nil {
						got.Release()
					}
				}
				if left := pool.Stats().InUse; left != 0 {
					t.Errorf("%d strings of up to %d bytes in %s: %d bytes stay counted", given, longest, name, left)
				}
			}
		}
	}
}

// manyStrings returns the strings of the benchmarks.
func manyStrings(b *testing.B) *Tensor {
	list := make([]string, 300_000)
	for i := range list {
		list[i] = "string number " + strconv.Itoa(i)
	}
	t, err := FromStrings(Shape{300_000}, list)
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func BenchmarkReadStrings(b *testing.B) {
	all := manyStrings(b)
	fields, err := all.Proto()
	if err != nil {
		b.Fatal(err)
	}
	apart, err := proto.Marshal(fields)
	if err != nil {
		b.Fatal(err)
	}
	head, content, err := all.AppendWire(nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, wire := range map[string][]byte{"packed": append(head, content...), "fields": apart} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := ReadWire(NewBytes(wire), len(wire), Host)
				if err != nil {
					b.Fatal(err)
				}
				t.Release()
			}
		})
	}
}

func BenchmarkWriteStrings(b *testing.B) {
	all := manyStrings(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := all.AppendWire(nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSplat(t *testing.T) {
	p := &tensorpb.TensorProto{Dtype: typespb.DataType_DT_FLOAT, TensorShape: Shape{5}.Proto(), FloatVal: []float32{1, 2}}
	a, err := FromTensorProto(p, Host)
	if err != nil {
		t.Fatal(err)
	}
	if got := Of[float32](a); got[1] != 2 || got[4] != 2 {
		t.Fatal(got)
	}
}

func TestStringsInContent(t *testing.T) {
	p := &tensorpb.TensorProto{Dtype: typespb.DataType_DT_STRING, TensorShape: Shape{3}.Proto(), TensorContent: []byte("\x01\x00\x02abc")}
	a, err := FromTensorProto(p, Host)
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Strings(); got[0] != "a" || got[1] != "" || got[2] != "bc" {
		t.Fatalf("%q", got)
	}
	for _, bad := range []string{"\x01\x00", "\x01\x00\x03abc", "\x01\x00\x02abcd", "\xff\xff\xff"} {
		p.TensorContent = []byte(bad)
		if _, err := FromTensorProto(p, Host); status.CodeOf(err) != status.InvalidArgument {
			t.Fatalf("%q: %v", bad, err)
		}
	}
}

func FuzzReadWire(f *testing.F) {
	a, _ := FromSlice(Float32, Shape{2, 2}, []float32{1, 2, 3, 4})
	head, content, _ := a.AppendWire(nil)
	f.Add(append(head, content...))
	f.Add([]byte{8, 1, 18, 4, 18, 2, 8, 255})
	for _, dtype := range []typespb.DataType{typespb.DataType_DT_FLOAT, typespb.DataType_DT_STRING, typespb.DataType_DT_RESOURCE, typespb.DataType_DT_VARIANT} {
		b, err := proto.Marshal(repeated(dtype, 1<<31))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	nested, err := proto.Marshal(&tensorpb.TensorProto{Dtype: typespb.DataType_DT_VARIANT, TensorShape: &shapepb.TensorShapeProto{}, VariantVal: []*tensorpb.VariantTensorDataProto{
		{TypeName: "tensorflow::TensorList", Metadata: []byte{0, 1, 1}, Tensors: []*tensorpb.TensorProto{repeated(typespb.DataType_DT_FLOAT, 1<<40)}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(nested)
	limitProcess(f, 64<<20)
	f.Fuzz(func(t *testing.T, b []byte) {
		pool := NewPool("fuzz", 1<<24)
		fast, err := ReadWire(NewBytes(b), len(b), pool)
		if err == nil {
			fast.Release()
		}
		if pool.Stats().InUse != 0 {
			t.Fatal("memory left")
		}
	})
}

// valued returns a message of type d with n values in the typed list.
func valued(d DType, shape *shapepb.TensorShapeProto, n int) *tensorpb.TensorProto {
	p := &tensorpb.TensorProto{Dtype: d.Proto(), TensorShape: shape}
	for i := range n {
		v := int32(i%2 + 1)
		switch d {
		case Float32:
			p.FloatVal = append(p.FloatVal, float32(v))
		case Float64:
			p.DoubleVal = append(p.DoubleVal, float64(v))
		case Float16, BFloat16:
			p.HalfVal = append(p.HalfVal, v)
		case Float8E5M2, Float8E4M3FN:
			p.ProtoReflect().SetUnknown(append(p.ProtoReflect().GetUnknown(), 18<<3&0x7f|2|0x80, 18>>4, 1, byte(v)))
		case Int64:
			p.Int64Val = append(p.Int64Val, int64(v))
		case Uint32:
			p.Uint32Val = append(p.Uint32Val, uint32(v))
		case Uint64:
			p.Uint64Val = append(p.Uint64Val, uint64(v))
		case Bool:
			p.BoolVal = append(p.BoolVal, v == 1)
		case Complex64:
			p.ScomplexVal = append(p.ScomplexVal, float32(v), 0)
		case Complex128:
			p.DcomplexVal = append(p.DcomplexVal, float64(v), 0)
		case String:
			p.StringVal = append(p.StringVal, []byte{byte(v)})
		case Resource:
			p.ResourceHandleVal = append(p.ResourceHandleVal, &handlepb.ResourceHandleProto{Name: string(v)})
		case Variant:
			p.VariantVal = append(p.VariantVal, &tensorpb.VariantTensorDataProto{TypeName: "valued", Metadata: []byte{byte(v)}})
		default:
			p.IntVal = append(p.IntVal, v)
		}
	}
	return p
}

// TestTypedLists: a message of any type may have more or fewer values than its shape has elements, and its shape may have an unknown rank.
func TestTypedLists(t *testing.T) {
	RegisterVariant("valued", func(d VariantData) (any, error) { return string(d.Metadata), nil })
	for d := range dtypes {
		for _, shape := range []*shapepb.TensorShapeProto{nil, {UnknownRank: true}, Shape{}.Proto(), Shape{0}.Proto(), Shape{1}.Proto(), Shape{2, 2}.Proto(), Shape{3, 0}.Proto()} {
			dims := dimsOf(shape)
			size, _ := dims.NumElements()
			exact, err := FromTensorProto(valued(d, shape, int(size)), Host)
			if err != nil {
				t.Fatalf("%v %v: %v", d, shape, err)
			}
			if !exact.Shape().Equal(dims) {
				t.Errorf("%v %v: the shape is %v", d, shape, exact.Shape())
			}
			for _, more := range []int{1, 2, 7} {
				p := valued(d, shape, int(size)+more)
				for name, read := range map[string]func() (*Tensor, error){
					"message": func() (*Tensor, error) { return FromTensorProto(p, Host) },
					"wire": func() (*Tensor, error) {
						b, err := proto.Marshal(p)
						if err != nil {
							t.Fatal(err)
						}
						return ReadWire(NewBytes(b), len(b), Host)
					},
				} {
					got, err := read()
					if err != nil {
						t.Errorf("%s of %v %v with %d values too many: %v", name, d, shape, more, err)
						continue
					}
					if !got.Shape().Equal(dims) || !bytes.Equal(got.data, exact.data) || !reflect.DeepEqual(got.elems, exact.elems) {
						t.Errorf("%s of %v %v with %d values too many has others", name, d, shape, more)
					}
					got.Release()
				}
			}
			exact.Release()
			// A tensor without elements has no content to read.
			empty := &tensorpb.TensorProto{Dtype: d.Proto(), TensorShape: shape, TensorContent: []byte("xyz")}
			if got, err := FromTensorProto(empty, Host); (err == nil) != (size == 0) && d != String && d.Size() != 3 {
				t.Errorf("%v %v with three bytes of content: %v, %v", d, shape, got, err)
			}
		}
	}
	negative := valued(Float32, Shape{-1}.Proto(), 0)
	if _, err := FromTensorProto(negative, Host); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a negative size: %v", err)
	}
	unknown := &tensorpb.TensorProto{Dtype: Variant.Proto(), VariantVal: []*tensorpb.VariantTensorDataProto{{TypeName: "no such type"}}}
	if _, err := FromTensorProto(unknown, Host); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a variant of a type that nobody registered: %v", err)
	}
	trap := &tensorpb.TensorProto{Dtype: Bool.Proto(), TensorShape: Shape{2}.Proto(), TensorContent: []byte{1, 2}}
	b, err := proto.Marshal(trap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadWire(NewBytes(b), len(b), Host); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a bool of 2 on the wire: %v", err)
	}
	if _, err := FromTensorProto(trap, Host); status.CodeOf(err) != status.InvalidArgument {
		t.Errorf("a bool of 2: %v", err)
	}
}

// A handle of TensorFlow's comes back to it with the hash by which TensorFlow checks the resource's type.
func TestHandleOfTensorFlow(t *testing.T) {
	p := &handlepb.ResourceHandleProto{Device: "/job:chief/replica:0/task:0/device:CPU:0", Container: "c", Name: "table", MaybeTypeName: "tensorflow::lookup::LookupInterface", HashCode: 1<<63 + 7}
	if back := HandleFromProto(p).Proto(); !proto.Equal(back, p) {
		t.Errorf("the handle came back as %v", back)
	}
}
