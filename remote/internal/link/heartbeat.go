package link

import "time"

// Timing is how often a link speaks and how long it waits. The zero value of a field stands
// for its default.
type Timing struct {
	Beat      time.Duration // between two heartbeats: 500 ms
	Silence   time.Duration // after which a peer is lost: 3.5 s
	Handshake time.Duration // of one attempt to connect: 1.5 s
	First     time.Duration // of all attempts for a peer that was never seen: 4.5 s
	Again     time.Duration // of the one attempt for a peer that was seen before: 1 s
	Idle      time.Duration // until an unused link is closed: 1 min
	Stall     time.Duration // until a peer that takes no byte is lost, although it is heard: 30 s
}

func (t Timing) withDefaults() Timing {
	for _, f := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Beat, 500 * time.Millisecond},
		{&t.Silence, 3500 * time.Millisecond},
		{&t.Handshake, 1500 * time.Millisecond},
		{&t.First, 4500 * time.Millisecond},
		{&t.Again, time.Second},
		{&t.Idle, time.Minute},
		{&t.Stall, 30 * time.Second},
	} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return t
}

// heartbeat decides from what was heard, and when, whether the other end is lost. It is pure.
type heartbeat struct {
	beat, silence time.Duration
	heard         time.Time
	ticked        time.Time
}

func newHeartbeat(t Timing, now time.Time) *heartbeat {
	return &heartbeat{beat: t.Beat, silence: t.Silence, heard: now, ticked: now}
}

// hear notes that something arrived.
func (p *heartbeat) hear(now time.Time) { p.heard = now }

// lost tells whether the other end has been silent for too long. It is to be called once a
// beat: if a call comes late, this process did not run either (it was stopped, or the machine
// slept), and the silence of that time proves nothing.
func (p *heartbeat) lost(now time.Time) bool {
	if late := now.Sub(p.ticked) - p.beat; late > p.beat {
		p.heard = p.heard.Add(late)
	}
	p.ticked = now
	return now.Sub(p.heard) > p.silence
}
