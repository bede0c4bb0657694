package http2

import (
	"net"
	"sync"

	"google.golang.org/grpc/mem"
)

const (
	// gatherBelow is the size in bytes below which contents are copied next to their frame's head,
	// since a piece of its own costs the kernel more.
	gatherBelow = 4 << 10
	// maxKept is what a batch keeps of its memory for the next one.
	maxKept = 64 << 10
	// tlsRecord is how much small pieces are put together for an encrypted connection.
	tlsRecord = 16 << 10
	// maxReplies is how many answers to control frames, and refusals of calls, may wait for a peer
	// that provokes them and does not read. They have some hundred bytes each.
	maxReplies = 4 << 10
)

// batch is what goes to the kernel together.
type batch struct {
	buf   []byte // heads of frames and small contents
	cut   int    // what of buf is in pieces
	list  [][]byte
	owned []mem.Buffer // let go when written
	size  int          // bytes in list

	vector net.Buffers // list, while it is being written
	small  []byte      // small pieces that are put together for an encrypted connection
}

func (b *batch) empty() bool { return len(b.buf) == b.cut && len(b.list) == 0 && len(b.owned) == 0 }

func (b *batch) bytes() int { return b.size + len(b.buf) - b.cut }

// seal makes a piece of what was gathered.
func (b *batch) seal() {
	if n := len(b.buf); n > b.cut {
		b.list = append(b.list, b.buf[b.cut:n:n])
		b.size += n - b.cut
		b.cut = n
	}
}

// content appends bytes that stay as they are until the batch is written.
func (b *batch) content(p []byte) {
	if len(p) < gatherBelow {
		b.buf = append(b.buf, p...)
		return
	}
	b.seal()
	b.list = append(b.list, p)
	b.size += len(p)
}

// done lets everything go.
func (b *batch) done() {
	for i, o := range b.owned {
		o.Free()
		b.owned[i] = nil
	}
	clear(b.list)
	if cap(b.buf) > maxKept {
		b.buf = nil
	}
	b.buf, b.cut, b.list, b.owned, b.size = b.buf[:0], 0, b.list[:0], b.owned[:0], 0
}

// write gives the batch to the kernel, with one call where it can.
func (b *batch) write(nc net.Conn) error {
	b.seal()
	switch len(b.list) {
	case 0:
		return nil
	case 1:
		_, err := nc.Write(b.list[0])
		return err
	}
	if _, ok := nc.(*net.TCPConn); ok {
		b.vector = b.list
		_, err := b.vector.WriteTo(nc)
		b.vector = nil
		return err
	}
	return b.writeTogether(nc)
}

// writeTogether writes pieces to a connection that cannot take several at once, small ones together.
func (b *batch) writeTogether(nc net.Conn) error {
	b.small = b.small[:0]
	for _, p := range b.list {
		// What is small takes the beginning of what follows into its record.
		n := min(len(p), tlsRecord-len(b.small))
		if len(b.small) == 0 && n == tlsRecord {
			n = 0
		}
		b.small = append(b.small, p[:n]...)
		if p = p[n:]; len(b.small) == tlsRecord {
			if _, err := nc.Write(b.small); err != nil {
				return err
			}
			b.small = b.small[:0]
		}
		if len(p) >= tlsRecord {
			if _, err := nc.Write(p); err != nil {
				return err
			}
		} else {
			b.small = append(b.small, p...)
		}
	}
	if len(b.small) == 0 {
		return nil
	}
	_, err := nc.Write(b.small)
	return err
}

// output writes a connection. Whoever has something to say queues it and flushes; the first one
// writes for all who come meanwhile.
type output struct {
	nc net.Conn

	mu      sync.Mutex
	written sync.Cond // the queue is shorter, the window wider, or there is an error
	queue   batch
	writing batch
	busy    bool
	replies int // in the queue, see reply
	err     error
	serial  uint64 // of the batch that is queued
	sent    uint64 // of the last one that was written
	total   uint64 // bytes that were written
	// more adds to the queue what could not be sent before; nil for nothing. mu is held.
	more func()
}

func (o *output) init(nc net.Conn) {
	o.nc = nc
	o.serial = 1
	o.written.L = &o.mu
}

// flush writes the queue unless another goroutine is at it, which then does. mu is held, and is
// again when it returns.
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
		err := o.writing.write(o.nc)
		o.writing.done()
		if err != nil {
			_ = o.nc.Close() // so that the reader ends too; the first error is the one to tell
		}
		o.mu.Lock()
		o.sent = serial
		o.total += uint64(size)
		if err != nil {
			o.fail(err)
		}
		o.written.Broadcast()
	}
	o.busy = false
	if o.err != nil {
		o.queue.done()
		o.written.Broadcast()
	}
}

// fail ends the output. What the queue owns the kernel may be reading, from a batch before: then it
// is let go by the goroutine that writes. mu is held.
func (o *output) fail(err error) {
	if o.err == nil {
		o.err = err
	}
	if !o.busy {
		o.queue.done()
	}
	o.written.Broadcast()
}

// reply sends what the other end provoked without a call that counts. Who provokes without reading
// is not read from until it does. For the reader; mu is held.
func (o *output) reply() {
	o.replies++
	o.flush()
	for o.busy && o.err == nil && o.replies > maxReplies {
		o.written.Wait()
	}
}

// awaitSent waits until the batch of a serial number is written, or never will be. mu is held.
func (o *output) awaitSent(serial uint64) {
	o.flush()
	for o.sent < serial && (o.err == nil || o.busy) {
		o.written.Wait()
	}
}
