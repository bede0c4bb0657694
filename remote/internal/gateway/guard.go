package gateway

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// Caller is the caller of a server with a guard, and its rights. The zero Caller, for a server without a guard, may do everything.
type Caller struct {
	guard  *access.Guard
	peer   access.Peer
	rights *access.Rights
}

// CallerOf returns the caller of the call in ctx. guard may be nil. The error is UNAUTHENTICATED.
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

// Rights returns the caller's rights; nil means that it may do everything.
func (c *Caller) Rights() *access.Rights { return c.rights }

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

// act records an administrative act of the caller.
func (c *Caller) act(what, detail string) {
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
		c.act("cancel", detail)
		return
	}
	c.record("cancel", "", detail, refused)
}

// Drained records that the caller made a task end.
func (c *Caller) Drained(task string) { c.act("drain", task) }

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
	return rightsOfPeer(http2.Peer{Address: address}).Who
}

// mayUse rejects another owner's session, unless the caller may use those. For an unknown session it returns nil: the call itself reports
// that.
func (c *Caller) mayUse(task *actors.Task, handle string) error {
	if c.guard == nil {
		return nil
	}
	s := task.OpenSession(handle)
	if s == nil {
		return nil
	}
	return c.MayUse(s.Policy(), handle)
}

// MayUse rejects a session or an eager context of another owner, unless the caller may use those. policy is that of its rights.
func (c *Caller) MayUse(policy actors.Policy, handle string) error {
	if c.guard == nil {
		return nil
	}
	g, ok := policy.(*grant)
	if !ok { // the program's own
		return c.May(access.OtherSessions)
	}
	return c.Judged("use", handle, g.Use(c.rights))
}

// MayUseContext is MayUse for an eager context, which the tasks of the cluster may use, too: a function that spreads over tasks has parts in
// the contexts that its client has on them.
func (c *Caller) MayUseContext(policy actors.Policy, handle string) error {
	if c.IsTask() {
		return nil
	}
	return c.MayUse(policy, handle)
}

// IsTask reports whether the caller has proved with its certificate that it is a task of the cluster.
func (c *Caller) IsTask() bool {
	if c.guard == nil {
		return false
	}
	who := c.rights.Who()
	return who.Kind == access.Certificate && who.Name.Job() != ""
}

// ends reports which sessions end when the caller resets containers: those that it may close. nil means all.
func (c *Caller) ends() func(*actors.Session) bool {
	if c.guard == nil || c.rights.May(access.OtherSessions) == nil {
		return nil
	}
	return func(s *actors.Session) bool {
		g, ok := s.Policy().(*grant)
		return ok && g.Use(c.rights) == nil
	}
}

// mayReset rejects emptying containers that the caller may not use on one of the tasks. Without names, these are the default containers,
// which also have the names of the tasks' jobs.
func (c *Caller) mayReset(containers, tasks []string) error {
	if err := c.May(access.ResetCluster); err != nil || c.guard == nil {
		return err
	}
	if len(containers) == 0 {
		containers = []string{""}
	}
	for _, name := range containers {
		for _, task := range tasks {
			job, _, err := spec.ParseTaskName(task)
			if err != nil {
				return err
			}
			if err := c.rights.Scope().Container(name, job); err != nil {
				return c.Judged("reset", "", err)
			}
		}
	}
	return nil
}

// SessionRights returns the rights of a session or an eager context that the caller opens. Once the outcome is known, Opened must be called.
func (c *Caller) SessionRights(ctx context.Context) (actors.Rights, error) {
	r := c.bounds(ctx)
	if c.guard == nil {
		return r, nil
	}
	opened, err := c.guard.OpenSession(c.rights)
	if err != nil {
		c.record("open", "", "", err)
		return r, err
	}
	r.Policy = &grant{Grant: opened, caller: *c}
	return r, nil
}

// Declarer is the client that declares a cluster.
type Declarer struct {
	// Owner distinguishes clients: a named client has the same Owner everywhere, others are identified by their origin.
	Owner string
	// Rights are those of the client's sessions.
	Rights actors.Rights
}

// Declarer returns the caller in ctx as the owner of a cluster. The error is for one that may not declare clusters.
func (c *Caller) Declarer(ctx context.Context) (Declarer, error) {
	for _, a := range []access.Action{access.OpenSessions, access.DeclareCluster} {
		if err := c.May(a); err != nil {
			return Declarer{}, err
		}
	}
	d := Declarer{Rights: c.bounds(ctx)}
	p, _ := http2.PeerOf(ctx)
	switch {
	case c.guard != nil && c.rights.Who().Name != (access.Name{}):
		d.Owner = c.rights.Who().String()
	case p.Address == nil || loopback(p.Address):
		d.Owner = access.Loopback.String()
	default:
		d.Owner = access.Network.String() + " " + http2.ClientOf(p)
	}
	return d, nil
}

// bounds returns the rights of the caller's sessions without the policy that applies while one is open.
func (c *Caller) bounds(ctx context.Context) actors.Rights {
	r := rightsOf(ctx)
	if c.guard == nil {
		return r
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
	return r
}

var fileRights = [...]actors.FileRights{access.NoFiles: actors.NoFiles, access.SharedFiles: actors.SharedFiles, access.AllFiles: actors.AllFiles}

// grant holds the limits of a session.
type grant struct {
	*access.Grant
	caller Caller // that opened it

	mu     sync.Mutex
	handle string // while the session is open and recorded
}

var _ actors.Policy = (*grant)(nil)

// Scope returns what the owner may use.
func (g *grant) Scope() *rights.Scope { return g.Rights().Scope() }

// Show returns what the owner may see of c.
func (g *grant) Show(c *view.Cluster) *view.Cluster {
	r := g.Rights()
	if r.SeesAll() {
		return c
	}
	c = proto.CloneOf(c)
	r.Show(c, 0)
	return c
}

// Opened records the outcome of opening a session or an eager context with what SessionRights returned.
func Opened(r actors.Rights, handle string, err error) {
	g, ok := r.Policy.(*grant)
	switch {
	case !ok:
	case err != nil:
		g.Close()
	default:
		g.opened(handle)
	}
}

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
