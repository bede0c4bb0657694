package http2

import (
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// Answer is the message that answers a call. It is read once, in order: by the goroutine of the call, off the
// connection where that is the reader, and from where it was kept where another one has read it.
type Answer struct {
	client *Client
	call   *clientCall

	// Of the reader, and of the call's goroutine once the call is over.
	answered bool // the headers came
	last     bool // the frame is the last one
	frame    int  // bytes of a frame that are not read
	padding  int
	prefix   [prefixSize]byte
	have     int // of prefix
	came     int // bytes of the message that were read off the connection
	consumed int // bytes that the server was not given credit for again
	kept     mem.BufferSlice
	room     []byte // of the last one that is kept

	// Of the call's goroutine.
	off  int    // bytes of the message that were taken
	read int    // of what is kept, how many were begun
	cur  []byte // what is left of the last of these
}

func (a *Answer) reset() {
	a.kept.Free()
	clear(a.kept)
	*a = Answer{kept: a.kept[:0]}
}

// Size is the message's length in bytes.
func (a *Answer) Size() int { return length(a.prefix[:]) }

func (a *Answer) complete() bool { return a.have == prefixSize && a.came == a.Size() }

// begun tells that there is a message.
func (a *Answer) begun() bool { return a.have == prefixSize }

// leads tells whether the call's goroutine is the reader, which nobody but itself can change then.
func (a *Answer) leads() bool { return a.call.leads }

// start reads until the message begins or the call is over, for the reader.
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

// turn reads on to more of the message, or to the end of the call.
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

// broken gives an error of reading its form.
func (a *Answer) broken(err error) error {
	if errors.Is(err, errInterrupted) {
		return errGone
	}
	a.client.lost(err)
	return unavailable(err)
}

// frameRead takes the end of a frame whose contents were read.
func (a *Answer) frameRead() error {
	n := a.padding
	a.padding = 0
	if err := a.client.in.skip(n); err != nil {
		return err
	}
	if a.last { // the headers were to be last
		a.last = false
		return a.client.give(a.call, status.Error(codes.Internal, "the call ended without a status"))
	}
	return nil
}

// readPrefix takes what a frame has of the message's prefix.
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

// keep reads a frame of another goroutine's answer. An error that it gives is the call's: those of the
// connection come again with the next frame.
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
			a.room = b.ReadOnlyData() // nobody else has it yet
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

// stored gives what was kept of the message and not taken yet.
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

// Piece gives the next bytes of the message where they lie, at least one, which are valid until the next call of
// a method; io.EOF at the end.
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

// ReadFull fills dst with the next bytes of the message, straight off the connection where they are not kept.
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

// more sees to it that the frame has bytes of the message.
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

// finish lets the answer be read, and waits for the end of the call.
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

// leave passes over what the reader has not read of its own frame.
func (a *Answer) leave() {
	n := a.frame + a.padding
	a.frame, a.padding = 0, 0
	if err := a.client.in.skip(n); err != nil {
		a.client.lost(err)
	}
}
