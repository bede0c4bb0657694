package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/internal/questions"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
)

// master is the actor that owns a task's sessions and knows which of their clients are connected. Workers of other tasks
// send it their answers. It publishes the sessions for reading, so that a step finds its session without a message.
type master struct {
	task  *Task
	state *masterState
	// users holds the connections that use each session, uses the sessions of each connection, and leases what ends sessions without
	// connections.
	users    map[*Session]map[Connection]struct{}
	uses     map[Connection]map[*Session]struct{}
	leases   map[*Session]sessionLease
	draining bool
	// gone holds the connections that ended most recently. The message about a call may arrive after the one about the end of its
	// connection.
	gone *recent.Map[Connection, struct{}]
}

// sessionLease is the lease of a session whose client has no connection, or that ends when it is not used.
type sessionLease struct {
	timer *time.Timer // of the next look at it
	gone  time.Time   // when the client's last connection ended
}

// rememberedConnections is how many ended connections are remembered.
const rememberedConnections = 1 << 12

// masterState is the state that the master publishes.
type masterState struct {
	task     *Task
	sessions sync.Map // *Session by handle
	expired  expiredSessions

	mu   sync.Mutex     // guards used: links ask before they close, on their own goroutines
	used map[string]int // how many sessions have parts of their plans on another task
}

// use counts a session that begins or ceases to have parts on a task.
func (m *masterState) use(task string, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used[task] += by; m.used[task] == 0 {
		delete(m.used, task)
	}
}

// Uses reports whether a session of this master has parts on another task. The master then
// watches that task. Uses takes no lock that is held during calls.
func (t *Task) Uses(task string) bool {
	m := t.sessionsOf
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used[task] > 0
}

// session returns an open session, or nil.
func (m *masterState) session(handle string) *Session {
	if s, ok := m.sessions.Load(handle); ok {
		return s.(*Session)
	}
	return nil
}

// all returns the open sessions.
func (m *masterState) all() (all []*Session) {
	m.sessions.Range(func(_, s any) bool {
		all = append(all, s.(*Session))
		return true
	})
	return all
}

// Connection identifies a client's connection. It is zero for clients in the process, whose sessions have no
// lease.
type Connection uint64

// masterCall is a message to the master, with the values that are passed beside it.
type masterCall struct {
	message proto.Message
	session *Session            // of AdmitSession
	ends    func(*Session) bool // of RemoveSessions: selects the sessions to remove; nil means all
	reply   chan masterReply    // has room for the one answer
	// taken is set by whichever is first: the master, which then replies, or the asker, which gives up. A call that was given up changes nothing: nobody
	// would close the sessions that it removed.
	taken atomic.Bool
}

// masterReply is the reply to a masterCall: the sessions that were removed, or an error.
type masterReply struct {
	sessions []*Session
	err      error
}

// startMaster spawns the master.
func (t *Task) startMaster() error {
	t.sessionsOf = &masterState{task: t, used: map[string]int{}, expired: expiredSessions{since: recent.NewMap[string, expiry](rememberedSessions)}}
	m := &master{task: t, state: t.sessionsOf, users: map[*Session]map[Connection]struct{}{}, uses: map[Connection]map[*Session]struct{}{},
		leases: map[*Session]sessionLease{}, gone: recent.NewMap[Connection, struct{}](rememberedConnections)}
	var err error
	t.master, err = t.spawn(roles.Spec{Name: masterName, Kind: "master", Receive: m.Receive, Refuse: m.refuse})
	return err
}

// Receive handles new and ended sessions and connections, and the answers of workers. See wire/master.proto.
func (m *master) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *masterCall:
		if msg.taken.CompareAndSwap(false, true) {
			msg.reply <- m.answer(msg)
		}
	case *wire.Parcel:
		m.workerAnswered(msg)
	case *wire.AttachConnection:
		if s := m.state.session(msg.Session); s != nil {
			m.attach(s, Connection(msg.Connection))
		}
	case *wire.ConnectionClosed:
		m.connectionClosed(Connection(msg.Connection))
	case *wire.CancelStep:
		if sender := c.Sender(); sender != nil {
			m.task.System.Root.Send(sender, m.task.cancelStep(msg))
		}
	case *wire.Drain:
		if sender := c.Sender(); sender != nil {
			m.task.System.Root.Send(sender, &wire.Done{Failure: wire.FailureOf(questions.End(msg, m.task.name, m.task.End, m.task.Events, m.task.Log))})
		}
	case *wire.LeaseExpired:
		m.leaseLooked(msg.Session)
	case *peerLost:
		err := msg.message.Failure.Err()
		for _, st := range msg.steps {
			st.lost(msg.message.Task, err)
		}
	}
}

// answer handles a message that expects a reply.
func (m *master) answer(c *masterCall) (r masterReply) {
	switch msg := c.message.(type) {
	case *wire.AdmitSession:
		if m.draining {
			r.err = status.Errorf(status.Unavailable, "The server of %s is shutting down", m.task.name)
			return r
		}
		m.state.sessions.Store(c.session.handle, c.session)
		m.users[c.session] = map[Connection]struct{}{}
		if keep := c.session.keepAlive(); keep > 0 {
			m.lookAtLease(c.session, time.Time{}, keep)
		} else {
			m.attach(c.session, Connection(msg.Connection))
		}
		m.task.tally.opened.Add(1)
		m.task.Events.AddOf(c.session.rights.Who, "session opened", c.session.name(), c.session.rights.Who)
	case *wire.RemoveSession:
		if s := m.state.session(msg.Session); s != nil {
			m.drop(s)
			r.sessions = []*Session{s}
		}
	case *wire.RemoveSessions:
		m.draining = m.draining || msg.Stop
		for _, s := range m.state.all() {
			if (msg.Stop || s.eager == nil) && (c.ends == nil || c.ends(s)) {
				m.drop(s)
				r.sessions = append(r.sessions, s)
			}
		}
	}
	return r
}

// refuse replies to a message that the master did not handle.
func (m *master) refuse(message any, cause error) {
	switch msg := message.(type) {
	case *masterCall:
		err := status.Errorf(status.Unavailable, "The master of %s has stopped", m.task.name)
		if cause != nil {
			err = status.Internalf("The master of %s failed: %v", m.task.name, cause)
		}
		msg.reply <- masterReply{err: err}
	case *wire.Parcel:
		if cause == nil {
			msg.Release()
		}
	}
}

// workerAnswered handles the end of another task's part of a step.
func (m *master) workerAnswered(p *wire.Parcel) {
	done, ok := p.Message.(*wire.PartitionDone)
	if !ok {
		p.Release()
		return
	}
	if st := m.task.steps.master(done.Step); st != nil {
		st.partDone(done, p.Tensors)
	} else {
		p.Release()
	}
}

func (m *master) connectionClosed(conn Connection) {
	m.gone.Add(conn, struct{}{})
	for s := range m.uses[conn] {
		delete(m.users[s], conn)
		if len(m.users[s]) == 0 {
			m.lease(s)
		}
	}
	delete(m.uses, conn)
}

// leaseLooked ends a session whose client is gone, if its lease is over or memory is short. Otherwise it checks again later.
func (m *master) leaseLooked(handle string) {
	s := m.state.session(handle)
	if s == nil {
		return
	}
	lease, is := m.leases[s]
	if !is {
		return // used again meanwhile
	}
	why := "its lease is over"
	if keep := s.keepAlive(); keep > 0 {
		if left := keep - time.Since(time.Unix(0, s.used.Load())); left > 0 {
			m.lookAtLease(s, lease.gone, left)
			return
		}
		why = "it was not used for " + keep.String()
	} else if left := time.Until(m.leaseEnds(s, lease.gone)); left > 0 {
		if !tensor.Process.Short() {
			m.lookAtLease(s, lease.gone, min(left, leaseLook))
			return
		}
		why = "memory is short"
	}
	m.state.expired.add(handle, why)
	m.task.tally.expired.Add(1)
	m.task.Events.AddOf(s.rights.Who, "session expired", s.name(), "its client is gone, and "+why)
	m.drop(s)
	m.task.Log.Info("a session ends, since its client is gone", "session", handle, "reason", why)
	m.task.background(func(context.Context) { // bounded by closeTime
		if err := m.task.close(s, status.Errorf(status.Cancelled, "The session's client is gone")); err != nil {
			m.task.Log.Warn("a session did not end in time", "error", err)
		}
	})
}

func (m *master) attach(s *Session, conn Connection) {
	conns := m.users[s]
	if conns == nil || conn == 0 {
		return
	}
	if _, over := m.gone.Get(conn); over {
		if _, leased := m.leases[s]; len(conns) == 0 && !leased {
			m.lease(s)
		}
		return
	}
	conns[conn] = struct{}{}
	if m.uses[conn] == nil {
		m.uses[conn] = map[*Session]struct{}{}
	}
	m.uses[conn][s] = struct{}{}
	if m.endLease(s) {
		s.leaseEnds.Store(0)
	}
}

const (
	// ShortLease is how long a session lives without a client, at most the task's lease, where memory is short.
	ShortLease = 30 * time.Second
	// leaseLook is how often a longer lease is checked against the remaining memory.
	leaseLook = 5 * time.Second
	// RestTime is how long a client makes no call before it is taken to rest, not to be gone, when its connection ends. gRPC's clients,
	// such as TensorFlow's, close a connection that has had no call for half an hour to an hour, and open another one for the next call.
	RestTime = 29 * time.Minute
	// RestLease is how long the session of a client that rests lives at least.
	RestLease = 7 * 24 * time.Hour
)

// lease starts the time after which a session without a client is closed.
func (m *master) lease(s *Session) {
	now := time.Now()
	m.leaseEnds(s, now)
	m.lookAtLease(s, now, min(m.task.Lease, ShortLease))
}

// leaseEnds returns, and records for observers, when the lease ends of a session whose last connection ended at gone. It is later if the client rested. A call that
// ended with the connection may count only some time after gone.
func (m *master) leaseEnds(s *Session, gone time.Time) time.Time {
	lease := m.task.Lease
	if gone.Sub(time.Unix(0, s.used.Load())) >= RestTime {
		lease = max(lease, RestLease)
	}
	ends := gone.Add(lease)
	s.leaseEnds.Store(ends.UnixNano())
	return ends
}

// lookAtLease has the master check later whether a session without a client must end.
func (m *master) lookAtLease(s *Session, gone time.Time, after time.Duration) {
	m.leases[s] = sessionLease{time.AfterFunc(after, contain.Func(m.task.Log, "The look at a lease",
		func() { m.task.master.Send(&wire.LeaseExpired{Session: s.handle}) }, nil)), gone}
}

// endLease ends a session's lease. It returns false if there is none.
func (m *master) endLease(s *Session) bool {
	l, is := m.leases[s]
	if is {
		l.timer.Stop()
		delete(m.leases, s)
	}
	return is
}

func (m *master) drop(s *Session) {
	m.state.sessions.Delete(s.handle)
	m.task.tally.closed.Add(1)
	m.task.Events.AddOf(s.rights.Who, "session closed", s.name(), fmt.Sprintf("after %d steps, of which %d failed", s.stepsDone.Load()+s.stepsFailed.Load(), s.stepsFailed.Load()))
	for conn := range m.users[s] {
		if delete(m.uses[conn], s); len(m.uses[conn]) == 0 {
			delete(m.uses, conn)
		}
	}
	delete(m.users, s)
	m.endLease(s)
}

// drain closes all sessions. Their running steps may continue until ctx ends.
func (m *masterState) drain(ctx context.Context) {
	// Sessions are closed even if no time is left for their steps.
	all, err := m.task.askMaster(context.WithoutCancel(ctx), &masterCall{message: &wire.RemoveSessions{Stop: true}})
	if err != nil {
		m.task.Log.Warn("the master did not answer while stopping", "error", err)
	}
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(contain.Func(m.task.Log, "The end of session "+s.handle, func() {
			s.quiesce(ctx)
			for _, st := range m.task.steps.running(s) {
				if ctx.Err() == nil || st.hasEnded() {
					continue
				}
				sig := st.plan.pruned.Signature
				m.task.logCut(st.id, s.name(), m.task.name, st.own.Origin.Began, "fetches", sig.Fetches[:min(len(sig.Fetches), maxStepNames)],
					"targets", sig.Targets[:min(len(sig.Targets), maxStepNames)])
			}
			if err := m.task.close(s, status.Errorf(status.Unavailable, "The server of %s is shutting down", m.task.name)); err != nil {
				m.task.Log.Warn("a session did not end in time", "error", err)
			}
		}, nil))
	}
	wg.Wait()
}

// quiesce waits until the session runs no step, or ctx ends.
func (s *Session) quiesce(ctx context.Context) {
	for _, st := range s.task.steps.running(s) {
		select {
		case <-st.isDone():
		case <-ctx.Done():
			return
		}
	}
}

// askMaster sends a message to the task's own master and waits for the reply.
func (t *Task) askMaster(ctx context.Context, c *masterCall) (sessions []*Session, err error) {
	c.reply = make(chan masterReply, 1)
	t.master.Send(c)
	select {
	case r := <-c.reply:
		return r.sessions, r.err
	default: // other messages are handled first
	}
	limit := time.NewTimer(questions.AnswerTime)
	defer limit.Stop()
	select {
	case r := <-c.reply:
		return r.sessions, r.err
	case <-ctx.Done():
		err = status.From(ctx.Err())
	case <-limit.C:
		err = status.Errorf(status.Unavailable, "The master of %s does not answer", t.name)
	}
	if c.taken.CompareAndSwap(false, true) {
		return nil, err
	}
	r := <-c.reply // the master is at it
	return r.sessions, r.err
}

// closeTime bounds the end of a session: cancelled kernels return at once, except those in the middle of a
// computation.
const closeTime = 10 * time.Second

func (t *Task) close(s *Session, reason error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return s.Close(ctx, reason)
}

// CreateSession opens a session for a client's graph and returns its handle. The client's
// connection keeps it alive. Its steps have the client's rights.
func (t *Task) CreateSession(ctx context.Context, conn Connection, rights Rights, def *graphpb.GraphDef, config *corepb.ConfigProto) (string, error) {
	if t.life.Err() != nil {
		return "", status.Errorf(status.Unavailable, "The server of %s is shutting down", t.name)
	}
	if err := ctx.Err(); err != nil {
		return "", status.From(err)
	}
	s, err := t.openSession(ctx, conn, rights, def, config, nil)
	if err != nil {
		return "", err
	}
	return s.handle, nil
}

// openSession creates a session and has the master admit it. If it is that of an eager context, which is nil otherwise, it becomes the
// context's before that.
func (t *Task) openSession(ctx context.Context, conn Connection, rights Rights, def *graphpb.GraphDef, config *corepb.ConfigProto, eager *EagerContext) (*Session, error) {
	s, err := newSession(ctx, t, rights, config, eager)
	if err != nil {
		t.refused(rights.Who, "session refused", rights.Who, err)
		return nil, err
	}
	if eager != nil {
		eager.session = s
	}
	c := s.callOf(ctx, nil, nil)
	ctx, cancel := c.bound(func() {})
	defer cancel()
	if err = s.create(ctx, def); err == nil {
		_, err = t.askMaster(ctx, &masterCall{message: &wire.AdmitSession{Connection: uint64(conn)}, session: s})
	}
	if err != nil {
		if e := t.close(s, err); e != nil {
			t.Log.Warn("a session that failed to open was not closed", "error", e)
		}
		t.refused(rights.Who, "session refused", rights.Who, err)
		return nil, err
	}
	return s, nil
}

// Has reports whether a handle belongs to an open session.
func (t *Task) Has(handle string) bool { return t.sessionsOf.session(handle) != nil }

// Knows reports whether a handle belongs to an open session, or to one whose lease ended recently.
func (t *Task) Knows(handle string) bool {
	_, expired := t.sessionsOf.expired.at(handle)
	return expired || t.Has(handle)
}

// OpenSession returns the open session with a handle, for a caller that does not use it yet; nil if there is none.
func (t *Task) OpenSession(handle string) *Session { return t.sessionsOf.session(handle) }

// Session returns the session with a handle, for a call over a client's connection. The error for an
// unknown handle is ABORTED, in TensorFlow's words, and mentions a lease that ended.
func (t *Task) Session(handle string, conn Connection) (*Session, error) {
	s := t.sessionsOf.session(handle)
	if s == nil {
		return nil, t.notFound(status.Aborted, handle)
	}
	s.usedOver(conn)
	return s, nil
}

// usedOver has a client's connection keep the session alive.
func (s *Session) usedOver(conn Connection) {
	if conn != 0 && Connection(s.lastConn.Load()) != conn {
		s.lastConn.Store(uint64(conn))
		s.task.master.Send(&wire.AttachConnection{Session: s.handle, Connection: uint64(conn)})
	}
}

// CloseSession ends a session: running steps are cancelled, resources stay.
func (t *Task) CloseSession(ctx context.Context, handle string) error {
	return t.endSession(ctx, handle, status.Errorf(status.Cancelled, "Step was cancelled by an explicit call to `Session::Close()`."))
}

// endSession removes a session from the open ones and closes it.
func (t *Task) endSession(ctx context.Context, handle string, reason error) error {
	removed, err := t.askMaster(ctx, &masterCall{message: &wire.RemoveSession{Session: handle}})
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return t.notFound(status.Aborted, handle)
	}
	return t.close(removed[0], reason)
}

// ConnectionClosed reports that a client's connection ended: sessions that no other connection uses end
// after the lease.
func (t *Task) ConnectionClosed(conn Connection) {
	t.master.Send(&wire.ConnectionClosed{Connection: uint64(conn)})
}

// Sessions returns the number of open sessions.
func (t *Task) Sessions() int { return len(t.sessionsOf.all()) }

// listTime bounds how long a list of devices waits for a task.
const listTime = 4500 * time.Millisecond

// ListDevices returns the devices of all reachable tasks, the own task's first. A non-empty handle must belong
// to a session.
func (t *Task) ListDevices(ctx context.Context, handle string) ([]device.Attributes, error) {
	s := t.sessionsOf.session(handle)
	if handle != "" && s == nil {
		return nil, t.notFound(status.InvalidArgument, handle)
	}
	tasks := t.Cluster.Tasks()
	if s != nil {
		allowed := s.allowed()
		tasks = slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return !allowed[task] })
	}
	found := make([][]device.Attributes, len(tasks))
	var wg sync.WaitGroup
	for i, task := range tasks {
		if task == t.name {
			continue
		}
		wg.Go(contain.Func(t.Log, "The list of devices", func() {
			ctx, cancel := context.WithTimeout(view.Await(ctx, "a list of devices"), listTime)
			defer cancel()
			p, err := t.Cluster.Peer(ctx, task)
			if err != nil {
				t.Log.Info("a task is left out of the list of devices", "task", task, "reason", err)
				return
			}
			found[i] = p.Devices()
		}, nil))
	}
	wg.Wait()
	return append(t.Describe(), slices.Concat(found...)...), nil
}

// Reset closes this master's sessions that ends selects, or all if it is nil, but no eager contexts, and empties containers on all tasks: the default
// ones if there are no names. Tasks that were never seen and are not up have nothing to empty; the error names those that
// were lost. by names the requester.
func (t *Task) Reset(ctx context.Context, names []string, by string, ends func(*Session) bool) error {
	all, err := t.askMaster(ctx, &masterCall{message: &wire.RemoveSessions{}, ends: ends})
	if err != nil {
		return err
	}
	t.Events.AddOf(by, "reset", strings.Join(names, ", "), fmt.Sprintf("by %s; %d sessions were closed", by, len(all)))
	failures := make(chan error, len(t.Cluster.Tasks()))
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(contain.Func(t.Log, "The end of session "+s.handle, func() {
			err := t.close(s, status.Errorf(status.Aborted, "Session %s was closed: the containers of its cluster were reset", s.handle))
			if err != nil {
				t.Log.Warn("a session did not end in time", "error", err)
			}
		}, nil))
	}
	for _, task := range t.Cluster.Tasks() {
		wg.Go(contain.Func(t.Log, "A reset", func() {
			if task != t.name && t.Cluster.Find(ctx, task) == nil {
				return
			}
			_, err := ask[*wire.Done](ctx, t, task, directoryName, &wire.Forget{Containers: names})
			var done *wire.Done
			if err == nil {
				done, err = ask[*wire.Done](ctx, t, task, workerName, &wire.ClearContainers{Containers: names})
			}
			if err == nil {
				err = done.Failure.Err()
			}
			failures <- err
		}, func(err error) { failures <- err }))
	}
	wg.Wait()
	close(failures)
	for e := range failures {
		if e != nil && err == nil {
			err = e
		}
	}
	return err
}
