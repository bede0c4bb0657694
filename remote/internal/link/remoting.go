package link

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/distance"
)

// Resolve is an actor.AddressResolver: it returns the actor.Process that sends to the actors of another
// task of the cluster. Messages go over a link with the task: the one that this side has opened, or else
// the one that the task has opened. A *wire.Parcel carries its tensors along. If there is no link, one
// is opened, and messages without tensors wait for it. Of the system's messages, only Watch,
// Unwatch and Terminated are sent, because a task stops only its own actors.
//
// Messages to a task keep their order. A message that cannot be sent becomes a dead letter. A message
// that is lost with its link is not reported; a caller that waits for an answer watches the peer, or the actor.
func (l *Links) Resolve(pid *actor.PID) (actor.Process, bool) {
	k := l.roster.Load().addresses[pid.Address]
	if k == nil {
		return nil, false
	}
	return k, true
}

var _ actor.Process = (*link)(nil)

// maxUnlinked bounds the messages to a task that wait for an attempt to open a link to it.
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

// SendSystemMessage sends a message about watching.
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

// Stop refuses: an actor is stopped only by its own task.
func (k *link) Stop(pid *actor.PID) {
	k.links.refuseSystem(pid.Id, typeName(&actor.Stop{}), k.task.Name())
}

// dispatch sends a message over a link, or queues it until there is one.
func (k *link) dispatch(u unlinked) {
	if !k.unlinking.Load() && k.send(u) {
		return
	}
	_, parcel := u.message.(*wire.Parcel)
	if parcel || !k.await(u) {
		k.dead(u)
	}
}

// await queues a message and opens a link for it. It returns false if too many messages wait, or the links are closed.
func (k *link) await(u unlinked) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unlinked) >= maxUnlinked {
		return false
	}
	if !k.unlinking.Load() {
		if !k.links.start(k.sendUnlinked) {
			return false
		}
		k.unlinking.Store(true)
	}
	k.unlinked = append(k.unlinked, u)
	return true
}

// sendUnlinked opens a link and sends the messages that wait for it, until none is left. A failed attempt fails the messages that
// waited when it began; later ones get another attempt.
func (k *link) sendUnlinked() {
	for {
		k.mu.Lock()
		all := k.unlinked
		k.unlinked = nil
		if len(all) == 0 {
			k.unlinking.Store(false)
			k.mu.Unlock()
			return
		}
		k.mu.Unlock()
		err := k.reach()
		for _, u := range all {
			if err != nil || !k.send(u) {
				k.dead(u)
			}
		}
	}
}

// reach opens a link, if none is up. It joins an attempt that is in progress. As that one may be about to give up, its failure
// is followed by another attempt.
func (k *link) reach() error {
	if k.own.Load() != nil || k.accepted.Load() != nil {
		return nil
	}
	k.mu.Lock()
	joins := k.attempt != nil
	k.mu.Unlock()
	// A message waits less long for a task that was never seen than a caller who needs the task.
	ctx, cancel := distance.Within(view.Await(k.links.ctx, "messages of actors"), k.links.timing.First)
	defer cancel()
	_, err := k.ensure(ctx, anything)
	if err != nil && joins {
		_, err = k.ensure(ctx, anything)
	}
	return err
}

// dead turns a message into a dead letter, or notifies a watcher that the address cannot be reached.
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

// send sends a message over a link. It returns false if there is no link or the message cannot be sent. A parcel whose link ends
// meanwhile is lost.
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
	if _, ok := u.message.(*wire.Parcel); !ok {
		return false // the link has just ended, perhaps because it was not used
	}
	k.links.counters.messagesDropped.Add(1)
	k.links.log.Debug("a message was lost with its link", "actor", u.pid.Id, "task", k.task.Name())
	return true
}

// refused reports whether a message is one of the actor system's that are not sent: no process stops, poisons or
// touches an actor of another one.
func refused(message any) bool {
	switch message.(type) {
	case *actor.Watch, *actor.Unwatch, *actor.Terminated:
		return false
	}
	return system(message)
}

// system reports whether a message is the actor system's own.
func system(message any) bool {
	switch message.(type) {
	case actor.SystemMessage, *actor.PoisonPill, *actor.Touch:
		return true
	}
	return false
}

// refuseSystem counts and logs a message of the actor system that was not sent or not accepted.
func (l *Links) refuseSystem(target, message, other string) {
	l.counters.systemRefused.Add(1)
	l.log.Warn("a message of the actor system between processes was refused", "actor", target, "message", message, "other", other)
}

// deliver hands a message from k's task to its actor.
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

// misaddressed returns why a message has an invalid target or sender, or "" if both are valid. Only a few actors are
// reachable from other tasks, so a task cannot send to a queue by guessing its name. The sender must be an actor of
// the task, so an answer goes only to the task that asked.
func (l *Links) misaddressed(k *link, m letter) string {
	if _, watching := m.message.(actor.SystemMessage); !watching && l.config.Reachable != nil && !l.config.Reachable(m.target.Id) {
		return "no actor of that name is for other tasks"
	}
	if m.sender != nil && m.sender.Address != k.task.Address {
		return "its sender is not an actor of the task"
	}
	return ""
}

// RefuseSystem counts and logs a message of the actor system from outside the cluster that was not accepted.
func (l *Links) RefuseSystem(target, message, from string) { l.refuseSystem(target, message, from) }
