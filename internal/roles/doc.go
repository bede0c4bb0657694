// Package roles is what every actor of a task is spawned with: a mailbox that handles a message where
// it arrives, a supervisor, and a place in the list of the task's actors.
//
// The library's own mailbox costs a new goroutine for each message that finds the actor idle, which is
// more than most messages do. [Mailbox] lets the goroutine that brings a message handle it, if the actor
// is idle; messages that come meanwhile are handled by the same goroutine for a while, then by one of the
// actor's dispatcher. A message is handled one after the other, in the order of arrival, as in any mailbox.
//
// Receive must neither block nor compute for long. It leaves what takes long to [Ref.After]: work that the
// goroutine which brought the message does when the actor is free for the next one.
//
// An actor that has stopped refuses messages: whoever waits for an answer is told, by the Refuse function
// of its [Spec], and waits for no timeout.
package roles
