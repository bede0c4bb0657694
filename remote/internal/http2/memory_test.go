package http2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/troupe-run/troupe/remote/internal/freed/freedtest"
)

// sizeOf returns a size between nothing and some MiB: most are small, many are near the sizes at which something changes.
func sizeOf(r *rand.Rand) int {
	edges := []int{gatherBelow, smallPiece, inputSize - prefixSize, inputSize, 2 * inputSize, copyBelow, firstPiece, 2 * firstPiece, frameSize, streamWindow}
	switch r.IntN(8) {
	case 0:
		return r.IntN(9)
	case 1, 2, 3:
		return r.IntN(2000)
	case 4, 5:
		return max(0, edges[r.IntN(len(edges)-2)]+r.IntN(41)-20)
	case 6:
		return r.IntN(200 << 10)
	}
	return r.IntN(edges[len(edges)-1] + 3<<20)
}

// sealedCodec decodes sealed messages, and checks them while it does and at the end.
type sealedCodec struct {
	failed func(error)
	slow   bool // some messages take so long that another goroutine goes on reading
}

func (sealedCodec) Name() string { return "proto" }

func (sealedCodec) Marshal(v any) (mem.BufferSlice, error) { return testCodec{}.Marshal(v) }

func (c sealedCodec) Unmarshal(b mem.BufferSlice, v any) error {
	return c.UnmarshalUntil(b, v, func() error { return nil })
}

func (c sealedCodec) UnmarshalUntil(b mem.BufferSlice, v any, ended func() error) error {
	first := b.Materialize()
	if err := freedtest.Intact(first); err != nil {
		c.failed(fmt.Errorf("when its decoding begins: %w", err))
	}
	if c.slow && rand.IntN(8) == 0 {
		for began := time.Now(); time.Since(began) < 2*decodeTime; runtime.Gosched() {
			if ended != nil && ended() != nil {
				return ended()
			}
		}
	}
	m := v.(*message)
	if m.data = b.Materialize(); !bytes.Equal(m.data, first) {
		c.failed(fmt.Errorf("a message of %d bytes has changed while it was decoded", len(first)))
	}
	return nil
}

// sealedServer answers sealed messages with others, in all ways in which a call can proceed.
func sealedServer(t *testing.T, memory int64) (address string) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failed := func(err error) { t.Errorf("at the server: %v", err) }
	pool := &counted{}
	reply := func() *message {
		r := rand.New(rand.NewPCG(rand.Uint64(), 0))
		plain := freedtest.Seal(sizeOf(r))
		var pieces mem.BufferSlice
		for from := 0; from < len(plain); {
			k := min(len(plain)-from, 2<<10+r.IntN(200<<10))
			b := pool.Get(max(k, 2<<10))
			*b = (*b)[:copy(*b, plain[from:from+k])]
			pieces = append(pieces, mem.NewBuffer(b, pool))
			from += k
		}
		return &message{data: plain, wire: pieces}
	}
	// use does with a decoded message what handlers do: it is read later, perhaps by another goroutine, when the connection has gone on.
	use := func(ctx context.Context, m *message) error {
		detached := rand.IntN(2) == 0
		if detached {
			Detach(ctx)
		}
		for range rand.IntN(100) {
			runtime.Gosched()
		}
		if detached && rand.IntN(10) == 0 {
			limit := time.NewTimer(time.Duration(rand.IntN(5)) * time.Millisecond)
			defer limit.Stop()
			select {
			case <-ctx.Done():
			case <-limit.C:
			}
		}
		if err := freedtest.Intact(m.data); err != nil {
			failed(fmt.Errorf("in its handler: %w", err))
		}
		if rand.IntN(20) == 0 {
			return status.Error(codes.Aborted, "it is so")
		}
		return nil
	}
	unary := func(ctx context.Context, read func(any) error) (any, error) {
		switch rand.IntN(20) {
		case 0:
			return nil, status.Error(codes.Aborted, "not read")
		case 1, 2, 3:
			Detach(ctx)
		}
		m := &message{}
		if err := read(m); err != nil {
			return nil, err
		}
		if err := use(ctx, m); err != nil {
			return nil, err
		}
		return reply(), nil
	}
	methods := map[string]*Method{
		"/t/unary":  {Unary: unary},
		"/t/inline": {Unary: unary, Inline: true},
		"/t/many": {ServerStream: func(ctx context.Context, read, send func(any) error) error {
			m := &message{}
			if err := read(m); err != nil {
				return err
			}
			for range rand.IntN(4) {
				if err := send(reply()); err != nil {
					return err
				}
			}
			return use(ctx, m)
		}},
		"/t/both": {Bidi: func(ctx context.Context, recv, send func(any) error) error {
			for {
				m := &message{}
				if err := recv(m); errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				if err := use(ctx, m); err != nil {
					return err
				}
				if err := send(reply()); err != nil {
					return err
				}
			}
		}},
	}
	s := NewServer(Config{Lookup: func(path string) *Method { return methods[path] }, Codec: sealedCodec{failed: failed, slow: true},
		MaxReceiving: memory, Logger: slog.New(slog.DiscardHandler)})
	var accepting sync.WaitGroup
	accepting.Go(func() { s.serve(lis) })
	t.Cleanup(func() {
		lis.Close()
		accepting.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx, patience); err != nil {
			t.Error(err)
		}
		if n := s.receiving.total.Load(); n != 0 {
			t.Errorf("%d bytes of requests are still counted", n)
		}
		pool.awaitBack(t)
	})
	return lis.Addr().String()
}

// impatience returns a context that may end early: by a deadline, which the server knows of, or by a cancellation.
func impatience(r *rand.Rand) (ctx context.Context, cancel func()) {
	ctx, end := context.WithTimeout(context.Background(), patience)
	soon := time.Duration(r.IntN(8000)) * time.Microsecond
	switch r.IntN(6) {
	case 0:
		ctx, cancel := context.WithTimeout(ctx, soon)
		return ctx, func() { cancel(); end() }
	case 1:
		timer := time.AfterFunc(soon, end)
		return ctx, func() { timer.Stop(); end() }
	}
	return ctx, end
}

// forgiven reports whether a call may fail like that.
func forgiven(ctx context.Context, err error) bool {
	switch status.Code(err) {
	case codes.OK, codes.Aborted, codes.ResourceExhausted, codes.DeadlineExceeded: // the server's clock may be the first to see the end of a call
		return true
	case codes.Canceled:
		return ctx.Err() != nil
	}
	return false
}

// TestMessagesStayIntact checks that nobody writes to the memory of a message that is still being read, in any of the ways in which calls go on
// and end beside each other. Memory that is given back is overwritten under the race detector: see package freed.
func TestMessagesStayIntact(t *testing.T) {
	for _, memory := range []int64{0, 12 << 20} { // the second evicts requests
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			address := sealedServer(t, memory)
			began := time.Now()
			end := began.Add(2 * time.Second)
			var clients sync.WaitGroup
			for range 3 {
				clients.Go(func() { callSealed(t, address, end) })
				clients.Go(func() { callSealedBy(t, address, end) })
				clients.Go(func() { frameSealed(t, address, end) })
			}
			clients.Wait()
			if took := time.Since(began); took > patience { // a call's longest deadline
				t.Errorf("calls have ended by their deadlines alone, after %v", took)
			}
		})
	}
}

// callSealed makes calls side by side on a Client's connection.
func callSealed(t *testing.T, address string, end time.Time) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := NewClient(ctx, nc, "http", "test")
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	var callers sync.WaitGroup
	defer callers.Wait()
	for range 6 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for time.Now().Before(end) {
				request := freedtest.Seal(sizeOf(r))
				cut := r.IntN(len(request) + 1)
				pieces := [][]byte{bytes.Clone(request[:cut]), bytes.Clone(request[cut:])}
				ctx, cancel := impatience(r)
				err := c.Call(ctx, []string{"/t/unary", "/t/inline"}[r.IntN(2)], pieces, func(a *Answer) error {
					b := make([]byte, a.Size())
					half := r.IntN(len(b) + 1)
					if err := a.ReadFull(b[:half]); err != nil {
						return err
					}
					for got := half; got < len(b); {
						piece, err := a.Piece()
						if err != nil {
							return err
						}
						got += copy(b[got:], piece)
					}
					return freedtest.Intact(b)
				})
				for _, p := range pieces { // they belong to the caller again
					freedtest.Fill(p, []byte{0xff})
				}
				if !forgiven(ctx, err) {
					t.Errorf("a client's call: %v", err)
				}
				cancel()
			}
		})
	}
}

// callSealedBy makes calls side by side with grpc-go's client, whose windows are small.
func callSealedBy(t *testing.T, address string, end time.Time) {
	codec := sealedCodec{failed: func(err error) { t.Errorf("at grpc-go's client: %v", err) }}
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(64<<10),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec), grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	var callers sync.WaitGroup
	defer callers.Wait()
	for range 6 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for time.Now().Before(end) {
				var options []grpc.CallOption
				if r.IntN(5) == 0 {
					options = append(options, grpc.UseCompressor(gzip.Name))
				}
				ctx, cancel := impatience(r)
				var err error
				switch path := []string{"/t/unary", "/t/inline", "/t/many", "/t/both"}[r.IntN(4)]; path {
				case "/t/unary", "/t/inline":
					err = c.Invoke(ctx, path, &message{data: freedtest.Seal(sizeOf(r))}, &message{}, options...)
				default:
					err = converse(ctx, r, c, path, options)
				}
				if !forgiven(ctx, err) {
					t.Errorf("grpc-go's call: %v", err)
				}
				cancel()
			}
		})
	}
}

// converse makes a call with several messages.
func converse(ctx context.Context, r *rand.Rand, c *grpc.ClientConn, path string, options []grpc.CallOption) error {
	st, err := c.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path, options...)
	if err != nil {
		return err
	}
	n := 1
	if path == "/t/both" {
		n = r.IntN(8)
	}
	sent := make(chan error, 1)
	messages := make([][]byte, n)
	for i := range messages {
		messages[i] = freedtest.Seal(sizeOf(r))
	}
	go func() {
		for _, m := range messages {
			if err := st.SendMsg(&message{data: m}); err != nil {
				sent <- err
				return
			}
		}
		sent <- st.CloseSend()
	}()
	for err == nil {
		err = st.RecvMsg(&message{})
	}
	<-sent
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// frameSealed makes calls side by side, in frames of all kinds: with padding, with several messages or a part of one, with resets in between.
func frameSealed(t *testing.T, address string, end time.Time) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for time.Now().Before(end) {
		nc, err := net.Dial("tcp", address)
		if err == nil {
			err = nc.SetDeadline(time.Now().Add(patience))
		}
		if err != nil {
			t.Error(err)
			return
		}
		w := newRaw(t, nc)
		var answers sync.WaitGroup
		var answered atomic.Int64
		f := &framer{raw: w, r: r}
		_, err = nc.Write([]byte(preface))
		if err == nil {
			err = w.fr.WriteSettings(initialWindow(uint32(r.IntN(3) * 32 << 10)))
		}
		answers.Go(func() { f.read(t, &answered) })
		for err == nil && time.Now().Before(end) && f.next < 400 {
			err = f.write()
		}
		if err == nil && r.IntN(2) == 0 { // else the connection ends in the middle
			limit := time.Now().Add(time.Second)
			for err == nil && answered.Load() < f.owed && time.Now().Before(limit) {
				runtime.Gosched()
				err = f.grant()
			}
		}
		nc.Close()
		answers.Wait()
	}
}

// framer is a connection of frameSealed.
type framer struct {
	*raw
	r    *rand.Rand
	next uint32
	owed int64 // calls that are sent completely
	open []*half

	mu   sync.Mutex
	came map[uint32]uint32 // bytes of answers to grant windows for, by stream: the reader must not wait for the writer
}

// grant opens the windows for what has been read.
func (f *framer) grant() error {
	f.mu.Lock()
	came := f.came
	f.came = nil
	f.mu.Unlock()
	for id, n := range came {
		if err := errors.Join(f.fr.WriteWindowUpdate(0, n), f.fr.WriteWindowUpdate(id, n)); err != nil {
			return err
		}
	}
	return nil
}

// half is the request side of a call.
type half struct {
	id   uint32
	rest []byte
}

// write writes one frame.
func (f *framer) write() error {
	if err := f.grant(); err != nil {
		return err
	}
	if len(f.open) < 8 && (len(f.open) == 0 || f.r.IntN(4) == 0) {
		path, n := "/t/unary", 1
		switch f.r.IntN(5) {
		case 0:
			path = "/t/inline"
		case 1:
			path = "/t/many"
		case 2:
			path, n = "/t/both", 1+f.r.IntN(6)
		}
		h := &half{id: 2*f.next + 1}
		f.next++
		for range n {
			h.rest = append(h.rest, framed(freedtest.Seal(min(sizeOf(f.r), 60<<10)))...) // within any window
		}
		if len(h.rest) > 120<<10 {
			return nil
		}
		f.open = append(f.open, h)
		return f.fr.WriteHeaders(x.HeadersFrameParam{StreamID: h.id, BlockFragment: f.fields(path), EndHeaders: true})
	}
	if len(f.open) == 0 {
		return nil
	}
	i := f.r.IntN(len(f.open))
	h := f.open[i]
	drop := func() { f.open = append(f.open[:i], f.open[i+1:]...) }
	switch f.r.IntN(24) {
	case 0:
		drop()
		return f.fr.WriteRSTStream(h.id, x.ErrCodeCancel)
	case 1:
		return f.fr.WritePing(false, [8]byte{1})
	}
	k := len(h.rest)
	if f.r.IntN(2) == 0 {
		k = f.r.IntN(k + 1)
	}
	k = min(k, 16<<10+1000)
	data := h.rest[:k]
	h.rest = h.rest[k:]
	last := len(h.rest) == 0
	if last {
		drop()
		f.owed++
	}
	if f.r.IntN(4) == 0 {
		return f.fr.WriteDataPadded(h.id, last, data, make([]byte, f.r.IntN(200)))
	}
	return f.fr.WriteData(h.id, last, data)
}

// read reads the answers, and opens the windows for them.
func (f *framer) read(t *testing.T, answered *atomic.Int64) {
	parts := map[uint32][]byte{}
	for {
		fr, err := f.fr.ReadFrame()
		if err != nil {
			return
		}
		switch fr := fr.(type) {
		case *x.HeadersFrame:
			if fr.StreamEnded() {
				answered.Add(1)
				delete(parts, fr.StreamID)
			}
		case *x.DataFrame:
			part := append(parts[fr.StreamID], fr.Data()...)
			for len(part) >= prefixSize && len(part) >= prefixSize+length(part) {
				if err := freedtest.Intact(part[prefixSize : prefixSize+length(part)]); err != nil {
					t.Errorf("an answer: %v", err)
				}
				part = part[prefixSize+length(part):]
			}
			parts[fr.StreamID] = part
			if n := fr.Length; n > 0 {
				f.mu.Lock()
				if f.came == nil {
					f.came = map[uint32]uint32{}
				}
				f.came[fr.StreamID] += n
				f.mu.Unlock()
			}
		case *x.GoAwayFrame:
			if fr.ErrCode == x.ErrCodeEnhanceYourCalm { // a quick machine sends more frames without useful data than a connection may
				return
			}
			t.Errorf("GOAWAY %v: %s", fr.ErrCode, fr.DebugData())
		}
	}
}

// TestInterruptOften checks that a reader that is interrupted again while it handles an interrupt goes on: the deadlines that interrupt it are not
// the connection's.
func TestInterruptOften(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	far, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	in := &input{interrupted: func() {}}
	in.init(hesitant{near}, nil)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer near.Close()
	read := make(chan error, 2)
	reading.Go(func() {
		for err := error(nil); err == nil; {
			if err = in.fill(1); err == nil {
				in.next(1)
			}
			read <- err
		}
	})
	for range 2000 {
		in.interrupt()
		in.interrupt()
		if _, err := far.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
	near.Close()
	<-read
}

// hesitant is a connection whose deadlines come a little later.
type hesitant struct{ net.Conn }

func (c hesitant) SetReadDeadline(at time.Time) error {
	for range 20 {
		runtime.Gosched()
	}
	return c.Conn.SetReadDeadline(at)
}

// closing is a connection that the other end closes when its reader is interrupted.
type closing struct{ net.Conn }

func (c closing) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		return c.Close()
	}
	return c.Conn.SetReadDeadline(at)
}

type closingListener struct{ net.Listener }

func (l closingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return closing{c}, err
}

// A message's memory is released if its call ends while it is received, and its connection at the same time.
func TestBidiMessageLostWithItsConnection(t *testing.T) {
	s := newTestServerOn(t, func(l net.Listener) net.Listener { return closingListener{l} })
	s.both = func(context.Context, func(any) error, func(any) error) error {
		<-s.release
		return nil
	}
	r := s.dialRaw(t)
	r.headers(1, "/t/both")
	frame := appendHeader(nil, prefixSize+1000, frameData, 0, 1)
	_, err := r.nc.Write(append(frame, framed(make([]byte, 1000))[:100]...))
	r.must(err)
	eventually(t, "the message is being received", func() bool {
		s.receiving.mu.Lock()
		defer s.receiving.mu.Unlock()
		for c := range s.receiving.conns {
			if c.filling != nil {
				return true
			}
		}
		return false
	})
	close(s.release)
	eventually(t, "the connection ends", func() bool { return s.closed.Load() == 1 })
	if n := s.receiving.total.Load(); n != 0 {
		t.Errorf("%d bytes of requests are still counted", n)
	}
}
