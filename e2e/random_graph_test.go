package e2e

import (
	"fmt"
	"math/rand/v2"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

const (
	int32T = typespb.DataType_DT_INT32
	boolT  = typespb.DataType_DT_BOOL
	// side is the size of the matrices that random graphs compute with.
	side = 3
	// places is into how many tasks a random graph is cut at most.
	places = 4
)

// randomGraph is a graph of small matrices: elementwise ops, products, reductions, conditionals,
// loops and variables, whose nodes have random places.
type randomGraph struct {
	r        *rand.Rand
	nodes    []*nodepb.NodeDef
	place    []int    // of each node; -1 for none
	matrices []string // values of side x side floats
	scalars  []string
	inits    []string // targets that give the variables their values
	updates  []string // targets of a step
	feeds    []string
}

func newRandomGraph(seed uint64, size int) *randomGraph {
	g := &randomGraph{r: rand.New(rand.NewPCG(seed, 7))}
	for range 3 {
		x := g.add(-1, "Placeholder", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float)})
		g.feeds = append(g.feeds, x+":0")
		g.matrices = append(g.matrices, x)
	}
	g.scalars = append(g.scalars, g.op("Sum", float, g.matrices[0], g.axes(0, 1)))
	for len(g.nodes) < size {
		switch g.r.IntN(12) {
		case 0:
			g.conditional()
		case 1:
			g.loop()
		case 2:
			g.variable()
		case 3, 4:
			g.reduction()
		default:
			g.matrices = append(g.matrices, g.matrix(g.matrices, g.scalars))
		}
	}
	return g
}

// on gives the graph for a cluster of so many tasks, and what a step fetches.
func (g *randomGraph) on(job string, tasks int) *graphpb.GraphDef {
	def := graphOf()
	for i, n := range g.nodes {
		n := &nodepb.NodeDef{Name: n.Name, Op: n.Op, Input: n.Input, Attr: n.Attr}
		if p := g.place[i]; p >= 0 {
			n.Device = fmt.Sprintf("/job:%s/task:%d", job, p%tasks)
		}
		def.Node = append(def.Node, n)
	}
	return def
}

func (g *randomGraph) pick(list []string) string { return list[g.r.IntN(len(list))] }

func (g *randomGraph) somewhere() int { return g.r.IntN(places+1) - 1 }

func (g *randomGraph) add(place int, op string, attrs map[string]*attrpb.AttrValue, inputs ...string) string {
	n := node(fmt.Sprintf("n%d_%s", len(g.nodes), op), op, 0, inputs...)
	n.Attr = attrs
	g.nodes = append(g.nodes, n)
	g.place = append(g.place, place)
	return n.Name
}

// op adds an op with the attribute T anywhere.
func (g *randomGraph) op(op string, t typespb.DataType, inputs ...string) string {
	attrs := map[string]*attrpb.AttrValue{"T": dtypeAttr(t)}
	if op == "Sum" || op == "Mean" || op == "Max" {
		attrs["Tidx"] = dtypeAttr(int32T)
		attrs["keep_dims"] = flag(false)
	}
	return g.add(g.somewhere(), op, attrs, inputs...)
}

func flag(v bool) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}} }

func number(v int64) *attrpb.AttrValue { return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: v}} }

func text(v string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(v)}}
}

func ints(values ...int32) *tensorpb.TensorProto {
	return &tensorpb.TensorProto{Dtype: int32T, IntVal: values,
		TensorShape: &shapepb.TensorShapeProto{Dim: []*shapepb.TensorShapeProto_Dim{{Size: int64(len(values))}}}}
}

func (g *randomGraph) constant(t typespb.DataType, v *tensorpb.TensorProto) string {
	return g.add(g.somewhere(), "Const", constant("", t, v).Attr)
}

func (g *randomGraph) axes(a ...int32) string { return g.constant(int32T, ints(a...)) }

// matrix makes another matrix of some. Products are squashed, so that nothing grows without end.
func (g *randomGraph) matrix(matrices, scalars []string) string {
	a, b := g.pick(matrices), g.pick(matrices)
	switch g.r.IntN(6) {
	case 0:
		p := g.add(g.somewhere(), "MatMul", map[string]*attrpb.AttrValue{"T": dtypeAttr(float),
			"transpose_a": flag(g.r.IntN(2) == 0), "transpose_b": flag(g.r.IntN(2) == 0)}, a, b)
		return g.op("Tanh", float, p)
	case 1:
		return g.op([]string{"Neg", "Tanh", "Sigmoid", "Abs", "Relu"}[g.r.IntN(5)], float, a)
	case 2:
		return g.op("Tanh", float, g.op("Mul", float, a, g.pick(scalars)))
	default:
		return g.op([]string{"AddV2", "Sub", "Maximum", "Minimum"}[g.r.IntN(4)], float, a, b)
	}
}

func (g *randomGraph) reduction() {
	op := []string{"Sum", "Mean", "Max"}[g.r.IntN(3)]
	g.scalars = append(g.scalars, g.op("Tanh", float, g.op(op, float, g.pick(g.matrices), g.axes(0, 1))))
}

// conditional takes one of two ways by a comparison.
func (g *randomGraph) conditional() {
	p := g.op("Less", float, g.pick(g.scalars), g.pick(g.scalars))
	s := g.op("Switch", float, g.pick(g.matrices), p)
	no, yes := g.op("Neg", float, s), g.op("Tanh", float, s+":1")
	for range g.r.IntN(3) {
		yes = g.op("Abs", float, yes)
	}
	m := g.add(g.somewhere(), "Merge", map[string]*attrpb.AttrValue{"T": dtypeAttr(float), "N": number(2)}, no, yes)
	g.matrices = append(g.matrices, m)
}

// loop computes a matrix in a few iterations, with another one that stays the same.
func (g *randomGraph) loop() {
	frame := fmt.Sprintf("frame%d", len(g.nodes))
	enter := func(t typespb.DataType, input string, constant bool) string {
		return g.add(g.somewhere(), "Enter", map[string]*attrpb.AttrValue{"T": dtypeAttr(t), "frame_name": text(frame),
			"is_constant": flag(constant), "parallel_iterations": number(int64(1 + g.r.IntN(10)))}, input)
	}
	merge := func(t typespb.DataType, start string) (name string, node *nodepb.NodeDef) {
		name = g.add(g.somewhere(), "Merge", map[string]*attrpb.AttrValue{"T": dtypeAttr(t), "N": number(2)}, start, "")
		return name, g.nodes[len(g.nodes)-1]
	}
	scalarInt := func(v int32) string {
		p := ints(v)
		p.TensorShape = &shapepb.TensorShapeProto{}
		return g.constant(int32T, p)
	}
	i, iMerge := merge(int32T, enter(int32T, scalarInt(0), false))
	m, mMerge := merge(float, enter(float, g.pick(g.matrices), false))
	limit := enter(int32T, scalarInt(int32(g.r.IntN(5))), true)
	still := enter(float, g.pick(g.matrices), true)
	factor := enter(float, g.pick(g.scalars), true)

	goesOn := g.add(g.somewhere(), "LoopCond", nil, g.op("Less", int32T, i, limit))
	iSwitch, mSwitch := g.op("Switch", int32T, i, goesOn), g.op("Switch", float, m, goesOn)

	// All of the body needs the pivot, so that nothing of it is there after the last iteration.
	pivot := g.op("Identity", int32T, iSwitch+":1")
	one := scalarInt(1)
	g.nodes[len(g.nodes)-1].Input = []string{"^" + pivot}
	next := g.op("AddV2", int32T, pivot, one)
	body := []string{mSwitch + ":1", g.op("Identity", float, still, "^"+pivot)}
	factors := []string{g.op("Identity", float, factor, "^"+pivot)}
	for range 1 + g.r.IntN(3) {
		body = append(body, g.matrix(body, factors))
	}
	iMerge.Input[1] = g.op("NextIteration", int32T, next)
	mMerge.Input[1] = g.op("NextIteration", float, body[len(body)-1])
	g.matrices = append(g.matrices, g.op("Exit", float, mSwitch))
}

// variable is read, added to, and read again in each step.
func (g *randomGraph) variable() {
	at := g.somewhere()
	shape := &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: floats([]int64{side, side}).TensorShape}}
	handle := g.add(at, "VarHandleOp", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float), "shape": shape,
		"shared_name": text(fmt.Sprintf("variable%d", len(g.nodes)))})
	typed := func(op string, inputs ...string) string {
		return g.add(at, op, map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float)}, inputs...)
	}
	start := g.constant(float, floats([]int64{side, side}, g.r.Float32(), -0.5, 0.25))
	g.inits = append(g.inits, typed("AssignVariableOp", handle, start))
	before := typed("ReadVariableOp", handle)
	more := g.op("Tanh", float, g.op("AddV2", float, before, g.pick(g.matrices)))
	up := typed("AssignAddVariableOp", handle, more, "^"+before)
	after := typed("ReadVariableOp", handle, "^"+up)
	g.updates = append(g.updates, up)
	g.matrices = append(g.matrices, before, after)
}
