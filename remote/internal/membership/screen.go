package membership

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Without keys, anybody who reaches the port may gossip. memberlist then decompresses messages, and allocates memory for what a message
// claims before it has arrived. So messages are checked first: those that tasks do not send are rejected, and the others are read
// completely, into bounded memory, before memberlist reads them.

// The types of memberlist's messages, by their first byte.
const (
	pingMsg      = 0
	ackRespMsg   = 2
	pushPullMsg  = 6
	compoundMsg  = 7
	compressMsg  = 9
	encryptMsg   = 10
	hasCrcMsg    = 12
	errMsg       = 13
	crcHeadBytes = 5
)

const (
	// maxPacket bounds a packet; tasks send packets of less than 1,400 bytes.
	maxPacket = 8 << 10
	// maxNodes bounds the tasks in a message on a stream, beyond those that this task declares, and nodeBytes the average number of bytes for
	// one of them.
	maxNodes  = 4096
	nodeBytes = 1 << 10
	// maxScreened bounds the streams, and maxHeld the bytes of their messages. Beyond either limit, the oldest streams are closed.
	maxScreened = 128
	maxHeld     = 16 << 20
)

// plausible reports whether a packet may be passed to memberlist: it is not compressed, and neither is any message in a compound one.
func plausible(b []byte) bool {
	if len(b) > crcHeadBytes && b[0] == hasCrcMsg {
		b = b[crcHeadBytes:]
	}
	if len(b) == 0 || b[0] == compressMsg || b[0] == encryptMsg {
		return false
	}
	if b[0] != compoundMsg {
		return true
	}
	if b = b[1:]; len(b) == 0 || len(b)-1 < 2*int(b[0]) {
		return false
	}
	lengths, rest := b[1:1+2*int(b[0])], b[1+2*int(b[0]):]
	for ; len(lengths) > 0; lengths = lengths[2:] {
		n := int(binary.BigEndian.Uint16(lengths))
		if n > len(rest) {
			return false
		}
		if n > 0 && (rest[0] == compoundMsg || rest[0] == compressMsg) {
			return false
		}
		rest = rest[n:]
	}
	return true
}

// screen bounds the streams of unauthenticated peers.
type screen struct {
	nodes int // max. in a message

	mu   sync.Mutex
	open []*screened // the oldest first
	held int         // bytes of their messages
}

// reserve counts n bytes of a stream's message before they are allocated.
func (s *screen) reserve(c *screened, n int) error {
	for {
		s.mu.Lock()
		switch {
		case c.closed:
			s.mu.Unlock()
			return net.ErrClosed
		case s.held+n <= maxHeld:
			s.held += n
			c.held += n
			s.mu.Unlock()
			return nil
		}
		old := s.open[0] // c is open
		s.mu.Unlock()
		_ = old.Close() // there is nobody to report an error to
	}
}

// admit wraps a stream so that its message is read completely before memberlist gets any of it.
func (s *screen) admit(c net.Conn) net.Conn {
	a := &screened{Conn: c, screen: s}
	s.mu.Lock()
	s.open = append(s.open, a)
	var old *screened
	if len(s.open) > maxScreened {
		old = s.open[0]
	}
	s.mu.Unlock()
	if old != nil {
		_ = old.Close() // there is nobody to report an error to
	}
	return a
}

// screened is one of memberlist's streams.
type screened struct {
	net.Conn
	screen *screen
	once   sync.Once
	text   bytes.Reader
	err    error

	// Guarded by the screen's lock.
	held   int
	closed bool
}

// Close closes the stream and frees its place.
func (c *screened) Close() error {
	c.screen.mu.Lock()
	c.screen.held -= c.held
	c.held, c.closed = 0, true
	for i, o := range c.screen.open {
		if o == c {
			c.screen.open = append(c.screen.open[:i:i], c.screen.open[i+1:]...)
			break
		}
	}
	c.screen.mu.Unlock()
	return c.Conn.Close()
}

// Read reads the stream's single message.
func (c *screened) Read(b []byte) (int, error) {
	c.once.Do(func() {
		var text []byte
		if text, c.err = readMessage(c.Conn, c.screen.nodes, func(n int) error { return c.screen.reserve(c, n) }); c.err == nil {
			c.text.Reset(text)
		}
	})
	if c.err != nil {
		return 0, c.err
	}
	return c.text.Read(b)
}

// readMessage reads a stream's message about at most the given number of nodes. It calls take before it allocates memory.
func readMessage(from io.Reader, nodes int, take func(n int) error) ([]byte, error) {
	w := &walker{from: from, most: nodes * nodeBytes, take: take}
	kind, err := w.next(1)
	if err != nil {
		return nil, err
	}
	switch kind[0] {
	case pingMsg, ackRespMsg, errMsg:
		err = w.value()
	case pushPullMsg:
		err = w.state(nodes)
	default:
		return nil, fmt.Errorf("a message of type %d is not accepted without a secret", kind[0])
	}
	return w.text, err
}

// walker reads MessagePack and keeps what it reads.
type walker struct {
	from io.Reader
	most int // bytes
	take func(n int) error
	text []byte
}

var errMalformed = errors.New("the message is malformed")

// next reads n bytes, in pieces, so memory is allocated only for what arrives.
func (w *walker) next(n int) ([]byte, error) {
	if n < 0 || n > w.most-len(w.text) {
		return nil, fmt.Errorf("a message of more than %d bytes is not accepted without a secret", w.most)
	}
	const piece = 4 << 10
	begin := len(w.text)
	for left := n; left > 0; {
		k := min(left, piece)
		at := len(w.text)
		if grown := at + k - cap(w.text); grown > 0 {
			if err := w.take(cap(w.text) + grown); err != nil { // append doubles the capacity
				return nil, err
			}
		}
		w.text = append(w.text, make([]byte, k)...)
		if _, err := io.ReadFull(w.from, w.text[at:]); err != nil {
			return nil, err
		}
		left -= k
	}
	return w.text[begin:], nil
}

// number reads a length of n bytes.
func (w *walker) number(n int) (int, error) {
	b, err := w.next(n)
	if err != nil {
		return 0, err
	}
	v := 0
	for _, c := range b {
		v = v<<8 | int(c)
	}
	return v, nil
}

// value reads a value with everything in it.
func (w *walker) value() error {
	for left := 1; left > 0; left-- {
		head, err := w.next(1)
		if err != nil {
			return err
		}
		within, size, err := w.head(head[0])
		if err != nil {
			return err
		}
		if left += within; left > w.most {
			return errMalformed
		}
		if _, err := w.next(size); err != nil {
			return err
		}
	}
	return nil
}

// head decodes a value's first byte, and its length if it has one. It returns the number of values in it, or else the number of bytes that
// follow.
func (w *walker) head(b byte) (within, size int, err error) {
	switch {
	case b < 0x80 || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3: // small numbers, nil and booleans
	case b < 0x90:
		within = 2 * int(b&0x0f)
	case b < 0xa0:
		within = int(b & 0x0f)
	case b < 0xc0:
		size = int(b & 0x1f)
	case b >= 0xc4 && b <= 0xc6: // bytes
		size, err = w.number(1 << (b - 0xc4))
	case b >= 0xc7 && b <= 0xc9: // extensions
		size, err = w.number(1 << (b - 0xc7))
		size++
	case b == 0xca, b == 0xcb: // floats
		size = 4 << (b - 0xca)
	case b >= 0xcc && b <= 0xcf, b >= 0xd0 && b <= 0xd3: // numbers
		size = 1 << (b & 3)
	case b >= 0xd4 && b <= 0xd8: // extensions of fixed sizes
		size = 1 + 1<<(b-0xd4)
	case b >= 0xd9 && b <= 0xdb: // strings
		size, err = w.number(1 << (b - 0xd9))
	case b == 0xdc, b == 0xdd: // lists
		within, err = w.number(2 << (b - 0xdc))
	case b == 0xde, b == 0xdf: // maps
		within, err = w.number(2 << (b - 0xde))
		within *= 2
	default:
		err = errMalformed
	}
	return within, size, err
}

// state reads a header, the nodes that it counts, and the user state whose length it has.
func (w *walker) state(nodes int) error {
	head, err := w.next(1)
	if err != nil {
		return err
	}
	if head[0]&0xf0 != 0x80 {
		return errMalformed
	}
	told := map[string]int{"Nodes": 0, "UserStateLen": 0, "Join": 0}
	for range int(head[0] & 0x0f) {
		name, err := w.name()
		if err != nil {
			return err
		}
		if _, known := told[name]; !known {
			return errMalformed
		}
		v, err := w.small()
		if err != nil {
			return err
		}
		if name != "Join" {
			told[name] = v
		}
	}
	if n := told["Nodes"]; n > nodes {
		return fmt.Errorf("a message about %d tasks is not accepted without a secret: the limit is %d", n, nodes)
	}
	for range told["Nodes"] {
		if err := w.value(); err != nil {
			return err
		}
	}
	_, err = w.next(told["UserStateLen"])
	return err
}

// name reads a short string.
func (w *walker) name() (string, error) {
	head, err := w.next(1)
	if err != nil {
		return "", err
	}
	if head[0]&0xe0 != 0xa0 {
		return "", errMalformed
	}
	text, err := w.next(int(head[0] & 0x1f))
	return string(text), err
}

// small reads a non-negative number or a boolean.
func (w *walker) small() (int, error) {
	head, err := w.next(1)
	if err != nil {
		return 0, err
	}
	switch b := head[0]; {
	case b < 0x80:
		return int(b), nil
	case b == 0xc2, b == 0xc3:
		return 0, nil
	case b >= 0xcc && b <= 0xcf, b >= 0xd0 && b <= 0xd3:
		n, err := w.number(1 << (b & 3))
		if err == nil && n < 0 || b >= 0xd0 && err == nil && n>>(8<<(b&3)-1) != 0 {
			err = errMalformed
		}
		return n, err
	}
	return 0, errMalformed
}
