package http2

import (
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// Answer is the message that answers a call. The call's goroutine reads it once, in order: from the connection if
// that goroutine is the reader, or from memory if another one has received it.
type Answer struct {
	client *Client
	call   *clientCall

	// Owned by the reader, and by the call's goroutine once the call is over.
	answered bool // the headers have arrived
	last     bool // the frame is the last one
	frame    int  // unread bytes of the frame
	padding  int
	prefix   [prefixSize]byte
	have     int // bytes of prefix
	came     int // bytes of the message that were read from the connection
	consumed int // bytes read for which the server has not been given new credit
	kept     mem.BufferSlice
	room     []byte // unused rest of the last buffer in kept

	// Owned by the call's goroutine.
	off  int    // bytes of the message that were returned
	read int    // buffers of kept that were begun
	cur  []byte // rest of the last of these
}

func (a *Answer) reset() {
	a.kept.Free()
	clear(a.kept)
	*a = Answer{kept: a.kept[:0]}
}

// Size returns the message's length in bytes.
func (a *Answer) Size() int { return length(a.prefix[:]) }

func (a *Answer) complete() bool { return a.have == prefixSize && a.came == a.Size() }

// begun reports whether the message has begun.
func (a *Answer) begun() bool { return a.have == prefixSize }

// leads reports whether the call's goroutine is the reader. If so, only that goroutine can change it.
func (a *Answer) leads() bool { return a.call.leads }

// start reads until the message begins or the call is over. The caller is the reader.
func (a *Answer) start() error {
	for !a.begun() {
		if over, err := a.turn(); over || err != nil {
			return err
		}
		if err := a.readPrefix(); err != nil {
			return err
		}
	}
	return nil
}

// turn reads until there is more of the message, or the call is over.
func (a *Answer) turn() (over bool, err error) {
	c := a.client
	for a.frame == 0 {
		c.mu.Lock()
		over, err = a.call.over, a.call.err
		c.mu.Unlock()
		if over || err != nil {
			return over, err
		}
		if a.padding > 0 || a.last {
			err = a.frameRead()
		} else {
			err = c.frame(a.call)
		}
		if err != nil {
			return false, a.broken(err)
		}
	}
	return false, nil
}

// broken converts an error of reading to the one to return.
func (a *Answer) broken(err error) error {
	if errors.Is(err, errInterrupted) {
		return errGone
	}
	a.client.lost(err)
	return unavailable(err)
}

// frameRead handles the end of a frame whose contents were read.
func (a *Answer) frameRead() error {
	n := a.padding
	a.padding = 0
	if err := a.client.in.skip(n); err != nil {
		return err
	}
	if a.last { // headers should have been last
		a.last = false
		return a.client.endCall(a.call, status.Error(codes.Internal, "the call ended without a status"))
	}
	return nil
}

// readPrefix reads the frame's part of the message's prefix.
func (a *Answer) readPrefix() error {
	if k := min(a.frame, prefixSize-a.have); k > 0 {
		if err := a.client.in.readFull(a.prefix[a.have : a.have+k]); err != nil {
			return a.broken(err)
		}
		a.have += k
		a.frame -= k
	}
	if a.begun() && a.prefix[0] != 0 {
		return status.Error(codes.Unimplemented, "the server's answer is compressed")
	}
	return nil
}

// keep reads a frame of another goroutine's answer into memory. An error that it returns fails only the call: an
// error of the connection occurs again with the next frame.
func (a *Answer) keep() error {
	in := &a.client.in
	if k := min(a.frame, prefixSize-a.have); k > 0 {
		if err := in.readFull(a.prefix[a.have : a.have+k]); err != nil {
			return unavailable(err)
		}
		a.have += k
		a.frame -= k
	}
	for a.frame > 0 {
		left := a.Size() - a.came
		if left == 0 || a.prefix[0] != 0 {
			n := a.frame
			a.frame = 0
			if err := in.skip(n); err != nil {
				return unavailable(err)
			}
			return status.Error(codes.Internal, "the server's answer has more than one message, or is compressed")
		}
		if len(a.room) == 0 {
			b := piece(left)
			a.room = b.ReadOnlyData() // not shared yet
			a.kept = append(a.kept, b)
		}
		k := min(a.frame, len(a.room))
		if err := in.readFull(a.room[:k]); err != nil {
			return unavailable(err)
		}
		a.room = a.room[k:]
		a.frame -= k
		a.came += k
	}
	return nil
}

// stored returns the next bytes of the message that are in memory, if any.
func (a *Answer) stored() []byte {
	for len(a.cur) == 0 && a.off < a.came {
		a.cur = a.kept[a.read].ReadOnlyData()
		a.read++
		if n := a.came - a.off; len(a.cur) > n { // its room was not filled before this goroutine became the reader
			a.cur = a.cur[:n]
		}
	}
	return a.cur
}

// Piece returns the next bytes of the message without copying them, at least one. They are valid until the next call of
// a method. At the end it returns io.EOF.
func (a *Answer) Piece() ([]byte, error) {
	if b := a.stored(); len(b) > 0 {
		a.cur = nil
		a.off += len(b)
		return b, nil
	}
	if err := a.more(); err != nil {
		return nil, err
	}
	in := &a.client.in
	if err := in.fill(1); err != nil {
		return nil, a.broken(err)
	}
	n := min(in.buffered(), a.frame)
	a.took(n)
	return in.next(n), nil
}

// ReadFull fills dst with the next bytes of the message, directly from the connection if they are not in memory.
func (a *Answer) ReadFull(dst []byte) error {
	for len(dst) > 0 {
		if b := a.stored(); len(b) > 0 {
			n := copy(dst, b)
			dst, a.cur = dst[n:], b[n:]
			a.off += n
			continue
		}
		if err := a.more(); err != nil {
			return err
		}
		n := min(len(dst), a.frame)
		if err := a.client.in.readFull(dst[:n]); err != nil {
			return a.broken(err)
		}
		a.took(n)
		dst = dst[n:]
	}
	return nil
}

func (a *Answer) took(n int) {
	a.frame -= n
	a.came += n
	a.off += n
}

// more reads until the frame has bytes of the message.
func (a *Answer) more() error {
	if a.off == a.Size() {
		return io.EOF
	}
	if !a.leads() {
		return status.Error(codes.Internal, "the server's answer is not complete")
	}
	over, err := a.turn()
	if over && err == nil {
		err = status.Error(codes.Internal, "the server's answer is not complete")
	}
	return err
}

// finish calls read with the answer, and waits for the end of the call.
func (a *Answer) finish(read func(*Answer) error) error {
	if err := read(a); err != nil || !a.leads() {
		return err
	}
	for {
		if n := a.frame; n > 0 {
			if a.came+n > a.Size() {
				return status.Error(codes.Internal, "the server's answer has more than one message")
			}
			a.took(n)
			if err := a.client.in.skip(n); err != nil {
				return a.broken(err)
			}
		}
		if over, err := a.turn(); over || err != nil {
			return err
		}
	}
}

// skipRest skips what the reader has not read of its own frame.
func (a *Answer) skipRest() {
	n := a.frame + a.padding
	a.frame, a.padding = 0, 0
	if err := a.client.in.skip(n); err != nil {
		a.client.lost(err)
	}
}
