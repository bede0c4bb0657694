package kernels

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/rights"
)

// Kernel computes a node's outputs from its inputs. It must not block on another node, a lock held during I/O, or a peer. It may compute
// for long; its row then says Expensive. The executor appends the node's name to a returned error.
type Kernel interface {
	Compute(ctx *Context) error
}

// Func adapts a function to a Kernel.
type Func func(ctx *Context) error

// Compute calls f.
func (f Func) Compute(ctx *Context) error { return f(ctx) }

// AsyncKernel is a kernel that may wait, for a queue, a peer or a function that it calls. It returns at once and calls done exactly once,
// from any goroutine, possibly before it returns. The context stays valid until done is called. A kernel that waits registers with the
// step's Cancellation and ends with CANCELLED when that fires.
type AsyncKernel interface {
	ComputeAsync(ctx *Context, done func(error))
}

// AsyncFunc adapts a function to an AsyncKernel.
type AsyncFunc func(ctx *Context, done func(error))

// ComputeAsync calls f.
func (f AsyncFunc) ComputeAsync(ctx *Context, done func(error)) { f(ctx, done) }

// Closer is implemented by kernels that hold something until their session ends: a constant its tensor, a queue without a shared name the
// queue.
type Closer interface {
	// Close releases what the kernel holds. The kernel no longer runs.
	Close()
}

// Def is a row of the kernel table: an op on a kind of device, for some element types.
type Def struct {
	// Op is the op type. Device is the device type; empty means CPU.
	Op, Device string
	// Types restricts type attributes: it maps an attribute's name to the element types that this row serves. An attribute that is not
	// listed may have any type that the op declares.
	Types map[string][]tensor.DType
	// HostInputs and HostOutputs name the arguments that are in host memory on devices with their own memory. "*" stands for all.
	HostInputs, HostOutputs []string
	// Expensive kernels are worth handing to another core; others run where they become ready.
	Expensive bool
	// UninitializedOK kernels accept references to variables without a value.
	UninitializedOK bool
	// Program kernels call functions of the program that owns the server (ProgramOf), and run only on devices of servers with one.
	Program bool
	// New checks and decodes a node's attributes and returns its kernel: a Kernel or an AsyncKernel.
	New func(c *Construction) (any, error)
}

// Construction is what a constructor sees of the node that it makes a kernel for.
type Construction struct {
	Node *graph.Node
	// Path precedes the node's name in the names of resources that have none of their own. It is empty unless the node is in a function.
	Path   string
	Device Device
	// Session names the kernel's session; it is part of the names of resources that are private to a kernel. It is empty in tests.
	Session string
	// Alone means that other kernels of the session for nodes of this name, in other functions, do not have this one's private resources.
	Alone bool
	// Functions gives access to the graph's functions; it is nil if the graph has none.
	Functions Functions
}

// Attrs returns the node's attributes.
func (c *Construction) Attrs() graph.Attrs { return c.Node.Attrs }

// Device is the device of a kernel, as the kernel sees it.
type Device interface {
	// Name returns the full name, such as /job:worker/replica:0/task:1/device:CPU:0.
	Name() string
	// Type returns CPU or GPU.
	Type() string
	// Pool returns the pool for the device's tensors in host memory.
	Pool() *tensor.Pool
	// Memory returns the device's own memory, which for a CPU is the Pool.
	Memory() tensor.Memory
	// Parallel calls body on parts of [0,n) that cover it, each of at least grain, on as many of the process's workers as are free. It
	// returns when all parts are done.
	Parallel(n, grain int, body func(lo, hi int))
	// Resources returns the device's containers, as far as the device's session may reach them.
	Resources() Resources
	// Rights returns the rights of the device's session, or nil if it may do everything. They are checked for every kernel (Admit) and
	// travel with the device to whatever outlives the session's steps.
	Rights() *rights.Session
}

// Ops returns the names of all ops that have a row, sorted. Like Find, it panics in a process that does not import package kernels/all.
func Ops() []string {
	mustBeRegistered()
	return slices.Sorted(maps.Keys(registry))
}

// mustBeRegistered panics if no table was registered; otherwise every op would be reported as having no kernel.
func mustBeRegistered() {
	if len(registry) == 0 {
		panic("kernels: no kernels are registered; import _ \"github.com/troupe-run/troupe/kernels/all\"")
	}
}

// Find returns the row that serves the node on a type of device. The error is INVALID_ARGUMENT, as from TensorFlow's placer, and names the
// op, the node and its types, and the types that have kernels.
func Find(n *graph.Node, deviceType string) (*Def, error) {
	for _, r := range registry[n.Op][deviceType] {
		if r.serves(n) {
			return r, nil
		}
	}
	mustBeRegistered()
	have := &strings.Builder{}
	for _, device := range slices.Sorted(maps.Keys(registry[n.Op])) {
		for _, r := range registry[n.Op][device] {
			fmt.Fprintf(have, "  device='%s'", device)
			for _, attr := range slices.Sorted(maps.Keys(r.Types)) {
				fmt.Fprintf(have, "; %s in %s", attr, protoNames(r.Types[attr]))
			}
			have.WriteByte('\n')
		}
	}
	if have.Len() == 0 {
		have.WriteString("  <no registered kernels>\n")
	}
	return nil, status.InvalidArgumentf("No OpKernel was registered to support Op '%s' used by {{node %s}} with these attrs: [%s]\nRegistered devices: [%s]\nRegistered kernels:\n%s\n\t [[{{node %s}}]]",
		n.Op, n.Name, typesOf(n), deviceType, have, n.Name)
}

// typesOf lists a node's type attributes for a message: "T=DT_FLOAT".
func typesOf(n *graph.Node) string {
	var list []string
	for _, a := range n.Def.GetAttr() {
		if t, err := n.Attrs.Type(a.Name); err == nil {
			list = append(list, a.Name+"="+t.Proto().String())
		} else if types, err := n.Attrs.TypeList(a.Name); err == nil && len(types) > 0 {
			list = append(list, a.Name+"="+protoNames(types))
		}
	}
	return strings.Join(list, ", ")
}

// protoNames formats the names of dtypes as in TensorFlow's messages: "[DT_FLOAT, DT_INT32]".
func protoNames(types []tensor.DType) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Proto().String()
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// serves reports whether the row serves the node's types.
func (r *Def) serves(n *graph.Node) bool {
	for attr, want := range r.Types {
		types, err := n.Attrs.TypeList(attr)
		if err != nil {
			t, err := n.Attrs.Type(attr)
			if err != nil {
				return false
			}
			types = []tensor.DType{t}
		}
		for _, t := range types {
			if !slices.Contains(want, t) {
				return false
			}
		}
	}
	return true
}

// Supports reports whether any row serves the node on a type of device.
func Supports(n *graph.Node, deviceType string) bool {
	for _, r := range registry[n.Op][deviceType] {
		if r.serves(n) {
			return true
		}
	}
	return false
}

// CallsProgram reports whether an op's kernels call functions of the program that owns the server.
func CallsProgram(op string) bool {
	for _, rows := range registry[op] {
		for _, r := range rows {
			if r.Program {
				return true
			}
		}
	}
	return false
}
