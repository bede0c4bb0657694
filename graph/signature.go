package graph

import (
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	oppb "github.com/galeone/tensorflow/tensorflow/go/core/framework/op_def_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// signature is an OpDef prepared for checking nodes against it: names are resolved to positions and sets to bit masks, once per op instead
// of once per node.
type signature struct {
	def           *OpDef
	attrs         []attrSpec
	inputs        []argSpec
	outputs       []argSpec
	inFix, outFix []tensor.DType // the types, if they depend on no attribute
	merge, next   bool           // the two ends of a loop's back edge
	// attrAt and outputAt index attributes and outputs by name in declarations too long for linear search; otherwise they are nil.
	attrAt, outputAt map[string]int
}

// long is the length above which a linear search is slower than a map, and above which a client's own declarations could make it
// prohibitively slow.
const long = 16

// positions maps names to their positions; it returns nil for short lists.
func positions(n int, name func(i int) string) map[string]int {
	if n <= long {
		return nil
	}
	at := make(map[string]int, n)
	for i := range n {
		if _, ok := at[name(i)]; !ok {
			at[name(i)] = i
		}
	}
	return at
}

// kind is what an attribute holds, without its list().
type kind uint8

const (
	kindString kind = iota
	kindInt
	kindFloat
	kindBool
	kindType
	kindShape
	kindTensor
	kindFunc
)

var kindNames = [...]string{"string", "int", "float", "bool", "type", "shape", "tensor", "func"}

type attrSpec struct {
	def     *oppb.OpDef_AttrDef
	kind    kind
	list    bool
	types   uint64   // allowed types as bits, 0 for all
	strings []string // allowed strings, nil for all
}

// argSpec is an argument of an op. The attributes that determine its type and number are positions in signature.attrs, or none.
type argSpec struct {
	name                           string
	dtype                          tensor.DType
	typeAttr, numberAttr, listAttr int
	ref                            bool
}

const none = -1

// compile checks and prepares a declaration, which may come from a client's function library. Errors are INVALID_ARGUMENT and name the op.
func compile(def *OpDef) (*signature, error) {
	s := &signature{def: def, attrs: make([]attrSpec, len(def.Attr))}
	s.attrAt = positions(len(def.Attr), func(i int) string { return def.Attr[i].GetName() })
	s.outputAt = positions(len(def.OutputArg), func(i int) string { return def.OutputArg[i].GetName() })
	for i, a := range def.Attr {
		if err := s.attrs[i].set(a); err != nil {
			return nil, status.InvalidArgumentf("%v in OpDef: %s", err, summarizeOp(def))
		}
		if s.attr(a.Name) != i {
			return nil, status.InvalidArgumentf("Duplicate name: %s; in OpDef: %s", a.Name, summarizeOp(def))
		}
	}
	var err error
	if s.inputs, s.inFix, err = s.args(def.InputArg); err != nil {
		return nil, err
	}
	if s.outputs, s.outFix, err = s.args(def.OutputArg); err != nil {
		return nil, err
	}
	switch def.Name {
	case "Merge", "RefMerge", "_XlaMerge":
		s.merge = true
	case "NextIteration", "RefNextIteration":
		s.next = true
	}
	return s, nil
}

func (a *attrSpec) set(def *oppb.OpDef_AttrDef) error {
	a.def = def
	name, list := strings.CutPrefix(def.GetType(), "list(")
	if list {
		name, list = strings.CutSuffix(name, ")")
		if !list {
			return status.InvalidArgumentf("'list(' is missing ')' in attr %s's type %s", def.GetName(), def.GetType())
		}
	}
	a.list = list
	found := false
	for k, n := range kindNames {
		if n == name {
			a.kind, found = kind(k), true
		}
	}
	if !found {
		return status.InvalidArgumentf("Unrecognized type '%s' in attr '%s'", name, def.GetName())
	}
	allowed := def.GetAllowedValues().GetList()
	switch {
	case def.GetAllowedValues() == nil:
	case a.kind == kindType:
		for _, t := range allowed.GetType() {
			if t >= 0 && t < 64 {
				a.types |= 1 << uint(t)
			}
		}
	case a.kind == kindString:
		a.strings = make([]string, len(allowed.GetS()))
		for i, s := range allowed.GetS() {
			a.strings[i] = string(s)
		}
	}
	return nil
}

// attr returns the position of the attribute of that name, or none.
func (s *signature) attr(name string) int {
	if s.attrAt != nil {
		if i, ok := s.attrAt[name]; ok {
			return i
		}
		return none
	}
	for i, a := range s.def.Attr {
		if a.GetName() == name {
			return i
		}
	}
	return none
}

// output returns the position of the output argument of that name, or none.
func (s *signature) output(name string) int {
	if s.outputAt != nil {
		if i, ok := s.outputAt[name]; ok {
			return i
		}
		return none
	}
	for i := range s.outputs {
		if s.outputs[i].name == name {
			return i
		}
	}
	return none
}

// args resolves arguments. fixed holds their types if these depend on no attribute.
func (s *signature) args(defs []*oppb.OpDef_ArgDef) (specs []argSpec, fixed []tensor.DType, err error) {
	specs = make([]argSpec, len(defs))
	fixed = make([]tensor.DType, 0, len(defs))
	free := false
	for i, d := range defs {
		p := argSpec{name: d.GetName(), dtype: tensor.FromProto(d.GetType()), ref: d.GetIsRef(), typeAttr: none, numberAttr: none, listAttr: none}
		for _, ref := range []struct {
			name string
			to   *int
			kind kind
			list bool
		}{{d.GetTypeAttr(), &p.typeAttr, kindType, false}, {d.GetNumberAttr(), &p.numberAttr, kindInt, false}, {d.GetTypeListAttr(), &p.listAttr, kindType, true}} {
			if ref.name == "" {
				continue
			}
			free = true
			if *ref.to = s.attr(ref.name); *ref.to == none {
				return nil, nil, s.badArg(d, "No attr with name '%s'", ref.name)
			}
			if a := s.attrs[*ref.to]; a.kind != ref.kind || a.list != ref.list {
				return nil, nil, s.badArg(d, "Attr '%s' has type %s", ref.name, a.def.GetType())
			}
		}
		sources := 0
		for _, has := range []bool{p.dtype != tensor.Invalid, p.typeAttr != none, p.listAttr != none} {
			if has {
				sources++
			}
		}
		switch {
		case sources != 1:
			return nil, nil, s.badArg(d, "Exactly one of type, type_attr, type_list_attr must be set")
		case p.listAttr != none && p.numberAttr != none:
			return nil, nil, s.badArg(d, "Can't have both number_attr and type_list_attr")
		case p.dtype != tensor.Invalid && !knownType(p.dtype):
			return nil, nil, s.badArg(d, "Illegal use of type '%v'", p.dtype)
		}
		t := p.dtype
		if p.ref {
			t = t.Ref()
		}
		fixed = append(fixed, t)
		specs[i] = p
	}
	if free {
		fixed = nil
	}
	return specs, fixed, nil
}

func (s *signature) badArg(d *oppb.OpDef_ArgDef, format string, args ...any) error {
	return status.InvalidArgumentf(format+" for argument '%s'; in OpDef: %s", append(args, d.GetName(), summarizeOp(s.def))...)
}

// lastType is the highest number of TensorFlow 2.21's element types (DT_UINT2).
const lastType = 32

// knownType reports whether t is one of TensorFlow's element types and not a reference. There are more of these than tensors can have
// here: a graph may contain any of them as long as no kernel has to run on them.
func knownType(t tensor.DType) bool { return t > tensor.Invalid && t <= lastType }

// holds reports whether v holds the spec's kind of value. got is the kind it holds instead, or "" for none.
func (a *attrSpec) holds(v *attrpb.AttrValue) (ok bool, got string) {
	if a.list {
		if l, is := v.GetValue().(*attrpb.AttrValue_List); is {
			got := listKind(l.List, a.kind)
			return got == "", got
		}
		got := valueKind(v)
		return got == "", got
	}
	switch v.GetValue().(type) {
	case *attrpb.AttrValue_S:
		ok = a.kind == kindString
	case *attrpb.AttrValue_I:
		ok = a.kind == kindInt
	case *attrpb.AttrValue_F:
		ok = a.kind == kindFloat
	case *attrpb.AttrValue_B:
		ok = a.kind == kindBool
	case *attrpb.AttrValue_Type:
		ok = a.kind == kindType
	case *attrpb.AttrValue_Shape:
		ok = a.kind == kindShape
	case *attrpb.AttrValue_Tensor:
		ok = a.kind == kindTensor
	case *attrpb.AttrValue_Func:
		ok = a.kind == kindFunc
	}
	if ok {
		return true, ""
	}
	return false, valueKind(v)
}

// valueKind returns the kind of value that v holds, or "" for none.
func valueKind(v *attrpb.AttrValue) string {
	switch v := v.GetValue().(type) {
	case *attrpb.AttrValue_S:
		return "string"
	case *attrpb.AttrValue_I:
		return "int"
	case *attrpb.AttrValue_F:
		return "float"
	case *attrpb.AttrValue_B:
		return "bool"
	case *attrpb.AttrValue_Type:
		return "type"
	case *attrpb.AttrValue_Shape:
		return "shape"
	case *attrpb.AttrValue_Tensor:
		return "tensor"
	case *attrpb.AttrValue_Func:
		return "func"
	case *attrpb.AttrValue_Placeholder:
		return "placeholder"
	case *attrpb.AttrValue_List:
		// No element kind matches, so the first one present is named.
		return listKind(v.List, kind(len(kindNames)))
	}
	return ""
}

// listLen returns the number of elements of one kind.
func listLen(l *attrpb.AttrValue_ListValue, k kind) int {
	switch k {
	case kindString:
		return len(l.GetS())
	case kindInt:
		return len(l.GetI())
	case kindFloat:
		return len(l.GetF())
	case kindBool:
		return len(l.GetB())
	case kindType:
		return len(l.GetType())
	case kindShape:
		return len(l.GetShape())
	case kindTensor:
		return len(l.GetTensor())
	}
	return len(l.GetFunc())
}

// listKind returns a kind other than want that l has elements of, or "".
func listKind(l *attrpb.AttrValue_ListValue, want kind) string {
	for k := range kind(len(kindNames)) {
		if k != want && listLen(l, k) > 0 {
			return "list(" + kindNames[k] + ")"
		}
	}
	return ""
}
