package all_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	kt "github.com/troupe-run/troupe/kernels/kernelstest"
)

// changes are small inputs of the ops without goldens that change a part of their first input, a variable, or all of it.
func changes() (list []golden) {
	add := func(op string, attrs kt.Attrs, inputs ...*tensor.Tensor) {
		list = append(list, golden{node: &nodepb.NodeDef{Op: op, Attr: attrs.Proto()}, inputs: inputs})
	}
	matrix, other, ids := kt.F32(kt.S(3, 2), 1, 2, 3, 4, 5, 6), kt.F32(kt.S(3, 2), 7, 9, 2, 3, 8, 4), kt.I32(kt.S(3), 0, 2, 1)
	texts, words := kt.Str(kt.S(3, 2), "a", "b", "c", "d", "e", "f"), kt.Str(kt.S(3, 2), "g", "h", "i", "j", "k", "l")
	for _, prefix := range []string{"", "Resource"} {
		attrs := kt.Attrs{"dtype": tensor.Float32}
		for _, op := range []string{"Add", "Sub", "Mul", "Div", "Min", "Max", "Update"} {
			add(prefix+"Scatter"+op, attrs, matrix, ids, other)
			add(prefix+"Scatter"+op, attrs, matrix, ids, kt.F32(nil, 3))
			if op != "Mul" && op != "Div" {
				add(prefix+"ScatterNd"+op, nil, matrix, kt.I32(kt.S(3, 1), 0, 2, 1), other)
			}
		}
		add(prefix+"ScatterUpdate", kt.Attrs{"dtype": tensor.String}, texts, ids, words)
		add(prefix+"StridedSliceAssign", nil, matrix, kt.I32(kt.S(2), 0, 0), kt.I32(kt.S(2), 4*manyRows, 1), kt.I32(kt.S(2), 1, 1), kt.F32(nil, 7))
		add(prefix+"StridedSliceAssign", nil, texts, kt.I32(kt.S(2), 0, 0), kt.I32(kt.S(2), 4*manyRows, 1), kt.I32(kt.S(2), 1, 1), kt.Str(nil, "x"))
		add(prefix+"CountUpTo", kt.Attrs{"limit": 9}, kt.I32(nil, 3))
	}
	for _, op := range []string{"Assign", "AssignAdd", "AssignSub"} {
		add(op, nil, matrix, other)
		add(op+"VariableOp", kt.Attrs{"dtype": tensor.Float32}, matrix, other)
	}
	add("SdcaShrinkL1", kt.Attrs{"num_features": 1, "l1": 0.5, "l2": 0.5}, matrix)
	return list
}

// manyRows and someRows are enlarged sizes of a dimension: enough for several parts of a loop over rows, and of a loop over elements.
const manyRows, someRows = 250_007, 100_003

// TestVariablesAreNotHalfUpdated ends steps while an op changes variables: it must then have changed all of its variables, or none, whatever
// the step's other kernels do when it ends. Each op that changes variables gets large ones.
func TestVariablesAreNotHalfUpdated(t *testing.T) {
	kt.CPUOnly(t) // an accelerator's kernels are never interrupted
	tried := map[string]bool{}
	try := func(g golden, updated int, size int64) {
		if tried[g.node.Op] && updated > 1 { // a record of each op will do
			return
		}
		ended := status.New(status.Cancelled, "enough")
		for _, inputs := range g.extended(size) {
			large := golden{node: g.node, inputs: inputs, outputs: g.outputs}
			d := kt.NewDevice(t)
			began := time.Now()
			after, err := large.runIn(d, kt.NewStep(), updated, false)
			took := time.Since(began)
			if err == nil {
				tried[g.node.Op] = true
				for part := range 3 {
					step := kt.NewStep()
					d.BeforePart = func() {
						if part--; part < 0 {
							step.Cancellation.Cancel(ended)
						}
					}
					large.unlessHalf(t, d, step, updated, after)
				}
				d.BeforePart = nil
				for range 5 {
					step := kt.NewStep()
					timer := time.AfterFunc(rand.N(took+1), func() { step.Cancellation.Cancel(ended) })
					large.unlessHalf(t, d, step, updated, after)
					timer.Stop()
				}
			}
			kernels.ReleaseTensors(after)
			kernels.ReleaseTensors(inputs)
		}
	}
	for _, g := range goldens(t) {
		if n := g.updated(); n > 0 && g.code == status.OK {
			try(g, n, someRows)
		}
	}
	for _, g := range changes() {
		try(g, 1, manyRows)
	}
	for _, op := range kernels.Ops() {
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Fatal(err)
		}
		in := def.InputArg
		changes := strings.Contains(op, "Apply") || strings.Contains(op, "Scatter") || strings.HasPrefix(op, "Assign") || strings.Contains(op, "SliceAssign")
		if len(in) > 1 && changes && (in[0].IsRef || tensor.FromProto(in[0].Type) == tensor.Resource) && !tried[op] && !strings.Contains(op, "Accumulator") && !strings.HasPrefix(op, "TensorArray") {
			t.Errorf("%s was not tried", op)
		}
	}
}

// extended returns inputs like those of the record, each time with one size enlarged.
func (g golden) extended(size int64) (lists [][]*tensor.Tensor) {
	sizes := []int64{}
	for _, in := range g.inputs {
		for _, d := range in.Shape() {
			if d > 0 && !slices.Contains(sizes, d) {
				sizes = append(sizes, d)
			}
		}
	}
	if len(sizes) == 0 {
		sizes = []int64{1}
	}
	for _, from := range sizes {
		var list []*tensor.Tensor
		for _, in := range g.inputs {
			shape := in.Shape().Clone()
			for axis, d := range shape {
				if d == from {
					shape[axis] = size
				}
			}
			list = append(list, resized(in, shape))
		}
		lists = append(lists, list)
	}
	return lists
}

// unlessHalf fails the test if the op leaves its variables with values other than all of their first ones, or all of after.
func (g golden) unlessHalf(t *testing.T, d *kt.Device, step *kernels.Step, updated int, after []*tensor.Tensor) {
	t.Helper()
	got, _ := g.runIn(d, step, updated, false)
	defer kernels.ReleaseTensors(got)
	before, whole := true, true
	for i, v := range got {
		before = before && sameBits(v, g.inputs[i])
		whole = whole && sameBits(v, after[i])
	}
	if len(got) != updated || !before && !whole {
		t.Errorf("%s of %s, ended in the middle, leaves half of its work\n%v", g.node.Op, shapesOf(g.inputs), g.node.Attr)
	}
}

func sameBits(a, b *tensor.Tensor) bool {
	if a.DType() == tensor.String {
		return slices.Equal(a.Strings(), b.Strings())
	}
	return bytes.Equal(a.Data(), b.Data())
}
