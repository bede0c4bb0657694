package link

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Back-off between attempts to reach a peer that was never seen.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Health is what is known of a task.
type Health int

// A task was never seen, or a process of it is up, or the last one is down. A link that was
// closed because it was unused counts as down without a reason.
const (
	NeverSeen Health = iota
	Up
	Down
)

// State is what is known of the link to a task.
type State struct {
	Health Health
	Boot   uint64    // boot ID of the process that was seen last
	Since  time.Time // start of the current Health
	Reason string    // for Down and NeverSeen: the last failure, if any
	// Accepted is the time at which the link that the task opened came into use; zero without one. Its traffic is included in the
	// counts below. It does not affect Health, which describes the end that sends tensors. AcceptedBoot is its process's boot ID.
	Accepted     time.Time
	AcceptedBoot uint64
	// Queued is the number of tensor bytes that wait to be sent to the task. Stalled is how long it has accepted
	// none of them, if that is too long. Both are set only while Up.
	Queued  int64
	Stalled time.Duration
	// Counts since the task's start: actors' messages, and the bytes of tensors in and beside them, shared memory included.
	MessagesSent, MessagesReceived, BytesSent, BytesReceived int64
	// RoundTrip is that of the last echoed heartbeat, over a link opened by either end; 0 if there was none.
	RoundTrip time.Duration
}

// link represents one other task: the current peer, or the attempt to reach it.
type link struct {
	links    *Links
	task     spec.Task
	declared bool // by this task's cluster spec; else learned from other tasks

	// Messages to the task's actors go over own, which this side opened, or accepted, which the
	// task opened.
	own, accepted atomic.Pointer[pipe]
	watches       watches
	unlinking     atomic.Bool // messages wait for a link
	traffic       traffic

	mu      sync.Mutex
	peer    *Peer
	attempt *attempt
	seen    bool
	boot    uint64
	since   time.Time // first attempt, or last change between up and down
	reason  string    // why it is down, or why the last attempt failed
	// Messages that wait for a link.
	unlinked []unlinked
}

// attempt is shared by all callers that wait for the same peer.
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
		s.Accepted, s.AcceptedBoot = p.opened, p.boot
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

// unreached returns the error for a peer that cannot be used now. why is the reason for the latest failure.
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
	ctx, cancel := distance.Within(k.links.ctx, bound)
	defer cancel()
	var p *Peer
	var err error
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		p, err = k.open(ctx)
		if err == nil || seen || isPermanent(err) {
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
	k.endAttempt(a, p, err)
}

func (k *link) endAttempt(a *attempt, p *Peer, err error) {
	if err != nil && !isPermanent(err) {
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
	k.links.changed(k.task.Name())
}

// gone removes a peer that is down from the link.
func (k *link) gone(p *Peer, reason string, since time.Time) {
	k.mu.Lock()
	if k.peer == p {
		k.peer, k.reason, k.since = nil, reason, since
		k.own.Store(nil)
	}
	k.mu.Unlock()
	k.links.changed(k.task.Name())
}

// missed records the loss of a process that had opened a link to this side while this side had none to it.
func (k *link) missed(boot uint64, reason string, since time.Time) {
	k.mu.Lock()
	if k.peer == nil && k.accepted.Load() == nil {
		k.seen, k.boot, k.reason, k.since = true, boot, reason, since
	}
	k.mu.Unlock()
	k.links.changed(k.task.Name())
}

// detachPeer removes a peer that is up from the link if mayGo reports true, so it is no longer handed out. Its error will be why's.
func (k *link) detachPeer(p *Peer, why func() error, mayGo func() bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.leaving || !mayGo() {
		return false
	}
	p.leaving, p.parting = true, why()
	if k.peer == p {
		k.peer, k.reason, k.since = nil, "", time.Now()
		k.own.Store(nil)
	}
	return true
}

// explain returns the part of a connection's error that matters to people.
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
