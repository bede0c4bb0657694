package http2

import (
	"bytes"
	"encoding/binary"
	"net"
	"sync"

	"golang.org/x/net/http2/hpack"
)

const (
	// maxHeaderList is the size in bytes of the headers that a call may have.
	maxHeaderList = 64 << 10
)

// conn is what both ends of a connection have in common.
type conn struct {
	output
	in     input
	number uint64
	ended  chan struct{} // closed by shut
	once   sync.Once
	socket socket

	// Of the goroutine that reads.
	decoder *hpack.Decoder
	fields  headerFields
	block   []byte // a header list that has not come to its end
	pending uint32 // whose it is; 0 if there is none

	// Guarded by mu.
	window   int64 // bytes that the other end takes on the connection
	initial  int64 // on a new stream
	maxFrame int   // in a frame
	settled  bool  // the other end's first SETTINGS came
	encoder  *hpack.Encoder
	encoded  bytes.Buffer
	// widened is told of every stream's credit; by reports the change of the initial window.
	widened func(stream uint32, n int64) error
	resized func(by int64) error
	limited func(calls int) // told how many calls the other end takes at once; nil for nobody
	broken  func()          // told of the end; nil for nobody
}

func (c *conn) init(nc net.Conn, read []byte, number uint64) {
	c.output.init(nc)
	c.in.init(nc, read)
	c.number = number
	c.ended = make(chan struct{})
	c.window, c.initial, c.maxFrame = defaultWindow, defaultWindow, defaultFrame
	c.encoder = hpack.NewEncoder(&c.encoded)
	c.decoder = hpack.NewDecoder(4096, c.fields.take)
	c.decoder.SetMaxStringLength(maxHeaderList)
}

// greet says what a client says first, and waits for the server's settings. Frames may have at most so many bytes.
func (c *conn) greet(maxFrame int) error {
	c.mu.Lock()
	c.queue.buf = append(c.queue.buf, preface...)
	c.queue.buf = appendSettings(c.queue.buf, setting{settingPush, 0}, setting{settingInitialWindow, maxWindow},
		setting{settingMaxFrame, uint32(maxFrame)}, setting{settingMaxHeaderList, maxHeaderList})
	c.queue.buf = appendWindow(c.queue.buf, 0, maxWindow-defaultWindow)
	c.flush()
	c.mu.Unlock()
	for {
		h, err := c.nextHeader()
		if err != nil {
			return err
		}
		if h.kind == frameData || h.kind == frameHeaders || h.length > maxFrame {
			return broken(codeProtocol, "the server does not begin with SETTINGS")
		}
		if err := c.control(h); err != nil {
			return err
		}
		c.mu.Lock()
		settled := c.settled
		c.mu.Unlock()
		if settled {
			return nil
		}
	}
}

// shut closes the socket, once, and wakes who waits to write.
func (c *conn) shut(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.fail(err)
		broken := c.broken
		c.mu.Unlock()
		close(c.ended)
		if broken != nil {
			broken()
		}
		// Whatever the error says, the connection is gone.
		_ = c.nc.Close()
	})
}

// linger lets the other end read what was written last, before its deadline: a connection that is
// closed with something unread takes that back.
func (c *conn) linger() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	var waste [4 << 10]byte
	for err := error(nil); err == nil; {
		_, err = c.nc.Read(waste[:])
	}
}

// nextHeader reads the next frame's head. A header list is in one piece (RFC 9113, 6.10).
func (c *conn) nextHeader() (header, error) {
	if err := c.in.fill(headerSize); err != nil {
		return header{}, err
	}
	h := parseHeader(c.in.next(headerSize))
	if c.pending != 0 && (h.kind != frameContinuation || h.stream != c.pending) {
		return h, broken(codeProtocol, "headers that do not go on")
	}
	if c.pending == 0 && h.kind == frameContinuation {
		return h, broken(codeProtocol, "a CONTINUATION of nothing")
	}
	return h, nil
}

// payload reads a frame that has to fit the buffer.
func (c *conn) payload(h header, atMost int) ([]byte, error) {
	if h.length > atMost {
		return nil, broken(codeFrameSize, "a frame of type %d has %d bytes", h.kind, h.length)
	}
	if err := c.in.fill(h.length); err != nil {
		return nil, err
	}
	return c.in.next(h.length), nil
}

// dataSize reads what a DATA frame says of its padding, and gives how many bytes of contents and how
// many of padding follow.
func (c *conn) dataSize(h header) (contents, padding int, err error) {
	if h.flags&flagPadded == 0 {
		return h.length, 0, nil
	}
	if h.length == 0 {
		return 0, 0, broken(codeFrameSize, "a padded frame of nothing")
	}
	if err := c.in.fill(1); err != nil {
		return 0, 0, err
	}
	if padding = int(c.in.next(1)[0]); padding >= h.length {
		return 0, 0, broken(codeProtocol, "a frame that is all padding")
	}
	return h.length - 1 - padding, padding, nil
}

// control handles the frames that are about the connection and its windows, and skips those of
// unknown types.
func (c *conn) control(h header) error {
	switch h.kind {
	case frameSettings:
		return c.takeSettings(h)
	case framePing:
		b, err := c.payload(h, 8)
		if err != nil {
			return err
		}
		if h.length != 8 || h.stream != 0 {
			return broken(codeFrameSize, "a malformed PING")
		}
		if h.flags&flagAck != 0 {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.queue.buf = appendHeader(c.queue.buf, 8, framePing, flagAck, 0)
		c.queue.buf = append(c.queue.buf, b...)
		c.reply()
		return nil
	case frameWindow:
		b, err := c.payload(h, 4)
		if err != nil {
			return err
		}
		if h.length != 4 {
			return broken(codeFrameSize, "a malformed WINDOW_UPDATE")
		}
		n := int64(binary.BigEndian.Uint32(b) & maxWindow)
		if n == 0 && h.stream == 0 {
			return broken(codeProtocol, "a WINDOW_UPDATE of nothing")
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if h.stream != 0 {
			err = c.widened(h.stream, n)
		} else if c.window += n; c.window > maxWindow {
			err = broken(codeFlowControl, "the connection's window is too large")
		}
		c.written.Broadcast()
		c.flush()
		return err
	case frameGoAway, framePriority:
		return c.in.skip(h.length) // a client that goes closes the connection
	case framePush:
		return broken(codeProtocol, "a frame of type %d that has no place here", h.kind)
	}
	return c.in.skip(h.length)
}

func (c *conn) takeSettings(h header) error {
	b, err := c.payload(h, inputSize)
	if err != nil {
		return err
	}
	if h.stream != 0 || h.length%6 != 0 {
		return broken(codeFrameSize, "malformed SETTINGS")
	}
	if h.flags&flagAck != 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	initial := c.initial
	for ; len(b) >= 6; b = b[6:] {
		value := binary.BigEndian.Uint32(b[2:])
		switch binary.BigEndian.Uint16(b) {
		case settingTableSize:
			c.encoder.SetMaxDynamicTableSize(min(value, 4096))
		case settingMaxStreams:
			if c.limited != nil {
				c.limited(int(min(value, maxStreams)))
			}
		case settingInitialWindow:
			if value > maxWindow {
				return broken(codeFlowControl, "an initial window of %d bytes", value)
			}
			initial = int64(value)
		case settingMaxFrame:
			if value < defaultFrame || value > largestFrame {
				return broken(codeProtocol, "frames of %d bytes", value)
			}
			c.maxFrame = int(value)
		}
	}
	// Once for the frame: it goes through all streams.
	if by := initial - c.initial; by != 0 {
		c.initial = initial
		if err := c.resized(by); err != nil {
			return err
		}
	}
	c.settled = true
	c.queue.buf = appendHeader(c.queue.buf, 0, frameSettings, flagAck, 0)
	c.written.Broadcast()
	c.reply()
	return nil
}

// headers takes a HEADERS or CONTINUATION frame; whole tells that the list is complete, and then it
// is in fields until the next one begins.
func (c *conn) headers(h header) (whole bool, err error) {
	b, err := c.payload(h, inputSize)
	if err != nil {
		return false, err
	}
	if h.kind == frameHeaders {
		if b, err = unpad(h, b); err != nil {
			return false, err
		}
		if h.flags&flagPriority != 0 {
			if len(b) < 5 {
				return false, broken(codeFrameSize, "a malformed HEADERS frame")
			}
			b = b[5:]
		}
		if h.flags&flagEndHeaders != 0 {
			return true, c.decode(b)
		}
	}
	if len(c.block)+len(b) > maxHeaderList {
		return false, broken(codeCalm, "headers of more than %d bytes", maxHeaderList)
	}
	c.pending = h.stream
	if c.block = append(c.block, b...); h.flags&flagEndHeaders == 0 {
		return false, nil
	}
	err = c.decode(c.block)
	c.block, c.pending = nil, 0
	return true, err
}

// decode fills fields. It must see every list, since lists change the table of those that follow.
func (c *conn) decode(block []byte) error {
	c.fields = headerFields{}
	if _, err := c.decoder.Write(block); err != nil {
		return broken(codeCompression, "headers cannot be decoded: %v", err)
	}
	if err := c.decoder.Close(); err != nil {
		return broken(codeCompression, "headers cannot be decoded: %v", err)
	}
	return nil
}

// unpad takes a frame's padding off its payload.
func unpad(h header, b []byte) ([]byte, error) {
	if h.flags&flagPadded == 0 {
		return b, nil
	}
	if len(b) == 0 || int(b[0]) >= len(b) {
		return nil, broken(codeProtocol, "a frame that is all padding")
	}
	return b[1 : len(b)-int(b[0])], nil
}

// encode appends a HEADERS frame to the queue. mu is held. Lists that do not fit a frame are cut.
func (c *conn) encode(stream uint32, flags uint8, fields ...hpack.HeaderField) {
	c.encoded.Reset()
	for _, f := range fields {
		// A bytes.Buffer does not fail.
		_ = c.encoder.WriteField(f)
	}
	b := c.encoded.Bytes()
	first := min(len(b), c.maxFrame)
	if first == len(b) {
		flags |= flagEndHeaders
	}
	c.queue.buf = appendHeader(c.queue.buf, first, frameHeaders, flags, stream)
	c.queue.buf = append(c.queue.buf, b[:first]...)
	for b = b[first:]; len(b) > 0; {
		n := min(len(b), c.maxFrame)
		flags = 0
		if n == len(b) {
			flags = flagEndHeaders
		}
		c.queue.buf = appendHeader(c.queue.buf, n, frameContinuation, flags, stream)
		c.queue.buf = append(c.queue.buf, b[:n]...)
		b = b[n:]
	}
}
