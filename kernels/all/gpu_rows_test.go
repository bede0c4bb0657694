package all_test

import (
	"slices"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// TestGPURowsAreWellFormed checks that rows name only arguments of their op, and that no two rows serve the same types, since only one
// could ever run.
func TestGPURowsAreWellFormed(t *testing.T) {
	for _, op := range kernels.Ops() {
		rows := kernels.Rows(op, "GPU")
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			for _, name := range r.HostInputs {
				if !hasArg(def.InputArg, name) {
					t.Errorf("%s has no input %s", op, name)
				}
			}
			for _, name := range r.HostOutputs {
				if !hasArg(def.OutputArg, name) {
					t.Errorf("%s has no output %s", op, name)
				}
			}
			for _, other := range rows[:i] {
				if overlap(r, other) {
					t.Errorf("%s has two GPU rows for the same types: %v and %v", op, r.Types, other.Types)
				}
			}
		}
	}
}

func hasArg(args []*oppb.OpDef_ArgDef, name string) bool {
	return name == kernels.Everything || slices.ContainsFunc(args, func(a *oppb.OpDef_ArgDef) bool { return a.Name == name })
}

// overlap reports whether some types are served by both rows.
func overlap(a, b *kernels.Def) bool {
	for attr, list := range a.Types {
		if other, ok := b.Types[attr]; ok && !slices.ContainsFunc(list, func(d tensor.DType) bool { return slices.Contains(other, d) }) {
			return false
		}
	}
	return true
}
