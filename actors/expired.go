package actors

import (
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// rememberedSessions is how many sessions are remembered that ended with their lease: the oldest of more are forgotten.
const rememberedSessions = 1 << 10

// expiredSessions remembers which sessions ended with their lease, and when, for clients that come back too late: such as
// one that was suspended. Its methods may be called concurrently.
type expiredSessions struct {
	mu      sync.Mutex
	since   map[string]time.Time
	handles [rememberedSessions]string // in the order of their ends, from next on
	next    int
}

func (e *expiredSessions) add(handle string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.since == nil {
		e.since = map[string]time.Time{}
	}
	delete(e.since, e.handles[e.next])
	e.since[handle], e.handles[e.next] = time.Now(), handle
	e.next = (e.next + 1) % rememberedSessions
}

func (e *expiredSessions) at(handle string) (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, ok := e.since[handle]
	return t, ok
}

// notFound is the error of a handle that is not that of an open session: in TensorFlow's words, where the master does not
// know better.
func (t *Task) notFound(code status.Code, handle string) error {
	if at, ok := t.sessionsOf.expired.at(handle); ok {
		return status.Errorf(code, "Session %s is not found: it was closed %v ago, after its client had had no connection to %s for %v, which is the lease of a session. Was the client suspended, or its network down? Open a new session, or start the server with a longer lease.",
			handle, time.Since(at).Round(time.Second), t.name, t.Lease)
	}
	return status.Errorf(code, "Session %s is not found. Possibly, this master has restarted.", handle)
}
