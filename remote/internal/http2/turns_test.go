package http2

import (
	"runtime"
	"testing"
)

// BenchmarkTurns is what a connection that takes no turns pays for each time that it reads.
func BenchmarkTurns(b *testing.B) {
	w := worker{turns: newTurns(), owner: &client{}}
	for b.Loop() {
		w.debt = 0
		w.begin()
		w.yield()
		w.yield()
		w.end()
	}
}

// TestNewConnectionIsLight holds that a connection owes nothing when it begins, however old the server is.
func TestNewConnectionIsLight(t *testing.T) {
	s := newTestServer(t)
	for clock() < int64(maxDebt) { // the clock began before the connection
		runtime.Gosched()
	}
	for range 10 {
		c := newClient(t, s.addr())
		if _, err := called(t.Context(), c, "/t/echo", []byte("x")); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		for conn := range s.conns {
			s.turns.mu.Lock()
			if conn.in.work.began > 0 {
				t.Error("a new connection has had a turn")
			}
			s.turns.mu.Unlock()
		}
		s.mu.Unlock()
	}
}
