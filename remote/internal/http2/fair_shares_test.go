package http2

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
)

// claim makes a call whose request claims n bytes but sends only the given ones.
func (r *raw) claim(id uint32, n, come int) {
	r.t.Helper()
	r.headers(id, "/t/echo")
	r.must(r.fr.WriteData(id, false, append(appendPrefix(nil, n), make([]byte, come)...)))
}

// resourceExhausted fails the test unless the call was evicted with an error that says so.
func (r *raw) resourceExhausted(id uint32) {
	r.t.Helper()
	if res := r.answer(id); res.status != int(codes.ResourceExhausted) || res.message == "" {
		r.t.Errorf("%+v", res)
	}
}

// headersWithoutEnd returns a HEADERS frame that begins an incomplete header list.
func headersWithoutEnd(id uint32, block []byte) x.HeadersFrameParam {
	return x.HeadersFrameParam{StreamID: id, BlockFragment: block}
}

// age makes the requests of all connections older.
func (s *testServer) age(by time.Duration) {
	s.receiving.mu.Lock()
	defer s.receiving.mu.Unlock()
	for _, h := range s.receiving.conns {
		for r := range h.requests {
			r.began -= int64(by)
		}
	}
	s.receiving.swept -= int64(by)
}

// A slow request stays while there is memory, and is then evicted, even while one of its frames is being read.
func TestSlowRequestsYield(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut frame ", cut), func(t *testing.T) {
			s := newTestServer(t)
			s.receiving.limit = 690 << 10 // the fast request takes 640 KiB, the slow one 64 KiB
			if cut {
				s.receiving.limit += 30 << 10 // it takes 128 KiB, and keeps 64 KiB of them for a moment
			}
			slow := s.dialRaw(t)
			slow.claim(1, 10<<20, 50<<10)
			slow.ping()
			const rest = 30 << 10
			if cut {
				_, err := slow.nc.Write(appendHeader(nil, rest, frameData, 0, 1))
				slow.must(err)
				_, err = slow.nc.Write(make([]byte, rest/2))
				slow.must(err)
				eventually(t, "the frame is being read", func() bool { return s.receiving.total.Load() == 2*firstPiece })
			}
			s.age(10 * time.Second)
			fast := s.dialRaw(t, initialWindow(1<<24))
			fast.must(fast.fr.WriteWindowUpdate(0, 1<<24))
			fast.large(1, "/t/echo", 600<<10)
			if res := fast.answer(1); res.status != 0 {
				t.Errorf("%+v", res)
			}
			slow.resourceExhausted(1)
			if cut {
				_, err := slow.nc.Write(make([]byte, rest-rest/2))
				slow.must(err)
			}
			slow.call(3, "/t/echo", "x")
			slow.answer(3).echoed(t, "x")
		})
	}
}

// The client with the most memory gets no more of it from another one, however fast its requests arrive.
func TestQuickClientsTakeNothing(t *testing.T) {
	s := newTestServer(t)
	s.receiving.limit = 1 << 20
	slow := s.dialRaw(t, initialWindow(1<<24))
	slow.must(slow.fr.WriteWindowUpdate(0, 1<<24))
	slow.claim(1, 100<<10, 50<<10)
	slow.ping()
	s.age(requestGrace / 2)
	quick := s.dialRawFrom(t, "127.0.0.2", initialWindow(1<<24))
	quick.must(quick.fr.WriteWindowUpdate(0, 1<<24))
	quick.large(1, "/t/echo", 2<<20)
	quick.resourceExhausted(1)
	slow.must(slow.fr.WriteData(1, true, make([]byte, 50<<10)))
	if res := slow.answer(1); res.status != 0 {
		t.Errorf("%+v", res)
	}
}

// The connection with the most memory loses a request, not the one that needs memory.
func TestLargestYields(t *testing.T) {
	s := newTestServer(t)
	s.receiving.limit = 1 << 20
	large := s.dialRaw(t)
	for id := uint32(1); id < 20; id += 2 {
		large.claim(id, 10<<20, 100<<10)
	}
	large.ping() // the server has read them
	small := s.dialRaw(t, initialWindow(1<<24))
	small.must(small.fr.WriteWindowUpdate(0, 1<<24))
	small.large(1, "/t/echo", 300<<10)
	if res := small.answer(1); res.status != 0 {
		t.Errorf("%+v", res)
	}
	lost := 0
	s.receiving.mu.Lock()
	for _, h := range s.receiving.conns {
		lost += 10 - len(h.requests)
	}
	s.receiving.mu.Unlock()
	if lost == 0 || lost == 10 {
		t.Errorf("%d of 10 requests lost their place", lost)
	}
}

// A client that does not read loses its connection when others need the memory, and after a minute in any case.
func TestUnreadAnswersOfOthers(t *testing.T) {
	s := newTestServer(t)
	s.maxUnsentAll = 4 << 20
	idle := s.dialRaw(t, initialWindow(0))
	idle.call(1, "/t/big", fmt.Sprint(3<<20, 1<<20))
	idle.ping()
	reader := s.dialRaw(t, initialWindow(0))
	reader.call(1, "/t/big", fmt.Sprint(2<<20, 1<<20))
	reader.resourceExhausted(1) // it is not known yet which client reads
	s.checkConns()
	reader.call(3, "/t/big", fmt.Sprint(2<<20, 1<<20))
	reader.must(reader.fr.WriteSettings(initialWindow(1 << 24)))
	reader.must(reader.fr.WriteWindowUpdate(0, 1<<24))
	if res := reader.answer(3); res.status != 0 || len(res.data) != prefixSize+2<<20 {
		t.Errorf("status %d %q, %d bytes", res.status, res.message, len(res.data))
	}
	idle.goneAway()
	s.pool.awaitBack(t)
}

func TestUnreadForLong(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t, initialWindow(10))
	r.call(1, "/t/big", fmt.Sprint(3<<20, 1<<20))
	r.ping()
	c := s.all()[0]
	now := time.Now()
	q := c.check(quiet{}, now)
	q = c.check(q, now.Add(stall-time.Second))
	r.must(r.fr.WriteWindowUpdate(1, 1)) // a client that reads a little stays
	r.ping()
	q = c.check(q, now.Add(stall+time.Second))
	q = c.check(q, now.Add(2*stall))
	r.ping()
	c.check(q, now.Add(2*stall+2*time.Second))
	r.goneAway()
	s.pool.awaitBack(t)
}

func TestSlowHeaders(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	r.call(1, "/t/echo", "x")
	r.answer(1).echoed(t, "x")
	block := r.fields("/t/echo")
	r.must(r.fr.WriteHeaders(headersWithoutEnd(3, block[:4])))
	c := s.all()[0]
	eventually(t, "the headers begin", func() bool { return c.blocked.Load() != 0 })
	c.blocked.Add(-int64(headerTimeout))
	c.check(quiet{}, time.Now())
	r.goneAway()
}

// A connection beyond the limit closes idle ones, first those that were never used.
func TestIdleConnectionsYield(t *testing.T) {
	s := newTestServer(t)
	s.limitConnections(10)
	used := s.dialRaw(t)
	used.call(1, "/t/echo", "x")
	used.answer(1).echoed(t, "x")
	for range 30 {
		nc, err := net.Dial("tcp", s.addr())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
	}
	eventually(t, "others are closed", func() bool { return s.closed.Load() >= 21 })
	used.call(3, "/t/echo", "y")
	used.answer(3).echoed(t, "y")
	if n := s.CloseIdle(); n != 1 {
		t.Errorf("%d connections are closed where files are missing", n)
	}
}

// Connections that always have work take turns. None has two at once, all get equally many, and one that waits for something
// does not delay others for long.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newTurns()
		shared.places = 1
		owners := []*client{{}, {}}
		running := 0
		work := func(w *worker, times int) (took time.Duration) {
			w.debt = int64(heavyWork)
			began := time.Now()
			for range times {
				w.begin()
				if running++; running > 1 {
					t.Error("two have a turn")
				}
				time.Sleep(turn)
				running--
				w.end()
			}
			return time.Since(began)
		}
		newWorker := func(n int) *worker { return &worker{turns: shared, owner: owners[n], now: clock()} }
		// Three connections of a client together have as many turns as the only one of another client.
		for range 3 {
			w := newWorker(0)
			go work(w, 1000)
		}
		if took := work(newWorker(1), 1000); took > 2050*turn {
			t.Errorf("1000 turns of a client took %v", took)
		}
		synctest.Wait()
		time.Sleep(4000 * turn)
		stuck, other := newWorker(0), newWorker(1)
		stuck.debt, other.debt = int64(heavyWork), int64(heavyWork)
		stuck.begin()
		began := time.Now()
		other.begin()
		if took := time.Since(began); took > 2*turnLease+time.Millisecond {
			t.Errorf("a turn came after %v", took)
		}
		other.end()
		stuck.end()
		// If all connections of a client hold their turns until they are revoked, each gets one.
		var all sync.WaitGroup
		began = time.Now()
		for range 100 {
			w := newWorker(0)
			w.debt = int64(heavyWork)
			all.Go(w.begin)
		}
		all.Wait()
		if took := time.Since(began); took > 101*2*turnLease {
			t.Errorf("100 turns came after %v", took)
		}
	})
}
