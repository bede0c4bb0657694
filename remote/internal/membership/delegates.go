package membership

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/memberlist"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/spec"
)

// isBelief reports whether a change is news of a task, which comes once.
func (k changeKind) isBelief() bool { return k == changeAlive || k == changeGone }

// change is what a delegate has learned.
type change struct {
	kind changeKind
	task spec.Task
	meta meta
	err  error
}

type changeKind int

const (
	changeAlive   changeKind = iota // joined, or announces something new about itself
	changeGone                      // left or died
	changeRefuse                    // err names the rejected process
	changeUnknown                   // announces that it was started with a cluster spec that is not known here
)

// delegates are memberlist's callbacks. They run under its lock and on its goroutines, so they decide only from their arguments and only
// append to a queue.
type delegates struct {
	spec *spec.Spec
	self spec.Task
	boot uint64
	meta atomic.Pointer[[]byte]

	mu    sync.Mutex
	queue []change
	ready chan struct{} // capacity 1: the queue is not empty
	// passed are the hashes of other specs of this cluster, with the tasks that were started with them.
	passed map[passedSpec]struct{}
}

// passedSpec is a task with the hash of its cluster spec.
type passedSpec struct{ task, hash string }

// maxPassed bounds the remembered specs of other tasks. Forgotten ones are asked for again.
const maxPassed = 1 << 14

// pass records that a task whose cluster spec has the hash belongs to this cluster.
func (d *delegates) pass(task, hash string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.passed == nil || len(d.passed) >= maxPassed {
		d.passed = map[passedSpec]struct{}{}
	}
	d.passed[passedSpec{task, hash}] = struct{}{}
}

func (d *delegates) hasPassed(task, hash string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, passed := d.passed[passedSpec{task, hash}]
	return passed
}

// Reasons for ignoring nodes that are not reported: the cluster spec need not have all tasks of the cluster, and if a task's spec is not
// known here, the task itself is asked.
var (
	errNotDeclared = status.New(status.NotFound, "the cluster spec has no such task")
	errUnknownSpec = status.New(status.Unavailable, "its cluster spec is not known yet")
)

var (
	_ memberlist.Delegate         = (*delegates)(nil)
	_ memberlist.EventDelegate    = (*delegates)(nil)
	_ memberlist.AliveDelegate    = (*delegates)(nil)
	_ memberlist.MergeDelegate    = (*delegates)(nil)
	_ memberlist.ConflictDelegate = (*delegates)(nil)
)

// maxQueued bounds the queue, in which anybody who reaches the port of a task without a secret can put something with each packet. Beyond it, what
// is said again anyway is dropped, and of what is believed about a task the last news replaces the one before.
const maxQueued = 1 << 10

func (d *delegates) post(c change) {
	d.mu.Lock()
	d.putLocked(c)
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

func (d *delegates) putLocked(c change) {
	if len(d.queue) >= maxQueued {
		if !c.kind.isBelief() {
			return
		}
		for i := len(d.queue) - 1; i >= 0; i-- {
			if old := &d.queue[i]; old.task == c.task && old.kind.isBelief() {
				*old = c
				return
			}
		}
	}
	d.queue = append(d.queue, c)
}

// takeAll returns the queue and empties it.
func (d *delegates) takeAll() []change {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue
	d.queue = nil
	return q
}

// admit checks a node against the declared cluster: its port, and its IP address if the node's own spec is the same. It does not resolve
// host names, because a delegate must not block that long.
func (d *delegates) admit(n *memberlist.Node) (spec.Task, meta, error) {
	at := net.UDPAddr{IP: n.Addr, Port: int(n.Port)}
	task, ok := d.spec.ByName(n.Name)
	if !ok {
		return task, meta{}, errNotDeclared
	}
	m, err := decodeMeta(n.Name, n.Meta)
	if err != nil {
		return task, meta{}, err
	}
	same := m.spec == d.spec.Hash()
	host, port, err := spec.SplitAddress(task.Address)
	if ip := net.ParseIP(host); err != nil || port != int(n.Port) || same && ip != nil && !ip.Equal(n.Addr) {
		return task, meta{}, status.Errorf(status.FailedPrecondition, "%v turns %s at %v away: the cluster spec has that task at %s.", d.self, n.Name, &at, task.Address)
	}
	if !same && task != d.self && !d.hasPassed(n.Name, m.spec) {
		return task, m, errUnknownSpec
	}
	return task, m, nil
}

// refuse reports a refusal, or makes the task of an unknown spec be asked.
func (d *delegates) refuse(task spec.Task, m meta, err error) {
	switch {
	case errors.Is(err, errNotDeclared):
	case errors.Is(err, errUnknownSpec):
		d.post(change{kind: changeUnknown, task: task, meta: m})
	default:
		d.post(change{kind: changeRefuse, task: task, err: err})
	}
}

// NotifyAlive rejects nodes that the declared cluster does not have.
func (d *delegates) NotifyAlive(n *memberlist.Node) error {
	task, m, err := d.admit(n)
	switch {
	case err != nil:
		d.refuse(task, m, err)
	case task == d.self && m.boot != d.boot:
		// Either others still announce this task's last process, or there is a second process. Memberlist refutes it; whether a second one is
		// alive was checked at the start.
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
		_, _, err := d.admit(n)
		if err == nil || errors.Is(err, errNotDeclared) || errors.Is(err, errUnknownSpec) {
			continue // NotifyAlive decides
		}
		task, _ := d.spec.ByName(n.Name)
		d.post(change{kind: changeRefuse, task: task, err: err})
		return err
	}
	return nil
}

// NotifyJoin, NotifyUpdate and NotifyLeave report what the gossip came to believe.
func (d *delegates) NotifyJoin(n *memberlist.Node)   { d.note(changeAlive, n) }
func (d *delegates) NotifyUpdate(n *memberlist.Node) { d.note(changeAlive, n) }
func (d *delegates) NotifyLeave(n *memberlist.Node)  { d.note(changeGone, n) }

func (d *delegates) note(kind changeKind, n *memberlist.Node) {
	// Nodes that are not admitted never get here, but the spec that a node was admitted with may have been forgotten.
	task, ok := d.spec.ByName(n.Name)
	if m, err := decodeMeta(n.Name, n.Meta); ok && err == nil && task != d.self {
		d.post(change{kind: kind, task: task, meta: m})
	}
}

// NotifyConflict is called when one name is at two addresses.
func (d *delegates) NotifyConflict(existing, other *memberlist.Node) {
	task, _ := d.spec.ByName(existing.Name)
	d.post(change{kind: changeRefuse, task: task, err: status.Errorf(status.AlreadyExists,
		"%s is at %s and at %s: two processes claim to be the same task.", existing.Name, existing.Address(), other.Address())})
}

// NodeMeta returns what this node announces about itself.
func (d *delegates) NodeMeta(int) []byte { return *d.meta.Load() }

// NotifyMsg and the next three are for user data, which does not exist here.
func (d *delegates) NotifyMsg([]byte)                {}
func (d *delegates) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegates) LocalState(bool) []byte          { return nil }
func (d *delegates) MergeRemoteState([]byte, bool)   {}
