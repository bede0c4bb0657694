package link

import "sync/atomic"

// Stats counts what a task's links have done since they were made. Bytes are those of tensors'
// contents, both in actors' messages and pushed.
type Stats struct {
	MessagesSent     int64 // actors' messages
	MessagesReceived int64
	MessagesDropped  int64 // could not be sent, or were lost with their link
	BytesSent        int64 // written to sockets
	BytesReceived    int64 // read from sockets
	BytesLent        int64 // read by processes of this machine from this one's memory
	BytesRead        int64 // read by this process from others' memory
	BytesCopied      int64 // of all these, those that were copied between a tensor's memory and the socket
	TensorsHanded    int64 // tensors handed over between tasks of this process: their bytes are not counted
	BytesQueued      int64 // currently waiting to be sent
	SystemRefused    int64 // messages of the actor system that would have stopped or poisoned an actor of another process
	MessagesRefused  int64 // messages to actors that other tasks may not reach, or in another task's name
	FramesRefused    int64 // messages of either stream that were malformed, corrupted or out of order
	Stalls           int64 // times that a peer accepted no byte for a while
}

// counters are the live counters behind Stats.
type counters struct {
	messagesSent, messagesReceived, messagesDropped   atomic.Int64
	bytesSent, bytesReceived, bytesLent, bytesRead    atomic.Int64
	bytesCopied, framesRefused, stalls, tensorsHanded atomic.Int64
	systemRefused, messagesRefused                    atomic.Int64
}

// traffic counts what passed between this task and one other, over all links between them.
type traffic struct {
	messagesSent, messagesReceived, bytesSent, bytesReceived atomic.Int64
	roundTrip                                                atomic.Int64 // of the last echoed heartbeat, in nanoseconds
}

// Stats returns a snapshot of the links' counters.
func (l *Links) Stats() Stats {
	c := &l.counters
	return Stats{
		MessagesSent: c.messagesSent.Load(), MessagesReceived: c.messagesReceived.Load(), MessagesDropped: c.messagesDropped.Load(),
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(), BytesLent: c.bytesLent.Load(), BytesRead: c.bytesRead.Load(),
		BytesCopied: c.bytesCopied.Load(), TensorsHanded: c.tensorsHanded.Load(), BytesQueued: l.budget.queued(), SystemRefused: c.systemRefused.Load(), MessagesRefused: c.messagesRefused.Load(), FramesRefused: c.framesRefused.Load(), Stalls: c.stalls.Load(),
	}
}
