package link

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/remote/internal/standstill"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// pipe is one end of a link's stream after the handshake. It does what both ends have in common: it
// sends messages and heartbeats, reads, and detects the loss of the other end.
type pipe struct {
	links  *Links
	out    *outbound
	in     *inbound
	stream Stream
	owner  end
	done   chan struct{} // closed by close
	ended  chan struct{} // the stream was read to its end
	closed atomic.Bool
	opened time.Time
	boot   uint64                 // of the other end's process
	why    atomic.Pointer[string] // of cut
	task   *link
	// programs handles the batches of a stream of programs' actors; nil: the stream carries the runtime's messages.
	programs func(body []byte) error
	handled  handled // by programs' actors

	// reader is 0 while the reading goroutine reads, and the number of the message while it
	// delivers one. After the delivery, it swaps that number for 0 and reads on. If the clock swapped it
	// first, another goroutine has taken over reading, and the deliverer exits. The clock does so only
	// after timing.Silence. By then the message has reached the actor, so no other message overtakes it.
	reader    atomic.Uint64
	delivered uint64                    // owned by the reader
	arrivals  atomic.Uint64             // messages
	heard     atomic.Bool               // the other end uses the link: something has come from it since the handshake
	received  atomic.Int64              // actors' messages
	asked     atomic.Pointer[time.Time] // when the outstanding echo was requested; nil if none is
	readers   atomic.Int32              // goroutines that deliver or read

	// The rest is owned by the Links' clock.
	heartbeat *heartbeat
	arrived   uint64
	reading   uint64                   // reader at the last tick
	slow      time.Time                // when reader took that value
	unwritten standstill.Watch[uint64] // of the messages written
	failed    bool                     // writing had failed at the last tick
}

// end is notified when a pipe ends. By then the last received message was delivered, or a slow actor
// is still handling it.
type end interface {
	// lost is called when the connection broke, or the other end is silent or sent an invalid message.
	lost(why string)
	// left is called when the other end said goodbye. leaving is why its process stops; it is empty if
	// only the link ends.
	left(leaving string)
}

// maxReaders bounds the goroutines that slow deliveries of one stream may occupy.
const maxReaders = 256

func newPipe(k *link, boot uint64, s Stream, in *inbound, out *outbound, owner end) *pipe {
	l := k.links
	in.traffic = &k.traffic
	out.traffic.Store(&k.traffic)
	return &pipe{links: l, task: k, boot: boot, stream: s, in: in, out: out, owner: owner, done: make(chan struct{}), ended: make(chan struct{}), opened: time.Now(),
		heartbeat: newHeartbeat(l.timing, time.Now())}
}

// read handles messages until the stream ends, or another goroutine has taken over.
func (p *pipe) read() {
	p.readers.Add(1)
	defer p.readers.Add(-1)
	for {
		h, body, contents, err := p.in.next()
		p.arrivals.Add(1)
		if err == nil {
			p.hear()
		}
		var l letter
		switch {
		case err != nil:
		case h.kind == kindBeat:
			p.echo(h.flags)
			continue
		case h.kind == kindMessage && p.programs != nil:
			if err = p.programs(body); err == nil {
				continue
			}
		case h.kind == kindCredits:
			if err = p.takeCredits(body); err == nil {
				continue
			}
		case h.kind == kindMessage:
			if l, err = p.in.letter(h, body, contents); err == nil {
				p.links.counters.messagesReceived.Add(1)
				p.task.traffic.messagesReceived.Add(1)
				p.received.Add(1)
				p.delivered++
				number := p.delivered
				p.reader.Store(number)
				p.deliver(l)
				if !p.reader.CompareAndSwap(number, 0) {
					return // another goroutine reads
				}
				continue
			}
		case h.kind == kindWelcome && p.programs != nil:
			// The other end does not wait for a welcome, and gets none unless its stream is refused.
			m := &wire.Welcome{}
			if err = decodeControl(body, m); err == nil && m.GetRefusal() != nil {
				p.owner.lost(m.GetRefusal().GetMessage())
				close(p.ended)
				return
			}
			err = status.InvalidArgumentf("A welcome came in the middle of a stream.")
		case h.kind == kindGoodbye:
			m := &wire.Goodbye{}
			if err = decodeControl(body, m); err == nil {
				p.owner.left(m.Leaving)
				close(p.ended)
				return
			}
			err = status.InvalidArgumentf("A goodbye is malformed: %v", err)
		default:
			err = status.InvalidArgumentf("A message of kind %d came in the middle of a link.", h.kind)
		}
		p.broke(err)
		close(p.ended)
		return
	}
}

// hear records that the other end uses the link.
func (p *pipe) hear() {
	if !p.heard.Load() && !p.heard.Swap(true) {
		p.links.changed(p.task.task.Name())
	}
}

// cut ends the stream as lost. The reader notifies the owner, after it has delivered what arrived
// before.
func (p *pipe) cut(why string) {
	if p.why.CompareAndSwap(nil, &why) {
		p.shut()
	}
}

// broke notifies the owner why reading ended.
func (p *pipe) broke(err error) {
	select {
	case <-p.done:
		return // this side has closed the stream
	default:
	}
	if why := p.why.Load(); why != nil {
		p.owner.lost(*why)
		return
	}
	if _, _, sent := p.out.progress(); sent != nil && errors.Is(err, io.EOF) {
		err = sent
	}
	switch err = wire.FromGRPC(err); status.CodeOf(err) {
	case status.DataLoss, status.InvalidArgument:
		p.heard.Store(true)
		p.links.counters.framesRefused.Add(1)
		p.links.log.Warn("a link was ended, because a message on it made no sense", "error", err)
	}
	p.owner.lost(explain(err))
}

// deliver hands a message to its actor, which may handle it on this goroutine.
func (p *pipe) deliver(l letter) {
	defer func() {
		if r := recover(); r != nil {
			_ = contain.Error(p.links.log, "Delivering a message to "+l.target.Id, r) // logged: nobody waits for it
		}
	}()
	p.links.deliver(p.task, l)
}

// relieve has another goroutine read on if the one that reads, with number r, has been held up by a message's handler for too long.
func (p *pipe) relieve(r uint64, now time.Time) {
	if r != p.reading {
		p.reading, p.slow = r, now
	} else if now.Sub(p.slow) > p.links.timing.Silence && p.readers.Load() < maxReaders && p.reader.CompareAndSwap(r, 0) && !p.links.start(p.read) {
		close(p.ended) // the links are closed, and no goroutine reads any more
	}
}

// tick is called once a beat.
func (p *pipe) tick(now time.Time) {
	select {
	case <-p.done:
		return
	default:
	}
	timing := &p.links.timing
	if n := p.arrivals.Load(); n != p.arrived {
		p.arrived = n
		p.heartbeat.arrived(now)
	}
	if r := p.reader.Load(); r != 0 {
		p.heartbeat.arrived(now) // this side is not reading: silence proves nothing
		p.relieve(r, now)
	}
	writes, writing, err := p.out.progress()
	unwritten := p.unwritten.Look(now, writes, writing)
	failed := p.failed
	p.failed = err != nil
	switch {
	case p.heartbeat.lost(now):
		p.cut(fmt.Sprintf("nothing was heard from it for %v", timing.Silence))
	case failed:
		p.cut(explain(err)) // the reader would give a better reason, but has not ended
	case unwritten > timing.Stall:
		p.cut(fmt.Sprintf("it accepted no byte of the messages to it for %v", timing.Stall))
	default:
		if p.programs != nil {
			p.giveCredits()
		}
		p.beat(now)
	}
}

// beat sends a heartbeat. It asks for an echo, unless one is outstanding and may still arrive.
func (p *pipe) beat(now time.Time) {
	var flags byte
	if asked := p.asked.Load(); asked == nil || now.Sub(*asked) > p.links.timing.Silence {
		at := time.Now()
		flags = flagAsks
		p.asked.Store(&at)
	}
	if m, err := encodeControl(kindBeat, flags, nil); (err != nil || !p.out.beat(m)) && flags != 0 {
		p.asked.Store(nil)
	}
}

// echo answers a heartbeat that asks for an echo, and measures the round trip with one that is an echo. It does not block.
func (p *pipe) echo(flags byte) {
	if flags&flagEchoes != 0 {
		if asked := p.asked.Swap(nil); asked != nil {
			p.task.traffic.roundTrip.Store(int64(time.Since(*asked)))
		}
	}
	if flags&flagAsks != 0 {
		if m, err := encodeControl(kindBeat, flagEchoes, nil); err == nil {
			p.out.beat(m)
		}
	}
}

// letters returns the number of actors' messages sent and received.
func (p *pipe) letters() int64 { return p.received.Load() + p.out.letters.Load() }

// encodeGoodbye returns the last message of a stream.
func encodeGoodbye(leaving string) (*outgoing, error) {
	return encodeControl(kindGoodbye, 0, &wire.Goodbye{Leaving: leaving})
}

// goodbye says goodbye after all posted messages. then, if any, is called once, when the goodbye is written
// or never will be.
func (p *pipe) goodbye(leaving string, then func()) {
	m, err := encodeGoodbye(leaving)
	if err != nil {
		p.links.log.Error("a goodbye could not be encoded", "error", err)
		m = nil
	}
	p.out.sendLast(m, then)
}

// close ends the stream.
func (p *pipe) close() {
	if p.closed.Swap(true) {
		return
	}
	close(p.done)
	p.out.end(errClosed) // may call close again
	p.shut()
}

// shut closes the connection.
func (p *pipe) shut() {
	if err := p.stream.Close(); err != nil {
		p.links.log.Debug("closing a link's connection", "error", err)
	}
}
