package http2

import (
	"strings"
	"testing"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// TestWaitingCallsAreBounded checks that the calls of one client that wait take half of the memory for all, whatever they wait for and on however many
// connections, that a connection with few calls and other clients go on, and that there is room again once they have ended.
func TestWaitingCallsAreBounded(t *testing.T) {
	const each = 32 // calls on a connection
	for _, w := range []struct {
		name  string
		bytes int64 // of a call
		begin func(s *testServer, r *raw, id uint32)
	}{
		{"for an event", openBytes + runningBytes, func(_ *testServer, r *raw, id uint32) { r.call(id, "/t/wait", "x") }},
		{"for their requests", openBytes, func(_ *testServer, r *raw, id uint32) { r.headers(id, "/t/echo") }},
		{"for more messages", openBytes + runningBytes, func(_ *testServer, r *raw, id uint32) { r.headers(id, "/t/both") }},
		{"for their clients to read", openBytes, func(_ *testServer, r *raw, id uint32) { r.call(id, "/t/echo", "more than the window") }},
		{"though their clients have given them up", runningBytes, func(s *testServer, r *raw, id uint32) {
			r.call(id, "/t/stubborn", "x")
			r.must(r.fr.WriteRSTStream(id, x.ErrCodeCancel))
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			s := newTestServer(t)
			s.maxCalls = 8 * each * w.bytes
			s.both = echoBoth
			var open []*raw
			refused := func(r *raw, id uint32) bool {
				r.t.Helper()
				r.call(id, "/t/echo", "")
				res := r.answer(id)
				if res.status != 0 && (res.status != int(codes.ResourceExhausted) || !strings.Contains(res.message, "of them are this client's: the limits are")) {
					t.Errorf("%+v", res)
				}
				return res.status != 0
			}
			for range 4 {
				r := s.dialRawFrom(t, "127.0.0.2", initialWindow(3))
				open = append(open, r)
				for i := range each {
					w.begin(s, r, uint32(2*i+1))
				}
				r.ping()
			}
			eventually(t, "the calls take most of what the client may have", func() bool { return s.calls.Load() >= 2*each*w.bytes })
			for _, id := range []uint32{101, 103} {
				if !refused(open[0], id) {
					t.Error("a connection with many calls has one more")
				}
			}
			if few := s.dialRawFrom(t, "127.0.0.2"); refused(few, 1) {
				t.Error("a connection with few calls is refused one")
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
			if again := s.dialRawFrom(t, "127.0.0.2"); refused(again, 1) {
				t.Error("there is no room again")
			}
		})
	}
}
