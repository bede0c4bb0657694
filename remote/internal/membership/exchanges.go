package membership

import (
	"net"
	"sync"
)

// exchanges counts open streams and can wait until there are none.
type exchanges struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed once no stream is open; nil if nobody waits
}

// begin counts a stream until it is closed.
func (e *exchanges) begin(c net.Conn) net.Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open++
	return &exchange{Conn: c, end: sync.OnceFunc(e.end)}
}

func (e *exchanges) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open--; e.open == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// over returns a channel that is closed once no stream is open.
func (e *exchanges) over() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.none == nil {
		none := make(chan struct{})
		if e.open == 0 {
			close(none)
			return none
		}
		e.none = none
	}
	return e.none
}

// exchange is a counted stream.
type exchange struct {
	net.Conn
	end func()
}

func (e *exchange) Close() error {
	defer e.end()
	return e.Conn.Close()
}
