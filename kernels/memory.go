package kernels

import (
	"slices"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Everything stands for all arguments in HostInputs and HostOutputs.
const Everything = "*"

// MemoryTypes tells which inputs and outputs of a node lie in host memory on a type of device that
// has memory of its own, as its row declares: nil where none does, else one entry for each. On such
// a device strings, resources and variants always do; references lie nowhere, since a variable is
// what they refer to. A node without a row has none of its own memory's: all are the host's. For CPU
// devices, whose memory is the host's, both are nil.
func MemoryTypes(n *graph.Node, deviceType string) (hostInputs, hostOutputs []bool) {
	if deviceType == "CPU" {
		return nil, nil
	}
	def, err := Find(n, deviceType)
	if err != nil {
		def = &Def{HostInputs: []string{Everything}, HostOutputs: []string{Everything}}
	}
	var ins, outs []*oppb.OpDef_ArgDef
	if n.Def != nil { // nodes that passes add have none, and rows that name no argument
		ins, outs = n.Def.InputArg, n.Def.OutputArg
	}
	return hostArgs(n, n.InTypes, ins, def.HostInputs), hostArgs(n, n.OutTypes, outs, def.HostOutputs)
}

// hostArgs marks the arguments that are named, and those of types that are always the host's.
func hostArgs(n *graph.Node, types []tensor.DType, args []*oppb.OpDef_ArgDef, names []string) []bool {
	host := make([]bool, len(types))
	all := slices.Contains(names, Everything)
	for i, t := range types {
		host[i] = all && !t.IsRef() || t == tensor.String || t == tensor.Resource || t == tensor.Variant
	}
	i := 0
	for _, a := range args {
		for range width(n, a) {
			host[i] = host[i] || slices.Contains(names, a.Name)
			i++
		}
	}
	if !slices.Contains(host, true) {
		return nil
	}
	return host
}

// width is the number of tensors that an argument of a node stands for. The node has been checked
// against its declaration.
func width(n *graph.Node, a *oppb.OpDef_ArgDef) int {
	switch {
	case a.NumberAttr != "":
		return int(n.Attrs[a.NumberAttr].GetI())
	case a.TypeListAttr != "":
		return len(n.Attrs[a.TypeListAttr].GetList().GetType())
	}
	return 1
}
