// Package troupe is TensorFlow's distributed runtime for Go programs: servers to embed, and sessions on these
// servers, on Troupe's servers elsewhere, and on TensorFlow's own.
//
// # Servers
//
// A cluster is a set of jobs, and a job is a list of tasks. Each task is a Server, in this process or another, on this
// machine or another. TensorFlow's own client drives any of them:
//
//	server, err := troupe.NewServer(ctx, troupe.ClusterSpec{
//		"ps":     {"10.0.0.1:2222"},
//		"worker": {"10.0.0.2:2222", "10.0.0.3:2222"},
//	}, troupe.WithJob("worker"), troupe.WithTask(1))
//	…
//	defer server.Stop(ctx)
//	fmt.Println(server.Target()) // what tf.compat.v1.Session takes
//	err = server.Join(ctx)
//
// NewLocalServer makes a cluster of one task, and NewLocalCluster one of several tasks in this process. JoinCluster
// makes this process a task of a running cluster, of which it needs one address.
//
// # Sessions
//
// A Session is a graph and steps over it. Servers open sessions, and so do Clients, which Dial makes for grpc://
// targets. Both are a Master, and their sessions are the same. On a server in this process a step costs a few
// microseconds and sends nothing.
//
//	s := op.NewScope()
//	x := op.Placeholder(s, tensor.Float32)
//	y := op.MatMul(s, x, x, attr.TransposeB(true))
//	graph, err := s.GraphDef()
//	…
//	session, err := master.NewSession(ctx, graph, nil)
//	…
//	defer session.Close(ctx)
//	gram, err := troupe.Fetch[[][]float32](ctx, session, troupe.Feeds{x: [][]float32{{1, 2}, {3, 4}}}, y)
//
// Eval, Fetch and Prepare take what package graph/op built. Run, RunStep, PrepareStep and PartialRun take names, for
// graphs that come from elsewhere, such as a SavedModel. The documentation of Session lists them.
//
// # Training
//
// Package graph/op builds graphs, and package graph/train adds optimizers to them. Train runs the training loop and
// saves checkpoints (Saver), which TensorFlow can read. LoadModel reads SavedModels that were made in Python. Package
// queues/pipeline moves elements of Go types between producers and consumers, which may be programs in other languages.
//
// # Actors
//
// WithActor gives a server actors of the program's own. They can be spawned on any task, receive protocol buffers from
// Server.Send and Ask, and can be watched. See Actor and docs/actors.md for what is guaranteed.
//
// # Tensors
//
// Package graph/tensor has the tensors that steps take and return. From and To convert Go values of up to four
// dimensions. FromValues takes a flat slice and a shape, Wrap makes a tensor over a slice without a copy, and Values
// views a tensor's elements without one. Tensors are reference counted, since their memory is reused: Release what a
// step returned when you are done with it, and do not write to it.
//
// # Contexts, Stop and Close
//
// Whatever connects, listens or waits takes a context, which bounds and cancels it. A constructor's context bounds the
// constructor, not the life of what it makes. A step that is cancelled ends on all tasks.
//
// What serves is stopped with Stop(ctx), what was opened is closed with Close(ctx). Both may be called again: a further
// call waits for the first one, until its own context ends.
//
// # Errors
//
// All errors carry one of TensorFlow's codes: status.CodeOf (package graph/status) returns it. After UNAVAILABLE and
// ABORTED a program can open another session and go on: a task was lost, or was restarted. errors.Is finds
// context.Canceled and context.DeadlineExceeded in errors of calls that ended for that reason, in this process and
// over the network alike. errors.As finds the *status.Error, whose methods Node and Task tell where a step failed.
//
// # Clients alone
//
// This package contains the whole runtime. A program that only needs sessions on servers elsewhere can use package
// remote/client, on which Client is built, and becomes less than half the size.
package troupe

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
)

// ClusterSpec declares a cluster: for each job the addresses (host:port) of its tasks, from task 0 on.
type ClusterSpec map[string][]string

// SparseClusterSpec declares a cluster whose tasks are not numbered from 0: for each job the addresses by task
// index.
type SparseClusterSpec map[string]map[int]string

// Declaration is what a server can be made from. A ServerDef also says which task the server is; the other forms
// leave that to options.
type Declaration interface {
	ClusterSpec | SparseClusterSpec | *corepb.ClusterDef | *corepb.ServerDef
}

// TaskStatus is what a server knows of a declared task: whether it is up, where, since when, and with which devices.
type TaskStatus = client.TaskStatus

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
