package actors

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
)

// Session is a client's session on this task's master. An actor owns its graph and its plans:
// extensions, plans that are built and the end of the session pass through its mailbox, one at a
// time and in order, and the work of each is done on a goroutine of its own while further ones
// wait. What steps need to begin is published for reading.
type Session struct {
	task    *Task
	handle  string
	rights  Rights
	config  *corepb.ConfigProto
	options sessionOptions
	worker  *workerSession
	devices *place.Prepared
	self    *roles.Ref

	// Published by the actor.
	plans  atomic.Pointer[map[string]*plan]
	graph  atomic.Pointer[graph.Graph]
	closed atomic.Bool

	// The actor's own.
	version     int64
	colocations place.Colocations
	busy        bool
	stopping    bool
	waiting     []*change

	life context.Context // ends with the session, and with it the work of its changes
	die  context.CancelFunc
	gone chan struct{} // closed when the actor has stopped

	mu        sync.Mutex
	lost      map[string][]uint64 // by task, the steps whose part there could not be told to end
	reached   map[string]bool     // the other tasks that have been sent a part of a plan; nil after the end
	steps     map[uint64]*step
	partials  map[string]*partialRun
	callables map[int64]*Callable
	counter   int64
	idle      chan struct{} // closed when the session is closed and its last step is over
	used      atomic.Int64  // unix nanoseconds of the last call
	watched   atomic.Int64  // the runs that a debugger has watched
	lastConn  atomic.Uint64

	// For those who look at the session.
	opened         int64        // unix nanoseconds
	leaseEnds      atomic.Int64 // the same; 0 while a client is connected
	stepsDone      atomic.Int64
	stepsFailed    atomic.Int64
	lastError      atomic.Pointer[string]
	working        atomic.Pointer[workingOn]
	changesWaiting atomic.Int64
}

// workingOn is the change of a session that is under way.
type workingOn struct {
	what  string
	since int64 // unix nanoseconds
}

// sessionOptions are what a ConfigProto and the server's defaults come to.
type sessionOptions struct {
	sessionTraits
	soft, log   bool
	timeout     time.Duration
	filters     []string
	narrow      bool // float values cross tasks as bfloat16
	costs       costSchedule
	compression Compression
}

// change is a message that changes the session, with what lies beside it, and what comes of it. Its work runs on a
// goroutine; then the actor publishes the result, or discards it where the session ended meanwhile.
type change struct {
	message proto.Message // of wire/session.proto
	ctx     context.Context
	def     *graphpb.GraphDef // of Create and Extend
	reply   chan error        // has room for the one answer

	graph   *graph.Graph
	version int64
	key     string
	plan    *plan
}

// changeDone tells the actor what the work of a change came to.
type changeDone struct {
	message *wire.ChangeDone
	change  *change
	err     error
}

// newSession makes a session over a client's first graph.
func newSession(t *Task, rights Rights, config *corepb.ConfigProto) (*Session, error) {
	s := &Session{task: t, handle: newHandle(), rights: rights, config: config, steps: map[uint64]*step{}, partials: map[string]*partialRun{},
		callables: map[int64]*Callable{}, idle: make(chan struct{}), gone: make(chan struct{}), reached: map[string]bool{}, opened: time.Now().UnixNano()}
	if err := s.configure(config); err != nil {
		return nil, err
	}
	s.plans.Store(&map[string]*plan{})
	var err error
	if s.devices, err = t.prepare(s.options.filters); err != nil {
		return nil, err
	}
	s.life, s.die = context.WithCancel(context.Background())
	if s.worker = t.sessionFor(s.handle, t.name, s.options.sessionTraits, rights); s.worker == nil {
		s.die()
		return nil, t.tooManySessions()
	}
	if s.self, err = t.spawn(roles.Spec{Name: "session/" + s.handle, Kind: "session", Receive: s.Receive, Refuse: s.refuse}); err != nil {
		s.die()
		t.forgetSession(s.handle)
		return nil, err
	}
	s.touch()
	return s, nil
}

// newHandle makes a session's name, which nobody guesses: who has it uses the session, where nothing else tells clients
// apart.
func newHandle() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// configure reads what the client asks for, over the server's defaults, and refuses by name what
// is not there.
func (s *Session) configure(c *corepb.ConfigProto) error {
	d := s.task.Defaults
	s.options = sessionOptions{soft: d.SoftPlacement || c.GetAllowSoftPlacement(), log: d.LogPlacement || c.GetLogDevicePlacement(),
		sessionTraits: sessionTraits{isolated: c.GetIsolateSessionState(), literal: literal(c)}, timeout: d.OperationTimeout, filters: c.GetDeviceFilters(),
		narrow: c.GetGraphOptions().GetEnableBfloat16Sendrecv(), costs: costsOf(c.GetGraphOptions())}
	var err error
	if s.options.compression, err = s.task.compression(c); err != nil {
		return err
	}
	if ms := c.GetOperationTimeoutInMs(); ms > 0 {
		s.options.timeout = milliseconds(ms)
	}
	switch {
	case c.GetUsePerSessionThreads():
		return status.InvalidArgumentf("Distributed session does not support session thread pool options: use_per_session_threads")
	case len(c.GetSessionInterOpThreadPool()) > 0:
		return status.InvalidArgumentf("Distributed session does not support session thread pool options: session_inter_op_thread_pool")
	case len(c.GetClusterDef().GetJob()) > 0:
		return status.Unimplementedf("ConfigProto.cluster_def is for sessions over grpc://: declare the cluster to the server")
	}
	return nil
}

// literal tells whether a session's config turns optimizations off, in one of TensorFlow's two ways.
func literal(c *corepb.ConfigProto) bool {
	options := c.GetGraphOptions()
	return options.GetOptimizerOptions().GetOptLevel() == corepb.OptimizerOptions_L0 || options.GetRewriteOptions().GetDisableMetaOptimizer()
}

// placeable are the devices of the declared cluster that a session with filters may use. A task
// that was never reached counts with one CPU, which every server has: a graph that does not need
// it does not wait for it.
func (t *Task) placeable(filters []string) ([]place.Device, error) {
	var all []place.Device
	for _, task := range t.Cluster.Tasks() {
		known := t.Cluster.Known(task)
		if task == t.name {
			known = t.Describe()
		} else if known == nil {
			known = []DeviceInfo{{Name: task + "/device:CPU:0", Type: "CPU"}}
		}
		for _, d := range known {
			pd, err := place.NewDevice(d.Name, task == t.name)
			if err != nil {
				return nil, err
			}
			all = append(all, pd)
		}
	}
	return place.FilterDevices(all, filters, t.name)
}

// prepare is placeable, made ready for a session to place nodes. Sessions without filters share
// what does not change: a large cluster has many devices.
func (t *Task) prepare(filters []string) (*place.Prepared, error) {
	devices, err := t.placeable(filters)
	switch {
	case err != nil:
		return nil, err
	case len(filters) > 0:
		return place.Prepare(devices)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.placing == nil || !slices.Equal(t.placing.Devices(), devices) {
		if t.placing, err = place.Prepare(devices); err != nil {
			return nil, err
		}
	}
	return t.placing.Share(), nil
}

// allowed are the tasks of which the session's device filters leave it a device.
func (s *Session) allowed() map[string]bool {
	tasks := map[string]bool{}
	for _, d := range s.devices.Devices() {
		tasks[taskOf(d.Name)] = true
	}
	return tasks
}

// Describe lists the task's own devices, as their executors know them.
func (t *Task) Describe() []DeviceInfo {
	out := make([]DeviceInfo, len(t.Devices))
	for i, d := range t.Devices {
		a := t.executors[d.Name()].Attributes()
		out[i] = DeviceInfo{Name: a.Name, Type: a.Type, MemoryLimit: a.MemoryLimit, Incarnation: a.Incarnation, Description: a.Description}
	}
	return out
}

// name is what people call the session.
func (s *Session) name() string { return view.SessionName(s.handle) }

func (s *Session) touch() { s.used.Store(time.Now().UnixNano()) }

// Receive handles the session's changes. See wire/session.proto.
func (s *Session) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *change:
		switch {
		case s.stopping:
			m.reply <- errClosed()
		case len(s.waiting) >= maxChanges:
			m.reply <- tooMany("changes that wait", "Session "+s.handle, maxChanges, "wait for some to end")
		case s.busy:
			s.waiting = append(s.waiting, m)
			s.changesWaiting.Store(int64(len(s.waiting)))
		default:
			s.begin(m)
		}
	case *changeDone:
		s.finish(m)
		s.busy = false
		s.working.Store(nil)
		switch {
		case s.stopping:
			c.Stop(c.Self())
		case len(s.waiting) > 0:
			next := s.waiting[0]
			s.waiting = slices.Delete(s.waiting, 0, 1)
			s.changesWaiting.Store(int64(len(s.waiting)))
			s.begin(next)
		}
	case *wire.CloseSession:
		s.stopping = true
		for _, w := range s.waiting {
			w.reply <- errClosed()
		}
		s.waiting = nil
		if !s.busy {
			c.Stop(c.Self())
		}
	case *actor.Stopped:
		s.publishPlans(func(all map[string]*plan) { clear(all) })
		close(s.gone)
	}
}

// refuse answers a change that the actor did not handle.
func (s *Session) refuse(message any, cause error) {
	m, ok := message.(*change)
	switch {
	case !ok:
	case cause != nil:
		m.reply <- status.Internalf("A change of session %s failed: %v", s.handle, cause)
	default:
		m.reply <- errClosed()
	}
}

// finish publishes what the work of a change came to.
func (s *Session) finish(m *changeDone) {
	if m.err == nil && s.stopping {
		m.err = errClosed()
		if p := m.change.plan; p != nil {
			p.local.release()
		}
	}
	if m.err == nil {
		s.publish(m.change)
	}
	m.change.reply <- m.err
}

func (s *Session) begin(m *change) {
	s.busy = true
	begun := time.Now()
	s.working.Store(&workingOn{changeName(m.message), begun.UnixNano()})
	if err := m.ctx.Err(); err != nil { // it has waited for others too long: nobody asks for it any more
		s.self.Send(&changeDone{&wire.ChangeDone{}, m, status.From(err)})
		return
	}
	what := "A change of session " + s.handle
	contain.Go(s.task.Log, what, func() { // ends with the work, whose waits are bounded, and soon after the session
		ctx, cancel := context.WithCancel(m.ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		err := contain.Run(s.task.Log, what, func() error { return s.work(ctx, m) })
		if m.plan != nil {
			s.task.tally.plans.Add(time.Since(begun), 1)
			s.task.traces.took(view.PlanEvent, "building a plan", 0, s.handle, begun.UnixNano())
		}
		s.self.Send(&changeDone{&wire.ChangeDone{}, m, err})
	}, nil)
}

// changeName is what people call a change.
func changeName(message proto.Message) string {
	switch message.(type) {
	case *wire.Create:
		return "create"
	case *wire.Extend:
		return "extend"
	case *wire.BuildPlan:
		return "plan"
	}
	return "other"
}

func errClosed() error { return status.Errorf(status.FailedPrecondition, "Session is closed.") }

// finalAnswer is how long work whose time is over may take to say what it waited for.
const finalAnswer = 5 * time.Millisecond

// apply has the actor make a change, and waits for it or for ctx. After an error the work
// may still be under way: what it makes must not be looked at.
func (s *Session) apply(ctx context.Context, m *change) error {
	m.ctx, m.reply = ctx, make(chan error, 1)
	s.self.Send(m)
	select {
	case err := <-m.reply:
		return err
	case <-ctx.Done():
		last := time.NewTimer(finalAnswer)
		defer last.Stop()
		select {
		case err := <-m.reply:
			return err
		case <-last.C:
			return status.From(ctx.Err())
		}
	case <-s.idle: // the work may go on for a while
		return errClosed()
	}
}

// enter makes a step part of the session, unless that is closed or too much is under way.
func (s *Session) enter(st *step) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed.Load():
		return errClosed()
	case len(s.steps) >= maxSessionSteps:
		return tooManySteps("Session "+s.handle, maxSessionSteps)
	}
	if s.task.inflight.Add(1) > maxSteps {
		s.task.inflight.Add(-1)
		return tooManySteps(s.task.name, maxSteps)
	}
	s.steps[st.id] = st
	return nil
}

// running are the steps that run now, whose memory is not used again.
func (s *Session) running() []*step {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runningLocked()
}

func (s *Session) runningLocked() []*step {
	all := make([]*step, 0, len(s.steps))
	for _, st := range s.steps {
		st.mu.Lock()
		st.shared = true
		st.mu.Unlock()
		all = append(all, st)
	}
	return all
}

// leave removes a step whose parts have all ended.
func (s *Session) leave(st *step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps[st.id] == st {
		delete(s.steps, st.id)
		s.task.inflight.Add(-1)
		s.stepOver()
	}
	if s.closed.Load() && len(s.steps) == 0 {
		s.end()
	}
}

// end marks the closed session idle; the caller holds the lock.
func (s *Session) end() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// Close ends the session: no step begins any more, running ones are cancelled and waited for, and
// everything that the cluster's tasks keep for it is dropped. Variables and other named resources stay.
func (s *Session) Close(ctx context.Context, reason error) error {
	s.mu.Lock()
	if s.closed.Swap(true) {
		s.mu.Unlock()
		<-s.idle
		return nil
	}
	running := s.runningLocked()
	if len(running) == 0 {
		s.end()
	}
	s.mu.Unlock()
	for _, st := range running {
		st.fail(reason)
	}
	var err error
	select {
	case <-s.idle:
	case <-ctx.Done():
		err = s.abandon()
	}
	s.die()
	s.self.Send(&wire.CloseSession{})
	select {
	case <-s.gone:
	case <-ctx.Done():
		err = status.Worse(err, status.Errorf(status.DeadlineExceeded, "A change of session %s did not end in time", s.handle))
	}
	s.dropRemote()
	s.dropPartials()
	s.task.forgetSession(s.handle)
	if s.rights.Policy != nil {
		s.rights.Policy.Close()
	}
	return err
}

// Policy is what bounds the session; nil if nothing does.
func (s *Session) Policy() Policy { return s.rights.Policy }

// abandon gives up the parts that other tasks still owe to a session that has to end.
func (s *Session) abandon() error {
	s.mu.Lock()
	steps := s.runningLocked()
	s.end()
	s.mu.Unlock()
	err := status.Errorf(status.DeadlineExceeded, "%d steps of session %s did not end in time", len(steps), s.handle)
	for _, st := range steps {
		st.abandon(err)
	}
	return err
}

// reach notes that another task will have a part of the session's plans.
func (s *Session) reach(task string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reached == nil {
		return errClosed()
	}
	if !s.reached[task] {
		s.reached[task] = true
		s.task.sessionsOf.use(task, 1)
	}
	return nil
}

// dropRemote tells the other tasks to forget the session.
func (s *Session) dropRemote() {
	s.mu.Lock()
	tasks := sortedKeys(s.reached)
	s.reached = nil
	s.mu.Unlock()
	t := s.task
	for _, task := range tasks {
		t.sessionsOf.use(task, -1)
	}
	drop := func(p Peer) {
		t.System.Root.Send(actor.NewPID(p.Address(), workerName), &wire.DropSession{Session: s.handle})
	}
	for _, task := range tasks {
		if p := t.Cluster.Reached(task); p != nil {
			drop(p)
			continue
		}
		t.background(func(ctx context.Context) {
			if p, err := t.Cluster.Peer(ctx, task); err == nil {
				drop(p)
			} else {
				t.Log.Debug("a task was not told that a session is closed", "session", s.handle, "task", task, "reason", err)
			}
		})
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
