package view

import (
	"fmt"
	"sync"
	"time"
)

// MaxEvents is how many events a log keeps.
const MaxEvents = 4096

// Events is the latest events of a task. The zero value is an empty log; all methods may be called concurrently, and those of
// nil do nothing.
type Events struct {
	mu     sync.Mutex
	ring   []*Event // of MaxEvents at most; the event of number n lies at n modulo its length
	next   uint64
	floods map[string]*flood // by kind
}

// What AddSome takes of a kind at once, and in a second.
const (
	someBurst = 50
	someRate  = 2.0
)

// flood is how many events of a kind there were lately.
type flood struct {
	tokens  float64
	filled  time.Time
	omitted int
}

// AddSome is Add for events that somebody may cause as often as he likes: some of each kind are noted, and the next of these tells how
// many were left out. kind is one of a few.
func (e *Events) AddSome(kind, subject, text string) {
	if e == nil {
		return
	}
	omitted, ok := e.admit(kind, time.Now())
	if !ok {
		return
	}
	if omitted > 0 {
		text = fmt.Sprintf("%s (and %d others that were left out)", text, omitted)
	}
	e.Add(kind, subject, text)
}

// admit tells whether one more event of a kind is noted, and how many were left out before it.
func (e *Events) admit(kind string, now time.Time) (omitted int, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.floods[kind]
	if f == nil {
		if e.floods == nil {
			e.floods = map[string]*flood{}
		}
		f = &flood{tokens: someBurst, filled: now}
		e.floods[kind] = f
	}
	f.tokens = min(someBurst, f.tokens+now.Sub(f.filled).Seconds()*someRate)
	f.filled = now
	if f.tokens < 1 {
		f.omitted++
		return 0, false
	}
	f.tokens--
	omitted, f.omitted = f.omitted, 0
	return omitted, true
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
