package actors

import (
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	"github.com/troupe-run/troupe/actors/wire"
	"github.com/troupe-run/troupe/containers"
	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"google.golang.org/protobuf/proto"
)

// worker is the actor that runs what masters of other tasks send: partitions of their steps, the
// tensors that these receive, and what ends them. It only starts things: partitions are compiled
// and run on goroutines of their steps.
type worker struct{ task *Task }

// Receive handles the messages of masters and of other workers.
func (w *worker) Receive(c actor.Context) {
	t := w.task
	switch m := c.Message().(type) {
	case *wire.RunPartition:
		t.runPartition(m, c.Sender())
	case *wire.Tensors:
		for _, tr := range m.Transfers {
			key, v, err := readTransfer(tr, t.Devices[0].Pool())
			if err != nil {
				if st := t.steps.find(m.Step); st != nil {
					st.fail(err)
				}
				continue
			}
			t.steps.deposit(m.Step, key, v, tr.Dead)
		}
	case *wire.AbortStep:
		if st := t.steps.find(m.Step); st != nil {
			st.fail(failed(m.Failure))
		}
	case *wire.DropSession:
		t.forgetSession(m.Session)
	case *wire.ClearContainers:
		sender := c.Sender()
		go func() { // bounded by the containers' patience
			t.System.Root.Send(sender, &wire.Done{Failure: failure(t.clearContainers(m.Containers))})
		}()
	case *wire.WaitingFor:
		var names []string
		if st := t.steps.find(m.Step); st != nil {
			names = st.waiting(maxWaiting)
		}
		c.Respond(&wire.Waiting{Nodes: names})
	}
}

// maxWaiting is how many nodes an error about a step that takes too long names.
const maxWaiting = 5

// clearContainers empties containers on all devices of the task; without names the default ones.
func (t *Task) clearContainers(names []string) error {
	if len(names) == 0 {
		names = []string{""}
	}
	var first error
	for _, d := range t.Devices {
		for _, name := range names {
			if err := d.Resources().Clear(name); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// workerSession is what a task keeps of a session of some master: compiled plans, the stateful
// kernels that its plans share, and its devices (the task's own, or with containers of the
// session's where its state is isolated).
type workerSession struct {
	task     *Task
	handle   string
	master   string
	devices  []*devices.CPU
	isolated bool

	mu        sync.Mutex
	kernels   map[string]any
	plans     map[uint64]*taskPlan
	functions map[*graph.Library]map[string]*devices.Functions
}

// taskPlan is a plan's share on one task, compiled.
type taskPlan struct{ programs []*devices.Program }

// sessionFor finds or makes what the task keeps of a session.
func (t *Task) sessionFor(handle, master string, isolated bool) *workerSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sessions[handle]
	if s == nil {
		s = &workerSession{task: t, handle: handle, master: master, devices: t.Devices, isolated: isolated,
			kernels: map[string]any{}, plans: map[uint64]*taskPlan{}, functions: map[*graph.Library]map[string]*devices.Functions{}}
		if isolated {
			s.devices = slices.Clone(t.Devices)
			for i, d := range s.devices {
				s.devices[i] = d.WithResources(containers.NewManager(t.System, d.Name(), d.Resources().DefaultContainer()))
			}
		}
		t.sessions[handle] = s
	}
	return s
}

// forgetSession drops what the task keeps of a session. Steps that still run keep what they use.
func (t *Task) forgetSession(handle string) {
	t.mu.Lock()
	s := t.sessions[handle]
	delete(t.sessions, handle)
	t.mu.Unlock()
	if s == nil {
		return
	}
	for _, d := range s.devices {
		private := d.Resources()
		if s.isolated {
			if err := private.Close(); err != nil {
				t.Log.Warn("a session's containers were not closed", "session", handle, "error", err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kernels {
		if c, ok := k.(interface{ Close() }); ok {
			c.Close()
		}
	}
	s.kernels, s.plans = nil, nil
}

// forgetSessionsOf drops the sessions of a master that is gone.
func (t *Task) forgetSessionsOf(master string) {
	t.mu.Lock()
	var handles []string
	for h, s := range t.sessions {
		if s.master == master {
			handles = append(handles, h)
		}
	}
	t.mu.Unlock()
	for _, h := range handles {
		t.forgetSession(h)
	}
}

// plan gives a compiled plan; nil when the task does not have it.
func (s *workerSession) plan(id uint64) *taskPlan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plans[id]
}

// compile makes a plan's programs for graphs by device.
func (s *workerSession) compile(parts map[string]*graph.Graph) (*taskPlan, error) {
	p := &taskPlan{}
	for _, d := range s.devices {
		g := parts[d.Name()]
		if g == nil {
			continue
		}
		opts := devices.CompileOptions{Session: s.handle, Kernels: s.kernel, Functions: s.functionsOn(g.Library, d)}
		program, err := devices.Compile(g, d, opts)
		if err != nil {
			return nil, err
		}
		p.programs = append(p.programs, program)
	}
	if len(p.programs) != len(parts) {
		return nil, status.InvalidArgumentf("Task %s does not have all of the devices that the plan names", s.task.name)
	}
	return p, nil
}

// functionsOn gives the library's functions on a device, the same for all plans of the library.
func (s *workerSession) functionsOn(library *graph.Library, d *devices.CPU) *devices.Functions {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.functions[library] == nil {
		clear(s.functions) // an extended session has a new library; older plans keep theirs
		s.functions[library] = map[string]*devices.Functions{}
	}
	f := s.functions[library][d.Name()]
	if f == nil {
		f = devices.NewFunctions(library, d, s.handle)
		s.functions[library][d.Name()] = f
	}
	return f
}

// kernel makes a node's kernel, or gives the one that another plan of the session made for the
// same node where the op has state (a private queue, a random generator): TensorFlow's OpSegment.
func (s *workerSession) kernel(n *graph.Node, def *kernels.Def, make func() (any, error)) (kernel any, shared bool, err error) {
	if n.Def == nil || !n.Def.IsStateful || def == nil {
		kernel, err = make()
		return kernel, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kernels[n.Name]; ok {
		return k, true, nil
	}
	if kernel, err = make(); err != nil || s.kernels == nil {
		return kernel, false, err
	}
	s.kernels[n.Name] = kernel
	return kernel, true, nil
}

// register compiles and keeps a plan that a master sent.
func (s *workerSession) register(id uint64, m *wire.Plan) (*taskPlan, error) {
	parts := map[string]*graph.Graph{}
	for _, part := range m.Parts {
		var def graphpb.GraphDef
		if err := proto.Unmarshal(part.GraphDef, &def); err != nil {
			return nil, status.InvalidArgumentf("A plan's graph cannot be read: %v", err)
		}
		g, err := graph.Rebuild(&def)
		if err != nil {
			return nil, err
		}
		parts[part.Device] = g
	}
	p, err := s.compile(parts)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plans == nil {
		return nil, status.Errorf(status.Aborted, "Session %s is not found.", s.handle)
	}
	s.plans[id] = p
	return p, nil
}

// runPartition starts this task's part of a step whose master is elsewhere, and answers when it
// has ended.
func (t *Task) runPartition(m *wire.RunPartition, sender *actor.PID) {
	reply := func(done *wire.PartitionDone) {
		done.Step, done.Task = m.Step, t.name
		if sender != nil {
			t.System.Root.Send(sender, done)
		}
	}
	if m.Boot != t.Boot {
		reply(&wire.PartitionDone{Failure: failure(status.Errorf(status.Aborted,
			"%s was restarted: the step was planned for another start of it", t.name))})
		return
	}
	s := t.sessionFor(m.Session, m.Master, m.Plan != nil && m.Plan.Isolated)
	plan := s.plan(m.PlanId)
	if plan == nil && m.Plan == nil {
		reply(&wire.PartitionDone{UnknownPlan: true})
		return
	}
	var st *taskStep
	st = t.newStep(m.Step, s, devices.Feeds(nil), noFetches{}, func(err error) {
		done := &wire.PartitionDone{Failure: failure(err)}
		if st.stats != nil {
			b, e := proto.Marshal(st.stats.proto())
			if e != nil {
				t.Log.Warn("a step's statistics cannot be sent", "error", e)
			}
			done.StepStats = b
		}
		reply(done)
	})
	st.master = m.Master
	if m.Trace {
		st.trace()
	}
	if err := st.table(); err != nil {
		reply(&wire.PartitionDone{Failure: failure(err)})
		return
	}
	go func() { // ends with the part
		if plan == nil {
			var err error
			if plan, err = s.register(m.PlanId, m.Plan); err != nil {
				st.left = 1
				st.ended(err)
				return
			}
		}
		st.run(plan.programs)
	}()
}

// noFetches is for parts that fetch nothing: only the client's own task does.
type noFetches struct{}

// Fetch drops what no plan sends here.
func (noFetches) Fetch(_ int, t *tensor.Tensor, _ bool) {
	if t != nil {
		t.Release()
	}
}
