package troupe

import (
	"context"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// Session is a client's session: a graph, which may grow, and steps over it. It is the same on a Server of this
// process, where a step begins without a network, and on any server that Dial connected to; in both cases the
// graph may span the whole of the cluster. All methods may be called concurrently.
//
// What a step fetches is the caller's to release, what it is fed stays the caller's. A fetched tensor may
// share its memory with others, such as a variable's value: it must not be written to.
//
// When the context of a call ends, so does the call. A step ends with it on all tasks; on a server of TensorFlow's
// as soon as its kernels look whether they are cancelled, and the server does not tell when that was. A deadline is told
// to the server, whose answer then says what the step waited for.
type Session struct{ b backend }

// backend is a session in this process or on another server.
type backend interface {
	extend(ctx context.Context, more *graphpb.GraphDef) error
	run(ctx context.Context, step Step) (*Result, error)
	prepare(ctx context.Context, o *corepb.CallableOptions) (prepared, error)
	setup(ctx context.Context, feeds, fetches, targets []string) (partial, error)
	devices(ctx context.Context) ([]Device, error)
	close(ctx context.Context) error
}

// Step is what to run: tensors to feed by name ("x:0"), tensors to fetch, nodes to run for what they do, and
// options, such as what to trace.
type Step = client.Step

// Result is what a step gave.
type Result = client.Result

// Device is a device of a cluster.
type Device = client.Device

// Run runs a step: it feeds tensors by name ("x:0"), runs what the fetched tensors and the targets
// (nodes' names) need, and gives the fetched tensors in order.
func (s *Session) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) ([]*tensor.Tensor, error) {
	r, err := s.b.run(ctx, Step{Feeds: feeds, Fetches: fetches, Targets: targets})
	if err != nil {
		return nil, err
	}
	return r.Tensors, nil
}

// RunStep is Run with RunOptions, and gives the RunMetadata that these ask for: with FULL_TRACE what each device
// ran when, with output_partition_graphs the graph of each device.
func (s *Session) RunStep(ctx context.Context, step Step) (*Result, error) { return s.b.run(ctx, step) }

// Extend adds the nodes and functions of more to the graph. On an error the session is as before.
func (s *Session) Extend(ctx context.Context, more *graphpb.GraphDef) error {
	return s.b.extend(ctx, more)
}

// Devices lists the devices that the session may use, those of its own server first.
func (s *Session) Devices(ctx context.Context) ([]Device, error) { return s.b.devices(ctx) }

// Close ends the session. Running steps are cancelled; variables and other named resources stay.
func (s *Session) Close(ctx context.Context) error { return s.b.close(ctx) }
