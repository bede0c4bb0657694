// Package logs keeps a log readable, and its file from filling the disk, whatever peers provoke.
package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// burst is how many records with one message are written at once, perSecond the sustained rate.
	burst     = 50
	perSecond = 5
	// maxMessages bounds the messages that are counted each by itself. There are few, since messages are constants of the program. All others
	// count together: what clients have logged in their own words, such as where each of their nodes runs.
	maxMessages     = 512
	othersBurst     = 1 << 12
	othersPerSecond = 100
)

// Limit returns a handler that rate-limits records with the same message and passes the rest to the next handler. The next record that is
// written reports the number of dropped ones as "suppressed". Records with different messages do not affect each other.
func Limit(next slog.Handler) slog.Handler {
	return &limited{next: next, counts: &counts{of: map[string]*count{}, others: count{left: othersBurst, at: time.Now()}}}
}

// Limited returns a logger for what serves others, who can cause any of its lines: log with a Limit. A nil log is the default logger.
func Limited(log *slog.Logger) *slog.Logger {
	if log == nil {
		log = slog.Default()
	}
	return slog.New(Limit(log.Handler()))
}

type limited struct {
	next   slog.Handler
	counts *counts
}

type counts struct {
	mu     sync.Mutex
	of     map[string]*count
	others count // of the messages beyond maxMessages
}

// count is the token bucket of one message.
type count struct {
	left       float64
	at         time.Time
	suppressed int
}

func (l *limited) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := l.counts.allow(r.Message, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return l.next.Handle(ctx, r)
}

// allow reports whether a record may be written, and how many were dropped since the last one.
func (c *counts) allow(message string, now time.Time) (suppressed int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, most, rate := c.of[message], float64(burst), float64(perSecond)
	switch {
	case n == nil && len(c.of) >= maxMessages:
		n, most, rate = &c.others, othersBurst, othersPerSecond
	case n == nil:
		n = &count{left: burst, at: now}
		c.of[message] = n
	}
	n.left = min(most, n.left+now.Sub(n.at).Seconds()*rate)
	n.at = now
	if n.left < 1 {
		n.suppressed++
		return 0, false
	}
	n.left--
	suppressed, n.suppressed = n.suppressed, 0
	return suppressed, true
}

func (l *limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limited{next: l.next.WithAttrs(attrs), counts: l.counts}
}

func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{next: l.next.WithGroup(name), counts: l.counts}
}
