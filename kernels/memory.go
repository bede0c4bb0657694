package kernels

import (
	"slices"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Everything stands for all arguments in HostInputs and HostOutputs.
const Everything = "*"

// MemoryTypes reports which inputs and outputs of a node are in host memory on a type of device with its own memory, as its row declares.
// Each list has one entry per argument, or is nil if no argument is in host memory. Strings, resources and variants always are; references
// are in neither memory, since they refer to a variable. All arguments of a node without a row are in host memory. For CPU devices, both
// lists are nil.
func MemoryTypes(n *graph.Node, deviceType string) (hostInputs, hostOutputs []bool) {
	if deviceType == "CPU" {
		return nil, nil
	}
	def, err := Find(n, deviceType)
	if err != nil {
		def = &Def{HostInputs: []string{Everything}, HostOutputs: []string{Everything}}
	}
	var ins, outs []*oppb.OpDef_ArgDef
	if n.Def != nil { // nodes added by passes have no Def, and their rows name no arguments
		ins, outs = n.Def.InputArg, n.Def.OutputArg
	}
	return hostArgs(n, n.InTypes, ins, def.HostInputs), hostArgs(n, n.OutTypes, outs, def.HostOutputs)
}

// hostArgs marks the named arguments and those whose types are always in host memory.
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

// width returns the number of tensors that an argument of a node stands for. The node has already been checked against its declaration.
func width(n *graph.Node, a *oppb.OpDef_ArgDef) int {
	switch {
	case a.NumberAttr != "":
		return int(n.Attrs[a.NumberAttr].GetI())
	case a.TypeListAttr != "":
		return len(n.Attrs[a.TypeListAttr].GetList().GetType())
	}
	return 1
}
