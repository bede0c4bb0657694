// Package roles is what every actor of a task is spawned with: a mailbox that handles a message where it
// arrives, a supervisor, and a place in the list of the task's actors.
//
// The library's own mailbox starts a goroutine for each message that finds the actor idle, which costs more
// than handling most messages. With [Mailbox], the goroutine that brings a message handles it if the actor is
// idle. Messages that come meanwhile are handled by the same goroutine for a while, then by one of the actor's
// dispatcher. As with any mailbox, messages are handled one after the other, in the order of arrival.
//
// Receive must neither block nor compute for long. It leaves long work to [Ref.After]: the goroutine that
// brought the message does it when the actor is free for the next one.
//
// An actor that has stopped refuses messages. The Refuse function of its [Spec] answers them, so that nobody
// waits for a timeout.
package roles
