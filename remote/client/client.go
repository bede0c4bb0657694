// Package client is a client of tensorflow.MasterService in Go: it opens sessions on any server
// that a grpc:// target names, TensorFlow's or Troupe's, and asks Troupe's for the state of their
// cluster.
//
// Errors are those of package graph/status, with the code and the text that the server gave. A
// server that cannot be reached is UNAVAILABLE at once, and the error names its target.
package client

import (
	"context"
	"math"
	"strings"
	"time"

	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"
)

// DefaultTimeout bounds every call but a session's steps where its context has no deadline: those
// calls compute nothing.
const DefaultTimeout = 30 * time.Second

// The windows of HTTP/2 are large enough that a tensor never waits for an update.
const (
	streamWindow = 16 << 20 // bytes
	connWindow   = 32 << 20 // bytes
)

// Client is a connection to one server. All methods may be called concurrently.
type Client struct {
	target string
	conn   *grpc.ClientConn
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
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, status.InvalidArgumentf("%q is not a target: %v", target, err)
	}
	return &Client{target: target, conn: conn}, nil
}

// Target is what the client was made for.
func (c *Client) Target() string { return c.target }

// Close ends the connection. Sessions that were not closed end with their lease.
func (c *Client) Close() error { return c.conn.Close() }

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
func (c *Client) ListDevices(ctx context.Context) ([]Device, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var a corepb.ListDevicesResponse
	if err := c.master(ctx, "ListDevices", &corepb.ListDevicesRequest{}, &a); err != nil {
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

func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

func (c *Client) master(ctx context.Context, method string, request, answer any) error {
	return c.call(ctx, "/tensorflow.MasterService/"+method, request, answer)
}

func (c *Client) call(ctx context.Context, method string, request, answer any) error {
	err := c.conn.Invoke(ctx, method, request, answer)
	if err == nil {
		return nil
	}
	s := grpcstatus.Convert(err)
	if s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded {
		// What gRPC itself says does not always name the server.
		return status.Errorf(status.Code(s.Code()), "%s: %s", c.target, s.Message())
	}
	return wire.FromGRPC(err)
}
