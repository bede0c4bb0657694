// Package distance bounds exchanges of several round trips with another task, such as a handshake, which may be near or far.
//
// A bound that suits a nearby task is too short for one that is 400 ms away. A bound that suits both makes every caller wait
// seconds for a task that is gone. Making the connection takes one round trip and thus shows how far the task is. It extends each bound
// within which it is made by the time that the rest may take.
package distance

import (
	"context"
	"sync"
	"time"
)

const (
	// trips is the number of round trips that may follow the connection: those of a handshake with certificates, a secret and a
	// confirmation, and as many again for lost packets.
	trips = 10
	// most bounds the extension: a connection whose first packet was lost takes a second longer.
	most = 5 * time.Second
)

// bound is a context that ends after limit, or later if a connection took long.
type bound struct {
	context.Context // of the caller
	began           time.Time
	limit           time.Duration
	done            chan struct{}

	mu    sync.Mutex
	timer *time.Timer
	added time.Duration
	err   error
}

type key struct{}

// Within returns a context for an exchange with one other task. It ends after limit, extended by ten times the duration of making a
// connection within it (Connected), by 5 s at most. cancel must be called, as with context.WithTimeout.
func Within(ctx context.Context, limit time.Duration) (_ context.Context, cancel context.CancelFunc) {
	b := &bound{Context: ctx, began: time.Now(), limit: limit, done: make(chan struct{})}
	b.timer = time.AfterFunc(limit, b.ring)
	unhook := context.AfterFunc(ctx, func() { b.end(ctx.Err()) })
	return b, func() {
		unhook()
		b.end(context.Canceled)
	}
}

// Connected extends the bounds of ctx for a connection that took the given time to make.
func Connected(ctx context.Context, took time.Duration) {
	for b, _ := ctx.Value(key{}).(*bound); b != nil; b, _ = b.Context.Value(key{}).(*bound) {
		b.add(min(trips*took, most))
	}
}

// Extended reports whether a connection has extended the bound of ctx, which Within returned: the other task is there, and far away.
func Extended(ctx context.Context) bool {
	b, _ := ctx.Value(key{}).(*bound)
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.added > 0
}

func (b *bound) add(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d <= b.added || b.err != nil {
		return
	}
	b.added = d
	b.timer.Reset(time.Until(b.began.Add(b.limit + d)))
}

// ring ends the context if its time has come. The timer may have fired just before it was extended.
func (b *bound) ring() {
	b.mu.Lock()
	early := time.Since(b.began) < b.limit+b.added
	b.mu.Unlock()
	if !early {
		b.end(context.DeadlineExceeded)
	}
}

func (b *bound) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return
	}
	b.timer.Stop()
	b.err = err
	close(b.done)
}

// Deadline returns when the context ends, unless it is extended.
func (b *bound) Deadline() (time.Time, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.began.Add(b.limit + b.added)
	if callers, ok := b.Context.Deadline(); ok && callers.Before(own) {
		return callers, true
	}
	return own, true
}

func (b *bound) Done() <-chan struct{} { return b.done }

func (b *bound) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *bound) Value(k any) any {
	if k == (key{}) {
		return b
	}
	return b.Context.Value(k)
}
