package queues

import "github.com/troupe-run/troupe/internal/view"

// Show adds the queue's state to a listing. It does not wait for the queue to handle a message.
func (q *Queue) Show(r *view.Resource) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.core.state
	v := &view.Queue{
		Kind: q.options.Kind.String(), Size: int64(s.order.len()), Capacity: int64(q.options.Capacity), MinAfterDequeue: int64(q.options.MinAfterDequeue),
		Closed: s.closed, ClosedBy: s.closing.Proto(), Enqueued: s.enqueued, Dequeued: s.dequeued,
		EnqueuesWaiting: int64(s.enqueues.len), DequeuesWaiting: int64(s.dequeues.len), OpensWaiting: int64(s.opens.len + s.late.len),
		Leased: int64(s.leases.elems), DeadLetters: s.leases.stored, Dropped: s.leases.dropped,
		LastEnqueue: s.lastEnqueue.Proto(), LastDequeue: s.lastDequeue.Proto(),
	}
	v.Missed, v.LastMissed = s.latecomers.Missed, s.latecomers.Last.Proto()
	if q.options.Capacity >= unbounded {
		v.Capacity = -1
	}
	if s.reason != nil {
		v.ClosedBecause = s.reason.Error()
	}
	if first := s.dequeues.first; first != nil {
		v.Lacking, v.WaitingSince = int64(first.want), first.since.UnixNano()
	} else if first := s.enqueues.first; first != nil {
		v.WaitingSince = first.since.UnixNano()
	}
	r.Queue, r.Durable = v, q.cell != nil
}
