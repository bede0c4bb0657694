package flagset

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// GPUs are the flags that say which GPUs a server uses, and how. They override its config.
type GPUs struct {
	flags    *pflag.FlagSet
	count    int
	list     string
	fraction float64
	growth   bool
}

// AllGPUs means all GPUs that there are.
const AllGPUs = -1

// mostGPUs is more than machines have.
const mostGPUs = 1 << 10

// Add adds the flags. count is the default number of GPUs.
func (f *GPUs) Add(flags *pflag.FlagSet, count int) {
	f.flags = flags
	Int(flags, &f.count, "gpus", count, Bounds[int]{Least: AllGPUs, Most: mostGPUs}, "most GPUs to use (0: none, -1: all that CUDA_VISIBLE_DEVICES shows)")
	flags.StringVar(&f.list, "visible-device-list", "", "the GPUs to use, in this order, as indexes into those that CUDA_VISIBLE_DEVICES shows, such as 1,0")
	Float64(flags, &f.fraction, "gpu-memory-fraction", 0, Bounds[float64]{Least: 0.001, Most: 1, OrZero: true}, "fraction of each GPU's memory to use (0: what is free, less a reserve)")
	flags.BoolVar(&f.growth, "gpu-allow-growth", false, "allocate GPU memory as it is needed, not at the start")
}

// Options returns the server's options from the flags.
func (f *GPUs) Options() (all []troupe.Option) {
	if f.count != AllGPUs {
		all = append(all, troupe.WithGPUs(f.count))
	}
	if f.flags.Changed("visible-device-list") || f.flags.Changed("gpu-memory-fraction") || f.flags.Changed("gpu-allow-growth") {
		all = append(all, troupe.WithGPUOptions(&corepb.GPUOptions{VisibleDeviceList: f.list, PerProcessGpuMemoryFraction: f.fraction, AllowGrowth: f.growth}))
	}
	return all
}
