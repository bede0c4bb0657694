package http2

import (
	"net"
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/troupe-run/troupe/remote/internal/freed"
)

const (
	// gatherBelow is the size in bytes below which contents are copied next to their frame's head,
	// which is cheaper than a separate piece.
	gatherBelow = 4 << 10
	// maxKept is the capacity of buf up to which a batch keeps it for the next one.
	maxKept = 64 << 10
	// tlsRecord is the size up to which small pieces are combined for an encrypted connection.
	tlsRecord = 16 << 10
	// maxReplies bounds the answers to control frames, and refusals of calls, that wait for a peer
	// that provokes them and does not read. Each has a few hundred bytes at most.
	maxReplies = 4 << 10
)

// batch is data that is written together.
type batch struct {
	buf   []byte // heads of frames and small contents
	cut   int    // bytes of buf that are in list
	list  [][]byte
	owned []mem.Buffer // freed when written
	size  int          // bytes in list

	vector net.Buffers // list, while it is being written
	small  []byte      // small pieces that are combined for an encrypted connection
}

func (b *batch) empty() bool { return len(b.buf) == b.cut && len(b.list) == 0 && len(b.owned) == 0 }

func (b *batch) bytes() int { return b.size + len(b.buf) - b.cut }

// seal makes a piece of the gathered bytes.
func (b *batch) seal() {
	if n := len(b.buf); n > b.cut {
		b.list = append(b.list, b.buf[b.cut:n:n])
		b.size += n - b.cut
		b.cut = n
	}
}

// content appends bytes that must not change until the batch is written.
func (b *batch) content(p []byte) {
	if len(p) < gatherBelow {
		b.buf = append(b.buf, p...)
		return
	}
	b.seal()
	b.list = append(b.list, p)
	b.size += len(p)
}

// done releases everything in the batch.
func (b *batch) done() {
	for i, o := range b.owned {
		o.Free()
		b.owned[i] = nil
	}
	clear(b.list)
	freed.Overwrite(b.buf)
	freed.Overwrite(b.small)
	if cap(b.buf) > maxKept {
		b.buf = nil
	}
	b.buf, b.cut, b.list, b.owned, b.size = b.buf[:0], 0, b.list[:0], b.owned[:0], 0
}

// write writes the batch, with one system call if possible. begun reports whether the kernel has accepted any of it.
func (b *batch) write(nc net.Conn) (begun bool, err error) {
	b.seal()
	switch len(b.list) {
	case 0:
		return false, nil
	case 1:
		n, err := nc.Write(b.list[0])
		return n > 0, err
	}
	if _, ok := nc.(*net.TCPConn); ok {
		b.vector = b.list
		n, err := b.vector.WriteTo(nc)
		b.vector = nil
		return n > 0, err
	}
	return b.writeTogether(nc)
}

// writeTogether writes pieces to a connection without vectored writes. It combines small ones.
func (b *batch) writeTogether(nc net.Conn) (begun bool, err error) {
	write := func(p []byte) error {
		n, err := nc.Write(p)
		begun = begun || n > 0
		return err
	}
	b.small = b.small[:0]
	for _, p := range b.list {
		// Fill the record of small pieces with the beginning of this one.
		n := min(len(p), tlsRecord-len(b.small))
		if len(b.small) == 0 && n == tlsRecord {
			n = 0
		}
		b.small = append(b.small, p[:n]...)
		if p = p[n:]; len(b.small) == tlsRecord {
			if err := write(b.small); err != nil {
				return begun, err
			}
			b.small = b.small[:0]
		}
		if len(p) >= tlsRecord {
			if err := write(p); err != nil {
				return begun, err
			}
		} else {
			b.small = append(b.small, p...)
		}
	}
	if len(b.small) == 0 {
		return begun, nil
	}
	err = write(b.small)
	return begun, err
}

// output writes to a connection. A goroutine queues its data and flushes. The first goroutine
// also writes what others queue meanwhile.
type output struct {
	nc net.Conn

	mu      sync.Mutex
	written sync.Cond // the queue is shorter, the window wider, or there is an error
	queue   batch
	writing batch
	busy    bool // a goroutine is writing
	replies int  // in the queue, see reply
	err     error
	serial  uint64 // of the queued batch
	sent    uint64 // of the last written batch
	total   uint64 // bytes written
	unsent  uint64 // after a failed write: serial number of the first batch of which the kernel accepted nothing; else 0
	// more, if set, adds to the queue what could not be sent before. mu is held.
	more func()
}

func (o *output) init(nc net.Conn) {
	o.nc = nc
	o.serial = 1
	o.written.L = &o.mu
}

// flush writes the queue, unless another goroutine is writing, which then writes it. mu is held, but
// released while writing.
func (o *output) flush() {
	if o.busy {
		return
	}
	o.busy = true
	for o.err == nil {
		if o.more != nil {
			o.more()
		}
		if o.queue.empty() {
			break
		}
		serial, size := o.serial, o.queue.bytes()
		o.queue, o.writing = o.writing, o.queue
		o.replies = 0
		o.serial++
		o.mu.Unlock()
		begun, err := o.writing.write(o.nc)
		o.writing.done()
		o.mu.Lock()
		o.sent = serial
		o.total += uint64(size)
		if err != nil {
			if o.unsent = serial; begun {
				o.unsent++
			}
			o.fail(err) // keeps the first error
			o.mu.Unlock()
			_ = o.nc.Close() // so that the reader ends too
			o.mu.Lock()
		}
		o.written.Broadcast()
	}
	o.busy = false
	if o.err != nil {
		o.queue.done()
		o.written.Broadcast()
	}
}

// fail ends the output. The kernel may be reading what the queue owns, from an earlier batch. In that case
// the writing goroutine frees it. mu is held.
func (o *output) fail(err error) {
	if o.err == nil {
		o.err = err
	}
	if !o.busy {
		o.queue.done()
	}
	o.written.Broadcast()
}

// reply flushes an answer that the other end has provoked without an accepted call. If too many such answers wait, because
// the other end does not read, reply blocks the reader until it does. Only the reader calls it. mu is held.
func (o *output) reply() {
	o.replies++
	o.flush()
	for o.busy && o.err == nil && o.replies > maxReplies {
		o.written.Wait()
	}
}

// neverSent reports whether the kernel has accepted nothing of the batch with a serial number. It may be called when the output has failed
// and no goroutine is writing. mu is held.
func (o *output) neverSent(serial uint64) bool {
	return serial > o.sent || o.unsent != 0 && serial >= o.unsent
}

// awaitSent waits until the batch with a serial number is written, or never will be. mu is held.
func (o *output) awaitSent(serial uint64) {
	o.flush()
	for o.sent < serial && (o.err == nil || o.busy) {
		o.written.Wait()
	}
}
