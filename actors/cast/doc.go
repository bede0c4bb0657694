// Package cast runs the actors of programs beside the runtime's own.
//
// A task has one Cast. It makes actors of the kinds that the program has given it, on request of any task
// of the cluster, and passes messages between them. An actor has a goroutine of the actor system's while
// it has something to do, and a queue that is bounded in messages and bytes. What comes from other tasks
// is only put into that queue by the goroutine that reads the link; it is decoded by the actor's own. So
// no actor of a program, however slow, holds up the runtime's messages, and a message that makes no sense
// to the program costs itself alone.
//
// Between tasks messages travel as Letters, in batches, over a stream of their own. What the casts themselves
// have to say to each other is wire.Mail, in Letters for Conversation. Letters to a task are numbered, and one
// that was overtaken, as may happen when a link breaks and another one is opened, is dropped: so what one
// task sends to another arrives in order, or not at all. Requests (Ask, Spawn, Watch, End) have a name of
// their own that the answer goes to, and end with an error when the link to their task breaks, so that
// none waits for an answer that was lost.
//
// A full queue holds its senders up, wherever they are: Room tells the sender's task what was handled. Who does
// not want to wait uses TrySend.
//
// Processes outside the cluster may take part, where Config.Outsiders lets them: see outside.go.
package cast
