package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	x "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// outcome is the server's reaction to what a client sent.
type outcome struct {
	of   string // "connection", "stream" or "nothing", which is that the connection goes on
	id   uint32 // of the stream
	code x.ErrCode
}

func (o outcome) String() string {
	switch o.of {
	case "stream":
		return fmt.Sprintf("RST_STREAM of %d with %v", o.id, o.code)
	case "connection":
		return fmt.Sprintf("GOAWAY with %v", o.code)
	}
	return "nothing"
}

func ofConnection(code x.ErrCode) outcome        { return outcome{of: "connection", code: code} }
func ofStream(id uint32, code x.ErrCode) outcome { return outcome{of: "stream", id: id, code: code} }

var nothing = outcome{of: "nothing"}

// probe is the stream of a call by which a test checks that the connection continues.
const probe = 100001

// hear reads until the outcome of what the client sent is known: an error, or the answer to a call that it made last.
func (r *raw) hear() (outcome, error) {
	for {
		f, err := r.fr.ReadFrame()
		if err != nil {
			return outcome{}, err
		}
		switch f := f.(type) {
		case *x.GoAwayFrame:
			if f.LastStreamID > probe {
				return outcome{}, fmt.Errorf("GOAWAY names stream %d", f.LastStreamID)
			}
			_, err := io.Copy(io.Discard, r.nc)
			return ofConnection(f.ErrCode), err
		case *x.RSTStreamFrame:
			if f.ErrCode != x.ErrCodeNo {
				return ofStream(f.StreamID, f.ErrCode), nil
			}
		case *x.HeadersFrame:
			if _, err := r.dec.DecodeFull(f.HeaderBlockFragment()); err != nil {
				return outcome{}, err
			}
			if f.StreamID == probe && f.StreamEnded() {
				return nothing, nil
			}
		}
	}
}

// begin sends headers of a request unchanged.
func (r *raw) begin(id uint32, ends bool, fields ...hpack.HeaderField) {
	_ = r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: r.block(fields...), EndHeaders: true, EndStream: ends})
}

// request returns a request's headers, with others before and after.
func request(more ...hpack.HeaderField) []hpack.HeaderField {
	return append([]hpack.HeaderField{field(":method", "POST"), field(":scheme", "http"), field(":path", "/t/echo"), field("content-type", "application/grpc")}, more...)
}

// frame sends a frame unchanged.
func (r *raw) frame(kind x.FrameType, flags x.Flags, id uint32, payload ...byte) {
	_ = r.fr.WriteRawFrame(kind, flags, id, payload)
}

// Each row is a rule of RFC 9113: what a client sends, and what must come back. Errors of writing do not matter, since the
// server may have closed the connection.
func TestRFC9113(t *testing.T) {
	const (
		protocol, flow, size = x.ErrCodeProtocol, x.ErrCodeFlowControl, x.ErrCodeFrameSize
		closed               = x.ErrCodeStreamClosed
	)
	s := newTestServer(t)
	for _, row := range []struct {
		section, name string
		send          func(r *raw)
		want          outcome
	}{
		{"4.1", "an unknown type", func(r *raw) { r.frame(0xfb, 0xff, 7, 1, 2, 3) }, nothing},
		{"4.1", "unknown flags", func(r *raw) { r.frame(x.FramePing, 0xfe, 0, make([]byte, 8)...) }, nothing},
		{"4.1", "the reserved bit", func(r *raw) { r.frame(x.FrameWindowUpdate, 0, 1<<31, 0x80, 0, 0, 1) }, nothing},
		{"4.2", "DATA of the largest size", func(r *raw) {
			r.headers(1, "/t/unread")
			_ = r.fr.WriteData(1, true, framed(make([]byte, frameSize-prefixSize)))
		}, nothing},
		{"4.2", "DATA beyond it", func(r *raw) { r.headers(1, "/t/echo"); _ = r.fr.WriteData(1, true, make([]byte, frameSize+1)) }, ofConnection(size)},
		{"4.2", "an unknown type beyond it", func(r *raw) { r.frame(0xfb, 0, 0, make([]byte, frameSize+1)...) }, ofConnection(size)},
		{"4.2", "HEADERS of 20 kB", func(r *raw) {
			r.headers(1, "/t/echo", field("token", strings.Repeat("\\", 20000)))
			_ = r.fr.WriteData(1, true, framed(nil))
		}, nothing},
		{"4.3", "headers that cannot be decompressed", func(r *raw) { r.frame(x.FrameHeaders, flagEndHeaders, 1, 0xff, 0xff, 0xff) }, ofConnection(x.ErrCodeCompression)},
		{"4.3", "headers that are cut", func(r *raw) { r.frame(x.FrameHeaders, flagEndHeaders, 1, 0x40, 0x0a, 'x') }, ofConnection(x.ErrCodeCompression)},
		{"4.3", "a table too large", func(r *raw) { r.frame(x.FrameHeaders, flagEndHeaders, 1, 0x3f, 0xff, 0xff, 0x7f) }, ofConnection(x.ErrCodeCompression)},
		{"4.3", "the same on a stream that takes none", func(r *raw) {
			r.call(1, "/t/wait", "")
			r.frame(x.FrameHeaders, flagEndHeaders|flagEndStream, 1, 0xff, 0xff, 0xff)
		}, ofConnection(x.ErrCodeCompression)},

		{"5.1", "DATA, idle", func(r *raw) { _ = r.fr.WriteData(1, false, []byte("x")) }, ofConnection(protocol)},
		{"5.1", "DATA, idle, of a server's stream", func(r *raw) { r.headers(5, "/t/wait"); _ = r.fr.WriteData(2, false, []byte("x")) }, ofConnection(protocol)},
		{"5.1", "RST_STREAM, idle", func(r *raw) { _ = r.fr.WriteRSTStream(1, x.ErrCodeCancel) }, ofConnection(protocol)},
		{"5.1", "WINDOW_UPDATE, idle", func(r *raw) { _ = r.fr.WriteWindowUpdate(1, 1) }, ofConnection(protocol)},
		{"5.1", "CONTINUATION, idle", func(r *raw) { _ = r.fr.WriteContinuation(1, true, r.fields("/t/echo")) }, ofConnection(protocol)},
		{"5.1", "PRIORITY, idle", func(r *raw) { _ = r.fr.WritePriority(7, x.PriorityParam{Weight: 3}) }, nothing},
		{"5.1", "DATA, half-closed", func(r *raw) { r.call(1, "/t/wait", ""); _ = r.fr.WriteData(1, false, []byte("x")) }, ofStream(1, closed)},
		{"5.1", "HEADERS, half-closed", func(r *raw) { r.call(1, "/t/wait", ""); r.begin(1, true, field("x", "y")) }, ofStream(1, closed)},
		{"5.1", "WINDOW_UPDATE, half-closed", func(r *raw) { r.call(1, "/t/wait", ""); _ = r.fr.WriteWindowUpdate(1, 1) }, nothing},
		{"5.1", "DATA, closed", func(r *raw) { r.call(1, "/t/echo", ""); r.answer(1); _ = r.fr.WriteData(1, true, []byte("x")) }, ofStream(1, closed)},
		{"5.1", "HEADERS, closed", func(r *raw) { r.call(1, "/t/echo", ""); r.answer(1); r.begin(1, true, field("x", "y")) }, ofConnection(closed)},
		{"5.1", "CONTINUATION, closed", func(r *raw) { r.call(1, "/t/echo", ""); r.answer(1); _ = r.fr.WriteContinuation(1, true, nil) }, ofConnection(protocol)},
		{"5.1", "WINDOW_UPDATE, RST_STREAM and PRIORITY, closed", func(r *raw) {
			r.call(1, "/t/echo", "")
			r.answer(1)
			_ = r.fr.WriteWindowUpdate(1, 1)
			_ = r.fr.WriteRSTStream(1, x.ErrCodeCancel)
			_ = r.fr.WritePriority(1, x.PriorityParam{})
		}, nothing},
		{"5.1", "DATA, after RST_STREAM", func(r *raw) {
			r.headers(1, "/t/echo")
			_ = r.fr.WriteRSTStream(1, x.ErrCodeCancel)
			_ = r.fr.WriteData(1, true, []byte("x"))
		}, ofStream(1, closed)},
		{"5.1", "HEADERS, after RST_STREAM", func(r *raw) {
			r.headers(1, "/t/echo")
			_ = r.fr.WriteRSTStream(1, x.ErrCodeCancel)
			r.begin(1, true, field("x", "y"))
		}, ofConnection(closed)},
		{"5.1", "DATA and HEADERS, after the server's RST_STREAM", func(r *raw) {
			r.headers(1, "/t/none")
			_ = r.fr.WriteData(1, false, []byte("x"))
			r.begin(1, true, field("x", "y"))
		}, nothing},
		{"5.1.1", "an even stream", func(r *raw) { r.headers(2, "/t/echo") }, ofConnection(protocol)},
		{"5.1.1", "a stream below another", func(r *raw) { r.headers(5, "/t/echo"); r.headers(3, "/t/echo") }, ofConnection(protocol)},
		{"5.1.1", "DATA of a stream that was passed over", func(r *raw) { r.headers(5, "/t/echo"); _ = r.fr.WriteData(3, true, nil) }, ofStream(3, closed)},
		{"5.3.1", "HEADERS that depend on themselves", func(r *raw) {
			_ = r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields("/t/echo"), EndHeaders: true, Priority: x.PriorityParam{StreamDep: 1}})
		}, ofStream(1, protocol)},
		{"5.3.1", "PRIORITY that depends on itself", func(r *raw) { r.headers(1, "/t/echo"); _ = r.fr.WritePriority(1, x.PriorityParam{StreamDep: 1}) }, ofStream(1, protocol)},
		{"5.3.1", "the same, idle", func(r *raw) { _ = r.fr.WritePriority(1, x.PriorityParam{StreamDep: 1}) }, ofConnection(protocol)},

		{"6.1", "DATA on stream 0", func(r *raw) { _ = r.fr.WriteData(0, true, nil) }, ofConnection(protocol)},
		{"6.1", "all padding", func(r *raw) { r.headers(1, "/t/echo"); r.frame(x.FrameData, flagPadded, 1, 2, 1) }, ofConnection(protocol)},
		{"6.1", "padding of nothing", func(r *raw) { r.headers(1, "/t/echo"); r.frame(x.FrameData, flagPadded, 1) }, ofConnection(size)},
		{"6.2", "HEADERS on stream 0", func(r *raw) { r.headers(0, "/t/echo") }, ofConnection(protocol)},
		{"6.2", "all padding", func(r *raw) { r.frame(x.FrameHeaders, flagPadded|flagEndHeaders, 1, 9, 0x82) }, ofConnection(protocol)},
		{"6.2", "a priority that is cut", func(r *raw) { r.frame(x.FrameHeaders, flagPriority|flagEndHeaders, 1, 0, 0, 0, 0) }, ofConnection(size)},
		{"6.3", "PRIORITY on stream 0", func(r *raw) { r.frame(x.FramePriority, 0, 0, make([]byte, 5)...) }, ofConnection(protocol)},
		{"6.3", "PRIORITY of 4 bytes", func(r *raw) { r.headers(1, "/t/echo"); r.frame(x.FramePriority, 0, 1, make([]byte, 4)...) }, ofStream(1, size)},
		{"6.4", "RST_STREAM on stream 0", func(r *raw) { _ = r.fr.WriteRSTStream(0, 0) }, ofConnection(protocol)},
		{"6.4", "RST_STREAM of 3 bytes", func(r *raw) { r.headers(1, "/t/echo"); r.frame(x.FrameRSTStream, 0, 1, 1, 2, 3) }, ofConnection(size)},
		{"6.4", "RST_STREAM of 5 bytes", func(r *raw) { r.headers(1, "/t/echo"); r.frame(x.FrameRSTStream, 0, 1, 1, 2, 3, 4, 5) }, ofConnection(size)},
		{"6.5", "SETTINGS on a stream", func(r *raw) { r.frame(x.FrameSettings, 0, 1) }, ofConnection(protocol)},
		{"6.5", "SETTINGS of 7 bytes", func(r *raw) { r.frame(x.FrameSettings, 0, 0, make([]byte, 7)...) }, ofConnection(size)},
		{"6.5", "an acknowledgement with contents", func(r *raw) { r.frame(x.FrameSettings, flagAck, 0, make([]byte, 6)...) }, ofConnection(size)},
		{"6.5", "3,000 settings", func(r *raw) { r.frame(x.FrameSettings, 0, 0, make([]byte, 18000)...) }, ofConnection(x.ErrCodeEnhanceYourCalm)},
		{"6.5.2", "ENABLE_PUSH of 2", func(r *raw) { _ = r.fr.WriteSettings(x.Setting{ID: x.SettingEnablePush, Val: 2}) }, ofConnection(protocol)},
		{"6.5.2", "ENABLE_PUSH of 1", func(r *raw) { _ = r.fr.WriteSettings(x.Setting{ID: x.SettingEnablePush, Val: 1}) }, nothing},
		{"6.5.2", "an initial window of 2³¹", func(r *raw) { _ = r.fr.WriteSettings(initialWindow(1 << 31)) }, ofConnection(flow)},
		{"6.5.2", "frames of 16,383 bytes", func(r *raw) { _ = r.fr.WriteSettings(x.Setting{ID: x.SettingMaxFrameSize, Val: defaultFrame - 1}) }, ofConnection(protocol)},
		{"6.5.2", "frames of 2²⁴ bytes", func(r *raw) { _ = r.fr.WriteSettings(x.Setting{ID: x.SettingMaxFrameSize, Val: 1 << 24}) }, ofConnection(protocol)},
		{"6.5.2", "an unknown setting", func(r *raw) { _ = r.fr.WriteSettings(x.Setting{ID: 0xfafa, Val: 1}) }, nothing},
		{"6.6", "PUSH_PROMISE", func(r *raw) { r.frame(x.FramePushPromise, flagEndHeaders, 1, make([]byte, 9)...) }, ofConnection(protocol)},
		{"6.7", "PING on a stream", func(r *raw) { r.frame(x.FramePing, 0, 1, make([]byte, 8)...) }, ofConnection(protocol)},
		{"6.7", "PING of 3 bytes", func(r *raw) { r.frame(x.FramePing, 0, 0, 1, 2, 3) }, ofConnection(size)},
		{"6.7", "PING of 9 bytes", func(r *raw) { r.frame(x.FramePing, 0, 0, make([]byte, 9)...) }, ofConnection(size)},
		{"6.7", "an acknowledgement", func(r *raw) { _ = r.fr.WritePing(true, [8]byte{}) }, nothing},
		{"6.8", "GOAWAY on a stream", func(r *raw) { r.frame(x.FrameGoAway, 0, 1, make([]byte, 8)...) }, ofConnection(protocol)},
		{"6.8", "GOAWAY of 7 bytes", func(r *raw) { r.frame(x.FrameGoAway, 0, 0, make([]byte, 7)...) }, ofConnection(size)},
		{"6.8", "GOAWAY", func(r *raw) { _ = r.fr.WriteGoAway(0, x.ErrCodeNo, []byte("bye")) }, nothing},
		{"6.9", "WINDOW_UPDATE of 3 bytes", func(r *raw) { r.frame(x.FrameWindowUpdate, 0, 0, 1, 2, 3) }, ofConnection(size)},
		{"6.9", "WINDOW_UPDATE of nothing", func(r *raw) { _ = r.fr.WriteWindowUpdate(0, 0) }, ofConnection(protocol)},
		{"6.9", "WINDOW_UPDATE of nothing on a stream", func(r *raw) { r.headers(1, "/t/echo"); _ = r.fr.WriteWindowUpdate(1, 0) }, ofStream(1, protocol)},
		{"6.9.1", "a window of 2³¹", func(r *raw) { _ = r.fr.WriteWindowUpdate(0, maxWindow) }, ofConnection(flow)},
		{"6.9.1", "a window of 2³¹ on a stream", func(r *raw) { r.headers(1, "/t/echo"); _ = r.fr.WriteWindowUpdate(1, maxWindow) }, ofStream(1, flow)},
		{"6.9.2", "an initial window that makes a stream's one 2³¹", func(r *raw) {
			r.headers(1, "/t/echo")
			_ = r.fr.WriteWindowUpdate(1, maxWindow-defaultWindow)
			_ = r.fr.WriteSettings(initialWindow(defaultWindow + 1))
		}, ofConnection(flow)},
		{"6.10", "CONTINUATION behind the last", func(r *raw) { r.headers(1, "/t/echo"); _ = r.fr.WriteContinuation(1, true, nil) }, ofConnection(protocol)},
		{"6.10", "CONTINUATION on stream 0", func(r *raw) { r.frame(x.FrameHeaders, 0, 1); _ = r.fr.WriteContinuation(0, true, nil) }, ofConnection(protocol)},
		{"6.10", "CONTINUATION of another stream", func(r *raw) { r.frame(x.FrameHeaders, 0, 1); _ = r.fr.WriteContinuation(3, true, nil) }, ofConnection(protocol)},
		{"6.10", "another frame between", func(r *raw) { r.frame(x.FrameHeaders, 0, 1); _ = r.fr.WritePing(false, [8]byte{}) }, ofConnection(protocol)},
		{"6.10", "an unknown frame between", func(r *raw) { r.frame(x.FrameHeaders, 0, 1); r.frame(0xfb, 0, 1) }, ofConnection(protocol)},
		{"7", "unknown error codes", func(r *raw) {
			r.call(1, "/t/echo", "")
			_ = r.fr.WriteRSTStream(1, 0xff)
			_ = r.fr.WriteGoAway(0, 0xff, nil)
		}, nothing},

		{"8.1", "headers in the middle", func(r *raw) { r.headers(1, "/t/echo"); r.begin(1, false, field("x", "y")) }, ofStream(1, protocol)},
		{"8.1", "trailers", func(r *raw) {
			r.headers(1, "/t/wait")
			_ = r.fr.WriteData(1, false, framed(nil))
			r.begin(1, true, field("x", "y"))
		}, nothing},
		{"8.1.1", "more than content-length", func(r *raw) {
			r.begin(1, false, request(field("content-length", "5"))...)
			_ = r.fr.WriteData(1, true, framed([]byte("x")))
		}, ofStream(1, protocol)},
		{"8.1.1", "less than content-length", func(r *raw) {
			r.begin(1, false, request(field("content-length", "7"))...)
			_ = r.fr.WriteData(1, true, framed([]byte("x")))
		}, ofStream(1, protocol)},
		{"8.1.1", "less than content-length, with trailers", func(r *raw) {
			r.begin(1, false, request(field("content-length", "7"))...)
			_ = r.fr.WriteData(1, false, framed(nil)[:4])
			r.begin(1, true, field("x", "y"))
		}, ofStream(1, protocol)},
		{"8.1.1", "nothing with a content-length", func(r *raw) { r.begin(1, true, request(field("content-length", "7"))...) }, ofStream(1, protocol)},
		{"8.1.1", "two content-lengths", func(r *raw) {
			r.begin(1, false, request(field("content-length", "5"), field("content-length", "6"))...)
		}, ofStream(1, protocol)},
		{"8.1.1", "no number as content-length", func(r *raw) { r.begin(1, false, request(field("content-length", "-1"))...) }, ofStream(1, protocol)},
		{"8.1.1", "the right content-length", func(r *raw) {
			r.begin(1, false, request(field("content-length", "6"))...)
			_ = r.fr.WriteData(1, true, framed([]byte("x")))
		}, nothing},
		{"8.2.1", "an upper-case name", func(r *raw) { r.begin(1, false, request(field("X-Test", "y"))...) }, ofStream(1, protocol)},
		{"8.2.1", "an empty name", func(r *raw) { r.begin(1, false, request(field("", "y"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a name with a space", func(r *raw) { r.begin(1, false, request(field("x y", "y"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a name with a colon", func(r *raw) { r.begin(1, false, request(field("x:y", "y"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a name beyond ASCII", func(r *raw) { r.begin(1, false, request(field("ä", "y"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a value with a line feed", func(r *raw) { r.begin(1, false, request(field("x", "a\nb"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a value with a carriage return", func(r *raw) { r.begin(1, false, request(field("x", "a\r"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a value with NUL", func(r *raw) { r.begin(1, false, request(field("x", "\x00"))...) }, ofStream(1, protocol)},
		{"8.2.1", "a value with anything else", func(r *raw) { r.begin(1, false, request(field("x", " ä\t\x01 "))...) }, nothing},
		{"8.2.1", "a path with a line feed", func(r *raw) {
			r.begin(1, false, field(":method", "POST"), field(":scheme", "http"), field(":path", "/\n"))
		}, ofStream(1, protocol)},
		{"8.2.1", "an upper-case name among trailers", func(r *raw) { r.headers(1, "/t/echo"); r.begin(1, true, field("X", "y")) }, ofStream(1, protocol)},
		{"8.2.2", "connection", func(r *raw) { r.begin(1, false, request(field("connection", "keep-alive"))...) }, ofStream(1, protocol)},
		{"8.2.2", "proxy-connection", func(r *raw) { r.begin(1, false, request(field("proxy-connection", "keep-alive"))...) }, ofStream(1, protocol)},
		{"8.2.2", "keep-alive", func(r *raw) { r.begin(1, false, request(field("keep-alive", "1"))...) }, ofStream(1, protocol)},
		{"8.2.2", "transfer-encoding", func(r *raw) { r.begin(1, false, request(field("transfer-encoding", "chunked"))...) }, ofStream(1, protocol)},
		{"8.2.2", "upgrade", func(r *raw) { r.begin(1, false, request(field("upgrade", "h2c"))...) }, ofStream(1, protocol)},
		{"8.2.2", "te", func(r *raw) { r.begin(1, false, request(field("te", "trailers, deflate"))...) }, ofStream(1, protocol)},
		{"8.2.2", "te: trailers", func(r *raw) { r.begin(1, false, request(field("te", "trailers"))...) }, nothing},
		{"8.3", "an unknown pseudo-header", func(r *raw) { r.begin(1, false, append([]hpack.HeaderField{field(":test", "x")}, request()...)...) }, ofStream(1, protocol)},
		{"8.3", "a response's pseudo-header", func(r *raw) { r.begin(1, false, append([]hpack.HeaderField{field(":status", "200")}, request()...)...) }, ofStream(1, protocol)},
		{"8.3", "a pseudo-header behind others", func(r *raw) { r.begin(1, false, request(field(":authority", "x"))...) }, ofStream(1, protocol)},
		{"8.3", "a pseudo-header among trailers", func(r *raw) { r.headers(1, "/t/echo"); r.begin(1, true, field(":path", "x")) }, ofStream(1, protocol)},
		{"8.3", "method twice", func(r *raw) {
			r.begin(1, false, append([]hpack.HeaderField{field(":method", "POST")}, request()...)...)
		}, ofStream(1, protocol)},
		{"8.3", "scheme twice", func(r *raw) {
			r.begin(1, false, append([]hpack.HeaderField{field(":scheme", "http")}, request()...)...)
		}, ofStream(1, protocol)},
		{"8.3", "path twice", func(r *raw) { r.begin(1, false, append([]hpack.HeaderField{field(":path", "/")}, request()...)...) }, ofStream(1, protocol)},
		{"8.3", "authority twice", func(r *raw) {
			r.begin(1, false, append([]hpack.HeaderField{field(":authority", "x"), field(":authority", "x")}, request()...)...)
		}, ofStream(1, protocol)},
		{"8.3.1", "no method", func(r *raw) { r.begin(1, false, request()[1:]...) }, ofStream(1, protocol)},
		{"8.3.1", "no scheme", func(r *raw) { r.begin(1, false, append(request()[:1], request()[2:]...)...) }, ofStream(1, protocol)},
		{"8.3.1", "no path", func(r *raw) { r.begin(1, false, append(request()[:2], request()[3:]...)...) }, ofStream(1, protocol)},
		{"8.3.1", "an empty path", func(r *raw) {
			r.begin(1, false, field(":method", "POST"), field(":scheme", "http"), field(":path", ""))
		}, ofStream(1, protocol)},
		{"8.5", "CONNECT", func(r *raw) { r.begin(1, false, field(":method", "CONNECT"), field(":authority", "x")) }, nothing},
		{"8.5", "CONNECT to nobody", func(r *raw) { r.begin(1, false, field(":method", "CONNECT")) }, ofStream(1, protocol)},
	} {
		t.Run(row.section+" "+row.name, func(t *testing.T) {
			r := s.dialRaw(t)
			row.send(r)
			if row.want.of != "connection" { // it may have ended already
				r.call(probe, "/t/echo", "x")
			}
			got, err := r.hear()
			if err != nil || got != row.want {
				t.Fatalf("%v %v, want %v", got, err, row.want)
			}
			if got.of == "stream" {
				if got, err = r.hear(); err != nil || got != nothing {
					t.Errorf("then %v %v", got, err)
				}
			}
			r.nc.Close()
		})
	}
	eventually(t, "all calls end", func() bool { return len(s.all()) == 0 && s.receiving.total.Load() == 0 })
}

// The client's preface (RFC 9113, 3.4).
func TestPreface(t *testing.T) {
	s := newTestServer(t)
	var settings, ping, ack bytes.Buffer
	_ = x.NewFramer(&settings, nil).WriteSettings()
	_ = x.NewFramer(&ping, nil).WritePing(false, [8]byte{})
	_ = x.NewFramer(&ack, nil).WriteSettingsAck()
	for _, c := range []struct {
		name, says string
		want       x.ErrCode
		told       bool
	}{
		{"another preface", "PRI * HTTP/3.0\r\n\r\nSM\r\n\r\n" + settings.String(), 0, false},
		{"a preface that ends otherwise", preface[:20] + "XXXX" + settings.String(), 0, false},
		{"PING before SETTINGS", preface + ping.String() + settings.String(), x.ErrCodeProtocol, true},
		{"an acknowledgement before SETTINGS", preface + ack.String() + settings.String(), x.ErrCodeProtocol, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc, err := net.Dial("tcp", s.addr())
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			r := newRaw(t, nc)
			_, err = io.WriteString(nc, c.says)
			r.must(err)
			if code, told := r.goneAway(); told != c.told || code != c.want {
				t.Errorf("ended with %v, %v", code, told)
			}
		})
	}
	// Byte by byte, and with a late first frame.
	nc, err := net.Dial("tcp", s.addr())
	if err != nil {
		t.Fatal(err)
	}
	r := newRaw(t, nc)
	for i := range len(preface) {
		_, err := nc.Write([]byte{preface[i]})
		r.must(err)
	}
	if f, err := r.fr.ReadFrame(); err != nil || f.Header().Type != x.FrameSettings {
		t.Fatalf("%v, %v", f, err)
	}
	r.must(r.fr.WriteSettings())
	r.call(1, "/t/echo", "x")
	r.answer(1).echoed(t, "x")
}

// Requests that are not gRPC's are answered with a line of text after they have ended.
func TestRequestsThatAreNotGRPC(t *testing.T) {
	s := newTestServer(t)
	s.config.About = "What lives here."
	r := s.dialRaw(t)
	id := uint32(1)
	for _, c := range []struct {
		method, contentType, status, text string
	}{
		{"GET", "", "405", "What lives here.\n"},
		{"HEAD", "", "405", ""},
		{"OPTIONS", "application/grpc", "405", "What lives here.\n"},
		{"POST", "", "415", "What lives here.\n"},
		{"POST", "application/json", "415", "What lives here.\n"},
		{"POST", "application/grpc-web+proto", "415", "What lives here.\n"},
	} {
		for _, body := range []string{"", "a body that nobody reads"} {
			fields := []hpack.HeaderField{field(":method", c.method), field(":scheme", "http"), field(":path", "/")}
			if c.contentType != "" {
				fields = append(fields, field("content-type", c.contentType))
			}
			r.begin(id, body == "", fields...)
			if body != "" {
				r.must(r.fr.WriteData(id, false, []byte(body)))
				r.must(r.fr.WriteData(id, true, nil))
			}
			status, text := r.page(id)
			if status != c.status || text != c.text {
				t.Errorf("%s %s: %s %q", c.method, c.contentType, status, text)
			}
			id += 2
		}
	}
	for _, contentType := range []string{"application/grpc", "application/grpc+proto", "application/grpc;x=y"} {
		r.begin(id, false, field(":method", "POST"), field(":scheme", "http"), field(":path", "/t/echo"), field("content-type", contentType))
		r.must(r.fr.WriteData(id, true, framed([]byte("x"))))
		r.answer(id).echoed(t, "x")
		id += 2
	}
	s.check(t, func(c *serverConn) error {
		if len(c.streams) > 0 || c.unsent != 0 {
			return fmt.Errorf("%d streams, %d bytes", len(c.streams), c.unsent)
		}
		return nil
	})
}

// page reads an answer that is not gRPC's.
func (r *raw) page(id uint32) (status, text string) {
	r.t.Helper()
	for {
		f, err := r.fr.ReadFrame()
		r.must(err)
		ended := false
		switch f := f.(type) {
		case *x.HeadersFrame:
			fields, err := r.dec.DecodeFull(f.HeaderBlockFragment())
			r.must(err)
			for _, h := range fields {
				if h.Name == ":status" {
					status = h.Value
				}
			}
			ended = f.StreamEnded()
		case *x.DataFrame:
			text += string(f.Data())
			ended = f.StreamEnded()
		case *x.RSTStreamFrame:
			r.t.Fatalf("RST_STREAM %v", f.ErrCode)
		}
		if ended && f.Header().StreamID == id {
			return status, text
		}
	}
}

// An HTTP/1 client receives the same line.
func TestHTTP1(t *testing.T) {
	s := newTestServer(t)
	s.config.About = "What lives here."
	for _, c := range []struct{ says, want string }{
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "What lives here.\n"},
		{"GET / HTTP/1.0\r\n\r\n", "What lives here.\n"},
		{"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		{"POST /tensorflow.MasterService/RunStep HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "What lives here.\n"},
		{"PUT /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\n\r\n", "What lives here.\n"},
		{"GET /\r\n", "none"},
		{"GET / SIP/2.0\r\n", "none"},
		{"PUT /" + strings.Repeat("x", 10000), "none"},
		{"get / HTTP/1.1\r\n\r\n", "none"},
		{"\r\n\r\n", "none"},
	} {
		for _, step := range []int{len(c.says), 7} {
			nc, err := net.Dial("tcp", s.addr())
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			for b := []byte(c.says); len(b) > 0; b = b[min(step, len(b)):] {
				if _, err := nc.Write(b[:min(step, len(b))]); err != nil {
					break // the server has seen enough
				}
			}
			b, err := io.ReadAll(nc)
			var gone *net.OpError
			if err != nil && (c.want != "none" || !errors.As(err, &gone)) {
				t.Error(err)
			}
			head, text, ok := strings.Cut(string(b), "\r\n\r\n")
			if !ok {
				text = "none"
			}
			if text != c.want || ok && !strings.HasPrefix(head, "HTTP/1.1 426 Upgrade Required\r\nUpgrade: HTTP/2.0\r\n") {
				t.Errorf("%.20q: %q", c.says, b)
			}
			nc.Close()
		}
	}
}

// Headers beyond a call's limit fail that call and no other, in whatever frames they come.
func TestLargeHeaders(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	r.call(1, "/t/wait", "other")
	<-s.entered
	id := uint32(3)
	for _, c := range []struct {
		size, frame int
		want        codes.Code
	}{
		{20 << 10, 1 << 20, codes.OK},
		{60 << 10, 1 << 20, codes.OK},
		{60 << 10, 100, codes.OK},
		{60 << 10, 16 << 10, codes.OK},
		{70 << 10, 1 << 20, codes.ResourceExhausted},
		{70 << 10, 16 << 10, codes.ResourceExhausted},
		{1000 << 10, 1 << 20, codes.ResourceExhausted},
		{1000 << 10, 50 << 10, codes.ResourceExhausted},
	} {
		// One long value, many short ones, and some that are kept in the table.
		for _, fields := range [][]hpack.HeaderField{
			{{Name: "token", Value: strings.Repeat("\\", c.size), Sensitive: true}},
			manyFields(c.size, true), manyFields(c.size, false),
		} {
			block := r.fields("/t/echo", fields...)
			first := min(len(block), c.frame)
			r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: block[:first], EndHeaders: first == len(block)}))
			for rest := block[first:]; len(rest) > 0; {
				n := min(len(rest), c.frame)
				r.must(r.fr.WriteContinuation(id, n == len(rest), rest[:n]))
				rest = rest[n:]
			}
			r.must(r.fr.WriteData(id, true, framed([]byte("x"))))
			if res := r.answer(id); res.status != int(c.want) {
				t.Errorf("%d bytes in frames of %d: %+v", c.size, c.frame, res)
			}
			id += 2
		}
	}
	if n := s.receiving.total.Load(); n != 0 {
		t.Errorf("%d bytes are counted", n)
	}
	close(s.release)
	r.answer(1).echoed(t, "other")
}

func manyFields(size int, sensitive bool) (fields []hpack.HeaderField) {
	for i := 0; size > 0; i++ {
		f := hpack.HeaderField{Name: fmt.Sprintf("x-%d", i%50), Value: strings.Repeat("\\", 200), Sensitive: sensitive}
		fields = append(fields, f)
		size -= int(f.Size())
	}
	return fields[:len(fields)-1]
}

// A header list without an end is ended, even if its frames are empty, and its memory counts like a request's.
func TestEndlessHeaders(t *testing.T) {
	for _, n := range []int{0, 100, 16 << 10, 1 << 20} {
		s := newTestServer(t)
		r := s.dialRaw(t)
		r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields("/t/echo")}))
		var parts bytes.Buffer
		for fr := x.NewFramer(&parts, nil); parts.Len() < 64<<10; {
			r.must(fr.WriteContinuation(1, false, make([]byte, n)))
		}
		go func() { // until the server closes the connection
			for err := error(nil); err == nil; _, err = r.nc.Write(parts.Bytes()) {
			}
		}()
		if code, told := r.goneAway(); told && code != x.ErrCodeEnhanceYourCalm {
			t.Errorf("frames of %d bytes: %v", n, code)
		}
		eventually(t, "the connection ends", func() bool { return s.closed.Load() == 1 })
	}
	s := newTestServer(t)
	s.receiving.limit = 100 << 10
	r := s.dialRaw(t)
	r.must(r.fr.WriteHeaders(x.HeadersFrameParam{StreamID: 1}))
	r.must(r.fr.WriteContinuation(1, false, make([]byte, 50<<10)))
	eventually(t, "it is counted", func() bool { return s.receiving.total.Load() == 50<<10 })
	_ = r.fr.WriteContinuation(1, false, make([]byte, 60<<10))
	if code, told := r.goneAway(); told && code != x.ErrCodeEnhanceYourCalm {
		t.Error(code)
	}
	eventually(t, "it is let go", func() bool { return s.receiving.total.Load() == 0 })
}

// A client that provokes resets of running calls cannot have more handlers than calls.
func TestProvokedResets(t *testing.T) {
	s := newTestServer(t)
	r := s.dialRaw(t)
	var b bytes.Buffer
	fr := x.NewFramer(&b, nil)
	fr.AllowIllegalWrites = true
	go io.Copy(io.Discard, r.nc)
	within(t, 256<<20, func() {
		for id := uint32(1); id < 3*2*maxStreams; id += 2 {
			r.must(fr.WriteHeaders(x.HeadersFrameParam{StreamID: id, BlockFragment: r.fields("/t/stubborn"), EndHeaders: true}))
			r.must(fr.WriteData(id, true, framed(nil)))
			r.must(fr.WriteWindowUpdate(id, 0)) // which ends the call, and not its handler
		}
		_, err := b.WriteTo(r.nc)
		r.must(err)
		for range maxStreams {
			<-s.entered
		}
	})
	s.check(t, func(c *serverConn) error {
		if c.running > maxStreams {
			return fmt.Errorf("%d handlers", c.running)
		}
		return nil
	})
	close(s.release)
}

func TestStreamIDs(t *testing.T) {
	var s streamIDs
	if !s.idle(1) || !s.idle(2) || s.over(1) || s.skipped(1) {
		t.Error("a new connection has streams")
	}
	// A plain set is the oracle of the bits.
	opened, ended := map[uint32]bool{}, map[uint32]bool{}
	id := uint32(1)
	for i := range 5000 {
		s.open(id)
		opened[id] = true
		if i%3 == 0 {
			s.end(id)
			ended[id] = true
		}
		for _, back := range []uint32{0, 2, 4, 64, 128, 2*idsKept - 2} {
			if back >= id {
				continue
			}
			of := id - back
			if s.idle(of) || s.skipped(of) == opened[of] || s.over(of) != ended[of] {
				t.Fatalf("stream %d of %d: skipped %v, over %v", of, id, s.skipped(of), s.over(of))
			}
		}
		if old := id - 2*idsKept; id > 2*idsKept && (s.skipped(old) || s.over(old) || s.idle(old)) {
			t.Fatalf("stream %d of %d is not forgotten", old, id)
		}
		id += 2 * uint32(1+i%7*(i%2))
		if i%1000 == 999 {
			id += 6 * idsKept
		}
	}
	s.open(maxWindow)
	if s.over(maxWindow) || s.skipped(maxWindow) || !s.skipped(maxWindow-2) {
		t.Error("the last stream")
	}
}

// The fast check of values is compared with the simple one.
func TestValidValue(t *testing.T) {
	for _, bad := range []byte{0, '\t', '\n', '\r', 0x01, 0x1f, ' ', 0x7f, 0x80, 0x8a, 0xff} {
		for n := range 40 {
			for at := range max(n, 1) {
				b := bytes.Repeat([]byte{'x'}, n)
				if n > 0 {
					b[at] = bad
				}
				want := !bytes.ContainsAny(b, "\x00\r\n")
				if got := validValue(string(b)); got != want {
					t.Fatalf("%q is %v", b, got)
				}
			}
		}
	}
}
