package link

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors/wire"
)

// Resolve finds the process that sends to actors of other tasks of the cluster: an
// actor.AddressResolver. Messages go over a link with the task, the one that this side has opened if
// there is one, else one that the task has opened; a *wire.Parcel takes its tensors along. While there
// is no link, one is opened, and messages without tensors wait for it. Of the system's messages Watch,
// Unwatch and Terminated travel, and no others: a task stops its own actors alone.
//
// A message to a task keeps its place among those before it. What cannot be sent is a dead letter. Nobody
// is told of a message that is lost with its link; who waits for an answer watches the peer, or the actor.
func (l *Links) Resolve(pid *actor.PID) (actor.Process, bool) {
	k := l.addresses[pid.Address]
	if k == nil {
		return nil, false
	}
	return k, true
}

var _ actor.Process = (*link)(nil)

// maxUnlinked bounds the messages to a task that wait for a link to it.
const maxUnlinked = 1 << 10

// unlinked is a message that waits for a link.
type unlinked struct {
	pid     *actor.PID
	message any
	sender  *actor.PID
	header  map[string]string
}

// SendUserMessage sends a message to an actor of the task.
func (k *link) SendUserMessage(pid *actor.PID, message any) {
	header, m, sender := actor.UnwrapEnvelope(message)
	u := unlinked{pid: pid, message: m, sender: sender}
	if header != nil && header.Length() > 0 {
		u.header = header.ToMap()
	}
	if refused(m) {
		k.links.refuseSystem(pid.Id, typeName(m), k.task.Name())
		return
	}
	k.dispatch(u)
}

// SendSystemMessage sends what watching needs.
func (k *link) SendSystemMessage(pid *actor.PID, message any) {
	if refused(message) {
		k.links.refuseSystem(pid.Id, typeName(message), k.task.Name())
		return
	}
	switch m := message.(type) {
	case *actor.Watch:
		k.watches.add(m.Watcher, pid)
	case *actor.Unwatch:
		k.watches.remove(m.Watcher, pid)
	}
	k.dispatch(unlinked{pid: pid, message: message})
}

// Stop does nothing: an actor is stopped on its own task.
func (k *link) Stop(pid *actor.PID) {
	k.links.refuseSystem(pid.Id, typeName(&actor.Stop{}), k.task.Name())
}

// dispatch sends a message over a link, or lets it wait for one.
func (k *link) dispatch(u unlinked) {
	if !k.unlinking.Load() && k.send(u) {
		return
	}
	_, parcel := u.message.(*wire.Parcel)
	if parcel || !k.await(u) {
		k.dead(u)
	}
}

// await lets a message wait for a link, which it lets be opened; false if too many wait, or none will be.
func (k *link) await(u unlinked) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unlinked) >= maxUnlinked {
		return false
	}
	if len(k.unlinked) == 0 {
		if !k.links.start(k.sendUnlinked) {
			return false
		}
		k.unlinking.Store(true)
	}
	k.unlinked = append(k.unlinked, u)
	return true
}

// sendUnlinked opens a link and sends what waits for it.
func (k *link) sendUnlinked() {
	ctx, cancel := context.WithTimeout(k.links.ctx, k.links.timing.First)
	defer cancel()
	_, err := k.ensure(ctx)
	for {
		k.mu.Lock()
		if len(k.unlinked) == 0 {
			k.unlinked = nil
			k.unlinking.Store(false)
			k.mu.Unlock()
			return
		}
		u := k.unlinked[0]
		k.mu.Unlock()
		if err != nil || !k.send(u) {
			k.dead(u)
		}
		k.mu.Lock()
		k.unlinked[0], k.unlinked = unlinked{}, k.unlinked[1:]
		k.mu.Unlock()
	}
}

// dead makes a dead letter of a message, or tells a watcher that the address is out of reach.
func (k *link) dead(u unlinked) {
	k.links.counters.messagesDropped.Add(1)
	if p, ok := u.message.(*wire.Parcel); ok {
		p.Release()
		u.message = p.Message
	}
	system := k.links.config.System
	if system == nil {
		return
	}
	switch m := u.message.(type) {
	case *actor.Watch:
		if k.watches.remove(m.Watcher, u.pid) {
			tellWatcher(system, m.Watcher.Id, u.pid, actor.TerminatedReason_AddressTerminated)
		}
	case actor.SystemMessage:
	default:
		system.DeadLetter.SendUserMessage(u.pid, &actor.MessageEnvelope{Message: u.message, Sender: u.sender})
	}
}

// send sends a message over a link; false if there is none, or the message cannot go over one.
func (k *link) send(u unlinked) bool {
	ways := [...]*pipe{k.own.Load(), k.accepted.Load()}
	near := true
	for _, way := range ways {
		near = near && (way == nil || way.out.localQueue != nil)
	}
	if ways[0] == nil && ways[1] == nil {
		return false
	}
	if p, ok := u.message.(*wire.Parcel); ok {
		for _, t := range p.Tensors {
			if t == nil {
				k.links.log.Error("a parcel misses a tensor", "actor", u.pid.Id, "message", p.Message)
				return false
			}
		}
	}
	m, err := encode(u.pid, u.message, u.sender, u.header, near)
	if err != nil {
		k.links.counters.messagesDropped.Add(1)
		k.links.log.Error("a message could not be sent", "actor", u.pid.Id, "task", k.task.Name(), "error", err)
		return true
	}
	for _, way := range ways {
		if way != nil && way.out.post(m) {
			return true
		}
	}
	m.free()
	k.links.counters.messagesDropped.Add(1)
	k.links.log.Debug("a message was lost with its link", "actor", u.pid.Id, "task", k.task.Name())
	return true
}

// refused tells whether a message is the actor system's and does not travel: no process stops, poisons or
// touches an actor of another one.
func refused(message any) bool {
	switch message.(type) {
	case *actor.Watch, *actor.Unwatch, *actor.Terminated:
		return false
	}
	return system(message)
}

// system tells whether a message is the actor system's own.
func system(message any) bool {
	switch message.(type) {
	case actor.SystemMessage, *actor.PoisonPill, *actor.Touch:
		return true
	}
	return false
}

// refuseSystem counts a message of the actor system's that was not sent or not taken.
func (l *Links) refuseSystem(target, message, other string) {
	l.counters.systemRefused.Add(1)
	l.log.Warn("a message of the actor system between processes was refused", "actor", target, "message", message, "other", other)
}

// deliver gives a message that has arrived from k's task to its actor.
func (l *Links) deliver(k *link, m letter) {
	system := l.config.System
	message := m.message
	if refused(message) {
		l.refuseSystem(m.target.Id, typeName(message), k.task.Name())
		return
	}
	if why := l.misaddressed(k, m); why != "" {
		if p, ok := message.(*wire.Parcel); ok {
			p.Release()
		}
		l.counters.messagesRefused.Add(1)
		l.log.Warn("a message of another task was refused: "+why, "actor", m.target.Id, "message", typeName(message), "sender", m.sender, "task", k.task.Name())
		return
	}
	if p, ok := message.(*wire.Parcel); ok {
		if system == nil {
			p.Release()
		} else if _, there := system.ProcessRegistry.GetLocal(m.target.Id); !there {
			p.Release()
			message = p.Message
		}
	}
	if system == nil {
		return
	}
	if s, ok := message.(actor.SystemMessage); ok {
		k.hearSystem(m.target, s)
		return
	}
	if m.sender != nil || m.header != nil {
		message = &actor.MessageEnvelope{Message: message, Sender: m.sender, Header: m.header}
	}
	system.Root.Send(m.target, message)
}

// misaddressed tells why a message does not go where it says, or come from where it says; empty if it does. The actors
// that other tasks have to do with are few: nobody may guess the name of a queue. An answer goes to the task that has
// asked, and no other.
func (l *Links) misaddressed(k *link, m letter) string {
	if _, watching := m.message.(actor.SystemMessage); !watching && l.config.Reachable != nil && !l.config.Reachable(m.target.Id) {
		return "no actor of that name is for other tasks"
	}
	if m.sender != nil && m.sender.Address != k.task.Address {
		return "its sender is not an actor of the task"
	}
	return ""
}

// RefuseSystem counts and logs a message of the actor system's from outside the cluster that was not taken.
func (l *Links) RefuseSystem(target, message, from string) { l.refuseSystem(target, message, from) }
