package troupe

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/devices/cards"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
	"google.golang.org/protobuf/proto"
)

// maxCPUs bounds the CPUs of device_count: each device has its own memory and containers.
const maxCPUs = 256

// cpusOf returns the number of CPU devices that a server's config asks for.
func cpusOf(config *corepb.ConfigProto) (int, error) {
	n, ok := config.GetDeviceCount()["CPU"]
	switch {
	case !ok:
		return 1, nil
	case n <= 0:
		return 0, status.Errorf(status.NotFound, "No CPU devices are available in this process: device_count asks for %d", n)
	case n > maxCPUs:
		return 0, status.InvalidArgumentf("device_count asks for %d CPU devices, the limit is %d", n, maxCPUs)
	}
	return int(n), nil
}

// defaultsOf returns what sessions inherit from a server's config. A field that cannot apply to a whole server is an
// error.
func defaultsOf(config *corepb.ConfigProto) (actors.SessionDefaults, error) {
	d := actors.SessionDefaults{
		SoftPlacement:    config.GetAllowSoftPlacement(),
		LogPlacement:     config.GetLogDevicePlacement(),
		OperationTimeout: time.Duration(config.GetOperationTimeoutInMs()) * time.Millisecond,
	}
	var err error
	d.Compression, err = remote.ParseCompression(config.GetRpcOptions().GetCompressionAlgorithm(), int(config.GetRpcOptions().GetCompressionLevel()))
	switch {
	case err != nil:
		return d, err
	case config.GetIntraOpParallelismThreads() < 0:
		return d, status.InvalidArgumentf("intra_op_parallelism_threads is negative: %d", config.GetIntraOpParallelismThreads())
	case d.OperationTimeout < 0:
		return d, status.InvalidArgumentf("operation_timeout_in_ms is negative: %d", config.GetOperationTimeoutInMs())
	case len(config.GetClusterDef().GetJob()) > 0:
		return d, status.Unimplementedf("ConfigProto.cluster_def is not a default of a server's sessions: declare the cluster to the server")
	}
	return d, nil
}

// forceGrowth is TensorFlow's environment variable that overrides gpu_options.allow_growth.
const forceGrowth = "TF_FORCE_GPU_ALLOW_GROWTH"

// gpusOf returns the GPU settings of a server's config, with those of the environment applied.
func gpusOf(config *corepb.ConfigProto, log *slog.Logger) (*corepb.ConfigProto, error) {
	c := &corepb.ConfigProto{DeviceCount: config.GetDeviceCount(), GpuOptions: config.GetGpuOptions()}
	switch force := os.Getenv(forceGrowth); force {
	case "":
	case "true", "false":
		o := &corepb.GPUOptions{}
		proto.Merge(o, c.GpuOptions)
		o.AllowGrowth, c.GpuOptions = force == "true", o
	default:
		log.Error("an environment variable is neither true nor false, and is ignored", "name", forceGrowth, "value", force)
	}
	return c, cards.Check(c)
}

// tellUnused logs the parts of a server's config that have no effect. It is called once for each server.
func tellUnused(config *corepb.ConfigProto, log *slog.Logger) {
	for _, kind := range slices.Sorted(maps.Keys(config.GetDeviceCount())) {
		if n := config.GetDeviceCount()[kind]; kind != "CPU" && kind != "GPU" && n > 0 {
			log.Warn("the config asks for devices that this build does not have", "type", kind, "count", n)
		}
	}
	unused := cards.Unused(config)
	for name, set := range map[string]bool{
		"inter_op_parallelism_threads": config.GetInterOpParallelismThreads() != 0,
		"use_per_session_threads":      config.GetUsePerSessionThreads(),
		"session_inter_op_thread_pool": len(config.GetSessionInterOpThreadPool()) > 0,
		"placement_period":             config.GetPlacementPeriod() != 0,
		"device_filters":               len(config.GetDeviceFilters()) > 0,
		"graph_options":                config.GetGraphOptions() != nil,
		"rpc_options":                  config.GetRpcOptions() != nil && config.GetRpcOptions().GetCompressionAlgorithm() == "",
		"isolate_session_state":        config.GetIsolateSessionState(),
	} {
		if set {
			unused = append(unused, name)
		}
	}
	if len(unused) > 0 {
		slices.Sort(unused)
		log.Info("the server's config has fields that have no effect here", "fields", unused)
	}
}
