package link

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

// pipe is one end of a link's stream after the handshake, and does what both ends do alike: it
// sends messages and heartbeats, reads, and notices that the other end is lost.
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
	why    atomic.Pointer[string] // of cut
	task   *link
	// programs takes the batches of a stream of programs' actors; nil: the stream has the runtime's messages.
	programs func(body []byte) error
	handled  handled // of these

	// reader is 0 while the reading goroutine reads, and the number of the message that it
	// delivers. Whoever swaps that for 0 reads on; who delivered it then leaves. That happens
	// after a time in which a link would be lost: who delivers has long reached the actor then,
	// and no message overtakes it on the way there.
	reader    atomic.Uint64
	delivered uint64                    // the reader's
	arrivals  atomic.Uint64             // messages
	received  atomic.Int64              // actors' messages
	asked     atomic.Pointer[time.Time] // when the echo that is due was asked for; nil if none is
	readers   atomic.Int32              // goroutines that deliver or read

	// The rest belongs to the Links' clock.
	heartbeat *heartbeat
	arrived   uint64
	reading   uint64    // reader at the last tick
	slow      time.Time // since when it has been that
	written   uint64
	since     time.Time // when something was written, or nothing was to be
	failed    bool      // writing had failed at the last tick
}

// end is what a pipe tells, after the last message that came was delivered, or is being delivered
// by an actor that takes long.
type end interface {
	// lost tells that the connection broke, or that the other end is silent or makes no sense.
	lost(why string)
	// left tells that the other end said goodbye, and why it goes away, if it does.
	left(leaving string)
}

// maxReaders bounds the goroutines that one stream's slow deliveries may take.
const maxReaders = 256

func newPipe(k *link, s Stream, in *inbound, out *outbound, owner end) *pipe {
	l := k.links
	in.traffic = &k.traffic
	out.traffic.Store(&k.traffic)
	return &pipe{links: l, task: k, stream: s, in: in, out: out, owner: owner, done: make(chan struct{}), ended: make(chan struct{}), opened: time.Now(),
		heartbeat: newHeartbeat(l.timing, time.Now())}
}

// read takes what comes until the stream ends, or another goroutine has taken over.
func (p *pipe) read() {
	p.readers.Add(1)
	defer p.readers.Add(-1)
	for {
		h, body, contents, err := p.in.next()
		p.arrivals.Add(1)
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
		case h.kind == kindGoodbye:
			m := &wire.Goodbye{}
			if err = decodeSpeech(body, m); err == nil {
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

// cut ends the stream as lost. The reader tells the owner, since what has come before is delivered
// before.
func (p *pipe) cut(why string) {
	if p.why.CompareAndSwap(nil, &why) {
		p.shut()
	}
}

// broke tells the owner why reading ended.
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
		p.links.counters.framesRefused.Add(1)
		p.links.log.Warn("a link was ended, because a message on it made no sense", "error", err)
	}
	p.owner.lost(explain(err))
}

// deliver hands a message to its actor, which may deal with it on this goroutine.
func (p *pipe) deliver(l letter) {
	defer func() {
		if r := recover(); r != nil {
			p.links.log.Error("delivering an actor's message panicked", "actor", l.target.Id, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		}
	}()
	p.links.deliver(p.task, l)
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
		p.heartbeat.hear(now)
	}
	if r := p.reader.Load(); r != 0 {
		p.heartbeat.hear(now) // it is this side that does not listen
		if r != p.reading {
			p.reading, p.slow = r, now
		} else if now.Sub(p.slow) > timing.Silence && p.readers.Load() < maxReaders && p.reader.CompareAndSwap(r, 0) && !p.links.start(p.read) {
			close(p.ended) // the links are closed, and nobody reads any more
		}
	}
	writes, writing, err := p.out.progress()
	if !writing || writes != p.written {
		p.written, p.since = writes, now
	}
	failed := p.failed
	p.failed = err != nil
	switch {
	case p.heartbeat.lost(now):
		p.cut(fmt.Sprintf("nothing was heard from it for %v", timing.Silence))
	case failed:
		p.cut(explain(err)) // the reader would know better, but does not end
	case writing && now.Sub(p.since) > timing.Stall:
		p.cut(fmt.Sprintf("it accepted no byte of the messages to it for %v", timing.Stall))
	default:
		if p.programs != nil {
			p.giveCredits()
		}
		p.beat(now)
	}
}

// beat sends a heartbeat. It asks for an echo, unless one is due that still may come.
func (p *pipe) beat(now time.Time) {
	var flags byte
	if asked := p.asked.Load(); asked == nil || now.Sub(*asked) > p.links.timing.Silence {
		at := time.Now()
		flags = flagAsks
		p.asked.Store(&at)
	}
	if m, err := speak(kindBeat, flags, nil); (err != nil || !p.out.beat(m)) && flags != 0 {
		p.asked.Store(nil)
	}
}

// echo answers a heartbeat that asks for it, and takes the time of one that is the answer. It does not wait.
func (p *pipe) echo(flags byte) {
	if flags&flagEchoes != 0 {
		if asked := p.asked.Swap(nil); asked != nil {
			p.task.traffic.roundTrip.Store(int64(time.Since(*asked)))
		}
	}
	if flags&flagAsks != 0 {
		if m, err := speak(kindBeat, flagEchoes, nil); err == nil {
			p.out.beat(m)
		}
	}
}

// letters is how many actors' messages have passed.
func (p *pipe) letters() int64 { return p.received.Load() + p.out.letters.Load() }

// bye says goodbye after all that was posted. then, if any, is called once when it is written, or
// will not be.
func (p *pipe) bye(leaving string, then func()) {
	m, err := speak(kindGoodbye, 0, &wire.Goodbye{Leaving: leaving})
	if err != nil {
		p.links.log.Error("a goodbye could not be encoded", "error", err)
		m = nil
	}
	p.out.last(m, then)
}

// close ends the stream.
func (p *pipe) close() {
	if p.closed.Swap(true) {
		return
	}
	close(p.done)
	p.out.end(errClosed) // which may close again
	p.shut()
}

// shut closes the connection.
func (p *pipe) shut() {
	if err := p.stream.Close(); err != nil {
		p.links.log.Debug("closing a link's connection", "error", err)
	}
}
