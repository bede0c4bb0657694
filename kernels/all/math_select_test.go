package all_test

import (
	"testing"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// TestSelectHandles checks that handles are selected like other elements, as a whole and one by one.
func TestSelectHandles(t *testing.T) {
	d := kt.NewDevice(t)
	handle := func(name string) *tensor.Tensor { return tensor.FromHandle(tensor.Handle{Name: name}) }
	for _, op := range []string{"Select", "SelectV2"} {
		for cond, want := range map[bool]string{true: "a", false: "b"} {
			out := d.Run(t, kt.Op{Type: op}, kt.Bool(nil, cond), handle("a"), handle("b"))[0]
			if got := out.Tensor.Handles()[0].Name; got != want {
				t.Errorf("%s of %v gives %s", op, cond, got)
			}
			out.Release()
		}
	}
}

// TestWhereOfScalar checks TensorFlow's error for a tensor without dimensions.
func TestWhereOfScalar(t *testing.T) {
	kt.Fails(t, kt.NewDevice(t), status.InvalidArgument, "Unhandled input dimensions: 0", kt.Op{Type: "Where"}, kt.Bool(nil, true))
}
