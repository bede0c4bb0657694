package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"google.golang.org/protobuf/proto"
)

// master is the actor that keeps a task's sessions and knows whose client is still there; workers of other tasks answer
// it. It publishes the sessions for reading, so that a step finds its own without a message.
type master struct {
	task  *Task
	state *masterState
	// users are the connections that use a session, uses the same by connection, leases the timers of
	// the sessions that none uses.
	users    map[*Session]map[Connection]struct{}
	uses     map[Connection]map[*Session]struct{}
	leases   map[*Session]*time.Timer
	draining bool
	// gone are the connections that ended last, in the order of ended from next on: the news of a
	// call over one may come later than that of its end.
	gone  map[Connection]struct{}
	ended [rememberedConnections]Connection
	next  int
}

// rememberedConnections is how many connections that ended are remembered.
const rememberedConnections = 1 << 12

// masterState is what the master publishes.
type masterState struct {
	task     *Task
	sessions sync.Map // *Session by handle
	expired  expiredSessions

	mu   sync.Mutex
	used map[string]int // how many sessions have parts of their plans on another task
}

// use counts a session that has parts on a task, or has no more.
func (m *masterState) use(task string, by int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used[task] += by; m.used[task] == 0 {
		delete(m.used, task)
	}
}

// Uses tells whether a session of this master has parts on another task, which the master then
// watches over. It takes no lock that is held while anything is called.
func (t *Task) Uses(task string) bool {
	m := t.sessionsOf
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used[task] > 0
}

// session finds an open session; nil if there is none.
func (m *masterState) session(handle string) *Session {
	if s, ok := m.sessions.Load(handle); ok {
		return s.(*Session)
	}
	return nil
}

// all are the open sessions.
func (m *masterState) all() (all []*Session) {
	m.sessions.Range(func(_, s any) bool {
		all = append(all, s.(*Session))
		return true
	})
	return all
}

// Connection names a client's connection; zero for clients in the process, whose sessions have no
// lease.
type Connection uint64

// masterCall is a message to the master with what lies beside it.
type masterCall struct {
	message proto.Message
	session *Session         // of AdmitSession
	reply   chan masterReply // has room for the one answer
}

// masterReply answers a masterCall: with the sessions that were taken off, or an error.
type masterReply struct {
	sessions []*Session
	err      error
}

// startMaster spawns the master.
func (t *Task) startMaster() error {
	t.sessionsOf = &masterState{task: t, used: map[string]int{}}
	m := &master{task: t, state: t.sessionsOf, users: map[*Session]map[Connection]struct{}{}, uses: map[Connection]map[*Session]struct{}{},
		leases: map[*Session]*time.Timer{}, gone: map[Connection]struct{}{}}
	var err error
	t.master, err = t.spawn(roles.Spec{Name: masterName, Kind: "master", Receive: m.Receive, Refuse: m.refuse})
	return err
}

// Receive handles the coming and going of sessions and connections, and the answers of workers. See wire/master.proto.
func (m *master) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *masterCall:
		msg.reply <- m.answer(msg)
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
			m.task.System.Root.Send(sender, &wire.Done{Failure: failure(m.task.drain(msg))})
		}
	case *wire.LeaseExpired:
		m.leaseExpired(msg.Session)
	case *peerLost:
		err := failed(msg.message.Failure)
		for _, st := range msg.steps {
			st.lost(msg.message.Task, err)
		}
	}
}

// answer handles a message that is answered.
func (m *master) answer(c *masterCall) (r masterReply) {
	switch msg := c.message.(type) {
	case *wire.AdmitSession:
		if m.draining {
			r.err = status.Errorf(status.Unavailable, "The server of %s is shutting down", m.task.name)
			return r
		}
		m.state.sessions.Store(c.session.handle, c.session)
		m.users[c.session] = map[Connection]struct{}{}
		m.attach(c.session, Connection(msg.Connection))
		m.task.tally.opened.Add(1)
		m.task.Events.Add("session opened", c.session.name(), c.session.rights.Who)
	case *wire.RemoveSession:
		if s := m.state.session(msg.Session); s != nil {
			m.drop(s)
			r.sessions = []*Session{s}
		}
	case *wire.RemoveSessions:
		m.draining = m.draining || msg.Stop
		r.sessions = m.state.all()
		for _, s := range r.sessions {
			m.drop(s)
		}
	}
	return r
}

// refuse ends a message that the master did not handle.
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

// workerAnswered takes the end of another task's part of a step.
func (m *master) workerAnswered(p *wire.Parcel) {
	done, ok := p.Message.(*wire.PartitionDone)
	if !ok {
		p.Release()
		return
	}
	if st := m.task.distributed.find(done.Step); st != nil {
		st.partDone(done, p.Tensors)
	} else {
		p.Release()
	}
}

func (m *master) connectionClosed(conn Connection) {
	delete(m.gone, m.ended[m.next])
	m.gone[conn], m.ended[m.next] = struct{}{}, conn
	m.next = (m.next + 1) % rememberedConnections
	for s := range m.uses[conn] {
		delete(m.users[s], conn)
		if len(m.users[s]) == 0 {
			m.lease(s)
		}
	}
	delete(m.uses, conn)
}

func (m *master) leaseExpired(handle string) {
	s := m.state.session(handle)
	if s == nil || m.leases[s] == nil {
		return // used again meanwhile
	}
	m.state.expired.add(handle)
	m.task.tally.expired.Add(1)
	m.task.Events.Add("session expired", s.name(), "its client is gone, and its lease is over")
	m.drop(s)
	m.task.Log.Info("a session's client is gone, its lease is over", "session", handle)
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
	if _, over := m.gone[conn]; over {
		if len(conns) == 0 && m.leases[s] == nil {
			m.lease(s)
		}
		return
	}
	conns[conn] = struct{}{}
	if m.uses[conn] == nil {
		m.uses[conn] = map[*Session]struct{}{}
	}
	m.uses[conn][s] = struct{}{}
	if t := m.leases[s]; t != nil {
		t.Stop()
		delete(m.leases, s)
		s.leaseEnds.Store(0)
	}
}

// lease starts the time after which a session without a client is closed.
func (m *master) lease(s *Session) {
	s.leaseEnds.Store(time.Now().Add(m.task.Lease).UnixNano())
	m.leases[s] = time.AfterFunc(m.task.Lease, contain.Func(m.task.Log, "The end of a lease",
		func() { m.task.master.Send(&wire.LeaseExpired{Session: s.handle}) }, nil))
}

func (m *master) drop(s *Session) {
	m.state.sessions.Delete(s.handle)
	m.task.tally.closed.Add(1)
	m.task.Events.Add("session closed", s.name(), fmt.Sprintf("after %d steps, of which %d failed", s.stepsDone.Load()+s.stepsFailed.Load(), s.stepsFailed.Load()))
	for conn := range m.users[s] {
		if delete(m.uses[conn], s); len(m.uses[conn]) == 0 {
			delete(m.uses, conn)
		}
	}
	delete(m.users, s)
	if t := m.leases[s]; t != nil {
		t.Stop()
		delete(m.leases, s)
	}
}

// running are the steps that run now, of all sessions.
func (m *masterState) running() (all []*step) {
	for _, s := range m.all() {
		all = append(all, s.running()...)
	}
	return all
}

// drain closes all sessions; their running steps may end until ctx does.
func (m *masterState) drain(ctx context.Context) {
	// Sessions are closed also when there is no time left for their steps.
	all, err := m.task.askMaster(context.WithoutCancel(ctx), &wire.RemoveSessions{Stop: true}, nil)
	if err != nil {
		m.task.Log.Warn("the master did not answer while stopping", "error", err)
	}
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(contain.Func(m.task.Log, "The end of session "+s.handle, func() {
			s.quiesce(ctx)
			m.task.close(s, status.Errorf(status.Unavailable, "The server of %s is shutting down", m.task.name))
		}, nil))
	}
	wg.Wait()
}

// quiesce waits until the session runs no step, or ctx ends.
func (s *Session) quiesce(ctx context.Context) {
	for _, st := range s.running() {
		select {
		case <-st.isDone():
		case <-ctx.Done():
			return
		}
	}
}

// askMaster sends a message to the task's own master and waits for the answer.
func (t *Task) askMaster(ctx context.Context, message proto.Message, s *Session) ([]*Session, error) {
	c := &masterCall{message: message, session: s, reply: make(chan masterReply, 1)}
	t.master.Send(c)
	select {
	case r := <-c.reply:
		return r.sessions, r.err
	default: // others are served first
	}
	limit := time.NewTimer(answerTime)
	defer limit.Stop()
	select {
	case r := <-c.reply:
		return r.sessions, r.err
	case <-ctx.Done():
		return nil, status.From(ctx.Err())
	case <-limit.C:
		return nil, status.Errorf(status.Unavailable, "The master of %s does not answer", t.name)
	}
}

// closeTime bounds the end of a session: cancelled kernels return at once, and only a computation
// in the middle takes its time.
const closeTime = 10 * time.Second

func (t *Task) close(s *Session, reason error) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return s.Close(ctx, reason)
}

// CreateSession opens a session over a client's graph and returns its handle. The client's
// connection keeps it alive; its steps have the client's rights.
func (t *Task) CreateSession(ctx context.Context, conn Connection, rights Rights, def *graphpb.GraphDef, config *corepb.ConfigProto) (string, error) {
	if t.life.Err() != nil {
		return "", status.Errorf(status.Unavailable, "The server of %s is shutting down", t.name)
	}
	if err := ctx.Err(); err != nil {
		return "", status.From(err)
	}
	s, err := newSession(t, rights, config)
	if err != nil {
		t.refused("session refused", rights.Who, err)
		return "", err
	}
	c := s.callOf(ctx, nil, nil)
	ctx, cancel := c.bound()
	defer cancel()
	if err = s.create(ctx, def); err == nil {
		_, err = t.askMaster(ctx, &wire.AdmitSession{Connection: uint64(conn)}, s)
	}
	if err != nil {
		if e := t.close(s, err); e != nil {
			t.Log.Warn("a session that failed to open was not closed", "error", e)
		}
		t.refused("session refused", rights.Who, err)
		return "", err
	}
	return s.handle, nil
}

// Has tells whether a handle is that of an open session.
func (t *Task) Has(handle string) bool { return t.sessionsOf.session(handle) != nil }

// Knows tells whether a handle is that of an open session, or of one whose lease ended lately.
func (t *Task) Knows(handle string) bool {
	_, expired := t.sessionsOf.expired.at(handle)
	return expired || t.Has(handle)
}

// OpenSession finds an open session by its handle, for one that does not use it yet; nil if there is none.
func (t *Task) OpenSession(handle string) *Session { return t.sessionsOf.session(handle) }

// Session finds a session by its handle, for a call over a client's connection. The error of an
// unknown one is ABORTED, in TensorFlow's words, and tells of a lease that ended.
func (t *Task) Session(handle string, conn Connection) (*Session, error) {
	s := t.sessionsOf.session(handle)
	if s == nil {
		return nil, t.notFound(status.Aborted, handle)
	}
	if conn != 0 && Connection(s.lastConn.Load()) != conn {
		s.lastConn.Store(uint64(conn))
		t.master.Send(&wire.AttachConnection{Session: handle, Connection: uint64(conn)})
	}
	return s, nil
}

// CloseSession ends a session: running steps are cancelled, resources stay.
func (t *Task) CloseSession(ctx context.Context, handle string) error {
	removed, err := t.askMaster(ctx, &wire.RemoveSession{Session: handle}, nil)
	if err != nil {
		return err
	}
	if len(removed) == 0 {
		return t.notFound(status.Aborted, handle)
	}
	return t.close(removed[0], status.Errorf(status.Cancelled, "Step was cancelled by an explicit call to `Session::Close()`."))
}

// ConnectionClosed tells that a client's connection ended: sessions that nobody else uses end
// after the lease.
func (t *Task) ConnectionClosed(conn Connection) {
	t.master.Send(&wire.ConnectionClosed{Connection: uint64(conn)})
}

// Sessions is the number of open sessions.
func (t *Task) Sessions() int { return len(t.sessionsOf.all()) }

// ListDevices lists the devices of all tasks that can be reached, the own task's apart. A handle
// that is not empty must be a session's.
func (t *Task) ListDevices(ctx context.Context, handle string) (own, others []DeviceInfo, err error) {
	s := t.sessionsOf.session(handle)
	if handle != "" && s == nil {
		return nil, nil, t.notFound(status.InvalidArgument, handle)
	}
	tasks := t.Cluster.Tasks()
	if s != nil {
		allowed := s.allowed()
		tasks = slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return !allowed[task] })
	}
	found := make([][]DeviceInfo, len(tasks))
	var wg sync.WaitGroup
	for i, task := range tasks {
		if task == t.name {
			continue
		}
		wg.Go(contain.Func(t.Log, "The list of devices", func() {
			p, err := t.Cluster.Peer(ctx, task)
			if err != nil {
				t.Log.Info("a task is left out of the list of devices", "task", task, "reason", err)
				return
			}
			found[i] = p.Devices()
		}, nil))
	}
	wg.Wait()
	return t.Describe(), slices.Concat(found...), nil
}

// Reset closes all of this master's sessions and empties containers on all tasks (without names
// the default ones). Tasks that were never seen have nothing to empty; the error names those that
// were lost. by names who asks for it.
func (t *Task) Reset(ctx context.Context, names []string, by string) error {
	all, err := t.askMaster(ctx, &wire.RemoveSessions{}, nil)
	if err != nil {
		return err
	}
	t.Events.Add("reset", strings.Join(names, ", "), fmt.Sprintf("by %s; %d sessions were closed", by, len(all)))
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
		if task != t.name && t.Cluster.Known(task) == nil {
			continue
		}
		wg.Go(contain.Func(t.Log, "A reset", func() {
			_, err := ask[*wire.Done](ctx, t, task, directoryName, &wire.Forget{Containers: names})
			var done *wire.Done
			if err == nil {
				done, err = ask[*wire.Done](ctx, t, task, workerName, &wire.ClearContainers{Containers: names})
			}
			if err == nil {
				err = failed(done.Failure)
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
