package graph

import (
	"sync"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

// ownOps are the declarations of the ops that TensorFlow lacks. Their names begin with Troupe, so that no later op of TensorFlow has one of
// them. A client that builds graphs without TensorFlow's own registry of ops can use them in any language; TensorFlow's servers refuse them
// with NOT_FOUND, which names the op.
var ownOps = sync.OnceValue(func() map[string]*OpDef {
	ops := map[string]*OpDef{}
	for _, def := range []*OpDef{
		// Acknowledges the leases acknowledged, as TroupeQueueAcknowledge does, then leases n elements, or those left in a closed queue. The
		// lease is a token. An element that has been delivered max_deliveries times goes to the queue dead_letters, of which there is at
		// most one, or is dropped.
		{
			Name: "TroupeQueueLease",
			InputArg: []*oppb.OpDef_ArgDef{arg("handle", typespb.DataType_DT_RESOURCE), arg("n", typespb.DataType_DT_INT32),
				arg("acknowledged", typespb.DataType_DT_STRING), {Name: "dead_letters", Type: typespb.DataType_DT_RESOURCE, NumberAttr: "N"}},
			OutputArg: []*oppb.OpDef_ArgDef{arg("lease", typespb.DataType_DT_STRING), arg("held", typespb.DataType_DT_BOOL),
				{Name: "components", TypeListAttr: "component_types"}},
			Attr: []*oppb.OpDef_AttrDef{
				{Name: "component_types", Type: "list(type)", HasMinimum: true, Minimum: 1},
				{Name: "N", Type: "int", HasMinimum: true},
				{Name: "lease_ms", Type: "int", HasMinimum: true, Minimum: 1, DefaultValue: intValue(30_000)},
				{Name: "max_deliveries", Type: "int", HasMinimum: true, DefaultValue: intValue(0)},
			},
		},
		// End leases, or renew them; held says for each whether it had not ended before.
		settleOp("TroupeQueueAcknowledge"),
		settleOp("TroupeQueueReturn"),
		settleOp("TroupeQueueRenew"),
		// Like QueueEnqueueManyV2, for a producer that numbers its elements, from first: those that it has stored before are skipped.
		{
			Name: "TroupeQueueEnqueueManyOnce",
			InputArg: []*oppb.OpDef_ArgDef{arg("handle", typespb.DataType_DT_RESOURCE), arg("producer", typespb.DataType_DT_STRING),
				arg("first", typespb.DataType_DT_INT64), {Name: "components", TypeListAttr: "Tcomponents"}},
			Attr: []*oppb.OpDef_AttrDef{{Name: "Tcomponents", Type: "list(type)", HasMinimum: true, Minimum: 1}},
		},
	} {
		def.IsStateful = true
		ops[def.Name] = def
	}
	return ops
})

func settleOp(name string) *OpDef {
	return &OpDef{
		Name:      name,
		InputArg:  []*oppb.OpDef_ArgDef{arg("handle", typespb.DataType_DT_RESOURCE), arg("leases", typespb.DataType_DT_STRING)},
		OutputArg: []*oppb.OpDef_ArgDef{arg("held", typespb.DataType_DT_BOOL)},
	}
}

func arg(name string, dtype typespb.DataType) *oppb.OpDef_ArgDef {
	return &oppb.OpDef_ArgDef{Name: name, Type: dtype}
}

func intValue(v int64) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}}
}
