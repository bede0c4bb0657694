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

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// rawClient is a minimal HTTP/2 client with which a test controls what it reads, and when, and how much its windows allow the server to
// send. One goroutine reads.
type rawClient struct {
	conn   net.Conn
	framer *http2.Framer
	stream uint32 // of the next request
	early  bytes.Buffer
	open   map[uint32][]byte // the received parts of incomplete answers

	mu      sync.Mutex // guards writes
	headers bytes.Buffer
	encoder *hpack.Encoder
}

// rawDial connects to a server, with the given window for each stream and one of about 2 GiB for the connection. receive, if it is not 0,
// is the size of the kernel's receive buffer.
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
	r := &rawClient{conn: conn, stream: 1, open: map[uint32][]byte{}}
	r.framer = http2.NewFramer(conn, r)
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

// prefix returns the gRPC prefix of a message of the given size.
func prefix(size uint32) []byte {
	return []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}
}

// call sends a whole request, which must fit into any server's initial window.
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

// Read reads from the server, for the framer: first what the test has already read itself.
func (r *rawClient) Read(p []byte) (int, error) {
	if r.early.Len() > 0 {
		return r.early.Read(p)
	}
	return r.conn.Read(p)
}

// next reads a frame. If the frame ends a call, next returns the call's stream and message.
func (r *rawClient) next() (stream uint32, message []byte, ended bool, err error) {
	f, err := r.framer.ReadFrame()
	if err != nil {
		return 0, nil, false, err
	}
	stream = f.Header().StreamID
	r.mu.Lock()
	defer r.mu.Unlock()
	switch f := f.(type) {
	case *http2.DataFrame:
		r.open[stream] = append(r.open[stream], f.Data()...)
	case *http2.HeadersFrame:
		if !f.StreamEnded() {
			break
		}
		b := r.open[stream]
		delete(r.open, stream)
		if len(b) < 5 {
			return 0, nil, false, fmt.Errorf("stream %d ends without a message", stream)
		}
		return stream, b[5:], true, nil
	case *http2.PingFrame:
		if !f.IsAck() {
			err = r.framer.WritePing(true, f.Data)
		}
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = r.framer.WriteSettingsAck()
		}
	case *http2.RSTStreamFrame:
		err = fmt.Errorf("stream %d was reset: %v", stream, f.ErrCode)
	case *http2.GoAwayFrame:
		err = fmt.Errorf("the server ends the connection: %v %s", f.ErrCode, f.DebugData())
	}
	return 0, nil, false, err
}

// answers reads the answers of n calls and passes each to take when it is complete.
func (r *rawClient) answers(n int, limit time.Duration, take func(message []byte) error) error {
	if err := r.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	for n > 0 {
		_, message, ended, err := r.next()
		if err != nil {
			return fmt.Errorf("%d answers are missing: %w", n, err)
		}
		if !ended {
			continue
		}
		n--
		if err := take(message); err != nil {
			return err
		}
	}
	return nil
}

// claimedFeed returns the beginning of a framed RunStepRequest, which announces a feed of the given number of bytes of floats for x, for a
// step that fetches y.
func claimedFeed(session string, bytes uint32) ([]byte, error) {
	head, err := proto.Marshal(&corepb.RunStepRequest{SessionHandle: session, Fetch: []string{"y:0"}})
	if err != nil {
		return nil, err
	}
	shape, err := proto.Marshal(&tensorpb.TensorProto{Dtype: float, TensorShape: floats([]int64{int64(bytes / 4)}).TensorShape})
	if err != nil {
		return nil, err
	}
	value := protowire.AppendVarint(protowire.AppendTag(shape, 4, protowire.BytesType), uint64(bytes))
	named := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "x:0")
	named = protowire.AppendVarint(protowire.AppendTag(named, 2, protowire.BytesType), uint64(len(value))+uint64(bytes))
	named = append(named, value...)
	head = protowire.AppendVarint(protowire.AppendTag(head, 2, protowire.BytesType), uint64(len(named))+uint64(bytes))
	head = append(head, named...)
	return append(prefix(uint32(len(head))+bytes), head...), nil
}
