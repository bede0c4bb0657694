package link

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/internal/distance"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Back-off between attempts to reach a peer that was never seen.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// tellAwaited is how often it is logged that a peer that was never seen is awaited.
const tellAwaited = 10 * time.Second

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
	// Awaited are the callers that wait for a task that was never seen, as view.Waiter describes them, and Until is how long they do.
	Awaited []string
	Until   time.Time
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
	// Messages to programs' actors of the task go over way, until it has ended. The task may have opened back, a stream that carries them in
	// both directions.
	way  way
	back *programs
}

// way is a cast.Way: a Peer, or a stream that the task has opened.
type way interface {
	cast.Way
	// settled returns a channel that is closed when the other end has read everything that was posted on a way that has ended. Nothing is
	// posted on another one before: it would overtake. It is nil if nothing needs to be waited for.
	settled() <-chan struct{}
}

// attempt is shared by all callers that wait for the same peer.
type attempt struct {
	done  chan struct{}
	peer  *Peer
	err   error
	began time.Time

	// Guarded by link.mu.
	waiters  map[string]int // how many callers wait, by what view.Waiter says of them
	why      string         // why the last try failed
	programs bool           // a caller has messages for programs' actors
	once     bool           // no caller waits for a peer that does not answer now
}

// purpose is a set of what a caller needs a peer for.
type purpose int

const (
	forMail purpose = 1 << iota // messages to programs' actors
	once                        // to know whether it is up: an attempt that fails is not repeated

	anything purpose = 0
)

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
	if p := k.accepted.Load(); p != nil && p.heard.Load() {
		s.Accepted, s.AcceptedBoot = p.opened, p.boot
	}
	switch {
	case k.peer != nil:
		s.Health = Up
		s.Queued, s.Stalled = k.peer.backlog()
	case k.seen:
		s.Health = Down
	case k.attempt != nil:
		s.Awaited, s.Until = k.attempt.waiting(), k.links.giveUp(k.attempt)
	}
	return s
}

// waiting describes the callers that wait for the attempt. link.mu is held.
func (a *attempt) waiting() []string { return slices.Sorted(maps.Keys(a.waiters)) }

// giveUp returns when an attempt to reach a peer that was never seen fails at the latest.
func (l *Links) giveUp(a *attempt) time.Time {
	if first := a.began.Add(l.timing.First); first.After(l.startup) {
		return first
	}
	return l.startup
}

// Unseen reports whether no process of a task has ever been seen, and the task is waited for until it comes.
func (l *Links) Unseen(task string) bool {
	k := l.link(task)
	return k != nil && time.Now().Before(l.startup) && k.unseen()
}

// unseen reports whether no process of the task has ever been seen.
func (k *link) unseen() bool {
	k.mu.Lock()
	seen := k.seen || k.peer != nil
	k.mu.Unlock()
	return !seen && k.accepted.Load() == nil && (k.links.config.Seen == nil || !k.links.config.Seen(k.task.Name()))
}

func (k *link) ensure(ctx context.Context, what purpose) (*Peer, error) {
	k.mu.Lock()
	if p := k.peer; p != nil {
		p.touch()
		k.mu.Unlock()
		return p, nil
	}
	a := k.attempt
	if a == nil {
		a = &attempt{done: make(chan struct{}), began: time.Now(), waiters: map[string]int{}, programs: what&forMail != 0, once: what&once != 0}
		if !k.links.start(func() { k.connect(a) }) {
			k.mu.Unlock()
			return nil, errClosed
		}
		if k.since.IsZero() {
			k.since = a.began
		}
		k.attempt = a
	}
	a.programs = a.programs || what&forMail != 0
	a.once = a.once && what&once != 0
	who := view.Waiter(ctx)
	if what&once == 0 {
		a.waiters[who]++
	}
	k.mu.Unlock()
	select {
	case <-a.done:
		return a.peer, a.err
	case <-ctx.Done():
		k.mu.Lock()
		if what&once == 0 {
			if a.waiters[who]--; a.waiters[who] == 0 {
				delete(a.waiters, who)
			}
		}
		why := a.why
		k.mu.Unlock()
		if status.CodeOf(ctx.Err()) == status.Cancelled {
			return nil, status.From(ctx.Err())
		}
		if why != "" {
			why += ", and "
		}
		return nil, k.unreached(why + "the caller's deadline came first")
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
	if seen {
		ctx, cancel := distance.Within(k.links.ctx, k.links.timing.Again)
		defer cancel()
		p, err := k.open(ctx, k.wants(a))
		k.endAttempt(a, p, err)
		return
	}
	p, err := k.connectFirst(a)
	k.endAttempt(a, p, err)
}

// connectFirst tries to reach a peer that was never seen, until it comes or it is no longer waited for.
func (k *link) connectFirst(a *attempt) (p *Peer, err error) {
	l := k.links
	ctx, cancel := distance.Within(l.ctx, time.Until(l.giveUp(a)))
	defer cancel()
	hopeful := a.began // when there was last reason to believe that the peer may come
	told := a.began    // when the wait was last logged
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		p, err = k.open(ctx, k.wants(a))
		if err == nil || isPermanent(err) || k.isOnce(a) {
			return p, err
		}
		now := time.Now()
		if !isWrongAddress(err) && k.unseen() && k.isAwaited(a) {
			hopeful = now
		}
		k.failedTry(a, explain(err))
		if now.Sub(told) >= tellAwaited {
			told = now
			k.logAwaited(a)
		}
		left := l.timing.First - now.Sub(hopeful)
		if ctx.Err() != nil || left <= 0 {
			return nil, err
		}
		wait := time.NewTimer(min(pause, left))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, err
		}
	}
}

// wants reports whether a caller has messages for programs' actors.
func (k *link) wants(a *attempt) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return a.programs
}

// isOnce reports whether the attempt ends with its first try. Then it is no longer the link's, so that later callers begin another one.
func (k *link) isOnce(a *attempt) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a.once {
		k.attempt = nil
	}
	return a.once
}

// isAwaited reports whether a caller waits for the attempt.
func (k *link) isAwaited(a *attempt) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(a.waiters) > 0
}

// failedTry records why the last try of an attempt failed.
func (k *link) failedTry(a *attempt, why string) {
	k.mu.Lock()
	changed := a.why != why
	a.why = why
	if !k.seen {
		k.reason = why
	}
	k.mu.Unlock()
	if changed {
		k.links.changed(k.task.Name())
	}
}

// logAwaited logs which callers wait for a peer that was never seen, if any.
func (k *link) logAwaited(a *attempt) {
	k.mu.Lock()
	by, since, why := a.waiting(), k.since, a.why
	k.mu.Unlock()
	if len(by) == 0 {
		return
	}
	l := k.links
	l.log.Info("a task that has never been seen is awaited", "task", k.task.Name(), "address", k.task.Address, "by", view.Several(by),
		"since", stamp(since), "until", stamp(l.giveUp(a)), "reason", why)
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
	if k.attempt == a {
		k.attempt = nil
	}
	programs := a.programs
	if err == nil {
		k.peer, k.seen, k.boot, k.since, k.reason = p, true, p.Boot(), p.since, ""
		k.own.Store(p.pipe)
	}
	a.peer, a.err = p, err
	k.mu.Unlock()
	if err == nil {
		p.run()
		if programs {
			p.beginPosting()
		}
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
