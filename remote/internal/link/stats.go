package link

import "sync/atomic"

// Stats counts what a task's links did since they were made. Bytes are those of tensors'
// contents, those in actors' messages and those that were pushed.
type Stats struct {
	MessagesSent     int64 // actors' messages
	MessagesReceived int64
	MessagesDropped  int64 // that no link could take any more
	BytesSent        int64 // written to sockets
	BytesReceived    int64 // read from sockets
	BytesLent        int64 // that processes of this machine read from this one's memory
	BytesRead        int64 // that this process read from others' memory
	BytesCopied      int64 // of all these, those that were copied between a tensor's memory and the socket
	TensorsHanded    int64 // tensors that tasks of this process took over as they are: no byte of them is counted
	BytesQueued      int64 // waiting to be sent now
	SystemRefused    int64 // messages of the actor system that would have stopped or poisoned an actor of another process
	MessagesRefused  int64 // messages to actors that are not for other tasks, or in another task's name
	FramesRefused    int64 // messages of either stream that were malformed, corrupted or out of turn
	Stalls           int64 // times that a peer took no byte for a while
}

// counters are the Stats as they are counted.
type counters struct {
	messagesSent, messagesReceived, messagesDropped   atomic.Int64
	bytesSent, bytesReceived, bytesLent, bytesRead    atomic.Int64
	bytesCopied, framesRefused, stalls, tensorsHanded atomic.Int64
	systemRefused, messagesRefused                    atomic.Int64
}

// traffic is what passed between this task and one other, over all links between them.
type traffic struct {
	messagesSent, messagesReceived, bytesSent, bytesReceived atomic.Int64
	roundTrip                                                atomic.Int64 // of the last heartbeat that had an echo, in nanoseconds
}

// Stats is a snapshot of the links' counters.
func (l *Links) Stats() Stats {
	c := &l.counters
	return Stats{
		MessagesSent: c.messagesSent.Load(), MessagesReceived: c.messagesReceived.Load(), MessagesDropped: c.messagesDropped.Load(),
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(), BytesLent: c.bytesLent.Load(), BytesRead: c.bytesRead.Load(),
		BytesCopied: c.bytesCopied.Load(), TensorsHanded: c.tensorsHanded.Load(), BytesQueued: l.budget.queued(), SystemRefused: c.systemRefused.Load(), MessagesRefused: c.messagesRefused.Load(), FramesRefused: c.framesRefused.Load(), Stalls: c.stalls.Load(),
	}
}
