package gateway

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// Caller is who makes a call to a server with a guard, and what the caller may do. The zero Caller, of a server without
// one, may do everything.
type Caller struct {
	guard  *access.Guard
	peer   access.Peer
	rights *access.Rights
}

// CallerOf tells who makes the call that ctx is of. guard may be nil. The error is UNAUTHENTICATED.
func CallerOf(ctx context.Context, guard *access.Guard) (Caller, error) {
	if guard == nil {
		return Caller{}, nil
	}
	p, _ := http2.PeerOf(ctx)
	return callerAt(p.Connection, access.Peer{Address: p.Address, TLS: p.TLS, Authorization: http2.AuthorizationOf(ctx)}, guard)
}

// CallerAt is CallerOf for a peer that does not come over the task's port.
func CallerAt(p access.Peer, guard *access.Guard) (Caller, error) {
	if guard == nil {
		return Caller{}, nil
	}
	return callerAt(0, p, guard)
}

func callerAt(connection uint64, p access.Peer, guard *access.Guard) (Caller, error) {
	c := Caller{guard: guard, peer: p}
	var err error
	c.rights, err = guard.Admit(connection, p)
	return c, err
}

// May refuses an action that the caller may not do, and records the refusal.
func (c *Caller) May(a access.Action) error {
	if c.guard == nil {
		return nil
	}
	return c.judged(a.String(), "", c.rights.May(a))
}

// judged records a refusal by the policy: an error that is PERMISSION_DENIED.
func (c *Caller) judged(what, session string, err error) error {
	if c.guard != nil && status.CodeOf(err) == status.PermissionDenied {
		c.record(what, session, "", err)
	}
	return err
}

// record writes to the audit log.
func (c *Caller) record(what, session, detail string, refused error) {
	if c.guard == nil {
		return
	}
	c.guard.Record(access.Event{What: what, Who: c.rights.Who(), From: c.peer.From(), Session: session, Detail: detail, Refused: refused})
}

// MayCancel tells whose steps the caller may cancel: those of one owner, and others is why not all; or all where owner is empty. The
// error refuses a caller who can have no steps either.
func (c *Caller) MayCancel() (owner string, others, err error) {
	if c.guard == nil {
		return "", nil, nil
	}
	if others = c.rights.May(access.CancelSteps); others == nil {
		return "", nil, nil
	}
	if c.rights.May(access.OpenSessions) != nil {
		return "", nil, c.judged("cancel", "", others)
	}
	return c.rights.Who().String(), others, nil
}

// Cancelled records that the caller has cancelled a step, or was refused to.
func (c *Caller) Cancelled(detail string, refused error) { c.record("cancel", "", detail, refused) }

// Drained records that the caller has had a task end.
func (c *Caller) Drained(task string) { c.record("drain", "", task, nil) }

// NameOf is the caller who makes the call that ctx is of, for other people: an identity that has a name, and the address.
func (c *Caller) NameOf(ctx context.Context) string {
	p, _ := http2.PeerOf(ctx)
	return c.NameAt(p.Address)
}

// NameAt is NameOf for a caller at an address, which is nil within the process.
func (c *Caller) NameAt(address net.Addr) string {
	if c.guard != nil && c.rights.Who().Name != (access.Name{}) {
		return fmt.Sprintf("%s at %s", c.rights.Who(), c.peer.From())
	}
	return rightsOfPeer(http2.Peer{Address: address}).Who
}

// mayUse refuses a session of somebody else, unless the caller may use others'. One that is not there is left to the
// call, which says so.
func (c *Caller) mayUse(task *actors.Task, handle string) error {
	if c.guard == nil {
		return nil
	}
	s := task.OpenSession(handle)
	if s == nil {
		return nil
	}
	g, ok := s.Policy().(*grant)
	if !ok { // the program's own
		return c.May(access.OtherSessions)
	}
	return c.judged("use", handle, g.Use(c.rights))
}

// mayReset refuses to empty containers that the caller may not use. Without names they are the default ones.
func (c *Caller) mayReset(containers []string) error {
	if err := c.May(access.ResetCluster); err != nil || c.guard == nil {
		return err
	}
	if len(containers) == 0 {
		containers = []string{""}
	}
	for _, name := range containers {
		if err := c.rights.Container(name); err != nil {
			return c.judged("reset", "", err)
		}
	}
	return nil
}

// sessionRights are those of a session that the caller opens.
func (c *Caller) sessionRights(ctx context.Context) (actors.Rights, error) {
	r := rightsOf(ctx)
	if c.guard == nil {
		return r, nil
	}
	opened, err := c.guard.OpenSession(c.rights)
	if err != nil {
		c.record("open", "", "", err)
		return r, err
	}
	r.Owner = c.rights.Who().String()
	if who := c.rights.Who(); who.Name != (access.Name{}) {
		r.Client = who.String()
	}
	l := c.rights.Limits()
	r.StepBytes, r.SessionBytes, r.ClientBytes = l.StepBytes, l.SessionBytes, l.ClientBytes
	if r.Client == "" && l.ClientBytes > 0 {
		r.Client = c.rights.Who().String()
	}
	if c.guard.HasPolicy() {
		r.Who, r.Files = c.rights.Who().String(), fileRights[c.rights.Files()]
	}
	r.Policy = &grant{Grant: opened, caller: *c}
	return r, nil
}

var fileRights = [...]actors.FileRights{access.NoFiles: actors.NoFiles, access.SharedFiles: actors.SharedFiles, access.AllFiles: actors.AllFiles}

// grant is what bounds a session.
type grant struct {
	*access.Grant
	caller Caller // who opened it

	mu     sync.Mutex
	handle string // while the session is open and recorded
}

var _ actors.Policy = (*grant)(nil)

// Rules are the owner's rights.
func (g *grant) Rules() actors.Rules { return g.Rights() }

// opened records that the session is open.
func (g *grant) opened(handle string) {
	g.mu.Lock()
	g.handle = handle
	g.mu.Unlock()
	g.caller.record("open", handle, "", nil)
}

// Close records that the session has ended.
func (g *grant) Close() {
	g.mu.Lock()
	handle := g.handle
	g.handle = ""
	g.mu.Unlock()
	if handle != "" {
		g.caller.record("close", handle, "", nil)
	}
	g.Grant.Close()
}
