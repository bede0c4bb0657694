package cast

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph/status"
)

// A process outside the cluster that speaks the actor system's own remote protocol is named by
// its address in place of a task: Ref{"host:port", "name"}. Programs' actors can send to its actors, ask
// and watch them, and vice versa. It cannot spawn or end actors here, and can reach only those of
// the program.

const (
	// maxOutsiders bounds the addresses outside the cluster to which messages are sent.
	maxOutsiders = 1 << 10
	// outsiderPatience bounds how long a message from outside waits for room in its actor's queue. All later
	// messages from the same process wait behind it.
	outsiderPatience = 30 * time.Second
	// watchPrefix begins the names to which the end of a watched actor outside is reported. Like the names of
	// requests, they do not name actors.
	watchPrefix = "?w-"
)

// Outside reports whether a Ref's task is the address of a process outside the cluster.
func Outside(task string) bool { return strings.IndexByte(task, ':') > 0 && task[0] != '/' }

// lane returns the lane of a task, or of an address outside the cluster; nil if there is none.
func (s *Cast) lane(task string) *lane {
	if l := s.lanes[task]; l != nil || !s.config.Outsiders || !Outside(task) {
		return l
	}
	s.outsidersMu.Lock()
	defer s.outsidersMu.Unlock()
	l := s.outsiders[task]
	if l == nil && len(s.outsiders) < maxOutsiders && checkAddress(task) == nil {
		l = &lane{}
		s.outsiders[task] = l
	}
	return l
}

// checkAddress rejects text that is not host:port.
func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, numeric := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || numeric != nil || n == 0 {
		return status.InvalidArgumentf("%q is neither a task of the cluster nor the host:port of a process outside it", address)
	}
	return nil
}

// unknown returns the error for a Ref's task without a lane.
func (s *Cast) unknown(task string) error {
	switch {
	case !Outside(task):
		return status.InvalidArgumentf("%s is not a task of the cluster", task)
	case !s.config.Outsiders:
		return status.Errorf(status.FailedPrecondition, "%s is outside the cluster, and this server does not admit such processes", task)
	}
	if err := checkAddress(task); err != nil {
		return err
	}
	return status.Errorf(status.ResourceExhausted, "There are %d processes outside the cluster already, which is the limit", maxOutsiders)
}

// OutsideName returns the name, in a Ref, of an actor outside, with the number of a request if it has one.
func OutsideName(name string, request uint32) string {
	if request == 0 && !strings.Contains(name, "#") {
		return name
	}
	return name + "#" + strconv.FormatUint(uint64(request), 10)
}

// splitName splits a name that OutsideName has made.
func splitName(name string) (string, uint32) {
	i := strings.LastIndexByte(name, '#')
	if i < 0 {
		return name, 0
	}
	n, err := strconv.ParseUint(name[i+1:], 10, 32)
	if err != nil {
		return name, 0
	}
	return name[:i], uint32(n)
}

// ReceiveOutside accepts the letters of a process outside the cluster. While an actor's queue is full, it waits, for
// a bounded time and until ctx ends.
func (s *Cast) ReceiveOutside(ctx context.Context, address string, letters []Letter) {
	for i := range letters {
		s.receiveOutside(ctx, address, &letters[i])
	}
}

func (s *Cast) receiveOutside(ctx context.Context, address string, m *Letter) {
	sender := Ref{address, m.From}
	if m.From == "" {
		sender = Ref{}
	}
	c := content{kind: m.Kind, data: m.Data}
	if m.Kind.System || isAsk(m.To) && m.Kind.Name == deadLetter {
		message, err := c.open()
		if err != nil {
			s.refuse(Ref{s.config.Self, m.To}, sender, err)
			return
		}
		s.hearOutside(address, m, sender, message)
		return
	}
	if isAsk(m.To) {
		s.settleFrom(address, m.To, c, nil)
		return
	}
	i := item{sender: sender, content: c, size: len(m.Data), trace: s.known(m.Trace)}
	ctx = ForClient(ctx, Client{Name: address})
	err := s.put(ctx, m.To, i, false)
	if status.CodeOf(err) == status.ResourceExhausted {
		patience, cancel := context.WithTimeout(ctx, outsiderPatience)
		err = s.put(patience, m.To, i, true)
		cancel()
	}
	if err != nil {
		s.refuse(Ref{s.config.Self, m.To}, sender, err)
	}
}

// deadLetter is the type of message that reports to a sender that there is no such actor.
const deadLetter = "actor.DeadLetterResponse"

// hearOutside handles a message of the actor system: those that watching needs, and no others.
func (s *Cast) hearOutside(address string, m *Letter, sender Ref, message proto.Message) {
	switch message := message.(type) {
	case *actor.DeadLetterResponse:
		s.settleFrom(address, m.To, content{}, status.Errorf(status.NotFound, "There is no actor %s at %s", message.GetTarget().GetId(), address))
	case *actor.Watch:
		if message.GetWatcher().GetAddress() == address {
			s.watchedOutside(m.To, message.GetWatcher())
			return
		}
		s.config.Refused(m.To, m.Kind.Name, address)
	case *actor.Unwatch:
		if p, err := s.find(m.To); err == nil {
			if r := p.rare.Load(); r != nil {
				p.mu.Lock()
				delete(r.outsiders, Ref{address, message.GetWatcher().GetId()})
				p.mu.Unlock()
			}
		}
	case *actor.Terminated:
		id, err := strconv.ParseUint(strings.TrimPrefix(m.To, watchPrefix), 36, 64)
		if err != nil || !strings.HasPrefix(m.To, watchPrefix) {
			s.config.Refused(m.To, m.Kind.Name, address)
			return
		}
		ref := Ref{address, message.GetWho().GetId()}
		var why error
		switch message.GetWhy() {
		case actor.TerminatedReason_NotFound:
			why = status.Errorf(status.NotFound, "There is no actor %s at %s", ref.Name, address)
		case actor.TerminatedReason_AddressTerminated:
			why = status.Errorf(status.Unavailable, "%s has closed its connection", address)
		}
		s.ended(ref, id, why)
	default:
		s.config.Refused(m.To, m.Kind.Name, address)
		s.deadLetter(m.To, sender)
	}
}

// settleFrom passes an answer to its request, if that waits for one from this sender.
func (s *Cast) settleFrom(address, name string, c content, err error) {
	s.mu.Lock()
	a := s.asks[name]
	if a == nil || a.task != address {
		s.mu.Unlock()
		return
	}
	delete(s.asks, name)
	s.mu.Unlock()
	a.settle(c, err)
}

// deadLetter reports to a sender outside that its message reached no actor.
func (s *Cast) deadLetter(name string, sender Ref) {
	if !Outside(sender.Task) {
		return
	}
	s.tellOutside(sender, &actor.DeadLetterResponse{Target: s.pid(name)})
}

func (s *Cast) pid(name string) *actor.PID { return actor.NewPID(s.config.Address, name) }

// tellOutside sends a message to an actor outside without blocking.
func (s *Cast) tellOutside(to Ref, m proto.Message) {
	s.errand(to.Task, func(ctx context.Context) {
		if err := s.postTo(ctx, Ref{}, to, m, 0, true); err != nil {
			s.log.Debug("a process outside the cluster could not be notified", "address", to.Task, "actor", to.Name, "error", err)
		}
	})
}

var letters = sync.Pool{New: func() any { return new(Letter) }}

// postTo posts a message to an actor of another process. A size of 0 means unknown.
func (s *Cast) postTo(ctx context.Context, from, to Ref, m proto.Message, size int, wait bool) error {
	l := letters.Get().(*Letter)
	l.To, l.From, l.Message, l.Size = to.Name, from.Name, m, size
	if Outside(to.Task) {
		l.To, l.ToRequest = splitName(to.Name)
	}
	err := s.post(ctx, to.Task, l, wait)
	*l = Letter{}
	letters.Put(l)
	return err
}

// watchedOutside makes an actor outside a watcher of one of this task.
func (s *Cast) watchedOutside(name string, watcher *actor.PID) {
	p, err := s.find(name)
	if err == nil {
		p.mu.Lock()
		if p.ended {
			err = p.over()
		} else {
			r := p.needRare()
			if r.outsiders == nil {
				r.outsiders = map[Ref]struct{}{}
			}
			if len(r.outsiders) < maxOutsiders {
				r.outsiders[Ref{watcher.GetAddress(), watcher.GetId()}] = struct{}{}
			}
		}
		p.mu.Unlock()
	}
	if err != nil {
		s.tellOutside(Ref{watcher.GetAddress(), OutsideName(watcher.GetId(), 0)}, &actor.Terminated{Who: s.pid(name), Why: actor.TerminatedReason_NotFound})
	}
}

// terminated notifies watchers outside of an actor's end.
func (s *Cast) terminated(name string, watchers map[Ref]struct{}) {
	for w := range watchers {
		s.tellOutside(Ref{w.Task, OutsideName(w.Name, 0)}, &actor.Terminated{Who: s.pid(name)})
	}
}

// watchOutside asks a process outside to report an actor's end.
func (s *Cast) watchOutside(ctx context.Context, ref Ref, id uint64) error {
	watcher := s.pid(watchPrefix + strconv.FormatUint(id, 36))
	return s.postTo(ctx, Ref{}, ref, &actor.Watch{Watcher: watcher}, 0, true)
}
