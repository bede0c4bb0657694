package gateway

import (
	"context"
	"sync/atomic"

	"github.com/troupe-run/troupe/actors"
	"google.golang.org/grpc/stats"
)

// Connections tells which client's connection a call came over, and when a connection ends, so
// that sessions end with their clients. It is the stats.Handler of the port's server.
type Connections struct {
	next   atomic.Uint64
	closed atomic.Pointer[func(actors.Connection)]
}

type connectionKey struct{}

// OnClose sets what is told of each connection that ends.
func (c *Connections) OnClose(closed func(actors.Connection)) { c.closed.Store(&closed) }

// TagConn numbers a connection.
func (c *Connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, actors.Connection(c.next.Add(1)))
}

// HandleConn notices the end of a connection.
func (c *Connections) HandleConn(ctx context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		if closed := c.closed.Load(); closed != nil {
			(*closed)(connectionOf(ctx))
		}
	}
}

// TagRPC leaves calls as they are.
func (c *Connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC has no interest in calls.
func (c *Connections) HandleRPC(context.Context, stats.RPCStats) {}

// connectionOf is the number of the connection that a call came over; 0 where there is none.
func connectionOf(ctx context.Context) actors.Connection {
	c, _ := ctx.Value(connectionKey{}).(actors.Connection)
	return c
}
