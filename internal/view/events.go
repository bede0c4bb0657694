package view

import (
	"sync"
	"time"
)

// MaxEvents is how many events a log keeps.
const MaxEvents = 4096

// Events is the latest events of a task. The zero value is an empty log; all methods may be called concurrently, and those of
// nil do nothing.
type Events struct {
	mu   sync.Mutex
	ring []*Event // of MaxEvents at most; the event of number n lies at n modulo its length
	next uint64
}

// Add notes that something has happened.
func (e *Events) Add(kind, subject, text string) {
	if e == nil {
		return
	}
	ev := &Event{At: time.Now().UnixNano(), Kind: kind, Subject: subject, Text: text}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	ev.Number = e.next
	if len(e.ring) < MaxEvents {
		e.ring = append(e.ring, ev)
		return
	}
	e.ring[(ev.Number-1)%MaxEvents] = ev
}

// After is the events with greater numbers than after, the latest limit of them, in order, and how many others there were. They
// must not be changed.
func (e *Events) After(after uint64, limit int) (events []*Event, others int) {
	if e == nil {
		return nil, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.next - uint64(len(e.ring)) // the number before that of the oldest
	if after = max(after, first); after >= e.next {
		return nil, 0
	}
	if n := e.next - after; n > uint64(limit) {
		others = int(n) - limit
		after = e.next - uint64(limit)
	}
	for n := after; n < e.next; n++ {
		events = append(events, e.ring[n%MaxEvents])
	}
	return events, others
}
