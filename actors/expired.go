package actors

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/recent"
)

// rememberedSessions bounds the remembered sessions that ended with their lease; beyond it, the oldest are forgotten.
const rememberedSessions = 1 << 10

// expiredSessions remembers which sessions ended with their lease, and when, for clients that return too late, such as one that was
// suspended. Its methods may be called concurrently.
type expiredSessions struct {
	mu    sync.Mutex // guards since: calls with the handle of an ended session are answered on their own goroutines
	since *recent.Map[string, expiry]
}

// expiry is when a session ended with its lease, and why.
type expiry struct {
	at  time.Time
	why string
}

func (e *expiredSessions) add(handle, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since.Add(handle, expiry{time.Now(), why})
}

func (e *expiredSessions) at(handle string) (expiry, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.since.Get(handle)
}

// notFound returns the error for a handle of no open session, in TensorFlow's words unless the master knows that the session ended with its
// lease.
func (t *Task) notFound(code status.Code, handle string) error {
	if e, ok := t.sessionsOf.expired.at(handle); ok {
		return status.Errorf(code, "Session %s is not found: it was closed %v ago, since its client had no connection to %s, and %s: without a client, a session lives for %v, or %v where memory is short. Was the client suspended, or its network down? Open a new session, or start the server with a longer lease (--lease).",
			handle, time.Since(e.at).Round(time.Second), t.name, e.why, t.Lease, min(t.Lease, ShortLease))
	}
	return status.Errorf(code, "Session %s is not found. Possibly, this master has restarted.", handle)
}
