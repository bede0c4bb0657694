package member

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/remote/access"
	"github.com/troupe-run/troupe/remote/internal/caller"
	"github.com/troupe-run/troupe/remote/internal/http2"
	"github.com/troupe-run/troupe/remote/internal/wire"
)

var _ wire.OperatorServer = (*Member)(nil)

// Roles are what operators ask of the task's roles, and of those of other tasks, which answer within ctx.
type Roles interface {
	// Name is the task's name.
	Name() string
	// See returns the state of the task, and Ask that of another one.
	See(q *view.Query) *view.Task
	Ask(ctx context.Context, task string, q *view.Query) (*view.Task, error)
	// Graph returns a page of the graph of a session whose master is the task, and AskGraph one of the session's task in the query.
	Graph(q *view.GraphQuery) *view.Graph
	AskGraph(ctx context.Context, q *view.GraphQuery) (*view.Graph, error)
	// AskTrace opens, reads or closes a window of a trace on a task, which may be this one.
	AskTrace(ctx context.Context, task string, q *view.TraceQuery) (*view.TaskTrace, error)
	// CancelStep cancels a step whose master is the given task, which may be this one. If owner is not empty, only that owner's steps are cancelled.
	// known reports whether the master runs the step.
	CancelStep(ctx context.Context, task string, step uint64, by, owner string) (session string, known, cancelled bool, err error)
	// Drain asks a task to end, which may be this one.
	Drain(ctx context.Context, task string, within time.Duration, by string) error
}

// Work is what a member does besides hosting the program's actors.
type Work struct {
	Roles Roles
	// Guests, if not nil, returns the tasks in this process of clusters that clients declared, as their masters.
	Guests func() []Roles
	// Device, if not nil, returns the state of the device that an actor of a kind owns; nil if it owns none.
	Device func(kind, actor string) *wire.DeviceState
	// Unknown, if not nil, returns the error of calls of a method that the task does not serve; nil for the usual one. Anybody may call such methods.
	Unknown func(method string) error
}

func (w *Work) guests() []Roles {
	if w.Guests == nil {
		return nil
	}
	return w.Guests()
}

// MayList rejects callers that may not see the server's state. In the returned context, they see only what they may use.
func (m *Member) MayList(ctx context.Context) (context.Context, error) {
	who, err := caller.Of(ctx, m.config.Guard)
	if err == nil {
		err = who.May(access.ListState)
	}
	return access.WithRights(ctx, who.Rights()), err
}

// maxLooks bounds the calls that look at tasks at the same time, of which half may be one client's: an answer may take tens of megabytes, here and on each
// task that is asked for its part. Others wait for their turn.
const maxLooks = 8

// mayLook waits until the call whose context is ctx may look at tasks; leave ends that.
func (m *Member) mayLook(ctx context.Context) (leave func(), err error) {
	p, _ := http2.PeerOf(ctx)
	return m.looks.Enter(ctx, http2.ClientOf(p))
}

// mayUseActors rejects callers outside the cluster that may not use the program's actors.
func (m *Member) mayUseActors(ctx context.Context) error { return m.may(ctx, access.UseActors) }

func (m *Member) may(ctx context.Context, a access.Action) error {
	who, err := caller.Of(ctx, m.config.Guard)
	if err == nil {
		err = who.May(a)
	}
	return err
}

// ClusterStatus returns Status as a message, after looking for tasks that this one has not learned of yet, for at most 2 s.
func (m *Member) ClusterStatus(ctx context.Context) *wire.ClusterStatus {
	by := access.Looker(ctx)
	out := &wire.ClusterStatus{Task: m.self.Name(), Spec: m.SpecForOthers().String(), Exposed: m.Exposed()}
	for _, s := range m.LocateAll(ctx) {
		t := &wire.TaskStatus{Task: s.Task, Address: s.Address, State: s.State, Reason: s.Reason, Boot: s.Boot}
		if !s.Since.IsZero() {
			t.Since = s.Since.UnixNano()
		}
		for _, d := range s.Devices {
			if by.ShowsDevice(d.Name) {
				t.Devices = append(t.Devices, wire.DeviceOf(d))
			}
		}
		out.Tasks = append(out.Tasks, t)
	}
	return out
}

// CancelStep cancels a step, wherever its master is: it asks all tasks that can be reached. A caller that may not cancel others' steps may
// cancel those of its own sessions. It waits for at most 2 s.
func (m *Member) CancelStep(ctx context.Context, q *wire.CancelStepRequest) (*wire.CancelStepAnswer, error) {
	who, err := caller.Of(ctx, m.config.Guard)
	if err != nil {
		return nil, err
	}
	return m.cancelAs(ctx, &who, who.NameOf(ctx), q.GetStep())
}

// Cancel is CancelStep for a caller that does not come over the task's port. It returns the name of the step's session and the task that is
// its master.
func (m *Member) Cancel(ctx context.Context, by access.Peer, step uint64) (session, master string, err error) {
	who, err := caller.At(by, m.config.Guard)
	if err != nil {
		return "", "", err
	}
	a, err := m.cancelAs(ctx, &who, who.NameAt(by.Address), step)
	return a.GetSession(), a.GetMaster(), err
}

// MaxDrain bounds how long a draining task may allow its steps to run.
const MaxDrain = time.Hour

// DrainTask makes a task of the cluster end. It waits at most 2 s for the task's answer, and does not wait for its end.
func (m *Member) DrainTask(ctx context.Context, q *wire.DrainRequest) (*wire.DrainAnswer, error) {
	who, err := caller.Of(ctx, m.config.Guard)
	if err != nil {
		return nil, err
	}
	return &wire.DrainAnswer{}, m.drainAs(ctx, &who, who.NameOf(ctx), q.GetTask(), time.Duration(q.GetWithin()))
}

// Drain is DrainTask for a caller that does not come over the task's port.
func (m *Member) Drain(ctx context.Context, by access.Peer, task string, within time.Duration) error {
	who, err := caller.At(by, m.config.Guard)
	if err != nil {
		return err
	}
	return m.drainAs(ctx, &who, who.NameAt(by.Address), task, within)
}

// drainAs makes a task end for a caller, which by names for people.
func (m *Member) drainAs(ctx context.Context, who *caller.Caller, by, task string, within time.Duration) error {
	if err := who.May(access.DrainTasks); err != nil {
		return err
	}
	if within < 0 || within > MaxDrain {
		return status.InvalidArgumentf("A task drains for at most %v, not %v", MaxDrain, within)
	}
	if _, known := m.spec.ByName(task); !known {
		return status.Errorf(status.NotFound, "the cluster has no task %s: it is %v", view.Line(task), m.spec)
	}
	asked, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := m.work.Roles.Drain(asked, task, within, by); err != nil {
		return err
	}
	who.Drained(task)
	return nil
}

// cancelAs cancels a step for a caller, which by names for the step's client.
func (m *Member) cancelAs(ctx context.Context, who *caller.Caller, by string, step uint64) (*wire.CancelStepAnswer, error) {
	owner, others, err := who.MayCancel()
	if err != nil {
		return nil, err
	}
	detail := fmt.Sprintf("step %d", step)
	a, known, missed, failures := m.cancelStep(ctx, step, by, owner)
	switch {
	case a != nil:
		m.log.Info("a step was cancelled by an operator", "step", step, "session", a.Session, "task", a.Master, "by", by)
		who.Cancelled(fmt.Sprintf("%s of session %s on %s", detail, a.Session, a.Master), nil)
		return a, nil
	case known:
		who.Cancelled(detail, others)
		return nil, others
	case len(failures) > 0:
		return nil, status.Errorf(status.Unavailable, "step %d does not run on any task that answered; these did not answer: %s", step, strings.Join(failures, "; "))
	}
	where := "on no task"
	if len(missed) > 0 {
		where = "on no task that can be reached (" + strings.Join(missed, "; ") + ")"
	}
	return nil, status.Errorf(status.NotFound, "step %d runs %s: it has ended, or never began", step, where)
}

// cancelStep asks all tasks to cancel a step, until ctx ends and for at most lookTime. It returns a nil answer if none did: the step may be
// known but belong to somebody else, or its master may be among the tasks that are missed because they are not up, or that fail.
func (m *Member) cancelStep(ctx context.Context, step uint64, by, owner string) (a *wire.CancelStepAnswer, known bool, missed, failures []string) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	ask := func(name string, of Roles) {
		session, knows, cancelled, err := of.CancelStep(ctx, name, step, by, owner)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			failures = append(failures, err.Error())
		case cancelled:
			a = &wire.CancelStepAnswer{Session: session, Master: name}
		}
		if known = known || knows; known {
			cancel() // stop looking for the others
		}
	}
	what := "The end of a step on "
	for _, guest := range m.work.guests() {
		asked.Go(contain.Func(m.log, what+guest.Name(), func() { ask(guest.Name(), guest) }, nil))
	}
	for _, s := range m.Status() {
		asked.Go(contain.Func(m.log, what+s.Task, func() {
			if s := m.Locate(ctx, s); s.State == stateUp {
				ask(s.Task, m.work.Roles)
			} else {
				mu.Lock()
				defer mu.Unlock()
				missed = append(missed, fmt.Sprintf("%s is %s: %s", s.Task, s.State, s.Reason))
			}
		}, nil))
	}
	asked.Wait()
	slices.Sort(missed)
	slices.Sort(failures)
	return a, known, missed, failures
}

// TaskActors lists the actors of the runtime and of the program on this task, for remote operators.
func (m *Member) TaskActors(ctx context.Context) *wire.TaskActors {
	by := access.Looker(ctx)
	out := &wire.TaskActors{Task: m.self.Name()}
	list := append(roles.List(m.port.System()), m.cast.List()...)
	slices.SortFunc(list, func(a, b roles.Status) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	for _, a := range list {
		if !by.ShowsActor(a.Kind, a.Name) {
			continue
		}
		s := &wire.ActorStatus{Name: publicActor(a.Name), Kind: a.Kind, State: a.State, Handled: a.Handled, Waiting: int64(a.Waiting),
			Panics: a.Panics, Restarts: a.Restarts, Since: a.Since.UnixNano()}
		if m.work.Device != nil {
			s.Device = m.work.Device(a.Kind, a.Name)
		}
		out.Actors = append(out.Actors, s)
	}
	return out
}
