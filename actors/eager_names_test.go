package actors

import (
	"testing"

	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
)

// TestOtherTaskOfTheSameName: the handle of a resource keeps its task though the client calls that one as this task calls itself.
func TestOtherTaskOfTheSameName(t *testing.T) {
	other := taskName("a")
	main, ps, _, _ := clusterOf(t, eagerTask, other, ps1Task)
	ps.variable(10, other+"/device:CPU:0", "v", 1, 2)
	main.variable(20, eagerCPU, "v", 3, 4)
	main.run(away(op(30, "Identity", attr("T", "type: DT_RESOURCE"), "10:0"), 0, other+"/device:CPU:0", typespb.DataType_DT_RESOURCE))
	main.readVariable(31, eagerCPU, 30, 1, 2)
	main.readVariable(32, eagerCPU, 20, 3, 4)
	r := main.run(op(-1, "Identity", attr("T", "type: DT_RESOURCE"), "30:0"))
	got, err := tensor.FromTensorProto(r.Tensor[0], main.memory())
	if err != nil {
		t.Fatal(err)
	}
	defer got.Release()
	if have, want := got.Handles()[0].Device, other+"/device:CPU:0"; have != want {
		t.Errorf("the client is told that the variable is on %s, want %s", have, want)
	}
}
