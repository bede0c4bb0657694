package sparse_test

import (
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestSparseOpsLikeTensorFlow(t *testing.T) {
	kt.LikeTensorFlow(t, "testdata/sparseops.jsonl.gz", func(c *kt.Case) bool {
		// TensorFlow's texts for sizes below 0 differ between ops.
		return !strings.Contains(c.Err, "negative")
	})
}

// A sparse tensor survives a round trip through strings, variants and a map, alone and in batches.
func TestSparseRoundTrips(t *testing.T) {
	d := kt.NewDevice(t)
	at, values, shape := kt.I64(kt.S(3, 2), 0, 1, 0, 2, 2, 0), kt.Str(kt.S(3), "a", "b", "c"), kt.I64(kt.S(2), 3, 4)
	for _, out := range []tensor.DType{tensor.String, tensor.Variant} {
		for _, op := range []string{"SerializeSparse", "SerializeManySparse"} {
			stored := d.Run(t, kt.Op{Type: op, Attrs: kt.Attrs{"out_type": out}}, at.Retain(), values.Retain(), shape.Retain())
			back := d.Run(t, kt.Op{Type: "DeserializeSparse", Attrs: kt.Attrs{"dtype": tensor.String}}, stored[0].Tensor)
			for i, want := range []*tensor.Tensor{at, values, shape} {
				if diff := kt.Diff(back[i].Tensor, want, 0); diff != "" {
					t.Errorf("%s to %v, output %d: %s", op, out, i, diff)
				}
				back[i].Release()
			}
		}
	}
	kept := kt.Attrs{"shared_name": "kept"}
	handles := d.Run(t, kt.Op{Type: "AddManySparseToTensorsMap", Attrs: kept}, at.Retain(), values.Retain(), shape.Retain())[0].Tensor
	take := kt.Op{Type: "TakeManySparseFromTensorsMap", Attrs: kt.Attrs{"shared_name": "kept", "dtype": tensor.String}}
	back := d.Run(t, take, handles.Retain())
	for i, want := range []*tensor.Tensor{at, values, shape} {
		if diff := kt.Diff(back[i].Tensor, want, 0); diff != "" {
			t.Errorf("from the map, output %d: %s", i, diff)
		}
		back[i].Release()
	}
	if _, err := d.Try(take, handles); err == nil || !strings.Contains(err.Error(), "Unable to find SparseTensor: 0 in map: kept") {
		t.Errorf("taking twice gives %v", err)
	}
}

// Values survive transfer to another process at any nesting.
func TestVariantsTravel(t *testing.T) {
	d := kt.NewDevice(t)
	list := d.Run(t, kt.Op{Type: "TensorListReserve", Attrs: kt.Attrs{"element_dtype": tensor.Float32, "shape_type": tensor.Int32}}, kt.I32(kt.S(1), 2), kt.I32(nil, 3))[0].Tensor
	list = d.Run(t, kt.Op{Type: "TensorListSetItem", Attrs: kt.Attrs{"element_dtype": tensor.Float32}}, list, kt.I32(nil, 1), kt.F32(kt.S(2), 5, 6))[0].Tensor
	nested := d.Run(t, kt.Op{Type: "OptionalFromValue", Attrs: kt.Attrs{"Toutput_types": []tensor.DType{tensor.Variant}}}, list)[0].Tensor
	head, content, err := nested.AppendWire(nil)
	if err != nil {
		t.Fatal(err)
	}
	wire := append(head, content...)
	got, err := tensor.ReadWire(tensor.NewBytes(wire), len(wire), d.Pool())
	if err != nil {
		t.Fatal(err)
	}
	nested.Release()
	list = d.Run(t, kt.Op{Type: "OptionalGetValue", Attrs: kt.Attrs{"output_types": []tensor.DType{tensor.Variant}, "output_shapes": []tensor.Shape{nil}}}, got)[0].Tensor
	stack := d.Run(t, kt.Op{Type: "TensorListStack", Attrs: kt.Attrs{"element_dtype": tensor.Float32, "num_elements": 3}}, list, kt.I32(nil, -1))[0].Tensor
	if diff := kt.Diff(stack, kt.F32(kt.S(3, 2), 0, 0, 5, 6, 0, 0), 0); diff != "" {
		t.Error(diff)
	}
	stack.Release()
}

// FuzzReadVariant checks that inconsistent state is rejected, and that nothing of it is kept.
func FuzzReadVariant(f *testing.F) {
	l := kt.F32(kt.S(2), 1, 2)
	head, content, err := l.AppendWire(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(head, content...))
	f.Add([]byte("\x08\x15\x12\x00\x7a\x1f\x0a\x16tensorflow::TensorList\x12\x05\x01\x00\x01\x00\x18\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := kt.NewDevice(t)
		if got, err := tensor.ReadWire(tensor.NewBytes(b), len(b), d.Pool()); err == nil {
			got.Release()
		}
	})
}
