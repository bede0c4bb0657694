package observe

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
)

// acts are the paths where the pages act, with what the caller needs the right to.
var acts = map[string]access.Action{"/ui/api/cancel": access.CancelSteps, "/ui/api/reset": access.ResetCluster, "/ui/api/drain": access.DrainTasks}

// isAct tells whether a request asks for an act.
func (h *handler) isAct(r *http.Request) bool {
	_, ok := acts[r.URL.Path]
	return ok && h.config.UI != nil && r.Method == http.MethodPost
}

// callerKey is the key of the caller in the context of a request to the pages.
type callerKey struct{}

// caller is who makes a request to the pages.
type caller struct {
	h    *handler
	peer access.Peer
	host string // of the request
}

// called tells the pages who makes a request.
func (h *handler) called(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{h, peerOf(r), r.Host})))
	})
}

// acting lets a request to act pass if it is known who makes it. Whether the caller may is decided by the task, as for calls of its port.
func (h *handler) acting(a access.Action, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rights, err := h.rights(r)
		if err == nil {
			if err = h.config.exposed(r.Host); err != nil {
				h.record(access.Event{What: a.String(), Who: rights.Who(), From: peerOf(r).From(), Refused: err})
			}
		}
		if err != nil {
			h.refuse(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// record notes a refusal, also where there is no guard.
func (h *handler) record(e access.Event) {
	if g := h.config.Guard; g != nil {
		g.Record(e)
	} else {
		h.config.Tasks.Refused(e)
	}
}

// exposed refuses acts where everybody on a network could ask for them: beyond the loopback interface, and under a name that something has
// which forwards to it.
func (c *Config) exposed(host string) error {
	if !c.open() {
		return nil
	}
	const why = "the pages may not act: the server has no certificates, tokens or policy, and "
	if !c.local {
		return status.Errorf(status.PermissionDenied, why+"its HTTP endpoint does not listen on the loopback interface")
	}
	name := hostName(host)
	if at, err := netip.ParseAddr(name); name != "localhost" && (err != nil || !at.IsLoopback()) {
		return status.Errorf(status.PermissionDenied, why+"%s is not the name of its loopback interface: call it as localhost", quoted(host))
	}
	return nil
}

// identity is who an unnamed peer is.
func identity(p access.Peer) access.Identity {
	p.Authorization = ""
	who, err := access.Identify(p, nil)
	if err != nil {
		return access.Identity{}
	}
	return who
}

// mayAct tells whether the caller may ask for an act at all. It records nothing.
func (c *caller) mayAct(actions ...access.Action) bool {
	if c.h.config.exposed(c.host) != nil {
		return false
	}
	g := c.h.config.Guard
	if g == nil {
		return true
	}
	rights, err := g.Admit(0, c.peer)
	if err != nil {
		return false
	}
	for _, a := range actions {
		if rights.May(a) == nil {
			return true
		}
	}
	return false
}

// MayAct tells whether the caller of the request to the pages that ctx is of may cancel steps, if only those of its own sessions, reset
// containers, if only some, and drain tasks.
func (t *Tasks) MayAct(ctx context.Context) (cancel, reset, drain bool) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return false, false, false
	}
	return c.mayAct(access.CancelSteps, access.OpenSessions), c.mayAct(access.ResetCluster), c.mayAct(access.DrainTasks)
}

// CancelStep has the first task that serves cancel a step, on whichever task of the cluster it runs, for the caller of the request to the
// pages that ctx is of. It gives the name of the step's session and its master. Its errors are those of client.Client's CancelStep, and See's.
func (t *Tasks) CancelStep(ctx context.Context, step uint64) (session, master string, err error) {
	first, peer, err := t.actor(ctx)
	if err != nil {
		return "", "", err
	}
	return first.Cancel(ctx, peer, step)
}

// Reset has the first task that serves close its sessions and empty containers on all tasks, without names the default ones, for the
// caller of the request to the pages that ctx is of.
func (t *Tasks) Reset(ctx context.Context, containers []string) error {
	first, peer, err := t.actor(ctx)
	if err != nil {
		return err
	}
	return first.Reset(ctx, peer, containers)
}

// Drain has the first task that serves have a task of the cluster end, for the caller of the request to the pages that ctx is of.
func (t *Tasks) Drain(ctx context.Context, task string, within time.Duration) error {
	first, peer, err := t.actor(ctx)
	if err != nil {
		return err
	}
	return first.Drain(ctx, peer, task, within)
}

// actor is the task that acts, and for whom.
func (t *Tasks) actor(ctx context.Context) (Task, access.Peer, error) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return nil, access.Peer{}, status.Internalf("an act of no request")
	}
	first, err := t.first()
	return first, c.peer, err
}
