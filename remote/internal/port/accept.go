package port

import (
	"errors"
	"net"
	"time"
)

// leastAcceptPause is the wait after a connection could not be accepted. It doubles with each further one, up to maxAcceptPause.
const leastAcceptPause, maxAcceptPause = 5 * time.Millisecond, time.Second

// Accept passes the connections of a listener to take until the listener is closed. After an error, which may be temporary, such as too many open
// files, it calls failed and pauses, but not longer than until quit is closed.
func Accept(l net.Listener, quit <-chan struct{}, take func(net.Conn), failed func(error)) {
	pause := leastAcceptPause
	for {
		c, err := l.Accept()
		if err == nil {
			pause = leastAcceptPause
			take(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		failed(err)
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-quit:
		}
		wait.Stop()
		pause = min(2*pause, maxAcceptPause)
	}
}
