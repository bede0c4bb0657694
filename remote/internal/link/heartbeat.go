package link

import "time"

// Timing configures a link's intervals and timeouts. The zero value of a field means its default.
type Timing struct {
	Beat      time.Duration // between two heartbeats: 500 ms
	Silence   time.Duration // until a silent peer is lost: 3.5 s
	Handshake time.Duration // of one attempt to connect: 1.5 s
	First     time.Duration // of all attempts for a peer that was never seen, once Startup is over: 4.5 s
	Startup   time.Duration // from the links' start, in which peers that were never seen are waited for: none
	Again     time.Duration // of the one attempt for a peer that was seen before: 1 s
	Idle      time.Duration // until an unused link is closed: 1 min
	Stall     time.Duration // until a peer that sends but accepts no byte is lost: 30 s
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

// heartbeat decides from the times of arrivals whether the other end is lost. It is pure.
type heartbeat struct {
	beat, silence time.Duration
	heard         time.Time
	ticked        time.Time
}

func newHeartbeat(t Timing, now time.Time) *heartbeat {
	return &heartbeat{beat: t.Beat, silence: t.Silence, heard: now, ticked: now}
}

// arrived records an arrival.
func (p *heartbeat) arrived(now time.Time) { p.heard = now }

// lost reports whether the other end has been silent for too long. It must be called once a
// beat. If a call comes late, this process did not run either (it was stopped, or the machine
// slept), and the silence of that time is not counted.
func (p *heartbeat) lost(now time.Time) bool {
	if late := now.Sub(p.ticked) - p.beat; late > p.beat {
		p.heard = p.heard.Add(late)
	}
	p.ticked = now
	return now.Sub(p.heard) > p.silence
}
