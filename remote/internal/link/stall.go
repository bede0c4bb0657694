package link

import (
	"fmt"
	"sync/atomic"
	"time"
)

// stall notices a peer that takes no tensors although it is heard.
type stall struct {
	sending atomic.Bool   // a frame is being sent
	taken   atomic.Uint64 // frames and lent tensors that the peer has taken
	stalled atomic.Int64  // nanoseconds for which it has taken nothing, if that is too long

	// The rest belongs to the clock.
	seen  uint64
	since time.Time // when something was taken, or nothing was to be
}

func (s *stall) begin() { s.sending.Store(true) }

func (s *stall) end() {
	s.sending.Store(false)
	s.taken.Add(1)
}

// tick is called once a beat: it warns once of a peer that does not read, and in the end gives it up.
func (b *bulk) tick(now time.Time) {
	s, l := &b.stall, b.peer.link.links
	b.mu.Lock()
	pending := s.sending.Load() || len(b.lent) > 0
	b.mu.Unlock()
	if taken := s.taken.Load(); !pending || taken != s.seen {
		s.seen, s.since = taken, now
		s.stalled.Store(0)
		return
	}
	d := now.Sub(s.since)
	if d > l.timing.Silence && s.stalled.Swap(int64(d)) == 0 {
		l.counters.stalls.Add(1)
		if l.config.Stalled != nil {
			l.config.Stalled(b.peer.Task(), b.peer.share.queued())
		}
		l.log.Warn("a task takes no tensors, although it is heard", "task", b.peer.Task(), "bytes", b.peer.share.queued(), "seconds", d.Seconds())
	}
	if d > l.timing.Stall {
		b.peer.pipe.cut(fmt.Sprintf("it accepted none of the %d bytes of tensors that wait for it for %v", b.peer.share.queued(), l.timing.Stall))
	}
}
