// Package client is a client of tensorflow.MasterService in Go: it opens sessions on any server
// that a grpc:// target names, TensorFlow's or Troupe's, and asks Troupe's for the state of their
// cluster. It carries no server along: a program that only wants a client is small. The root package
// has the same sessions beside those of servers in the process.
//
// What is fed leaves from the tensors' own memory, and what is fetched is read from the connection into
// the memory of the tensors that the caller gets. A call that is alone on its connection is written and
// read by the goroutine that makes it.
//
// Errors are those of package graph/status, with the code and the text that the server gave. A
// server that cannot be reached is UNAVAILABLE at once, and the error names its target.
package client

import (
	"context"
	"strings"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/http2"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/wire"
	"google.golang.org/protobuf/proto"
)

// DefaultTimeout bounds every call but a session's steps where its context has no deadline: those
// calls compute nothing.
const DefaultTimeout = 30 * time.Second

// Client is a way to one server. It connects when it has something to say, and again when the
// connection was lost. All methods may be called concurrently.
type Client struct {
	target string
	line   line
}

// Dial makes a client for a target, grpc://host:port. Nothing is sent before the first call.
func Dial(target string) (*Client, error) {
	address, ok := strings.CutPrefix(target, "grpc://")
	if !ok {
		return nil, status.InvalidArgumentf("%q is not a target: it must read grpc://host:port", target)
	}
	if _, port, err := spec.SplitAddress(address); err != nil {
		return nil, status.InvalidArgumentf("%q is not a target: %v", target, err)
	} else if port == 0 {
		return nil, status.InvalidArgumentf("%q is not a target: port 0 stands for any", target)
	}
	c := &Client{target: target}
	c.line.init(address)
	return c, nil
}

// Target is what the client was made for.
func (c *Client) Target() string { return c.target }

// Close ends the connection, and the calls that wait for answers. Sessions that were not closed end with
// their lease.
func (c *Client) Close() error { return c.line.close() }

// Device is a device of the cluster.
type Device struct {
	// Name is the full name, such as /job:worker/replica:0/task:1/device:CPU:0; Type CPU or GPU.
	Name, Type string
	// MemoryLimit is in bytes; 0 is none. Incarnation is a random number of the device's start.
	MemoryLimit int64
	Incarnation uint64
	// Description is of the hardware, for people; empty for a CPU.
	Description string
	// Local tells whether the device is of the server that was asked.
	Local bool
}

// ListDevices lists the devices of all tasks that the server reaches, its own first.
func (c *Client) ListDevices(ctx context.Context) ([]Device, error) { return c.devices(ctx, "") }

// devices lists the devices that a session may use; of no session, all.
func (c *Client) devices(ctx context.Context, session string) ([]Device, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var a corepb.ListDevicesResponse
	if err := c.master(ctx, "ListDevices", &corepb.ListDevicesRequest{SessionHandle: session}, &a); err != nil {
		return nil, err
	}
	var devices []Device
	for _, d := range a.LocalDevice {
		devices = append(devices, Device{d.Name, d.DeviceType, d.MemoryLimit, d.Incarnation, d.PhysicalDeviceDesc, true})
	}
	for _, d := range a.RemoteDevice {
		devices = append(devices, Device{d.Name, d.DeviceType, d.MemoryLimit, d.Incarnation, d.PhysicalDeviceDesc, false})
	}
	return devices, nil
}

// Reset closes all sessions of the server and empties containers on all tasks; without names the
// default ones.
func (c *Client) Reset(ctx context.Context, containers ...string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return c.master(ctx, "Reset", &corepb.ResetRequest{Container: containers}, &corepb.ResetResponse{})
}

// Status asks what the server knows of all tasks of its cluster. TensorFlow's servers do not know
// the call: UNIMPLEMENTED.
func (c *Client) Status(ctx context.Context) (*wire.ClusterStatus, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	a := &wire.ClusterStatus{}
	err := c.call(ctx, wire.OperatorStatus, &wire.StatusRequest{}, a)
	if status.CodeOf(err) == status.Unimplemented {
		return nil, status.Unimplementedf("The server at %s does not tell the state of its cluster: it is not one of Troupe's", c.target)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// ListActors asks the server which actors its task has. TensorFlow's servers do not know the call: UNIMPLEMENTED.
func (c *Client) ListActors(ctx context.Context) (*wire.TaskActors, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	a := &wire.TaskActors{}
	err := c.call(ctx, wire.OperatorListActors, &wire.ListActorsRequest{}, a)
	if status.CodeOf(err) == status.Unimplemented {
		return nil, status.Unimplementedf("The server at %s does not list its actors: it is not one of Troupe's, or an older one", c.target)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, DefaultTimeout)
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
	})
}

// invoke makes a call and gives its error the form of those of this package.
func (c *Client) invoke(ctx context.Context, method string, request [][]byte, read func(*wire.Reader) error) error {
	err := c.line.call(ctx, method, request, func(a *http2.Answer) error {
		r := wire.ReadFrom(a, a.Size())
		return read(&r)
	})
	if err == nil {
		return nil
	}
	e := status.From(wire.FromGRPC(err))
	if e.Code == status.Unavailable || e.Code == status.DeadlineExceeded {
		return status.Errorf(e.Code, "%s: %s", c.target, e.Message)
	}
	return e
}
