package cards

import (
	"slices"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// used are the fields of GPUOptions that affect a plan.
var used = []protoreflect.Name{"per_process_gpu_memory_fraction", "allow_growth", "allocator_type", "visible_device_list", "experimental",
	"virtual_devices", "use_unified_memory"}

// Unused returns the sorted names of the fields of gpu_options that are set but have no effect here.
func Unused(config *corepb.ConfigProto) []string {
	var names []string
	var note func(m protoreflect.Message, path string)
	note = func(m protoreflect.Message, path string) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case !slices.Contains(used, f.Name()):
				names = append(names, path+"."+string(f.Name()))
			case f.Name() == "experimental":
				note(v.Message(), path+".experimental")
			}
			return true
		})
	}
	if o := config.GetGpuOptions(); o != nil {
		note(o.ProtoReflect(), "gpu_options")
	}
	slices.Sort(names)
	return names
}
