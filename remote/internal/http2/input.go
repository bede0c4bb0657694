package http2

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// inputSize is the memory of a connection that waits, and the size of frame up to which a request
// is decoded where it was read.
const inputSize = 16<<10 + headerSize

// input reads a connection: small things through a buffer, large ones past it.
type input struct {
	nc    net.Conn
	buf   []byte
	r, w  int
	reads atomic.Uint64 // tells others that something came
	at    atomic.Int64  // when, by work's clock
	work  worker
	// wanted is set by interrupt, after which the reader calls interrupted.
	wanted      atomic.Bool
	interrupted func()
}

// init starts with bytes that somebody has read already.
func (in *input) init(nc net.Conn, read []byte) {
	in.nc, in.buf = nc, make([]byte, inputSize)
	in.w = copy(in.buf, read)
}

func (in *input) buffered() int { return in.w - in.r }

// receive reads from the connection. It gives nothing where it was interrupted.
func (in *input) receive(p []byte) (int, error) {
	in.work.end()
	n, err := in.nc.Read(p)
	if err == nil {
		in.work.begin()
		in.at.Store(in.work.now)
	}
	in.reads.Add(1)
	if err == nil || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !in.wanted.Swap(false) {
		return n, err
	}
	// The deadline first: who interrupts once more meanwhile wants what interrupted does next.
	err = in.nc.SetReadDeadline(time.Time{})
	in.interrupted()
	return 0, err
}

// interrupt makes the reader call interrupted soon, also one that waits for the other end. Others than the reader
// call it.
func (in *input) interrupt() {
	in.wanted.Store(true)
	_ = in.nc.SetReadDeadline(time.Unix(1, 0)) // it fails where the connection is closed
}

// fill waits until n bytes, at most inputSize, are in the buffer.
func (in *input) fill(n int) error {
	if in.buffered() >= n {
		return nil
	}
	if in.r == in.w {
		in.r, in.w = 0, 0
	} else if in.r+n > len(in.buf) {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
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

// peek gives what is buffered, and leaves it there.
func (in *input) peek() []byte { return in.buf[in.r:in.w] }

// next takes n bytes that fill has seen to. They are valid until the next call of fill or read.
func (in *input) next(n int) []byte {
	b := in.buf[in.r : in.r+n : in.r+n]
	in.r += n
	return b
}

// read reads some bytes: what is buffered, else large pieces straight from the connection. It gives none where the reader
// was interrupted.
func (in *input) read(p []byte) (int, error) {
	if in.buffered() == 0 {
		if len(p) >= len(in.buf) {
			return in.receive(p)
		}
		in.r, in.w = 0, 0
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

// skip reads n bytes and forgets them.
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
