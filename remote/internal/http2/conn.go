package http2

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxHeaderList is the maximum size in bytes of a call's headers. A call with more is refused, but its
	// connection continues.
	maxHeaderList = 64 << 10
	// maxHeaderBlock is the maximum size in bytes of the frames of a compressed header list: one frame of the largest
	// size and its continuations. More bytes end the connection, because a list that is not decoded leaves the
	// compression table unknown for later ones.
	maxHeaderBlock = frameSize + 64<<10
)

// conn is the part of a connection that both ends have in common.
type conn struct {
	output
	in     input
	number uint64
	ended  chan struct{} // closed by shut
	once   sync.Once
	socket socket

	// Owned by the reader.
	decoder  *hpack.Decoder
	fields   headerFields
	block    []byte       // an incomplete header list
	blockLen int          // size of its frames
	blocked  atomic.Int64 // when it began; 0 if there is none
	pending  uint32       // its stream; 0 if there is none
	// reserve, if set, is called to count the memory of block, with a negative number to release it.
	reserve func(bytes int) error

	// Guarded by mu.
	window   int64         // bytes that the other end accepts on the connection
	initial  int64         // bytes that it accepts on a new stream
	maxFrame int           // bytes that it accepts in a frame
	settled  bool          // the other end's first SETTINGS have arrived
	pings    time.Duration // how long a connection must be silent to be pinged, as the other end says; 0 if it does not
	encoder  *hpack.Encoder
	encoded  bytes.Buffer
	// widened is called for every stream's window update, resized for every change of the initial window.
	widened func(stream uint32, n int64) error
	resized func(by int64) error
	limited func(calls int) // if set, called with the number of concurrent calls that the other end accepts
	broken  func()          // if set, called when the connection has ended
}

func (c *conn) init(nc net.Conn, read []byte, number uint64) {
	c.output.init(nc)
	c.in.init(nc, read)
	c.number = number
	c.ended = make(chan struct{})
	c.window, c.initial, c.maxFrame = defaultWindow, defaultWindow, defaultFrame
	c.encoder = hpack.NewEncoder(&c.encoded)
	c.decoder = hpack.NewDecoder(4096, c.takeField)
	c.decoder.SetMaxStringLength(2 * maxHeaderBlock) // Huffman codes expand 5 bits to at most 8
}

// takeField records a header. Those beyond maxHeaderList are decoded only to update the compression table.
func (c *conn) takeField(h hpack.HeaderField) {
	c.fields.add(&h)
	if c.fields.size > maxHeaderList {
		c.decoder.SetEmitEnabled(false)
	}
}

// greet sends a client's preface and settings. It does not wait for the server's settings: until they arrive, HTTP/2's defaults hold, and a call
// that follows at once costs one round trip less. maxFrame is the largest frame that the server may send.
func (c *conn) greet(maxFrame int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.buf = append(c.queue.buf, preface...)
	c.queue.buf = appendSettings(c.queue.buf, setting{settingPush, 0}, setting{settingInitialWindow, maxWindow},
		setting{settingMaxFrame, uint32(maxFrame)}, setting{settingMaxHeaderList, maxHeaderList})
	c.queue.buf = appendWindow(c.queue.buf, 0, maxWindow-defaultWindow)
	c.flush()
	return c.err
}

// settle reads the server's SETTINGS, with which it begins. maxFrame is the largest frame that it may send.
func (c *conn) settle(maxFrame int) error {
	for !c.isSettled() {
		h, err := c.nextHeader()
		if err != nil {
			return err
		}
		if err := c.beginning(h, maxFrame); err != nil {
			return err
		}
		if err := c.control(h); err != nil {
			return err
		}
	}
	return nil
}

// isSettled reports whether the other end's SETTINGS have arrived.
func (c *conn) isSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}

// beginning checks a frame that arrives before the server's SETTINGS.
func (c *conn) beginning(h header, maxFrame int) error {
	if h.kind != frameSettings || h.length > maxFrame {
		return broken(codeProtocol, "the server does not begin with SETTINGS")
	}
	return nil
}

// shut closes the socket, once, and wakes waiting writers.
func (c *conn) shut(err error) {
	c.once.Do(func() {
		c.mu.Lock()
		c.fail(err)
		broken := c.broken
		c.mu.Unlock()
		close(c.ended)
		// The connection is gone, whatever Close returns. It also ends a write in progress, which broken may wait for.
		_ = c.nc.Close()
		if broken != nil {
			broken()
		}
	})
}

// why returns the error with which the connection has ended, for one that says only that this end has closed it.
func (c *conn) why(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.err, err)
}

// linger discards input until the other end closes the connection or the connection's deadline expires. Closing a
// connection with unread input would reset it, and the other end might lose what was written last.
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

// nextHeader reads the next frame's head. No other frames may interrupt a header list (RFC 9113, 6.10).
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

// payload reads a frame that must fit into the buffer.
func (c *conn) payload(h header, atMost int) ([]byte, error) {
	if h.length > atMost {
		return nil, broken(codeFrameSize, "a frame of type %d has %d bytes", h.kind, h.length)
	}
	if err := c.in.fill(h.length); err != nil {
		return nil, err
	}
	return c.in.next(h.length), nil
}

// dataSize reads the padding length of a DATA or HEADERS frame, if any. It returns how many bytes of contents and
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

// control handles the frames about the connection and its windows, and skips frames of
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

// takePriority checks a PRIORITY frame and otherwise ignores it: RFC 9113 deprecates priorities.
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

// priority reads the priority in a frame. A stream that depends on itself was an error before RFC 9113, and still
// indicates a broken client.
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
		case settingPings:
			c.pings = time.Duration(value) * time.Second
		}
	}
	// Once per frame, because it visits all streams.
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

// headers reads a HEADERS or CONTINUATION frame. whole reports that the list is complete; it is then
// in fields until the next list begins. A stream error is left in fields.fault.
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

// gather stores a part of a header list until the list is complete. It allocates memory as bytes arrive.
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
				_ = c.reserve(-k) // does not fail
			}
			return err
		}
		c.block = append(c.block, c.in.next(k)...)
		n -= k
	}
	return nil
}

// forgetBlock releases a gathered header list.
func (c *conn) forgetBlock() {
	if c.reserve != nil {
		_ = c.reserve(-len(c.block)) // does not fail
	}
	c.block, c.blockLen, c.pending = nil, 0, 0
	c.blocked.Store(0)
}

// decode decodes a header list into fields. It must see every list, because each one changes the compression table.
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

// encode appends a HEADERS frame to the queue, with CONTINUATION frames if the list does not fit into one frame. mu is held.
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
