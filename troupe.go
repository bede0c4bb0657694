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
// makes this process a task of a running cluster; it needs the address of one of the cluster's tasks.
//
// # Sessions
//
// A Session is a graph and the steps that run over it. Servers open sessions, and so do Clients, which Dial returns for
// grpc:// targets. Both implement Master, and their sessions behave alike. On a server in this process a step costs a
// few microseconds and uses no network.
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
// Eval, Fetch and Prepare take outputs and operations that package graph/op built. Run, RunStep, PrepareStep and
// PartialRun take names, for graphs that come from elsewhere, such as a SavedModel. The documentation of Session lists
// them.
//
// # Training
//
// Package graph/op builds graphs, and package graph/train adds optimizers to them. Train runs the training loop and
// saves checkpoints (Saver), which TensorFlow can read. LoadModel reads SavedModels exported from Python. Package
// queues/pipeline moves elements of Go types between producers and consumers, which may be programs in other languages.
//
// # Actors
//
// WithActor registers actors of the program's own with a server. They can be spawned on any task, receive protocol
// buffers from Server.Send and Ask, and can be watched. Package node has all of this, also for programs that run no graphs, and says what is
// guaranteed; so does docs/actors.md.
//
// Package troupetest runs clusters in tests, with faults and in simulated time.
//
// # Tensors
//
// Package graph/tensor defines the tensors that steps take and return. From and To convert Go values of up to four
// dimensions. FromValues takes a flat slice and a shape, Wrap makes a tensor over a slice without a copy, and Values
// views a tensor's elements without one. Tensors are reference counted, since their memory is reused: Release the
// tensors that a step returned when you are done with them, and do not write to them.
//
// # Contexts, Stop and Close
//
// Every call that connects, listens or waits takes a context, which bounds and cancels it. A constructor's context
// bounds the constructor, not the life of the value that it returns. A step that is cancelled ends on all tasks.
//
// Servers are stopped with Stop(ctx); sessions, clients and callables are closed with Close(ctx). Both may be called
// again: a later call waits for the first one, until its own context ends.
//
// # Errors
//
// All errors carry one of TensorFlow's codes: status.CodeOf (package graph/status) returns it. UNAVAILABLE and ABORTED
// mean that a task was lost or restarted; the program can open another session and continue. errors.Is finds
// context.Canceled and context.DeadlineExceeded in errors of calls that ended for that reason, in this process and over
// the network alike. errors.As finds the *status.Error, whose methods Node and Task return where a step failed.
//
// # Client-only programs
//
// This package contains the whole runtime. A program that only needs sessions on servers elsewhere can use package
// remote/client, on which Client is built. Its binary is then less than half the size.
package troupe

import (
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/spec"
)

// ClusterSpec declares a cluster. It maps each job to the addresses (host:port) of its tasks, starting with task 0.
type ClusterSpec map[string][]string

// SparseClusterSpec declares a cluster whose tasks are not numbered from 0. It maps each job to its tasks' addresses by
// task index.
type SparseClusterSpec map[string]map[int]string

// Declaration is what a server can be made from. A ServerDef also says which task the server is; the other forms
// leave that to options.
type Declaration interface {
	ClusterSpec | SparseClusterSpec | *corepb.ClusterDef | *corepb.ServerDef
}

// TaskStatus is what a server knows about a declared task: whether it is up, where, since when, and with which devices.
type TaskStatus = client.TaskStatus

// clusterOf returns the spec of any declaration except a ServerDef.
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
