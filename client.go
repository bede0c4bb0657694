package troupe

import (
	"context"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
)

// Master opens sessions: a Server of this process, or a Client of another one. A program that takes a Master runs
// on both.
type Master interface {
	// NewSession opens a session over a graph, which may be nil or grow later. A nil config means the
	// server's own.
	NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error)
	// Devices lists the devices of all tasks that the server reaches, its own first.
	Devices(ctx context.Context) ([]Device, error)
	// Reset closes all sessions of the server and empties containers on all tasks: without names, the
	// default ones.
	Reset(ctx context.Context, containers ...string) error
	// Target is the server's target, grpc://host:port.
	Target() string
}

var (
	_ Master = (*Server)(nil)
	_ Master = (*Client)(nil)
)

// Client is a connection to a server, Troupe's or TensorFlow's own. Programs that only need clients can use
// package remote/client, which is the same without the servers. All methods may be called concurrently.
type Client struct{ c *client.Client }

// DialOption changes how Dial reaches its server. Package remote/client makes them: client.WithTLS,
// client.WithDialer, client.WithTimeout, client.WithInterceptor and client.WithLogger.
type DialOption = client.Option

// Dial makes a client of a server. target is grpc://host:port, or several of those separated by commas: then the
// client is of the first that answers. A single server is not asked: the first call connects, and returns
// UNAVAILABLE if no server is there. ctx bounds Dial alone.
func Dial(ctx context.Context, target string, opts ...DialOption) (*Client, error) {
	c, err := client.Dial(ctx, target, opts...)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// NewSession opens a session over a graph, which may be nil or grow later. A nil config means the server's
// defaults. Troupe's servers close a session after its lease, which begins when the client's connection ends;
// TensorFlow's keep it until it is closed.
func (c *Client) NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error) {
	s, err := c.c.NewSession(ctx, graph, config)
	if err != nil {
		return nil, err
	}
	return newSession(distant{s}), nil
}

// Devices lists the devices of all tasks that the server reaches, its own first.
func (c *Client) Devices(ctx context.Context) ([]Device, error) { return c.c.Devices(ctx) }

// Reset closes all sessions of the server and empties containers on all tasks: without names, the default
// ones.
func (c *Client) Reset(ctx context.Context, containers ...string) error {
	return c.c.Reset(ctx, containers...)
}

// Target is the server's target, grpc://host:port.
func (c *Client) Target() string { return c.c.Target() }

// Close ends the connection, and with CANCELLED the calls that wait for answers. The connection is released even
// if ctx has ended; ctx bounds how long Close waits for a call that is connecting. Further calls of Close are allowed.
func (c *Client) Close(ctx context.Context) error { return c.c.Close(ctx) }

// distant is a session on another server.
type distant struct{ s *client.Session }

func (d distant) extend(ctx context.Context, more *graphpb.GraphDef) error {
	return d.s.Extend(ctx, more)
}

func (d distant) run(ctx context.Context, step Step) (*Result, error) { return d.s.RunStep(ctx, step) }

func (d distant) prepare(ctx context.Context, o *corepb.CallableOptions) (prepared, error) {
	c, err := d.s.PrepareStep(ctx, o)
	if err != nil {
		return nil, err
	}
	return distantCallable{c}, nil
}

func (d distant) setup(ctx context.Context, feeds, fetches, targets []string) (partial, error) {
	p, err := d.s.PartialRun(ctx, feeds, fetches, targets)
	if err != nil {
		return nil, err
	}
	return distantPartial{p}, nil
}

func (d distant) devices(ctx context.Context) ([]Device, error) { return d.s.Devices(ctx) }

func (d distant) close(ctx context.Context) error { return d.s.Close(ctx) }

type distantCallable struct{ *client.Callable }

func (c distantCallable) run(ctx context.Context, feeds, fetched []*tensor.Tensor) error {
	return c.RunInto(ctx, fetched, feeds)
}

func (c distantCallable) release(ctx context.Context) error { return c.Close(ctx) }

type distantPartial struct{ *client.PartialRun }

func (p distantPartial) run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches []string) ([]*tensor.Tensor, error) {
	return p.Run(ctx, feeds, fetches)
}
