package link

import (
	"net"
	"sync"
	"testing"
)

// stuck is a stream whose other end does not read.
type stuck struct {
	Stream
	sending chan struct{} // a send waits
	closed  chan struct{}
}

func (s *stuck) Takes(int) bool { return false }

func (s *stuck) Send(...[]byte) error {
	s.sending <- struct{}{}
	<-s.closed
	return net.ErrClosed
}

// Sending on a full stream does not block, because the sender may be the reader of another stream.
func TestSendersDoNotWaitForTheKernel(t *testing.T) {
	s := &stuck{sending: make(chan struct{}, 1), closed: make(chan struct{})}
	var spawned sync.WaitGroup
	o := newOutbound(s, &counters{}, func(f func()) bool { spawned.Go(f); return true })
	for range 10 {
		m, err := encodeControl(kindBeat, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !o.post(m) {
			t.Fatal("the message was refused")
		}
	}
	<-s.sending // on a goroutine of its own
	close(s.closed)
	spawned.Wait()
	if m, err := encodeControl(kindBeat, 0, nil); err != nil || o.post(m) {
		t.Errorf("a stream that has failed takes messages (%v)", err)
	}
}
