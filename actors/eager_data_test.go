package actors

import (
	"context"
	"fmt"
	"testing"

	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
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

// scaled multiplies an element by a variable, and counts the calls in another one.
const scaled = `
	signature { name: "__inference_Dataset_map_8" input_arg { name: "x" type: DT_INT64 } input_arg { name: "v" type: DT_RESOURCE } input_arg { name: "calls" type: DT_RESOURCE }
		output_arg { name: "y" type: DT_FLOAT } is_stateful: true control_output: "count" }
	node_def { name: "cast" op: "Cast" input: "x" attr { key: "SrcT" value { type: DT_INT64 } } attr { key: "DstT" value { type: DT_FLOAT } } }
	node_def { name: "read" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
	node_def { name: "mul" op: "Mul" input: "cast:y:0" input: "read:value:0" attr { key: "T" value { type: DT_FLOAT } } }
	node_def { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: 1 } } } }
	node_def { name: "count" op: "AssignAddVariableOp" input: "calls" input: "one:output:0" attr { key: "dtype" value { type: DT_FLOAT } } }
	ret { key: "y" value: "mul:z:0" }
	control_ret { key: "count" value: "count" }
`

// A dataset's function uses variables of two parameter servers: each of its calls runs on three tasks.
func TestEagerDatasetOverTasks(t *testing.T) {
	main, ps, ps1, calls := spreadCluster(t)
	ps.variable(100, psCPU, "v", 1, 2)
	ps1.variable(110, ps1CPU, "calls", 0)
	main.register(scaled)
	for id, v := range []int64{0, 1_000_000, 1} {
		main.sendTensor(int64(id), tensor.FromScalar(v))
	}
	numbers := attr("output_types", "list { type: DT_INT64 }") + attr("output_shapes", "list { shape { } }")
	elements := attr("output_types", "list { type: DT_FLOAT }") + attr("output_shapes", "list { shape { unknown_rank: true } }")
	main.run(op(10, "RangeDataset", numbers, "0:0", "1:0", "2:0"))
	mapped := op(11, "MapDataset", elements+attr("f", `func { name: "__inference_Dataset_map_8" }`)+attr("Targuments", "list { type: DT_RESOURCE type: DT_RESOURCE }"), "10:0", "100:0", "110:0")
	main.run(away(away(mapped, 1, psCPU, typespb.DataType_DT_RESOURCE), 2, ps1CPU, typespb.DataType_DT_RESOURCE))
	main.run(op(12, "AnonymousIteratorV3", elements))
	main.run(op(13, "MakeIterator", "", "11:0", "12:0"))
	// A dataset keeps the function that its client has forgotten.
	if err := main.RemoveFunction("__inference_Dataset_map_8"); err != nil {
		t.Fatal(err)
	}
	next := func(id int64) *corepb.Operation { return op(id, "IteratorGetNext", elements, "12:0") }
	for i := range int64(3) {
		main.run(next(20 + i))
		main.want(fmt.Sprintf("%d:0", 20+i), float32(i), 2*float32(i))
	}
	ps1.readVariable(120, ps1CPU, 110, 3)
	main.run(op(14, "AnonymousIteratorV3", elements))
	main.run(op(15, "MakeIterator", "", "11:0", "14:0"))
	main.run(op(24, "IteratorGetNext", elements, "14:0"))
	main.want("24:0", 0, 0)
	if n := calls.count("at " + psTask + " register"); n > 2 { // for the handle, and for the function, whichever iterator calls it
		t.Errorf("components were registered %d times", n)
	}
	t.Run("a task is lost", func(t *testing.T) {
		calls.failing(func(_ context.Context, item *corepb.QueueItem) error {
			if item == nil {
				return status.Errorf(status.Unavailable, "Socket closed")
			}
			return nil
		})
		_, err := main.Run(t.Context(), next(30))
		wantError(t, err, status.Unavailable, "Error in user-defined function", "Socket closed")
		calls.failing(nil)
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls.failing(func(ctx context.Context, item *corepb.QueueItem) error {
			if item != nil {
				return nil
			}
			cancel()
			<-ctx.Done()
			return status.From(ctx.Err())
		})
		_, err := main.Run(ctx, next(31))
		wantError(t, err, status.Cancelled)
		calls.failing(nil)
	})
	main.run(next(32))
	for _, task := range []string{psTask, ps1Task} {
		calls.wait("at "+task+" cleanup", 8) // of the dataset and seven calls
	}
	for _, c := range []*eagerClient{main, ps, ps1} {
		if n := len(c.node.task.eager.steps); n != 1 {
			t.Errorf("%s has %d steps", c.names.client, n)
		}
		c.close()
	}
}
