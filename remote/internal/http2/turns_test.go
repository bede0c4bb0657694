package http2

import (
	"runtime"
	"testing"
)

// BenchmarkTurns measures the cost for each read of a connection that takes no turns.
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

// TestNewConnectionIsLight checks that a new connection has no debt, however old the server is.
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
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	turns := 0
	for conn := range s.conns {
		if conn.in.work.began > 0 { // possible if the goroutine was preempted in the middle of its work
			turns++
		}
	}
	if len(s.conns) != 10 || turns == 10 {
		t.Errorf("%d of %d new connections have had a turn", turns, len(s.conns))
	}
}
