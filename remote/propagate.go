package remote

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clusterpb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
	"github.com/troupe-run/troupe/remote/wire"
)

// propagateTime bounds the start of a cluster that a client declares, where the client sets no earlier end.
const propagateTime = 10 * time.Second

// propagation is this server as master of the clusters that its clients declare. A cluster is started for its
// first session, shared by those that declare the same, and ends when it had none for a lease.
type propagation struct {
	host   *Node
	guests *guests
	life   context.Context
	die    context.CancelFunc
	work   sync.WaitGroup // the clusters' pulses

	// serving are the masters that sessions may be with; the list is replaced and never changed.
	serving atomic.Pointer[[]*actors.Task]

	mu       sync.Mutex
	closed   bool
	declared map[string]*declaredCluster // by spec and own task
}

// declaredCluster is a cluster of guests with its master in this process.
type declaredCluster struct {
	id    uint64
	hosts *spec.Spec // where the hosts of its tasks are
	self  string

	starting sync.Mutex // held while it starts or is looked after
	task     *actors.Task

	opening int // sessions that are being opened; the propagation's lock guards it
}

func newPropagation(n *Node) *propagation {
	p := &propagation{host: n, guests: &guests{host: n, all: map[uint64]*guest{}}, declared: map[string]*declaredCluster{}}
	p.life, p.die = context.WithCancel(context.Background())
	return p
}

// Open gives the task that is the master of a session whose client declares the cluster, and what tells that the
// session is open, or is not to be. target is the address by which the client calls this server. Errors:
// INVALID_ARGUMENT for a malformed cluster or one without this server, UNAVAILABLE and others, with the task's name, for
// servers that cannot be part of it.
func (p *propagation) Open(ctx context.Context, def *clusterpb.ClusterDef, target string) (*actors.Task, func(), error) {
	hosts, err := spec.FromProto(def)
	if err != nil {
		return nil, nil, err
	}
	self, err := p.own(hosts, strings.TrimPrefix(target, "grpc://"))
	if err != nil {
		return nil, nil, err
	}
	if self == p.host.self && hosts.Equal(p.host.spec) {
		return p.host.task, func() {}, nil // it is the cluster that the servers were started with
	}
	ctx, cancel := context.WithTimeout(ctx, propagateTime)
	defer cancel()
	c, err := p.enter(hosts, self)
	if err != nil {
		return nil, nil, err
	}
	task, err := p.ready(ctx, c)
	if err != nil {
		p.leave(c)
		return nil, nil, err
	}
	return task, func() { p.leave(c) }, nil
}

// own finds this server in a cluster, by the address that the client called or by its own.
func (p *propagation) own(hosts *spec.Spec, target string) (spec.Task, error) {
	for _, address := range []string{target, p.host.self.Address} {
		if t, ok := hosts.ByAddress(address); ok {
			return t, nil
		}
	}
	return spec.Task{}, status.InvalidArgumentf("The master (current machine) is not included in the provided cluster_def. %v: it is neither %s nor %s",
		hosts, target, p.host.self.Address)
}

// enter finds or makes the cluster, for a session that is to be opened.
func (p *propagation) enter(hosts *spec.Spec, self spec.Task) (*declaredCluster, error) {
	key := self.Name() + " " + hosts.String()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, status.Errorf(status.Unavailable, "The server of %s is shutting down", p.host.self.Name())
	}
	c := p.declared[key]
	if c == nil {
		c = &declaredCluster{id: rand.Uint64() | 1, hosts: hosts, self: self.Name()}
		p.declared[key] = c
		p.work.Go(func() { p.pulse(key, c) })
	}
	c.opening++
	return c, nil
}

func (p *propagation) leave(c *declaredCluster) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.opening--
}

// ready gives the cluster's master. It starts the cluster if it has not started, or anew if a server has forgotten
// its guest, since it was restarted: the sessions of before end then.
func (p *propagation) ready(ctx context.Context, c *declaredCluster) (*actors.Task, error) {
	c.starting.Lock()
	defer c.starting.Unlock()
	if c.task != nil {
		if err := p.each(ctx, c, p.renew); status.CodeOf(err) != status.NotFound {
			return c.task, nil // who is not reached now may be when it is needed
		}
		p.end(c)
		c.id = rand.Uint64() | 1
	}
	if err := p.start(ctx, c); err != nil {
		p.end(c)
		return nil, err
	}
	p.publish(c.task, nil)
	return c.task, nil
}

// start makes all hosts lend a guest, tells these of each other, and learns their devices.
func (p *propagation) start(ctx context.Context, c *declaredCluster) error {
	var mu sync.Mutex
	joined := c.hosts
	err := p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		lent := &wire.LendReply{}
		err := p.call(ctx, t, wire.GuestLend, &wire.LendRequest{Cluster: c.id, Spec: c.hosts.String(), Task: t.Name()}, lent)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		joined, err = joined.WithAddress(t.Job, t.Index, lent.GetAddress())
		return err
	})
	if err != nil {
		return err
	}
	err = p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		return p.call(ctx, t, wire.GuestJoin, &wire.JoinRequest{Cluster: c.id, Spec: joined.String()}, &wire.GuestDone{})
	})
	if err != nil {
		return err
	}
	if c.task, err = p.guests.task(c.id); err != nil {
		return err
	}
	return p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		if t.Name() == c.self {
			return nil
		}
		_, err := c.task.Cluster.Peer(ctx, t.Name())
		return err
	})
}

// publish adds a master that serves, and takes one away.
func (p *propagation) publish(add, remove *actors.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var next []*actors.Task
	for _, t := range p.Tasks() {
		if t != remove {
			next = append(next, t)
		}
	}
	if add != nil {
		next = append(next, add)
	}
	p.serving.Store(&next)
}

// Tasks are the masters of declared clusters; the list must not be changed.
func (p *propagation) Tasks() []*actors.Task {
	if l := p.serving.Load(); l != nil {
		return *l
	}
	return nil
}

// each calls f for all tasks of the cluster at the same time, and gives the first error in their order.
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

// call asks the server that hosts a task.
func (p *propagation) call(ctx context.Context, t spec.Task, method string, request, answer any) error {
	conn, err := p.host.port.Dial(t.Address)
	if err != nil {
		return status.Errorf(status.Unavailable, "%v", err)
	}
	defer conn.Close()
	return wire.FromGRPC(conn.Invoke(ctx, method, request, answer))
}

func (p *propagation) renew(ctx context.Context, c *declaredCluster, t spec.Task) error {
	return p.call(ctx, t, wire.GuestRenew, &wire.RenewRequest{Cluster: c.id}, &wire.GuestDone{})
}

// pulse keeps the guests of a cluster as long as it has sessions, and then ends it.
func (p *propagation) pulse(key string, c *declaredCluster) {
	beat := time.NewTicker(guestPulse)
	defer beat.Stop()
	for idle := time.Duration(0); idle < guestLease; {
		select {
		case <-beat.C:
		case <-p.life.Done():
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
		case idle >= guestLease:
			delete(p.declared, key) // under the lock that sessions enter by
		}
		p.mu.Unlock()
	}
	c.starting.Lock()
	defer c.starting.Unlock()
	p.end(c)
}

// beat renews the guests' leases and tells whether the cluster has sessions.
func (p *propagation) beat(c *declaredCluster) bool {
	c.starting.Lock()
	defer c.starting.Unlock()
	if c.task == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(p.life, guestPulse)
	defer cancel()
	if err := p.each(ctx, c, p.renew); err != nil {
		p.host.log.Warn("a part of a declared cluster is gone", "error", err)
	}
	return c.task.Sessions() > 0
}

// end takes down what there is of a cluster; the caller holds starting.
func (p *propagation) end(c *declaredCluster) {
	p.publish(nil, c.task)
	c.task = nil
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := p.each(ctx, c, func(ctx context.Context, c *declaredCluster, t spec.Task) error {
		return p.call(ctx, t, wire.GuestLeave, &wire.LeaveRequest{Cluster: c.id}, &wire.GuestDone{})
	})
	if err != nil {
		p.host.log.Info("a declared cluster ended without a word to all its tasks; those end by their lease", "error", err)
	}
}

// close ends the clusters, and the guests of others' clusters.
func (p *propagation) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.die()
	p.work.Wait() // bounded by the calls
	p.guests.close()
}
