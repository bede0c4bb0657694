package link

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/remote/internal/standstill"
)

// stall detects a peer that accepts no tensors although it sends.
type stall struct {
	sending atomic.Bool   // a frame is being sent
	taken   atomic.Uint64 // frames and lent tensors that the peer has accepted
	stalled atomic.Int64  // nanoseconds for which it has accepted nothing, if that is too long

	watch standstill.Watch[uint64] // of taken; owned by the clock
}

func (s *stall) begin() { s.sending.Store(true) }

func (s *stall) end() {
	s.sending.Store(false)
	s.taken.Add(1)
}

// tick is called once a beat. It warns once about a peer that does not read, and ends its link after timing.Stall.
func (b *bulk) tick(now time.Time) {
	s, l := &b.stall, b.peer.link.links
	b.mu.Lock()
	pending := s.sending.Load() || len(b.lent) > 0
	b.mu.Unlock()
	d := s.watch.Look(now, s.taken.Load(), pending)
	if d == 0 {
		s.stalled.Store(0)
		return
	}
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
