package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/graph/transfer"
	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// arrival is one push as the sink saw it.
type arrival struct {
	from   string
	boot   uint64
	step   uint64
	header string
	data   []byte
	err    error
}

// testSink keeps what arrives. refuse, if set, decides for which steps Begin returns an error.
type testSink struct {
	arrivals chan arrival
	begun    chan uint64 // steps
	refuse   func(step uint64) error
}

func newTestSink() *testSink {
	return &testSink{arrivals: make(chan arrival, 4096), begun: make(chan uint64, 4096)}
}

func (s *testSink) Begin(from string, boot, step uint64, header []byte, size int) ([]byte, func(error), error) {
	s.begun <- step
	if s.refuse != nil {
		if err := s.refuse(step); err != nil {
			return nil, nil, err
		}
	}
	dst := make([]byte, size)
	a := arrival{from: from, boot: boot, step: step, header: string(header), data: dst}
	return dst, func(err error) {
		a.err = err
		s.arrivals <- a
	}, nil
}

// Take releases the tensor: handing over is covered by other tests.
func (s *testSink) Take(_ uint64, _ transfer.Key, t *tensor.Tensor) { t.Release() }

func pair(t testing.TB, sink Sink) (a, b *node, p *Peer) {
	t.Helper()
	s := testSpec(t, 2)
	a, b = startNode(t, s, 0, ""), startNode(t, s, 1, "", func(c *Config) { c.Sink = sink })
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	return a, b, p
}

func randomBytes(n int) []byte {
	b := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rand.Uint64())
	}
	return b[:n]
}

func TestPushArrivesInOrderAndLetsGo(t *testing.T) {
	sink := newTestSink()
	a, _, p := pair(t, sink)
	var released sync.WaitGroup
	var sent [][]byte
	for i, n := range []int{0, 1, 1024, 1025, pieceSize - 1, pieceSize, pieceSize + 1, pieceSize + 100, 9<<20 + 7, 3} {
		data := randomBytes(n)
		sent = append(sent, data)
		released.Add(1)
		var once atomic.Bool
		if err := p.Push(uint64(i), []byte(fmt.Sprint("header ", i)), data, func() {
			if once.Swap(true) {
				t.Error("released twice")
			}
			released.Done()
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i, data := range sent {
		got := wait(t, sink.arrivals, "the arrival")
		if got.from != task0 || got.boot != a.self.Boot || got.step != uint64(i) || got.header != fmt.Sprint("header ", i) || got.err != nil || !bytes.Equal(got.data, data) {
			t.Errorf("push %d of %d bytes: step %d, header %q, %d bytes, error %v", i, len(data), got.step, got.header, len(got.data), got.err)
		}
	}
	waitGroup(t, &released, "the release")
	if p.Err() != nil {
		t.Error(p.Err())
	}
}

func waitGroup(t *testing.T, g *sync.WaitGroup, what string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	wait(t, done, what)
}

func TestManyPushesFromManyGoroutines(t *testing.T) {
	sink := newTestSink()
	_, _, p := pair(t, sink)
	data := randomBytes(300 << 10)
	var released sync.WaitGroup
	for g := range 8 {
		released.Add(40)
		go func() {
			for i := range 40 {
				if err := p.Push(uint64(g), []byte{byte(i)}, data, released.Done); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	next := map[uint64]byte{}
	for range 8 * 40 {
		got := wait(t, sink.arrivals, "the arrival")
		if got.err != nil || !bytes.Equal(got.data, data) || got.header[0] != next[got.step] {
			t.Fatalf("step %d: header %d, want %d, error %v", got.step, got.header[0], next[got.step], got.err)
		}
		next[got.step]++
	}
	waitGroup(t, &released, "the release")
}

// A tensor that the sink rejects does not affect others.
func TestRefusedPushIsSkipped(t *testing.T) {
	sink := newTestSink()
	sink.refuse = func(step uint64) error {
		if step%2 == 0 {
			return status.New(status.ResourceExhausted, "no memory")
		}
		return nil
	}
	_, _, p := pair(t, sink)
	var released sync.WaitGroup
	for step := range uint64(4) {
		released.Add(1)
		if err := p.Push(step, nil, randomBytes(3<<20), released.Done); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []uint64{1, 3} {
		if got := wait(t, sink.arrivals, "the arrival"); got.step != want || got.err != nil {
			t.Errorf("step %d, error %v", got.step, got.err)
		}
	}
	waitGroup(t, &released, "the release")
}

func TestLossDuringPushesReleasesAll(t *testing.T) {
	for _, how := range []string{"killed", "frozen"} {
		t.Run(how, func(t *testing.T) {
			s := testSpec(t, 2)
			bind := spectest.Address(t)
			sink, goOn := newTestSink(), make(chan struct{})
			sink.refuse = func(uint64) error {
				<-goOn // holds the receiver back, so that the first push is unfinished
				return nil
			}
			patient := func(c *Config) { c.Timing.Silence = 3 * time.Second }            // longer than a push waits on a loaded machine
			a := startNode(t, s, 0, "", patient, func(c *Config) { c.NoLending = true }) // lent tensors are not sent
			b := startNode(t, s, 1, bind, patient, func(c *Config) { c.Sink = sink })
			x := startProxy(t, b.self.Address, bind)
			p, err := a.Ensure(within(t, patience), task1)
			if err != nil {
				t.Fatal(err)
			}
			var released sync.WaitGroup
			data := randomBytes(24 << 20)
			for step := range uint64(8) {
				released.Add(1)
				if err := p.Push(step, nil, data, released.Done); err != nil {
					t.Fatal(err)
				}
			}
			wait(t, sink.begun, "the first push")
			lost := make(chan struct{})
			go func() {
				defer close(lost)
				if how == "killed" {
					b.kill()
				} else {
					x.freeze()
				}
			}()
			wait(t, p.Done(), "the loss")
			waitGroup(t, &released, "the release")
			// The receiver learns as well, and does not keep the memory of the unfinished tensor.
			close(goOn)
			wantError(t, wait(t, sink.arrivals, "the end of the unfinished push").err, status.Unavailable)
			wait(t, lost, "the end of "+how)
		})
	}
}

func TestDroppedStepIsGivenUp(t *testing.T) {
	s := testSpec(t, 2)
	begun, goOn := make(chan struct{}), make(chan struct{})
	sink := newTestSink()
	sink.refuse = func(step uint64) error {
		if step == 1 {
			close(begun)
			<-goOn // holds the receiver back, so that the sender cannot finish
		}
		return nil
	}
	a := startNode(t, s, 0, "", func(c *Config) {
		c.Timing, c.NoLending = Timing{}, true // lent tensors are not sent, and arrive whole
	})
	startNode(t, s, 1, "", func(c *Config) { c.Sink, c.Timing = sink, Timing{} })
	p, err := a.Ensure(within(t, patience), task1)
	if err != nil {
		t.Fatal(err)
	}
	var dropped, kept sync.WaitGroup
	dropped.Add(3)
	kept.Add(1)
	data := randomBytes(40 << 20)
	for _, push := range []struct {
		step    uint64
		release func()
	}{{1, dropped.Done}, {1, dropped.Done}, {2, kept.Done}, {1, dropped.Done}} {
		if err := p.Push(push.step, nil, data, push.release); err != nil {
			t.Fatal(err)
		}
	}
	wait(t, begun, "the first push")
	p.Drop(1)
	close(goOn)
	waitGroup(t, &dropped, "the release of the dropped step")
	got := wait(t, sink.arrivals, "the end of the first push")
	if got.step != 1 || status.CodeOf(got.err) != status.Aborted {
		t.Errorf("step %d: %v", got.step, got.err)
	}
	if got = wait(t, sink.arrivals, "the push of the other step"); got.step != 2 || got.err != nil || !bytes.Equal(got.data, data) {
		t.Errorf("step %d: %v", got.step, got.err)
	}
	waitGroup(t, &kept, "the release")
	if p.Err() != nil {
		t.Error(p.Err())
	}
}
