package tensor

import (
	"bytes"
	"math/rand/v2"
	"testing"

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

// TestWire: every encoding of every dtype is read alike by the fast and the general way.
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
