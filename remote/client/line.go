package client

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/http2"
)

// line is the connection to a server, of which there is one at a time. It is made when a call needs it.
type line struct {
	address string
	conn    atomic.Pointer[http2.Client]
	turn    chan struct{} // held by who replaces the connection
	closed  bool          // by who has the turn
}

func (l *line) init(address string) { l.address, l.turn = address, make(chan struct{}, 1) }

// call makes a call. One that the server has not seen, since it goes or the connection was lost before, is
// made again on another connection.
func (l *line) call(ctx context.Context, method string, request [][]byte, read func(*http2.Answer) error) error {
	conn, err := l.connected(ctx, nil)
	for again := true; err == nil; again = false {
		if err = conn.Call(ctx, method, request, read); !errors.Is(err, http2.ErrNotSent) {
			return err
		}
		if !again {
			return status.Errorf(status.Unavailable, "the server takes no calls")
		}
		conn, err = l.connected(ctx, conn)
	}
	return err
}

// connected gives a connection that is another one than broken.
func (l *line) connected(ctx context.Context, broken *http2.Client) (*http2.Client, error) {
	if c := l.conn.Load(); c != nil && c != broken {
		return c, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	}
	defer func() { <-l.turn }()
	if l.closed {
		return nil, errClosed
	}
	old := l.conn.Load()
	if old != nil && old != broken {
		return old, nil
	}
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	c, err := http2.NewClient(ctx, nc, "http", l.address)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	l.conn.Store(c)
	if old != nil {
		old.Retire()
	}
	return c, nil
}

func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.From(ctx.Err())
	}
	return status.Errorf(status.Unavailable, "%v", err)
}

var errClosed = status.Errorf(status.Cancelled, "The client was closed")

func (l *line) close() error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	l.closed = true
	if c := l.conn.Swap(nil); c != nil {
		return c.Close()
	}
	return nil
}
