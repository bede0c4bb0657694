package troupe

import (
	"context"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// Master is where sessions are opened: a Server of this process, or a Client of another one. Programs that
// take one run on both.
type Master interface {
	// NewSession opens a session over a graph, which may be nil or grow later; config is nil for the
	// server's own.
	NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error)
	// Devices lists the devices of all tasks that the server reaches, its own first.
	Devices(ctx context.Context) ([]Device, error)
	// Reset closes all sessions of the server and empties containers on all tasks; without names the
	// default ones.
	Reset(ctx context.Context, containers ...string) error
	// Target names the server: grpc://host:port.
	Target() string
}

var (
	_ Master = (*Server)(nil)
	_ Master = (*Client)(nil)
)

// Client is a way to a server, Troupe's or TensorFlow's own. Programs that need nothing but clients can use
// package remote/client, which is the same without a server to embed. All methods may be called concurrently.
type Client struct{ c *client.Client }

// Dial makes a client of the first of the targets (grpc://host:port) that answers. A single one is not asked:
// the first call connects, and UNAVAILABLE is its error where nobody is there.
func Dial(ctx context.Context, targets ...string) (*Client, error) {
	c, err := client.DialAny(ctx, targets...)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// NewSession opens a session over a graph, which may be nil or grow later; config is nil for the
// server's defaults. Of a session that is not closed Troupe's servers take leave when its client's connection
// is gone for the time of their lease, TensorFlow's never.
func (c *Client) NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error) {
	s, err := c.c.CreateSession(ctx, graph, config)
	if err != nil {
		return nil, err
	}
	return &Session{distant{s}}, nil
}

// Devices lists the devices of all tasks that the server reaches, its own first.
func (c *Client) Devices(ctx context.Context) ([]Device, error) { return c.c.ListDevices(ctx) }

// Reset closes all sessions of the server and empties containers on all tasks; without names the
// default ones.
func (c *Client) Reset(ctx context.Context, containers ...string) error {
	return c.c.Reset(ctx, containers...)
}

// Target is the target that the client was made for.
func (c *Client) Target() string { return c.c.Target() }

// Close ends the connection, and the calls that wait for answers.
func (c *Client) Close() error { return c.c.Close() }

// distant is a session on another server.
type distant struct{ s *client.Session }

func (d distant) extend(ctx context.Context, more *graphpb.GraphDef) error {
	return d.s.Extend(ctx, more)
}

func (d distant) run(ctx context.Context, step Step) (*Result, error) { return d.s.RunStep(ctx, step) }

func (d distant) prepare(ctx context.Context, o *corepb.CallableOptions) (prepared, error) {
	c, err := d.s.MakeCallable(ctx, o)
	if err != nil {
		return nil, err
	}
	return distantCallable{c}, nil
}

func (d distant) setup(ctx context.Context, feeds, fetches, targets []string) (partial, error) {
	p, err := d.s.PartialRunSetup(ctx, feeds, fetches, targets)
	if err != nil {
		return nil, err
	}
	return distantPartial{p}, nil
}

func (d distant) devices(ctx context.Context) ([]Device, error) { return d.s.Devices(ctx) }

func (d distant) close(ctx context.Context) error { return d.s.Close(ctx) }

type distantCallable struct{ *client.Callable }

func (c distantCallable) run(ctx context.Context, feeds, fetched []*tensor.Tensor) error {
	return c.Callable.Run(ctx, feeds, fetched)
}

func (c distantCallable) release(ctx context.Context) error { return c.Callable.Release(ctx) }

type distantPartial struct{ *client.PartialRun }

func (p distantPartial) run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	return p.PartialRun.Run(ctx, feeds, fetches)
}
