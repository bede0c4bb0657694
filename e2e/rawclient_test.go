//go:build unix

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"
)

// rawClient speaks HTTP/2 by hand, so that a test decides what it reads, and when, and what its windows
// let the server send. One goroutine writes.
type rawClient struct {
	conn   net.Conn
	framer *http2.Framer
	stream uint32 // of the next request

	mu      sync.Mutex
	headers bytes.Buffer
	encoder *hpack.Encoder
}

// rawDial connects to a server, with so many bytes as the window of each stream and about 2 GiB as
// that of the connection. receive, if it is not 0, is the size of the kernel's buffer for what comes.
func rawDial(t testing.TB, addr string, window uint32, receive int) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if receive > 0 {
		if err := conn.(*net.TCPConn).SetReadBuffer(receive); err != nil {
			t.Fatal(err)
		}
	}
	r := &rawClient{conn: conn, framer: http2.NewFramer(conn, conn), stream: 1}
	r.framer.SetMaxReadFrameSize(1 << 20)
	r.encoder = hpack.NewEncoder(&r.headers)
	_, err = conn.Write([]byte(http2.ClientPreface))
	if err = errors.Join(err, r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}),
		r.framer.WriteWindowUpdate(0, 1<<31-1-65535)); err != nil {
		t.Fatal(err)
	}
	return r
}

// begin opens a stream for a method of the master.
func (r *rawClient) begin(method string) (stream uint32, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stream, r.stream = r.stream, r.stream+2
	r.headers.Reset()
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/tensorflow.MasterService/" + method},
		{":authority", r.conn.RemoteAddr().String()}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		if err := r.encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return 0, err
		}
	}
	return stream, r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.headers.Bytes(), EndHeaders: true})
}

// prefix is what stands before a message of so many bytes.
func prefix(size uint32) []byte {
	return []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}
}

// call sends a whole request, of a size that every server's first window lets through.
func (r *rawClient) call(method string, q proto.Message) (stream uint32, err error) {
	b, err := proto.Marshal(q)
	if err != nil {
		return 0, err
	}
	if stream, err = r.begin(method); err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return stream, r.framer.WriteData(stream, true, append(prefix(uint32(len(b))), b...))
}

// answers reads the answers of n calls and hands each over as it is complete.
func (r *rawClient) answers(n int, limit time.Duration, take func(stream uint32, message []byte) error) error {
	if err := r.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	open := map[uint32][]byte{}
	for n > 0 {
		f, err := r.framer.ReadFrame()
		if err != nil {
			return fmt.Errorf("%d answers are missing: %w", n, err)
		}
		stream := f.Header().StreamID
		switch f := f.(type) {
		case *http2.DataFrame:
			open[stream] = append(open[stream], f.Data()...)
		case *http2.HeadersFrame:
			if !f.StreamEnded() {
				continue
			}
			b := open[stream]
			delete(open, stream)
			if len(b) < 5 {
				return fmt.Errorf("stream %d ends without a message", stream)
			}
			if err := take(stream, b[5:]); err != nil {
				return err
			}
			n--
		case *http2.PingFrame:
			if !f.IsAck() {
				r.mu.Lock()
				err = r.framer.WritePing(true, f.Data)
				r.mu.Unlock()
			}
		case *http2.SettingsFrame:
			if !f.IsAck() {
				r.mu.Lock()
				err = r.framer.WriteSettingsAck()
				r.mu.Unlock()
			}
		case *http2.RSTStreamFrame:
			return fmt.Errorf("stream %d was reset: %v", stream, f.ErrCode)
		case *http2.GoAwayFrame:
			return fmt.Errorf("the server ends the connection: %v %s", f.ErrCode, f.DebugData())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
