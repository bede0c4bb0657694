package all_test

import (
	"slices"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/kernels"
)

// Every row must be for an op that clients can name, and restrict only types that the op has.
func TestRowsMatchDeclarations(t *testing.T) {
	for _, op := range kernels.Ops() {
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		for _, device := range []string{"CPU", "GPU"} {
			for _, row := range kernels.Rows(op, device) {
				for name := range row.Types {
					if !slices.ContainsFunc(def.Attr, func(a *oppb.OpDef_AttrDef) bool {
						return a.Name == name && (a.Type == "type" || a.Type == "list(type)")
					}) {
						t.Errorf("%s has no type attribute %s", op, name)
					}
				}
			}
		}
	}
}
