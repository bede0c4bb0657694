package actors

import (
	"maps"
	"regexp"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
)

// countedName matches the names that TensorFlow 2's client makes for tables from a counter of its process, so that each table is its
// object's own. Every process counts from the start.
var countedName = regexp.MustCompile(`^(table_)?[0-9]+$`)

// withPrivateTable returns the op to run for op: one that makes an anonymous table if the client counted its name. Under such a name the
// program that comes next would find the table of the one before, with that one's values, and tables would stay when their programs end. Where a
// policy allows just one of the two ops, it is the client's own that is judged and run.
func (c *EagerContext) withPrivateTable(op *corepb.Operation) *corepb.Operation {
	anonymous, ok := graph.AnonymousTable(op.GetName())
	if !ok || len(op.Attrs["container"].GetS()) > 0 || !countedName.Match(op.Attrs["shared_name"].GetS()) {
		return op
	}
	if scope := c.session.rights.scope(); scope.Op(op.GetName()) != nil || scope.Op(anonymous) != nil {
		return op
	}
	attrs := maps.Clone(op.Attrs)
	for _, name := range []string{"container", "shared_name", "use_node_name_sharing"} {
		delete(attrs, name)
	}
	return &corepb.Operation{Id: op.Id, Name: anonymous, Attrs: attrs, Device: op.Device, OpInputs: op.OpInputs, ControlOpIds: op.ControlOpIds}
}
