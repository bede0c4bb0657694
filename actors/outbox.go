package actors

import (
	"context"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
)

// outbox collects the small tensors that a step's part sends to other tasks, so that tensors which
// are ready together share a message: the one that starts the receiver's part, the one that ends
// the sender's, or a separate one when the part must wait.
type outbox struct {
	mu   sync.Mutex // guards the rest: kernels on several goroutines send, and a message for each tensor would cost more than the tensor
	held bool       // true until the receiving parts have begun
	all  []addressed
}

// addressed is the mail for one task.
type addressed struct {
	task string
	mail
}

// maxMail is the size in bytes at which a task's mail is sent without waiting for more.
const maxMail = 256 << 10

// forward sends a tensor to a device of another task and takes over the reference. Large tensors
// are sent at once, on a stream separate from the actors' messages.
func (st *stepPart) forward(key kernels.Key, dst string, v *tensor.Tensor, dead bool) error {
	task := taskOf(dst)
	st.task.traces.transferred(view.PushEvent, uint64(st.ID), key, task, v)
	if v != nil && len(v.Data()) > largeTensor {
		return st.reach(task, func(p Peer) error {
			return p.Push(Push{Step: uint64(st.ID), Key: key, Tensor: v, Device: dst, Compression: st.plan.compression})
		}, v.Release)
	}
	if v != nil && v.DType() == tensor.Variant {
		if err := v.Leaves(st.Ended); err != nil {
			v.Release()
			return err
		}
	}
	if st.outbox.add(task, key, v, dead) {
		st.Flush()
	}
	return nil
}

// add adds a value to its task's mail; full reports that the mail should be sent.
func (o *outbox) add(task string, key kernels.Key, v *tensor.Tensor, dead bool) (full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := 0
	for i < len(o.all) && o.all[i].task != task {
		i++
	}
	if i == len(o.all) {
		o.all = append(o.all, addressed{task: task})
	}
	o.all[i].add(key, v, dead)
	return o.all[i].bytes > maxMail && !o.held
}

// remove removes and returns the mail for a task.
func (o *outbox) remove(task string) mail {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.all {
		if a := &o.all[i]; a.task == task {
			out := a.mail
			a.mail = mail{}
			return out
		}
	}
	return mail{}
}

// drop releases the remaining mail.
func (o *outbox) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.all {
		o.all[i].release()
	}
}

// hold keeps all mail until release.
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

// ready removes and returns all mail except that for one task; nothing while the mail is held.
func (o *outbox) ready(but string) []addressed {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held {
		return nil
	}
	var out []addressed
	for i := range o.all {
		if a := &o.all[i]; len(a.transfers) > 0 && a.task != but {
			out = append(out, *a)
			a.mail = mail{}
		}
	}
	return out
}

// Flush sends all mail. It implements kernels.Runner.
func (st *stepPart) Flush() {
	if st.sends {
		st.flushBut("")
	}
}

// flushBut sends all mail except that for one task. A failed step sends nothing more.
func (st *stepPart) flushBut(task string) {
	if st.cancel.Err() != nil {
		return
	}
	for _, a := range st.outbox.ready(task) {
		err := st.reach(a.task, func(peer Peer) error {
			m := &wire.Parcel{Message: &wire.Tensors{Step: uint64(st.ID), Transfers: a.transfers}, Tensors: a.tensors}
			st.task.System.Root.Send(actor.NewPID(peer.Address(), workerName), m)
			return nil
		}, a.release)
		if err != nil {
			st.fail(err)
		}
	}
}

// reach calls send with the peer of a task, or drop if it cannot be reached, which fails the
// step. It does not block: a goroutine waits for a peer that is not reached yet, and the part does
// not end before that.
func (st *stepPart) reach(task string, send func(Peer) error, drop func()) error {
	if p := st.task.Cluster.Reached(task); p != nil {
		return send(p)
	}
	st.retain()                                                 // otherwise the part could end before the peer turns out to be unreachable, and the error be lost
	contain.Go(st.task.Log, "A tensor's way to "+task, func() { // ends with the step, or Peer's bound
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if _, ok := st.cancel.OnCancel(func(error) { cancel() }); !ok {
			cancel()
		}
		p, err := st.task.Cluster.Peer(view.Await(ctx, fmt.Sprintf("step %d", st.ID)), task)
		if err == nil {
			err = send(p)
		} else {
			drop()
		}
		if err != nil {
			st.fail(err)
		}
		st.ended(nil)
	}, func(err error) {
		st.fail(err)
		st.ended(nil)
	})
	return nil
}
