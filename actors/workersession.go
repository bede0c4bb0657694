package actors

import (
	"cmp"
	"slices"
	"sync"
	"time"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/processors"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/internal/roles"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// workerSession is a task's state of a session of some master: compiled plans, the stateful
// kernels that the plans share, and the session's devices. These are the task's own or, if the session's state is isolated,
// have containers of their own.
type workerSession struct {
	task    *Task
	handle  string
	master  string
	opened  int64 // by this task's clock, in nanoseconds since 1970; 0 if the master does not say
	devices []devices.Device
	sessionTraits
	files      *files.Door
	rights     *rights.Session  // nil means no restrictions
	spreader   devices.Spreader // of an eager context; else nil
	processors *processors.Client
	client     string        // the owner, if known
	who        string        // the same, for people: see Rights
	memory     *tensor.Quota // of the session
	// stepMemory bounds the memory of each step, in bytes; 0 means no bound.
	stepMemory int64
	orphaned   *time.Timer // runs while a lost master is silent; under the task's lock

	mu        sync.Mutex // guards the rest: parts find their plans on the goroutines of their links
	forgotten bool
	kernels   map[string]sharedKernel
	retired   []any                    // kernels of lost devices
	starts    []deviceStart            // the starts that the session knows, of devices that can be lost
	coming    map[uint64]*compiling    // plans that are being compiled, by id
	plans     map[uint64]*compiledPlan // that other tasks' masters sent
	uses      int64
	library   *graph.Library // the latest one
	functions *functionSet   // of library
	held      int64          // bytes of the session's graph that are counted as its memory
}

// sessionTraits describe how all tasks run a session's plans.
type sessionTraits struct {
	isolated bool // the session's resources are its own
	literal  bool // programs are not optimized
	unshared bool // plans share no kernels: their nodes are different ones, whatever their names
}

// sharedKernel is a kernel with state, which the session's plans share.
type sharedKernel struct {
	kernel any
	device string
}

// sessionFor returns the task's state of a session, which it creates if necessary. It returns RESOURCE_EXHAUSTED if there are too many.
func (t *Task) sessionFor(handle, master string, opened int64, traits sessionTraits, client Rights) (*workerSession, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[handle]
	if s == nil {
		if err := t.opened.add(t.name, client.Client, 1); err != nil {
			return nil, err
		}
		mayUse := rights.New(client.scope())
		s = &workerSession{task: t, handle: handle, master: master, opened: opened, who: client.Who, sessionTraits: traits, rights: mayUse, files: files.NewDoor(t.files.of(client), mayUse),
			kernels: map[string]sharedKernel{}, plans: map[uint64]*compiledPlan{}, starts: t.startsOf(t.Devices)}
		s.devices = slices.Clone(t.Devices)
		if traits.isolated {
			for i, d := range s.devices {
				s.devices[i] = d.WithResources(containers.NewManager(t.System, d.Name(), d.Resources().DefaultContainer()))
			}
		}
		if mayUse != nil {
			for i, d := range s.devices {
				s.devices[i] = d.For(mayUse)
			}
		}
		s.limitMemory(client)
		s.processors = processors.Default.Open(cmp.Or(client.Client, client.Who))
		t.sessions[handle] = s
	}
	s.rights.Update(client.scope())
	s.masterIsAlive()
	return s, nil
}

// Missed implements queues.Notes: an event and a line of the log, as many as a client may cause.
func (s *workerSession) Missed(what, name, text string) {
	if s.task.Events.AddSomeOf(s.who, what+" missed", name, text) {
		s.task.Log.Warn("a session has got nothing but an end that came before it", what, name, "why", text)
	}
}

// session returns the task's state of a session, or nil.
func (t *Task) session(handle string) *workerSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[handle]
	if s != nil {
		s.masterIsAlive()
	}
	return s
}

// masterIsAlive records that the session's master is alive. The caller holds the task's lock.
func (s *workerSession) masterIsAlive() {
	if s.orphaned != nil {
		s.orphaned.Stop()
		s.orphaned = nil
	}
}

// forgetSession drops the task's state of a session, and ends the session's steps that still run here.
func (t *Task) forgetSession(handle string) {
	t.mu.Lock()
	s := t.sessions[handle]
	delete(t.sessions, handle)
	if s != nil {
		s.masterIsAlive()
		t.opened.drop(s.client, 1)
	}
	t.mu.Unlock()
	if s == nil {
		return
	}
	defer s.endMemory()
	defer s.processors.Close()
	for _, st := range t.steps.parts() {
		if st.session == s {
			st.fail(&status.Error{Code: status.Cancelled, Message: "Session " + handle + " was closed", Derived: true})
		}
	}
	s.forget()
}

func (s *workerSession) forget() {
	if s.isolated {
		for _, d := range s.devices {
			if err := d.Resources().Close(); err != nil {
				s.task.Log.Warn("a session's containers were not closed", "session", s.handle, "error", err)
			}
		}
	}
	s.mu.Lock()
	s.forgotten = true
	s.devices[0].Pool().Unreserve(s.held)
	private, plans, functions := s.retired, s.plans, s.functions
	for _, k := range s.kernels {
		private = append(private, k.kernel)
	}
	s.kernels, s.retired, s.plans, s.functions, s.library = nil, nil, nil, nil, nil
	s.mu.Unlock()
	for _, k := range private {
		if c, ok := k.(kernels.Closer); ok {
			c.Close()
		}
	}
	for _, p := range plans {
		p.release()
	}
	functions.release()
}

// orphanSessionsOf drops the sessions of a lost master, unless it reappears within
// the lease: a broken connection costs the running steps, but not the sessions' state.
func (t *Task) orphanSessionsOf(master string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for handle, s := range t.sessions {
		if s.master != master || master == t.name || s.orphaned != nil {
			continue
		}
		var timer *time.Timer
		timer = time.AfterFunc(t.Lease, contain.Func(t.Log, "The end of session "+handle, func() {
			t.mu.Lock()
			gone := s.orphaned == timer && t.sessions[handle] == s
			t.mu.Unlock()
			if gone {
				t.Log.Info("a session's master is gone", "session", handle, "master", master)
				t.forgetSession(handle)
			}
		}, nil))
		s.orphaned = timer
	}
}

// forgetSessions drops the task's state of all sessions.
func (t *Task) forgetSessions() {
	t.mu.Lock()
	handles := sortedKeys(t.sessions)
	t.mu.Unlock()
	for _, h := range handles {
		t.forgetSession(h)
	}
}

// plan returns a compiled plan, with a reference for the caller, or else one that is being compiled, of which the caller then calls then or abandon.
// Both are nil if the task has no such plan.
func (s *workerSession) plan(id uint64) (*compiledPlan, *compiling) {
	s.mu.Lock()
	p := s.plans[id]
	if p != nil && s.staleLocked(p) {
		delete(s.plans, id)
		s.mu.Unlock()
		p.release()
		return nil, nil // the master sends it again
	}
	defer s.mu.Unlock()
	if p != nil {
		s.uses++
		p.used = s.uses
		p.claim()
		return p, nil
	}
	c := s.coming[id]
	if c != nil {
		c.claims++
	}
	return nil, c
}

// compiling is a plan that a master has sent and that is being compiled. Steps that need it wait for it: if they asked their master for it once
// more, a task that leaves meanwhile would refuse to run what it had accepted. The session's lock guards it.
type compiling struct {
	session *workerSession
	id      uint64
	claims  int // of those that wait, or are about to
	waiting []func(*compiledPlan, error)
	ended   bool
	plan    *compiledPlan
	err     error
}

// beginPlan records that a plan is being compiled. The worker alone calls it, for a plan that plan does not know.
func (s *workerSession) beginPlan(id uint64) *compiling {
	c := &compiling{session: s, id: id}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coming == nil {
		s.coming = map[uint64]*compiling{}
	}
	s.coming[id] = c
	return c
}

// then calls f on the pool when the plan has been compiled, with a reference to it, or when it could not be.
func (c *compiling) then(pool *roles.Pool, f func(*compiledPlan, error)) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.waiting = append(c.waiting, func(p *compiledPlan, err error) { pool.Schedule(func() { f(p, err) }) })
	c.tellLocked()
}

// abandon takes the place of then if the step does not need the plan any more. c may be nil.
func (c *compiling) abandon() {
	if c == nil {
		return
	}
	c.session.mu.Lock()
	var unused *compiledPlan
	if c.claims--; c.ended {
		unused = c.plan
	}
	c.session.mu.Unlock()
	if unused != nil {
		unused.release()
	}
}

// end says what became of the plan, to which the caller has a reference if err is nil.
func (c *compiling) end(p *compiledPlan, err error) {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if c.session.coming[c.id] == c {
		delete(c.session.coming, c.id)
	}
	c.ended, c.plan, c.err = true, p, err
	if err == nil {
		for range c.claims {
			p.claim()
		}
	}
	c.tellLocked()
}

// tellLocked calls those that wait, if the plan's compilation has ended.
func (c *compiling) tellLocked() {
	if !c.ended {
		return
	}
	for _, f := range c.waiting {
		f(c.plan, c.err)
	}
	c.waiting = nil
}

// register compiles and keeps a plan that a master sent, with a reference for the caller. If two requests bring the same
// plan at once, the first one is kept. Beyond maxPlans, the least recently used plan is dropped;
// its master sends it again when needed.
func (s *workerSession) register(id uint64, m *wire.Plan, check func() error) (*compiledPlan, error) {
	defer s.task.traces.took(view.PlanEvent, "compiling a plan", 0, s.handle, s.who, time.Now().UnixNano())
	parts := map[string]*graph.Graph{}
	for _, part := range m.Parts {
		var def graphpb.GraphDef
		if err := tensor.Unmarshal(part.GraphDef, &def); err != nil {
			return nil, status.InvalidArgumentf("A plan's graph cannot be read: %v", err)
		}
		g, err := graph.Rebuild(&def)
		if err != nil {
			return nil, err
		}
		parts[part.Device] = g
	}
	p, err := s.compile(parts, m.Watched, check)
	if err != nil {
		return nil, err
	}
	if err := s.dump(parts, m.DumpTo); err != nil {
		p.release()
		return nil, err
	}
	p.compression = Compression(m.Compression)
	s.mu.Lock()
	if s.forgotten {
		s.mu.Unlock()
		p.release()
		return nil, status.Errorf(status.Aborted, "Session %s is not found.", s.handle)
	}
	unused := p
	if have := s.plans[id]; have != nil {
		p = have
	} else {
		unused = s.oldestLocked()
		s.plans[id] = p
	}
	s.uses++
	p.used = s.uses
	p.claim()
	s.mu.Unlock()
	if unused != nil {
		unused.release()
	}
	return p, nil
}

// hold counts n bytes as memory of the session until it ends, or until drop.
func (s *workerSession) hold(n int64) error {
	if err := s.devices[0].Pool().Reserve(n); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forgotten {
		s.devices[0].Pool().Unreserve(n)
		return errClosed()
	}
	s.held += n
	return nil
}

// drop undoes hold.
func (s *workerSession) drop(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.forgotten {
		s.held -= n
		s.devices[0].Pool().Unreserve(n)
	}
}

// dropPlans drops the plans that other tasks' masters have sent, to make room for another one, and reports whether there were any. The masters
// send them again when they are needed.
func (s *workerSession) dropPlans() bool {
	s.mu.Lock()
	var plans map[uint64]*compiledPlan
	if !s.forgotten { // or else they have been dropped
		plans, s.plans = s.plans, map[uint64]*compiledPlan{}
	}
	s.mu.Unlock()
	for _, p := range plans {
		p.release()
	}
	return len(plans) > 0
}

// oldestLocked removes and returns the plan that must make room for another one, if any.
func (s *workerSession) oldestLocked() *compiledPlan {
	if len(s.plans) < maxPlans {
		return nil
	}
	var oldest uint64
	for id, p := range s.plans {
		if o := s.plans[oldest]; o == nil || p.used < o.used {
			oldest = id
		}
	}
	p := s.plans[oldest]
	delete(s.plans, oldest)
	return p
}

// kernel creates a node's kernel. If the kernel has state, it returns the one that another plan of the session created for the same
// node, as TensorFlow's OpSegment does. It is a devices.KernelSource.
func (s *workerSession) kernel(path string, n *graph.Node, device kernels.Device, stateful bool, make func() (any, error)) (kernel any, shared bool, err error) {
	if !stateful {
		kernel, err = make()
		return kernel, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name := path + "\x00" + n.Name
	if k, ok := s.kernels[name]; ok {
		return k.kernel, true, kernels.Admit(n, device)
	}
	if kernel, err = make(); err != nil || s.forgotten {
		return kernel, false, err
	}
	s.kernels[name] = sharedKernel{kernel, device.Name()}
	return kernel, true, nil
}
