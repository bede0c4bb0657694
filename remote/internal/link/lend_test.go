package link

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// ownMemory is the memory of this process, which has both ends of most tests' links. It stands for the memory of another
// process, because a process may not read its own.
type ownMemory struct{}

func attachOwn([]byte, string) (memory, error) { return ownMemory{}, nil }

func (ownMemory) Read(dst []byte, ticket uint64) error {
	address := uintptr(ticket << 16 >> 16)
	copy(dst, unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), len(dst)))
	return nil
}

// pushOne pushes and waits until the sink has received it.
func pushOne(t *testing.T, p *Peer, sink *testSink, data []byte) {
	t.Helper()
	released := make(chan struct{})
	if err := p.Push(1, []byte("head"), data, func() { close(released) }); err != nil {
		t.Fatal(err)
	}
	for {
		var got arrival
		select {
		case got = <-sink.arrivals:
		case <-p.Done():
			t.Fatal(p.Err())
		case <-time.After(patience):
			t.Fatal("the tensor did not arrive")
		}
		if got.err == nil {
			if !bytes.Equal(got.data, data) || got.header != "head" {
				t.Fatal("another tensor arrived")
			}
			break
		}
	}
	wait(t, released, "the release")
}

// pushUntilLent pushes until the two ends have agreed on lending.
func pushUntilLent(t *testing.T, a *node, p *Peer, sink *testSink) {
	t.Helper()
	data := randomBytes(lendSize)
	for end := time.Now().Add(patience); a.Stats().BytesLent == 0; {
		if time.Now().After(end) {
			t.Skip("this system lends no memory")
		}
		pushOne(t, p, sink, data)
	}
}

// The counters of both ends show how bytes were transferred, and that none was copied.
func TestTensorsAreLentToProcessesOfTheMachine(t *testing.T) {
	sink := newTestSink()
	a, b, p := pair(t, sink)
	pushUntilLent(t, a, p, sink)
	before, there := a.Stats(), b.Stats()
	pushOne(t, p, sink, randomBytes(9<<20+5))
	pushOne(t, p, sink, randomBytes(lendSize-1)) // too small
	after, then := a.Stats(), b.Stats()
	if n := after.BytesLent - before.BytesLent; n != 9<<20+5 || then.BytesRead-there.BytesRead != n {
		t.Errorf("%d bytes were lent and %d read", n, then.BytesRead-there.BytesRead)
	}
	if n := after.BytesSent - before.BytesSent; n != lendSize-1 || then.BytesReceived-there.BytesReceived != n {
		t.Errorf("%d bytes were sent and %d received", n, then.BytesReceived-there.BytesReceived)
	}
	if after.BytesCopied != 0 || then.BytesCopied != 0 || after.BytesQueued != 0 {
		t.Errorf("%+v, %+v", after, then)
	}
}

func TestLendingIsAgreedOn(t *testing.T) {
	for name, off := range map[string]int{"the sender does not lend": 0, "the receiver does not read": 1} {
		t.Run(name, func(t *testing.T) {
			sink := newTestSink()
			s := testSpec(t, 2)
			no := func(c *Config) { c.Sink, c.NoLending = sink, c.Self.Index == off }
			a, b := startNode(t, s, 0, "", no), startNode(t, s, 1, "", no)
			p, err := a.Ensure(within(t, patience), task1)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				pushOne(t, p, sink, randomBytes(1<<20))
			}
			if here, there := a.Stats(), b.Stats(); here.BytesLent != 0 || there.BytesRead != 0 || here.BytesSent != 20<<20 ||
				there.BytesReceived != 20<<20 || here.BytesCopied != 0 || there.BytesCopied != 0 {
				t.Errorf("%+v, %+v", here, there)
			}
		})
	}
}

// brokenMemory reads from another memory until it breaks.
type brokenMemory struct {
	memory
	broken atomic.Bool
}

func (m *brokenMemory) Read(dst []byte, ticket uint64) error {
	if m.broken.Load() {
		clear(dst)
		return status.New(status.PermissionDenied, "not any more")
	}
	return m.memory.Read(dst, ticket)
}

// What cannot be read is sent, and so is all that follows.
func TestFailedReadFallsBackToTheStream(t *testing.T) {
	sink := newTestSink()
	a, b, p := pair(t, sink)
	m := &brokenMemory{memory: ownMemory{}}
	b.attach = func([]byte, string) (memory, error) { return m, nil }
	pushUntilLent(t, a, p, sink)
	m.broken.Store(true)
	before := a.Stats()
	var released sync.WaitGroup
	want := map[uint64][]byte{}
	for step := range uint64(8) {
		released.Add(1)
		want[step] = randomBytes(1<<20 + int(step))
		if err := p.Push(step, nil, want[step], released.Done); err != nil {
			t.Fatal(err)
		}
	}
	for len(want) > 0 {
		got := wait(t, sink.arrivals, "the arrival")
		if got.err != nil {
			wantError(t, got.err, status.PermissionDenied)
			continue
		}
		if !bytes.Equal(got.data, want[got.step]) {
			t.Errorf("step %d got another tensor, or one twice", got.step)
		}
		delete(want, got.step)
	}
	waitGroup(t, &released, "the release")
	m.broken.Store(false)
	pushOne(t, p, sink, randomBytes(1<<20))
	if s := a.Stats(); s.BytesLent != before.BytesLent || p.Err() != nil {
		t.Errorf("%d bytes more were lent; %v", s.BytesLent-before.BytesLent, p.Err())
	}
}

// stuckMemory blocks until end.
type stuckMemory struct {
	reading chan struct{}
	end     chan struct{}
}

func (m *stuckMemory) Read([]byte, uint64) error {
	m.reading <- struct{}{}
	<-m.end
	return status.New(status.Unavailable, "gone")
}

// A receiver that is lost while it reads does not keep what was lent to it.
func TestLossEndsLending(t *testing.T) {
	sink := newTestSink()
	_, b, p := pair(t, sink)
	m := &stuckMemory{reading: make(chan struct{}, 100), end: make(chan struct{})}
	b.attach = func([]byte, string) (memory, error) { return m, nil }
	var released sync.WaitGroup
	data := randomBytes(40 << 20)
	push := func() {
		released.Add(1)
		if err := p.Push(1, nil, data, released.Done); err != nil {
			t.Fatal(err)
		}
	}
	limit := time.After(patience)
	for stuck := false; !stuck; {
		push()
		select {
		case <-m.reading:
			stuck = true
		case got := <-sink.arrivals:
			if got.err != nil {
				t.Fatal(got.err)
			}
		case <-limit:
			t.Skip("this system lends no memory")
		}
	}
	push() // beyond maxLent
	push()
	b.killed.Do(func() {
		go func() { <-p.Done(); close(m.end) }()
		b.cancel()
		b.server.stop()
	})
	wait(t, p.Done(), "the loss")
	waitGroup(t, &released, "the release")
}
