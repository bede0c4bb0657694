// Package closing makes closing idempotent: several callers may close something, and it is closed once.
package closing

import (
	"context"

	"github.com/troupe-run/troupe/graph/status"
)

// Once runs a closing function until it has succeeded once. Its methods are safe for concurrent use.
type Once struct {
	turn chan struct{} // held by the caller that closes
	done bool          // guarded by the turn
}

// New returns a Once.
func New() *Once { return &Once{turn: make(chan struct{}, 1)} }

// Do runs end, unless an earlier call succeeded: then it returns nil. A call during another one waits for it, until its own context ends.
// After an error the next call tries again.
func (o *Once) Do(ctx context.Context, end func(context.Context) error) error {
	select {
	case o.turn <- struct{}{}:
	default:
		select {
		case o.turn <- struct{}{}:
		case <-ctx.Done():
			return status.From(ctx.Err())
		}
	}
	defer func() { <-o.turn }()
	if o.done {
		return nil
	}
	err := end(ctx)
	o.done = err == nil
	return err
}
