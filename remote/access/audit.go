package access

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// What a log takes at once and in a second, of refusals and of what was let happen. A flood of one leaves room for
// the other.
const (
	auditBurst = 200
	auditRate  = 20.0
	// auditGap is how long after the first event that was left out the log tells how many there were.
	auditGap = time.Second
	// maxAuditText bounds what a peer can have written.
	maxAuditText = 1024
)

// Event is something that the audit log tells.
type Event struct {
	What    string   // open, close, reset, list, login, reload, …
	Who     Identity // nobody's for a login that was refused
	From    string   // the address of the peer; empty for what the server did by itself
	Session string   // its handle; empty if there is none
	Detail  string
	Refused error // nil for what happened
}

// Audit records who did what, in lines of JSON. A nil Audit records nothing. All methods may be called concurrently.
type Audit struct {
	path string
	log  *slog.Logger // of the server
	out  *slog.Logger // of the events

	mu      sync.Mutex
	file    *os.File // nil: the events are in the server's log
	failing bool     // the last line could not be written
	closed  bool
	kinds   [2]auditKind // of what happened, and of refusals
	timer   *time.Timer  // runs while something was left out
}

// auditKind is how much of one kind of events was recorded lately.
type auditKind struct {
	tokens  float64
	filled  time.Time
	omitted int
}

// OpenAudit opens a file to append to, which nobody but its user can read; with an empty path, the events go to log.
func OpenAudit(path string, log *slog.Logger) (*Audit, error) {
	a := &Audit{path: path, log: cmp.Or(log, slog.Default())}
	a.out = a.log
	if path != "" {
		var err error
		if a.file, err = openAudit(path); err != nil {
			return nil, err
		}
		a.out = slog.New(slog.NewJSONHandler(auditWriter{a}, nil))
	}
	return a, nil
}

func openAudit(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "the audit log cannot be opened: %v", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		err = status.Errorf(status.FailedPrecondition, "others than its user can read or write it (mode %04o): chmod 600 %s", info.Mode().Perm(), path)
	}
	if err != nil {
		f.Close()
		return nil, status.Errorf(status.FailedPrecondition, "the audit log %s: %v", path, err)
	}
	return f, nil
}

// Reopen opens the file anew, after another program has renamed it. After an error the former file is written on.
func (a *Audit) Reopen() error {
	if a == nil || a.path == "" {
		return nil
	}
	f, err := openAudit(a.path)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return f.Close()
	}
	old := a.file
	a.file = f
	return old.Close()
}

// Close writes what was left out, and closes the file.
func (a *Audit) Close() error {
	if a == nil {
		return nil
	}
	a.tellOmitted()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}

// auditWriter writes lines to the file of the moment.
type auditWriter struct{ audit *Audit }

func (w auditWriter) Write(line []byte) (int, error) {
	a := w.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return len(line), nil // the event came when the log was being closed
	}
	n, err := a.file.Write(line)
	if err != nil && !a.failing {
		a.log.Error("the audit log cannot be written", "error", err)
	}
	a.failing = err != nil
	return n, err
}

// Record writes an event, unless too many of its kind were written lately: those are counted, and the count is
// written.
func (a *Audit) Record(e Event) {
	if a == nil || !a.admit(e.Refused != nil) {
		return
	}
	level, attrs := slog.LevelInfo, []slog.Attr{slog.String("event", e.What)}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value[:min(len(value), maxAuditText)]))
		}
	}
	if e.From != "" && e.What != "login" {
		add("who", e.Who.String())
		add("by", e.Who.Kind.String())
	}
	add("from", e.From)
	add("session", e.Session)
	add("detail", e.Detail)
	if e.Refused != nil {
		level = slog.LevelWarn
		add("code", status.CodeOf(e.Refused).String())
		add("refused", e.Refused.Error())
	}
	a.out.LogAttrs(context.Background(), level, "audit", attrs...)
}

// Reloaded records that files were read again, or could not be.
func (a *Audit) Reloaded(what string, err error) {
	a.Record(Event{What: "reload", Detail: what, Refused: err})
}

// admit tells whether an event is written, and counts it if not.
func (a *Audit) admit(refusal bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	k := &a.kinds[0]
	if refusal {
		k = &a.kinds[1]
	}
	now := time.Now()
	if k.filled.IsZero() {
		k.tokens = auditBurst
	} else {
		k.tokens = min(auditBurst, k.tokens+now.Sub(k.filled).Seconds()*auditRate)
	}
	k.filled = now
	if k.tokens >= 1 {
		k.tokens--
		return true
	}
	if k.omitted++; a.timer == nil {
		a.timer = time.AfterFunc(auditGap, a.tellOmitted)
	}
	return false
}

// tellOmitted writes how many events were left out.
func (a *Audit) tellOmitted() {
	a.mu.Lock()
	happened, refused := a.kinds[0].omitted, a.kinds[1].omitted
	a.kinds[0].omitted, a.kinds[1].omitted = 0, 0
	a.timer = nil
	closed := a.closed
	a.mu.Unlock()
	if happened+refused == 0 || closed {
		return
	}
	a.out.LogAttrs(context.Background(), slog.LevelWarn, "audit", slog.String("event", "left out"),
		slog.Int("events", happened), slog.Int("refusals", refused))
}
