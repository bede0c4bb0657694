package http2

import (
	"testing"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// TestWaitingCallsAreBounded checks that the calls of one client that wait take half of the room for all, whatever they wait for and on however many
// connections, that the others go on, and that there is room again once they have ended.
func TestWaitingCallsAreBounded(t *testing.T) {
	const most = 64
	for _, w := range []struct {
		name  string
		begin func(s *testServer, r *raw, id uint32)
	}{
		{"for an event", func(_ *testServer, r *raw, id uint32) { r.call(id, "/t/wait", "x") }},
		{"for their requests", func(_ *testServer, r *raw, id uint32) { r.headers(id, "/t/echo") }},
		{"for more messages", func(_ *testServer, r *raw, id uint32) { r.headers(id, "/t/both") }},
		{"for their clients to read", func(_ *testServer, r *raw, id uint32) { r.call(id, "/t/echo", "more than the window") }},
		{"though their clients have given them up", func(s *testServer, r *raw, id uint32) {
			r.call(id, "/t/stubborn", "x")
			<-s.entered
			r.must(r.fr.WriteRSTStream(id, x.ErrCodeCancel))
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			s := newTestServer(t)
			s.maxCalls = most
			s.both = echoBoth
			var open []*raw
			for i := range most / 2 {
				if i%8 == 0 {
					open = append(open, s.dialRawFrom(t, "127.0.0.2", initialWindow(3)))
				}
				w.begin(s, open[len(open)-1], uint32(i%8*2+1))
			}
			for _, r := range open {
				r.ping()
			}
			for _, id := range []uint32{101, 103} {
				open[0].call(id, "/t/echo", "")
				if res := open[0].answer(id); res.status != int(codes.ResourceExhausted) || res.message != "32 calls are under way, 32 of them of this client, and the limits are 64 and 32: wait for some to end" {
					t.Errorf("one more call: %+v", res)
				}
			}
			other := s.dialRaw(t)
			for id := uint32(1); id < 100; id += 2 {
				other.call(id, "/t/echo", "y")
				other.answer(id).echoed(t, "y")
			}
			for _, r := range open {
				r.nc.Close()
			}
			close(s.release)
			eventually(t, "the calls have ended", func() bool { return s.calls.Load() == 0 })
			again := s.dialRawFrom(t, "127.0.0.2")
			again.call(1, "/t/echo", "z")
			again.answer(1).echoed(t, "z")
		})
	}
}
