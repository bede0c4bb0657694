package troupe

import (
	"math"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/member"
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

// pickTask sets the job and the task of def; fixed means that those of def were given.
func pickTask(def *corepb.ServerDef, cluster *spec.Spec, o *options, fixed bool) error {
	job, index := o.job, o.task
	if job == nil && def.JobName != "" {
		job = &def.JobName
	}
	if given := int(def.TaskIndex); index == nil && fixed {
		index = &given
	}
	task, err := member.Choose(cluster, job, index)
	if err == nil {
		def.JobName, def.TaskIndex = task.Job, int32(task.Index)
	}
	return err
}
