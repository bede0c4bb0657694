package troupe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// protocol is the only protocol that Troupe speaks.
const protocol = "grpc"

// define returns the ServerDef of a declaration with the options applied, by the rules of tf.train.Server. Options
// override the declaration. The job may be omitted if there is only one, and the task index if the job has only one
// task. A ServerDef's own task_index is used as it is, since 0 cannot be distinguished from unset.
func define(declaration any, o *options) (*corepb.ServerDef, *spec.Spec, error) {
	def := &corepb.ServerDef{}
	var cluster *spec.Spec
	var err error
	given, isDef := declaration.(*corepb.ServerDef)
	if isDef {
		def = proto.Clone(given).(*corepb.ServerDef)
		cluster, err = spec.FromProto(def.GetCluster())
	} else {
		cluster, err = clusterOf(declaration)
	}
	if err != nil {
		return nil, nil, err
	}
	def.Cluster = cluster.Proto()
	if err := pickTask(def, cluster, o, isDef && def.JobName != ""); err != nil {
		return nil, nil, err
	}
	switch {
	case o.protocol != nil:
		def.Protocol = *o.protocol
	case def.Protocol == "":
		def.Protocol = protocol
	}
	if def.Protocol != protocol {
		return nil, nil, status.Errorf(status.NotFound,
			"No server factory registered for the given ServerDef: its protocol is %q.\nThe available server factories are: [ GRPC_SERVER ], whose protocol is %q", def.Protocol, protocol)
	}
	return def, cluster, configure(def, o)
}

// configure merges the options into the ServerDef's config.
func configure(def *corepb.ServerDef, o *options) error {
	if o.config == nil && o.gpus == nil && o.gpuOptions == nil {
		return nil
	}
	if def.DefaultSessionConfig == nil {
		def.DefaultSessionConfig = &corepb.ConfigProto{}
	}
	more := &corepb.ConfigProto{GpuOptions: o.gpuOptions}
	if o.gpus != nil {
		if *o.gpus < 0 || *o.gpus > math.MaxInt32 {
			return status.InvalidArgumentf("A server cannot have %d GPUs", *o.gpus)
		}
		more.DeviceCount = map[string]int32{"GPU": int32(*o.gpus)}
	}
	if o.config != nil {
		proto.Merge(def.DefaultSessionConfig, o.config)
	}
	proto.Merge(def.DefaultSessionConfig, more)
	return nil
}

// pickTask sets the job and the task of def. For those that are not in the cluster it returns INTERNAL, as TensorFlow's
// servers do.
func pickTask(def *corepb.ServerDef, cluster *spec.Spec, o *options, fixed bool) error {
	jobs := cluster.Jobs()
	switch {
	case o.job != nil:
		def.JobName = *o.job
	case def.JobName == "" && len(jobs) == 1:
		def.JobName = jobs[0]
	case def.JobName == "":
		return noJobGiven(jobs)
	}
	if !slices.Contains(jobs, def.JobName) {
		return noJob(def.JobName, jobs)
	}
	tasks := jobTasks(def.Cluster, def.JobName)
	switch {
	case o.task != nil:
		def.TaskIndex = int32(*o.task)
		if int(def.TaskIndex) != *o.task {
			return noTask(*o.task, def.JobName, tasks)
		}
	case fixed:
	case len(tasks) == 1:
		def.TaskIndex = tasks[0]
	default:
		return status.InvalidArgumentf("Must specify an explicit `task_index`: job %q has %s.", def.JobName, describe(tasks))
	}
	if !slices.Contains(tasks, def.TaskIndex) {
		return noTask(int(def.TaskIndex), def.JobName, tasks)
	}
	return nil
}

func noJobGiven(jobs []string) error {
	return status.InvalidArgumentf("Must specify an explicit `job_name`: the cluster has the jobs %s.", strings.Join(jobs, ", "))
}

func noJob(job string, jobs []string) error {
	return status.Internalf("Job %q was not defined in cluster, whose jobs are %s", job, strings.Join(jobs, ", "))
}

func noTask(index int, job string, tasks []int32) error {
	return status.Internalf("Task %d was not defined in job %q, which has %s", index, job, describe(tasks))
}

func jobTasks(cluster *corepb.ClusterDef, job string) []int32 {
	for _, j := range cluster.GetJob() {
		if j.GetName() == job {
			return slices.Sorted(maps.Keys(j.GetTasks()))
		}
	}
	return nil
}

// describe returns a job's tasks in words, for error texts.
func describe(tasks []int32) string {
	if len(tasks) == 1 {
		return fmt.Sprintf("task %d only", tasks[0])
	}
	if last := tasks[len(tasks)-1]; int(last-tasks[0]) == len(tasks)-1 {
		return fmt.Sprintf("the tasks %d to %d", tasks[0], last)
	}
	return "the tasks " + strings.Trim(strings.ReplaceAll(fmt.Sprint(tasks), " ", ", "), "[]")
}
