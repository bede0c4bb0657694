package link

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Back-off between the attempts to reach a peer that was never seen.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Health is what is known of a task.
type Health int

// A task was never seen, or a process of it is up, or the last one is down. A link that was
// closed because nobody needed it counts as down without a reason.
const (
	NeverSeen Health = iota
	Up
	Down
)

// State is what is known of the link to a task.
type State struct {
	Health Health
	Boot   uint64    // of the process that was seen last
	Since  time.Time // of the health
	Reason string    // of Down and NeverSeen: the last failure, if there was one
	// Accepted is since when a link that the task opened is used, whose bytes and messages received are counted below; zero
	// without one. It says nothing of the health, which is that of the end that sends tensors.
	Accepted time.Time
	// Queued are the bytes of tensors that wait to be sent to it, Stalled how long it has taken
	// none of them, where that is too long: both of Up.
	Queued  int64
	Stalled time.Duration
	// Since the task's start, of actors' messages and of the bytes of tensors in and beside them, those in shared memory included.
	MessagesSent, MessagesReceived, BytesSent, BytesReceived int64
	// RoundTrip is that of the last heartbeat that had an echo, over a link of either end; 0 if there was none.
	RoundTrip time.Duration
}

// link is one other task: the current peer, or the attempt to reach it.
type link struct {
	links *Links
	task  spec.Task

	// Where messages to the task's actors go: the end that this side opened, and the one that the
	// task did.
	own, accepted atomic.Pointer[pipe]
	watches       watches
	unlinking     atomic.Bool // some wait for a link
	traffic       traffic

	mu      sync.Mutex
	peer    *Peer
	attempt *attempt
	seen    bool
	boot    uint64
	since   time.Time // of the first attempt, or of the last change between up and down
	reason  string    // why it is down, or why the last attempt failed
	// Messages that wait for a link.
	unlinked []unlinked
}

// attempt is shared by all who wait for the same peer.
type attempt struct {
	done chan struct{}
	peer *Peer
	err  error
}

func (k *link) reached() *Peer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.peer != nil {
		k.peer.touch()
	}
	return k.peer
}

func (k *link) state() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &k.traffic
	s := State{Boot: k.boot, Since: k.since, Reason: k.reason, MessagesSent: t.messagesSent.Load(), MessagesReceived: t.messagesReceived.Load(),
		BytesSent: t.bytesSent.Load(), BytesReceived: t.bytesReceived.Load(), RoundTrip: time.Duration(t.roundTrip.Load())}
	if p := k.accepted.Load(); p != nil {
		s.Accepted = p.opened
	}
	switch {
	case k.peer != nil:
		s.Health = Up
		s.Queued, s.Stalled = k.peer.backlog()
	case k.seen:
		s.Health = Down
	}
	return s
}

func (k *link) ensure(ctx context.Context) (*Peer, error) {
	k.mu.Lock()
	if p := k.peer; p != nil {
		p.touch()
		k.mu.Unlock()
		return p, nil
	}
	a := k.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{})}
		if !k.links.start(func() { k.connect(a) }) {
			k.mu.Unlock()
			return nil, errClosed
		}
		if k.since.IsZero() {
			k.since = time.Now()
		}
		k.attempt = a
	}
	k.mu.Unlock()
	select {
	case <-a.done:
		return a.peer, a.err
	case <-ctx.Done():
		if status.CodeOf(ctx.Err()) == status.Cancelled {
			return nil, status.From(ctx.Err())
		}
		return nil, k.unreached("the caller's deadline came first")
	}
}

// unreached is the error of a peer that cannot be used now. why is of the latest failure.
func (k *link) unreached(why string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.seen {
		return status.Errorf(status.Unavailable, "worker %v has not been reached since %s: %s", k.task, stamp(k.since), why)
	}
	if k.reason != "" && k.reason != why {
		why = k.reason + "; connecting again failed: " + why
	}
	return status.Errorf(status.Unavailable, "worker %v was lost: %s, since %s", k.task, why, stamp(k.since))
}

// connect tries to reach the peer and settles the attempt.
func (k *link) connect(a *attempt) {
	k.mu.Lock()
	seen := k.seen
	k.mu.Unlock()
	bound := k.links.timing.First
	if seen {
		bound = k.links.timing.Again
	}
	ctx, cancel := context.WithTimeout(k.links.ctx, bound)
	defer cancel()
	var p *Peer
	var err error
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		p, err = k.open(ctx)
		if err == nil || seen || misfit(err) {
			break
		}
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
			continue
		case <-ctx.Done():
			wait.Stop()
		}
		break
	}
	k.settle(a, p, err)
}

func (k *link) settle(a *attempt, p *Peer, err error) {
	if err != nil && !misfit(err) {
		why := explain(err)
		if k.links.ctx.Err() != nil {
			err = errClosed
		} else {
			err = k.unreached(why)
		}
		k.mu.Lock()
		if !k.seen || k.reason == "" {
			k.reason = why
		}
		k.mu.Unlock()
	}
	k.mu.Lock()
	k.attempt = nil
	if err == nil {
		k.peer, k.seen, k.boot, k.since, k.reason = p, true, p.Boot(), p.since, ""
		k.own.Store(p.pipe)
	}
	a.peer, a.err = p, err
	k.mu.Unlock()
	if err == nil {
		p.run()
	}
	close(a.done)
}

// gone takes a peer that is down off the link.
func (k *link) gone(p *Peer, reason string, since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.peer == p {
		k.peer, k.reason, k.since = nil, reason, since
		k.own.Store(nil)
	}
}

// retire takes a peer that is up off the link if it may go, so that nobody is given it any more.
func (k *link) retire(p *Peer, mayGo func() bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.leaving || !mayGo() {
		return false
	}
	p.leaving = true
	if k.peer == p {
		k.peer, k.reason, k.since = nil, "", time.Now()
		k.own.Store(nil)
	}
	return true
}

// explain takes from an error of a connection what a person wants to know.
func explain(err error) string {
	err = wire.FromGRPC(err)
	text := status.From(err).Message
	if i := strings.LastIndex(text, "desc = "); i >= 0 {
		text = text[i+len("desc = "):]
		if s, err := strconv.Unquote(text); err == nil {
			text = s
		}
	}
	text = strings.TrimPrefix(text, "transport: ")
	text = strings.TrimPrefix(text, "Error while dialing: ")
	switch {
	case strings.HasSuffix(text, "EOF"), strings.HasSuffix(text, "connection reset by peer"), strings.HasSuffix(text, "broken pipe"):
		return "the connection broke (" + text + ")"
	case status.CodeOf(err) == status.DeadlineExceeded, status.CodeOf(err) == status.Cancelled:
		return "it did not answer"
	}
	return strings.TrimSuffix(text, ".")
}
