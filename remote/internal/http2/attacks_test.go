package http2

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// attack describes what one client does to a server while another one makes calls.
type attack struct {
	name string
	// limits, if set, changes the server's limits.
	limits func(s *testServer)
	// does performs the attack. It may leave connections open.
	does func(t *testing.T, s *testServer)
	// memory is how many more bytes the process may hold while the attack's connections are open.
	memory int64
}

// repeated sends a frame over and over, and fails the test unless the server ends the connection for it.
func repeated(write func(fr *x.Framer) error) func(t *testing.T, s *testServer) {
	return func(t *testing.T, s *testServer) {
		r := s.dialRaw(t)
		r.headers(1, "/t/wait")
		r.must(r.fr.WriteData(1, true, framed(nil)))
		<-s.entered
		r.headers(3, "/t/echo")
		r.flood(overheadBurst+overheadPerCall*3+5*overheadRate, write)
	}
}

// flood sends a frame over and over, and fails the test unless the server answers with ENHANCE_YOUR_CALM.
func (r *raw) flood(times int, write func(fr *x.Framer) error) {
	r.t.Helper()
	var b bytes.Buffer
	fr := x.NewFramer(&b, nil)
	fr.AllowIllegalWrites = true
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := range times {
			if write(fr) != nil {
				return
			}
			if b.Len() > 16<<10 || n == times-1 {
				if _, err := b.WriteTo(r.nc); err != nil {
					return
				}
			}
		}
	}()
	code, said := r.goneAway()
	r.nc.Close()
	<-sent
	if said && code != x.ErrCodeEnhanceYourCalm {
		r.t.Errorf("the connection ended with %v", code)
	}
}

// halfRequests makes calls whose requests claim 2 GiB but send fewer bytes. They come from another host than the client
// whose calls may not fail. The connections of one host share that host's memory equally, and with many attackers an
// equal share could be smaller than that client's requests.
func halfRequests(t *testing.T, s *testServer, conns, calls, bytes int) (open []*raw) {
	for range conns {
		r := s.dialRawFrom(t, "127.0.0.2")
		open = append(open, r)
		for i := range calls {
			id := uint32(2*i + 1)
			r.headers(id, "/t/echo")
			r.must(r.fr.WriteData(id, false, append([]byte{0, 0x7f, 0xff, 0xff, 0xff}, make([]byte, bytes)...)))
		}
	}
	return open
}

// TestAttacks attacks a server while another client makes calls with small and large requests. None of its calls
// may fail or take long. After the attack's connections are closed, none of their memory may be held.
func TestAttacks(t *testing.T) {
	for _, a := range []attack{
		{name: "calls that claim 2 GiB and send 16 KiB", memory: 20 << 20, limits: func(s *testServer) { s.receiving.limit = 16 << 20 },
			does: func(t *testing.T, s *testServer) { halfRequests(t, s, 4, 512, 16<<10) }},
		{name: "calls that claim 2 GiB and send 17 KiB at once", memory: 20 << 20, limits: func(s *testServer) { s.receiving.limit = 16 << 20 },
			does: func(t *testing.T, s *testServer) { halfRequests(t, s, 4, 512, 17<<10) }},
		{name: "calls that claim 2 GiB, each on a connection of its own", memory: 48 << 20, limits: func(s *testServer) { s.receiving.limit = 16 << 20 },
			does: func(t *testing.T, s *testServer) { halfRequests(t, s, 300, 1, 100<<10) }},
		{name: "window updates", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteWindowUpdate(0, 1) })},
		{name: "window updates of a call", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteWindowUpdate(1, 1) })},
		{name: "window updates of a call that is over", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteWindowUpdate(3, 1) })},
		{name: "priorities", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WritePriority(1, x.PriorityParam{StreamDep: 3}) })},
		{name: "frames of unknown types", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteRawFrame(77, 0, 1, nil) })},
		{name: "acknowledged pings", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WritePing(true, [8]byte{}) })},
		{name: "pings", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WritePing(false, [8]byte{}) })},
		{name: "acknowledged settings", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteSettingsAck() })},
		{name: "settings", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteSettings(initialWindow(77)) })},
		{name: "resets of a call that is over", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteRSTStream(3, x.ErrCodeCancel) })},
		{name: "farewells", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteGoAway(0, x.ErrCodeNo, nil) })},
		{name: "empty data", memory: 4 << 20, does: repeated(func(fr *x.Framer) error { return fr.WriteData(3, false, nil) })},
		{name: "data of a byte", memory: 4 << 20, does: func(t *testing.T, s *testServer) {
			r := s.dialRaw(t)
			r.headers(1, "/t/echo")
			r.must(r.fr.WriteData(1, false, []byte{0, 0, 0xff, 0xff, 0xff}))
			r.flood(overheadBurst+5*overheadRate, func(fr *x.Framer) error { return fr.WriteData(1, false, []byte{1}) })
		}},
		{name: "padding", memory: 4 << 20, does: func(t *testing.T, s *testServer) {
			r := s.dialRaw(t)
			r.headers(1, "/t/echo")
			r.flood(overheadBurst+5*overheadRate, func(fr *x.Framer) error { return fr.WriteDataPadded(1, false, nil, make([]byte, 200)) })
		}},
		{name: "data of a call that is over", memory: 4 << 20, does: func(t *testing.T, s *testServer) {
			r := s.dialRaw(t)
			r.headers(1, "/t/none")
			r.flood(overheadBurst+overheadPerCall+5*overheadRate, func(fr *x.Framer) error { return fr.WriteData(1, false, make([]byte, 300)) })
		}},
		{name: "headers in parts of a byte", memory: 4 << 20, does: func(t *testing.T, s *testServer) {
			r := s.dialRaw(t)
			r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1}))
			r.flood(overheadBurst+5*overheadRate, func(fr *x.Framer) error { return fr.WriteContinuation(1, false, []byte{0}) })
		}},
		{name: "malformed headers", memory: 4 << 20, does: func(t *testing.T, s *testServer) {
			r := s.dialRaw(t)
			id := uint32(1)
			block := r.block(hpack.HeaderField{Name: "X", Sensitive: true})
			r.flood(overheadBurst+5*overheadRate, func(fr *x.Framer) error {
				id += 2
				return fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: block})
			})
		}},
		{name: "calls that are opened and closed", memory: 8 << 20, does: func(t *testing.T, s *testServer) {
			r := s.dialRaw(t)
			var b bytes.Buffer
			fr := x.NewFramer(&b, nil)
			for id := uint32(1); id < 20000; id += 2 {
				r.must(fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: r.fields("/t/echo")}))
				r.must(fr.WriteRSTStream(id, x.ErrCodeCancel))
			}
			_, err := b.WriteTo(r.nc)
			r.must(err)
			r.ping()
		}},
		{name: "connections that say nothing", memory: 80 << 20, limits: func(s *testServer) { s.limitConnections(2000) },
			does: func(t *testing.T, s *testServer) {
				for range 1000 {
					nc, err := net.Dial("tcp", s.addr())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { nc.Close() })
				}
			}},
		{name: "more connections than there may be", memory: 8 << 20, limits: func(s *testServer) { s.limitConnections(64) },
			does: func(t *testing.T, s *testServer) {
				for range 500 {
					nc, err := net.Dial("tcp", s.addr())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { nc.Close() })
				}
			}},
		{name: "answers that nobody reads", memory: 40 << 20, limits: func(s *testServer) { s.maxUnsentAll, s.maxUnsent = 16<<20, 8<<20 },
			does: func(t *testing.T, s *testServer) {
				for range 8 {
					r := s.dialRaw(t, initialWindow(0))
					for id := uint32(1); id < 64; id += 2 {
						r.call(id, "/t/big", fmt.Sprint(1<<20, 1<<20))
					}
					r.ping()
				}
				s.checkConns()
			}},
	} {
		t.Run(a.name, func(t *testing.T) {
			s := newTestServer(t)
			if a.limits != nil {
				a.limits(s)
			}
			other := s.dial(t)
			call := func() {
				t.Helper()
				for _, n := range []int{1, 100 << 10, 1 << 20} {
					sent := time.Now()
					if _, err := invoke(withDeadline(t), other, "/t/echo", make([]byte, n)); err != nil {
						t.Fatalf("another client's call: %v", err)
					}
					if d := time.Since(sent); d > 5*time.Second {
						t.Errorf("another client's call took %v", d)
					}
				}
			}
			call()
			within(t, a.memory, func() {
				a.does(t, s)
				call()
			})
			close(s.release)
			s.forgetAttackers()
			eventually(t, "nothing is left of the attack", func() bool {
				return s.receiving.total.Load() == 0 && s.unsent.Load() == 0 && s.pool.taken.Load() == s.pool.back.Load()
			})
			call()
		})
	}
}

func (s *testServer) limitConnections(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxConnections = n
}

// forgetAttackers ends all connections except that of the client that called first.
func (s *testServer) forgetAttackers() {
	for _, c := range s.all() {
		if c.number != 1 {
			c.shut(net.ErrClosed)
		}
	}
}

// checkConns looks for clients that do not read, as watch does periodically.
func (s *testServer) checkConns() {
	seen := map[*serverConn]quiet{}
	for n := range 2 {
		for _, c := range s.all() {
			seen[c] = c.check(seen[c], time.Now().Add(time.Duration(n)*time.Second))
		}
	}
}

// A header list of any size up to maxHeaderBlock ends only its own call, and later lists are decoded correctly.
func TestLargeHeaderLists(t *testing.T) {
	for _, size := range []int{17 << 10, 60 << 10, 200 << 10, 1<<20 - 200} {
		for _, parts := range []int{1, 3} {
			t.Run(fmt.Sprint(size, parts), func(t *testing.T) {
				s := newTestServer(t)
				s.receiving.limit = 2 << 20
				r := s.dialRaw(t)
				r.call(1, "/t/wait", "")
				<-s.entered
				block := r.fields("/t/inline", field("before", "x"), hpack.HeaderField{Name: "x", Value: strings.Repeat("\\", size), Sensitive: true}, field("after", "x"))
				first := block[:len(block)/parts]
				r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 3, BlockFragment: first, EndHeaders: parts == 1}))
				for block = block[len(first):]; len(block) > 0; {
					n := min(len(block), len(first))
					r.must(r.fr.WriteContinuation(3, n == len(block), block[:n]))
					block = block[n:]
				}
				if size < maxHeaderList-1000 {
					r.must(r.fr.WriteData(3, true, framed([]byte("y"))))
					r.answer(3).echoed(t, "y")
				} else if res := r.answer(3); res.status != int(codes.ResourceExhausted) {
					t.Errorf("%+v", res)
				}
				r.headers(5, "/t/inline", field("before", "x"), field("after", "x"))
				r.must(r.fr.WriteData(5, true, framed([]byte("z"))))
				r.answer(5).echoed(t, "z")
				close(s.release)
				r.answer(1).echoed(t, "")
			})
		}
	}
}

// If there is no memory for both, a large header list evicts one of the connection's own requests, but not its other calls.
func TestHeaderListWithoutMemory(t *testing.T) {
	s := newTestServer(t)
	s.receiving.limit = 256 << 10
	r := s.dialRaw(t)
	r.headers(1, "/t/echo")
	r.must(r.fr.WriteData(1, false, append([]byte{0, 0, 0x7f, 0xff, 0xff}, make([]byte, 200<<10)...)))
	r.ping()
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 3, EndHeaders: true,
		BlockFragment: r.fields("/t/inline", hpack.HeaderField{Name: "x", Value: strings.Repeat("\\", 60<<10), Sensitive: true})}))
	if res := r.answer(1); res.status != int(codes.ResourceExhausted) {
		t.Errorf("%+v", res)
	}
	r.must(r.fr.WriteData(3, true, framed([]byte("y"))))
	r.answer(3).echoed(t, "y")
}
