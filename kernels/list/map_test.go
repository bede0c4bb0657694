package list_test

import (
	"testing"

	protos "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
	"google.golang.org/protobuf/proto"
)

// maps runs ops on maps of tensors.
type maps struct {
	*testing.T
	d *kt.Device
}

func (m maps) op(name string, key, value tensor.DType) kt.Op {
	return kt.Op{Type: name, Attrs: kt.Attrs{"key_dtype": key, "value_dtype": value, "T": tensor.Variant, "N": 2}, Outputs: 1}
}

func (m maps) run(name string, value tensor.DType, inputs ...any) *tensor.Tensor {
	m.Helper()
	key := tensor.Int32
	if len(inputs) > 1 {
		key = inputs[1].(*tensor.Tensor).DType()
	}
	return m.d.Run(m.T, m.op(name, key, value), inputs...)[0].Tensor
}

func (m maps) size(of *tensor.Tensor, want int32) {
	m.Helper()
	got := m.run("TensorMapSize", 0, of.Retain())
	defer got.Release()
	if n := tensor.Of[int32](got)[0]; n != want {
		m.Errorf("the map has %d keys, not %d", n, want)
	}
}

func (m maps) lookup(in, key, want *tensor.Tensor) {
	m.Helper()
	got := m.run("TensorMapLookup", want.DType(), in.Retain(), key)
	defer got.Release()
	if d := kt.Diff(got, want, 0); d != "" {
		m.Error(d)
	}
	want.Release()
}

func TestTensorMap(t *testing.T) {
	m := maps{t, kt.NewDevice(t)}
	a := m.run("EmptyTensorMap", 0)
	defer a.Release()
	b := m.run("TensorMapInsert", tensor.Float32, a.Retain(), kt.I32(nil, 1), kt.F32(kt.S(2), 1, 2))
	c := m.run("TensorMapInsert", tensor.String, b.Retain(), kt.I32(nil, 2), kt.Str(nil, "v"))
	d := m.run("TensorMapInsert", tensor.Int64, c.Retain(), kt.I32(nil, 1), kt.I64(nil, 7))
	e := m.run("TensorMapErase", tensor.Int64, d.Retain(), kt.I32(nil, 1))
	for _, x := range []*tensor.Tensor{b, c, d, e} {
		defer x.Release()
	}
	for i, x := range []*tensor.Tensor{a, b, c, d, e} {
		m.size(x, []int32{0, 1, 2, 2, 1}[i])
	}
	m.lookup(b, kt.I32(nil, 1), kt.F32(kt.S(2), 1, 2))
	m.lookup(d, kt.I32(nil, 1), kt.I64(nil, 7))
	m.lookup(e, kt.I32(nil, 2), kt.Str(nil, "v"))
	kt.Expect(t, m.d.Run(t, m.op("TensorMapHasKey", tensor.Int64, 0), b.Retain(), kt.I64(nil, 1)), kt.Bool(nil, false))
	kt.Expect(t, m.d.Run(t, m.op("TensorMapHasKey", tensor.Int32, 0), b.Retain(), kt.I32(nil, 1)), kt.Bool(nil, true))
	kt.Expect(t, m.d.Run(t, m.op("TensorMapStackKeys", tensor.Int32, 0), d.Retain()), kt.I32(kt.S(2), 1, 2))

	kt.Fails(t, m.d, status.InvalidArgument, `Trying to lookup non-existent key. Could not find key "5".`, m.op("TensorMapLookup", tensor.Int32, tensor.String), b.Retain(), kt.I32(nil, 5))
	kt.Fails(t, m.d, status.InvalidArgument, `Trying to erase non-existent item. Could not find key "zz".`, m.op("TensorMapErase", tensor.String, tensor.String), b.Retain(), kt.Str(nil, "zz"))
	kt.Fails(t, m.d, status.InvalidArgument, "TensorMapStackKeys cannot be called on empty map.", m.op("TensorMapStackKeys", tensor.Int32, 0), a.Retain())
	kt.Fails(t, m.d, status.InvalidArgument, "Key does not match requested dtype.", m.op("TensorMapStackKeys", tensor.Float32, 0), b.Retain())
	kt.Fails(t, m.d, status.InvalidArgument, "but type string is expected", m.op("TensorMapLookup", tensor.Int32, tensor.String), b.Retain(), kt.I32(nil, 1))

	zeros := m.run("ZerosLike", 0, c.Retain())
	defer zeros.Release()
	m.size(zeros, 0)
	sum := m.d.Run(t, m.op("AddN", 0, 0), b.Retain(), b.Retain())[0].Tensor
	defer sum.Release()
	m.lookup(sum, kt.I32(nil, 1), kt.F32(kt.S(2), 2, 4))
	m.lookup(b, kt.I32(nil, 1), kt.F32(kt.S(2), 1, 2))
	kt.Fails(t, m.d, status.InvalidArgument, "Trying to add unsupported dtype 7", m.op("AddN", 0, 0), e.Retain(), e.Retain())
}

// TestTensorMapInPlace checks that a map without other references is modified, not copied.
func TestTensorMapInPlace(t *testing.T) {
	m := maps{t, kt.NewDevice(t)}
	x := m.run("EmptyTensorMap", 0)
	same := x.Variants()[0]
	for i := range int32(100) {
		x = m.run("TensorMapInsert", tensor.Int32, x, kt.I32(nil, i), kt.I32(nil, -i))
	}
	for i := range int32(50) {
		x = m.run("TensorMapErase", tensor.Int32, x, kt.I32(nil, 2*i))
	}
	if x.Variants()[0] != same {
		t.Error("the map was copied")
	}
	for i := range int32(50) {
		m.lookup(x, kt.I32(nil, 2*i+1), kt.I32(nil, -2*i-1))
	}
	m.size(x, 50)
	x.Release()
}

func TestCompositeVariant(t *testing.T) {
	d := kt.NewDevice(t)
	metadata := func(class protos.TypeSpecProto_TypeSpecClass) string {
		b, err := proto.Marshal(&protos.CompositeTensorVariantMetadata{TypeSpecProto: &protos.TypeSpecProto{TypeSpecClass: class}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	ragged, sparse := metadata(protos.TypeSpecProto_RAGGED_TENSOR_SPEC), metadata(protos.TypeSpecProto_SPARSE_TENSOR_SPEC)
	types := []tensor.DType{tensor.Int32, tensor.String}
	op := func(name, metadata string, types ...tensor.DType) kt.Op {
		return kt.Op{Type: "CompositeTensorVariant" + name, Attrs: kt.Attrs{"metadata": metadata, "Tcomponents": types}, Outputs: len(types)}
	}
	from := op("FromComponents", ragged, types...)
	from.Outputs = 1
	v := d.Run(t, from, kt.I32(kt.S(2), 1, 2), kt.Str(nil, "s"))[0].Tensor
	defer v.Release()
	kt.Expect(t, d.Run(t, op("ToComponents", ragged, types...), v.Retain()), kt.I32(kt.S(2), 1, 2), kt.Str(nil, "s"))
	kt.Fails(t, d, status.InvalidArgument, "Expected a SPARSE_TENSOR_SPEC (based on `type_spec`), but `encoded` contains a RAGGED_TENSOR_SPEC", op("ToComponents", sparse, types...), v.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Encoded value has 2 tensor components; expected 1 components based on type_spec", op("ToComponents", ragged, tensor.Int32), v.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Tensor component 1 had dtype DT_STRING; expected dtype DT_INT32", op("ToComponents", ragged, tensor.Int32, tensor.Int32), v.Retain())
	text := "Variant<type: CompositeTensorVariant value: <CompositeTensorVariant type=RAGGED_TENSOR_SPEC, components=[Tensor<type: int32 shape: [2] values: 1 2>, Tensor<type: string shape: [] values: s>]>>"
	kt.Expect(t, d.Run(t, kt.Op{Type: "AsString", Attrs: kt.Attrs{"T": tensor.Variant}, Outputs: 1}, v.Retain()), kt.Str(nil, text))
	m := d.Run(t, kt.Op{Type: "EmptyTensorMap", Outputs: 1})[0].Tensor
	kt.Fails(t, d, status.InvalidArgument, "The input `encoded` is not a valid CompositeTensorVariant tensor, got Tensor<type: variant shape: [] values: <TensorMap>>", op("ToComponents", ragged, types...), m)
	kt.Fails(t, d, status.InvalidArgument, "Error parsing metadata", kt.Op{Type: from.Type, Attrs: kt.Attrs{"metadata": "\xff\xff", "Tcomponents": types}, Outputs: 1}, kt.I32(nil, 1), kt.Str(nil, "s"))
}
