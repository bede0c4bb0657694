package actors

import (
	"context"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

// outbox gathers the small tensors that a step's part sends to other tasks, so that those which
// are ready together share a message: the one that begins the receiver's part, the one that ends
// the sender's, or one of their own when the part has to wait.
type outbox struct {
	mu   sync.Mutex
	held bool // until the parts that receive have begun
	mail []parcel
}

// parcel is what waits for one task.
type parcel struct {
	task      string
	transfers []*wire.Transfer
	bytes     int
}

// maxParcel is the size in bytes at which a parcel does not wait for more.
const maxParcel = 256 << 10

// forward sends a tensor to a device of another task, taking over the reference. Large tensors
// leave at once, beside the actors' messages.
func (st *taskStep) forward(key kernels.Key, dst string, v *tensor.Tensor, dead bool) error {
	task := taskOf(dst)
	if v != nil && len(v.Data()) > largeTensor {
		return st.reach(task, func(p Peer) error { return p.Push(Push{Step: uint64(st.ID), Key: key, Tensor: v}) }, v.Release)
	}
	m, err := transferOf(key, v, dead)
	if v != nil {
		v.Release()
	}
	if err != nil {
		return err
	}
	if st.outbox.add(task, m) {
		st.Flush()
	}
	return nil
}

// add puts a transfer with the others for its task; full tells that they should leave.
func (o *outbox) add(task string, m *wire.Transfer) (full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := 0
	for i < len(o.mail) && o.mail[i].task != task {
		i++
	}
	if i == len(o.mail) {
		o.mail = append(o.mail, parcel{task: task})
	}
	p := &o.mail[i]
	p.transfers = append(p.transfers, m)
	p.bytes += len(m.Tensor) + len(m.Edge)
	return p.bytes > maxParcel && !o.held
}

// take hands over what waits for a task.
func (o *outbox) take(task string) []*wire.Transfer {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.mail {
		if p := &o.mail[i]; p.task == task {
			out := p.transfers
			p.transfers, p.bytes = nil, 0
			return out
		}
	}
	return nil
}

// hold keeps everything until release.
func (o *outbox) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = true
}

func (o *outbox) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held = false
}

// ready hands over all that waits, but for one task; nothing while it is held.
func (o *outbox) ready(but string) []parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held {
		return nil
	}
	var out []parcel
	for i := range o.mail {
		if p := &o.mail[i]; len(p.transfers) > 0 && p.task != but {
			out = append(out, *p)
			p.transfers, p.bytes = nil, 0
		}
	}
	return out
}

// flush sends what waits.
func (st *taskStep) flush() { st.flushBut("") }

// flushBut sends what waits for other tasks than one. A step that has failed sends nothing more.
func (st *taskStep) flushBut(task string) {
	if st.cancel.Err() != nil {
		return
	}
	for _, p := range st.outbox.ready(task) {
		err := st.reach(p.task, func(peer Peer) error {
			st.task.System.Root.Send(actor.NewPID(peer.Address(), workerName), &wire.Tensors{Step: uint64(st.ID), Transfers: p.transfers})
			return nil
		}, func() {})
		if err != nil {
			st.fail(err)
		}
	}
}

// reach calls send with the peer of a task, or drop where it cannot be reached, which fails the
// step. It does not wait: a peer that is not reached yet is waited for beside the part, which does
// not end before.
func (st *taskStep) reach(task string, send func(Peer) error, drop func()) error {
	if p := st.task.Cluster.Reached(task); p != nil {
		return send(p)
	}
	st.also()   // or the part would have ended when the peer is not reached, and nobody learn of it
	go func() { // ends with the step, or Peer's bound
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if _, ok := st.cancel.OnCancel(func(error) { cancel() }); !ok {
			cancel()
		}
		p, err := st.task.Cluster.Peer(ctx, task)
		if err == nil {
			err = send(p)
		} else {
			drop()
		}
		if err != nil {
			st.fail(err)
		}
		st.ended(nil)
	}()
	return nil
}
