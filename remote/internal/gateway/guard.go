package gateway

import (
	"context"
	"sync"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/caller"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/spec"
	"google.golang.org/protobuf/proto"
)

// Caller is the caller of a server, and judges what it may do with sessions.
type Caller struct{ caller.Caller }

// CallerOf returns the caller of the call in ctx. guard may be nil. The error is UNAUTHENTICATED.
func CallerOf(ctx context.Context, guard *access.Guard) (Caller, error) {
	c, err := caller.Of(ctx, guard)
	return Caller{c}, err
}

// CallerAt is CallerOf for a peer that does not come over the task's port.
func CallerAt(p access.Peer, guard *access.Guard) (Caller, error) {
	c, err := caller.At(p, guard)
	return Caller{c}, err
}

// mayUse rejects another owner's session, unless the caller may use those. For an unknown session it returns nil: the call itself reports
// that.
func (c *Caller) mayUse(task *actors.Task, handle string) error {
	if c.Guard() == nil {
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
	if c.Guard() == nil {
		return nil
	}
	g, ok := policy.(*grant)
	if !ok { // the program's own
		return c.May(access.OtherSessions)
	}
	return c.Judged("use", handle, g.Use(c.Rights()))
}

// MayUseContext is MayUse for an eager context, which the tasks of the cluster may use, too: a function that spreads over tasks has parts in
// the contexts that its client has on them.
func (c *Caller) MayUseContext(policy actors.Policy, handle string) error {
	if c.IsTask() {
		return nil
	}
	return c.MayUse(policy, handle)
}

// ends reports which sessions end when the caller resets containers: those that it may close. nil means all.
func (c *Caller) ends() func(*actors.Session) bool {
	if c.Guard() == nil || c.Rights().May(access.OtherSessions) == nil {
		return nil
	}
	return func(s *actors.Session) bool {
		g, ok := s.Policy().(*grant)
		return ok && g.Use(c.Rights()) == nil
	}
}

// mayReset rejects emptying containers that the caller may not use on one of the tasks. Without names, these are the default containers,
// which also have the names of the tasks' jobs.
func (c *Caller) mayReset(containers, tasks []string) error {
	if err := c.May(access.ResetCluster); err != nil || c.Guard() == nil {
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
			if err := c.Rights().Scope().Container(name, job); err != nil {
				return c.Judged("reset", "", err)
			}
		}
	}
	return nil
}

// SessionRights returns the rights of a session or an eager context that the caller opens. Once the outcome is known, Opened must be called.
func (c *Caller) SessionRights(ctx context.Context) (actors.Rights, error) {
	r := c.bounds(ctx)
	if c.Guard() == nil {
		return r, nil
	}
	opened, err := c.Guard().OpenSession(c.Rights())
	if err != nil {
		c.Record("open", "", "", err)
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
	case c.Guard() != nil && c.Rights().Who().Name != (access.Name{}):
		d.Owner = c.Rights().Who().String()
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
	if c.Guard() == nil {
		return r
	}
	r.Owner = c.Rights().Who().String()
	if who := c.Rights().Who(); who.Name != (access.Name{}) {
		r.Client = who.String()
	}
	l := c.Rights().Limits()
	r.StepBytes, r.SessionBytes, r.ClientBytes = l.StepBytes, l.SessionBytes, l.ClientBytes
	if r.Client == "" && l.ClientBytes > 0 {
		r.Client = c.Rights().Who().String()
	}
	if c.Guard().HasPolicy() {
		r.Who, r.Files = c.Rights().Who().String(), fileRights[c.Rights().Files()]
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
	g.caller.Record("open", handle, "", nil)
}

// Close records that the session has ended.
func (g *grant) Close() {
	g.mu.Lock()
	handle := g.handle
	g.handle = ""
	g.mu.Unlock()
	if handle != "" {
		g.caller.Record("close", handle, "", nil)
	}
	g.Grant.Close()
}
