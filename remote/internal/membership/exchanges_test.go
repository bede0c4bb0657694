package membership

import (
	"net"
	"testing"
)

// TestExchangesEnd checks when the wait for open streams ends.
func TestExchangesEnd(t *testing.T) {
	var e exchanges
	ended := func(over <-chan struct{}) bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	if !ended(e.over()) {
		t.Error("the wait goes on although no stream was opened")
	}
	for range 2 { // the second wait begins after the first has ended
		var open []net.Conn
		for range 2 {
			near, far := net.Pipe()
			defer far.Close()
			open = append(open, e.begin(near))
		}
		over, other := e.over(), e.over()
		open[0].Close()
		open[0].Close()
		if ended(over) {
			t.Error("the wait ends while a stream is open")
		}
		open[1].Close()
		if !ended(over) || !ended(other) || !ended(e.over()) {
			t.Error("the wait goes on although all streams are closed")
		}
	}
}
