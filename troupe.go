// Package troupe embeds a task of a Troupe cluster in a Go program.
//
// A cluster is a set of jobs, each of them a list of tasks; every task is a Server, in this process
// or another one, on this machine or another one. TensorFlow's own client drives any of them:
//
//	server, err := troupe.NewServer(troupe.ClusterSpec{
//		"ps":     {"10.0.0.1:2222"},
//		"worker": {"10.0.0.2:2222", "10.0.0.3:2222"},
//	}, troupe.WithJob("worker"), troupe.WithTask(1))
//	…
//	defer server.Stop(ctx)
//	fmt.Println(server.Target()) // what tf.compat.v1.Session takes
//	err = server.Join(ctx)
//
// A process that knows a cluster by the address of any of its tasks becomes a free task of it with
// JoinCluster. Programs may have actors of their own on the cluster's tasks: see Actor.
//
// A Go program opens sessions in its own process with Server.NewSession, and on any server that a
// target names with package remote/client. All errors carry a code of TensorFlow's (package
// graph/status).
package troupe

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote"
	"github.com/troupe-run/troupe/remote/spec"
)

// ClusterSpec declares a cluster: for each job the addresses (host:port) of its tasks, from task 0 on.
type ClusterSpec map[string][]string

// SparseClusterSpec declares a cluster whose jobs do not list all of their tasks: for each job the
// address by task index.
type SparseClusterSpec map[string]map[int]string

// Declaration is what a server can be made from. A ServerDef says which task the server is too, the
// other forms leave that to options.
type Declaration interface {
	ClusterSpec | SparseClusterSpec | *corepb.ClusterDef | *corepb.ServerDef
}

// TaskStatus is what a server knows of a declared task: whether it is up, where, since when, with
// which devices.
type TaskStatus = remote.TaskStatus

// clusterOf reads any declaration but a ServerDef.
func clusterOf(declaration any) (*spec.Spec, error) {
	switch d := declaration.(type) {
	case ClusterSpec:
		jobs := map[string]map[int]string{}
		for job, addresses := range d {
			jobs[job] = map[int]string{}
			for i, address := range addresses {
				jobs[job][i] = address
			}
		}
		return spec.New(jobs)
	case SparseClusterSpec:
		return spec.New(d)
	case *corepb.ClusterDef:
		return spec.FromProto(d)
	}
	return nil, status.Internalf("A server cannot be made from a %T", declaration)
}
