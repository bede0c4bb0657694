package list_test

import (
	"errors"
	"testing"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestTensorList(t *testing.T) {
	d := kt.NewDevice(t)
	f32 := kt.Attrs{"element_dtype": tensor.Float32, "shape_type": tensor.Int32}
	run := func(op string, inputs ...any) []kernels.Value {
		t.Helper()
		return d.Run(t, kt.Op{Type: op, Attrs: f32, Outputs: 1}, inputs...)
	}
	list := func(op string, inputs ...any) *tensor.Tensor {
		t.Helper()
		return run(op, inputs...)[0].Tensor
	}
	row := func(from float32) *tensor.Tensor {
		values := make([]float32, 20)
		for i := range values {
			values[i] = from + float32(i)
		}
		return kt.F32(kt.S(20), values...)
	}
	any20, unknown := kt.I32(kt.S(1), 20), kt.I32(nil, -1)
	matrix := kt.Iota[float32](tensor.Float32, kt.S(3, 20))

	// A stack: the last element pushed is popped first, and pushing on a shared list leaves the other references unchanged.
	empty := list("EmptyTensorList", any20.Retain(), kt.I32(nil, -1))
	one := list("TensorListPushBack", empty.Retain(), row(0))
	two := list("TensorListPushBack", one.Retain(), row(20))
	kt.Expect(t, run("TensorListLength", empty), kt.I32(nil, 0))
	kt.Expect(t, run("TensorListLength", one), kt.I32(nil, 1))
	popped := run("TensorListPopBack", two.Retain(), any20.Retain())
	kt.Expect(t, popped[1:], row(20))
	kt.Expect(t, run("TensorListLength", popped[0].Tensor), kt.I32(nil, 1))
	three := list("TensorListPushBack", two, row(40))
	kt.Expect(t, run("TensorListStack", three.Retain(), unknown.Retain()), matrix)
	kt.Expect(t, run("TensorListGather", three.Retain(), kt.I32(kt.S(2), 2, 0), any20.Retain()), kt.Of(tensor.Float32, kt.S(2, 20), append(tensor.Of[float32](row(40)), tensor.Of[float32](row(0))...)...))
	kt.Expect(t, run("TensorListElementShape", three.Retain()), any20)
	concat := run("TensorListConcatV2", three.Retain(), unknown.Retain(), kt.I64(kt.S(0)))
	kt.Expect(t, concat, kt.Iota[float32](tensor.Float32, kt.S(60)), kt.I64(kt.S(3), 20, 20, 20))
	kt.Fails(t, d, status.InvalidArgument, "incompatible shape", kt.Op{Type: "TensorListPushBack", Attrs: f32}, three.Retain(), kt.F32(nil, 1))
	kt.Fails(t, d, status.InvalidArgument, "Invalid data types", kt.Op{Type: "TensorListPushBack", Attrs: f32}, three.Retain(), kt.I32(nil, 1))
	kt.Fails(t, d, status.InvalidArgument, "Incompatible shapes during merge: [21] vs. [20]", kt.Op{Type: "TensorListStack", Attrs: f32}, three.Retain(), kt.I32(kt.S(1), 21))
	three.Release()

	// An array: elements can be set in any order; missing ones are read as zeros.
	array := list("TensorListReserve", unknown.Retain(), kt.I32(nil, 2))
	kt.Fails(t, d, status.InvalidArgument, "uninitialized", kt.Op{Type: "TensorListGetItem", Attrs: f32}, array.Retain(), kt.I32(nil, 0), unknown.Retain())
	array = list("TensorListSetItem", array, kt.I32(nil, 1), row(5))
	kt.Expect(t, run("TensorListGetItem", array.Retain(), kt.I32(nil, 1), unknown.Retain()), row(5))
	kt.Expect(t, run("TensorListGetItem", array.Retain(), kt.I32(nil, 0), unknown.Retain()), kt.F32(kt.S(20), make([]float32, 20)...))
	for _, i := range []int32{-1, 2} {
		kt.Fails(t, d, status.InvalidArgument, "Trying to access element", kt.Op{Type: "TensorListGetItem", Attrs: f32}, array.Retain(), kt.I32(nil, i), unknown.Retain())
		kt.Fails(t, d, status.InvalidArgument, "Trying to modify element", kt.Op{Type: "TensorListSetItem", Attrs: f32}, array.Retain(), kt.I32(nil, i), row(0))
	}
	array = list("TensorListResize", array, kt.I32(nil, 1))
	array = list("TensorListScatterIntoExistingList", array, kt.Iota[float32](tensor.Float32, kt.S(2, 20)), kt.I32(kt.S(2), 2, 0))
	kt.Expect(t, run("TensorListStack", list("ZerosLike", array.Retain()), unknown.Retain()), kt.F32(kt.S(3, 20), make([]float32, 60)...))
	joined := list("TensorListConcatLists", array.Retain(), array)
	kt.Expect(t, run("TensorListLength", joined), kt.I32(nil, 6))

	// Tensors are split into lists and joined again; variant tensors hold lists like any element.
	parts := list("TensorListFromTensor", matrix.Retain(), any20.Retain())
	pair := d.Run(t, kt.Op{Type: "Pack", Outputs: 1}, parts.Retain(), parts)[0].Tensor
	pair = list("TensorListPushBackBatch", pair, kt.Iota[float32](tensor.Float32, kt.S(2, 20)))
	second := d.Run(t, kt.Op{Type: "StridedSlice", Attrs: kt.Attrs{"shrink_axis_mask": 1}, Outputs: 1}, pair, kt.I32(kt.S(1), 1), kt.I32(kt.S(1), 2), kt.I32(kt.S(1), 1))[0].Tensor
	kt.Expect(t, run("TensorListGetItem", second.Retain(), kt.I32(nil, 3), any20.Retain()), row(20))
	kt.Expect(t, run("TensorListLength", second), kt.I32(nil, 4))
	split := list("TensorListSplit", kt.Iota[float32](tensor.Float32, kt.S(60)), kt.I32(kt.S(1), -1), kt.I64(kt.S(2), 20, 40))
	kt.Expect(t, run("TensorListGetItem", split, kt.I32(nil, 0), unknown.Retain()), row(0))
	spread := list("TensorListScatterV2", matrix.Retain(), kt.I32(kt.S(3), 4, 0, 2), any20.Retain(), kt.I32(nil, -1))
	kt.Expect(t, run("TensorListGetItem", spread.Retain(), kt.I32(nil, 0), any20.Retain()), row(20))
	kt.Expect(t, run("TensorListLength", spread), kt.I32(nil, 5))
	kt.Fails(t, d, status.InvalidArgument, "Unused values in tensor. Length of tensor: 3 Values used: 2", kt.Op{Type: "TensorListSplit", Attrs: f32}, kt.F32(kt.S(3), 1, 2, 3), unknown.Retain(), kt.I64(kt.S(1), 2))
	kt.Fails(t, d, status.InvalidArgument, "Input handle is not a list", kt.Op{Type: "TensorListLength"}, variant())
	kt.Fails(t, d, status.ResourceExhausted, "OOM", kt.Op{Type: "TensorListReserve", Attrs: f32}, unknown.Retain(), kt.I32(nil, 1<<31-1))
}

func variant() *tensor.Tensor {
	v, err := tensor.New(tensor.Host, tensor.Variant, nil)
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkTensorList pushes and pops in place, at a cost that does not depend on the length.
func BenchmarkTensorList(b *testing.B) {
	d := kt.NewDevice(b)
	op := kt.Op{Type: "TensorListPushBack", Attrs: kt.Attrs{"element_dtype": tensor.Float32}, Outputs: 1}
	list := d.Run(b, kt.Op{Type: "EmptyTensorList", Attrs: op.Attrs}, kt.I32(nil, -1), kt.I32(nil, -1))[0].Tensor
	k, err := d.Kernel(op, list, kt.F32(nil, 1))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := k.Try(kt.Values(list, kt.F32(nil, 1))...)
		if err != nil {
			b.Fatal(err)
		}
		list = out[0].Tensor
	}
	list.Release()
}

func TestVariants(t *testing.T) {
	d := kt.NewDevice(t)
	f32 := kt.Attrs{"element_dtype": tensor.Float32, "Toutput_types": []tensor.DType{tensor.Float32}, "output_types": []tensor.DType{tensor.Float32},
		"output_shapes": []tensor.Shape{kt.S(-1)}}
	run := func(op string, inputs ...any) *tensor.Tensor {
		t.Helper()
		return d.Run(t, kt.Op{Type: op, Attrs: f32, Outputs: 1}, inputs...)[0].Tensor
	}
	row := kt.Iota[float32](tensor.Float32, kt.S(20))
	list := func(elems ...*tensor.Tensor) *tensor.Tensor {
		l := run("EmptyTensorList", kt.I32(nil, -1), kt.I32(nil, -1))
		for _, e := range elems {
			l = run("TensorListPushBack", l, e.Retain())
		}
		return l
	}
	sum := run("AddN", list(row), list(row), list(row))
	twice := run("TensorListGetItem", sum, kt.I32(nil, 0), kt.I32(nil, -1))
	if tensor.Of[float32](twice)[5] != 15 {
		t.Errorf("three times 5 is %v", tensor.Of[float32](twice)[5])
	}
	twice.Release()
	kt.Fails(t, d, status.InvalidArgument, "different lengths. One is 1 and the other is 2", kt.Op{Type: "AddN"}, list(row), list(row, row))

	some := run("OptionalFromValue", row.Retain())
	kt.Expect(t, d.Run(t, kt.Op{Type: "OptionalHasValue"}, some.Retain()), kt.Bool(nil, true))
	both := run("AddN", some.Retain(), run("ZerosLike", some))
	kt.Expect(t, d.Run(t, kt.Op{Type: "OptionalGetValue", Attrs: f32}, both), row)
	none := run("OptionalNone")
	kt.Expect(t, d.Run(t, kt.Op{Type: "OptionalHasValue"}, none.Retain()), kt.Bool(nil, false))
	kt.Fails(t, d, status.InvalidArgument, "The given optional does not have a value.", kt.Op{Type: "OptionalGetValue", Attrs: f32}, none.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Input to OptionalHasValue must be an OptionalVariant", kt.Op{Type: "OptionalHasValue"}, list())
	none.Release()

	// The nesting of lists is limited.
	variants := kt.Attrs{"element_dtype": tensor.Variant}
	deep := list()
	for level := range 1000 {
		outer := d.Run(t, kt.Op{Type: "EmptyTensorList", Attrs: variants}, kt.I32(nil, -1), kt.I32(nil, -1))[0].Tensor
		out, err := d.Try(kt.Op{Type: "TensorListPushBack", Attrs: variants}, outer, deep)
		if err != nil {
			if status.CodeOf(err) != status.ResourceExhausted || level < 90 {
				t.Errorf("level %d: %v", level, err)
			}
			return
		}
		deep = out[0].Tensor
	}
	deep.Release()
	t.Error("lists nest without an end")
}

// TestScalarVariants checks that constants may hold numbers in variants, which can be added and have zeros.
func TestScalarVariants(t *testing.T) {
	d := kt.NewDevice(t)
	of := func(name string, elements ...[]byte) *tensor.Tensor {
		t.Helper()
		p := &tensorpb.TensorProto{Dtype: tensor.Variant.Proto()}
		if len(elements) != 1 {
			p.TensorShape = kt.S(int64(len(elements))).Proto()
		}
		for _, b := range elements {
			p.VariantVal = append(p.VariantVal, &tensorpb.VariantTensorDataProto{TypeName: name, Metadata: b})
		}
		v, err := tensor.FromTensorProto(p, d.Pool())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	text := func(v *tensor.Tensor) string {
		t.Helper()
		out := d.Run(t, kt.Op{Type: "StringFormat", Attrs: kt.Attrs{"template": "{}", "placeholder": "{}", "summarize": 9}}, v)[0].Tensor
		defer out.Release()
		return out.Strings()[0]
	}
	for _, c := range []struct {
		name, zero, value, sum string
		bytes                  []byte
	}{
		{"int", "<0>", "<7>", "<14>", []byte{7, 0, 0, 0}},
		{"int", "<0>", "<2147483647>", "<-2>", []byte{255, 255, 255, 127}},
		{"float", "<0>", "<1.25>", "<2.5>", []byte{0, 0, 0xa0, 0x3f}},
		{"double", "<0>", "<0.1>", "<0.2>", []byte{0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f}},
		{"bool", "<0>", "<1>", "<1>", []byte{5}},
	} {
		one := of(c.name, c.bytes)
		sum := d.Run(t, kt.Op{Type: "AddN"}, one.Retain(), one.Retain())[0].Tensor
		zeros := d.Run(t, kt.Op{Type: "ZerosLike"}, of(c.name, c.bytes, c.bytes))[0].Tensor
		p, err := sum.Proto()
		if err != nil {
			t.Fatal(err)
		}
		again, err := tensor.FromTensorProto(p, d.Pool())
		if err != nil {
			t.Fatal(err)
		}
		for got, want := range map[string]string{text(one): c.value, text(sum): c.sum, text(zeros): "[" + c.zero + " " + c.zero + "]", text(again): c.sum} {
			if got != want {
				t.Errorf("%s: %s, not %s", c.name, got, want)
			}
		}
	}
	seven := []byte{7, 0, 0, 0}
	pair := of("int", seven, seven)
	alone := d.Run(t, kt.Op{Type: "AddN"}, pair.Retain())[0].Tensor
	if got := text(alone); got != "[<7> <7>]" {
		t.Errorf("the sum of one tensor is %s", got)
	}
	empty := func() *tensor.Tensor { return of("", nil) }
	kt.Fails(t, d, status.InvalidArgument, "AddN of non-scalar Tensor with dtype=DT_VARIANT is not supported; inputs[0 has shape: [2].", kt.Op{Type: "AddN"}, pair.Retain(), pair)
	kt.Fails(t, d, status.Internal, "Variants a and b have different type ids.  Type names: 'int' vs. 'float'", kt.Op{Type: "AddN"}, of("int", seven), of("float", seven))
	kt.Fails(t, d, status.Internal, "No unary variant binary_op function found for op ADD Variant type_name: ''", kt.Op{Type: "AddN"}, empty(), empty())
	kt.Fails(t, d, status.Internal, "No unary variant unary_op function found for op ZEROS_LIKE Variant type_name: ", kt.Op{Type: "ZerosLike"}, empty())
	kt.Fails(t, d, status.Internal, "No unary variant unary_op function found for op CONJ Variant type_name: int", kt.Op{Type: "Conj"}, of("int", seven))
}

// TestVariantsOfCancelledSteps cancels ops on a list that is visited once for each reference to it, which may never end.
func TestVariantsOfCancelledSteps(t *testing.T) {
	d := kt.NewDevice(t)
	list := d.Run(t, kt.Op{Type: "EmptyTensorList", Attrs: kt.Attrs{"element_dtype": tensor.Variant, "shape_type": tensor.Int32}}, kt.I32(nil, -1), kt.I32(nil, -1))[0].Tensor
	for range 60 {
		whole := d.Run(t, kt.Op{Type: "EmptyTensorList", Attrs: kt.Attrs{"element_dtype": tensor.Variant, "shape_type": tensor.Int32}}, kt.I32(nil, -1), kt.I32(nil, -1))[0].Tensor
		for range 2 {
			whole = d.Run(t, kt.Op{Type: "TensorListPushBack", Attrs: kt.Attrs{"element_dtype": tensor.Variant}}, whole, list.Retain())[0].Tensor
		}
		list.Release()
		list = whole
	}
	defer list.Release()
	for op, inputs := range map[string]int{"ZerosLike": 1, "AddN": 2} {
		step := kt.NewStep()
		step.Cancellation.Cancel(status.New(status.Cancelled, "enough"))
		all := make([]any, inputs)
		for i := range all {
			all[i] = list.Retain()
		}
		if _, err := d.Try(kt.Op{Type: op, Step: step}, all...); !errors.Is(err, step.Cancellation.Err()) {
			t.Errorf("%s: %v", op, err)
		}
	}
}
