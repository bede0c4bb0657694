// Package cast runs the actors of programs beside the runtime's own.
//
// A task has one Cast. It makes actors of the kinds that the program has registered, on request of any task of
// the cluster, and passes messages between them. An actor runs on a goroutine of the actor system while it has
// something to do. Its queue is bounded in messages and bytes. The goroutine that reads a link only puts
// messages into that queue; the actor's own goroutine decodes them. A slow actor of a program therefore never
// delays the runtime's messages, and a message that the program cannot decode is dropped alone.
//
// Between tasks, messages travel as Letters, in batches, over a stream of their own. The casts' own messages
// are wire.Mail, in Letters for Conversation. Letters to a task are numbered. One that was overtaken, as may
// happen when a link breaks and another one is opened, is dropped: what one task sends to another arrives in
// order or not at all. Requests (Ask, Spawn, Watch, End) have a name of their own, to which the answer goes.
// They end with an error when the link to their task breaks, so that none waits for an answer that was lost.
//
// A full queue makes its senders wait, wherever they are: Room tells the sender's task what was handled.
// TrySend does not wait.
//
// With Config.Outsiders, processes outside the cluster may take part: see outside.go.
package cast
