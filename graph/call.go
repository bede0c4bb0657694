package graph

import (
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Call describes a node that applies an op or a function to arguments.
type Call struct {
	Def *OpDef
	// Attrs are all attributes: those given, those inferred from the arguments, and defaults.
	Attrs Attrs
	// Outputs are the types of the tensors of each output argument of the op.
	Outputs [][]tensor.DType
}

// Call completes a node for which only the arguments and the attributes that cannot be inferred from them are given. args holds the types
// of the tensors for each of the op's input arguments: one type, or a list for an argument that stands for several tensors. An argument
// that the op takes by reference must be a reference; any other may be one.
//
// Errors: NOT_FOUND for an op that does not exist, INVALID_ARGUMENT for arguments that contradict each other, the op or the attributes.
func (l *Library) Call(op string, args [][]tensor.DType, attrs Attrs) (*Call, error) {
	sig, err := l.lookup(op)
	if err != nil {
		return nil, err
	}
	if len(args) != len(sig.inputs) {
		return nil, status.InvalidArgumentf("%s takes %s, not %d: %s", op, plural(int64(len(sig.inputs)), "argument"), len(args), summarizeOp(sig.def))
	}
	c := &caller{sig: sig, attrs: make(Attrs, len(sig.attrs)), from: map[int]string{}}
	for name, v := range attrs {
		if sig.attr(name) == none && (name == "" || name[0] != '_') {
			return nil, status.InvalidArgumentf("%s has no attribute '%s': %s", op, name, summarizeOp(sig.def))
		}
		c.attrs[name] = v
	}
	for i := range sig.inputs {
		if err := c.argument(&sig.inputs[i], args[i]); err != nil {
			return nil, err
		}
	}
	vals := make([]*attrpb.AttrValue, len(sig.attrs))
	out := &Call{Def: sig.def, Outputs: make([][]tensor.DType, len(sig.outputs))}
	if out.Attrs, err = sig.checkAttrs(c.attrs, vals, op); err != nil {
		return nil, err
	}
	total := 0
	for i := range sig.outputs {
		n, err := sig.outputs[i].count(vals, maxArgs-total)
		if err != nil {
			return nil, status.InvalidArgumentf("%v", err)
		}
		total += n
		out.Outputs[i] = sig.outputs[i].appendTypes(make([]tensor.DType, 0, n), vals)
	}
	return out, nil
}

// caller infers attributes from arguments.
type caller struct {
	sig   *signature
	attrs Attrs
	from  map[int]string // the argument that an attribute was inferred from
}

func (c *caller) argument(arg *argSpec, types []tensor.DType) error {
	if arg.numberAttr == none && arg.listAttr == none && len(types) != 1 {
		return status.InvalidArgumentf("Argument '%s' of %s is one tensor, not %d", arg.name, c.sig.def.Name, len(types))
	}
	base := make([]tensor.DType, len(types))
	for i, t := range types {
		if arg.ref && !t.IsRef() {
			return status.InvalidArgumentf("Argument '%s' of %s has to be a reference to a variable, not a %v", arg.name, c.sig.def.Name, t)
		}
		base[i] = t.Base()
	}
	if arg.numberAttr != none {
		if err := c.follows(arg, arg.numberAttr, &attrpb.AttrValue{Value: &attrpb.AttrValue_I{I: int64(len(types))}}); err != nil {
			return err
		}
	}
	if arg.listAttr != none {
		list := &attrpb.AttrValue_ListValue{Type: make([]typespb.DataType, len(base))}
		for i, t := range base {
			list.Type[i] = t.Proto()
		}
		return c.follows(arg, arg.listAttr, &attrpb.AttrValue{Value: &attrpb.AttrValue_List{List: list}})
	}
	if len(base) == 0 {
		return nil // the type must be given
	}
	if arg.typeAttr != none {
		if err := c.follows(arg, arg.typeAttr, &attrpb.AttrValue{Value: &attrpb.AttrValue_Type{Type: base[0].Proto()}}); err != nil {
			return err
		}
	}
	want := arg.dtype
	if want == tensor.Invalid {
		want = base[0]
	}
	if i := slices.IndexFunc(base, func(t tensor.DType) bool { return t != want }); i >= 0 {
		return status.InvalidArgumentf("Argument '%s' of %s is %v, not %v", arg.name, c.sig.def.Name, want, base[i])
	}
	return nil
}

// follows sets an attribute to the value inferred from an argument, or checks that it already has that value.
func (c *caller) follows(arg *argSpec, at int, v *attrpb.AttrValue) error {
	name := c.sig.def.Attr[at].Name
	have, ok := c.attrs[name]
	if !ok {
		c.attrs[name], c.from[at] = v, arg.name
		return nil
	}
	if want, got := summarizeAttr(have), summarizeAttr(v); want != got {
		source := "it was set to"
		if other, ok := c.from[at]; ok {
			source = "argument '" + other + "' makes it"
		}
		return status.InvalidArgumentf("Argument '%s' of %s makes its attribute '%s' %s, but %s %s", arg.name, c.sig.def.Name, name, got, source, want)
	}
	return nil
}
