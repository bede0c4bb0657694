package membership

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
)

// change is what a delegate has learned.
type change struct {
	kind changeKind
	task spec.Task
	meta meta
	err  error
}

type changeKind int

const (
	changeAlive  changeKind = iota // joined, or says something new of itself
	changeGone                     // left or died
	changeRefuse                   // err tells who was refused
)

// delegates are memberlist's callbacks. They run under its lock and on its goroutines, so that
// they decide from what they are given, and only append to a queue.
type delegates struct {
	spec *spec.Spec
	self spec.Task
	boot uint64
	meta atomic.Pointer[[]byte]

	mu    sync.Mutex
	queue []change
	ready chan struct{} // capacity 1: the queue is not empty
}

var (
	_ memberlist.Delegate         = (*delegates)(nil)
	_ memberlist.EventDelegate    = (*delegates)(nil)
	_ memberlist.AliveDelegate    = (*delegates)(nil)
	_ memberlist.MergeDelegate    = (*delegates)(nil)
	_ memberlist.ConflictDelegate = (*delegates)(nil)
)

func (d *delegates) post(c change) {
	d.mu.Lock()
	d.queue = append(d.queue, c)
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (d *delegates) take() []change {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue
	d.queue = nil
	return q
}

// admit checks a node against the declared cluster. Where the spec has a host's name, its IP
// address is not compared, because looking names up takes time that a delegate does not have;
// the port is.
func (d *delegates) admit(n *memberlist.Node) (spec.Task, meta, error) {
	at := net.UDPAddr{IP: n.Addr, Port: int(n.Port)}
	task, ok := d.spec.ByName(n.Name)
	if !ok {
		return task, meta{}, status.Errorf(status.FailedPrecondition, "%v turns %s at %v away: the cluster spec has no such task.", d.self, n.Name, &at)
	}
	host, port, err := spec.SplitAddress(task.Address)
	if ip := net.ParseIP(host); err != nil || port != int(n.Port) || ip != nil && !ip.Equal(n.Addr) {
		return task, meta{}, status.Errorf(status.FailedPrecondition, "%v turns %s at %v away: the cluster spec has that task at %s.", d.self, n.Name, &at, task.Address)
	}
	m, err := decodeMeta(n.Name, n.Meta)
	if err != nil {
		return task, meta{}, err
	}
	if m.spec != d.spec.Hash() {
		return task, meta{}, status.Errorf(status.FailedPrecondition, "%v turns %v away: it was started with another cluster spec (its hash is %s there and %s here).", d.self, task, m.spec, d.spec.Hash())
	}
	return task, m, nil
}

// NotifyAlive refuses nodes that the declared cluster does not have.
func (d *delegates) NotifyAlive(n *memberlist.Node) error {
	task, m, err := d.admit(n)
	switch {
	case err != nil:
		d.post(change{kind: changeRefuse, task: task, err: err})
	case task == d.self && m.boot != d.boot:
		// What others still tell of this task's last process, or a second process. Memberlist
		// contradicts; whether a second one lives was asked at the start.
		return nil
	}
	return err
}

// NotifyMerge refuses to exchange views with a node of another cluster.
func (d *delegates) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if n.State != memberlist.StateAlive {
			continue
		}
		if task, _, err := d.admit(n); err != nil {
			d.post(change{kind: changeRefuse, task: task, err: err})
			return err
		}
	}
	return nil
}

// NotifyJoin and the next two tell what the gossip came to believe.
func (d *delegates) NotifyJoin(n *memberlist.Node)   { d.note(changeAlive, n) }
func (d *delegates) NotifyUpdate(n *memberlist.Node) { d.note(changeAlive, n) }
func (d *delegates) NotifyLeave(n *memberlist.Node)  { d.note(changeGone, n) }

func (d *delegates) note(kind changeKind, n *memberlist.Node) {
	// Nodes that are not admitted never get here.
	if task, m, err := d.admit(n); err == nil && task != d.self {
		d.post(change{kind: kind, task: task, meta: m})
	}
}

// NotifyConflict is told of one name at two addresses.
func (d *delegates) NotifyConflict(existing, other *memberlist.Node) {
	task, _ := d.spec.ByName(existing.Name)
	d.post(change{kind: changeRefuse, task: task, err: status.Errorf(status.AlreadyExists,
		"%s is at %s and at %s: two processes claim to be the same task.", existing.Name, existing.Address(), other.Address())})
}

// NodeMeta is what this node says of itself.
func (d *delegates) NodeMeta(int) []byte { return *d.meta.Load() }

// NotifyMsg and the next three are for data of users, of which there is none.
func (d *delegates) NotifyMsg([]byte)                {}
func (d *delegates) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegates) LocalState(bool) []byte          { return nil }
func (d *delegates) MergeRemoteState([]byte, bool)   {}
