// Package link connects a task to the tasks that its plans need. A link tells whether the other task is there,
// and carries the messages between their actors, and large tensors.
//
// A link is opened when the peer is asked for (Links.Ensure) or an actor sends it a message, and closed when it
// has not been needed for a minute. It is one stream on a connection of its own, in protoactor-go's remote
// protocol with additional fields (see head). It begins with a handshake that refuses a process of another
// cluster spec, and that tells the peer's boot id and devices. Then both ends send their messages, and
// heartbeats when there are none. A peer whose connection breaks is lost at once. A frozen peer is lost when
// nothing was heard from it for a few seconds. A Peer stands for one process: it is up, and then down for good.
// A process that came back is another Peer. Two tasks may have two links, one opened by each.
//
// # Messages
//
// Links.Resolve is how the actor system finds the process that sends to actors of other tasks. The sending
// goroutine encodes a message into pooled memory and writes it. The goroutine that reads the other end delivers
// it, so that no other goroutine has to wake up. Tensors that travel with a message go from and to their own
// memory. A goroutine that comes while another one writes leaves its message to that one, so that no actor is
// delayed for long. If an actor handles a message for longer than a link may be silent, another goroutine reads
// on. The order of messages on a link is kept. For the bytes, see head and outgoing.
//
// Of the actor system's own messages, only those about watching are sent (watches). Others, which would stop an
// actor of another process, are refused and counted on both ends.
//
// # Programs' actors
//
// Messages of programs' own actors, which may wait, are posted (Peer.Post). They use a stream of the same form
// on a connection of its own, so that the link's messages do not wait behind them. This stream is opened with
// the first message; it and the link end together. Waiting messages are written in batches (mail). A sender
// waits while its actor has too much left to handle (credits), so that no message finds a full queue.
//
// Processes that are not tasks of the cluster are turned away. With Config.Outsiders, they reach programs'
// actors over streams without heads (outside).
//
// # Tensors
//
// Large tensors are pushed over a second stream, so that messages do not wait behind them; for the bytes, see
// frame. They are written from their own memory and read into that of the receiver's Sink. Between processes of
// one machine that agree on it, they are not sent: the sender lends them, and the receiver reads them out of the
// sender's memory (package samehost). If that fails, they are sent. Between tasks of one process,
// nothing is read either: the receiver takes over the tensor itself, including those of messages (see handoff).
//
// Senders ask for room before they push (Peer.Room), which bounds what waits for a peer. A peer that accepts
// nothing for seconds although it is heard is reported (State, Stats, the log), and after half a minute it is
// given up.
//
// # Trust
//
// Every head, body, header and content has a CRC-32C, and messages and frames of a stream are numbered. What is
// malformed, corrupted, repeated or out of order ends its stream with INVALID_ARGUMENT or DATA_LOSS, and is
// counted. So does a tensor in memory that was not lent. Announced sizes are checked against what they must add up
// to before memory is taken.
package link
