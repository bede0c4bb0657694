package port

import (
	"context"
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"
)

// quieter lowers the library's levels by one: its Info records are of interest only for
// debugging it.
type quieter struct{ slog.Handler }

const levelStep = slog.LevelWarn - slog.LevelInfo

func (q quieter) Enabled(ctx context.Context, l slog.Level) bool {
	return q.Handler.Enabled(ctx, l-levelStep)
}

func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level -= levelStep
	return q.Handler.Handle(ctx, r)
}

func (q quieter) WithAttrs(a []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(a)}
}
func (q quieter) WithGroup(n string) slog.Handler { return quieter{q.Handler.WithGroup(n)} }

func actorLogger(log *slog.Logger) actor.ConfigOption {
	quiet := slog.New(quieter{log.Handler()})
	return actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet })
}
