package op

import (
	"slices"

	"github.com/troupe-run/troupe/graph/op/attr"
	"github.com/troupe-run/troupe/graph/shape"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Variable is a tensor that lives longer than a step, in the container of its device. It is a resource variable, the kind that
// TensorFlow's Python client makes. The operations added by its methods run on the variable's device, whatever device their scope
// requests. The bodies of functions may use it, but it must be created outside of them.
type Variable struct {
	handle      Output
	dtype       tensor.DType
	shape       shape.Shape
	initializer *Operation
}

// NewVariable returns a variable that its Initializer sets to initial. Its name is the scope's:
//
//	w := op.NewVariable(s.WithName("w"), op.Const(s, [][]float32{{1}, {2}}))
//
// Other sessions of the cluster find the variable under this name, unless attr.SharedName gives another. The shape is fixed if that of
// initial is known.
func NewVariable(s *Scope, initial Output, attrs ...attr.Attr) *Variable {
	v := VariableOf(s, initial.DType(), initial.Shape(), attrs...)
	if v.handle.Op != nil {
		v.initializer = v.Assign(s.within(v.handle.Op).WithName("Assign"), initial)
		s.graph.initialize(v.initializer)
	}
	return v
}

// VariableOf returns a variable without an initial value; another session or an Assign sets it.
func VariableOf(s *Scope, dtype tensor.DType, shape shape.Shape, attrs ...attr.Attr) *Variable {
	v := &Variable{dtype: dtype, shape: shape}
	if s.graph.body != nil {
		s.fail(status.New(status.InvalidArgument, "A variable cannot be made in the body of a function: make it outside, and use it there"))
	}
	s = s.named("Variable")
	if !slices.ContainsFunc(attrs, func(a attr.Attr) bool { return a.Name == "shared_name" }) {
		attrs = slices.Concat(attrs, []attr.Attr{attr.SharedName(s.opName)})
	}
	v.handle = VarHandleOp(s, dtype, shape, attrs...)
	if v.handle.Op != nil {
		s.graph.variables = append(s.graph.variables, v)
	}
	return v
}

// Name returns the name of the variable's node.
func (v *Variable) Name() string {
	if v.handle.Op == nil {
		return ""
	}
	return v.handle.Op.name
}

// Handle returns the variable's resource handle, for ops on variables.
func (v *Variable) Handle() Output { return v.handle }

// DType returns the type of the value.
func (v *Variable) DType() tensor.DType { return v.dtype }

// Shape returns what is known about the value's shape.
func (v *Variable) Shape() shape.Shape { return v.shape }

// Initializer returns the operation that sets the initial value, or nil if the variable has none.
func (v *Variable) Initializer() *Operation { return v.initializer }

// Initialized returns whether the variable has a value, a bool scalar.
func (v *Variable) Initialized(s *Scope) Output { return VarIsInitializedOp(v.at(s), v.handle) }

// Read returns the value at the time when the operation runs, which is after the operations that the scope depends on.
func (v *Variable) Read(s *Scope) Output { return ReadVariableOp(v.at(s), v.handle, v.dtype) }

// Assign sets the value.
func (v *Variable) Assign(s *Scope, value Output) *Operation {
	return AssignVariableOp(v.at(s), v.handle, v.fits(s, value))
}

// AssignAdd adds delta to the value.
func (v *Variable) AssignAdd(s *Scope, delta Output) *Operation {
	return AssignAddVariableOp(v.at(s), v.handle, v.fits(s, delta))
}

// AssignSub subtracts delta from the value.
func (v *Variable) AssignSub(s *Scope, delta Output) *Operation {
	return AssignSubVariableOp(v.at(s), v.handle, v.fits(s, delta))
}

// Gather returns the rows with the given indices, without reading the others.
func (v *Variable) Gather(s *Scope, indices Output) Output {
	return ResourceGather(v.at(s), v.handle, indices, v.dtype)
}

// ScatterAdd adds updates to the rows with the given indices. If an index occurs twice, both updates are added.
func (v *Variable) ScatterAdd(s *Scope, indices, updates Output) *Operation {
	return ResourceScatterAdd(v.at(s), v.handle, indices, updates)
}

// ScatterUpdate sets the rows with the given indices to updates.
func (v *Variable) ScatterUpdate(s *Scope, indices, updates Output) *Operation {
	return ResourceScatterUpdate(v.at(s), v.handle, indices, updates)
}

// fits returns value. If its type or shape is not the variable's, fits sets the graph's error.
func (v *Variable) fits(s *Scope, value Output) Output {
	if value.Op == nil || v.handle.Op == nil {
		return value
	}
	if value.DType().Base() != v.dtype {
		s.fail(status.InvalidArgumentf("Variable %s is of type %v, its new value %s of type %v", v.Name(), v.dtype, value.Name(), value.DType()))
	} else if _, err := v.shape.Merge(value.Shape()); err != nil {
		s.fail(status.InvalidArgumentf("Variable %s has the shape %v, its new value %s the shape %v", v.Name(), v.shape, value.Name(), value.Shape()))
	}
	return value
}

// at returns s for operations that run on the variable's device.
func (v *Variable) at(s *Scope) *Scope { return s.beside(v.handle.Op) }

// Variables returns the variables created in the graph, in order.
func (s *Scope) Variables() []*Variable { return slices.Clone(s.graph.variables) }

// Initialize adds an operation that runs the initializers of all variables and tables that the graph has so far.
func Initialize(s *Scope) *Operation { return Group(s, s.graph.initializers...) }

// initialize records an initializer for Initialize.
func (b *building) initialize(o *Operation) {
	if o != nil && b.body == nil {
		b.initializers = append(b.initializers, o)
	}
}
