package node

// Become makes another Actor receive this actor's messages, beginning with the next one: Handlers, an ActorFunc, or what else there is for the state
// that the actor is in now. With nil, it is again the Actor that the ActorMaker made, as after a restart. That one is closed at the actor's end, if
// it is an io.Closer; the others are not. Name, queue, timers, watches and children stay as they are.
//
// Become panics in an ActorMaker, which returns the first Actor.
func (c *ActorContext) Become(behaviour Actor) {
	r, made := c.context.Actor().(*role)
	if !made {
		panic("Become was called in an ActorMaker, before the actor exists: return the Actor instead")
	}
	if behaviour == nil {
		behaviour = r.actor
	}
	r.behaviour = behaviour
}

// Stash puts the message that is being handled aside, because the actor cannot handle it in its present state. Unstash makes it handle the message again. A
// request stays unanswered meanwhile. Notices (ActorEnded, ActorAnswer, TaskStatus, and the messages of After and Every) can be put aside, too.
//
// If the actor restarts, the messages are handled first then, even one that it failed with after it had put it aside, and the notices are dropped. If it
// ends, they are lost like those in its queue.
//
// The error is RESOURCE_EXHAUSTED if the actor has put aside MaxActorStash messages, or MaxActorQueueBytes of them, or too much waits for all actors of
// the task. It is FAILED_PRECONDITION if the message has been put aside already, or answered, kept or forwarded, and after Receive has returned. The
// message can be answered after an error.
func (c *ActorContext) Stash() error { return c.context.Stash() }

// Unstash makes the actor handle the messages that it has put aside next, before those in its queue, in the order in which they arrived.
func (c *ActorContext) Unstash() { c.context.Unstash() }
