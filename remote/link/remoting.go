package link

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-run/troupe/actors/wire"
)

// Resolve finds the process that sends to actors of other tasks of the cluster: an
// actor.AddressResolver, to be asked before the actor system's own remoting. User messages go over
// a link with the task, the one that this side has opened if there is one, else one that the task
// has opened; a *wire.Parcel takes its tensors along. What no link takes goes to Config.Rest:
// messages of the system, and all while there is no link.
//
// A message to a task keeps its place among those before it. Nobody is told of a message that is
// lost with its link; who waits for an answer watches the peer.
func (l *Links) Resolve(pid *actor.PID) (actor.Process, bool) {
	k := l.addresses[pid.Address]
	if k == nil {
		return nil, false
	}
	return k, true
}

var _ actor.Process = (*link)(nil)

// SendUserMessage sends a message to an actor of the task.
func (k *link) SendUserMessage(pid *actor.PID, message any) {
	header, m, sender := actor.UnwrapEnvelope(message)
	_, system := m.(actor.SystemMessage)
	if !system && (header == nil || header.Length() == 0) && k.send(pid, m, sender) {
		return
	}
	p, parcel := m.(*wire.Parcel)
	if !parcel {
		k.rest(pid).SendUserMessage(pid, message)
		return
	}
	p.Release()
	k.links.counters.messagesDropped.Add(1)
	if s := k.links.config.System; s != nil {
		s.DeadLetter.SendUserMessage(pid, &actor.MessageEnvelope{Message: p.Message, Sender: sender})
	}
}

// SendSystemMessage goes to the actor system's remoting, which watches over actors of its own way.
func (k *link) SendSystemMessage(pid *actor.PID, message any) {
	k.rest(pid).SendSystemMessage(pid, message)
}

// Stop stops an actor of the task.
func (k *link) Stop(pid *actor.PID) { k.rest(pid).Stop(pid) }

func (k *link) rest(pid *actor.PID) actor.Process {
	if rest := k.links.config.Rest; rest != nil {
		if p, ok := rest(pid); ok {
			return p
		}
	}
	return k.links.config.System.DeadLetter
}

// send sends a message over a link; false if there is none, or the message cannot go over one.
func (k *link) send(pid *actor.PID, message any, sender *actor.PID) bool {
	ways := [...]*pipe{k.own.Load(), k.accepted.Load()}
	near := true
	for _, way := range ways {
		near = near && (way == nil || way.out.shelf != nil)
	}
	if ways[0] == nil && ways[1] == nil {
		return false
	}
	if p, ok := message.(*wire.Parcel); ok {
		for _, t := range p.Tensors {
			if t == nil {
				k.links.log.Error("a parcel misses a tensor", "actor", pid.Id, "message", p.Message)
				return false
			}
		}
	}
	m, err := encode(k.links.self.Address, pid, message, sender, near)
	switch err {
	case nil:
	case errNoMessage:
		return false
	default:
		k.links.counters.messagesDropped.Add(1)
		k.links.log.Error("a message could not be sent", "actor", pid.Id, "task", k.task.Name(), "error", err)
		return true
	}
	for _, way := range ways {
		if way != nil && way.out.post(m) {
			return true
		}
	}
	m.free()
	k.links.counters.messagesDropped.Add(1)
	k.links.log.Debug("a message was lost with its link", "actor", pid.Id, "task", k.task.Name())
	return true
}

// deliver gives a message that has arrived to its actor.
func (l *Links) deliver(m letter) {
	system := l.config.System
	message := m.message
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
	if m.sender != nil {
		message = &actor.MessageEnvelope{Message: message, Sender: m.sender}
	}
	system.Root.Send(m.target, message)
}
