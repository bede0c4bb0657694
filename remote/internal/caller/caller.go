// Package caller identifies the callers of a task, and judges what they may do.
package caller

import (
	"context"
	"fmt"
	"net"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
)

// Caller is the caller of a task with a guard, and its rights. The zero Caller, for a task without a guard, may do everything.
type Caller struct {
	guard  *access.Guard
	peer   access.Peer
	rights *access.Rights
}

// Of returns the caller of the call in ctx. guard may be nil. The error is UNAUTHENTICATED.
func Of(ctx context.Context, guard *access.Guard) (Caller, error) {
	if guard == nil {
		return Caller{}, nil
	}
	p, _ := http2.PeerOf(ctx)
	return admit(p.Connection, access.Peer{Address: p.Address, TLS: p.TLS, Authorization: http2.AuthorizationOf(ctx)}, guard)
}

// At is Of for a peer that does not come over the task's port.
func At(p access.Peer, guard *access.Guard) (Caller, error) {
	if guard == nil {
		return Caller{}, nil
	}
	return admit(0, p, guard)
}

func admit(connection uint64, p access.Peer, guard *access.Guard) (Caller, error) {
	c := Caller{guard: guard, peer: p}
	var err error
	c.rights, err = guard.Admit(connection, p)
	return c, err
}

// Rights returns the caller's rights; nil means that it may do everything.
func (c *Caller) Rights() *access.Rights { return c.rights }

// Guard returns the guard of the task; nil if there is none.
func (c *Caller) Guard() *access.Guard { return c.guard }

// May returns an error for an action that the caller may not do, and records the refusal.
func (c *Caller) May(a access.Action) error {
	if c.guard == nil {
		return nil
	}
	return c.Judged(a.String(), "", c.rights.May(a))
}

// Judged records a refusal by the policy, which is a PERMISSION_DENIED error, and returns it. what is what was refused, and session the session
// or eager context that it is about.
func (c *Caller) Judged(what, session string, err error) error {
	if c.guard != nil && status.CodeOf(err) == status.PermissionDenied {
		c.Record(what, session, "", err)
	}
	return err
}

// Record writes to the audit log.
func (c *Caller) Record(what, session, detail string, refused error) {
	if c.guard == nil {
		return
	}
	c.guard.Record(access.Event{What: what, Who: c.rights.Who(), From: c.peer.From(), Session: session, Detail: detail, Refused: refused})
}

// Act records an administrative act of the caller.
func (c *Caller) Act(what, detail string) {
	if c.guard != nil {
		c.guard.Record(access.Event{What: what, Who: c.rights.Who(), From: c.peer.From(), Detail: detail, Act: true})
	}
}

// MayCancel returns whose steps the caller may cancel: all if owner is empty, otherwise those of one owner, and others says why not all. It
// returns an error for a caller that may not have steps either.
func (c *Caller) MayCancel() (owner string, others, err error) {
	if c.guard == nil {
		return "", nil, nil
	}
	if others = c.rights.May(access.CancelSteps); others == nil {
		return "", nil, nil
	}
	if c.rights.May(access.OpenSessions) != nil {
		return "", nil, c.Judged("cancel", "", others)
	}
	return c.rights.Who().String(), others, nil
}

// Cancelled records that the caller cancelled a step, or was refused.
func (c *Caller) Cancelled(detail string, refused error) {
	if refused == nil && c.guard != nil && c.rights.May(access.CancelSteps) == nil {
		c.Act("cancel", detail)
		return
	}
	c.Record("cancel", "", detail, refused)
}

// Drained records that the caller made a task end.
func (c *Caller) Drained(task string) { c.Act("drain", task) }

// NameOf returns the caller in ctx for other people: its identity, if that has a name, and its address.
func (c *Caller) NameOf(ctx context.Context) string {
	p, _ := http2.PeerOf(ctx)
	return c.NameAt(p.Address)
}

// NameAt is NameOf for a caller at an address, which is nil within the process.
func (c *Caller) NameAt(address net.Addr) string {
	if c.guard != nil && c.rights.Who().Name != (access.Name{}) {
		return fmt.Sprintf("%s at %s", c.rights.Who(), c.peer.From())
	}
	return ClientAt(address)
}

// IsTask reports whether the caller has proved with its certificate that it is a task of the cluster.
func (c *Caller) IsTask() bool {
	if c.guard == nil {
		return false
	}
	who := c.rights.Who()
	return who.Kind == access.Certificate && who.Name.Job() != ""
}

// ClientAt describes the client at an address, which may be nil, for other people.
func ClientAt(address net.Addr) string {
	if address == nil {
		return "a client of no known address"
	}
	return "the client at " + address.String()
}
