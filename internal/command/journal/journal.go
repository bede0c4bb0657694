package journal

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strconv"
)

// The priorities of lines.
const (
	Error   Priority = 3
	Warning Priority = 4
	Info    Priority = 6
	Debug   Priority = 7
)

// Priority is one of syslog's.
type Priority int

// priorities are those of slog's levels, each up to the next one.
var priorities = [...]struct {
	from slog.Level
	of   Priority
}{{slog.LevelError, Error}, {slog.LevelWarn, Warning}, {slog.LevelInfo, Info}}

// Of returns the priority of records of a level.
func Of(level slog.Level) Priority {
	for _, p := range priorities {
		if level >= p.from {
			return p.of
		}
	}
	return Debug
}

// Lines returns a writer that gives each line the priority, if out is the stream to the journal that JOURNAL_STREAM in the environment
// names. Otherwise it returns out. Each write consists of whole lines.
func Lines(out io.Writer, p Priority) io.Writer {
	if !isJournal(out) {
		return out
	}
	return lines{out, p}
}

// lines writes each line with a priority.
type lines struct {
	out io.Writer
	of  Priority
}

func (l lines) Write(text []byte) (int, error) {
	var b bytes.Buffer
	priority := "<" + strconv.Itoa(int(l.of)) + ">"
	for line := range bytes.Lines(text) {
		b.WriteString(priority)
		b.Write(line)
	}
	if _, err := l.out.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Handler returns a handler that writes records to out as those of create do, each with the priority of its level if out is the stream to the
// journal.
func Handler(out io.Writer, create func(io.Writer) slog.Handler) slog.Handler {
	if !isJournal(out) {
		return create(out)
	}
	h := &handler{of: map[Priority]slog.Handler{}}
	for _, p := range []Priority{Error, Warning, Info, Debug} {
		h.of[p] = create(lines{out, p})
	}
	return h
}

// handler has a handler for each priority.
type handler struct{ of map[Priority]slog.Handler }

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of[Of(level)].Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	return h.of[Of(r.Level)].Handle(ctx, r)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(one slog.Handler) slog.Handler { return one.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	return h.with(func(one slog.Handler) slog.Handler { return one.WithGroup(name) })
}

func (h *handler) with(change func(slog.Handler) slog.Handler) slog.Handler {
	next := &handler{of: map[Priority]slog.Handler{}}
	for p, one := range h.of {
		next.of[p] = change(one)
	}
	return next
}
