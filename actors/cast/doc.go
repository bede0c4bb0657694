// Package cast runs the actors of programs beside the runtime's own.
//
// A task has one Cast. It creates actors of the kinds that the program has registered, at the request of any task of
// the cluster, and passes messages between them. An actor runs on a goroutine of the actor system while it has
// messages. Its queue is bounded in messages and bytes. The goroutine that reads a link only enqueues
// messages; the actor's own goroutine decodes them. A program's slow actor therefore never
// delays the runtime's messages, and a message that the program cannot decode is the only one that is dropped.
//
// Between tasks, messages travel as Letters, in batches, over a stream of their own. The casts' own messages
// are wire.Mail, in Letters for Conversation. Letters to a task are numbered. A letter that was overtaken, as can
// happen when a link breaks and another one is opened, is dropped: the messages of one task to another arrive in
// order or not at all. Requests (Ask, Spawn, Watch, End) have names of their own, to which the answers are sent.
// They end with an error when the link to their task breaks, so that none waits for a lost answer.
//
// A full queue makes its senders wait, on any task: Room informs the sender's task of handled messages.
// TrySend does not wait.
//
// An actor has a life, which ends when it fails or ends. What it sets up for itself (timers, watches, asks, children) belongs to its
// life: see life.go. After a failure, an actor whose kind restarts rests, with its name and its queue, and then begins another life. See decision.go for what else may follow.
//
// Messages to topics go once to each task with subscribers: see topics.go and follow.go.
//
// Messages of clients outside the cluster come encoded, or as JSON, and are passed on without being decoded: see raw.go and json.go.
//
// With Config.Outsiders, processes outside the cluster may take part: see outside.go.
package cast
