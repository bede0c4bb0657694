package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
)

// A GPU's rows that take the CPU's kernels as they are: of ops whose operands lie in host memory,
// and of those that look at no element. Which operands TensorFlow keeps on the host is what its
// own GPU kernels declare: most of all tensors of int32, since they are shapes, sizes and axes.

// sharing is what a GPU's row has of its own beside the CPU's.
type sharing struct {
	// types restricts attributes, in addition to what the CPU's row does.
	types map[string][]tensor.DType
	// hostInputs and hostOutputs are those of the row.
	hostInputs, hostOutputs []string
}

// shared holds the sharings of each op.
var shared = map[string][]sharing{}

// share gives GPUs the CPU's rows of some ops. The CPU's may be registered before or after.
func share(s sharing, ops ...string) {
	for _, op := range ops {
		shared[op] = append(shared[op], s)
		for _, cpu := range registry[op]["CPU"] {
			s.apply(*cpu)
		}
	}
}

// apply registers the GPU's row that a CPU's row leads to, if any type is left.
func (s sharing) apply(row Def) {
	types := map[string][]tensor.DType{}
	for attr, list := range row.Types {
		types[attr] = list
	}
	for attr, only := range s.types {
		list, ok := types[attr]
		if !ok {
			types[attr] = only
			continue
		}
		both := slices.DeleteFunc(slices.Clone(list), func(t tensor.DType) bool { return !slices.Contains(only, t) })
		if len(both) == 0 {
			return
		}
		types[attr] = both
	}
	row.Device, row.Types, row.HostInputs, row.HostOutputs = "GPU", types, s.hostInputs, s.hostOutputs
	Register(row)
}

// onHost gives GPUs the rows of ops that compute in host memory, for these types of an attribute
// or, without types, for all that the CPU has.
func onHost(attr string, types []tensor.DType, ops ...string) {
	s := sharing{hostInputs: []string{everything}, hostOutputs: []string{everything}}
	if types != nil {
		s.types = map[string][]tensor.DType{attr: types}
	}
	share(s, ops...)
}

// passing gives GPUs the rows of ops that look at no element of the device's memory: with int32 in
// attr all is on the host, with other types what is named.
func passing(attr string, hostInputs, hostOutputs []string, ops ...string) {
	share(sharing{types: map[string][]tensor.DType{attr: besideInt32}, hostInputs: hostInputs, hostOutputs: hostOutputs}, ops...)
	onHost(attr, justInt32, ops...)
}

var (
	justInt32 = []tensor.DType{tensor.Int32}
	// besideInt32 are all other types. Strings, resources and variants among them are the host's anyway.
	besideInt32 = func() (types []tensor.DType) {
		for d := tensor.Invalid; d < tensor.Invalid.Ref(); d++ {
			if d.Valid() && d != tensor.Int32 {
				types = append(types, d)
			}
		}
		return types
	}()
	// variableTypes are those of variables on a GPU. As in TensorFlow int32 is not: its variables
	// are the host's, and an op that asks for one goes to a CPU.
	variableTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16, tensor.Int64,
		tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Bool, tensor.Complex64, tensor.Complex128}
)
