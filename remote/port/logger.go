package port

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc/grpclog"
)

// quieter lowers the library's levels by one: what it calls information is of interest only to
// who debugs it, and a lost endpoint, which it calls an error, is a peer that went away.
type quieter struct {
	slog.Handler
	mute *muteGuard
}

const levelStep = slog.LevelWarn - slog.LevelInfo

func (q quieter) Enabled(ctx context.Context, l slog.Level) bool {
	q.mute.restore()
	return q.Handler.Enabled(ctx, l-levelStep)
}

func (q quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level -= levelStep
	return q.Handler.Handle(ctx, r)
}

func (q quieter) WithAttrs(a []slog.Attr) slog.Handler {
	return quieter{q.Handler.WithAttrs(a), q.mute}
}
func (q quieter) WithGroup(n string) slog.Handler { return quieter{q.Handler.WithGroup(n), q.mute} }

func actorLogger(log *slog.Logger, mute *muteGuard) actor.ConfigOption {
	quiet := slog.New(quieter{log.Handler(), mute})
	return actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet })
}

// muteGuard undoes that the remoting's start makes gRPC mute for the whole process. It does so
// at the first line that the library logs while it starts: other ports of the process may be
// in use, and gRPC reads the variable without a lock.
type muteGuard struct{ armed atomic.Bool }

func (m *muteGuard) arm() {
	processLog.calls.Add(1)
	m.armed.Store(true)
}

func (m *muteGuard) restore() {
	if m.armed.CompareAndSwap(true, false) {
		grpclog.SetLoggerV2(processLog)
		processLog.calls.Add(1)
	}
}

// grpcLog is gRPC's logger for the whole process. Every message passes through calls, so that
// what gRPC logged before a port started is ordered before that start.
type grpcLog struct {
	calls atomic.Int64
	level slog.Level
	log   *slog.Logger
}

// processLog follows gRPC's own environment variable, and like gRPC reports errors only if it
// is not set.
var processLog = func() *grpcLog {
	l := &grpcLog{level: slog.LevelError, log: slog.Default()}
	switch strings.ToLower(os.Getenv("GRPC_GO_LOG_SEVERITY_LEVEL")) {
	case "info":
		l.level = slog.LevelInfo
	case "warning":
		l.level = slog.LevelWarn
	}
	return l
}()

var _ grpclog.LoggerV2 = processLog

func (l *grpcLog) write(level slog.Level, text func() string) {
	l.calls.Add(1)
	if level >= l.level {
		l.log.Log(context.Background(), level, "grpc: "+strings.TrimSuffix(text(), "\n"))
	}
}

func (l *grpcLog) print(level slog.Level, a []any) {
	l.write(level, func() string { return fmt.Sprint(a...) })
}

func (l *grpcLog) printf(level slog.Level, format string, a []any) {
	l.write(level, func() string { return fmt.Sprintf(format, a...) })
}

func (l *grpcLog) Info(a ...any)                    { l.print(slog.LevelInfo, a) }
func (l *grpcLog) Infoln(a ...any)                  { l.print(slog.LevelInfo, a) }
func (l *grpcLog) Infof(format string, a ...any)    { l.printf(slog.LevelInfo, format, a) }
func (l *grpcLog) Warning(a ...any)                 { l.print(slog.LevelWarn, a) }
func (l *grpcLog) Warningln(a ...any)               { l.print(slog.LevelWarn, a) }
func (l *grpcLog) Warningf(format string, a ...any) { l.printf(slog.LevelWarn, format, a) }
func (l *grpcLog) Error(a ...any)                   { l.print(slog.LevelError, a) }
func (l *grpcLog) Errorln(a ...any)                 { l.print(slog.LevelError, a) }
func (l *grpcLog) Errorf(format string, a ...any)   { l.printf(slog.LevelError, format, a) }
func (l *grpcLog) Fatal(a ...any)                   { l.print(slog.LevelError, a); os.Exit(1) }
func (l *grpcLog) Fatalln(a ...any)                 { l.print(slog.LevelError, a); os.Exit(1) }
func (l *grpcLog) Fatalf(format string, a ...any)   { l.printf(slog.LevelError, format, a); os.Exit(1) }

// V tells whether messages of this verbosity are wanted; gRPC's own are at 2.
func (l *grpcLog) V(int) bool {
	l.calls.Add(1)
	return l.level <= slog.LevelInfo
}
