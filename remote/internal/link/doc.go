// Package link connects a task to those that its plans need: it tells whether they are there,
// carries the messages between their actors, and large tensors.
//
// A link is opened when somebody asks for the peer (Links.Ensure), or an actor sends it a message, and closed
// when nobody has needed it for a minute. It is one stream on a connection of its own, in protoactor's remote
// protocol with fields beside it (see head). It begins with a handshake
// that refuses a process of another cluster spec, and that tells the peer's boot id and devices.
// Then both ends send what they have for each other, and heartbeats when that is nothing. A peer
// whose connection breaks is lost at once; one that is frozen, when nothing was heard from it for a
// few seconds. A Peer stands for one process: it is up, and then it is down for ever. A process
// that came back is another Peer. Two tasks may have two links, of which each has opened one.
//
// # Messages
//
// Links.Resolve is how the actor system finds what sends to actors of other tasks. A message is
// encoded into pooled memory and written by the goroutine that sends it, and the goroutine that
// reads the other end delivers it: nothing is handed over. Tensors that travel with it go from and
// to their own memory. So that no actor is held up for long, whoever comes while another one writes
// leaves the message to that one; and where an actor deals with a message for longer than a link may be silent,
// another goroutine reads on. The order of messages on a link is kept. For the bytes see head and
// outgoing.
//
// Of the actor system's own messages only those about watching travel (watches). Others, which would stop an actor
// of another process, are refused and counted on both ends.
//
// # Programs' actors
//
// Messages of programs' own actors, which may wait, are posted (Peer.Post). They go over a stream of the same form
// on a connection of its own, so that the link's messages do not stand behind them; it is opened with the first one
// and ends with the link, as the link does with it. What waits is written in batches (mail), and a sender waits
// while its actor has too much that it has not handled (credits), so that nothing finds a full queue.
//
// Processes that are no tasks of the cluster are turned away, or with Config.Outsiders reach programs' actors over
// streams without heads (outside).
//
// # Tensors
//
// Large tensors are pushed over a second stream, so that messages do not stand behind them; for the
// bytes see frame. They are written from their own memory and read into that of the receiver's Sink.
// Between processes of one machine that agree on it they are not sent: the receiver reads them out
// of the sender's memory (package samehost), and until it has, the sender keeps them. Where that fails
// they are sent. Between tasks of one process nothing is read either: the receiver takes over the
// tensor itself, also one of a message (see handoff).
//
// What waits for a peer is bounded by who asks for room first (Peer.Room). A peer that takes nothing
// for seconds although it is heard is reported (State, Stats, the log) and after half a minute given
// up.
//
// # Trust
//
// Every head, body, header and content has a CRC-32C, and messages and frames of a stream are numbered.
// What is malformed, corrupted, repeated or out of turn ends its stream with INVALID_ARGUMENT or
// DATA_LOSS, and is counted. Claimed sizes are held against what they must add up to before memory is
// taken.
package link
