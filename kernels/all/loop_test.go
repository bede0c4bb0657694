package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

func TestStack(t *testing.T) {
	for _, version := range []string{"", "V2"} {
		t.Run("Stack"+version, func(t *testing.T) {
			d := kt.NewDevice(t)
			attrs := kt.Attrs{"elem_type": tensor.Float32, "stack_name": "s"}
			var inputs []any
			if version == "V2" {
				inputs = []any{kt.I32(nil, 2)}
			}
			made := d.Run(t, kt.Op{Type: "Stack" + version, Attrs: attrs}, inputs...)[0]
			handle := func() any {
				if made.Ref != nil {
					return made.Ref
				}
				return made.Tensor.Retain()
			}
			defer made.Release()
			x := kt.Iota[float32](tensor.Float32, kt.S(20))
			push, pop := kt.Op{Type: "StackPush" + version}, kt.Op{Type: "StackPop" + version, Attrs: attrs}
			kt.Expect(t, d.Run(t, push, handle(), x.Retain()), x)
			kt.Expect(t, d.Run(t, push, handle(), kt.F32(nil, 1)), kt.F32(nil, 1))
			if version == "V2" {
				kt.Fails(t, d, status.InvalidArgument, "overflowed its max_size (2)", push, handle(), kt.F32(nil, 1))
			}
			kt.Fails(t, d, status.InvalidArgument, "Must have type float but got int32", push, handle(), kt.I32(nil, 1))
			kt.Expect(t, d.Run(t, pop, handle()), kt.F32(nil, 1))
			kt.Expect(t, d.Run(t, pop, handle()), x)
			kt.Fails(t, d, status.InvalidArgument, "is empty when calling Pop()", pop, handle())
			d.Run(t, kt.Op{Type: "StackClose" + version}, handle())
			kt.Fails(t, d, status.InvalidArgument, "has already been closed", pop, handle())
			if !x.Exclusive() {
				t.Error("a reference was kept")
			}
		})
	}
}

func TestTensorArray(t *testing.T) {
	d := kt.NewDevice(t)
	flow := kt.F32(nil, 0)
	attrs := func(more kt.Attrs) kt.Attrs {
		a := kt.Attrs{"dtype": tensor.Float32, "element_shape": kt.Unknown{}, "element_shape_except0": kt.Unknown{}, "source": "gradients"}
		for k, v := range more {
			a[k] = v
		}
		return a
	}
	array := func(size int32, more kt.Attrs) *tensor.Tensor {
		t.Helper()
		made := d.Run(t, kt.Op{Type: "TensorArrayV3", Attrs: attrs(more)}, kt.I32(nil, size))
		made[1].Release()
		return made[0].Tensor
	}
	op := func(name string) kt.Op { return kt.Op{Type: "TensorArray" + name, Attrs: attrs(nil)} }
	run := func(name string, inputs ...any) []kernels.Value {
		t.Helper()
		return d.Run(t, op(name), inputs...)
	}
	row := kt.Iota[float32](tensor.Float32, kt.S(20))

	a := array(2, nil)
	kt.Expect(t, run("WriteV3", a.Retain(), kt.I32(nil, 1), row.Retain(), flow.Retain()), flow)
	kt.Fails(t, d, status.InvalidArgument, "because it has already been written to", op("WriteV3"), a.Retain(), kt.I32(nil, 1), row.Retain(), flow.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Tried to write to index 2 but array is not resizeable and size is: 2", op("WriteV3"), a.Retain(), kt.I32(nil, 2), row.Retain(), flow.Retain())
	kt.Fails(t, d, status.InvalidArgument, "TensorArray dtype is float but Op is trying to write dtype int32", op("WriteV3"), a.Retain(), kt.I32(nil, 0), kt.I32(nil, 0), flow.Retain())
	kt.Fails(t, d, status.InvalidArgument, "the element shape is not fully defined", op("ReadV3"), a.Retain(), kt.I32(nil, 0), flow.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Tried to read from index -1 but array size is: 2", op("ReadV3"), a.Retain(), kt.I32(nil, -1), flow.Retain())
	kt.Expect(t, run("SizeV3", a.Retain(), flow.Retain()), kt.I32(nil, 2))

	// Gradients of one index are added; where there are none, they are zeros of the value's shape.
	grad := func() *tensor.Tensor {
		g := run("GradV3", a.Retain(), flow.Retain())
		g[1].Release()
		return g[0].Tensor
	}
	g := grad()
	again := grad()
	kt.Expect(t, run("ReadV3", again, kt.I32(nil, 1), flow.Retain()), kt.F32(kt.S(20), make([]float32, 20)...))
	d2 := array(2, kt.Attrs{"clear_after_read": true})
	run("WriteV3", d2.Retain(), kt.I32(nil, 0), row.Retain(), flow.Retain())
	made := run("GradV3", d2.Retain(), flow.Retain())
	g2 := made[0].Tensor
	for range 2 {
		run("WriteV3", g2.Retain(), kt.I32(nil, 0), row.Retain(), flow.Retain())
	}
	twice := make([]float32, 20)
	for i := range twice {
		twice[i] = 2 * float32(i)
	}
	kt.Expect(t, run("ReadV3", g2, kt.I32(nil, 0), flow.Retain()), kt.F32(kt.S(20), twice...))
	kt.Expect(t, run("ReadV3", d2.Retain(), kt.I32(nil, 0), flow.Retain()), row)
	kt.Fails(t, d, status.InvalidArgument, "twice because it was cleared", op("ReadV3"), d2, kt.I32(nil, 0), flow.Retain())
	kt.Fails(t, d, status.InvalidArgument, "Wrong input container. _tensor_array_grads", op("GradV3"), g, flow.Retain())

	matrix := kt.Iota[float32](tensor.Float32, kt.S(3, 20))
	b := array(0, kt.Attrs{"dynamic_size": true, "clear_after_read": false, "identical_element_shapes": true})
	kt.Expect(t, run("ScatterV3", b.Retain(), kt.I32(kt.S(3), 0, 1, 2), matrix.Retain(), flow.Retain()), flow)
	kt.Expect(t, run("GatherV3", b.Retain(), kt.I32(kt.S(3), 0, 1, 2), flow.Retain()), matrix)
	kt.Expect(t, run("ConcatV3", b.Retain(), flow.Retain()), kt.Iota[float32](tensor.Float32, kt.S(60)), kt.I64(kt.S(3), 20, 20, 20))
	kt.Fails(t, d, status.InvalidArgument, "incompatible with the TensorArray's inferred element shape: [20]", op("WriteV3"), b.Retain(), kt.I32(nil, 3), kt.F32(nil, 0), flow.Retain())
	run("CloseV3", b.Retain())
	kt.Fails(t, d, status.InvalidArgument, "has already been closed", op("SizeV3"), b, flow.Retain())

	c := array(2, nil)
	kt.Fails(t, d, status.InvalidArgument, "Max scatter index must be < array size (2 vs. 2)", op("ScatterV3"), c.Retain(), kt.I32(kt.S(3), 0, 1, 2), matrix.Retain(), flow.Retain())
	kt.Expect(t, run("SplitV3", c.Retain(), matrix.Retain(), kt.I64(kt.S(2), 1, 2), flow.Retain()), flow)
	kt.Expect(t, run("ConcatV3", c.Retain(), flow.Retain()), matrix, kt.I64(kt.S(2), 1, 2))
	kt.Fails(t, d, status.InvalidArgument, "sum of lengths is 2", op("SplitV3"), c, matrix.Retain(), kt.I64(kt.S(2), 1, 1), flow.Retain())
	a.Release()
	for _, v := range made[1:] {
		v.Release()
	}
	if !row.Exclusive() {
		if err := d.Resources().Clear(kt.NewStep().Container); err != nil {
			t.Fatal(err)
		}
		if !row.Exclusive() {
			t.Error("a reference was kept")
		}
	}
}

// TestOldTensorArrays checks that the ops of the first two versions work like those of the third, with strings as handles.
func TestOldTensorArrays(t *testing.T) {
	for _, version := range []string{"", "V2"} {
		t.Run("TensorArray"+version, func(t *testing.T) {
			d := kt.NewDevice(t)
			attrs := kt.Attrs{"dtype": tensor.Float32, "element_shape": kt.Unknown{}, "element_shape_except0": kt.Unknown{}, "source": "gradients"}
			op := func(name string) kt.Op { return kt.Op{Type: "TensorArray" + name, Attrs: attrs} }
			handles := func(made kernels.Value) func() any {
				return func() any {
					if made.Ref != nil {
						return made.Ref
					}
					return made.Tensor.Retain()
				}
			}
			made := d.Run(t, op(version), kt.I32(nil, 3))[0]
			defer made.Release()
			array, flow := handles(made), kt.F32(nil, 0)
			matrix := kt.Iota[float32](tensor.Float32, kt.S(3, 2))
			kt.Expect(t, d.Run(t, op("Unpack"), array(), matrix.Retain(), flow.Retain()), flow)
			kt.Fails(t, d, status.InvalidArgument, "first dimension equal to the array size (1 vs. 3)", op("Unpack"), array(), kt.F32(kt.S(1, 2), 1, 2), flow.Retain())
			kt.Expect(t, d.Run(t, op("Size"+version), array(), flow.Retain()), kt.I32(nil, 3))

			grad := d.Run(t, op("Grad"+version), array(), flow.Retain())[0]
			defer grad.Release()
			kt.Expect(t, d.Run(t, op("Write"+version), handles(grad)(), kt.I32(nil, 1), kt.F32(kt.S(2), 7, 8), flow.Retain()), flow)
			kt.Expect(t, d.Run(t, op("Pack"), handles(grad)(), flow.Retain()), kt.F32(kt.S(3, 2), 0, 0, 7, 8, 0, 0))

			kt.Expect(t, d.Run(t, op("Read"+version), array(), kt.I32(nil, 0), flow.Retain()), kt.F32(kt.S(2), 0, 1))
			d.Run(t, op("Close"+version), array())
			kt.Fails(t, d, status.InvalidArgument, "has already been closed", op("Gather"+version), array(), kt.I32(kt.S(1), 0), flow.Retain())
			kt.Fails(t, d, status.InvalidArgument, "must be 2-element vector, but had shape: [1]", op("Concat"+version), kt.Str(kt.S(1), "x"), flow.Retain())
			kt.Fails(t, d, status.NotFound, "other", op("Concat"+version), kt.Str(kt.S(2), "_tensor_arrays", "other"), flow.Retain())
		})
	}
}
