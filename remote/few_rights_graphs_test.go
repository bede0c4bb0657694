package remote

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
	graphpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/graph_go_proto"
	nodepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/node_def_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	corepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"google.golang.org/protobuf/proto"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/internal/rights"
	"github.com/troupe-run/troupe/kernels"
)

// Graphs written node by node, from what the registry says of each op: the random graphs of the client with few rights, and those that make
// the secrets.

const (
	int64Type    = typespb.DataType_DT_INT64
	int32Type    = typespb.DataType_DT_INT32
	boolType     = typespb.DataType_DT_BOOL
	doubleType   = typespb.DataType_DT_DOUBLE
	stringType   = typespb.DataType_DT_STRING
	resourceType = typespb.DataType_DT_RESOURCE
	variantType  = typespb.DataType_DT_VARIANT
)

type (
	values   map[string]any // attributes: strings, ints, bools, floats, types, and the types below
	types    []typespb.DataType
	dims     []int64 // a shape
	shapes   []dims
	texts    []string
	function string // a function's name
)

// output is a node's output, as a graph and as a function's body name it.
type output struct {
	node, arg   string // arg is empty for a function's argument
	index, flat int
	dtype       typespb.DataType
	ref         bool
}

// draft is a graph and its functions while they are written.
type draft struct {
	*rand.Rand
	prefix    string // of all names
	count     int
	functions []*functionpb.FunctionDef
	feeds     []*corepb.NamedTensorProto
	said      []string // what was drawn, for reports
	aim       secret   // the graph's target
	wanted    string   // a way to draw often; any if empty
	paths     []string // files that it may not use
	tokens    []string // of iterators
	devices   []string
}

// block is the graph itself or a function's body.
type block struct {
	*draft
	body   bool
	device string
	nodes  []*nodepb.NodeDef
}

func (d *draft) say(what string) { d.said = append(d.said, what) }

func (d *draft) name() string {
	d.count++
	return fmt.Sprintf("%s%d", d.prefix, d.count)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// attribute returns an attribute's message.
func attribute(kind string, v any) *attrpb.AttrValue {
	list := &attrpb.AttrValue_ListValue{}
	switch v := v.(type) {
	case string:
		return text(v)
	case bool:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_B{B: v}}
	case int:
		if kind == "float" {
			return &attrpb.AttrValue{Value: &attrpb.AttrValue_F{F: float32(v)}}
		}
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(v)}}
	case typespb.DataType:
		return dtype(v)
	case dims:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Shape{Shape: shapeProto(v)}}
	case function:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Func{Func: &attrpb.NameAttrList{Name: string(v)}}}
	case *tensorpb.TensorProto:
		return &attrpb.AttrValue{Value: &attrpb.AttrValue_Tensor{Tensor: v}}
	case types:
		list.Type = v
	case shapes:
		for _, s := range v {
			list.Shape = append(list.Shape, shapeProto(s))
		}
	case texts:
		for _, s := range v {
			list.S = append(list.S, []byte(s))
		}
	case []function:
		for _, f := range v {
			list.Func = append(list.Func, &attrpb.NameAttrList{Name: string(f)})
		}
	default:
		panic(fmt.Sprintf("an attribute of type %T", v))
	}
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}}
}

func shapeProto(d dims) *shapepb.TensorShapeProto {
	s := &shapepb.TensorShapeProto{}
	for _, n := range d {
		s.Dim = append(s.Dim, &shapepb.TensorShapeProto_Dim{Size: n})
	}
	return s
}

// opDef returns an op of the registry.
func opDef(op string) *oppb.OpDef {
	def, err := graph.LookupOp(op)
	if err != nil {
		panic(err)
	}
	return def
}

// op writes a node and returns its outputs.
func (b *block) op(op string, v values, inputs ...output) []output {
	return b.named(b.name(), op, v, inputs...)
}

func (b *block) named(name, op string, v values, inputs ...output) (outputs []output) {
	def := opDef(op)
	n := &nodepb.NodeDef{Name: name, Op: op, Device: b.device, Attr: map[string]*attrpb.AttrValue{}}
	for _, in := range inputs {
		n.Input = append(n.Input, b.reference(in))
	}
	for _, a := range def.Attr {
		if given, ok := v[a.Name]; ok {
			n.Attr[a.Name] = attribute(a.Type, given)
		}
	}
	b.nodes = append(b.nodes, n)
	for _, arg := range def.OutputArg {
		for i, t := range argTypes(arg, def, v) {
			outputs = append(outputs, output{n.Name, arg.Name, i, len(outputs), t, arg.IsRef})
		}
	}
	return outputs
}

// first writes a node and returns its first output.
func (b *block) first(op string, v values, inputs ...output) output { return b.op(op, v, inputs...)[0] }

func (b *block) reference(o output) string {
	switch {
	case o.arg == "" || !b.body && o.flat == 0:
		return o.node
	case b.body:
		return fmt.Sprintf("%s:%s:%d", o.node, o.arg, o.index)
	}
	return fmt.Sprintf("%s:%d", o.node, o.flat)
}

// argTypes returns the types of an argument's tensors.
func argTypes(arg *oppb.OpDef_ArgDef, def *oppb.OpDef, v values) types {
	if arg.TypeListAttr != "" {
		list, _ := v[arg.TypeListAttr].(types)
		return list
	}
	t := arg.Type
	if arg.TypeAttr != "" {
		t = defaultOf(def, arg.TypeAttr).GetType()
		if given, ok := v[arg.TypeAttr].(typespb.DataType); ok {
			t = given
		}
	}
	count := 1
	if arg.NumberAttr != "" {
		count = int(defaultOf(def, arg.NumberAttr).GetI())
		if given, ok := v[arg.NumberAttr].(int); ok {
			count = given
		}
	}
	return slices.Repeat(types{t}, max(count, 0))
}

func defaultOf(def *oppb.OpDef, attr string) *attrpb.AttrValue {
	for _, a := range def.Attr {
		if a.Name == attr {
			return a.DefaultValue
		}
	}
	return nil
}

func (b *block) constant(t *tensorpb.TensorProto) output {
	return b.first("Const", values{"dtype": t.Dtype, "value": t})
}

func (b *block) ints(d dims, n ...int64) output {
	return b.constant(&tensorpb.TensorProto{Dtype: int64Type, TensorShape: shapeProto(d), Int64Val: n})
}

func (b *block) int32s(d dims, n ...int32) output {
	return b.constant(&tensorpb.TensorProto{Dtype: int32Type, TensorShape: shapeProto(d), IntVal: n})
}

func (b *block) bool(v bool) output {
	return b.constant(&tensorpb.TensorProto{Dtype: boolType, TensorShape: shapeProto(nil), BoolVal: []bool{v}})
}

func (b *block) doubles(d dims, n ...float64) output {
	return b.constant(&tensorpb.TensorProto{Dtype: doubleType, TensorShape: shapeProto(d), DoubleVal: n})
}

func (b *block) strings(d dims, all ...string) output {
	t := &tensorpb.TensorProto{Dtype: stringType, TensorShape: shapeProto(d)}
	for _, s := range all {
		t.StringVal = append(t.StringVal, []byte(s))
	}
	return b.constant(t)
}

// function writes a function; draw writes its body.
func (b *block) function(params types, draw func(b *block, args []output) []output) (name function, results types) {
	body := &block{draft: b.draft, body: true, device: pick(b.Rand, "", b.device)}
	f := &functionpb.FunctionDef{Signature: &oppb.OpDef{Name: "F" + strings.ReplaceAll(b.name(), "/", "_"), IsStateful: true}, Ret: map[string]string{}}
	var args []output
	for i, p := range params {
		arg := fmt.Sprintf("a%d", i)
		f.Signature.InputArg = append(f.Signature.InputArg, &oppb.OpDef_ArgDef{Name: arg, Type: p})
		args = append(args, output{node: arg, dtype: p})
	}
	for i, r := range draw(body, args) {
		result := fmt.Sprintf("r%d", i)
		f.Signature.OutputArg = append(f.Signature.OutputArg, &oppb.OpDef_ArgDef{Name: result, Type: r.dtype})
		f.Ret[result] = body.reference(r)
		results = append(results, r.dtype)
	}
	f.NodeDef = body.nodes
	b.functions = append(b.functions, f)
	return function(f.Signature.Name), results
}

func (b *block) def() *graphpb.GraphDef {
	def := graphOf(b.nodes...)
	def.Library = &functionpb.FunctionDefLibrary{Function: b.functions}
	return def
}

// anyValues returns random attributes for an op, in addition to the given ones.
func (b *block) anyValues(def *oppb.OpDef, given values) values {
	v := values{}
	for _, a := range def.Attr {
		if g, ok := given[a.Name]; ok {
			v[a.Name] = g
			continue
		}
		if a.DefaultValue != nil && b.IntN(3) > 0 && a.Type != "type" && a.Type != "list(type)" {
			continue
		}
		switch a.Type {
		case "type":
			v[a.Name] = b.anyType(a)
		case "list(type)":
			v[a.Name] = slices.Repeat(types{b.anyType(a)}, 1+b.IntN(5)/4)
		case "int":
			v[a.Name] = int(a.Minimum) + b.IntN(3)
		case "float":
			v[a.Name] = b.IntN(3)
		case "bool":
			v[a.Name] = b.IntN(2) == 0
		case "shape":
			v[a.Name] = pick[dims](b.Rand, nil, nil, dims{1}, dims{2})
		case "string":
			v[a.Name] = b.anyText()
			if allowed := a.GetAllowedValues().GetList().GetS(); len(allowed) > 0 {
				v[a.Name] = string(pick(b.Rand, allowed...))
			}
		case "list(string)":
			v[a.Name] = texts{b.anyText()}
		case "func", "list(func)":
			f, _ := b.function(types{int64Type}, func(b *block, args []output) []output { return args })
			v[a.Name] = f
			if a.Type == "list(func)" {
				v[a.Name] = []function{f, f}
			}
		}
	}
	for _, a := range def.Attr { // one shape per component
		if a.Type == "list(shape)" && v[a.Name] == nil && a.DefaultValue == nil {
			count := 1
			for _, other := range v {
				if list, ok := other.(types); ok {
					count = len(list)
				}
			}
			v[a.Name] = slices.Repeat(shapes{nil}, count)
		}
	}
	return v
}

// anyType is usually the type of the secrets.
func (b *block) anyType(a *oppb.OpDef_AttrDef) typespb.DataType {
	allowed := a.GetAllowedValues().GetList().GetType()
	likely := int64Type
	switch {
	case strings.Contains(strings.ToLower(a.Name), "key") || a.Name == "Tin":
		likely = stringType
	case strings.Contains(a.Name, "indices") || strings.Contains(a.Name, "shape"):
		likely = int32Type
	}
	if b.IntN(5) > 0 && (len(allowed) == 0 || slices.Contains(allowed, likely)) {
		return likely
	}
	if len(allowed) > 0 {
		return pick(b.Rand, allowed...)
	}
	return pick(b.Rand, int64Type, stringType, doubleType, int32Type, resourceType, variantType, boolType)
}

func (b *block) anyText() string {
	return pick(b.Rand, append([]string{b.aim.container, b.aim.name, b.aim.name, "k", "", b.aim.container + "/" + b.aim.name, "file://" + b.paths[0], b.aim.device},
		slices.Concat(b.paths, b.tokens)...)...)
}

// guess returns a random tensor that an op may accept.
func (b *block) guess(t typespb.DataType) output {
	d := pick(b.Rand, nil, nil, dims{1})
	switch v := int64(b.IntN(3)) - 1 + int64(b.IntN(2)); t {
	case int64Type:
		return b.ints(d, v)
	case int32Type:
		return b.int32s(d, int32(v))
	case stringType:
		if b.IntN(2) == 0 {
			return b.strings(d, "k")
		}
		return b.strings(d, b.anyText())
	case boolType:
		return b.bool(b.IntN(2) == 0)
	case doubleType:
		return b.doubles(d, float64(v))
	case resourceType:
		return b.constant(b.forged())
	case variantType:
		if b.IntN(2) == 0 {
			return b.first("RangeDataset", values{"output_types": types{int64Type}, "output_shapes": shapes{nil}}, b.ints(nil, 0), b.ints(nil, 1), b.ints(nil, 1))
		}
		return b.constant(hidden(b.forged()))
	default:
		return b.first("Cast", values{"SrcT": int64Type, "DstT": t}, b.ints(d, v))
	}
}

// forged returns a handle of the graph's target.
func (b *block) forged() *tensorpb.TensorProto {
	t := forged(b.aim.container, b.aim.name)
	h := t.ResourceHandleVal[0]
	h.Device = cmp.Or(b.aim.device, pick(b.Rand, b.devices...))
	h.HashCode = pick(b.Rand, 0, b.Uint64())
	h.MaybeTypeName = pick(b.Rand, "", "Var", b.aim.kind)
	return t
}

// anything writes a node of an op with random attributes and inputs. Its handles are the given ones.
func (b *block) anything(def *oppb.OpDef, given values, handle *output) []output {
	return b.anythingNamed(b.name(), def, given, handle)
}

func (b *block) anythingNamed(name string, def *oppb.OpDef, given values, handle *output) []output {
	v := b.anyValues(def, given)
	var inputs []output
	for _, arg := range def.InputArg {
		for _, t := range argTypes(arg, def, v) {
			switch {
			case handle != nil && handle.dtype == t && (!arg.IsRef || handle.ref):
				inputs = append(inputs, *handle)
			case arg.IsRef:
				inputs = append(inputs, b.first("VariableV2", values{"dtype": t, "shape": dims(nil), "container": b.aim.container, "shared_name": b.aim.name}))
			default:
				inputs = append(inputs, b.guess(t))
			}
		}
	}
	return b.named(name, def.Name, v, inputs...)
}

// opsThat returns the ops of the registry that clients may use and for which tell is true.
func opsThat(tell func(*oppb.OpDef) bool) (all []*oppb.OpDef) {
	for _, op := range kernels.Ops() {
		def, err := graph.LookupOp(op)
		if err == nil && !slices.Contains([]string{"_Arg", "_Retval", "Print", "PrintV2"}, op) && tell(def) { // Print and PrintV2 would print
			all = append(all, def)
		}
	}
	return all
}

func hasAttr(def *oppb.OpDef, name string) bool {
	return slices.ContainsFunc(def.Attr, func(a *oppb.OpDef_AttrDef) bool { return a.Name == name })
}

func takes(t typespb.DataType, ref bool) func(*oppb.OpDef) bool {
	return func(def *oppb.OpDef) bool {
		return slices.ContainsFunc(def.InputArg, func(a *oppb.OpDef_ArgDef) bool { return a.Type == t && a.IsRef == ref })
	}
}

var (
	allOps       = opsThat(func(*oppb.OpDef) bool { return true })
	namingOps    = opsThat(func(d *oppb.OpDef) bool { return hasAttr(d, "container") })
	resourceOps  = opsThat(takes(resourceType, false))
	referenceOps = opsThat(takes(stringType, true))
	fileOps      = opsThat(func(d *oppb.OpDef) bool { return rights.UsesFiles(d.Name) })
	referringOps = opsThat(func(d *oppb.OpDef) bool {
		return slices.ContainsFunc(d.InputArg, func(a *oppb.OpDef_ArgDef) bool { return a.IsRef && a.TypeAttr != "" })
	})
)

// readers read what is behind a handle of each kind.
var readers = map[string]string{"VarHandleOp": "ReadVariableOp", "FIFOQueueV2": "QueueDequeueV2", "MutableHashTableV2": "LookupTableExportV2",
	"IteratorV2": "IteratorGetNext", "FIFOQueue": "QueueDequeue", "VariableV2": "Identity"}

// stagedBy maps the ops that take staged values by name to the ops that stage them.
var stagedBy = map[string]string{"Unstage": "Stage", "StagePeek": "Stage", "MapUnstage": "MapStage", "MapUnstageNoKey": "MapStage", "MapPeek": "MapStage",
	"OrderedMapUnstage": "OrderedMapStage", "OrderedMapUnstageNoKey": "OrderedMapStage", "OrderedMapPeek": "OrderedMapStage"}

// way is one way to draw a part of a graph.
type way[F any] struct {
	name string
	draw F
}

// choose draws a way and records it.
func choose[F any](b *block, kind string, ways []way[F]) way[F] {
	w := pick(b.Rand, ways...)
	for _, other := range ways {
		if kind+other.name == b.wanted && b.IntN(2) == 0 {
			w = other
		}
	}
	b.say(kind + w.name)
	return w
}

// sources get a handle of the graph's target.
var sources = []way[func(b *block) output]{
	{"its op", func(b *block) output { return b.resource(b.name(), b.aim.name) }},
	{"its op by the node's name", func(b *block) output { return b.resource(b.aim.name, "") }},
	{"a constant", func(b *block) output { return b.constant(b.forged()) }},
	{"a feed", func(b *block) output {
		if b.body {
			return b.constant(b.forged())
		}
		h := b.first("Placeholder", values{"dtype": resourceType, "shape": dims(nil)})
		b.feeds = append(b.feeds, &corepb.NamedTensorProto{Name: h.node + ":0", Tensor: b.forged()})
		return h
	}},
	{"a variant", func(b *block) output {
		list := b.constant(hidden(b.forged()))
		return b.first("TensorListGetItem", values{"element_dtype": resourceType}, list, b.int32s(nil, 0), b.int32s(dims{0}))
	}},
	{"two strings", func(b *block) output {
		ref := b.first("VariableV2", values{"dtype": stringType, "shape": dims{2}, "container": "mine"})
		return b.first("Assign", values{"T": stringType}, ref, b.strings(dims{2}, b.aim.container, b.aim.name))
	}},
	{"an iterator's string", func(b *block) output {
		b.aim = b.aim.of("IteratorV2")
		return b.first(pick(b.Rand, "IteratorFromStringHandle", "IteratorFromStringHandleV2"), values{"output_types": types{int64Type}, "output_shapes": shapes{nil}},
			b.strings(nil, pick(b.Rand, b.tokens...)))
	}},
}

// resource is the node that makes the graph's target.
func (b *block) resource(node, shared string) output {
	return b.anythingNamed(node, opDef(b.aim.kind), values{"container": b.aim.container, "shared_name": shared}, nil)[0]
}

// carriers pass a handle on to somewhere else.
var carriers = []way[func(b *block, h output) output]{
	{"Identity", func(b *block, h output) output { return b.first("Identity", values{"T": resourceType}, h) }},
	{"another device", func(b *block, h output) output {
		own := b.device
		b.device = pick(b.Rand, b.devices...)
		h = b.first("Identity", values{"T": resourceType}, h)
		b.device = own
		return h
	}},
	{"Switch", func(b *block, h output) output {
		both := b.op("Switch", values{"T": resourceType}, h, b.bool(true))
		return b.first("Merge", values{"T": resourceType, "N": 2}, both[0], both[1])
	}},
	{"a list", func(b *block, h output) output {
		list := b.first("TensorListReserve", values{"element_dtype": resourceType, "shape_type": int32Type}, b.int32s(dims{0}), b.int32s(nil, 1))
		list = b.first("TensorListSetItem", values{"element_dtype": resourceType}, list, b.int32s(nil, 0), h)
		return b.first("TensorListGetItem", values{"element_dtype": resourceType}, list, b.int32s(nil, 0), b.int32s(dims{0}))
	}},
	{"an optional", func(b *block, h output) output {
		o := b.first("OptionalFromValue", values{"Toutput_types": types{resourceType}}, h)
		return b.first("OptionalGetValue", values{"output_types": types{resourceType}, "output_shapes": shapes{nil}}, o)
	}},
	{"a call", func(b *block, h output) output {
		f, _ := b.function(types{resourceType}, func(b *block, args []output) []output {
			return []output{b.first("Identity", values{"T": resourceType}, args[0])}
		})
		return b.first(pick(b.Rand, "PartitionedCall", "StatefulPartitionedCall"), values{"Tin": types{resourceType}, "Tout": types{resourceType}, "f": f}, h)
	}},
	{"a dataset", func(b *block, h output) output {
		d := b.first("TensorDataset", values{"Toutput_types": types{resourceType}, "output_shapes": shapes{nil}}, h)
		return b.first("DatasetToSingleElement", values{"output_types": types{resourceType}, "output_shapes": shapes{nil}}, d)
	}},
}

// wraps run a part of a graph within a function of its own. Results are plain tensors.
var wraps = []way[func(b *block, inner func(b *block) []output) []output]{
	{"PartitionedCall", called("PartitionedCall")},
	{"StatefulPartitionedCall", called("StatefulPartitionedCall")},
	{"RemoteCall", func(b *block, inner func(b *block) []output) []output {
		f, results := b.function(nil, func(b *block, _ []output) []output { return inner(b) })
		return b.op("RemoteCall", values{"Tin": types{int64Type}, "Tout": results, "f": b.taking(f, results)}, b.strings(nil, pick(b.Rand, b.devices...)), b.ints(nil, 1))
	}},
	{"If", func(b *block, inner func(b *block) []output) []output {
		f, results := b.function(nil, func(b *block, _ []output) []output { return inner(b) })
		return b.op(pick(b.Rand, "If", "StatelessIf"), values{"Tcond": boolType, "Tin": types{}, "Tout": results, "then_branch": f, "else_branch": f}, b.bool(true))
	}},
	{"Case", func(b *block, inner func(b *block) []output) []output {
		f, results := b.function(nil, func(b *block, _ []output) []output { return inner(b) })
		return b.op(pick(b.Rand, "Case", "StatelessCase"), values{"Tin": types{}, "Tout": results, "branches": []function{f, f}}, b.int32s(nil, 1))
	}},
	{"While", func(b *block, inner func(b *block) []output) []output {
		f, results := b.function(nil, func(b *block, _ []output) []output { return inner(b) })
		state := append(types{int64Type}, results...)
		cond, _ := b.function(state, func(b *block, args []output) []output {
			return []output{b.first("Less", values{"T": int64Type}, args[0], b.ints(nil, 1))}
		})
		body, _ := b.function(state, func(b *block, args []output) []output {
			next := b.first("AddV2", values{"T": int64Type}, args[0], b.ints(nil, 1))
			return append([]output{next}, b.op("StatefulPartitionedCall", values{"Tin": types{}, "Tout": results, "f": f})...)
		})
		start := []output{b.ints(nil, 0)}
		for _, t := range results {
			start = append(start, b.guess(t))
		}
		return b.op(pick(b.Rand, "While", "StatelessWhile"), values{"T": state, "cond": cond, "body": body}, start...)[1:]
	}},
	{"MapDataset", func(b *block, inner func(b *block) []output) []output {
		dataset, results := b.mapped(inner)
		return b.op("DatasetToSingleElement", values{"output_types": results, "output_shapes": slices.Repeat(shapes{nil}, len(results))}, dataset)
	}},
	{"DatasetFromGraph", func(b *block, inner func(b *block) []output) []output {
		own := &block{draft: b.draft}
		had := len(b.feeds)
		dataset, results := own.mapped(inner)
		b.feeds = b.feeds[:had] // a dataset's graph has no feeds
		own.nodes = append(own.nodes, &nodepb.NodeDef{Name: b.name(), Op: "_Retval", Input: []string{own.reference(dataset)}})
		text, err := proto.Marshal(own.def())
		if err != nil {
			panic(err)
		}
		shapes := slices.Repeat(shapes{nil}, len(results))
		return b.op("DatasetToSingleElement", values{"output_types": results, "output_shapes": shapes}, b.first("DatasetFromGraph", nil, b.strings(nil, string(text))))
	}},
	{"OneShotIterator", func(b *block, inner func(b *block) []output) []output {
		var results types
		factory, _ := b.function(nil, func(b *block, _ []output) []output {
			var dataset output
			dataset, results = b.mapped(inner)
			return []output{dataset}
		})
		v := values{"output_types": results, "output_shapes": slices.Repeat(shapes{nil}, len(results)), "dataset_factory": factory, "container": "mine"}
		return b.op("IteratorGetNext", v, b.first("OneShotIterator", v))
	}},
	{"SymbolicGradient", func(b *block, inner func(b *block) []output) []output {
		f, _ := b.function(types{doubleType}, func(b *block, args []output) []output {
			inner(b)
			return []output{b.first("Square", values{"T": doubleType}, args[0])}
		})
		return b.op("SymbolicGradient", values{"Tin": types{doubleType, doubleType}, "Tout": types{doubleType}, "f": f}, b.doubles(nil, 1), b.doubles(nil, 1))
	}},
}

func called(op string) func(b *block, inner func(b *block) []output) []output {
	return func(b *block, inner func(b *block) []output) []output {
		f, results := b.function(nil, func(b *block, _ []output) []output { return inner(b) })
		return b.op(op, values{"Tin": types{}, "Tout": results, "f": f})
	}
}

// taking is a function with an argument that calls a function without.
func (b *block) taking(f function, results types) function {
	name, _ := b.function(types{int64Type}, func(b *block, _ []output) []output {
		return b.op("StatefulPartitionedCall", values{"Tin": types{}, "Tout": results, "f": f})
	})
	return name
}

// mapped is a dataset of one element that a function makes.
func (b *block) mapped(inner func(b *block) []output) (dataset output, results types) {
	f, results := b.function(types{int64Type}, func(b *block, _ []output) []output { return inner(b) })
	one := b.first("RangeDataset", values{"output_types": types{int64Type}, "output_shapes": shapes{nil}}, b.ints(nil, 0), b.ints(nil, 1), b.ints(nil, 1))
	v := values{"f": f, "Targuments": types{}, "output_types": results, "output_shapes": slices.Repeat(shapes{nil}, len(results))}
	if b.IntN(2) == 0 {
		return b.first("MapDataset", v, one), results
	}
	return b.first("ParallelMapDatasetV2", v, one, b.ints(nil, 2)), results
}

// plain returns the outputs that can be a function's results or fetched.
func plain(outputs []output) (all []output) {
	for _, o := range outputs {
		if o.dtype != resourceType && o.dtype != variantType && o.dtype != typespb.DataType_DT_INVALID {
			all = append(all, o)
		}
	}
	return all
}

// attempt writes nodes that reach for the secret, or for a file, and returns what they may have got.
func (b *block) attempt(depth int) []output {
	if depth > 0 && b.IntN(3) > 0 {
		return choose(b, "wrap ", wraps).draw(b, func(b *block) []output {
			got := plain(b.attempt(depth - 1))
			if len(got) == 0 {
				got = []output{b.ints(nil, 0)}
			}
			for i, o := range got {
				if o.ref {
					got[i] = b.first("Identity", values{"T": o.dtype}, o)
				}
			}
			return got
		})
	}
	switch n := b.IntN(20); {
	case n < 12 && len(opDef(b.aim.kind).OutputArg) > 0:
		return b.reach()
	case n < 14: // ops without a handle, such as those of staging areas
		b.say("a naming op")
		def := pick(b.Rand, namingOps...)
		if b.IntN(2) == 0 {
			def = opDef(pick(b.Rand, slices.Sorted(maps.Keys(stagedBy))...))
			b.aim = b.aim.of(stagedBy[def.Name])
		}
		return b.anything(def, values{"container": b.aim.container, "shared_name": b.aim.name}, nil)
	case n < 16: // ops that change variables
		def := pick(b.Rand, referringOps...)
		b.say("a reference")
		b.aim = b.aim.of("VariableV2")
		return b.anything(def, values{"T": int64Type, "dtype": int64Type}, nil)
	case n < 18:
		def := pick(b.Rand, fileOps...)
		b.say("a file")
		if b.IntN(2) == 0 {
			return b.op("ReadFile", nil, b.strings(nil, pick(b.Rand, b.paths...)))
		}
		return b.anything(def, nil, nil)
	default:
		b.say("any op")
		return b.anything(pick(b.Rand, allOps...), nil, nil)
	}
}

// reach gets a handle, passes it on, and uses it.
func (b *block) reach() []output {
	h := choose(b, "source ", sources).draw(b)
	switch {
	case h.ref && h.dtype == stringType:
		def := pick(b.Rand, referenceOps...)
		if b.IntN(2) == 0 {
			def = opDef("QueueDequeue")
		}
		return b.anything(def, nil, &h)
	case h.dtype != resourceType:
		return []output{h}
	}
	for range b.IntN(3) {
		h = choose(b, "carrier ", carriers).draw(b, h)
	}
	def := pick(b.Rand, resourceOps...)
	if op := readers[b.aim.kind]; op != "" && b.IntN(3) > 0 {
		def = opDef(op)
	}
	b.say(def.Name)
	return b.anything(def, nil, &h)
}
