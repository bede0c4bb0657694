package train

import (
	"slices"
	"strings"
	"testing"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/status"
)

// model returns a loss of two variables on different tasks, one of them read by rows.
func model() (s *op.Scope, loss op.Output, w, table *op.Variable) {
	s = op.NewScope()
	w = op.NewVariable(s.WithDevice("/job:ps/task:0").WithName("w"), op.Const(s, []float32{1, 2}))
	table = op.NewVariable(s.WithDevice("/job:ps/task:1").WithName("table"), op.Const(s, [][]float64{{1, 2}, {3, 4}}))
	op.NewVariable(s.WithName("other"), op.Const(s, float32(0)))
	rows := op.Cast(s, table.Gather(s, op.Const(s, []int32{1, 1})), w.DType())
	return s, op.L2Loss(s, op.Mul(s, rows, w.Read(s))), w, table
}

// TestSlots: optimizers' variables have TensorFlow's names and are on the devices of the variables that they belong to. The updates of
// variables of different types form a graph that a master accepts.
func TestSlots(t *testing.T) {
	for _, c := range []struct {
		by   Optimizer
		want string
	}{
		{NewSGD(0.1), ""},
		{NewMomentum(0.1, 0.9), "w/Momentum@0 table/Momentum@1"},
		{NewAdagrad(0.1), "w/Adagrad@0 table/Adagrad@1"},
		{NewRMSProp(0.1), "w/RMSProp@0 w/RMSProp_1@0 table/RMSProp@1 table/RMSProp_1@1"},
		{&RMSProp{state: newState(0.1), Centered: true}, "w/RMSProp@0 w/RMSProp_1@0 w/RMSProp_2@0 table/RMSProp@1 table/RMSProp_1@1 table/RMSProp_2@1"},
		{NewAdam(0.1), "beta1_power@0 beta2_power@0 w/Adam@0 w/Adam_1@0 table/Adam@1 table/Adam_1@1"},
		{NewAdamW(0.1), "beta1_power@0 beta2_power@0 w/Adam@0 w/Adam_1@0 table/Adam@1 table/Adam_1@1"},
		{NewFTRL(0.1), "w/Ftrl@0 w/Ftrl_1@0 table/Ftrl@1 table/Ftrl_1@1"},
	} {
		s, loss, w, _ := model()
		before := len(s.Variables())
		// The scope's device is not that of the updates.
		at := s.WithDevice("/job:worker/task:3")
		first := Minimize(at, c.by, loss, Clipped(1))
		second := Minimize(at, c.by, op.Square(s, loss), Only(w)) // reuses the same variables
		def, err := s.GraphDef()
		if err != nil {
			t.Fatalf("%T: %v", c.by, err)
		}
		if _, err := graph.Build(def); err != nil {
			t.Fatalf("%T: %v", c.by, err)
		}
		if first == nil || second == nil {
			t.Errorf("%T gave no operation", c.by)
		}
		var got []string
		for _, v := range s.Variables()[before:] {
			device := v.Handle().Op.Device()
			task, on := strings.CutPrefix(device, "/job:ps/task:")
			if !on {
				t.Errorf("%T: %s is on %s", c.by, v.Name(), device)
			}
			got = append(got, v.Name()+"@"+task)
		}
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%T has the variables %v, not %v", c.by, got, want)
		}
		for _, o := range s.Operations() {
			if strings.Contains(o.Type(), "Apply") && !strings.HasPrefix(o.Device(), "/job:ps/") {
				t.Errorf("%T: %s runs on %s", c.by, o.Name(), o.Device())
			}
		}
	}
}

func TestNothingToTrain(t *testing.T) {
	s := op.NewScope()
	op.NewVariable(s, op.Const(s, float32(1)))
	if o := Minimize(s, NewSGD(0.1), op.Const(s, float32(2))); o != nil {
		t.Error("an operation trains nothing")
	}
	if err := s.Err(); status.CodeOf(err) != status.InvalidArgument || !strings.Contains(err.Error(), "train_test.go:") {
		t.Errorf("error %v", err)
	}
}
