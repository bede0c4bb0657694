package kernels

import (
	"slices"
	"testing"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
)

// Every row is for an op that clients can name, and restricts types that the op has.
func TestRowsMatchDeclarations(t *testing.T) {
	for op, devices := range registry {
		def, err := graph.LookupOp(op)
		if err != nil {
			t.Errorf("%s: %v", op, err)
			continue
		}
		for _, rows := range devices {
			for _, row := range rows {
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
