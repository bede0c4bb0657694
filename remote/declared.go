package remote

import (
	"context"

	clusterpb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Limits on what clusters declared by clients may use of a server. A task of such a cluster costs its master some connections, and the text
// of the cluster is part of each request to start it, so the cost grows with the square of the number of tasks.
const (
	// maxGuests bounds the clusters that a process is part of at one time, and those that it is the master of.
	maxGuests = 64
	// maxDeclaredTasks bounds the tasks of one cluster, maxAllDeclared those of all clusters that a process is part of, or the master of. Both
	// are lower in a process with a low limit on open files: see declaredTaskLimits.
	maxDeclaredTasks = 256
	maxAllDeclared   = 4 * maxDeclaredTasks
	// filesOfTask is how many of the files that a process may open are counted per task; a connection is a file. Half are left for other uses.
	filesOfTask = 8
	// maxDeclaredText bounds the names and addresses of a cluster, in bytes.
	maxDeclaredText = 64 << 10
)

// declaredTaskLimits returns how many tasks one cluster may have, and all clusters together, in a process that may open the given number of
// files; 0 means no limit on files.
func declaredTaskLimits(files uint64) (each, all int) {
	all = maxAllDeclared
	if files > 0 {
		all = int(min(uint64(all), max(files/filesOfTask, 2)))
	}
	return min(maxDeclaredTasks, all/2), all
}

// checkDeclared rejects a cluster with too many tasks before anything is built from them.
func checkDeclared(tasks int) error {
	if each, _ := declaredTaskLimits(port.OpenFiles()); tasks > each {
		return status.Errorf(status.ResourceExhausted, "The session's config declares a cluster of %d tasks (cluster_def); this server's limit is %d. Start servers with the cluster's spec instead (--cluster)", tasks, each)
	}
	return nil
}

// declaredSpec reads the cluster that a client declares.
func declaredSpec(def *clusterpb.ClusterDef) (*spec.Spec, error) {
	tasks, text := 0, 0
	for _, j := range def.GetJob() {
		tasks += len(j.GetTasks())
		text += len(j.GetName())
	}
	if err := checkDeclared(max(tasks, len(def.GetJob()))); err != nil {
		return nil, err
	}
	for _, j := range def.GetJob() {
		for _, address := range j.GetTasks() {
			text += len(address)
		}
	}
	if err := checkDeclaredText(text); err != nil {
		return nil, err
	}
	return spec.FromProto(def)
}

// parseDeclared parses the cluster that another server's client declares.
func parseDeclared(text string) (*spec.Spec, error) {
	if err := checkDeclaredText(len(text)); err != nil {
		return nil, err
	}
	s, err := spec.Parse(text)
	if err == nil {
		err = checkDeclared(s.Len())
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func checkDeclaredText(size int) error {
	if size > maxDeclaredText {
		return status.Errorf(status.ResourceExhausted, "The session's config declares a cluster (cluster_def) with %d bytes of names and addresses; the limit is %d", size, maxDeclaredText)
	}
	return nil
}

// declaredUse counts what declared clusters use of a process, for an owner that asks for another cluster.
type declaredUse struct {
	owner                 string
	clusters, tasks       int
	ownClusters, ownTasks int
	eachTasks, allTasks   int // the limits
}

func newDeclaredUse(owner string) *declaredUse {
	_, all := declaredTaskLimits(port.OpenFiles())
	return &declaredUse{owner: owner, eachTasks: all / 2, allTasks: all}
}

// add counts a cluster.
func (u *declaredUse) add(owner string, tasks int) {
	u.clusters++
	u.tasks += tasks
	if owner == u.owner {
		u.ownClusters++
		u.ownTasks += tasks
	}
}

// admit rejects another cluster with the given number of tasks if it exceeds a limit. One client gets at most half of each limit, which
// leaves some for others.
func (u *declaredUse) admit(task string, tasks int) error {
	for _, b := range []struct {
		used, more, limit int
		what              string
	}{
		{u.clusters, 1, maxGuests, "clusters that clients declared"},
		{u.ownClusters, 1, maxGuests / 2, "clusters that this client declared"},
		{u.tasks, tasks, u.allTasks, "tasks of clusters that clients declared"},
		{u.ownTasks, tasks, u.eachTasks, "tasks of clusters that this client declared"},
	} {
		if b.used+b.more > b.limit {
			return status.Errorf(status.ResourceExhausted, "%s has %d %s, and this cluster has %d: the limit is %d. Clusters end %v after their last session", task, b.used, b.what, b.more, b.limit, guestLease)
		}
	}
	return nil
}

// guestsOfGuests is the error for a cluster declared at the port of a guest.
func (n *Node) guestsOfGuests() error {
	return status.Errorf(status.FailedPrecondition, "%s at %s is a task of a cluster that a client declared: declare clusters at the servers themselves", n.Self().Name(), n.Self().Address)
}

// hostOf returns the server to ask for the guest of a task: this process for the master itself, the network for others.
func (p *propagation) hostOf(c *declaredCluster, t spec.Task) wire.GuestServer {
	if t == c.self {
		return ownGuests{p.guests, c}
	}
	return otherGuests{p.host, t}
}

// ownGuests are the guests of the master's own process, which has already identified the cluster's client.
type ownGuests struct {
	*guests
	cluster *declaredCluster
}

// Lend lends a guest with the rights of the cluster's client.
func (g ownGuests) Lend(ctx context.Context, q *wire.LendRequest) (*wire.LendReply, error) {
	rights, owner := g.cluster.by.Rights, g.cluster.by.Owner
	rights.Who = "" // sessions of one owner share the cluster
	if !g.host.Proves() {
		owner = unprovenOwner(access.Loopback.String(), owner)
	}
	return g.lend(ctx, q, owner, &rights)
}

// otherGuests are the guests of another process.
type otherGuests struct {
	node *Node
	at   spec.Task
}

var _ wire.GuestServer = otherGuests{}

func (o otherGuests) Lend(ctx context.Context, q *wire.LendRequest) (*wire.LendReply, error) {
	a := &wire.LendReply{}
	return a, o.node.call(ctx, o.at, wire.GuestLend, q, a)
}

func (o otherGuests) Join(ctx context.Context, q *wire.JoinRequest) (*wire.GuestDone, error) {
	a := &wire.GuestDone{}
	return a, o.node.call(ctx, o.at, wire.GuestJoin, q, a)
}

func (o otherGuests) Renew(ctx context.Context, q *wire.RenewRequest) (*wire.GuestDone, error) {
	a := &wire.GuestDone{}
	return a, o.node.call(ctx, o.at, wire.GuestRenew, q, a)
}

func (o otherGuests) Leave(ctx context.Context, q *wire.LeaveRequest) (*wire.GuestDone, error) {
	a := &wire.GuestDone{}
	return a, o.node.call(ctx, o.at, wire.GuestLeave, q, a)
}

func (o otherGuests) Supersede(ctx context.Context, q *wire.SupersedeRequest) (*wire.GuestDone, error) {
	a := &wire.GuestDone{}
	return a, o.node.call(ctx, o.at, wire.GuestSupersede, q, a)
}
