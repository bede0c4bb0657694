// Package roles provides what every actor of a task is spawned with: a mailbox that handles a message where it arrives, a supervisor, and
// an entry in the list of the task's actors.
//
// The library's own mailbox starts a goroutine for each message that finds the actor idle, which costs more than handling most messages.
// With [Mailbox], the goroutine that delivers a message handles it if the actor is idle. The same goroutine also handles a limited number
// of messages that arrive meanwhile, then a goroutine of the actor's dispatcher takes over. As with any mailbox, messages are handled one
// at a time, in order of arrival.
//
// Receive must neither block nor compute for long. It leaves long work to [Ref.After]: the goroutine that delivered the message does that
// work after the actor is free for the next one.
//
// An actor that has stopped refuses messages. The Refuse function of its [Spec] answers them, so no caller has to wait for a timeout.
package roles
