package remote

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	clusterpb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/gateway"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// propagateTime bounds the start of a cluster that a client declares, unless the client's deadline is earlier.
const propagateTime = 10 * time.Second

// propagation is this server's part as master of the clusters that its clients declare. A cluster is started for its first session, shared
// by the sessions that declare the same one, and ends when it has had none for a lease.
type propagation struct {
	host   *Node
	guests *guests
	life   context.Context
	die    context.CancelFunc
	work   sync.WaitGroup // the clusters' pulses

	// serving holds the masters that sessions may use. The list is replaced, never modified.
	serving atomic.Pointer[[]*actors.Task]

	mu       sync.Mutex
	closed   bool
	declared map[string]*declaredCluster // by spec and own task

	ended endedSessions
}

// declaredCluster is a cluster of guests whose master is in this process.
type declaredCluster struct {
	by    gateway.Declarer
	hosts *spec.Spec // addresses of the hosts of its tasks
	self  spec.Task  // the master
	life  context.Context
	die   context.CancelFunc

	starting sync.Mutex // held while it starts or is renewed

	// The propagation's lock guards what follows. id and task change only while starting is held, too.
	id         uint64
	task       *actors.Task        // while it serves
	opening    int                 // sessions that are being opened
	sessions   map[string]struct{} // handles of opened sessions, which may be closed by now
	superseded string              // the address of the master that has replaced this one
}

func newPropagation(n *Node) *propagation {
	p := &propagation{host: n, guests: &guests{host: n, all: map[uint64]*guest{}}, declared: map[string]*declaredCluster{}}
	p.life, p.die = context.WithCancel(context.Background())
	return p
}

// Open returns the task that is the master of a session whose client declares the cluster, and a function to call with the session's handle
// once it is open, or with "" if it does not open. target is the address by which the client calls this server. Errors: INVALID_ARGUMENT
// for a malformed cluster or one without this server, UNAVAILABLE and others, with the task's name, for servers that cannot be part of it,
// ABORTED for a master that is replaced meanwhile.
func (p *propagation) Open(ctx context.Context, by gateway.Declarer, def *clusterpb.ClusterDef, target string) (*actors.Task, func(handle string), error) {
	hosts, err := declaredSpec(def)
	if err != nil {
		return nil, nil, err
	}
	self, err := p.own(hosts, strings.TrimPrefix(target, "grpc://"))
	if err != nil {
		return nil, nil, err
	}
	// The client may write this server's address as its own machine knows it.
	if self.Name() == p.host.Self().Name() && hosts.Len() == p.host.Spec().Len() && hosts.Clash(self.Name(), p.host.Spec(), self.Name()) == "" {
		return p.host.task, func(string) {}, nil // it is the cluster that the servers were started with
	}
	ctx, cancel := context.WithTimeout(ctx, propagateTime)
	defer cancel()
	c, err := p.enter(by, hosts, self)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(c.life, cancel)()
	task, err := p.ready(ctx, c)
	if err = p.refusal(c, err); err != nil {
		p.sessionOpened(c, "")
		return nil, nil, err
	}
	return task, func(handle string) { p.sessionOpened(c, handle) }, nil
}

// own returns this server's task in a cluster, found by the address that the client called or by the server's own.
func (p *propagation) own(hosts *spec.Spec, target string) (spec.Task, error) {
	for _, address := range []string{target, p.host.Self().Address} {
		if t, ok := hosts.ByAddress(address); ok {
			return t, nil
		}
	}
	return spec.Task{}, status.InvalidArgumentf("The master (current machine) is not included in the provided cluster_def. %v: it is neither %s nor %s",
		hosts, target, p.host.Self().Address)
}

// enter finds or creates the cluster for a session to be opened.
func (p *propagation) enter(by gateway.Declarer, hosts *spec.Spec, self spec.Task) (*declaredCluster, error) {
	if p.host.guest() {
		return nil, p.host.guestsOfGuests()
	}
	if hosts.Len() > 1 {
		if err := p.host.boundable(); err != nil {
			return nil, err
		}
	}
	key := self.Name() + " " + hosts.String() + " " + by.Owner
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, p.host.ShuttingDown()
	}
	c := p.declared[key]
	if c == nil {
		used := newDeclaredUse(by.Owner)
		for _, other := range p.declared {
			used.add(other.by.Owner, other.hosts.Len())
		}
		if err := used.admit(p.host.Self().Name(), hosts.Len()); err != nil {
			return nil, err
		}
		c = &declaredCluster{by: by, id: newClusterID(), hosts: hosts, self: self, sessions: map[string]struct{}{}}
		c.life, c.die = context.WithCancel(p.life)
		p.declared[key] = c
		p.work.Go(func() { p.pulse(key, c) })
	}
	c.opening++
	return c, nil
}

// refusal returns the error of a session that cannot be opened on a cluster: why the start was cut short, or else err, the result of the
// start.
func (p *propagation) refusal(c *declaredCluster, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.superseded != "":
		return c.replaced()
	case p.closed:
		return p.host.ShuttingDown()
	}
	return err
}

// sessionOpened records that a session has opened, or, without a handle, that it did not.
func (p *propagation) sessionOpened(c *declaredCluster, handle string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.opening--
	switch {
	case handle == "":
	case c.superseded != "":
		p.ended.add(handle, c.lost(handle))
	default:
		c.sessions[handle] = struct{}{}
	}
}

// ready returns the cluster's master. It starts the cluster if it has not started, or again if a server has restarted and so lost its
// guest; earlier sessions end then.
func (p *propagation) ready(ctx context.Context, c *declaredCluster) (*actors.Task, error) {
	c.starting.Lock()
	defer c.starting.Unlock()
	if err := p.refusal(c, nil); err != nil {
		return nil, err // its pulse may have ended
	}
	if c.task != nil {
		if err := p.each(ctx, c, p.renew); status.CodeOf(err) != status.NotFound {
			return c.task, nil // a task that is unreachable now may be reachable when it is needed
		}
		p.end(c)
		p.mu.Lock()
		c.id = newClusterID()
		p.mu.Unlock()
	}
	task, err := p.start(ctx, c)
	if err == nil {
		err = p.publish(c, task)
	}
	if err != nil {
		p.end(c)
		return nil, err
	}
	return task, nil
}

// start makes all hosts lend a guest, introduces the guests to each other, learns their devices, and returns the master.
func (p *propagation) start(ctx context.Context, c *declaredCluster) (*actors.Task, error) {
	var mu sync.Mutex
	joined, text := c.hosts, c.hosts.String()
	err := p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		q := &wire.LendRequest{Cluster: c.id, Spec: text, Task: t.Name(), Master: c.self.Name(), Boot: p.host.Boot(),
			Owner: c.by.Owner, Who: c.by.Rights.Who, Files: uint32(c.by.Rights.Files)}
		if p.host.Secret() != nil {
			q.Proof = p.host.Secret().SignGuest(lendParts(q)...)
		}
		lent, err := p.hostOf(c, t).Lend(ctx, q)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		next, err := joined.WithAddress(t.Job, t.Index, lent.GetAddress())
		if err == nil {
			joined = next
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	text = joined.String()
	err = p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		_, err := p.hostOf(c, t).Join(ctx, &wire.JoinRequest{Cluster: c.id, Spec: text})
		return err
	})
	if err != nil {
		return nil, err
	}
	task, err := p.guests.task(c.id)
	if err != nil {
		return nil, err
	}
	return task, p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		if t == c.self {
			return nil
		}
		_, err := task.Cluster.Peer(ctx, t.Name())
		return err
	})
}

// publish makes a cluster's master serve, unless the cluster was superseded while it started.
func (p *propagation) publish(c *declaredCluster, task *actors.Task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.superseded != "" {
		return c.replaced()
	}
	c.task = task
	next := append(slices.Clone(p.Tasks()), task)
	p.serving.Store(&next)
	return nil
}

// hideLocked removes a master from those that serve.
func (p *propagation) hideLocked(task *actors.Task) {
	next := slices.DeleteFunc(slices.Clone(p.Tasks()), func(t *actors.Task) bool { return t == task })
	p.serving.Store(&next)
}

// Tasks returns the masters of declared clusters; callers must not modify the list.
func (p *propagation) Tasks() []*actors.Task {
	if l := p.serving.Load(); l != nil {
		return *l
	}
	return nil
}

// each calls f for all tasks of the cluster concurrently, and returns the first error in their order.
func (p *propagation) each(ctx context.Context, c *declaredCluster, f func(context.Context, *declaredCluster, spec.Task) error) error {
	tasks := c.hosts.Tasks()
	errs := make([]error, len(tasks))
	var all sync.WaitGroup
	for i, t := range tasks {
		all.Go(func() {
			if err := f(ctx, c, t); err != nil {
				e := status.From(err)
				errs[i] = status.Errorf(e.Code, "%s at %s cannot be a task of the cluster that the session's config declares: %s", t.Name(), t.Address, e.Message)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// newClusterID returns the number by which guests know their cluster. It cannot be guessed.
func newClusterID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// call calls a method of the server that hosts a task.
func (n *Node) call(ctx context.Context, t spec.Task, method string, request, answer proto.Message) error {
	return n.Port().Call(ctx, t.Address, method, request, answer)
}

func (p *propagation) renew(ctx context.Context, c *declaredCluster, t spec.Task) error {
	_, err := p.hostOf(c, t).Renew(ctx, &wire.RenewRequest{Cluster: c.id})
	return err
}

// pulse keeps the guests of a cluster alive while it has sessions, and then ends the cluster.
func (p *propagation) pulse(key string, c *declaredCluster) {
	beat := time.NewTicker(guestPulse)
	defer beat.Stop()
	for idle := time.Duration(0); idle < guestLease; {
		select {
		case <-beat.C:
		case <-c.life.Done():
			idle = guestLease
			continue
		}
		if p.beat(c) {
			idle = 0
			continue
		}
		p.mu.Lock()
		switch idle += guestPulse; {
		case c.opening > 0:
			idle = 0
		case idle >= guestLease && c.superseded == "":
			delete(p.declared, key) // under the lock that enter holds
		}
		p.mu.Unlock()
	}
	c.die()
	c.starting.Lock()
	defer c.starting.Unlock()
	p.endSessions(c)
	p.end(c)
}

// beat renews the guests' leases and reports whether the cluster has sessions.
func (p *propagation) beat(c *declaredCluster) bool {
	c.starting.Lock()
	defer c.starting.Unlock()
	if c.task == nil {
		return false
	}
	p.mu.Lock()
	maps.DeleteFunc(c.sessions, func(handle string, _ struct{}) bool { return !c.task.Has(handle) })
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.life, guestPulse)
	defer cancel()
	if err := p.each(ctx, c, p.renew); err != nil && c.life.Err() == nil {
		p.host.Log().Warn("a part of a declared cluster is gone", "error", err)
	}
	return c.task.Sessions() > 0
}

// end takes down whatever exists of a cluster; the caller holds starting.
func (p *propagation) end(c *declaredCluster) {
	p.mu.Lock()
	p.hideLocked(c.task)
	c.task = nil
	clear(c.sessions)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		_, err := p.hostOf(c, t).Leave(ctx, &wire.LeaveRequest{Cluster: c.id})
		return err
	})
	if err != nil {
		p.host.Log().Info("a declared cluster ended without notifying all of its tasks; those end with their lease", "error", err)
	}
}

// close ends the clusters, and the guests of other masters' clusters.
func (p *propagation) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.die()
	p.work.Wait() // bounded by the calls
	p.guests.close()
}
