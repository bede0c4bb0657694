package link

import (
	"testing"
	"time"
)

// cutStream records that its pipe closed it.
type cutStream struct {
	Stream
	cut bool
}

func (s *cutStream) Takes(int) bool { return true }

func (s *cutStream) Close() error {
	s.cut = true
	return nil
}

// noEnd ignores the end of a pipe, which these have without being read.
type noEnd struct{}

func (noEnd) lost(string) {}
func (noEnd) left(string) {}

// TestFirstTickOfAPipe ticks fresh pipes at once, at what may happen before the clock's first tick: no time has been measured then, so
// none of it may be taken for a stall or a silence.
func TestFirstTickOfAPipe(t *testing.T) {
	_, _, p := pair(t, newTestSink())
	for name, before := range map[string]func(*pipe){
		"nothing":                   func(*pipe) {},
		"a first write in progress": func(f *pipe) { f.out.writing = true },
		"a later write in progress": func(f *pipe) { f.out.writing, f.out.writes = true, 7 },
		"a delivery":                func(f *pipe) { f.reader.Store(1) },
		"an arrival":                func(f *pipe) { f.arrivals.Store(1) },
		"credits to give": func(f *pipe) {
			f.programs = func([]byte) error { return nil }
			(&account{pipe: f, name: "x"}).Handled(1, 1)
		},
	} {
		for moment, late := range map[string]time.Duration{"at once": 0, "before it was made": -time.Second, "after a beat": p.link.links.timing.Beat, "after a standstill of the process": time.Hour} {
			stream := &cutStream{}
			fresh := newPipe(p.link, 1, stream, &inbound{}, newOutbound(stream, &counters{}, func(func()) bool { return true }), noEnd{})
			before(fresh)
			fresh.tick(fresh.opened.Add(late))
			if why := fresh.why.Load(); why != nil || stream.cut {
				t.Errorf("%s, ticked %s: the pipe was cut: %v", name, moment, why)
			}
		}
	}
}
