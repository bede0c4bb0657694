// Package link connects a task to the tasks that its plans need. A link monitors whether the other task is alive,
// and carries large tensors and the messages between the two tasks' actors.
//
// A link is opened when the peer is asked for (Links.Ensure) or an actor sends it a message, and closed when it
// has been unused for a minute. It is one stream on a connection of its own, in protoactor-go's remote
// protocol with additional fields (see head). It begins with a handshake that rejects a process of another
// cluster spec and announces the peer's boot ID and devices. Then both ends send their messages, and
// heartbeats while idle. A peer whose connection breaks is lost at once. A frozen peer is lost after a few
// seconds of silence. A Peer stands for one process: it is up, and then permanently down.
// A restarted process is another Peer. Two tasks may have two links, one opened by each.
//
// # Messages
//
// The actor system calls Links.Resolve to find the actor.Process that sends to another task's actors. The sending
// goroutine encodes a message into pooled memory and writes it. The goroutine that reads the other end delivers
// it, so no other goroutine needs to wake up. Tensors that travel with a message are written from, and read into,
// their own memory. A goroutine that finds another one writing queues its message for that one, so no actor is
// delayed for long. If an actor handles a message for longer than a link may be silent, another goroutine takes
// over reading. A link preserves the order of messages. For the byte format, see head and outgoing.
//
// Of the actor system's own messages, only those about watching are sent (watches). Others, which would stop an
// actor of another process, are refused and counted on both ends.
//
// # Programs' actors
//
// Messages of programs' own actors, which may wait, are posted on the way to their task (Links.Reach). They use a stream of the same form
// on a separate connection, so the link's messages do not queue behind them. This stream is opened with
// the first message; it and the link end together. The task that it leads to uses it for its own messages, too, unless it has opened one.
// Pending messages are written in batches (mail). A sender
// waits while the receiving actor has too large a backlog (credits), so no message finds a full queue.
//
// Processes that are not tasks of the cluster are rejected. With Config.Outsiders, they reach programs'
// actors over streams without heads (outside).
//
// # Tensors
//
// Large tensors are pushed over a second stream, so messages do not queue behind them; for the byte format, see
// frame. They are written from their own memory and read into that of the receiver's Sink. Between processes of
// one machine that agree on it, they are not sent: the sender lends them, and the receiver reads them out of the
// sender's memory (package samehost). If that fails, they are sent. Between tasks of one process,
// nothing is copied: the receiver takes over the tensor itself, including the tensors of messages (see handoff).
//
// Senders ask for room before they push (Peer.Room), which bounds what is queued for a peer. A peer that still
// sends but accepts nothing for seconds is reported (State, Stats, the log). After half a minute it is
// declared lost.
//
// # Round trips
//
// Tasks may be far apart, so nothing is waited for that need not be. The first message takes four and a half round trips: one for the connection,
// one with certificates for TLS, one for the hello and its answer, two for asking the opener's address or one for the challenge, which go on at the
// same time, and half of one for the message. A method is called without waiting for HTTP/2's settings. The connection for messages of programs'
// actors is made during the link's handshake, and needs none of its own (bond, see identify): messages follow its hello. An answer takes half a round
// trip.
//
// # Trust
//
// Every head, body, header and content has a CRC-32C, and messages and frames of a stream are numbered. Anything
// malformed, corrupted, repeated or out of order ends its stream with INVALID_ARGUMENT or DATA_LOSS, and is
// counted. So does a reference to memory that was not lent. Announced sizes are checked against the total before
// memory is allocated.
package link
