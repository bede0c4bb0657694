package proxy

import (
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// failingListener cannot accept connections, as if too many files were open.
type failingListener struct {
	net.Listener
	closed chan struct{}
	tries  atomic.Int64
}

func (l *failingListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
		l.tries.Add(1)
		return nil, errors.New("too many open files")
	}
}

func (l *failingListener) Close() error {
	close(l.closed)
	return nil
}

// TestAcceptPauses checks that a proxy that cannot accept connections does not try all the time, and can be closed while it waits.
func TestAcceptPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &failingListener{closed: make(chan struct{})}
		p := newProxy(l, Config{Log: slog.New(slog.DiscardHandler)})
		time.Sleep(time.Minute)
		if n := l.tries.Load(); n < 60 || n > 70 {
			t.Errorf("it tried %d times in a minute", n)
		}
		began := time.Now()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
}
