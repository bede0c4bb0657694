package actors

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/recent"
	"github.com/troupe-run/troupe/internal/view"
	"google.golang.org/protobuf/proto"
)

// maxFunctions bounds the functions that a client registers in an eager context. Their size counts as the session's memory.
const maxFunctions = 1 << 16

// functionTable holds the functions of an eager context. The zero value is ready for use.
type functionTable struct {
	mu     sync.Mutex // guards the rest: calls read functions on their own goroutines, and registrations must not wait behind a plan that is built
	byName map[string]*eagerFunction
	serial uint64 // of the last registration
	others *recent.Map[[sha256.Size]byte, uint64]
	over   bool
}

// eagerFunction is a registered function. It does not change, except for count.
type eagerFunction struct {
	own       localFunction
	library   map[string]localFunction // functions that only this one calls
	component bool
	serial    uint64
	bytes     int64
	count     int // of registrations; under the table's lock
}

// localFunction is a function whose nodes name this task's devices.
type localFunction struct {
	def, given *functionpb.FunctionDef // given is as the client sent it
	// elsewhere is a device of another task that a node requests; empty if there is none.
	elsewhere string
}

// local returns a function as this task runs it: its devices have this task's own names, and its sends and receives the keys of the
// context's rendezvous.
func (n names) local(def *functionpb.FunctionDef) localFunction {
	f := localFunction{def: def, given: def}
	var nodes []*nodepb.NodeDef // nil as long as none is changed
	for i, node := range def.GetNodeDef() {
		own, ok := n.toOwn(node.GetDevice())
		if !ok && f.elsewhere == "" {
			f.elsewhere = node.GetDevice()
		}
		attrs := eagerEdgeAttrs(node)
		if own == node.GetDevice() && attrs == nil {
			continue
		}
		if nodes == nil {
			nodes = slices.Clone(def.GetNodeDef())
		}
		if attrs == nil {
			attrs = node.GetAttr()
		}
		nodes[i] = &nodepb.NodeDef{Name: node.GetName(), Op: node.GetOp(), Input: node.GetInput(), Device: own, Attr: attrs, ExperimentalDebugInfo: node.GetExperimentalDebugInfo()}
	}
	if nodes != nil {
		f.def = &functionpb.FunctionDef{Signature: def.GetSignature(), Attr: def.GetAttr(), ArgAttr: def.GetArgAttr(), NodeDef: nodes, Ret: def.GetRet(), ControlRet: def.GetControlRet()}
	}
	return f
}

// Register adds a function. Functions with the same name and body are counted; a different body is INVALID_ARGUMENT. Components are not counted: only
// one main knows a component's name, and registers it again if it does not know whether it has. A function may call ops and functions that the task
// does not have, until it is called itself.
func (c *EagerContext) Register(m *corepb.RegisterFunctionOp) error {
	def := m.GetFunctionDef()
	name := def.GetSignature().GetName()
	if name == "" {
		return status.InvalidArgumentf("Cannot add a function without a name")
	}
	f := &eagerFunction{own: c.names.local(def), component: m.GetIsComponentFunction(), bytes: int64(proto.Size(m)), count: 1}
	for _, other := range m.GetLibrary().GetFunction() {
		if f.library == nil {
			f.library = map[string]localFunction{}
		}
		f.library[other.GetSignature().GetName()] = c.names.local(other)
	}
	if err := c.memory().Reserve(f.bytes); err != nil {
		return err
	}
	added, err := c.library.add(name, f, c.String())
	if !added {
		c.memory().Unreserve(f.bytes)
	}
	return err
}

// add adds a function or counts a registration. added reports whether f itself is in the table now.
func (l *functionTable) add(name string, f *eagerFunction, of string) (added bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := l.byName[name]
	switch {
	case l.over:
		return false, errClosed()
	case have != nil && !proto.Equal(have.own.given, f.own.given):
		return false, status.InvalidArgumentf("Attempting to add a duplicate function with name: %s where the previous and current definitions differ. Previous definition: %s and current definition: %s",
			name, view.Text(have.own.given, 1<<10), view.Text(f.own.given, 1<<10))
	case have != nil:
		if !have.component {
			have.count++
		}
		return false, nil
	case len(l.byName) >= maxFunctions:
		return false, tooMany("functions", of, maxFunctions, "remove those that are not used any more")
	}
	if l.byName == nil {
		l.byName = map[string]*eagerFunction{}
	}
	l.serial++
	f.serial = l.serial
	l.byName[name] = f
	return true, nil
}

// maxOthers bounds the functions outside of the table whose serials are remembered.
const maxOthers = 1 << 10

// serialOf returns the serial of a function that is not in the table: the same for equal ones, as long as they are among the latest.
func (l *functionTable) serialOf(defs map[string]*functionpb.FunctionDef) uint64 {
	sum := sha256.New()
	for _, name := range sortedKeys(defs) {
		b, _ := proto.MarshalOptions{Deterministic: true}.Marshal(defs[name]) // a decoded message can be encoded
		sum.Write(binary.AppendUvarint(nil, uint64(len(b))))
		sum.Write(b)
	}
	key := [sha256.Size]byte(sum.Sum(nil))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.others == nil {
		l.others = recent.NewMap[[sha256.Size]byte, uint64](maxOthers)
	}
	serial, ok := l.others.Get(key)
	if !ok {
		l.serial++
		serial = l.serial
		l.others.Add(key, serial)
	}
	return serial
}

// RemoveFunction takes back a registration. With the last one, the function and its instances go; calls in progress continue.
func (c *EagerContext) RemoveFunction(name string) error {
	f, err := c.library.remove(name)
	if err != nil || f == nil {
		return err
	}
	c.memory().Unreserve(f.bytes)
	c.dropInstances(name)
	return nil
}

// remove takes back a registration, and returns the function if that was the last one.
func (l *functionTable) remove(name string) (*eagerFunction, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.byName[name]
	if f == nil {
		return nil, status.InvalidArgumentf("Tried to remove non-existent function '%s'.", name)
	}
	if f.count--; f.count > 0 {
		return nil, nil
	}
	delete(l.byName, name)
	return f, nil
}

// close removes all functions, and returns the memory that they were counted with.
func (l *functionTable) close() (bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.byName {
		bytes += f.bytes
	}
	l.byName, l.over = nil, true
	return bytes
}

// get returns a function, or nil.
func (l *functionTable) get(name string) *eagerFunction {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byName[name]
}

// count returns the number of functions.
func (l *functionTable) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byName)
}

// reached returns the functions that a node may call, directly or through other functions: those of root's own library before those of the
// context. Names of neither are left to whoever builds the node. given functions are as the client sent them, others as this task runs them.
// elsewhere is a device of another task that one of them has nodes on; empty if there is none.
func (l *functionTable) reached(node *nodepb.NodeDef, root *eagerFunction, given bool) (library *functionpb.FunctionDefLibrary, elsewhere string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]*functionpb.FunctionDef{}
	for left := []*nodepb.NodeDef{node}; len(left) > 0; {
		n := left[len(left)-1]
		left = left[:len(left)-1]
		called := []string{n.GetOp()}
		for _, f := range graph.Attrs(n.GetAttr()).Funcs() {
			called = append(called, f.Name)
		}
		for _, name := range called {
			if found[name] != nil {
				continue
			}
			f, ok := l.findLocked(name, root)
			if !ok {
				continue
			}
			elsewhere = cmp.Or(elsewhere, f.elsewhere)
			if found[name] = f.def; given {
				found[name] = f.given
			}
			left = append(left, found[name].GetNodeDef()...)
		}
	}
	library = &functionpb.FunctionDefLibrary{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		library.Function = append(library.Function, found[name])
	}
	return library, elsewhere
}

func (l *functionTable) findLocked(name string, root *eagerFunction) (localFunction, bool) {
	if root != nil {
		if root.own.given.GetSignature().GetName() == name {
			return root.own, true
		}
		if f, ok := root.library[name]; ok {
			return f, true
		}
	}
	f := l.byName[name]
	if f == nil {
		return localFunction{}, false
	}
	return f.own, true
}
