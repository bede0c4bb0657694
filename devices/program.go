package devices

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/lower"
	"github.com/troupe-run/troupe/graph/partition"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	_ "github.com/troupe-run/troupe/kernels/all" // the rows that programs are made of
	"github.com/troupe-run/troupe/kernels/control"
)

// Program is a graph compiled for one device. It is immutable; any number of runs may use it at the same time.
type Program struct {
	executor *Executor // that compiled it; nil for functions
	device   kernels.Device
	nodes    []node
	frames   []*frameInfo // 0 is the root
	roots    []*node      // nodes that wait for nothing
	// constants are nodes that never run; their values are fixed inputs of others.
	constants []constantNode
	runs      runPool
	owned     []kernels.Closer
	light     bool
	function  string // the function whose body it is; empty for a part of a step
	// accelerator is the device if work continues there after a run has issued it, else nil.
	accelerator kernels.Accelerator
	// originals are the kernels that optimizations have replaced, keyed by graph node.
	originals map[*graph.Node]any
	// untouched returns the program without optimizations, for traced runs; nil if there is none.
	untouched func() (*Program, error)
}

type kind uint8

const (
	kindPlain kind = iota
	kindMerge
	kindSwitch
	kindEnter
	kindExit
	kindNextIteration
	kindControlTrigger
	kindTransfer // _Send and _Recv, which also run when dead
	kindArg
	kindRetval
)

var kinds = map[string]kind{
	"Merge": kindMerge, "RefMerge": kindMerge, "Switch": kindSwitch, "RefSwitch": kindSwitch, "_SwitchN": kindSwitch,
	"Enter": kindEnter, "RefEnter": kindEnter, "Exit": kindExit, "RefExit": kindExit,
	"NextIteration": kindNextIteration, "RefNextIteration": kindNextIteration, "ControlTrigger": kindControlTrigger,
	"_Send": kindTransfer, "_Recv": kindTransfer, "_HostSend": kindTransfer, "_HostRecv": kindTransfer,
	"_Arg": kindArg, "_Retval": kindRetval,
}

// node is a node of a program, with everything needed to fire it.
type node struct {
	graph *graph.Node
	sync  kernels.Kernel
	async kernels.AsyncKernel
	kind  kind
	send  bool   // to another device
	recv  bool   // its outputs may be missing, which makes it dead
	edge  string // the edge that a receive receives
	// handed means that the fed or received tensor is the output as it is. Otherwise the kernel must move it to other memory.
	handed     bool
	hostOut    []bool // outputs in host memory, see kernels.MemoryTypes
	costly     bool
	calls      bool // calls functions
	strings    bool // has string outputs, whose bytes are counted
	subnormals subnormals
	// initializer means that inputs may be references to variables without a value.
	initializer bool
	refIn       []bool // inputs that are not read if they are references; nil for none
	readsRefs   bool   // reads such an input anyway, see passReferences
	numIn       int32
	numOut      int32
	place       int // index in the program
	// frame is the node's frame, local its index there and base its first input slot.
	frame *frameInfo
	local int32
	base  int32
	// edges are the node's outgoing edges, and ctrl the nodes that wait for it without taking an output. fanout is the number of edges of
	// each output.
	edges  []edge
	ctrl   []*node
	fanout []int32
	// child is the frame that an Enter opens. constant marks the value of a loop invariant.
	child    *frameInfo
	constant bool
	index    int // of an _Arg or _Retval
}

type edge struct {
	dst  *node
	out  int32
	slot int32 // in dst's frame
}

// nodeState is what a node still waits for in one iteration. For a Merge, pending is 1 (until a live input arrives) plus twice the number
// of missing control inputs.
type nodeState struct {
	pending int32
	dead    int32
}

// frameInfo is the static part of a loop's frame.
type frameInfo struct {
	name     string
	index    int
	hash     uint64
	parallel int
	enters   int
	template []nodeState // the initial state of an iteration
	slots    int
	fixed    []fixed // inputs that are present from an iteration's beginning
}

// fixed is an input that is the same in all iterations.
type fixed struct {
	slot  int32
	value *tensor.Tensor
}

// KernelSource makes or finds the kernel of a node. The kernel of a stateful node (a private queue, a random generator) can be shared by
// the programs of a session: the node is the client's, and its name stands for the same node in all of them. shared means that the kernel
// outlives the program and the source closes it. path precedes the names of nodes in functions (CompileOptions.Path).
type KernelSource func(path string, n *graph.Node, device kernels.Device, stateful bool, make func() (any, error)) (kernel any, shared bool, err error)

// CompileOptions configure the compilation of a program.
type CompileOptions struct {
	// Session is the name of the session. Resources private to a kernel have it in their names.
	Session string
	// Kernels shares kernels between programs; if nil, each kernel is new.
	Kernels KernelSource
	// Functions runs the graph's functions; nil if it has none.
	Functions kernels.Functions
	// Check, if not nil, is called periodically. Its error ends Compile.
	Check func() error
	// Optimize makes the program compute the same with fewer nodes.
	Optimize bool
	// Function is the name of the function whose body is compiled; empty for a part of a step.
	Function string
	// Path names the calls that lead to the function, from a node of the part on. Two calls of one function have state of their own, as if
	// the function's nodes stood in their places.
	Path string
	// Alone means that no kernel of another program has the resources that are private to this one's kernels.
	Alone bool

	function *function // whose body is compiled
}

// Compile makes a program of a graph for a device: it finds and constructs every node's kernel and lays out the frames. Errors name the
// node. The caller must close the program.
func Compile(g *graph.Graph, dev kernels.Device, opts CompileOptions) (*Program, error) {
	p := &Program{device: dev, function: opts.Function, nodes: make([]node, len(g.Nodes))}
	p.accelerator, _ = dev.(kernels.Accelerator)
	if err := p.compile(g, opts); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Program) compile(g *graph.Graph, opts CompileOptions) error {
	byID := make(map[*graph.Node]*node, len(g.Nodes))
	check := graph.Now(opts.Check)
	for i, n := range g.Nodes {
		if err := check(); err != nil {
			return err
		}
		byID[n] = &p.nodes[i]
		if err := p.construct(&p.nodes[i], n, opts); err != nil {
			return graph.AtNode(err, n)
		}
	}
	if err := p.layFrames(g); err != nil {
		return err
	}
	p.light = len(p.nodes) <= lightNodes && len(p.frames) == 1 &&
		!slices.ContainsFunc(p.nodes, func(n node) bool { return n.costly || callsFunctions(n.graph) })
	w, err := p.wire(byID)
	if err != nil {
		return err
	}
	if p.accelerator == nil {
		w.simplify()
		if opts.Optimize {
			w.optimize()
			p.untouched = sync.OnceValues(func() (*Program, error) { return p.literal(g, opts) })
		}
	}
	p.link(w)
	p.passReferences()
	return nil
}

// Close releases what the program's kernels hold. The program must not be running, nor be run again.
func (p *Program) Close() {
	for _, k := range p.owned {
		k.Close()
	}
	p.owned = nil
}

func (p *Program) construct(n *node, g *graph.Node, opts CompileOptions) error {
	dev := p.device
	n.graph, n.kind = g, kinds[g.Op]
	n.recv = g.Op == "_Recv" || g.Op == "_HostRecv"
	n.send = g.Op == "_Send" || g.Op == "_HostSend"
	n.handed = p.accelerator == nil || g.Op == "_HostRecv"
	_, n.hostOut = kernels.MemoryTypes(g, dev.Type())
	n.numIn, n.numOut = int32(len(g.Inputs)), int32(len(g.OutTypes))
	n.fanout = make([]int32, n.numOut)
	n.strings = slices.Contains(g.OutTypes, tensor.String)
	for i, t := range g.InTypes {
		if t.IsRef() {
			if n.refIn == nil {
				n.refIn = make([]bool, n.numIn)
			}
			n.refIn[i] = true
		}
	}
	if n.kind == kindRetval || n.kind == kindArg {
		i, err := g.Attrs.Int("index")
		if err != nil {
			return err
		}
		n.index = int(i)
	}
	if n.recv {
		edge, err := g.Attrs.Str("tensor_name")
		if err != nil {
			return err
		}
		n.edge = edge
	}
	functions := opts.Functions
	if site := p.callSite(g, opts); site != nil {
		functions = site
	}
	var build func() (any, error)
	def, err := kernels.Find(g, dev.Type())
	switch {
	case err == nil:
		n.costly, n.initializer = def.Expensive, def.UninitializedOK
		n.calls = callsFunctions(n.graph)
		build = func() (any, error) {
			return def.New(&kernels.Construction{Node: g, Path: opts.Path, Device: dev, Session: opts.Session, Alone: opts.Alone, Functions: functions})
		}
	case opts.Functions != nil && g.Def != nil && isFunction(g):
		build = func() (any, error) {
			if err := kernels.AdmitCall(dev); err != nil {
				return nil, err
			}
			c := &kernels.Construction{Node: g, Path: opts.Path, Device: dev, Session: opts.Session, Functions: functions}
			return control.NewCall(c, &graph.FunctionRef{Name: g.Op, Attrs: g.Attrs})
		}
	default:
		return err
	}
	var k any
	shared := false
	if opts.Kernels != nil {
		k, shared, err = opts.Kernels(opts.Path, g, dev, hasState(g), build)
	} else {
		k, err = build()
	}
	if err != nil {
		return err // the source keeps a shared kernel
	}
	if c, ok := k.(kernels.Closer); ok && !shared {
		p.owned = append(p.owned, c)
	}
	switch k := k.(type) {
	case kernels.Kernel:
		n.sync = k
		if p.accelerator == nil && !n.send {
			n.subnormals = subnormalsOf(g)
		}
	case kernels.AsyncKernel:
		n.async = k
	default:
		return status.Internalf("The kernel of op %s is a %T", g.Op, k)
	}
	return nil
}

// hasState reports whether a node's kernel keeps state between runs that other programs of the session must see. Nodes inserted by passes
// (transfers, arguments, results) belong to one program: another one may use their names for something else. Calls keep no state
// themselves, and belong to the program's own version of the library.
func hasState(n *graph.Node) bool {
	kind := kinds[n.Op]
	return n.Def != nil && n.Def.IsStateful && kind != kindArg && kind != kindRetval && n.Attrs[partition.UserNode] == nil && n.Attrs[graph.EndpointAttr] == nil &&
		(!callsFunctions(n) || n.Op == oneShotIterator)
}

// oneShotIterator is the only op that calls a function and keeps its result.
const oneShotIterator = "OneShotIterator"

// isFunction reports whether the node's op is a function of the library rather than a registered op.
func isFunction(n *graph.Node) bool {
	_, err := graph.LookupOp(n.Op)
	return err != nil
}

// calledBy reports whether an error that names another node than n comes from a call by n, and must also name n, as in TensorFlow. There,
// conditionals and loops that ask to be lowered, and calls in a function's body, are replaced by their functions' nodes before anything
// runs. Two further kinds do not add their names here: a receive passes on another node's error, and an optimized kernel names the node
// that it stands for.
func (p *Program) calledBy(n *node) bool {
	call := isFunction(n.graph) || n.graph.Op == "PartitionedCall" || n.graph.Op == "StatefulPartitionedCall"
	return !n.recv && p.originals[n.graph] == nil && !(n.calls && n.graph.Attrs[lower.Attr].GetB()) && !(call && p.function != "")
}

// layFrames assigns each node to its frame.
func (p *Program) layFrames(g *graph.Graph) error {
	info, err := partition.Frames(g)
	if err != nil {
		return err
	}
	for i, f := range info.Frames {
		p.frames = append(p.frames, &frameInfo{name: f.Name, index: i, hash: hashName(f.Name),
			parallel: min(max(f.ParallelIterations, 1), maxParallelIterations), enters: len(f.Enters)})
	}
	for i := range p.nodes {
		n := &p.nodes[i]
		n.frame = p.frames[info.In(i)]
		if n.kind == kindEnter {
			n.child = p.frames[info.Of[i]]
			if n.constant, err = n.graph.Attrs.Bool("is_constant"); err != nil {
				return graph.AtNode(err, n.graph)
			}
		}
	}
	return nil
}

// maxParallelIterations bounds the memory of a frame, which has room for this number of iterations.
const maxParallelIterations = 1 << 12

// link numbers the nodes and their input slots within their frames and connects outputs to slots.
func (p *Program) link(w *wiring) {
	for i := range w.nodes {
		l, n := &w.nodes[i], &p.nodes[i]
		if l.gone {
			continue
		}
		f := n.frame
		n.local, n.base = int32(len(f.template)), int32(f.slots)
		f.slots += int(n.numIn)
		controls := w.controls(n)
		for _, c := range controls {
			c.ctrl = append(c.ctrl, n)
		}
		pending := int32(len(controls))
		for slot, in := range l.inputs {
			if in.value != nil {
				f.fixed = append(f.fixed, fixed{n.base + int32(slot), in.value})
			} else {
				pending++
			}
		}
		if pending == 0 {
			p.roots = append(p.roots, n)
		}
		if n.kind == kindMerge {
			pending = 1 + 2*int32(len(controls))
		}
		f.template = append(f.template, nodeState{pending: pending})
	}
	for i := range w.nodes {
		l, n := &w.nodes[i], &p.nodes[i]
		if l.gone {
			continue
		}
		for slot, in := range l.inputs {
			if in.value == nil {
				in.node.edges = append(in.node.edges, edge{dst: n, out: in.out, slot: n.base + int32(slot)})
				in.node.fanout[in.out]++
			}
		}
	}
	p.constants = w.constants
}

// hashName returns the 64-bit FNV-1a hash: every task assigns a frame the same number.
func hashName(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s) // does not fail
	return h.Sum64()
}

// mix returns the number of a frame, computed from its parent's number, the parent's iteration and the hash of its name.
func mix(parent uint64, iter int64, name uint64) uint64 {
	h := parent ^ (uint64(iter) * 0x9E3779B97F4A7C15) ^ name
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	if h ^= h >> 31; h == 0 {
		return 1
	}
	return h
}

// Device returns the device that the program was compiled for.
func (p *Program) Device() kernels.Device { return p.device }

// String describes the program for debugging.
func (p *Program) String() string {
	return fmt.Sprintf("program of %d nodes in %d frames for %s", len(p.nodes), len(p.frames), p.device.Name())
}

// callsFunctions reports whether a node runs functions of the library.
func callsFunctions(n *graph.Node) bool {
	return isFunction(n) || slices.ContainsFunc(n.Def.GetAttr(), func(a *oppb.OpDef_AttrDef) bool { return strings.HasSuffix(strings.TrimSuffix(a.Type, ")"), "func") })
}

// lightNodes bounds the number of nodes of a light program.
const lightNodes = 256

// Executor returns the executor that compiled the program and runs it.
func (p *Program) Executor() *Executor { return p.executor }

// Light reports whether the program is small and has no loops, no functions and no kernels that are costly for all inputs.
func (p *Program) Light() bool { return p.light }

// sortedKeys returns a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
