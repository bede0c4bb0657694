package graph

import (
	"maps"
	"slices"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Attrs holds a node's attributes by name. The typed getters return INVALID_ARGUMENT if the attribute is missing or has another type.
type Attrs map[string]*attrpb.AttrValue

func attr[T attrKind](a Attrs, name, kind string) (T, error) {
	v, ok := a[name]
	if !ok {
		var zero T
		return zero, status.InvalidArgumentf("No attr named '%s' in NodeDef", name)
	}
	t, ok := v.Value.(T)
	if !ok {
		return t, status.InvalidArgumentf("Attr '%s' is not of kind %s", name, kind)
	}
	return t, nil
}

type attrKind interface {
	*attrpb.AttrValue_S | *attrpb.AttrValue_I | *attrpb.AttrValue_F | *attrpb.AttrValue_B | *attrpb.AttrValue_Type |
		*attrpb.AttrValue_Shape | *attrpb.AttrValue_Tensor | *attrpb.AttrValue_List | *attrpb.AttrValue_Func
}

// Str returns a string attribute.
func (a Attrs) Str(name string) (string, error) {
	v, err := attr[*attrpb.AttrValue_S](a, name, "string")
	if err != nil {
		return "", err
	}
	return string(v.S), nil
}

// Int returns an int attribute.
func (a Attrs) Int(name string) (int64, error) {
	v, err := attr[*attrpb.AttrValue_I](a, name, "int")
	if err != nil {
		return 0, err
	}
	return v.I, nil
}

// Float returns a float attribute.
func (a Attrs) Float(name string) (float32, error) {
	v, err := attr[*attrpb.AttrValue_F](a, name, "float")
	if err != nil {
		return 0, err
	}
	return v.F, nil
}

// Bool returns a bool attribute.
func (a Attrs) Bool(name string) (bool, error) {
	v, err := attr[*attrpb.AttrValue_B](a, name, "bool")
	if err != nil {
		return false, err
	}
	return v.B, nil
}

// Type returns a type attribute.
func (a Attrs) Type(name string) (tensor.DType, error) {
	v, err := attr[*attrpb.AttrValue_Type](a, name, "type")
	if err != nil {
		return tensor.Invalid, err
	}
	return tensor.FromProto(v.Type), nil
}

// Shape returns a shape attribute. If the rank is unknown, known is false; unknown sizes are -1.
func (a Attrs) Shape(name string) (s tensor.Shape, known bool, err error) {
	v, err := attr[*attrpb.AttrValue_Shape](a, name, "shape")
	if err != nil {
		return nil, false, err
	}
	s, known = tensor.ShapeFromProto(v.Shape)
	return s, known, nil
}

// Tensor returns a tensor attribute in its original message.
func (a Attrs) Tensor(name string) (*tensorpb.TensorProto, error) {
	v, err := attr[*attrpb.AttrValue_Tensor](a, name, "tensor")
	if err != nil {
		return nil, err
	}
	return v.Tensor, nil
}

// List returns a list attribute in its original message.
func (a Attrs) List(name string) (*attrpb.AttrValue_ListValue, error) {
	v, err := attr[*attrpb.AttrValue_List](a, name, "list")
	if err != nil {
		return nil, err
	}
	return v.List, nil
}

// TypeList returns a list(type) attribute.
func (a Attrs) TypeList(name string) ([]tensor.DType, error) {
	l, err := a.List(name)
	if err != nil {
		return nil, err
	}
	out := make([]tensor.DType, len(l.GetType()))
	for i, t := range l.GetType() {
		out[i] = tensor.FromProto(t)
	}
	return out, nil
}

// IntList returns a list(int) attribute.
func (a Attrs) IntList(name string) ([]int64, error) {
	l, err := a.List(name)
	if err != nil {
		return nil, err
	}
	return l.GetI(), nil
}

// FloatList returns a list(float) attribute.
func (a Attrs) FloatList(name string) ([]float32, error) {
	l, err := a.List(name)
	if err != nil {
		return nil, err
	}
	return l.GetF(), nil
}

// StrList returns a list(string) attribute.
func (a Attrs) StrList(name string) ([]string, error) {
	l, err := a.List(name)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(l.GetS()))
	for i, s := range l.GetS() {
		out[i] = string(s)
	}
	return out, nil
}

// FunctionRef names a library function and the attribute values to instantiate it with.
type FunctionRef struct {
	Name  string
	Attrs Attrs
}

// Func returns a function attribute.
func (a Attrs) Func(name string) (*FunctionRef, error) {
	v, err := attr[*attrpb.AttrValue_Func](a, name, "func")
	if err != nil {
		return nil, err
	}
	return &FunctionRef{Name: v.Func.GetName(), Attrs: v.Func.GetAttr()}, nil
}

// Funcs returns the functions named in the attributes, ordered by attribute name.
func (a Attrs) Funcs() []*FunctionRef {
	var refs []*FunctionRef
	for _, name := range slices.Sorted(maps.Keys(a)) {
		switch v := a[name].GetValue().(type) {
		case *attrpb.AttrValue_Func:
			refs = append(refs, &FunctionRef{Name: v.Func.GetName(), Attrs: v.Func.GetAttr()})
		case *attrpb.AttrValue_List:
			for _, f := range v.List.GetFunc() {
				refs = append(refs, &FunctionRef{Name: f.GetName(), Attrs: f.GetAttr()})
			}
		}
	}
	return refs
}

// Attributes of a QueueClose that say why its producer gives up: a message and an error code. The op does not declare them, so servers
// that do not know them ignore them.
const (
	CloseReasonAttr = "_close_reason"
	CloseCodeAttr   = "_close_code"
)

// OpenWaitAttr makes a QueueIsClosed reopen its queue if it is closed, and makes a dequeue that finds its queue closed and empty wait for
// it to be reopened. The value is how long the op waits, in milliseconds, for the queue to be drained or reopened. Servers that do not
// know the attribute ignore it: QueueIsClosed then reports that the queue is closed.
const OpenWaitAttr = "_open_wait_ms"
