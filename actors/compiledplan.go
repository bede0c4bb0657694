package actors

import (
	"strings"
	"sync/atomic"

	"github.com/troupe-run/troupe/devices"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/rights"
)

// compiledPlan is a plan's part on one task, compiled. It lives as long as it is referenced:
// by the table that it is found in, and by every step that runs it.
type compiledPlan struct {
	programs  []*devices.Program
	functions []*functionSet
	starts    []deviceStart   // the starts of its devices that can be lost
	scope     *rights.Scope   // the rights that its kernels were created with
	peers     map[string]bool // the other tasks that it exchanges tensors with
	used      int64           // the session's count of uses at the last use
	claims    atomic.Int64
	closed    func()       // called when the last reference is released; may be nil
	memory    *tensor.Pool // that held bytes are counted in
	held      int64
	// compression is used for tensors that are pushed to other tasks.
	compression Compression
}

// light reports whether the plan runs on one goroutine in very little time, not counting what it waits for
// and unless its inputs are large.
func (p *compiledPlan) light() bool {
	return len(p.programs) == 0 || len(p.programs) == 1 && p.programs[0].Light()
}

// claim adds a reference to the plan. It returns false if the last one has been released.
func (p *compiledPlan) claim() bool {
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

// release drops a reference. The last one closes the plan's kernels.
func (p *compiledPlan) release() {
	if p.claims.Add(-1) > 0 {
		return
	}
	for _, program := range p.programs {
		program.Executor().CloseProgram(program)
	}
	for _, f := range p.functions {
		f.release()
	}
	if p.closed != nil {
		p.closed()
	}
	if p.held > 0 {
		p.memory.Unreserve(p.held)
	}
}

// planNode is about what a node of a plan takes on a task that runs it, and again at the master, in bytes.
const planNode = 512

// hold counts n bytes as memory of the session until the last reference to the plan is released.
func (p *compiledPlan) hold(n int64) error {
	if err := p.memory.Reserve(n); err != nil {
		return err
	}
	p.held += n
	return nil
}

// functionSet is a library's functions on a task's devices, shared by the plans of the library.
type functionSet struct {
	byDevice map[functionsKey]*devices.Functions // under the session's lock
	claims   atomic.Int64
}

// functionsKey is one start of a device, and the session's rights.
type functionsKey struct {
	device      string
	incarnation uint64
	scope       *rights.Scope
}

func (f *functionSet) release() {
	if f == nil || f.claims.Add(-1) > 0 {
		return
	}
	for _, functions := range f.byDevice {
		functions.Close()
	}
}

// compile makes a plan of graphs by device, with a reference for the caller. Programs that a debugger watches are
// not optimized. check, if not nil, is called periodically; its error ends the compilation.
func (s *workerSession) compile(parts map[string]*graph.Graph, watched bool, check func() error) (*compiledPlan, error) {
	p := &compiledPlan{peers: map[string]bool{}, scope: s.rights.Scope(), memory: s.devices[0].Pool()}
	p.claims.Store(1)
	nodes := 0
	for _, g := range parts {
		nodes += len(g.Nodes)
	}
	err := p.hold(int64(nodes) * planNode)
	if status.CodeOf(err) == status.ResourceExhausted && s.dropPlans() {
		err = p.hold(int64(nodes) * planNode)
	}
	if err != nil {
		return nil, err
	}
	for _, d := range s.devices {
		g := parts[d.Name()]
		if g == nil {
			continue
		}
		p.starts = append(p.starts, s.task.startsOf([]devices.Device{d})...)
		opts := devices.CompileOptions{Session: s.handle, Kernels: s.kernel, Functions: s.functionsOn(p, g.Library, d), Check: check, Optimize: !s.literal && !watched}
		if s.unshared {
			opts.Kernels = nil
		}
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

// notePeers records the other tasks that a graph sends to and receives from.
func (s *workerSession) notePeers(p *compiledPlan, g *graph.Graph) {
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
		if strings.HasPrefix(string(n.Attrs["tensor_name"].GetS()), eagerEdge) {
			continue // no edge between parts
		}
		if task := taskOf(string(n.Attrs[attr].GetS())); task != s.task.name {
			p.peers[task] = true
		}
	}
}

// functionsOn returns the library's functions on a device, which all plans of the library share, for
// as long as p lives.
func (s *workerSession) functionsOn(p *compiledPlan, library *graph.Library, d devices.Device) *devices.Functions {
	s.mu.Lock()
	set := s.functions
	var replaced *functionSet
	if set == nil || s.library != library {
		// An extended session has a new library. Older plans keep their own.
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
	key := functionsKey{d.Name(), s.task.executors[d.Name()].Attributes().Incarnation, p.scope}
	f := set.byDevice[key]
	if f == nil {
		f = devices.NewFunctions(library, d, s.handle, !s.literal, s.spreader)
		set.byDevice[key] = f
	}
	s.mu.Unlock()
	replaced.release()
	return f
}
