package metamorphic

import (
	"fmt"

	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
)

// inside returns a scope within d's for a construct's block.
func (d *drawing) inside(b *Block, pivot string) *scope {
	sc := &scope{drawer: d.drawer, outer: d.scope, nodes: d.nodes, values: map[int]string{}, lates: map[int]string{}, pivot: pivot}
	sc.wait = d.f.sequence(d.f.alive(b)).wait
	return sc
}

// body draws a block's statements. Its result is available only when everything in the block is done.
func (d *drawing) body(sc *scope, b *Block) string {
	stmts := d.f.alive(b)
	for _, s := range stmts {
		sc.draw(s)
	}
	in := sc.drawing(d.s)
	q := d.f.sequence(stmts)
	in.controls = nil
	for _, id := range q.before(d.f.alias[b.Result], false) {
		in.controls = append(in.controls, "^"+nodeName(id))
	}
	if len(in.controls) == 0 && sc.pivot != "" {
		in.controls = []string{"^" + sc.pivot}
	}
	v := in.value(b.Result, Matrix)
	if d.f.squashes(b) {
		v = in.squashed(v, Matrix)
	}
	inputs := []string{v}
	for _, id := range q.ends() {
		inputs = append(inputs, "^"+nodeName(id))
	}
	if sc.pivot != "" {
		inputs = append(inputs, "^"+sc.pivot)
	}
	return in.op("Identity", Matrix, inputs...)
}

// ends returns control inputs from the last nodes that touched resources in a block.
func (d *drawing) ends(b *Block) []string {
	var out []string
	for _, id := range d.f.sequence(d.f.alive(b)).ends() {
		out = append(out, "^"+nodeName(id))
	}
	return out
}

// route adds a Switch or Enter for a value of the outer scope. Resources, and values that are read from them late, stay on the resource's
// device, and so do not wait for the nodes that touch it.
func (d *drawing) route(op string, id int, a attrs, inputs ...string) string {
	t := d.f.types[id]
	v := d.late(id)
	a["T"] = dtype(t)
	if t.ref() {
		op, a["T"] = "Ref"+op, dtype(t.content())
	}
	inputs = append([]string{v}, inputs...)
	if t.resource() {
		return d.add(d.device(d.f.stmts[id].Place), op, a, inputs...)
	}
	if r := d.alias[v]; r > 0 {
		return d.add(d.device(d.f.stmts[r].Place), op, colocated(a, r), inputs...)
	}
	return d.node(op, a, inputs...)
}

// conditional draws a conditional with Switch and Merge.
func (d *drawing) conditional() string {
	s := d.s
	p := d.op("Less", Scalar, d.settled(s.Args[0], Scalar), d.settled(s.Args[1], Scalar))
	boolean := attrs{"T": typeAttr(typespb.DataType_DT_BOOL)}
	sw := d.node("Switch", boolean, append([]string{p, p}, d.controls...)...)
	routed := map[int]string{}
	var results []string
	for i, way := range []int{1, 0} { // the first block is for true
		output := fmt.Sprintf(":%d", way)
		sc := d.inside(s.Blocks[i], d.node("Identity", boolean, sw+output))
		sc.bring = func(_ *drawing, id int) string {
			if routed[id] == "" {
				routed[id] = d.route("Switch", id, attrs{}, p)
			}
			v := routed[id] + output
			if r := d.alias[d.late(id)]; r > 0 {
				d.alias[v] = r
			}
			return v
		}
		results = append(results, d.body(sc, s.Blocks[i]))
	}
	return d.node("Merge", attrs{"T": dtype(Matrix), "N": number(2)}, results...)
}

// loopVar is a variable of a loop that is drawn with Enter, Merge and related ops.
type loopVar struct {
	dtype typespb.DataType
	start string
	merge *nodepb.NodeDef
	out   string // the Switch
}

// frame is such a loop.
type frame struct {
	*drawing
	enterAttrs func(constant bool) attrs
	vars       []*loopVar
}

func (f *frame) enter(t typespb.DataType, v string, constant bool, controls ...string) string {
	a := f.enterAttrs(constant)
	a["T"] = typeAttr(t)
	return f.node("Enter", a, append([]string{v}, controls...)...)
}

// loop draws a loop with Enter, Merge, Switch, NextIteration and Exit.
func (d *drawing) loop() string {
	s := d.s
	name := nodeName(s.ID)
	f := &frame{drawing: d, enterAttrs: func(constant bool) attrs {
		return attrs{"frame_name": text(name), "is_constant": flag(constant), "parallel_iterations": number(int64(1 + s.ID%10))}
	}}
	state := d.settled(s.Args[0], Matrix)
	if d.reads(s.Args[0]) { // before the body changes the resource
		d.controls = append(d.controls, "^"+base(state))
	}
	f.vars = []*loopVar{{dtype: Int.proto(), start: d.constant(intOf(0))}, {dtype: Matrix.proto(), start: state}}
	iterations := s.Num & iterationsMask
	var array string
	if s.Num&arrayFlag != 0 {
		array = d.add(d.device(s.Place), "TensorArrayV3", attrs{"dtype": dtype(Matrix), "element_shape": shapeAttr(Matrix), "dynamic_size": flag(false),
			"clear_after_read": flag(true), "identical_element_shapes": flag(true)}, d.constant(intOf(int32(iterations))))
		f.vars = append(f.vars, &loopVar{dtype: Matrix.proto(), start: array + ":1"})
	}
	f.begin(int32(iterations))
	b := s.Blocks[0]
	pivot := d.node("Identity", attrs{"T": dtype(Int)}, f.vars[0].out+":1")
	sc := d.inside(b, pivot)
	entered := map[int]string{}
	for i, p := range b.Params {
		sc.values[p] = []string{pivot, f.vars[1].out + ":1"}[i]
	}
	sc.bring = func(in *drawing, id int) string {
		if entered[id] == "" {
			entered[id] = d.route("Enter", id, f.enterAttrs(true))
			if r := d.alias[d.late(id)]; r > 0 {
				d.alias[entered[id]] = r
			}
		}
		v := entered[id]
		if !d.f.types[id].resource() && d.alias[v] == 0 && in.random.IntN(2) == 0 {
			v = in.op("Identity", d.f.types[id], v, "^"+pivot)
		}
		return v
	}
	state = d.body(sc, b)
	in := sc.drawing(s)
	next := []string{in.op("AddV2", Int, pivot, in.constant(intOf(1))), state}
	if array != "" {
		handle := d.add(d.device(s.Place), "Enter", f.withType(typespb.DataType_DT_RESOURCE), array)
		next = append(next, in.add(d.device(s.Place), "TensorArrayWriteV3", attrs{"T": dtype(Matrix)}, handle, pivot, state, f.vars[2].out+":1"))
	}
	done := d.ends(b)
	if d.f.late(b.Result) { // it is read before the next iteration changes it
		done = append(done, "^"+state)
	}
	return f.end(in, next, done, array)
}

func (f *frame) withType(t typespb.DataType) attrs {
	a := f.enterAttrs(true)
	a["T"] = typeAttr(t)
	return a
}

// begin draws the loop's variables and its condition.
func (f *frame) begin(iterations int32) {
	d := f.drawing
	for i, v := range f.vars {
		var controls []string
		if i == 0 || d.random.IntN(2) == 0 {
			controls = d.controls
		}
		start := f.enter(v.dtype, v.start, false, controls...)
		d.node("Merge", attrs{"T": typeAttr(v.dtype), "N": number(2)}, start, "")
		v.merge = d.last
	}
	limit := f.enter(Int.proto(), d.constant(intOf(iterations)), true)
	goesOn := d.op("Less", Int, f.vars[0].merge.Name, limit)
	if d.s.Num&untilFlag != 0 {
		axes := f.enter(Int.proto(), d.ints(0, 1), true)
		end := f.enter(Scalar.proto(), d.constant(scalarOf(untilSum)), true)
		low := d.op("Less", Scalar, d.op("Sum", Scalar, f.vars[1].merge.Name, axes), end)
		goesOn = d.node("LogicalAnd", nil, goesOn, low)
	}
	goesOn = d.node("LoopCond", nil, goesOn)
	for _, v := range f.vars {
		v.out = d.node("Switch", attrs{"T": typeAttr(v.dtype)}, v.merge.Name, goesOn)
	}
}

// end closes the loop, and returns its result. The counter advances only when everything in the body is done.
func (f *frame) end(in *drawing, next, done []string, array string) string {
	d := f.drawing
	for i, v := range f.vars {
		inputs := []string{next[i]}
		if i == 0 || d.random.IntN(2) == 0 {
			inputs = append(inputs, done...)
		}
		if len(inputs) > 1 || i == 0 {
			next[i] = in.node("Identity", attrs{"T": typeAttr(v.dtype)}, inputs...)
		}
		v.merge.Input[1] = in.node("NextIteration", attrs{"T": typeAttr(v.dtype)}, next[i])
	}
	exit := func(v *loopVar) string { return d.node("Exit", attrs{"T": typeAttr(v.dtype)}, v.out) }
	if array == "" {
		return exit(f.vars[1])
	}
	count, state, flow := exit(f.vars[0]), exit(f.vars[1]), exit(f.vars[2])
	all := d.node("Range", attrs{"Tidx": dtype(Int)}, d.constant(intOf(0)), count, d.constant(intOf(1)))
	gathered := d.add(d.device(d.s.Place), "TensorArrayGatherV3", attrs{"dtype": dtype(Matrix), "element_shape": shapeAttr(Matrix)}, array, all, flow)
	return d.op("AddV2", Matrix, state, d.op("Sum", Matrix, gathered, d.ints(0)))
}
