package remote

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Two clusters that clients declare may have masters of the same name in different processes. As in TensorFlow, the older of these
// processes counts as replaced: a host that is part of both clusters ends its guest of the older one and notifies that cluster's master,
// which ends the cluster's sessions. A client that still has a session gets ABORTED.

const (
	// supersedeTime bounds how long a host waits for an older master, which is usually dead, to acknowledge that it is superseded.
	supersedeTime = time.Second
	// maxEnded bounds the ended sessions that a server remembers until their clients close them.
	maxEnded = 1024
)

// clusterMaster is the master of a cluster that a client declares.
type clusterMaster struct {
	spec.Task
	boot  uint64 // of its process
	owner string // of the client that declared the cluster
}

// supersededLocked lists the clusters of the same owner whose master has the same name but is another process. Names belong to owners:
// nobody can end another owner's sessions by a name.
func (g *guests) supersededLocked(by clusterMaster) (older []uint64) {
	for cluster, held := range g.all {
		if held.master.Name() == by.Name() && held.master.owner == by.owner && held.master.boot != by.boot {
			older = append(older, cluster)
		}
	}
	return older
}

// notifyReplaced notifies the older master of a guest's cluster that it is replaced, and by which master.
func (g *guests) notifyReplaced(cluster uint64, old *guest, by spec.Task) {
	log := g.host.Log().With("master", by.Name(), "older", old.master.Address, "younger", by.Address)
	log.Info("a guest ends, since another process has its master's name")
	ctx, cancel := context.WithTimeout(context.Background(), supersedeTime)
	defer cancel()
	q := &wire.SupersedeRequest{Cluster: cluster, Address: by.Address}
	if err := g.host.call(ctx, old.master.Task, wire.GuestSupersede, q, &wire.GuestDone{}); err != nil {
		log.Info("the older master was not notified", "reason", err)
	}
}

// Supersede ends a cluster of which this server is the master. Once it returns, no session of the cluster runs another step; running steps
// end soon after.
func (g *guests) Supersede(_ context.Context, q *wire.SupersedeRequest) (*wire.GuestDone, error) {
	g.host.declare.supersede(q.GetCluster(), q.GetAddress())
	return &wire.GuestDone{}, nil
}

// supersede gives up a cluster, which its pulse then takes down. An unknown cluster has already ended.
func (p *propagation) supersede(cluster uint64, by string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, c := range p.declared {
		if c.id != cluster {
			continue
		}
		delete(p.declared, key)
		c.superseded = by
		for handle := range c.sessions {
			p.ended.add(handle, c.lost(handle))
		}
		p.hideLocked(c.task)
		c.die()
	}
}

// endSessions ends the sessions of a superseded cluster at once; its guests would allow their steps to run for a while. The caller holds
// starting.
func (p *propagation) endSessions(c *declaredCluster) {
	p.mu.Lock()
	by, handles := c.superseded, slices.Collect(maps.Keys(c.sessions))
	p.mu.Unlock()
	if by == "" || c.task == nil {
		return
	}
	p.host.Log().Warn("the sessions of a declared cluster end, since another process has their master's name", "master", c.self.Name(), "older", c.self.Address, "younger", by)
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var all sync.WaitGroup
	for _, handle := range handles {
		session, err := c.task.Session(handle, 0)
		if err != nil {
			continue // already closed
		}
		all.Go(func() {
			if err := session.Close(ctx, c.lost(handle)); err != nil {
				p.host.Log().Warn("a session did not end in time", "session", handle, "error", err)
			}
		})
	}
	all.Wait()
}

// replaced is the error of a session that is not opened because its cluster was superseded meanwhile.
func (c *declaredCluster) replaced() error {
	return status.Errorf(status.Aborted, "The master %v was replaced by the one at %s, which opened a session with tasks of the same cluster.", c.self, c.superseded)
}

// lost is the error of a session that ended with its cluster, in TensorFlow's words and ours.
func (c *declaredCluster) lost(handle string) error {
	return status.Errorf(status.Aborted, "Session handle is not found: %s. Its master %v was replaced by the one at %s, which opened a session with tasks of the same cluster.",
		handle, c.self, c.superseded)
}

// Explain returns why a session was ended, or else err.
func (p *propagation) Explain(handle string, err error) error {
	return cmp.Or(p.ended.why(handle), err)
}

// Forget forgets why a session was ended, and reports whether it knew.
func (p *propagation) Forget(handle string) bool { return p.ended.forget(handle) }

// endedSessions remembers why sessions were ended. Beyond maxEnded, it forgets the oldest.
type endedSessions struct {
	mu      sync.Mutex
	reasons *recent.Map[string, error] // nil until the first one
}

func (e *endedSessions) add(handle string, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reasons == nil {
		e.reasons = recent.NewMap[string, error](maxEnded)
	}
	e.reasons.Add(handle, why)
}

func (e *endedSessions) why(handle string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reasons == nil {
		return nil
	}
	why, _ := e.reasons.Get(handle)
	return why
}

func (e *endedSessions) forget(handle string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.reasons != nil && e.reasons.Delete(handle)
}
