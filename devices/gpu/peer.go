package gpu

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
)

var _ kernels.Peer = (*Device)(nil)

// peers are the devices of this process by task and name: each task has its own actor system.
var peers struct {
	sync.Mutex
	open map[peerName]*core
}

type peerName struct {
	system *actor.ActorSystem
	name   string
}

func (d *core) register() {
	peers.Lock()
	defer peers.Unlock()
	if peers.open == nil {
		peers.open = map[peerName]*core{}
	}
	peers.open[peerName{d.opts.System, d.name}] = d
}

func (d *core) unregister() {
	peers.Lock()
	defer peers.Unlock()
	if k := (peerName{d.opts.System, d.name}); peers.open[k] == d {
		delete(peers.open, k)
	}
}

// Reaches reports whether the device with a full name is a GPU of the same task.
func (d *core) Reaches(device string) bool {
	peers.Lock()
	defer peers.Unlock()
	return peers.open[peerName{d.opts.System, device}] != nil
}

// departure is a point in another device's compute stream that a copy from there waits for.
type departure struct {
	known chan struct{} // closed once event and err are set
	life  *life
	event Event
	err   error
}

// Fetch returns a tensor on this device with the elements of t, which is on another GPU of this process. The copy runs after all earlier
// work of that device, and holds t until it is done.
//
// This device's thread waits in the queue for the other's. The other reaches t's departure before anything that it waits for itself, since
// departures are given before the work that waits for them. So there is no deadlock.
func (d *core) Fetch(ctx *kernels.Context, t *tensor.Tensor) (*tensor.Tensor, error) {
	m, ok := t.Home().(*memory)
	if !ok {
		return nil, status.Internalf("%s cannot read the memory that a tensor with shape%v lies in", d.name, t.Shape())
	}
	source := m.life
	if err := source.over(); err != nil {
		return nil, err
	}
	here, after, err := d.life.Load().memory.make(t.DType(), t.Shape())
	if err != nil {
		return nil, err
	}
	leave := &departure{known: make(chan struct{}), life: source}
	depart := command{kind: departCommand, leave: leave, life: source}
	var step *kernels.Step
	if ctx != nil {
		step = ctx.Step
	}
	if err := source.device.enqueue(depart, nil, step); err != nil {
		here.Release()
		return nil, err
	}
	t.Retain()
	c := command{kind: arriveCommand, leave: leave, dst: here.Address(), src: t.Address(), bytes: int64(t.DataSize()), after: after}
	c.then = func(error) {
		t.Release()
		leave.end()
	}
	if err := d.submit(ctx, c, nil); err != nil {
		c.then(err)
		here.Release()
		return nil, err
	}
	return here, nil
}

// problem returns why there is no event, once that is known or the other device is lost.
func (p *departure) problem() error {
	select {
	case <-p.known:
		return p.err
	default:
		return p.life.over()
	}
}

// end releases the event when the copy is done.
func (p *departure) end() {
	<-p.known
	if p.event != nil {
		p.life.spare(p.event)
		p.life.leaving.Done()
	}
}

// depart records the point at which a tensor is ready to leave this device.
func (l *life) depart(c *command) (err error) {
	e, err := l.event()
	if err != nil {
		return err
	}
	if err := l.compute.Record(e); err != nil {
		return err
	}
	l.leaving.Add(1)
	c.leave.event = e
	close(c.leave.known)
	return nil
}

// refuse reports to the waiting device that there is no event.
func (p *departure) refuse(err error) {
	p.err = err
	close(p.known)
}

// arrive adds a copy from another device to its stream.
func (l *life) arrive(c *command, position uint64) error {
	select {
	case <-c.leave.known:
	case <-c.leave.life.gone:
	case <-l.gone:
		return l.over()
	}
	if err := c.leave.problem(); err != nil {
		// The other device is lost, not this one: only work that waits for the tensor fails.
		if c.work == nil {
			return err
		}
		c.drop(err)
		return nil
	}
	if err := l.peers.Wait(c.leave.event); err != nil {
		return err
	}
	if err := l.follow(l.peers, c.after, position); err != nil {
		return err
	}
	if err := l.peers.Copy(c.dst, c.src, c.bytes); err != nil {
		return err
	}
	return l.finish(c, l.peers, l.device.waits.peers, true, position)
}
