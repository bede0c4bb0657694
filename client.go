package troupe

import (
	"context"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/remote/client"
	"google.golang.org/protobuf/proto"
)

// Master opens sessions: a Server of this process, or a Client of another one. Code that takes a Master works with
// both.
type Master interface {
	// NewSession opens a session over a graph, which may be nil or grow later. A nil config means the
	// server's own.
	NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error)
	// Devices lists the devices of all tasks that the server reaches, its own first.
	Devices(ctx context.Context) ([]Device, error)
	// Reset closes all sessions of the server and empties the given containers, or else the default ones, on all
	// tasks.
	Reset(ctx context.Context, containers ...string) error
	// Target returns the server's target, grpc://host:port.
	Target() string
}

var (
	_ Master = (*Server)(nil)
	_ Master = (*Client)(nil)
)

// Client is a connection to a server, Troupe's or TensorFlow's own. Programs that only need clients can use
// package remote/client, which is the same without the servers. All methods may be called concurrently.
type Client struct{ c *client.Client }

// DialOption configures how Dial reaches its server. Package remote/client has the options: client.WithTLS,
// client.WithDialer, client.WithTimeout, client.WithInterceptor and client.WithLogger.
type DialOption = client.Option

// Dial returns a client of a server. target is grpc://host:port, or several of those separated by commas: the client is
// then of the first that answers. Dial does not connect to a single target: the first call does, and returns
// UNAVAILABLE if there is no server. ctx bounds only Dial.
func Dial(ctx context.Context, target string, opts ...DialOption) (*Client, error) {
	c, err := client.Dial(ctx, target, opts...)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// NewSession opens a session over a graph, which may be nil or grow later. A nil config means the server's defaults. Troupe's servers close
// a session when its lease is over, which begins when the client's connection ends; TensorFlow's keep it until it is closed.
func (c *Client) NewSession(ctx context.Context, graph *graphpb.GraphDef, config *corepb.ConfigProto) (*Session, error) {
	s, err := c.c.NewSession(ctx, graph, config)
	if err != nil {
		return nil, err
	}
	return newSession(distant{s}), nil
}

// Devices lists the devices of all tasks that the server reaches, its own first.
func (c *Client) Devices(ctx context.Context) ([]Device, error) { return c.c.Devices(ctx) }

// Reset closes all sessions of the server and empties the given containers, or else the default ones, on all tasks.
func (c *Client) Reset(ctx context.Context, containers ...string) error {
	return c.c.Reset(ctx, containers...)
}

// Actor returns the actor of a task with a name; see client.Client.Actor. client.Ask asks it.
func (c *Client) Actor(task, name string) *client.Actor { return c.c.Actor(task, name) }

// SpawnActor makes an actor of a kind on a task, as Server.Spawn does; see client.Client.SpawnActor.
func (c *Client) SpawnActor(ctx context.Context, kind, task, name string, arguments proto.Message) (*client.Actor, error) {
	return c.c.SpawnActor(ctx, kind, task, name, arguments)
}

// EnsureActor returns the actor of a kind that has a name on a task, or makes it if there is none, as Server.Ensure does.
func (c *Client) EnsureActor(ctx context.Context, kind, task, name string, arguments proto.Message) (*client.Actor, error) {
	return c.c.EnsureActor(ctx, kind, task, name, arguments)
}

// Publish sends a message to all actors of the cluster that subscribe to a topic, as Server.Publish of the server does.
func (c *Client) Publish(ctx context.Context, topic string, message proto.Message) error {
	return c.c.Publish(ctx, topic, message)
}

// Target returns the server's target, grpc://host:port.
func (c *Client) Target() string { return c.c.Target() }

// Close ends the connection. Calls that wait for answers fail with CANCELLED. The connection is released even if ctx
// has ended; ctx bounds how long Close waits for a call that is connecting. Further calls of Close are allowed.
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
