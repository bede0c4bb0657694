package main

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/spf13/pflag"
	"github.com/troupe-run/troupe"
)

// gpuFlags say which GPUs a server uses, and how. What they set holds over its config.
type gpuFlags struct {
	count    int
	list     string
	fraction float64
	growth   bool
}

// allGPUs stands for as many as there are.
const allGPUs = -1

func (f *gpuFlags) add(set *pflag.FlagSet, count int) {
	set.IntVar(&f.count, "gpus", count, "most GPUs to use (0: none, -1: all that CUDA_VISIBLE_DEVICES shows)")
	set.StringVar(&f.list, "visible-device-list", "", "the GPUs to use, in this order, as indexes into those that CUDA_VISIBLE_DEVICES shows, such as 1,0")
	set.Float64Var(&f.fraction, "gpu-memory-fraction", 0, "fraction of each GPU's memory to use (0: what is free, less a reserve)")
	set.BoolVar(&f.growth, "gpu-allow-growth", false, "allocate GPU memory as it is needed, not at the start")
}

// options are those that the flags ask for.
func (f *gpuFlags) options() []troupe.Option {
	var opts []troupe.Option
	if f.count != allGPUs {
		opts = append(opts, troupe.WithGPUs(f.count))
	}
	return append(opts, troupe.WithGPUOptions(&corepb.GPUOptions{VisibleDeviceList: f.list, PerProcessGpuMemoryFraction: f.fraction, AllowGrowth: f.growth}))
}
