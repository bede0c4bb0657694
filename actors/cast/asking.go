package cast

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/internal/roles"
)

// asking describes a request for listings. It is empty for the cast's own requests.
type asking struct {
	by       *performer // nil if it is no actor, or none that is known
	blocks   bool       // the actor handles nothing else meanwhile
	to       string     // the actor that is asked
	kind     string     // the message's type
	began    time.Time
	forwards Ref // the request that it passes on, if it does
}

// messageType returns the name of a message's type, as those who sent it know it.
func messageType(message proto.Message) string {
	if message == nil {
		return ""
	}
	if v, ok := message.(*wire.Value); ok {
		return v.GetType()
	}
	return string(message.ProtoReflect().Descriptor().FullName())
}

// AskStatus is a request that somebody on the task waits for.
type AskStatus struct {
	ID       string // unique among those of the task
	By       string // the actor that asks; empty for the program, and for a client
	Blocks   bool   // the actor handles nothing else meanwhile
	To       Ref
	Type     string // of the message
	Began    time.Time
	Forwards Ref // the task and the ID of the request that it passes on, if it does
}

// Asks returns the requests to actors that somebody on the task waits for, the oldest first, at most limit of them, and how many there are.
func (s *Cast) Asks(limit int) (list []AskStatus, all int) {
	s.mu.Lock()
	for name, a := range s.asks {
		if a.began.IsZero() {
			continue
		}
		st := AskStatus{ID: name, Blocks: a.blocks && a.by != nil, To: Ref{a.task, a.to}, Began: a.began, Forwards: a.forwards, Type: a.kind}
		if a.by != nil {
			st.By = a.by.name
		}
		list = append(list, st)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b AskStatus) int { return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.ID, b.ID)) })
	return list[:min(limit, len(list))], len(list)
}

// The states of a request that an actor has.
const (
	RequestQueued    = "queued"
	RequestAnswering = "answering"
	RequestKept      = "kept"
)

// HeldStatus is a request that an actor of the task has and has not answered.
type HeldStatus struct {
	Asker Ref // the task that asks, and the AskStatus.ID there
	Actor roles.Status
	State string // one of the constants above
}

// Held returns the requests that actors of the task have not answered, in the order of their askers, at most limit of them, and how many there
// are.
func (s *Cast) Held(limit int) (list []HeldStatus, all int) {
	type request struct {
		asker Ref
		by    *performer
		state string
	}
	var found []request
	s.mu.Lock()
	for asker, h := range s.asked {
		q := request{asker, h.by, RequestQueued}
		if r := h.by.answering.Load(); r != nil && r.asker == asker {
			q.state = RequestAnswering
		} else if h.life != nil {
			q.state = RequestKept
		}
		found = append(found, q)
	}
	s.mu.Unlock()
	slices.SortFunc(found, func(a, b request) int {
		return cmp.Or(strings.Compare(a.asker.Task, b.asker.Task), strings.Compare(a.asker.Name, b.asker.Name))
	})
	for _, h := range found[:min(limit, len(found))] {
		list = append(list, HeldStatus{h.asker, h.by.status(), h.state})
	}
	return list, len(found)
}
