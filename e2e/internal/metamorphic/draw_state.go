package metamorphic

import (
	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

func stringList(values ...string) *attrpb.AttrValue {
	list := &attrpb.AttrValue_ListValue{}
	for _, v := range values {
		list.S = append(list.S, []byte(v))
	}
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
}

// content returns the type of a resource's content.
func (t Type) content() Type {
	if t == IntVariable || t == IntReference {
		return Int
	}
	return Matrix
}

// resource draws a resource and its initializer.
func (d *drawing) resource() string {
	s, t := d.s, d.s.Out()
	first := firstContent(s)
	at := d.device(s.Place)
	name := text(d.form.Names + nodeName(s.ID))
	held := attrs{"dtype": dtype(t.content()), "shape": shapeAttr(t.content()), "shared_name": name}
	var handle, fill string
	switch t {
	case Variable, IntVariable:
		value := d.constant(first.value)
		handle = d.add(at, "VarHandleOp", held)
		fill = d.add(at, "AssignVariableOp", attrs{"dtype": dtype(t.content())}, nodeName(s.ID), value)
	case Reference, IntReference:
		value := d.constant(first.value)
		handle = d.add(at, "VariableV2", held)
		fill = d.add(at, "Assign", attrs{"T": dtype(t.content())}, nodeName(s.ID), value)
	default:
		var both []float32
		for _, v := range first.queue {
			both = append(both, v.F...)
		}
		value := d.node("Const", tensorAttr(&tensorpb.TensorProto{Dtype: Matrix.proto(), FloatVal: both, TensorShape: dims(int64(len(first.queue)), Side, Side)}))
		shapes := &attrpb.AttrValue_ListValue{Shape: []*shapepb.TensorShapeProto{shapeOf(Matrix)}}
		handle = d.add(at, "FIFOQueueV2", attrs{"component_types": typeList(Matrix), "capacity": number(10), "shared_name": name,
			"shapes": {Value: &attrpb.AttrValue_List{List: shapes}}})
		fill = d.add(at, "QueueEnqueueManyV2", attrs{"Tcomponents": typeList(Matrix)}, nodeName(s.ID), value)
	}
	d.graph.inits[s.ID] = fill
	for _, n := range d.nodes.list {
		if n.Name == handle {
			d.last = n
		}
	}
	return handle
}

// toucher draws an op on a resource.
func (d *drawing) toucher(o *toucher) string {
	s := d.s
	res := s.Args[0]
	if d.f.inert(s) {
		if o.out == None {
			return d.node("NoOp", nil)
		}
		return d.constant(missing(o.out))
	}
	handle := d.get(res)
	args := make([]string, len(o.args))
	for i, t := range o.args {
		args[i] = d.value(s.Args[1+i], t)
		// Several nodes of a scatter read the argument, and a queue keeps its element.
		if r := d.alias[args[i]]; r > 0 && (r != res || o.resource == Queue) {
			args[i] = d.copied(args[i], t)
		}
		if d.f.shrinks(s, i) {
			args[i] = d.squashed(args[i], t)
		}
	}
	out := o.draw(d, handle, args)
	if o.late {
		d.alias[out] = res
		d.refs[out] = o.writes
	}
	return out
}

// on adds a node that touches the statement's resource, colocated with it and after the nodes that touched it before.
func (d *drawing) on(handle, op string, a attrs, inputs ...string) string {
	inputs = d.after(append([]string{handle}, inputs...))
	return d.add(d.device(d.f.stmts[d.s.Args[0]].Place), op, a, inputs...)
}

// reference adds a node that passes a reference on, colocated with it, without waiting.
func (d *drawing) reference(handle, op string, a attrs) string {
	res := d.s.Args[0]
	return d.add(d.device(d.f.stmts[res].Place), op, colocated(a, res), handle)
}

// late returns a value for other scopes: an Identity reads an op's output of a reference type, as in clients' graphs.
func (d *drawing) late(id int) string {
	v := d.get(id)
	if !d.refs[v] {
		return v
	}
	if l, ok := d.lates[id]; ok {
		return l
	}
	r := d.alias[v]
	l := d.add(d.device(d.f.stmts[r].Place), "Identity", colocated(attrs{"T": dtype(d.f.types[id])}, r), v)
	d.alias[l], d.lates[id] = r, l
	return l
}

// check draws a statement that fails when its guard is fed with false.
func (d *drawing) check() string {
	v := d.settled(d.s.Args[0], Matrix)
	yes := d.node("Const", tensorAttr(&tensorpb.TensorProto{Dtype: typespb.DataType_DT_BOOL, BoolVal: []bool{true}, TensorShape: dims()}))
	d.node("PlaceholderWithDefault", attrs{"dtype": typeAttr(typespb.DataType_DT_BOOL), "shape": shapeAttr(Scalar)}, yes)
	d.last.Name = base(guardName(d.s.ID))
	assert := d.node("Assert", attrs{"T": typeList(Matrix)}, d.last.Name, v)
	return d.op("Identity", Matrix, v, "^"+assert)
}
