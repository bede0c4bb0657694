package http2

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/remote/internal/freed"
)

// inputSize is the size of a connection's input buffer. A request in a frame of up to that size is decoded
// in place.
const inputSize = 16<<10 + headerSize

// input reads from a connection. Small reads go through a buffer, large ones past it.
type input struct {
	nc    net.Conn
	buf   []byte
	r, w  int
	freed int           // consumed bytes that were released
	reads atomic.Uint64 // number of reads; lets other goroutines detect input
	at    atomic.Int64  // time of the last input, from work.now
	// listening is set while the reader waits for the other end. While the reader does something else, such as decoding a large
	// request, it would not notice the answer to a ping.
	listening atomic.Bool
	work      worker
	// wanted is set by interrupt. The reader then calls interrupted. interrupting guards it together with the connection's deadline: a deadline
	// without it would end the connection.
	interrupting sync.Mutex
	wanted       bool
	interrupted  func()
}

// init initializes in. read has been read from the connection already.
func (in *input) init(nc net.Conn, read []byte) {
	in.nc, in.buf = nc, make([]byte, inputSize)
	in.w = copy(in.buf, read)
}

func (in *input) buffered() int { return in.w - in.r }

// receive reads from the connection. It returns 0 if it was interrupted.
func (in *input) receive(p []byte) (int, error) {
	in.work.end()
	in.listening.Store(true)
	n, err := in.nc.Read(p)
	in.listening.Store(false)
	if err == nil {
		in.work.begin()
		in.at.Store(in.work.now)
	}
	in.reads.Add(1)
	if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	in.interrupting.Lock()
	wanted := in.wanted
	if in.wanted = false; wanted {
		// Before interrupted, which thus also serves an interrupt that comes meanwhile.
		err = in.nc.SetReadDeadline(time.Time{})
	}
	in.interrupting.Unlock()
	if !wanted {
		return n, err
	}
	in.interrupted()
	return 0, err
}

// interrupt makes the reader call interrupted soon, even if it is waiting for the other end. Goroutines other than the
// reader call it.
func (in *input) interrupt() {
	in.interrupting.Lock()
	defer in.interrupting.Unlock()
	in.wanted = true
	_ = in.nc.SetReadDeadline(time.Unix(1, 0)) // fails if the connection is closed
}

// fill waits until n bytes, at most inputSize, are in the buffer.
func (in *input) fill(n int) error {
	in.release()
	if in.buffered() >= n {
		return nil
	}
	if in.r == in.w || in.r+n > len(in.buf) {
		in.restart()
	}
	for in.buffered() < n {
		k, err := in.receive(in.buf[in.w:])
		in.w += k
		if err != nil && in.buffered() < n {
			return err
		}
	}
	return nil
}

// release ends the validity of what next has returned.
func (in *input) release() {
	freed.Overwrite(in.buf[in.freed:in.r])
	in.freed = in.r
}

// restart moves the unread bytes to the beginning of the buffer.
func (in *input) restart() {
	in.w = copy(in.buf, in.buf[in.r:in.w])
	in.r, in.freed = 0, 0
}

// peek returns what is buffered, without consuming it.
func (in *input) peek() []byte { return in.buf[in.r:in.w] }

// next consumes n bytes, which fill must have buffered. They are valid until the next call of fill or read.
func (in *input) next(n int) []byte {
	b := in.buf[in.r : in.r+n : in.r+n]
	in.r += n
	return b
}

// read reads some bytes: buffered ones, if any, or large pieces directly from the connection. It returns 0 if the reader
// was interrupted.
func (in *input) read(p []byte) (int, error) {
	in.release()
	if in.buffered() == 0 {
		if len(p) >= len(in.buf) {
			return in.receive(p)
		}
		in.restart()
		k, err := in.receive(in.buf)
		if in.w = k; k == 0 {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

func (in *input) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := in.read(p)
		if p = p[n:]; err != nil && len(p) > 0 {
			return err
		}
	}
	return nil
}

// skip reads and discards n bytes.
func (in *input) skip(n int) error {
	for n > 0 {
		k := min(n, len(in.buf))
		if err := in.fill(min(k, max(in.buffered(), 1))); err != nil {
			return err
		}
		k = min(k, in.buffered())
		in.r += k
		n -= k
	}
	return nil
}
