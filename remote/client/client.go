// Package client opens sessions on servers of tensorflow.MasterService, either Troupe's or TensorFlow's own. It asks Troupe's servers for the
// state of their cluster, and reaches the actors of its programs. It does not contain a server, so programs that only need a client stay small.
// Package troupe has the same sessions, and servers.
//
//	c, err := client.Dial(ctx, "grpc://10.0.0.2:2222")
//	…
//	defer c.Close(ctx)
//	session, err := c.NewSession(ctx, graph, nil)
//	…
//	defer session.Close(ctx)
//	out, err := session.Run(ctx, feeds, []string{"y:0"}, nil)
//
// Tensors are sent from their own memory, and fetched ones are received directly into the memory of the returned tensors. A call that has
// its connection to itself is written and read by the calling goroutine.
//
// Errors are those of package graph/status, with the code and the message that the server sent. If a server cannot be reached, the call
// fails at once with UNAVAILABLE, and the error names the target. If a call ends with its context, errors.Is reports that the error is
// context.Canceled or context.DeadlineExceeded.
package client

import (
	"context"
	"slices"
	"strings"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// Client is a connection to one server. It connects on its first call, and reconnects after the connection was lost. Its methods are safe
// for concurrent use.
type Client struct {
	target string
	config *config
	line   line
}

// Dial returns a client of a server. target is grpc://host:port, or several of those separated by commas: then the client uses the first
// server that answers.
//
// A single server is not contacted: the first call connects. Of several, each gets a quarter of a second before the next is asked as well,
// and at most 3 s to answer. If none answers, the error is UNAVAILABLE and lists them all, each with its reason. ctx bounds only Dial.
func Dial(ctx context.Context, target string, opts ...Option) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.From(err)
	}
	config, err := configOf(opts)
	if err != nil {
		return nil, err
	}
	targets := split(target)
	if len(targets) == 1 {
		return newClient(targets[0], config)
	}
	c, _, err := firstOf(ctx, targets, config, func(ctx context.Context, c *Client) (struct{}, error) {
		_, err := c.Status(ctx)
		if status.CodeOf(err) == status.Unimplemented {
			err = nil // one of TensorFlow's servers
		}
		return struct{}{}, err
	})
	return c, err
}

// targetScheme begins every target.
const targetScheme = "grpc://"

func newClient(target string, config *config) (*Client, error) {
	address, ok := strings.CutPrefix(target, targetScheme)
	if !ok {
		return nil, status.InvalidArgumentf("%q is not a target: it must read grpc://host:port", target)
	}
	if _, port, err := spec.SplitAddress(address); err != nil {
		return nil, status.InvalidArgumentf("%q is not a target: %v", target, err)
	} else if port == 0 {
		return nil, status.InvalidArgumentf("%q is not a target: port 0 stands for any", target)
	}
	c := &Client{target: target, config: config}
	c.line.init(address, config)
	return c, nil
}

// Target returns the server's target, grpc://host:port.
func (c *Client) Target() string { return c.target }

// Close closes the connection; calls that wait for answers fail with CANCELLED. Sessions that were not closed end with their lease. The
// connection is released even if ctx has ended: ctx bounds only how long Close waits for a call that is connecting. Close may be called
// again.
func (c *Client) Close(ctx context.Context) error { return c.line.close(ctx) }

// Device is a device of the cluster: its name, type, memory limit, incarnation and description, and whether it belongs to the server that
// was asked.
type Device = device.Attributes

// Devices lists the devices of all tasks that the server reaches, its own first.
func (c *Client) Devices(ctx context.Context) ([]Device, error) { return c.devices(ctx, "") }

// devices lists the devices that a session may use, or all if session is empty.
func (c *Client) devices(ctx context.Context, session string) ([]Device, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	var a corepb.ListDevicesResponse
	if err := c.master(ctx, "ListDevices", &corepb.ListDevicesRequest{SessionHandle: session}, &a); err != nil {
		return nil, err
	}
	var devices []Device
	for _, d := range a.LocalDevice {
		devices = append(devices, device.FromProto(d, true))
	}
	for _, d := range a.RemoteDevice {
		devices = append(devices, device.FromProto(d, false))
	}
	return devices, nil
}

// Reset closes all sessions of the server and empties containers on all tasks: the default ones if no names are given.
func (c *Client) Reset(ctx context.Context, containers ...string) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return c.master(ctx, "Reset", &corepb.ResetRequest{Container: containers}, &corepb.ResetResponse{})
}

// bounded returns ctx with the client's timeout if ctx has no deadline.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.config.timeout)
}

const service = "/tensorflow.MasterService/"

func (c *Client) master(ctx context.Context, method string, request, answer proto.Message) error {
	return c.call(ctx, service+method, request, answer)
}

// call makes a call whose messages carry no tensors.
func (c *Client) call(ctx context.Context, method string, request, answer proto.Message) error {
	b, err := proto.Marshal(request)
	if err != nil {
		return status.InvalidArgumentf("The request cannot be sent: %v", err)
	}
	return c.invoke(ctx, method, [][]byte{b}, func(r *wire.Reader) error {
		b, err := r.Next(r.End())
		if err != nil {
			return err
		}
		if err := proto.Unmarshal(b, answer); err != nil {
			return status.Internalf("The answer of %s to %s cannot be read: %v", c.target, method, err)
		}
		return nil
	}, nil)
}

// invoke makes a call through the interceptors. verdict, if not nil, returns the error that the answer carries.
func (c *Client) invoke(ctx context.Context, method string, request [][]byte, read func(*wire.Reader) error, verdict func() error) error {
	if len(c.config.intercept) == 0 {
		return c.exchange(ctx, method, request, read, verdict)
	}
	call := func(ctx context.Context) error { return c.exchange(ctx, method, request, read, verdict) }
	for _, intercept := range slices.Backward(c.config.intercept) {
		next := call
		call = func(ctx context.Context) error { return intercept(ctx, method, next) }
	}
	return call(ctx)
}

// exchange makes a call and converts its error to one of this package.
func (c *Client) exchange(ctx context.Context, method string, request [][]byte, read func(*wire.Reader) error, verdict func() error) error {
	err := c.line.call(ctx, method, request, func(a *http2.Answer) error {
		r := wire.ReadFrom(a, a.Size())
		return read(&r)
	})
	if err == nil && verdict != nil {
		return status.InContext(ctx, verdict())
	}
	if err == nil {
		return nil
	}
	e := status.From(wire.FromGRPC(err))
	if e.Code == status.Unavailable || e.Code == status.DeadlineExceeded {
		return status.InContext(ctx, status.Errorf(e.Code, "%s: %w", c.target, e))
	}
	return status.InContext(ctx, e)
}
