package remote

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/troupe-run/troupe/actors"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// A client may declare the cluster itself (ConfigProto.cluster_def), over servers that were started without knowing of each other. Each
// server then runs a guest: a second node in its process, on a port of its own, which acts as the task that the client names, with the
// devices and the containers of its host. The guest itself behaves like a task of an ordinary cluster; the host only starts and stops it.

const (
	// guestLease is how long a guest lives without a renewal from its cluster's master, and how long a cluster lives without sessions. The
	// master renews leases every guestPulse.
	guestLease = 30 * time.Second
	guestPulse = 10 * time.Second
)

// guests holds the tasks of other clusters in this process.
type guests struct {
	host *Node

	// binding is held while a guest is admitted and binds its port: however many ask at once, those that are refused take no files.
	binding sync.Mutex

	mu      sync.Mutex
	all     map[uint64]*guest // by cluster
	closed  bool
	endings sync.WaitGroup // the guests that are stopping
}

var _ wire.GuestServer = (*guests)(nil)

type guest struct {
	node   *Node
	master clusterMaster
	tasks  int // of the cluster
	lease  *time.Timer

	joining sync.Once
	joined  error
}

// Lend binds a port for a guest.
func (g *guests) Lend(ctx context.Context, q *wire.LendRequest) (*wire.LendReply, error) {
	if g.host.guest() {
		return nil, g.host.guestsOfGuests()
	}
	owner, ceiling, err := g.host.admitMaster(ctx, q)
	if err != nil {
		return nil, err
	}
	return g.lend(ctx, q, owner, ceiling)
}

// lend is Lend for a known owner; the guest's rights are bounded by ceiling.
func (g *guests) lend(ctx context.Context, q *wire.LendRequest, owner string, ceiling *actors.Rights) (*wire.LendReply, error) {
	declared, err := parseDeclared(q.GetSpec())
	if err != nil {
		return nil, err
	}
	task, ok := declared.ByName(q.GetTask())
	if !ok {
		return nil, status.InvalidArgumentf("%s is not a task of the cluster %v", q.GetTask(), declared)
	}
	master, ok := declared.ByName(q.GetMaster())
	if !ok {
		return nil, status.InvalidArgumentf("The master %q is not a task of the cluster %v", q.GetMaster(), declared)
	}
	held := &guest{master: clusterMaster{Task: master, boot: q.GetBoot(), owner: owner}, tasks: declared.Len()}
	told, err := g.bind(ctx, q.GetCluster(), held, task, ceiling)
	if err != nil {
		return nil, err
	}
	told.Wait() // for supersedeTime at most: the new session opens once the old ones cannot run
	return &wire.LendReply{Address: held.node.Address()}, nil
}

// bind admits a guest and binds its port. The result waits until the masters of those that it replaces have been told.
func (g *guests) bind(ctx context.Context, id uint64, held *guest, task spec.Task, ceiling *actors.Rights) (told *sync.WaitGroup, err error) {
	g.binding.Lock()
	defer g.binding.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, status.From(err)
	}
	g.mu.Lock()
	_, err = g.admitLocked(id, held)
	g.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if held.node, err = g.listen(task, ceiling); err != nil {
		return nil, err
	}
	told = &sync.WaitGroup{}
	g.mu.Lock()
	older, err := g.admitLocked(id, held)
	if err == nil {
		for _, other := range older {
			told.Add(1)
			g.endLocked(other, func(old *guest) {
				defer told.Done()
				g.notifyReplaced(other, old, held.master.Task)
			})
		}
		held.lease = time.AfterFunc(guestLease, func() { g.end(id) })
		g.all[id] = held
	}
	g.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, held.node.Stop(context.Background()))
	}
	return told, nil
}

// admitLocked returns the clusters that a guest replaces, or why it is not admitted.
func (g *guests) admitLocked(id uint64, held *guest) (older []uint64, err error) {
	switch {
	case g.closed:
		return nil, g.host.ShuttingDown()
	case g.all[id] != nil:
		return nil, status.Errorf(status.AlreadyExists, "%s is part of that cluster already, as %s", g.host.Self().Name(), g.all[id].node.Self().Name())
	}
	older = g.supersededLocked(held.master)
	used := newDeclaredUse(held.master.owner)
	for other, h := range g.all {
		if !slices.Contains(older, other) {
			used.add(h.master.owner, h.tasks)
		}
	}
	return older, used.admit(g.host.Self().Name(), held.tasks)
}

// lentHost returns the address whose host a guest uses: the server's own. If the server's own host is local, such as localhost, which means
// another machine elsewhere, and the declared one is not, lentHost returns the declared one.
func lentHost(own, declared string) string {
	if spec.Local(own) && !spec.Local(declared) {
		return declared
	}
	return own
}

// listen binds a free port on the host's address for the guest that will be the task. The guest is a cluster of one until it joins the
// others, whose ports are not known yet.
func (g *guests) listen(task spec.Task, ceiling *actors.Rights) (*Node, error) {
	c := g.host.config
	c.Bind = g.host.Bound()
	at := func(address string) (string, error) {
		host, _, err := net.SplitHostPort(address)
		return net.JoinHostPort(host, "0"), err
	}
	address, err := at(lentHost(g.host.Self().Address, task.Address))
	if err == nil && c.Bind != "" {
		c.Bind, err = at(c.Bind)
	}
	if err != nil {
		return nil, status.Internalf("The server's own address: %v", err)
	}
	c.Job, c.Task = task.Job, task.Index
	if c.Spec, err = spec.New(map[string]map[int]string{task.Job: {task.Index: address}}); err != nil {
		return nil, err
	}
	c.lent, c.kept, c.ceiling = g.host.task.Devices, g.host.store, ceiling
	c.Log = c.Log.With("guest", task.Name())
	return Listen(c)
}

// Join makes a guest serve.
func (g *guests) Join(ctx context.Context, q *wire.JoinRequest) (*wire.GuestDone, error) {
	held, err := g.find(q.GetCluster())
	if err != nil {
		return nil, err
	}
	held.joining.Do(func() { held.joined = held.node.join(ctx, q.GetSpec()) })
	return &wire.GuestDone{}, held.joined
}

// join makes a bound node serve as a task of the cluster, whose spec now has the addresses of all its tasks.
func (n *Node) join(ctx context.Context, text string) error {
	s, err := parseDeclared(text)
	if err != nil {
		return err
	}
	if err := n.Rejoin(s); err != nil {
		return err
	}
	return n.Serve(ctx)
}

// Renew extends a guest's lease.
func (g *guests) Renew(_ context.Context, q *wire.RenewRequest) (*wire.GuestDone, error) {
	held, err := g.find(q.GetCluster())
	if err != nil {
		return nil, err
	}
	held.lease.Reset(guestLease)
	return &wire.GuestDone{}, nil
}

// Leave stops a guest. It returns before the guest has stopped.
func (g *guests) Leave(_ context.Context, q *wire.LeaveRequest) (*wire.GuestDone, error) {
	g.end(q.GetCluster())
	return &wire.GuestDone{}, nil
}

func (g *guests) find(cluster uint64) (*guest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if held := g.all[cluster]; held != nil {
		return held, nil
	}
	return nil, g.absent()
}

func (g *guests) absent() error {
	return status.Errorf(status.NotFound, "%s is not, or no longer, part of that cluster", g.host.Self().Name())
}

func (g *guests) end(cluster uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(cluster, func(*guest) {})
}

// endLocked stops a guest, if it exists, after calling before, on a goroutine that close waits for.
func (g *guests) endLocked(cluster uint64, before func(*guest)) {
	held := g.all[cluster]
	if held == nil {
		return
	}
	delete(g.all, cluster)
	held.lease.Stop()
	g.endings.Go(func() {
		before(held)
		held.joining.Do(func() { held.joined = g.absent() }) // a node must not start while it stops
		if err := held.node.Stop(context.Background()); err != nil {
			g.host.Log().Warn("a guest did not stop in order", "task", held.node.Self().Name(), "error", err)
		}
	})
}

// task returns the guest of a cluster as a serving task.
func (g *guests) task(cluster uint64) (*actors.Task, error) {
	held, err := g.find(cluster)
	if err != nil {
		return nil, err
	}
	return held.node.task, nil
}

// close stops all guests and admits no more.
func (g *guests) close() {
	g.mu.Lock()
	g.closed = true
	var left []uint64
	for id := range g.all {
		left = append(left, id)
	}
	g.mu.Unlock()
	for _, id := range left {
		g.end(id)
	}
	g.endings.Wait() // each is bounded by Stop
}
