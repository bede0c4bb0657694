package serve

import (
	"context"
	"errors"
	"log/slog"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/internal/command/exit"
)

// ownCode is the code of a program that runs beside its server.
type ownCode struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when the code has returned
	failed error         // set before
}

// start runs the program's code. stop is called if it fails.
func start(ctx context.Context, p Program, server *troupe.Server, stop func()) *ownCode {
	ctx, cancel := context.WithCancel(ctx)
	c := &ownCode{cancel: cancel, ended: make(chan struct{})}
	if p.Started == nil {
		close(c.ended)
		return c
	}
	go func() {
		defer close(c.ended)
		err := p.Started(ctx, server)
		if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return
		}
		c.failed = exit.With(exit.CodeFailed, err)
		stop()
	}()
	return c
}

// finish ends the code's context and waits until the code has returned or ctx ends.
func (c *ownCode) finish(ctx context.Context) {
	c.cancel()
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}

// err returns the error of the code if it has returned. Code that does not return in time is not a failure, like steps that do not.
func (c *ownCode) err(log *slog.Logger) error {
	select {
	case <-c.ended:
		return c.failed
	default:
		log.Warn("the program's own code has not returned: the process ends without it")
		return nil
	}
}
