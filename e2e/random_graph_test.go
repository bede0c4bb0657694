package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

const (
	int32T    = typespb.DataType_DT_INT32
	boolT     = typespb.DataType_DT_BOOL
	resourceT = typespb.DataType_DT_RESOURCE
	// side is the size of the matrices that random graphs compute with.
	side = 3
	// places is into how many tasks a random graph is cut at most.
	places = 4
	// deepest is how far conditionals, loops and functions lie in each other.
	deepest = 3
)

// randomGraph is a graph of small matrices: elementwise ops, products, reductions, conditionals and loops of both
// kinds, functions, variables of both kinds, queues and TensorArrays, in each other as far as that goes, whose nodes have
// random places. Whatever touches a resource does so in one order, so that there is one right result.
type randomGraph struct {
	r     *rand.Rand
	nodes []*nodepb.NodeDef
	place []int // of each node; -1 for none
	// functions are the bodies that nodes call; sub-graphs share r with the graph.
	functions []*randomFunction

	top     *scope
	inits   []string // targets that give the resources their first values
	updates []string // targets of a step
	feeds   []string
}

// scope is where a statement stands: the top, a branch of a conditional, a loop's body, a function.
type scope struct {
	matrices  []string // values of side x side floats
	scalars   []string
	resources []*resource
	pivot     string // what nodes without inputs wait for
	depth     int
}

// resource is what statements may change, one after the other.
type resource struct {
	kind   string // variable, reference, queue
	handle string
	place  int
	last   string // the node that touched it last, in this scope
}

// newRandomGraph makes the graph of a seed. A graph of more statements begins with those of one of less.
func newRandomGraph(seed uint64, statements int) *randomGraph {
	g := &randomGraph{r: rand.New(rand.NewPCG(seed, 7)), top: &scope{}}
	for range 3 {
		x := g.add(g.top, -1, "Placeholder", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float)})
		g.feeds = append(g.feeds, x+":0")
		g.top.matrices = append(g.top.matrices, x)
	}
	g.top.scalars = append(g.top.scalars, g.op(g.top, "Sum", float, g.top.matrices[0], g.axes(g.top, 0, 1)))
	for range statements {
		g.statement(g.top)
	}
	for _, v := range g.top.resources {
		if v.last != "" {
			g.updates = append(g.updates, v.last)
		}
	}
	return g
}

// fetches are the tensors that a step fetches.
func (g *randomGraph) fetches() []string {
	var out []string
	for _, name := range append(append([]string{}, g.top.matrices[len(g.feeds):]...), g.top.scalars...) {
		if !strings.Contains(name, ":") {
			name += ":0"
		}
		out = append(out, name)
	}
	return out
}

// statement adds something to a scope.
func (g *randomGraph) statement(s *scope) {
	nested := s.depth < deepest
	switch k := g.r.IntN(22); {
	case k == 0 && nested:
		g.conditional(s)
	case k == 1 && nested:
		g.loop(s)
	case k == 2 && nested:
		g.choice(s)
	case k == 3 && nested:
		g.while(s)
	case k == 4 && nested:
		g.call(s)
	case k == 5 && s == g.top && len(s.resources) < 6:
		g.variable(s)
	case k == 6 && s == g.top && len(s.resources) < 6:
		g.reference(s)
	case k == 7 && s == g.top && len(s.resources) < 6:
		g.queue(s)
	case k == 8 && nested:
		g.array(s)
	case k <= 12 && len(s.resources) > 0:
		g.use(s)
	case k <= 14:
		g.reduction(s)
	default:
		s.matrices = append(s.matrices, g.matrix(s))
	}
}

// on gives the graph for a cluster of so many tasks, and what a step fetches.
func (g *randomGraph) on(job string, tasks int) *graphpb.GraphDef {
	def := graphOf()
	def.Node = g.placed(job, tasks)
	for _, f := range g.functions {
		if def.Library == nil {
			def.Library = newLibrary()
		}
		def.Library.Function = append(def.Library.Function, f.def(job, tasks))
	}
	return def
}

func (g *randomGraph) placed(job string, tasks int) []*nodepb.NodeDef {
	var out []*nodepb.NodeDef
	for i, n := range g.nodes {
		n := &nodepb.NodeDef{Name: n.Name, Op: n.Op, Input: n.Input, Attr: n.Attr}
		if p := g.place[i]; p >= 0 {
			n.Device = fmt.Sprintf("/job:%s/task:%d", job, p%tasks)
		}
		out = append(out, n)
	}
	return out
}

func (g *randomGraph) pick(list []string) string { return list[g.r.IntN(len(list))] }

func (g *randomGraph) somewhere() int { return g.r.IntN(places+1) - 1 }

func (g *randomGraph) add(s *scope, place int, op string, attrs map[string]*attrpb.AttrValue, inputs ...string) string {
	if len(inputs) == 0 && s.pivot != "" {
		inputs = []string{"^" + s.pivot}
	}
	n := node(fmt.Sprintf("n%d_%s", len(g.nodes), op), op, 0, inputs...)
	n.Attr = attrs
	g.nodes = append(g.nodes, n)
	g.place = append(g.place, place)
	return n.Name
}

// op adds an op with the attribute T anywhere.
func (g *randomGraph) op(s *scope, op string, t typespb.DataType, inputs ...string) string {
	attrs := map[string]*attrpb.AttrValue{"T": dtypeAttr(t)}
	if op == "Sum" || op == "Mean" || op == "Max" {
		attrs["Tidx"] = dtypeAttr(int32T)
		attrs["keep_dims"] = flag(false)
	}
	return g.add(s, g.somewhere(), op, attrs, inputs...)
}

func flag(v bool) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}} }

func number(v int64) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}} }

func text(v string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(v)}}
}

// squares is the shape of the matrices.
func squares() *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: floats([]int64{side, side}).TensorShape}}
}

func typesAttr(types ...typespb.DataType) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{Type: types}}}
}

func ints(values ...int32) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: int32T, IntVal: values,
		TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: int64(len(values))}}}}
}

func (g *randomGraph) constant(s *scope, t typespb.DataType, v *tensorpb.TensorProto) string {
	return g.add(s, g.somewhere(), "Const", constant("", t, v).Attr)
}

func (g *randomGraph) axes(s *scope, a ...int32) string { return g.constant(s, int32T, ints(a...)) }

func (g *randomGraph) scalarInt(s *scope, v int32) string {
	p := ints(v)
	p.TensorShape = &shapepb.TensorShapeProto{}
	return g.constant(s, int32T, p)
}

// matrix makes another matrix of some. Products are squashed, so that nothing grows without end.
func (g *randomGraph) matrix(s *scope) string {
	a, b := g.pick(s.matrices), g.pick(s.matrices)
	switch g.r.IntN(6) {
	case 0:
		p := g.add(s, g.somewhere(), "MatMul", map[string]*attrpb.AttrValue{"T": dtypeAttr(float),
			"transpose_a": flag(g.r.IntN(2) == 0), "transpose_b": flag(g.r.IntN(2) == 0)}, a, b)
		return g.op(s, "Tanh", float, p)
	case 1:
		return g.op(s, []string{"Neg", "Tanh", "Sigmoid", "Abs", "Relu"}[g.r.IntN(5)], float, a)
	case 2:
		if len(s.scalars) > 0 {
			return g.op(s, "Tanh", float, g.op(s, "Mul", float, a, g.pick(s.scalars)))
		}
		return g.op(s, "Neg", float, a)
	case 3:
		c := g.constant(s, float, floats([]int64{side, side}, g.r.Float32(), -0.5, 0.25))
		return g.op(s, "Sub", float, a, c)
	default:
		return g.op(s, []string{"AddV2", "Sub", "Maximum", "Minimum"}[g.r.IntN(4)], float, a, b)
	}
}

func (g *randomGraph) reduction(s *scope) {
	op := []string{"Sum", "Mean", "Max"}[g.r.IntN(3)]
	s.scalars = append(s.scalars, g.op(s, "Tanh", float, g.op(s, op, float, g.pick(s.matrices), g.axes(s, 0, 1))))
}

// scalar is a number that a scope computes with.
func (g *randomGraph) scalar(s *scope) string {
	if len(s.scalars) == 0 {
		g.reduction(s)
	}
	return g.pick(s.scalars)
}

// squashed bounds a matrix that is handed on from one iteration to the next.
func (g *randomGraph) squashed(s *scope, m string) string { return g.op(s, "Tanh", float, m) }
