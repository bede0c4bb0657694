package http2

import "testing"

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
