package serve

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/remote/member"
)

// dryRun checks what can be checked without the cluster, and prints which task the server would be. A task's address that does not belong to
// this machine, or leads to the loopback interface, is only a warning: the check may be for another machine. A strict check fails if there is a
// warning.
func (f *serverFlags) dryRun(ctx context.Context, program []troupe.Option, out io.Writer, log *slog.Logger) error {
	var warnings atomic.Int64
	log = slog.New(counter{log.Handler(), &warnings})
	security, err := f.security.load(log)
	if err != nil {
		return exit.Refused(err)
	}
	defer security.close()
	cluster, self, err := f.resolve(log, f.options(program, security, log)...)
	if err != nil {
		return exit.Refused(err)
	}
	if cluster == nil {
		_, err = plain.Println(out, "a task of the cluster at "+strings.Join(f.join, ","))
		return err
	}
	if f.bind == "" {
		open := f.files.Insecure || f.security.tls.Cert != "" || f.security.secret != ""
		b, err := member.Bind(ctx, nil, cluster, self, open)
		switch {
		case err != nil:
			log.Warn("on this machine the server would not start", "error", err)
		case b.Warning != "":
			log.Warn(b.Warning)
		case b.Everywhere != "":
			log.Info("the port would be bound on all interfaces: " + b.Everywhere)
		}
	}
	if _, err = plain.Printf(out, "%v of %v\n", self, cluster); err != nil {
		return err
	}
	if f.strict && warnings.Load() > 0 {
		return exit.Refused(status.Errorf(status.FailedPrecondition, "the check is strict, and there were warnings"))
	}
	return nil
}

// counter is a log that counts its warnings and errors, also those that are not printed.
type counter struct {
	slog.Handler
	n *atomic.Int64
}

// Enabled implements slog.Handler.
func (c counter) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || c.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (c counter) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		c.n.Add(1)
	}
	if !c.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return c.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (c counter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return counter{c.Handler.WithAttrs(attrs), c.n}
}

// WithGroup implements slog.Handler.
func (c counter) WithGroup(name string) slog.Handler { return counter{c.Handler.WithGroup(name), c.n} }
