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
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
)

// workerSession is what a task keeps of a session of some master: compiled plans, the stateful
// kernels that its plans share, and its devices (the task's own, or with containers of the
// session's where its state is isolated).
type workerSession struct {
	task    *Task
	handle  string
	master  string
	devices []devices.Device
	sessionTraits
	files      files.FS
	processors *processors.Client
	client     string        // whose session it is, if that is known
	memory     *tensor.Quota // of the session
	// stepMemory bounds what each step takes; 0 is no bound.
	stepMemory int64
	orphaned   *time.Timer // runs while nothing is heard of a master that was lost; under the task's lock

	mu        sync.Mutex
	forgotten bool
	kernels   map[string]sharedKernel
	retired   []any                // kernels of devices that were lost
	starts    []deviceStart        // of the devices that may be lost, as the session knows them
	plans     map[uint64]*taskPlan // that other tasks' masters sent
	uses      int64
	library   *graph.Library // the latest one
	functions *functionSet   // of library
}

// sessionTraits are what each task has to know of how a session's plans are run.
type sessionTraits struct {
	isolated bool // the session's resources are its own
	literal  bool // programs are not optimized
}

// sharedKernel is a kernel with state, which the session's plans share.
type sharedKernel struct {
	kernel any
	device string
}

// sessionFor finds or makes what the task keeps of a session; nil beyond maxSessions.
func (t *Task) sessionFor(handle, master string, traits sessionTraits, rights Rights) *workerSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[handle]
	if s == nil && len(t.sessions) >= maxSessions {
		return nil
	}
	if s == nil {
		s = &workerSession{task: t, handle: handle, master: master, sessionTraits: traits, files: t.files.of(rights),
			kernels: map[string]sharedKernel{}, plans: map[uint64]*taskPlan{}, starts: t.startsOf(t.Devices)}
		s.devices = slices.Clone(t.Devices)
		if traits.isolated {
			for i, d := range s.devices {
				s.devices[i] = d.WithResources(containers.NewManager(t.System, d.Name(), d.Resources().DefaultContainer()))
			}
		}
		s.limitMemory(rights)
		s.processors = processors.Default.Open(cmp.Or(rights.Client, rights.Who))
		t.sessions[handle] = s
	}
	s.heard()
	return s
}

// session finds what the task keeps of a session; nil when that is nothing.
func (t *Task) session(handle string) *workerSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[handle]
	if s != nil {
		s.heard()
	}
	return s
}

// heard notes that the session's master is there; the caller holds the task's lock.
func (s *workerSession) heard() {
	if s.orphaned != nil {
		s.orphaned.Stop()
		s.orphaned = nil
	}
}

// forgetSession drops what the task keeps of a session, and ends its steps that still run here.
func (t *Task) forgetSession(handle string) {
	t.mu.Lock()
	s := t.sessions[handle]
	delete(t.sessions, handle)
	if s != nil {
		s.heard()
	}
	t.mu.Unlock()
	if s == nil {
		return
	}
	defer s.endMemory()
	defer s.processors.Close()
	for _, st := range t.steps.all() {
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

// orphanSessionsOf drops the sessions of a master that was lost, unless it is heard of again within
// the lease: a connection that breaks costs the running steps, but not the sessions' state.
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

// forgetSessions drops what the task keeps of all sessions.
func (t *Task) forgetSessions() {
	t.mu.Lock()
	handles := sortedKeys(t.sessions)
	t.mu.Unlock()
	for _, h := range handles {
		t.forgetSession(h)
	}
}

// plan finds and claims a compiled plan; nil when the task does not have it.
func (s *workerSession) plan(id uint64) *taskPlan {
	s.mu.Lock()
	p := s.plans[id]
	if p != nil && s.staleLocked(p) {
		delete(s.plans, id)
		s.mu.Unlock()
		p.release()
		return nil // the master sends it again
	}
	defer s.mu.Unlock()
	if p != nil {
		s.uses++
		p.used = s.uses
		p.claim()
	}
	return p
}

// register compiles and keeps a plan that a master sent, and claims it for the caller. Of two that
// come at once the first one stays. Beyond maxPlans the one that was used the longest ago goes:
// its master sends it again.
func (s *workerSession) register(id uint64, m *wire.Plan, check func() error) (*taskPlan, error) {
	defer s.task.traces.took(view.PlanEvent, "compiling a plan", 0, s.handle, time.Now().UnixNano())
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

// oldestLocked takes the plan off that has to make room for another one, if one has to.
func (s *workerSession) oldestLocked() *taskPlan {
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

// kernel makes a node's kernel, or gives the one that another plan of the session made for the same node where it has
// state: TensorFlow's OpSegment. It is a devices.KernelSource.
func (s *workerSession) kernel(n *graph.Node, stateful bool, make func() (any, error)) (kernel any, shared bool, err error) {
	if !stateful {
		kernel, err = make()
		return kernel, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kernels[n.Name]; ok {
		return k.kernel, true, nil
	}
	if kernel, err = make(); err != nil || s.forgotten {
		return kernel, false, err
	}
	s.kernels[n.Name] = sharedKernel{kernel, n.Assigned}
	return kernel, true, nil
}
