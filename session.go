package troupe

import (
	"context"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
	"github.com/troupe-run/troupe/remote/closing"
)

// Session is a graph, which may grow, and the steps that run over it. It works alike on a Server of this process, where
// a step begins without a network, and on any server that Dial reaches. In both cases the graph may span the whole
// cluster. All methods may be called concurrently.
//
// These take op.Output and *op.Operation values of a graph that package graph/op built:
//
//	Eval     runs a step and returns tensors; Fetch is Eval for one output, as a Go value
//	Elements runs a step until its dataset or queue is at its end, as a sequence
//	Prepare  prepares a step that is run often: a Callable
//
// These take the names of any graph's outputs and operations ("x:0", "init"):
//
//	Run          runs a step and returns tensors
//	RunStep      is Run with options, and returns the metadata that they ask for
//	PrepareStep  is Prepare with names and options
//	PartialRun   begins a step that is fed and fetched from in several calls
//
// Extend adds to the graph, Devices lists devices, and Close ends the session.
//
// The caller must release fetched tensors, and keeps the tensors that it feeds. A fetched tensor may share its memory
// with others, such as a variable's value: do not write to it.
//
// When the context of a call ends, so does the call, and the step ends on all tasks. TensorFlow's servers end a step as
// soon as their kernels check for cancellation, and do not report when that was. The server knows the context's
// deadline: its error then says what the step was waiting for.
type Session struct {
	b      backend
	closed *closing.Once
}

func newSession(b backend) *Session { return &Session{b, closing.New()} }

// backend is a session in this process or on another server.
type backend interface {
	extend(ctx context.Context, more *graphpb.GraphDef) error
	run(ctx context.Context, step Step) (*Result, error)
	prepare(ctx context.Context, o *corepb.CallableOptions) (prepared, error)
	setup(ctx context.Context, feeds, fetches, targets []string) (partial, error)
	devices(ctx context.Context) ([]Device, error)
	close(ctx context.Context) error
}

// Step is what to run: tensors to feed by name ("x:0"), tensors to fetch, operations to run without fetching
// anything from them, and options, such as what to trace.
type Step = client.Step

// Result is what a step returned.
type Result = client.Result

// Device is a device of a cluster.
type Device = client.Device

// Run runs a step: it feeds tensors by name ("x:0"), runs what the fetched tensors and the targets
// (operations' names) need, and returns the fetched tensors in order.
func (s *Session) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error) {
	r, err := s.RunStep(ctx, Step{Feeds: feeds, Fetches: fetches, Targets: targets})
	if err != nil {
		return nil, err
	}
	return r.Tensors, nil
}

// RunStep is Run with RunOptions, and returns the RunMetadata that they ask for. With FULL_TRACE it says what each
// device ran, and when; with output_partition_graphs it has the graph of each device.
func (s *Session) RunStep(ctx context.Context, step Step) (*Result, error) {
	r, err := s.b.run(ctx, step)
	if err != nil {
		return nil, status.InContext(ctx, err)
	}
	return r, nil
}

// Extend adds the nodes and functions of more to the graph. After an error the session is unchanged.
func (s *Session) Extend(ctx context.Context, more *graphpb.GraphDef) error {
	return status.InContext(ctx, s.b.extend(ctx, more))
}

// Devices lists the devices that the session may use, those of its own server first.
func (s *Session) Devices(ctx context.Context) ([]Device, error) {
	devices, err := s.b.devices(ctx)
	return devices, status.InContext(ctx, err)
}

// Close ends the session. Running steps are cancelled; variables and other named resources outlive it. Later calls of
// Close wait for the first, each until its own context ends, and return nil once one has succeeded.
func (s *Session) Close(ctx context.Context) error {
	return status.InContext(ctx, s.closed.Do(ctx, s.b.close))
}
