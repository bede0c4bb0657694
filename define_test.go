package troupe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"google.golang.org/protobuf/proto"
)

var three = ClusterSpec{"ps": {"h:1"}, "worker": {"h:2", "h:3"}}

func defOf(job string, task int32, protocol string) *corepb.ServerDef {
	return &corepb.ServerDef{JobName: job, TaskIndex: task, Protocol: protocol, Cluster: &corepb.ClusterDef{Job: []*corepb.JobDef{
		{Name: "ps", Tasks: map[int32]string{0: "h:1"}}, {Name: "worker", Tasks: map[int32]string{0: "h:2", 1: "h:3"}}}}}
}

func apply(opts []Option) *options {
	o := &options{start: true, lease: DefaultLease}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

func TestWhichTaskAServerIs(t *testing.T) {
	for name, c := range map[string]struct {
		declaration any
		opts        []Option
		job         string
		task        int32
	}{
		"one job and one task need no option":   {ClusterSpec{"local": {"h:1"}}, nil, "local", 0},
		"one task that is not task 0":           {SparseClusterSpec{"local": {3: "h:1"}}, nil, "local", 3},
		"a job of one task among others":        {three, []Option{WithJob("ps")}, "ps", 0},
		"job and task":                          {three, []Option{WithJob("worker"), WithTask(1)}, "worker", 1},
		"the last of two options":               {three, []Option{WithJob("ps"), WithJob("worker"), WithTask(0)}, "worker", 0},
		"a ClusterDef":                          {defOf("", 0, "").Cluster, []Option{WithJob("worker"), WithTask(1)}, "worker", 1},
		"a ServerDef says it all":               {defOf("worker", 1, "grpc"), nil, "worker", 1},
		"a ServerDef without a protocol":        {defOf("worker", 1, ""), nil, "worker", 1},
		"task_index 0 of a ServerDef is meant":  {defOf("worker", 0, "grpc"), nil, "worker", 0},
		"options hold over a ServerDef":         {defOf("worker", 1, "verbs"), []Option{WithJob("ps"), WithTask(0), WithProtocol("grpc")}, "ps", 0},
		"the task alone holds over a ServerDef": {defOf("worker", 1, "grpc"), []Option{WithTask(0)}, "worker", 0},
	} {
		def, cluster, err := define(c.declaration, apply(c.opts))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if def.JobName != c.job || def.TaskIndex != c.task || def.Protocol != "grpc" || !proto.Equal(def.Cluster, cluster.Proto()) {
			t.Errorf("%s: %v", name, def)
		}
	}
}

func TestRefusedDeclarations(t *testing.T) {
	for name, c := range map[string]struct {
		declaration any
		opts        []Option
		code        status.Code
		want        string
	}{
		"empty":            {ClusterSpec{}, nil, status.InvalidArgument, "The cluster spec is empty"},
		"no tasks":         {ClusterSpec{"ps": nil}, nil, status.InvalidArgument, "The cluster spec is empty: it must define at least one job with a task"},
		"no ServerDef":     {(*corepb.ServerDef)(nil), nil, status.InvalidArgument, "The cluster spec is empty"},
		"no ClusterDef":    {(*corepb.ClusterDef)(nil), nil, status.InvalidArgument, "The cluster spec is empty"},
		"bad address":      {ClusterSpec{"ps": {"h"}}, nil, status.InvalidArgument, `Could not interpret "h" as a host-port pair: it has no port`},
		"bad port":         {ClusterSpec{"ps": {"h:70000"}}, nil, status.InvalidArgument, "port 70000 is not in [0, 65535]"},
		"which job":        {three, nil, status.InvalidArgument, "Must specify an explicit `job_name`: the cluster has the jobs ps, worker."},
		"which task":       {three, []Option{WithJob("worker")}, status.InvalidArgument, "Must specify an explicit `task_index`: job \"worker\" has the tasks 0 to 1."},
		"unknown job":      {three, []Option{WithJob("chief")}, status.Internal, `Job "chief" was not defined in cluster, whose jobs are ps, worker`},
		"unknown task":     {three, []Option{WithJob("worker"), WithTask(2)}, status.Internal, `Task 2 was not defined in job "worker", which has the tasks 0 to 1`},
		"negative task":    {three, []Option{WithJob("ps"), WithTask(-1)}, status.Internal, `Task -1 was not defined in job "ps", which has task 0 only`},
		"huge task":        {three, []Option{WithJob("ps"), WithTask(1 << 32)}, status.Internal, `Task 4294967296 was not defined in job "ps"`},
		"gap":              {SparseClusterSpec{"w": {1: "h:1", 5: "h:2"}}, []Option{WithTask(2)}, status.Internal, `which has the tasks 1, 5`},
		"job of a def":     {defOf("chief", 0, "grpc"), nil, status.Internal, `Job "chief" was not defined in cluster`},
		"task of a def":    {defOf("ps", 7, "grpc"), nil, status.Internal, `Task 7 was not defined in job "ps"`},
		"which job of def": {defOf("", 0, "grpc"), nil, status.InvalidArgument, "Must specify an explicit `job_name`"},
		"protocol":         {ClusterSpec{"local": {"h:1"}}, []Option{WithProtocol("grpc+verbs")}, status.NotFound, `No server factory registered for the given ServerDef: its protocol is "grpc+verbs".`},
		"protocol of def":  {defOf("ps", 0, "quic"), nil, status.NotFound, `its protocol is "quic"`},
	} {
		_, _, err := define(c.declaration, apply(c.opts))
		if status.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v %v", name, status.CodeOf(err), err)
		}
	}
}

func TestConfigsAreMerged(t *testing.T) {
	def := defOf("ps", 0, "grpc")
	def.DefaultSessionConfig = &corepb.ConfigProto{AllowSoftPlacement: true, DeviceCount: map[string]int32{"CPU": 1, "GPU": 0}}
	before := proto.Clone(def)
	got, _, err := define(def, apply([]Option{WithConfig(&corepb.ConfigProto{LogDevicePlacement: true, DeviceCount: map[string]int32{"CPU": 3}})}))
	if err != nil {
		t.Fatal(err)
	}
	want := &corepb.ConfigProto{AllowSoftPlacement: true, LogDevicePlacement: true, DeviceCount: map[string]int32{"CPU": 3, "GPU": 0}}
	if !proto.Equal(got.DefaultSessionConfig, want) {
		t.Errorf("merged to %v", got.DefaultSessionConfig)
	}
	if !proto.Equal(def, before) {
		t.Errorf("the caller's ServerDef was changed: %v", def)
	}
}

func TestGPUsOfAConfig(t *testing.T) {
	def := defOf("ps", 0, "grpc")
	def.DefaultSessionConfig = &corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": 2, "GPU": 4}, GpuOptions: &corepb.GPUOptions{VisibleDeviceList: "1", AllowGrowth: true}}
	opts := apply([]Option{WithGPUs(0), WithGPUOptions(&corepb.GPUOptions{VisibleDeviceList: "0"}), WithConfig(&corepb.ConfigProto{DeviceCount: map[string]int32{"GPU": 3}})})
	got, _, err := define(def, opts)
	if err != nil {
		t.Fatal(err)
	}
	want := &corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": 2, "GPU": 0}, GpuOptions: &corepb.GPUOptions{VisibleDeviceList: "0", AllowGrowth: true}}
	if !proto.Equal(got.DefaultSessionConfig, want) {
		t.Errorf("merged to %v", got.DefaultSessionConfig)
	}
	log := &bytes.Buffer{}
	for force, growth := range map[string]bool{"": true, "true": true, "false": false, "no": true} {
		t.Setenv(forceGrowth, force)
		log.Reset()
		gpus, err := gpusOf(got.DefaultSessionConfig, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil || gpus.GpuOptions.AllowGrowth != growth || gpus.GpuOptions.VisibleDeviceList != "0" || gpus.DeviceCount["GPU"] != 0 {
			t.Errorf("%s=%s: %v, %v", forceGrowth, force, gpus, err)
		}
		if told := strings.Contains(log.String(), "neither true nor false"); told != (force == "no") {
			t.Errorf("%s=%s logged %s", forceGrowth, force, log)
		}
	}
	if !proto.Equal(got.DefaultSessionConfig, want) {
		t.Errorf("the environment changed the config to %v", got.DefaultSessionConfig)
	}
}

func TestRefusedConfigs(t *testing.T) {
	for want, c := range map[string]struct {
		config *corepb.ConfigProto
		opt    Option
		code   status.Code
	}{
		"No CPU devices are available in this process: device_count asks for 0": {&corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": 0}}, nil, status.NotFound},
		"device_count asks for 5000 CPU devices":                                {&corepb.ConfigProto{DeviceCount: map[string]int32{"CPU": 5000}}, nil, status.InvalidArgument},
		"intra_op_parallelism_threads is negative: -2":                          {&corepb.ConfigProto{IntraOpParallelismThreads: -2}, nil, status.InvalidArgument},
		"operation_timeout_in_ms is negative: -1":                               {&corepb.ConfigProto{OperationTimeoutInMs: -1}, nil, status.InvalidArgument},
		`compression_algorithm is "lz4"; the known ones are`:                    {&corepb.ConfigProto{RpcOptions: &corepb.RPCOptions{CompressionAlgorithm: "lz4"}}, nil, status.InvalidArgument},
		"ConfigProto.cluster_def is not a default":                              {&corepb.ConfigProto{ClusterDef: defOf("", 0, "").Cluster}, nil, status.Unimplemented},
		"gpu_options.per_process_gpu_memory_fraction = 2: ":                     {&corepb.ConfigProto{GpuOptions: &corepb.GPUOptions{PerProcessGpuMemoryFraction: 2}}, nil, status.Unimplemented},
		"A server cannot have -1 GPUs":                                          {nil, WithGPUs(-1), status.InvalidArgument},
		"A session's lease must be positive, not -1s":                           {nil, WithLease(-1e9), status.InvalidArgument},
		"The memory limit is negative: -5":                                      {nil, WithMemoryLimit(-5), status.InvalidArgument},
		"The process's memory limit is 1024 bytes, and a server needs at least": {nil, WithProcessMemory(1024), status.InvalidArgument},
	} {
		opts := []Option{WithStart(false), WithConfig(c.config)}
		if c.config == nil {
			opts = []Option{WithStart(false)}
		}
		if c.opt != nil {
			opts = append(opts, c.opt)
		}
		if _, err := NewLocalServer(t.Context(), opts...); status.CodeOf(err) != c.code || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", status.CodeOf(err), err)
		}
	}
}
