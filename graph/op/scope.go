// Package op builds graphs: for each op of TensorFlow, it has a function that adds a node.
//
//	s := op.NewScope()
//	x := op.Placeholder(s, tensor.Float32, attr.Shape(shape.Of(-1, 784)))
//	w := op.NewVariable(s, op.Fill(s, op.Const(s, []int32{784, 10}), op.Const(s, float32(0))))
//	y := op.Softmax(s, op.MatMul(s, x, w.Read(s)))
//	def, err := s.GraphDef()
//
// A Scope says where nodes are added: under which name prefix, on which device, after which other operations. Scopes derived from each
// other share one graph. The graph keeps the first error, with the line of the program that caused it, and skips everything that depends
// on it. Check Err, or the error of GraphDef, after the last node.
//
// Only one goroutine at a time may build a graph.
package op

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/place"
	"github.com/troupe-run/troupe/graph/status"
)

// producer is the graph version that this package writes (GraphDef.versions.producer).
const producer = 2374

// Scope is a place in a graph where operations are added. It is immutable: the With methods and SubScope return derived scopes.
type Scope struct {
	graph     *building
	prefix    string // "" or ends in /
	device    place.Spec
	container string
	controls  []*Operation
	colocate  []string
	opName    string
	exact     bool // whether opName is the full name and already taken
}

// building is a graph under construction, which scopes share: that of a session, or the body of a function.
type building struct {
	*shared
	ops    []*Operation
	byName map[string]*Operation
	taken  map[string]int // lower-case names in use, with the next suffix to try
	body   *body          // for the body of a function, else nil
}

// shared is what a graph shares with the bodies of its functions.
type shared struct {
	library   *graph.Library
	functions map[string]*Function
	variables []*Variable
	// initializers are those of variables and tables in the graph itself; those in a function's body run with the function.
	initializers []*Operation
	producer     int32
	err          error
}

func newBuilding(shared *shared, body *body) *building {
	return &building{shared: shared, byName: map[string]*Operation{}, taken: map[string]int{}, body: body}
}

// NewScope returns a scope of a new, empty graph.
func NewScope() *Scope {
	all := &shared{library: &graph.Library{}, functions: map[string]*Function{}, producer: producer}
	return &Scope{device: place.Open(), graph: newBuilding(all, nil)}
}

// Err returns the first error of the graph or of a function's body in it, or nil.
func (s *Scope) Err() error { return s.graph.err }

// fail records err unless there already is an error.
func (s *Scope) fail(err error) {
	if s.graph.err == nil && err != nil {
		s.graph.err = at(err)
	}
}

// Fail sets the graph's error to err, with the line of the caller, unless the graph already has an error. It is for packages that build on
// this one.
func (s *Scope) Fail(err error) { s.fail(err) }

func (s *Scope) derive(change func(*Scope)) *Scope {
	d := *s
	d.opName, d.exact = "", false
	change(&d)
	return &d
}

// SubScope returns a scope whose operations' names begin with name and a slash, or name_1 and so on if that prefix is in use.
func (s *Scope) SubScope(name string) *Scope {
	prefix := s.unique(s.prefix+name) + "/"
	return s.derive(func(d *Scope) { d.prefix = prefix })
}

// Prefix returns the prefix of the names of the scope's operations: empty, or ending in a slash.
func (s *Scope) Prefix() string { return s.prefix }

// WithDevice returns a scope whose operations request a device, such as /job:ps/task:0 or /device:GPU:0. Parts that the name leaves open
// come from s.
func (s *Scope) WithDevice(device string) *Scope {
	spec, err := place.Parse(device)
	if err != nil {
		s.fail(err)
		return s
	}
	return s.derive(func(d *Scope) { d.device = s.device.Override(spec) })
}

// WithContainer returns a scope whose variables, queues and other named resources live in that container, unless their own container
// attribute names another.
func (s *Scope) WithContainer(container string) *Scope {
	return s.derive(func(d *Scope) { d.container = container })
}

// WithControlDependencies returns a scope whose operations run after ops, and after the control dependencies of s.
func (s *Scope) WithControlDependencies(ops ...*Operation) *Scope {
	return s.derive(func(d *Scope) {
		d.controls = slices.Clip(d.controls)
		for _, o := range ops {
			if o != nil && !slices.Contains(d.controls, o) {
				d.controls = append(d.controls, o)
			}
		}
	})
}

// ColocateWith returns a scope whose operations run on the devices of ops, in addition to the colocations of s.
func (s *Scope) ColocateWith(ops ...*Operation) *Scope {
	return s.derive(func(d *Scope) {
		d.colocate = slices.Clip(d.colocate)
		for _, o := range ops {
			if o != nil {
				d.colocate = append(d.colocate, "loc:@"+o.Name())
			}
		}
	})
}

// Beside returns a scope whose operations run on the device of o, whatever device s requests.
func (s *Scope) Beside(o *Operation) *Scope { return s.beside(o).ColocateWith(o) }

// WithName returns a scope whose operations are named name instead of after their op. It is meant for a single operation, as in
// op.MatMul(s.WithName("logits"), x, w), and does not apply to scopes derived from it.
func (s *Scope) WithName(name string) *Scope {
	return s.derive(func(d *Scope) { d.opName = name })
}

// unique reserves a name that no other operation or prefix has: name, name_1, name_2 and so on. As in TensorFlow's Python client, case is
// ignored. The prefixes of a name are reserved with it.
func (s *Scope) unique(name string) string {
	key := strings.ToLower(name)
	next, used := s.graph.taken[key]
	if used {
		for ; ; next++ {
			try := name + "_" + strconv.Itoa(max(next, 1))
			if _, used := s.graph.taken[strings.ToLower(try)]; !used {
				s.graph.taken[key] = max(next, 1) + 1
				name = try
				break
			}
		}
	}
	s.graph.taken[strings.ToLower(name)] = 0
	return name
}

// named returns s with a fixed name: that of the scope, or else name.
func (s *Scope) named(name string) *Scope {
	if s.exact {
		return s
	}
	if s.opName != "" {
		name = s.opName
	}
	name = s.unique(s.prefix + name)
	return s.derive(func(d *Scope) { d.opName, d.exact = name, true })
}

// within returns s for operations that belong to o: o's name is the prefix of theirs.
func (s *Scope) within(o *Operation) *Scope {
	return s.derive(func(d *Scope) {
		if o != nil {
			d.prefix = o.name + "/"
		}
	})
}

// beside returns s for an operation that must run on o's device, whatever the scope's device is.
func (s *Scope) beside(o *Operation) *Scope {
	if o == nil {
		return s
	}
	d := *s
	d.device = o.spec
	return &d
}

// Operations returns the graph's operations in the order in which they were added.
func (s *Scope) Operations() []*Operation { return slices.Clone(s.graph.ops) }

// Operation returns the operation of the graph with the given full name, or nil.
func (s *Scope) Operation(name string) *Operation { return s.graph.byName[name] }

// GraphDef returns the graph with its functions as TensorFlow's message, for a session or a file, or the graph's error. The caller owns
// the message; the graph may grow afterwards. In the body of a function, GraphDef is FAILED_PRECONDITION.
func (s *Scope) GraphDef() (*graphpb.GraphDef, error) {
	if s.graph.err != nil {
		return nil, s.graph.err
	}
	if s.graph.body != nil {
		return nil, status.New(status.FailedPrecondition, "The body of a function is no graph of its own: ask a scope of the graph around it")
	}
	def := &graphpb.GraphDef{Versions: &versionspb.VersionDef{Producer: s.graph.producer}, Library: s.graph.library.Proto()}
	for _, o := range s.graph.ops {
		n := o.node(Output.reference)
		n.Attr = maps.Clone(n.Attr)
		def.Node = append(def.Node, n)
	}
	return def, nil
}

// Same reports whether both scopes belong to the same graph.
func (s *Scope) Same(t *Scope) bool { return s.graph == t.graph }

var errForeign = status.New(status.InvalidArgument, "An input is of another graph, or of a function's body that this operation is not in")
