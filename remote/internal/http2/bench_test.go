package http2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	x "golang.org/x/net/http2"
)

// countingConn counts the reads and writes of a connection, each of which is a system call.
type countingConn struct {
	net.Conn
	reads, writes int
}

func (c *countingConn) Read(p []byte) (int, error) {
	c.reads++
	return c.Conn.Read(p)
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

// BenchmarkUnary measures an echo of 100 bytes over loopback, with a minimal client.
func BenchmarkUnary(b *testing.B) {
	s := newTestServer(b)
	near, far := tcpPair(b)
	counted := &countingConn{Conn: far}
	s.Serve(counted, nil, 1, nil)
	r := newRaw(b, near)
	_, err := near.Write([]byte(preface))
	r.must(err)
	r.must(r.fr.WriteSettings(initialWindow(maxWindow)))
	r.must(r.fr.WriteWindowUpdate(0, 1<<30))
	data := bytes.Repeat([]byte("x"), 100)
	r.call(1, "/t/inline", string(data))
	r.answer(1).echoed(b, string(data))
	var out bytes.Buffer
	fr := x.NewFramer(&out, nil)
	block := r.fields("/t/inline")
	// The answer's size is constant once both ends' compression tables are filled.
	r.call(3, "/t/inline", string(data))
	first := make([]byte, 4096)
	var size int
	for size == 0 {
		n, err := near.Read(first)
		r.must(err)
		size = n
	}
	in := make([]byte, size)
	id := uint32(5)
	counted.reads, counted.writes = 0, 0
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		_ = fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
		_ = fr.WriteData(id, true, framed(data))
		id += 2
		if _, err := near.Write(out.Bytes()); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(near, in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(counted.reads)/float64(b.N), "reads/op")
	b.ReportMetric(float64(counted.writes)/float64(b.N), "writes/op")
}

// BenchmarkUnaryGRPC is the same with grpc-go's client.
func BenchmarkUnaryGRPC(b *testing.B) {
	s := newTestServer(b)
	c := s.dial(b)
	data := bytes.Repeat([]byte("x"), 100)
	ctx := withDeadline(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := invoke(ctx, c, "/t/inline", data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLarge measures a request and an answer of 32 MiB.
func BenchmarkLarge(b *testing.B) {
	s := newTestServer(b)
	s.streams = echoStream
	st := s.open(b, "/t/stream")
	data := sizedMessage(32 << 20)
	waste := make([]byte, 1<<20)
	b.SetBytes(2 * int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		sent := make(chan error, 1)
		go func() { sent <- st.Send(data) }()
		_, err := st.Next()
		for err == nil {
			_, err = st.Read(waste)
		}
		if !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
	}
}
