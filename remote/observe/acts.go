package observe

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
)

// acts maps the paths of the pages' acts to the right that the caller needs.
var acts = map[string]access.Action{"/ui/api/cancel": access.CancelSteps, "/ui/api/reset": access.ResetCluster, "/ui/api/drain": access.DrainTasks}

// isAct reports whether a request asks for an act.
func (h *handler) isAct(r *http.Request) bool {
	_, ok := acts[r.URL.Path]
	return ok && h.config.UI != nil && r.Method == http.MethodPost
}

// callerKey is the context key of the caller of a request to the pages.
type callerKey struct{}

// caller identifies the caller of a request to the pages.
type caller struct {
	h *handler
	r *http.Request
}

// called stores the caller of a request in its context for the pages.
func (h *handler) called(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, &caller{h, r})))
	})
}

// acting passes a request to act on if its caller is identified. The task decides whether the caller may act, as for calls of its port.
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

// record records a refusal, even without a guard.
func (h *handler) record(e access.Event) {
	if g := h.config.Guard; g != nil {
		g.Record(e)
	} else {
		h.config.Tasks.Refused(e)
	}
}

// exposed returns an error if everybody on a network could ask for acts: beyond the loopback interface, or under the name of something that
// forwards to it.
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

// identity returns the identity of an unnamed peer.
func identity(p access.Peer) access.Identity {
	p.Authorization = ""
	who, err := access.Identify(p, nil)
	if err != nil {
		return access.Identity{}
	}
	return who
}

// MayAct reports whether the caller of the pages' request in ctx may cancel steps (at least those of its own sessions), reset containers
// (at least some), and drain tasks. It records nothing.
func (t *Tasks) MayAct(ctx context.Context) (cancel, reset, drain bool) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok || c.h.config.exposed(c.r.Host) != nil {
		return false, false, false
	}
	rights, err := c.h.rights(c.r)
	if err != nil {
		return false, false, false
	}
	may := func(a access.Action) bool { return rights.May(a) == nil }
	return may(access.CancelSteps) || may(access.OpenSessions), may(access.ResetCluster), may(access.DrainTasks)
}

// CancelStep makes the first serving task cancel a step, on whichever task of the cluster it runs, for the caller of the pages' request in
// ctx. It returns the name of the step's session and its master. Its errors are those of client.Client's CancelStep, and See's.
func (t *Tasks) CancelStep(ctx context.Context, step uint64) (session, master string, err error) {
	first, peer, err := t.actor(ctx)
	if err != nil {
		return "", "", err
	}
	return first.Cancel(ctx, peer, step)
}

// Reset makes the first serving task close its sessions and empty containers on all tasks, the default ones if no names are given, for the
// caller of the pages' request in ctx.
func (t *Tasks) Reset(ctx context.Context, containers []string) error {
	first, peer, err := t.actor(ctx)
	if err != nil {
		return err
	}
	return first.Reset(ctx, peer, containers)
}

// Drain makes the first serving task end a task of the cluster, for the caller of the pages' request in ctx.
func (t *Tasks) Drain(ctx context.Context, task string, within time.Duration) error {
	first, peer, err := t.actor(ctx)
	if err != nil {
		return err
	}
	return first.Drain(ctx, peer, task, within)
}

// actor returns the task that acts, and the peer that it acts for.
func (t *Tasks) actor(ctx context.Context) (Task, access.Peer, error) {
	c, ok := ctx.Value(callerKey{}).(*caller)
	if !ok {
		return nil, access.Peer{}, status.Internalf("an act without a request")
	}
	first, err := t.first()
	return first, peerOf(c.r), err
}
