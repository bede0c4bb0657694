package remote

import (
	"context"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

const (
	// maxLooks bounds the calls that look at tasks at the same time, and maxClientLooks those of one client: an answer may take tens of megabytes,
	// here and on each task that is asked for its part. Others wait for their turn.
	maxLooks       = 8
	maxClientLooks = 4
)

// looks lets calls look at tasks in turn.
type looks struct {
	all chan struct{} // has an entry for each call that looks

	mu sync.Mutex // guards of: calls enter and leave on their own goroutines
	of map[string]*clientLooks
}

// clientLooks are the calls of one client.
type clientLooks struct {
	looking chan struct{}
	calls   int // that look, or wait for that
}

func newLooks() *looks {
	return &looks{all: make(chan struct{}, maxLooks), of: map[string]*clientLooks{}}
}

// enter waits until the call whose context is ctx may look; leave ends that.
func (l *looks) enter(ctx context.Context) (leave func(), err error) {
	p, _ := http2.PeerOf(ctx)
	return l.enterAs(ctx, http2.ClientOf(p))
}

func (l *looks) enterAs(ctx context.Context, client string) (leave func(), err error) {
	own := l.join(client)
	if err := take(ctx, own.looking); err != nil {
		l.part(client, own)
		return nil, err
	}
	if err := take(ctx, l.all); err != nil {
		<-own.looking
		l.part(client, own)
		return nil, err
	}
	return func() {
		<-l.all
		<-own.looking
		l.part(client, own)
	}, nil
}

// take waits for a place.
func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return status.From(ctx.Err())
	}
}

// join counts a call of a client.
func (l *looks) join(client string) *clientLooks {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of[client]
	if c == nil {
		c = &clientLooks{looking: make(chan struct{}, maxClientLooks)}
		l.of[client] = c
	}
	c.calls++
	return c
}

// part undoes join.
func (l *looks) part(client string, c *clientLooks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.calls--; c.calls == 0 {
		delete(l.of, client)
	}
}
