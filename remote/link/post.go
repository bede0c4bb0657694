package link

import (
	"context"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/wire"
)

// PostMethod is the method of the streams that carry messages which may wait.
const PostMethod = "/" + serviceName + "/Post"

// postWindow is how many bytes of them may wait to be written for a peer.
const postWindow = 4 << 20

// post carries messages that may wait to a peer: a stream like the link's own, on a connection of its own,
// so that the link's messages do not stand behind them. It is there from the first such message on, and
// ends with the peer; when it breaks so does the link, so that nobody waits for what was lost.
type post struct {
	peer  *Peer
	ready chan struct{} // closed when pipe or err is there

	mu      sync.Mutex
	pipe    *pipe
	err     error
	stopped bool
}

var _ end = (*post)(nil)

// Post sends a message to the actor of that name on the peer's task, beside the link's own messages. Those
// that are posted one after another arrive in order, or not at all. It waits, until ctx ends, while
// 4 MiB of them wait for the peer. UNAVAILABLE when the peer is down.
func (p *Peer) Post(ctx context.Context, name string, m proto.Message) error {
	way, err := p.way(ctx)
	if err != nil {
		return err
	}
	p.touch()
	o, err := encode(p.link.links.self.Address, actor.NewPID(p.Address(), name), m, nil, false)
	if err != nil {
		return err
	}
	if way.out.postWithin(ctx, o, postWindow) {
		return nil
	}
	o.free()
	if err := p.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return status.From(err)
	}
	return p.link.unreached("its link has just broken")
}

// way is the pipe of the peer's post, which the first who asks lets be opened.
func (p *Peer) way(ctx context.Context) (*pipe, error) {
	p.mu.Lock()
	if p.err != nil {
		defer p.mu.Unlock()
		return nil, p.err
	}
	b := p.post
	if b == nil {
		b = &post{peer: p, ready: make(chan struct{})}
		if !p.link.links.start(b.open) {
			p.mu.Unlock()
			return nil, errClosed
		}
		p.post = b
	}
	p.mu.Unlock()
	select {
	case <-b.ready:
		return b.pipe, b.err
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	}
}

// open makes the stream, and lets it be read: heartbeats come back on it.
func (b *post) open() {
	l, k := b.peer.link.links, b.peer.link
	h, err := k.shake(l.ctx, PostMethod)
	if err == nil && h.id.GetBoot() != b.peer.Boot() {
		err = status.New(status.Unavailable, "another process is there")
		if e := h.stream.Close(); e != nil {
			l.log.Debug("closing a connection", "error", e)
		}
	}
	if err != nil {
		why := explain(err)
		b.err = k.unreached(why)
		close(b.ready)
		b.lost(why)
		return
	}
	b.mu.Lock()
	b.pipe = newPipe(l, h.stream, h.in, h.out, b)
	stopped := b.stopped
	b.mu.Unlock()
	close(b.ready)
	if stopped || !l.start(b.pipe.read) {
		b.pipe.close()
		return
	}
	l.clock.add(b.pipe)
}

// stop ends the post with its peer.
func (b *post) stop() {
	b.mu.Lock()
	b.stopped = true
	way := b.pipe
	b.mu.Unlock()
	if way != nil {
		b.peer.link.links.clock.remove(way)
		way.close()
	}
}

func (b *post) lost(why string) { b.peer.pipe.cut("its actors could not be sent messages: " + why) }

// left is not news: the peer says goodbye on its link too.
func (b *post) left(string) {}

// postman is the other end of a post.
type postman struct{ *pipe }

// posted serves the post of another task.
func (l *Links) posted(_ context.Context, s Stream) {
	var in *inbound
	if !l.inTime(s, func() (err error) { in, _, _, err = l.greet(s); return err }) {
		return
	}
	m, err := speak(kindWelcome, &wire.Welcome{Identity: l.self})
	if err != nil {
		l.log.Error("a welcome could not be encoded", "error", err)
		return
	}
	p := &postman{}
	p.pipe = newPipe(l, s, in, newOutbound(s, &l.counters, l.start), p)
	p.out.post(m)
	defer p.close()
	if !l.start(p.read) {
		return
	}
	l.clock.add(p.pipe)
	defer l.clock.remove(p.pipe)
	select {
	case <-p.done:
	case <-l.ctx.Done():
	}
}

// lost is told when the other end is gone, which the link tells too, or is frozen.
func (p *postman) lost(string) { p.close() }

func (p *postman) left(string) { p.close() }
