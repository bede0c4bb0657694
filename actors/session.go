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
	"github.com/troupe-run/troupe/graph/device"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
)

// Session is a client's session on this task's master. An actor owns its graph and its plans:
// extensions, finished plans and the end of the session pass through its mailbox, one at a
// time and in order. The work of each runs on its own goroutine while further changes
// wait. Whatever steps need to begin is published for reading.
type Session struct {
	task    *Task
	handle  string
	rights  Rights
	config  *corepb.ConfigProto
	options sessionOptions
	worker  *workerSession
	self    *roles.Ref
	eager   *EagerContext // whose session it is; nil for a client's own session

	// Published by the actor.
	plans   atomic.Pointer[plans]
	graph   atomic.Pointer[graph.Graph]
	devices atomic.Pointer[place.Prepared] // where nodes may be placed
	homes   atomic.Pointer[homes]          // nil if there are none
	closed  atomic.Bool

	followed atomic.Uint64 // the departures' changes that the homes are up to date with

	// Owned by the actor.
	version     int64
	colocations place.Colocations
	busy        bool
	stopping    bool
	waiting     []*change

	life context.Context // ends with the session, and ends the work of its changes
	die  context.CancelFunc
	gone chan struct{} // closed when the actor has stopped

	mu        sync.Mutex          // guards the fields up to counter: steps use them on the goroutines of their calls, and must not wait behind a plan that is built
	lost      map[string][]uint64 // by task, the steps whose parts there could not be aborted
	reached   map[string]bool     // the other tasks that have been sent a part of a plan; nil after the end
	partials  map[string]*partialRun
	beginning int // partial runs that are not in partials yet
	callables map[int64]*Callable
	counter   int64
	steps     sessionSteps  // guarded by the task's table of steps
	idle      chan struct{} // closed by ended when the session is closed and its last step is over
	ended     sync.Once
	used      atomic.Int64 // unix nanoseconds of the last call's beginning, or its end if that took time
	watched   atomic.Int64 // the runs that a debugger has watched
	lastConn  atomic.Uint64

	// For observers of the session.
	opened         int64        // unix nanoseconds
	leaseEnds      atomic.Int64 // the same; 0 while a client is connected
	stepsDone      atomic.Int64
	stepsFailed    atomic.Int64
	lastError      atomic.Pointer[string]
	working        atomic.Pointer[workingOn]
	changesWaiting atomic.Int64
	awaits         awaits
}

// workingOn is the change of a session that is in progress.
type workingOn struct {
	what  string
	since int64 // unix nanoseconds
}

// sessionOptions are the options that follow from a ConfigProto and the server's defaults.
type sessionOptions struct {
	sessionTraits
	soft, log   bool
	own         bool // unpinned resources belong to this master alone
	timeout     time.Duration
	filters     []string
	branches    bool // conditionals call their branches instead of being lowered
	narrow      bool // float values cross tasks as bfloat16
	costs       costSchedule
	compression Compression
}

// change is a message that changes the session, with what is passed beside it, and its result. Its work runs on a
// goroutine; then the actor publishes the result, or discards it where the session ended meanwhile.
type change struct {
	message proto.Message // of wire/session.proto
	ctx     context.Context
	def     *graphpb.GraphDef // of Create, Extend and BuildInstance
	reply   chan error        // has room for the one answer

	graph   *graph.Graph
	version int64
	homes   *homes          // of the graph's resources; nil if they stay as they are
	moved   homes           // of MoveHomes
	left    map[string]bool // the tasks from which they have moved
	key     string
	plan    *plan
	other   string    // the key of a step whose names are not sorted
	order   *order    // of its names
	main    *mainSpec // of BuildInstance; nil if the instance runs on this task only
	again   bool      // it failed for want of memory, and the session's plans have made room
}

// changeDone is the actor's message with the result of a change's work.
type changeDone struct {
	message *wire.ChangeDone
	change  *change
	err     error
}

// newSession creates a session for a client's first graph, or for an eager context, which is nil otherwise. ctx bounds the search for unknown tasks.
func newSession(ctx context.Context, t *Task, rights Rights, config *corepb.ConfigProto, eager *EagerContext) (*Session, error) {
	s := &Session{task: t, handle: newHandle(), rights: rights, config: config, eager: eager, partials: map[string]*partialRun{},
		callables: map[int64]*Callable{}, idle: make(chan struct{}), gone: make(chan struct{}), reached: map[string]bool{}, opened: time.Now().UnixNano()}
	if err := s.configure(config); err != nil {
		return nil, err
	}
	s.options.unshared = eager != nil
	s.plans.Store(&plans{})
	devices, err := t.prepare(ctx, s.options.filters)
	if err != nil {
		return nil, err
	}
	s.devices.Store(devices)
	s.life, s.die = context.WithCancel(context.Background())
	if s.worker, err = t.sessionFor(s.handle, t.name, s.opened, s.options.sessionTraits, rights); err != nil {
		s.die()
		return nil, err
	}
	if eager != nil {
		s.worker.spreader = eager
	}
	if s.self, err = t.spawn(roles.Spec{Name: "session/" + s.handle, Kind: "session", Receive: s.Receive, Refuse: s.refuse}); err != nil {
		s.die()
		t.forgetSession(s.handle)
		return nil, err
	}
	s.touch()
	return s, nil
}

// newHandle creates an unguessable session name: without client identities, whoever has the name may use the
// session.
func newHandle() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// singleThreaded is TensorFlow's executor that does not support Switch and Merge. The same restriction applies here.
const singleThreaded = "SINGLE_THREADED_EXECUTOR"

// isolated reports whether a session has resources of its own. A client that declares a cluster may request the opposite.
func isolated(c *corepb.ConfigProto) bool {
	return c.GetIsolateSessionState() && !c.GetExperimental().GetShareSessionStateInClusterspecPropagation()
}

// configure combines the client's options with the server's defaults, and rejects unsupported options
// by name.
func (s *Session) configure(c *corepb.ConfigProto) error {
	d := s.task.Defaults
	s.options = sessionOptions{soft: d.SoftPlacement || c.GetAllowSoftPlacement(), log: d.LogPlacement || c.GetLogDevicePlacement(),
		sessionTraits: sessionTraits{isolated: isolated(c), literal: literal(c)}, timeout: d.OperationTimeout, filters: c.GetDeviceFilters(),
		branches: c.GetExperimental().GetExecutorType() == singleThreaded, narrow: c.GetGraphOptions().GetEnableBfloat16Sendrecv(), costs: costsOf(c.GetGraphOptions())}
	var err error
	if s.options.compression, err = s.task.compression(c); err != nil {
		return err
	}
	if s.options.own, err = ownOf(c, d.Own); err != nil {
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

// Troupe's own session options are parameters of a custom optimizer with this name in graph_options.rewrite_options, the one place in a
// ConfigProto that takes arbitrary names and values.
const (
	ownOptions     = "troupe"
	unpinnedOption = "unpinned"
)

// ParseUnpinned parses the owner of unpinned resources: "task" for the master's own task, "cluster" for
// all masters together.
func ParseUnpinned(text string) (own bool, err error) {
	switch text {
	case "task":
		return true, nil
	case "cluster":
		return false, nil
	}
	return false, status.InvalidArgumentf("unpinned is task or cluster, not %q", text)
}

// ownOf returns whether a session has unpinned resources of its own: as its config says, or else the server's default.
func ownOf(c *corepb.ConfigProto, server bool) (bool, error) {
	own := server
	for _, o := range c.GetGraphOptions().GetRewriteOptions().GetCustomOptimizers() {
		if o.GetName() != ownOptions {
			continue
		}
		for name, value := range o.GetParameterMap() {
			if name != unpinnedOption {
				return false, status.InvalidArgumentf("a session's config has an option %q of Troupe's, which has only %q", name, unpinnedOption)
			}
			var err error
			if own, err = ParseUnpinned(string(value.GetS())); err != nil {
				return false, err
			}
		}
	}
	return own, nil
}

// literal reports whether a session's config turns optimizations off, in one of TensorFlow's two ways.
func literal(c *corepb.ConfigProto) bool {
	options := c.GetGraphOptions()
	return options.GetOptimizerOptions().GetOptLevel() == corepb.OptimizerOptions_L0 || options.GetRewriteOptions().GetDisableMetaOptimizer()
}

// placeable returns the devices of the declared cluster that a session with filters may use. A task
// that was never reached counts as one CPU, which every server has, so that a graph that does not need
// the task does not wait for it.
func (t *Task) placeable(filters []string) ([]place.Device, error) {
	var all []place.Device
	for _, task := range t.Cluster.Tasks() {
		known := t.Cluster.Known(task)
		if task == t.name {
			known = t.Describe()
		} else if known == nil {
			known = []device.Attributes{{Name: task + "/device:CPU:0", Type: "CPU"}}
		}
		for _, d := range known {
			pd, err := place.NewDevice(d.Name, task == t.name)
			if err != nil {
				return nil, err
			}
			pd.Functions = d.Functions
			all = append(all, pd)
		}
	}
	return place.FilterDevices(all, filters, t.name)
}

// find looks for the tasks of unknown devices, and reports whether there were any.
func (t *Task) find(ctx context.Context, devices []place.Device) bool {
	looked := map[string]bool{}
	var asked sync.WaitGroup
	for _, d := range devices {
		if task := taskOf(d.Name); task != t.name && !looked[task] && t.Cluster.Known(task) == nil {
			looked[task] = true
			asked.Go(contain.Func(t.Log, "The look for "+task, func() { t.Cluster.Find(ctx, task) }, nil))
		}
	}
	asked.Wait()
	return len(looked) > 0
}

// prepare returns the placeable devices, prepared for placing a session's nodes, after looking for tasks that may be up by now. The session has
// the devices that are known at this moment, and learns of others when its graph requests them. Sessions without filters share the result, since a large cluster has many devices.
func (t *Task) prepare(ctx context.Context, filters []string) (*place.Prepared, error) {
	devices, err := t.placeable(filters)
	if err == nil && t.find(ctx, devices) {
		devices, err = t.placeable(filters)
	}
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

// allowed returns the tasks with at least one device that passes the session's device filters.
func (s *Session) allowed() map[string]bool {
	tasks := map[string]bool{}
	for _, d := range s.devices.Load().Devices() {
		tasks[taskOf(d.Name)] = true
	}
	return tasks
}

// Describe lists the task's own devices, as their executors know them.
func (t *Task) Describe() []device.Attributes {
	out := make([]device.Attributes, len(t.Devices))
	for i, d := range t.Devices {
		out[i] = *t.executors[d.Name()].Attributes()
	}
	return out
}

// name returns the session's name for people.
func (s *Session) name() string { return view.SessionName(s.handle) }

// touch records a call of the client.
func (s *Session) touch() {
	s.usedNow()
	s.updateRights()
}

// usedNow records that the client's call begins or ends, and returns the time in unix nanoseconds.
func (s *Session) usedNow() int64 {
	now := time.Now().UnixNano()
	s.used.Store(now)
	return now
}

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
		if s.makesRoom(m) {
			s.begin(m.change)
			return
		}
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
		s.publishPlans(func(all plans) { clear(all) })
		close(s.gone)
	}
}

// refuse replies to a change that the actor did not handle.
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

// finish publishes the result of a change's work.
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

// makesRoom drops the session's plans if a plan could not be built for want of memory, and reports whether that is worth another attempt. Steps that
// run keep theirs.
func (s *Session) makesRoom(m *changeDone) bool {
	switch m.change.message.(type) {
	case *wire.BuildPlan, *wire.BuildInstance:
	default:
		return false
	}
	if status.CodeOf(m.err) != status.ResourceExhausted || m.change.again || s.stopping || len(*s.plans.Load()) == 0 {
		return false
	}
	m.change.again = true
	s.publishPlans(func(all plans) { clear(all) })
	return true
}

func (s *Session) begin(m *change) {
	s.busy = true
	begun := time.Now()
	s.working.Store(&workingOn{changeName(m.message), begun.UnixNano()})
	if err := m.ctx.Err(); err != nil { // it waited too long behind others, and its caller has given up
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
			s.task.traces.took(view.PlanEvent, "building a plan", 0, s.handle, s.rights.Who, begun.UnixNano())
		}
		s.self.Send(&changeDone{&wire.ChangeDone{}, m, err})
	}, nil)
}

// changeName returns a change's name for people.
func changeName(message proto.Message) string {
	switch message.(type) {
	case *wire.Create:
		return "create"
	case *wire.Extend:
		return "extend"
	case *wire.MoveHomes:
		return "move"
	case *wire.BuildPlan, *wire.BuildInstance:
		return "plan"
	}
	return "other"
}

func errClosed() error { return status.Errorf(status.FailedPrecondition, "Session is closed.") }

// finalAnswer is how long work whose deadline has passed may take to report what it waited for.
const finalAnswer = 5 * time.Millisecond

// applyOnce is apply without waiting for tasks.
func (s *Session) applyOnce(ctx context.Context, m *change) error {
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
	case <-s.idle: // the work may continue for a while
		return errClosed()
	}
}

// leave removes a step whose parts have all ended.
func (s *Session) leave(st *step) {
	gone, idle := s.task.steps.leave(st)
	if gone {
		s.stepOver()
	}
	if idle {
		s.end()
	}
}

// end marks the closed session idle.
func (s *Session) end() { s.ended.Do(func() { close(s.idle) }) }

// Close ends the session: no further step begins, running ones are cancelled and awaited, and
// all tasks drop their state of the session. Variables and other named resources stay.
func (s *Session) Close(ctx context.Context, reason error) error {
	s.closed.Store(true)
	first, running := s.task.steps.close(s)
	if !first {
		<-s.idle
		return nil
	}
	if len(running) == 0 {
		s.end()
	}
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
	if s.eager != nil {
		s.eager.ended()
	}
	s.task.forgetSession(s.handle)
	if s.rights.Policy != nil {
		s.rights.Policy.Close()
	}
	return err
}

// Policy returns the limits of the session; nil if it has none.
func (s *Session) Policy() Policy { return s.rights.Policy }

// abandon ends the steps of a session that must end, without waiting for other tasks' parts.
func (s *Session) abandon() error {
	steps := s.task.steps.running(s)
	s.end()
	err := status.Errorf(status.DeadlineExceeded, "%d steps of session %s did not end in time", len(steps), s.handle)
	for _, st := range steps {
		st.abandon(err)
	}
	return err
}

// reach records that another task will have a part of the session's plans.
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

// dropRemote asks the other tasks to forget the session.
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
