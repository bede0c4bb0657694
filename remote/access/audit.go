package access

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// What a log accepts from one source at once and per second, separately for refusals and for permitted events. A flood of one kind leaves
// room for the other, and a flood from one source leaves room for all others.
const (
	auditBurst = 200
	auditRate  = 20.0
	// maxSources bounds the sources that are told apart at the same time. Beyond it, sources without a name share one budget.
	maxSources = 4096
	// auditGap is how long after the first omitted event the log reports how many were omitted.
	auditGap = time.Second
	// maxAuditText bounds the text that a peer can cause to be written.
	maxAuditText = 1024
)

// Event is an entry of the audit log.
type Event struct {
	What    string   // open, close, reset, list, login, reload, …
	Who     Identity // nobody's for a refused login
	From    string   // the address of the peer; empty for the server's own actions
	Session string   // its handle; empty if there is none
	Detail  string
	Refused error // nil if it was permitted
	// Act marks an administrative act, which is written regardless of how many there are: a reset, a drain, a reload, or the cancellation of
	// somebody else's step.
	Act bool
}

// source identifies whose events share a budget: a named identity, or the host of an unnamed one.
type source struct {
	name Name
	kind Kind
	host string
}

func (e *Event) source() source {
	if e.Who.Name != (Name{}) {
		return source{name: e.Who.Name}
	}
	host, _, err := net.SplitHostPort(e.From)
	if err != nil {
		host = e.From
	}
	return source{kind: e.Who.Kind, host: host}
}

// others is the source that unnamed sources share once there are too many.
var others = source{host: "other hosts"}

// String returns the source's name in the log.
func (s source) String() string {
	if s.name != (Name{}) {
		return Identity{Name: s.name}.String()
	}
	return s.host
}

// Audit records who did what, as lines of JSON. A nil Audit records nothing. Its methods are safe for concurrent use.
type Audit struct {
	path string
	log  *slog.Logger // of the server
	out  *slog.Logger // of the events

	mu      sync.Mutex
	file    *os.File // nil: the events are in the server's log
	failing bool     // the last line could not be written
	closed  bool
	sources map[source]*budget
	swept   time.Time   // when idle sources were last forgotten
	timer   *time.Timer // runs while omitted events are unreported
}

// budget is how much of a source's events was recorded lately, for permitted events and for refusals.
type budget [2]struct {
	tokens  float64
	filled  time.Time
	omitted int
}

// idle reports whether the budget is full, so that it can be forgotten.
func (b *budget) idle(now time.Time) bool {
	for _, k := range b {
		if k.omitted > 0 || !k.filled.IsZero() && k.tokens+now.Sub(k.filled).Seconds()*auditRate < auditBurst {
			return false
		}
	}
	return true
}

// OpenAudit opens a file for appending that only its user can read; with an empty path, the events go to log.
func OpenAudit(path string, log *slog.Logger) (*Audit, error) {
	a := &Audit{path: path, log: cmp.Or(log, slog.Default()), sources: map[source]*budget{}}
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

// Reopen opens the file again, after another program has renamed it. After an error, the previous file stays in use.
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

// Close reports omitted events and closes the file.
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

// auditWriter writes lines to the current file.
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

// Record writes an event. If too many of the same source and kind were written lately, it only counts the event, unless it is an
// administrative act. The count is written later.
func (a *Audit) Record(e Event) {
	if a == nil || !a.admit(&e) {
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

// Reloaded records that files were reloaded, or could not be.
func (a *Audit) Reloaded(what string, err error) {
	a.Record(Event{What: "reload", Detail: what, Refused: err, Act: true})
}

// admit reports whether to write an event, and counts it if not.
func (a *Audit) admit(e *Event) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return false
	case e.Act:
		return true
	}
	now := time.Now()
	b := a.budgetLocked(e.source(), now)
	k := &b[0]
	if e.Refused != nil {
		k = &b[1]
	}
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

// budgetLocked finds or creates a source's budget. The number of names is bounded by the policy, or by the issuer of certificates and
// tokens; the number of unnamed hosts is bounded here.
func (a *Audit) budgetLocked(of source, now time.Time) *budget {
	if b := a.sources[of]; b != nil {
		return b
	}
	if len(a.sources) >= maxSources && now.Sub(a.swept) >= auditGap { // a flood of new sources looks at all others once in a while, not each time
		a.swept = now
		maps.DeleteFunc(a.sources, func(_ source, b *budget) bool { return b.idle(now) })
	}
	if len(a.sources) >= maxSources && of.name == (Name{}) && of != others {
		return a.budgetLocked(others, now)
	}
	b := &budget{}
	a.sources[of] = b
	return b
}

// tellOmitted writes how many events of each source were omitted.
func (a *Audit) tellOmitted() {
	a.mu.Lock()
	left := map[string][2]int{}
	for of, b := range a.sources {
		if n := [2]int{b[0].omitted, b[1].omitted}; n != [2]int{} {
			was := left[of.String()] // a host may have identified itself in several ways
			left[of.String()] = [2]int{was[0] + n[0], was[1] + n[1]}
			b[0].omitted, b[1].omitted = 0, 0
		}
	}
	a.timer = nil
	closed := a.closed
	a.mu.Unlock()
	if closed {
		return
	}
	for _, of := range slices.Sorted(maps.Keys(left)) {
		a.out.LogAttrs(context.Background(), slog.LevelWarn, "audit", slog.String("event", "left out"), slog.String("of", of),
			slog.Int("events", left[of][0]), slog.Int("refusals", left[of][1]))
	}
}
