package e2e

import (
	"fmt"
	"sync/atomic"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
)

// resourceNames counts the resources of all graphs: what one leaves behind must not be there for the next.
var resourceNames atomic.Int64

func (g *randomGraph) resourceName(kind string) *attrpb.AttrValue {
	return text(fmt.Sprintf("%s%d", kind, resourceNames.Add(1)))
}

// variable makes a resource variable.
func (g *randomGraph) variable(s *scope) {
	v := &resource{kind: "variable", place: g.somewhere()}
	v.handle = g.add(s, v.place, "VarHandleOp", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float), "shape": squares(), "shared_name": g.resourceName("variable")})
	start := g.constant(s, float, floats([]int64{side, side}, g.r.Float32(), -0.5, 0.25))
	g.inits = append(g.inits, g.add(s, v.place, "AssignVariableOp", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float)}, v.handle, start))
	s.resources = append(s.resources, v)
	g.touch(s, v)
}

// reference makes a variable that is passed by reference.
func (g *randomGraph) reference(s *scope) {
	v := &resource{kind: "reference", place: g.somewhere()}
	v.handle = g.add(s, v.place, "VariableV2", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float), "shape": squares(), "shared_name": g.resourceName("reference")})
	start := g.constant(s, float, floats([]int64{side, side}, g.r.Float32(), -0.5, 0.25))
	g.inits = append(g.inits, g.add(s, v.place, "Assign", map[string]*attrpb.AttrValue{"T": dtypeAttr(float)}, v.handle, start))
	s.resources = append(s.resources, v)
	g.touch(s, v)
}

// queue makes a queue of two elements.
func (g *randomGraph) queue(s *scope) {
	v := &resource{kind: "queue", place: g.somewhere()}
	shapes := &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: &attrpb.AttrValue_ListValue{}}}
	shapes.GetList().Shape = append(shapes.GetList().Shape, squares().GetShape())
	v.handle = g.add(s, v.place, "FIFOQueueV2", map[string]*attrpb.AttrValue{"component_types": typesAttr(float), "shapes": shapes,
		"capacity": number(10), "shared_name": g.resourceName("queue")})
	two := g.constant(s, float, floats([]int64{2, side, side}, g.r.Float32(), -0.5, 0.25))
	g.inits = append(g.inits, g.add(s, v.place, "QueueEnqueueManyV2", map[string]*attrpb.AttrValue{"Tcomponents": typesAttr(float)}, v.handle, two))
	s.resources = append(s.resources, v)
	g.touch(s, v)
}

// use touches one of a scope's resources.
func (g *randomGraph) use(s *scope) { g.touch(s, s.resources[g.r.IntN(len(s.resources))]) }

// touch reads a resource, changes it, and may read it again.
func (g *randomGraph) touch(s *scope, v *resource) {
	new := g.op(s, "Tanh", float, g.pick(s.matrices))
	// What comes next waits for what touched the resource last, and for the branch or iteration to begin.
	next := func(op string, attrs map[string]*attrpb.AttrValue, inputs ...string) string {
		inputs = append([]string{v.handle}, inputs...)
		if v.last != "" {
			inputs = append(inputs, "^"+v.last)
		} else if s.pivot != "" {
			inputs = append(inputs, "^"+s.pivot)
		}
		place := v.place
		if op == "Identity" {
			place = g.somewhere()
		}
		v.last = g.add(s, place, op, attrs, inputs...)
		return v.last
	}
	typed := func() map[string]*attrpb.AttrValue { return map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float)} }
	switch v.kind {
	case "variable":
		before := next("ReadVariableOp", typed())
		next("AssignAddVariableOp", typed(), g.op(s, "Tanh", float, g.op(s, "AddV2", float, before, new)))
		s.matrices = append(s.matrices, before)
		if g.r.IntN(2) == 0 {
			s.matrices = append(s.matrices, next("ReadVariableOp", typed()))
		}
	case "reference":
		// Reading makes a copy: the variable itself may change under who holds its memory.
		next("Mul", map[string]*attrpb.AttrValue{"T": dtypeAttr(float)}, g.op(s, "Sigmoid", float, new))
		before := v.last
		next("AssignAdd", map[string]*attrpb.AttrValue{"T": dtypeAttr(float), "use_locking": flag(g.r.IntN(2) == 0)}, g.op(s, "Tanh", float, before))
		next("AddV2", map[string]*attrpb.AttrValue{"T": dtypeAttr(float)}, new)
		s.matrices = append(s.matrices, before, v.last)
	case "queue":
		next("QueueEnqueueV2", map[string]*attrpb.AttrValue{"Tcomponents": typesAttr(float)}, new)
		s.matrices = append(s.matrices, next("QueueDequeueV2", map[string]*attrpb.AttrValue{"component_types": typesAttr(float)}))
	}
}

// handles are the resources that can be passed into a branch, a loop or a function: not those that are references.
func (g *randomGraph) handles(s *scope) []*resource {
	var out []*resource
	for _, v := range s.resources {
		if v.kind != "reference" && g.r.IntN(2) == 0 {
			out = append(out, v)
		}
	}
	return out
}

// array writes a matrix into a TensorArray in each iteration of a loop, and sums them up afterwards.
func (g *randomGraph) array(s *scope) {
	at := g.somewhere()
	iterations := int32(g.r.IntN(4))
	size := g.scalarInt(s, iterations)
	handle := g.add(s, at, "TensorArrayV3", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float), "element_shape": squares(),
		"dynamic_size": flag(false), "clear_after_read": flag(true), "identical_element_shapes": flag(true)}, size)
	f := g.newFrame(s)
	f.vars = append(f.vars, loopVar{start: handle + ":1", dtype: float})
	array := f.enter(handle, resourceT, at, true)
	f.run(iterations, func(inner *scope, vars []string) []string {
		m := g.matrix(inner)
		flow := g.add(inner, at, "TensorArrayWriteV3", map[string]*attrpb.AttrValue{"T": dtypeAttr(float)}, array, vars[0], m, vars[len(vars)-1])
		return []string{m, flow}
	})
	flow := f.exits[len(f.exits)-1]
	all := g.add(s, g.somewhere(), "Range", map[string]*attrpb.AttrValue{"Tidx": dtypeAttr(int32T)}, g.scalarInt(s, 0), size, g.scalarInt(s, 1))
	gathered := g.add(s, at, "TensorArrayGatherV3", map[string]*attrpb.AttrValue{"dtype": dtypeAttr(float), "element_shape": squares()}, handle, all, flow)
	s.matrices = append(s.matrices, f.exits[1], g.op(s, "Sum", float, gathered, g.axes(s, 0)))
}
