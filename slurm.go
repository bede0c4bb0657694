package troupe

import (
	"cmp"
	"os"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/remote/spec"
)

// SlurmRest as a job's number of tasks in [SlurmCluster] means all tasks that no other job has.
const SlurmRest = spec.SlurmRest

// SlurmCluster declares a cluster from the environment of a Slurm job step, in which each process that srun starts is a task,
// as TensorFlow's SlurmClusterResolver does. The zero value makes all of them tasks of the job worker.
type SlurmCluster struct {
	// Jobs maps each job to its number of tasks, which must add up to those of the step. One job may have SlurmRest. Without jobs, all
	// tasks are of the job worker.
	Jobs map[string]int
	// Port is the port of the first task of each node. The node's other tasks have the ports that follow. 0 means 8888.
	Port int
}

// ServerDef returns the cluster and this process's task, read from the environment, for [NewServer]. Every error is
// INVALID_ARGUMENT and names the environment variable and its value.
func (c SlurmCluster) ServerDef() (*corepb.ServerDef, error) {
	cluster, self, err := spec.FromSlurm(os.LookupEnv, c.Jobs, cmp.Or(c.Port, spec.SlurmPort))
	if err != nil {
		return nil, err
	}
	return &corepb.ServerDef{Cluster: cluster.Proto(), JobName: self.Job, TaskIndex: int32(self.Index), Protocol: protocol}, nil
}
