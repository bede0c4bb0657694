// Package troupe is TensorFlow's distributed runtime for Go programs: servers to embed, and sessions on
// them, on other servers of Troupe's and on TensorFlow's own.
//
// # Servers
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
// NewLocalServer makes a cluster of one task, NewLocalCluster one of several in this process; JoinCluster makes the
// process a task of a cluster of which it knows one address.
//
// # Sessions
//
// A Session is a graph and steps over it. Both a Server and a Client, which Dial makes for a grpc:// target, are a
// Master that opens them, and a session is the same on either: on a server of this process a step costs a
// few microseconds and sends nothing.
//
//	s := op.NewScope()
//	x := op.Placeholder(s, tensor.Float32)
//	y := op.MatMul(s, x, x, attr.TransposeB(true))
//	def, err := s.GraphDef()
//	…
//	session, err := master.NewSession(ctx, def, nil)
//	…
//	defer session.Close(ctx)
//	gram, err := troupe.Fetch[[][]float32](ctx, session, troupe.Feeds{x: [][]float32{{1, 2}, {3, 4}}}, y)
//
// Eval, Do and Fetch take what package graph/op built; Run and RunStep take names, for graphs that come from
// elsewhere, such as a SavedModel. A step that is run often is prepared as a Callable. A PartialRun is one step in
// several calls.
//
// Contexts bound and cancel whatever waits. A step that is cancelled ends on all tasks.
//
// # Training
//
// Package graph/op draws graphs, graph/train adds optimizers to them, and Train runs the loop, with checkpoints (Saver) that
// TensorFlow reads, too. LoadModel reads SavedModels that were made in Python. Package queues/pipeline moves elements of Go
// types between producers and consumers, which may be programs in other languages.
//
// # Actors
//
// WithActor gives a server actors of the program's own, which may be spawned on any task, are sent protocol buffers by Server.Send
// and Ask, and are watched; see Actor, and docs/actors.md for what holds of them.
//
// # Tensors
//
// Package graph/tensor has the tensors that steps take and give. From and To convert Go values, of any rank up to four;
// FromValues takes a flat slice and a shape, Wrap makes a tensor over a slice without a copy, and Values views a
// tensor's elements without one. Tensors are reference counted, since their memory is used again: Release what a step
// gave when you are done with it, and do not write to it.
//
// # Errors
//
// All errors carry a code of TensorFlow's: status.CodeOf (package graph/status) tells it. UNAVAILABLE and ABORTED are those after
// which a program may open another session and go on: a task was lost, or has started anew.
//
// # Clients alone
//
// This package carries the whole runtime along. A program that only wants sessions on servers elsewhere can use package
// remote/client, of which Client and its sessions are made, and is less than half the size.
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
