package http2

import (
	"net"
	"sync/atomic"
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
}

// init starts with bytes that somebody has read already.
func (in *input) init(nc net.Conn, read []byte) {
	in.nc, in.buf = nc, make([]byte, inputSize)
	in.w = copy(in.buf, read)
}

func (in *input) buffered() int { return in.w - in.r }

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
		k, err := in.nc.Read(in.buf[in.w:])
		in.reads.Add(1)
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

// read reads some bytes: what is buffered, else large pieces straight from the connection.
func (in *input) read(p []byte) (int, error) {
	if in.buffered() == 0 {
		if len(p) >= len(in.buf) {
			n, err := in.nc.Read(p)
			in.reads.Add(1)
			return n, err
		}
		if err := in.fill(1); err != nil {
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
