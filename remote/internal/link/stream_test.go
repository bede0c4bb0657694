package link

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/remote/internal/http2/http2test"
	"github.com/troupe-run/troupe/remote/internal/port"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// A test's stream is a TCP connection: a byte, the method's name, and then messages, each after
// its length in 8 bytes.
const testMark = 1

type testStream struct {
	conn net.Conn
	in   *bufio.Reader
	left int

	mu sync.Mutex
}

func newTestStream(c net.Conn) *testStream {
	return &testStream{conn: c, in: bufio.NewReaderSize(c, 32<<10)}
}

func (s *testStream) Next() (int, error) {
	if _, err := io.CopyN(io.Discard, s.in, int64(s.left)); err != nil {
		return 0, err
	}
	var b [8]byte
	if _, err := io.ReadFull(s.in, b[:]); err != nil {
		return 0, err
	}
	s.left = int(binary.LittleEndian.Uint64(b[:]))
	return s.left, nil
}

func (s *testStream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *testStream) Send(pieces ...[]byte) error {
	n := 0
	for _, p := range pieces {
		n += len(p)
	}
	all := net.Buffers{binary.LittleEndian.AppendUint64(nil, uint64(n))}
	all = append(all, pieces...)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := all.WriteTo(s.conn)
	return err
}

func (s *testStream) Close() error { return s.conn.Close() }

func openTest(ctx context.Context, address, method string) (Stream, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(append([]byte{testMark, byte(len(method))}, method...)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return newTestStream(c), nil
}

func callTest(ctx context.Context, address, method string, request, answer proto.Message) error {
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(port.Codec{}), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		return err
	}
	defer c.Close()
	return wire.FromGRPC(c.Invoke(ctx, method, request, answer))
}

// testServer serves links on one listener: streams, and single calls over gRPC.
type testServer struct {
	lis   net.Listener
	calls chan net.Conn
	gone  chan struct{}
	grpc  *grpc.Server
	work  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func serveTest(lis net.Listener, l *Links) *testServer {
	s := &testServer{lis: lis, calls: make(chan net.Conn), gone: make(chan struct{}), grpc: grpc.NewServer(grpc.ForceServerCodecV2(port.Codec{}))}
	l.Register(http2test.Server{Server: s.grpc})
	streams := map[string]func(context.Context, Stream) error{}
	l.Handle(func(method string, serve func(context.Context, Stream) error) { streams[method] = serve })
	s.work.Go(func() { _ = s.grpc.Serve(callsListener{s}) }) // ends with stop
	s.work.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			s.work.Go(func() { s.serve(c, streams) })
		}
	})
	return s
}

func (s *testServer) serve(c net.Conn, streams map[string]func(context.Context, Stream) error) {
	var b [2]byte
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		c.Close()
		return
	}
	if b[0] != testMark {
		select {
		case s.calls <- &replay{Conn: c, first: b[:1]}:
		case <-s.gone:
			c.Close()
		}
		return
	}
	defer c.Close()
	if _, err := io.ReadFull(c, b[1:]); err != nil {
		return
	}
	method := make([]byte, b[1])
	if _, err := io.ReadFull(c, method); err != nil {
		return
	}
	if serve := streams[string(method)]; serve != nil {
		serve(context.Background(), newTestStream(c))
	}
}

// stop closes the listener and all connections abruptly, as the system does for a killed process.
func (s *testServer) stop() {
	s.lis.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	close(s.gone)
	s.grpc.Stop()
	s.work.Wait()
}

// callsListener accepts the connections of single calls.
type callsListener struct{ s *testServer }

func (l callsListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.calls:
		return c, nil
	case <-l.s.gone:
		return nil, net.ErrClosed
	}
}
func (l callsListener) Close() error   { return nil }
func (l callsListener) Addr() net.Addr { return l.s.lis.Addr() }

// replay is a connection that returns bytes again that were read already.
type replay struct {
	net.Conn
	first []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if n := copy(p, r.first); n > 0 {
		r.first = r.first[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}

// Takes returns true.
func (*testStream) Takes(int) bool { return true }
