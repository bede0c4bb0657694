package view

import (
	"fmt"
	"sync"
	"time"
)

// MaxEvents is the maximum number of events that a log keeps.
const MaxEvents = 4096

// maxText is the maximum number of bytes in a subject or text of an event.
const maxText = 1000

// Events holds the latest events of a task. The zero value is an empty log. All methods may be called concurrently; on a nil log they do
// nothing.
type Events struct {
	mu     sync.Mutex
	ring   []*Event // at most MaxEvents; event number n is at n modulo its length
	next   uint64
	floods map[string]*flood // by kind
}

// Rate limit of AddSome for each kind: a burst, and events per second.
const (
	someBurst = 50
	someRate  = 2.0
)

// flood is the rate limiter of a kind of event.
type flood struct {
	tokens  float64
	filled  time.Time
	omitted int
}

// AddSome is a rate-limited Add, for events that a client can cause at will: some of each kind are recorded, and the next recorded one says
// how many were omitted. The number of kinds must be small.
func (e *Events) AddSome(kind, subject, text string) { e.AddSomeOf("", kind, subject, text) }

// AddSomeOf is AddSome for events that concern a client. It reports whether the event was recorded.
func (e *Events) AddSomeOf(who, kind, subject, text string) (recorded bool) {
	if e == nil {
		return false
	}
	omitted, ok := e.admit(kind, time.Now())
	if !ok {
		return false
	}
	if omitted > 0 {
		text = fmt.Sprintf("%s (and %d others that were left out)", text, omitted)
	}
	e.AddOf(who, kind, subject, text)
	return true
}

// admit reports whether another event of a kind is recorded, and how many were omitted before it.
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

// Add records an event of the task. Every observer of the task may see it.
func (e *Events) Add(kind, subject, text string) { e.AddOf("", kind, subject, text) }

// AddOf records an event that concerns a client. Long texts are truncated.
func (e *Events) AddOf(who, kind, subject, text string) {
	if e == nil {
		return
	}
	ev := &Event{Who: who, At: time.Now().UnixNano(), Kind: kind, Subject: Clip(subject, maxText), Text: Clip(text, maxText)}
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

// After returns the events with numbers greater than after: the latest limit of them, in order, and the number of the others. The events
// must not be modified.
func (e *Events) After(after uint64, limit int) (events []*Event, others int) {
	if e == nil {
		return nil, 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first := e.next - uint64(len(e.ring)) // the number before that of the oldest event
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
