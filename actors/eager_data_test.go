package actors

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// twice is the function of a dataset's elements.
const twice = `
	signature { name: "__inference_Dataset_map_7" input_arg { name: "x" type: DT_INT64 } output_arg { name: "y" type: DT_INT64 } }
	node_def { name: "add" op: "AddV2" input: "x" input: "x" attr { key: "T" value { type: DT_INT64 } } }
	ret { key: "y" value: "add:z:0" }
`

// A dataset is made op by op, as TensorFlow 2 does, and read through an iterator that ends with its handle.
func TestEagerDataset(t *testing.T) {
	net := newNetwork(t, "a")
	c := newEager(t, net.node(taskName("a")), EagerSpec{ID: 1})
	c.register(twice)
	wide := func(id, v int64) { c.sendTensor(id, tensor.FromScalar(v)) }
	wide(1, 0)
	wide(2, 3)
	wide(3, 1)
	elements := attr("output_types", "list { type: DT_INT64 }") + attr("output_shapes", "list { shape { } }")
	c.run(op(10, "RangeDataset", elements, "1:0", "2:0", "3:0"))
	c.run(op(11, "MapDataset", elements+attr("f", `func { name: "__inference_Dataset_map_7" }`)+attr("Targuments", "list { }"), "10:0"))
	c.run(op(12, "AnonymousIteratorV3", elements))
	c.run(op(13, "MakeIterator", "", "11:0", "12:0"))
	for i := range int64(3) {
		c.run(op(20+i, "IteratorGetNext", elements, "12:0"))
		v, _ := c.handles.get(handleKey{20 + i, 0})
		if got := tensor.Of[int64](v)[0]; got != 2*i {
			t.Errorf("element %d is %d", i, got)
		}
		v.Release()
	}
	_, err := c.Run(t.Context(), op(23, "IteratorGetNext", elements, "12:0"))
	wantError(t, err, status.OutOfRange, "End of sequence")
	for _, h := range []string{"10:0", "11:0", "12:0"} {
		if err := c.Decref(handle(h)); err != nil {
			t.Error(err)
		}
	}
	if len(c.handles.leases) != 0 {
		t.Errorf("the containers %v are still leased", c.handles.leases)
	}
	// A copy of the handle keeps the iterator.
	c.run(op(14, "AnonymousIteratorV3", elements))
	c.run(op(15, "Identity", "", "14:0"))
	if err := c.Decref(handle("14:0")); err != nil {
		t.Error(err)
	}
	c.run(op(10, "RangeDataset", elements, "1:0", "2:0", "3:0"))
	c.run(op(16, "MakeIterator", "", "10:0", "15:0"))
	c.run(op(17, "IteratorGetNext", elements, "15:0"))

	c.run(op(30, "AnonymousMutableHashTable", attr("key_dtype", "type: DT_INT64")+attr("value_dtype", "type: DT_INT64")))
	c.run(op(31, "LookupTableInsertV2", "", "30:0", "1:0", "2:0"))
	c.run(op(32, "LookupTableFindV2", attr("Tin", "type: DT_INT64")+attr("Tout", "type: DT_INT64"), "30:0", "1:0", "3:0"))
	v, _ := c.handles.get(handleKey{32, 0})
	defer v.Release()
	if got := tensor.Of[int64](v)[0]; got != 3 {
		t.Errorf("found %d", got)
	}
}
