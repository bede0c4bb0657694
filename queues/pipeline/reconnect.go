package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// OpenedSession is a session that can be closed, local or remote.
type OpenedSession interface {
	Session
	Close(ctx context.Context) error
}

// Reconnecting is a session that opens another one when it was lost: after a step has failed with UNAVAILABLE or ABORTED, the next one runs in
// a new session, whose graph has the same nodes. It does not repeat the failed step. A Consumer and a Producer do that themselves, for the
// time of their Retry. Its methods may be called concurrently.
type Reconnecting struct {
	open func(ctx context.Context) (OpenedSession, error)
	turn chan struct{} // held by the call that opens or extends a session; it is no mutex, because waiting for it ends with a context

	graphs []*graphpb.GraphDef // added so far; guarded by turn

	mu      sync.Mutex
	current *connection // nil if the next step opens a session
	closed  bool
}

// connection is a session, which is closed once it was lost and its last step has ended.
type connection struct {
	session  OpenedSession
	extended int // the number of graphs that the session has
	users    int
	lost     bool
}

// Reconnect returns a session that is opened by open, when it is first used and whenever it was lost. Close closes it.
func Reconnect(open func(ctx context.Context) (OpenedSession, error)) *Reconnecting {
	return &Reconnecting{open: open, turn: make(chan struct{}, 1)}
}

// Extend adds nodes to the session's graph, and to those of the sessions that follow it.
func (r *Reconnecting) Extend(ctx context.Context, more *graphpb.GraphDef) error {
	return r.use(ctx, more, func(OpenedSession) error { return nil })
}

// Run runs a step in the current session.
func (r *Reconnecting) Run(ctx context.Context, feeds map[string]*tensor.Tensor, fetches, targets []string) (out []*tensor.Tensor, err error) {
	err = r.use(ctx, nil, func(s OpenedSession) error {
		out, err = s.Run(ctx, feeds, fetches, targets)
		return err
	})
	return out, err
}

// Close closes the current session. Steps that run fail, and so does the further use.
func (r *Reconnecting) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	c := r.current
	r.current = nil
	r.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.session.Close(ctx)
}

// use calls f with a session that has all nodes, and more.
func (r *Reconnecting) use(ctx context.Context, more *graphpb.GraphDef, f func(OpenedSession) error) error {
	c, err := r.acquire(ctx, more)
	if c == nil {
		return err
	}
	if err == nil {
		err = f(c.session)
	}
	r.release(ctx, c, sessionLost(err))
	return err
}

// acquire returns the current connection, or a new one, with all nodes and more. If there is one, the caller releases it, also after an
// error.
func (r *Reconnecting) acquire(ctx context.Context, more *graphpb.GraphDef) (*connection, error) {
	if c, err := r.ready(); err != nil || c != nil && more == nil {
		return c, err
	} else if c != nil {
		r.release(ctx, c, false)
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c, err := r.ready()
	if err != nil {
		return nil, err
	}
	if c == nil {
		session, err := r.open(ctx)
		if err != nil {
			return nil, err
		}
		c = &connection{session: session, users: 1}
	}
	graphs := r.graphs
	if more != nil {
		graphs = append(slices.Clip(graphs), more)
	}
	for _, g := range graphs[c.extended:] {
		if err := c.session.Extend(ctx, g); err != nil {
			return c, err
		}
		c.extended++
	}
	r.graphs = graphs
	return c, r.publish(c)
}

var errSessionClosed = status.New(status.FailedPrecondition, "the session was closed by the program (Reconnecting.Close)")

// ready returns the current connection for another user, or nil if there is none.
func (r *Reconnecting) ready() (*connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errSessionClosed
	}
	if r.current != nil {
		r.current.users++
	}
	return r.current, nil
}

// publish makes a connection the current one.
func (r *Reconnecting) publish(c *connection) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errSessionClosed
	}
	if !c.lost {
		r.current = c
	}
	return nil
}

// release ends a use of a connection. The last user of one that is not current closes it.
func (r *Reconnecting) release(ctx context.Context, c *connection, lost bool) {
	r.mu.Lock()
	c.users--
	c.lost = c.lost || lost
	if c.lost && r.current == c {
		r.current = nil
	}
	last := c.users == 0 && r.current != c
	r.mu.Unlock()
	if !last {
		return
	}
	// A session that was lost is usually gone, so an error says nothing new. One that is not ends with its server's lease at the latest.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lostCloseTime)
	defer cancel()
	_ = c.session.Close(ctx)
}

const (
	// lostCloseTime bounds how long a lost session is asked to close.
	lostCloseTime = 2 * time.Second
	// A step that is retried waits between attempts, twice as long after each.
	firstRetryWait, longestRetryWait = 10 * time.Millisecond, time.Second
	// nextLoss is how long a step lasts that was at its server, not at one that cannot be reached. A dequeue may wait for hours between two
	// outages: if it is lost then, that is another loss.
	nextLoss = 30 * time.Second
)

// sessionLost reports whether a step failed because a task, a connection or a session was lost.
func sessionLost(err error) bool {
	code := status.CodeOf(err)
	return code == status.Unavailable || code == status.Aborted
}

// retried runs a step until it does not fail because something was lost, or until that has gone on for a time, or ctx ends.
func retried[R any](ctx context.Context, limit time.Duration, step func() (R, error)) (R, error) {
	out, err := step()
	lost, wait := time.Now(), firstRetryWait // the step may have waited for long before the loss
	for sessionLost(err) && time.Since(lost)+wait <= limit {
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return out, err
		}
		began := time.Now()
		out, err = step()
		if wait = min(2*wait, longestRetryWait); time.Since(began) >= nextLoss {
			lost, wait = time.Now(), firstRetryWait
		}
	}
	return out, err
}
