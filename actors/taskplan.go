package actors

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
)

// taskPlan is a plan's part on one task, compiled. It lives as long as somebody has a claim to it:
// the table that it is found in, and every step that runs it.
type taskPlan struct {
	programs  []*devices.Program
	functions []*functionSet
	starts    []deviceStart   // of the devices that may be lost
	peers     map[string]bool // the other tasks that it exchanges tensors with
	used      int64           // when it was used last, in the session's counting of uses
	claims    atomic.Int64
	// compression is that of the tensors that are pushed to other tasks.
	compression Compression
}

// light tells that running the plan on one goroutine takes next to no time, but for what it waits for
// and for inputs that are large.
func (p *taskPlan) light() bool {
	return len(p.programs) == 0 || len(p.programs) == 1 && p.programs[0].Light()
}

// claim keeps the plan until release; false when nobody has a claim to it any more.
func (p *taskPlan) claim() bool {
	for {
		n := p.claims.Load()
		if n == 0 {
			return false
		}
		if p.claims.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives up a claim. With the last one the plan's kernels are closed.
func (p *taskPlan) release() {
	if p.claims.Add(-1) > 0 {
		return
	}
	for _, program := range p.programs {
		program.Executor().CloseProgram(program)
	}
	for _, f := range p.functions {
		f.release()
	}
}

// functionSet is a library's functions on a task's devices, shared by the plans of the library.
type functionSet struct {
	byDevice map[functionsKey]*devices.Functions // under the session's lock
	claims   atomic.Int64
}

// functionsKey is a device in one of its starts.
type functionsKey struct {
	device      string
	incarnation uint64
}

func (f *functionSet) release() {
	if f == nil || f.claims.Add(-1) > 0 {
		return
	}
	for _, functions := range f.byDevice {
		functions.Close()
	}
}

// compile makes a plan of graphs by device, which the caller has the claim to. The programs of one that a debugger watches are
// not optimized. check, if not nil, is called now and then; its error ends it.
func (s *workerSession) compile(parts map[string]*graph.Graph, watched bool, check func() error) (*taskPlan, error) {
	p := &taskPlan{peers: map[string]bool{}}
	p.claims.Store(1)
	for _, d := range s.devices {
		g := parts[d.Name()]
		if g == nil {
			continue
		}
		p.starts = append(p.starts, s.task.startsOf([]devices.Device{d})...)
		opts := devices.CompileOptions{Session: s.handle, Kernels: s.kernel, Functions: s.functionsOn(p, g.Library, d), Check: check, Optimize: !s.literal && !watched}
		program, err := s.task.executors[d.Name()].Compile(g, d, opts)
		if err != nil {
			p.release()
			return nil, err
		}
		p.programs = append(p.programs, program)
		s.notePeers(p, g)
	}
	if len(p.programs) != len(parts) {
		p.release()
		return nil, status.InvalidArgumentf("Task %s does not have all of the devices that the plan names", s.task.name)
	}
	return p, nil
}

// notePeers finds the other tasks that a graph sends to and receives from.
func (s *workerSession) notePeers(p *taskPlan, g *graph.Graph) {
	for _, n := range g.Nodes {
		var attr string
		switch n.Op {
		case "_Send", "_HostSend":
			attr = "recv_device"
		case "_Recv", "_HostRecv":
			attr = "send_device"
		default:
			continue
		}
		if task := taskOf(string(n.Attrs[attr].GetS())); task != s.task.name {
			p.peers[task] = true
		}
	}
}

// functionsOn gives the library's functions on a device, the same for all plans of the library, for
// as long as p lives.
func (s *workerSession) functionsOn(p *taskPlan, library *graph.Library, d devices.Device) *devices.Functions {
	s.mu.Lock()
	set := s.functions
	var replaced *functionSet
	if set == nil || s.library != library {
		// An extended session has a new library; older plans keep theirs.
		replaced, set = set, &functionSet{byDevice: map[functionsKey]*devices.Functions{}}
		if !s.forgotten {
			set.claims.Store(1)
			s.library, s.functions = library, set
		}
	}
	if len(p.functions) == 0 || p.functions[len(p.functions)-1] != set {
		set.claims.Add(1)
		p.functions = append(p.functions, set)
	}
	key := functionsKey{d.Name(), s.task.executors[d.Name()].Attributes().Incarnation}
	f := set.byDevice[key]
	if f == nil {
		f = devices.NewFunctions(library, d, s.handle, !s.literal)
		set.byDevice[key] = f
	}
	s.mu.Unlock()
	replaced.release()
	return f
}
