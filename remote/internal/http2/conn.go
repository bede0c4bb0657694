package http2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxHeaderList is the size in bytes of the headers that a call may have. A call with more is refused, and its
	// connection goes on.
	maxHeaderList = 64 << 10
	// maxHeaderBlock is how many bytes of frames a header list may come in, compressed: one of the largest frame and
	// its continuations. More end the connection, since a list that is not decoded leaves the table of those that
	// follow unknown.
	maxHeaderBlock = frameSize + 64<<10
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
	decoder  *hpack.Decoder
	fields   headerFields
	block    []byte       // a header list that has not come to its end
	blockLen int          // of the frames that it came in
	blocked  atomic.Int64 // when it began to come; 0 if there is none
	pending  uint32       // whose it is; 0 if there is none
	// reserve counts memory of block, whose end gives it back as a negative number; nil for nobody.
	reserve func(bytes int) error

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
	c.decoder = hpack.NewDecoder(4096, c.takeField)
	c.decoder.SetMaxStringLength(2 * maxHeaderBlock) // Huffman's code makes at most 8 bits of 5
}

// takeField notes a header. Those beyond the list's limit are read for the table's sake alone.
func (c *conn) takeField(h hpack.HeaderField) {
	c.fields.take(&h)
	if c.fields.size > maxHeaderList {
		c.decoder.SetEmitEnabled(false)
	}
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

// dataSize reads what a DATA or HEADERS frame says of its padding, and gives how many bytes of contents and
// how many of padding follow.
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
		if h.length != 8 {
			return broken(codeFrameSize, "a PING of %d bytes", h.length)
		}
		if h.stream != 0 {
			return broken(codeProtocol, "a PING on stream %d", h.stream)
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
			if err = c.widened(h.stream, n); err == nil && n == 0 {
				err = streamBroken(h.stream, codeProtocol, "a WINDOW_UPDATE of nothing")
			}
		} else if c.window += n; c.window > maxWindow {
			err = broken(codeFlowControl, "the connection's window is too large")
		}
		c.written.Broadcast()
		c.flush()
		return err
	case frameGoAway:
		if h.stream != 0 {
			return broken(codeProtocol, "a GOAWAY on stream %d", h.stream)
		}
		if h.length < 8 {
			return broken(codeFrameSize, "a GOAWAY of %d bytes", h.length)
		}
		return c.in.skip(h.length) // a client that goes closes the connection
	case framePriority:
		return c.takePriority(h)
	case framePush:
		return broken(codeProtocol, "a frame of type %d that has no place here", h.kind)
	}
	return c.in.skip(h.length)
}

// takePriority checks a PRIORITY frame, which has no other effect: RFC 9113 deprecates priorities.
func (c *conn) takePriority(h header) error {
	switch {
	case h.stream == 0:
		return broken(codeProtocol, "a PRIORITY on stream 0")
	case h.length != prioritySize:
		if err := c.in.skip(h.length); err != nil {
			return err
		}
		return streamBroken(h.stream, codeFrameSize, "a PRIORITY of %d bytes", h.length)
	}
	return c.priority(h.stream)
}

// priority reads what a frame says of a stream's priority. A stream that depends on itself was an error before
// RFC 9113, and still tells of a broken client.
func (c *conn) priority(stream uint32) error {
	if err := c.in.fill(prioritySize); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(c.in.next(prioritySize))&maxWindow == stream {
		return streamBroken(stream, codeProtocol, "stream %d depends on itself", stream)
	}
	return nil
}

func (c *conn) takeSettings(h header) error {
	switch {
	case h.stream != 0:
		return broken(codeProtocol, "SETTINGS on stream %d", h.stream)
	case h.length%6 != 0, h.flags&flagAck != 0 && h.length > 0:
		return broken(codeFrameSize, "SETTINGS of %d bytes", h.length)
	case h.flags&flagAck != 0:
		return nil
	case h.length > inputSize:
		return broken(codeCalm, "%d settings", h.length/6)
	}
	b, err := c.payload(h, inputSize)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	initial := c.initial
	for ; len(b) >= 6; b = b[6:] {
		value := binary.BigEndian.Uint32(b[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(b)) {
		case settingTableSize:
			c.encoder.SetMaxDynamicTableSize(min(value, 4096))
		case settingPush:
			if value > 1 {
				return broken(codeProtocol, "ENABLE_PUSH is %d", value)
			}
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
// is in fields until the next one begins. An error of a stream is given when the list is complete.
func (c *conn) headers(h header) (whole bool, err error) {
	n, padding := h.length, 0
	if h.kind == frameHeaders {
		if n, padding, err = c.dataSize(h); err != nil {
			return false, err
		}
		c.fields = headerFields{length: -1}
		if h.flags&flagPriority != 0 {
			if n -= prioritySize; n < 0 {
				return false, broken(codeFrameSize, "a HEADERS frame of %d bytes with a priority", h.length)
			}
			if err := c.priority(h.stream); err != nil && !errors.As(err, &c.fields.fault) {
				return false, err
			}
		}
	}
	whole = h.flags&flagEndHeaders != 0
	if whole && c.pending == 0 && n <= inputSize {
		if err := c.in.fill(n); err != nil {
			return false, err
		}
		err = c.decode(c.in.next(n))
	} else if err = c.gather(n); err == nil {
		c.pending = h.stream
		if whole {
			err = c.decode(c.block)
			c.forgetBlock()
		}
	}
	if err == nil {
		err = c.in.skip(padding)
	}
	return whole, err
}

// gather keeps a part of a header list until the list is complete. Memory is taken as bytes come.
func (c *conn) gather(n int) error {
	if c.blockLen == 0 {
		c.blocked.Store(clock())
	}
	if c.blockLen += headerSize + n; c.blockLen > maxHeaderBlock {
		return broken(codeCalm, "headers of more than %d bytes", maxHeaderBlock)
	}
	for n > 0 {
		k := min(n, inputSize)
		if c.reserve != nil {
			if err := c.reserve(k); err != nil {
				return err
			}
		}
		if err := c.in.fill(k); err != nil {
			if c.reserve != nil {
				_ = c.reserve(-k) // which does not fail
			}
			return err
		}
		c.block = append(c.block, c.in.next(k)...)
		n -= k
	}
	return nil
}

// forgetBlock lets a gathered list go.
func (c *conn) forgetBlock() {
	if c.reserve != nil {
		_ = c.reserve(-len(c.block)) // which does not fail
	}
	c.block, c.blockLen, c.pending = nil, 0, 0
	c.blocked.Store(0)
}

// decode fills fields. It must see every list, since lists change the table of those that follow.
func (c *conn) decode(block []byte) error {
	c.decoder.SetEmitEnabled(true)
	if _, err := c.decoder.Write(block); err != nil {
		return broken(codeCompression, "headers cannot be decoded: %v", err)
	}
	if err := c.decoder.Close(); err != nil {
		return broken(codeCompression, "headers cannot be decoded: %v", err)
	}
	return nil
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
