package link

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/compress"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// lastWords is how long a sender whose stream broke waits to read the reason.
const lastWords = 200 * time.Millisecond

// run connects and sends until the peer is down.
func (b *bulk) run() {
	defer b.clear()
	s, hello, err := b.open()
	listened := make(chan struct{})
	// A reader comes first: only it learns of windows, for which even a hello may have to wait.
	if err == nil && b.peer.link.links.start(func() { defer close(listened); b.listen(s) }) {
		if err = b.write(s, &frame{kind: frameHello, header: hello}, nil); err == nil {
			err = b.sendAll(s)
		}
		if err != nil {
			limit := time.NewTimer(lastWords)
			select {
			case <-listened:
			case <-limit.C:
			}
			limit.Stop()
		}
	} else {
		close(listened)
	}
	b.stop()
	<-listened
	b.mu.Lock()
	if b.cause != nil {
		err = b.cause
	}
	b.mu.Unlock()
	if err != nil {
		b.peer.pipe.cut("its tensors could not be sent: " + explain(err)) // no effect if the peer is down already
	}
}

// stop ends the sender; run releases what is left.
func (b *bulk) stop() {
	b.mu.Lock()
	b.stopped = true
	s := b.stream
	b.stream = nil
	b.mu.Unlock()
	b.cancel()
	if s != nil {
		if err := s.Close(); err != nil {
			b.peer.link.links.log.Debug("closing a stream of tensors", "error", err)
		}
	}
	b.signal()
}

// open opens the stream, and returns the hello to send on it.
func (b *bulk) open() (_ Stream, hello []byte, err error) {
	l, k := b.peer.link.links, b.peer.link
	ctx, cancel := distance.Within(b.ctx, l.timing.First)
	defer cancel()
	hello, err = proto.Marshal(&wire.Hello{Greeting: l.greeting(k.task, b.peer.Boot()), Memory: b.advertise(), Key: b.peer.key})
	if err != nil {
		return nil, nil, err
	}
	s, err := l.config.Open(ctx, k.task.Address, BulkMethod)
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	b.stream = s
	stopped := b.stopped
	b.mu.Unlock()
	if stopped {
		b.stop() // the earlier call had no stream to close
		return nil, nil, errClosed
	}
	return s, hello, nil
}

// write sends a frame. Only the sender's goroutine calls it.
func (b *bulk) write(s Stream, f *frame, piece []byte) error {
	f.number = b.number
	b.number++
	b.buf = f.encode(b.buf, piece)
	b.stall.begin()
	defer b.stall.end()
	if len(piece) == 0 {
		return s.Send(b.buf)
	}
	return s.Send(b.buf, piece)
}

// sendAll sends until the sender is stopped, which is not an error, or the stream breaks.
func (b *bulk) sendAll(s Stream) error {
	for {
		p, lend := b.next()
		switch {
		case p == nil && lend:
			if err := b.write(s, &frame{kind: frameAllow}, nil); err != nil {
				return err
			}
		case p == nil:
			return nil
		default:
			if err := b.send(s, p, lend); err != nil {
				return err
			}
		}
	}
}

// send lends a push if lend is set and lending works. Otherwise it sends the push's bytes.
func (b *bulk) send(s Stream, p *push, lend bool) error {
	if lend {
		if f := b.lend(p); f != nil {
			b.sent(p, true)
			return b.write(s, f, nil)
		}
	}
	err := b.sendOne(s, p)
	b.sent(p, false)
	return err
}

// sendOne sends the bytes of one push, in pieces.
func (b *bulk) sendOne(s Stream, p *push) error {
	f := &frame{kind: frameBegin, step: p.step, header: p.header, total: uint64(len(p.data))}
	for {
		if !b.wanted(p) {
			if f.kind == frameBegin {
				return nil
			}
			return b.write(s, &frame{kind: frameAbandon, step: p.step, total: f.total, where: f.where}, nil)
		}
		plain := p.data[f.where:min(f.where+pieceSize, f.total)]
		piece := plain
		f.by, f.width = compress.None, 0
		var smaller bool
		if b.packed, smaller = p.by.Append(b.packed[:0], plain, p.width); smaller {
			piece, f.by, f.width = b.packed, p.by, p.width
		}
		if err := b.write(s, f, piece); err != nil {
			return err
		}
		b.peer.link.links.counters.bytesSent.Add(int64(len(piece)))
		b.peer.link.traffic.bytesSent.Add(int64(len(piece)))
		f.where += uint64(len(plain))
		if f.where == f.total {
			return nil
		}
		f.kind, f.header = frameMore, nil
	}
}

// listen reads the receiver's answers, and its reason when it ends the stream.
func (b *bulk) listen(s Stream) {
	var buf []byte
	for number := uint32(0); ; number++ {
		f, err := readFrame(s, number, &buf)
		if err == nil {
			err = b.answer(f)
		}
		if err != nil {
			switch status.CodeOf(err) {
			case status.DataLoss, status.InvalidArgument:
				b.peer.link.links.counters.framesRefused.Add(1)
			}
			b.mu.Lock()
			if !b.stopped { // else this side has closed the stream
				b.cause = err
			}
			b.mu.Unlock()
			b.stop()
			return
		}
	}
}

// answer handles one frame from the receiver.
func (b *bulk) answer(f *frame) error {
	switch f.kind {
	case frameWelcome:
		w := &wire.Welcome{}
		if err := proto.Unmarshal(f.header, w); err != nil {
			return status.InvalidArgumentf("A welcome is malformed: %v", err)
		}
		if r := w.GetRefusal(); r != nil {
			return status.New(status.Code(r.Code), r.Message)
		}
		if f.number != 0 {
			return status.InvalidArgumentf("A receiver of tensors sent a second welcome.")
		}
		b.allow(w.GetMemory())
		return nil
	case frameReads, frameRead, frameUnread:
		return b.lentAnswer(f)
	}
	return status.InvalidArgumentf("A receiver of tensors sent a frame of kind %d.", f.kind)
}

// clear releases what is left when the sender ends.
func (b *bulk) clear() {
	b.withdraw()
	b.mu.Lock()
	b.stopped = true
	left := b.queue
	b.queue = nil
	for _, p := range b.lent {
		left = append(left, p)
	}
	clear(b.lent)
	b.mu.Unlock()
	b.cancel()
	for _, p := range left {
		b.over(p)
	}
}
