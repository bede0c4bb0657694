package queues

import (
	"math"
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// unbounded is the capacity of a queue without one (QueueBase::kUnbounded).
const unbounded = math.MaxInt32

// Options are what a queue is made from: the attributes of its op.
type Options struct {
	// Name is what error messages call the queue.
	Name string
	// DTypes are the types of an element's components.
	DTypes []tensor.DType
	// Shapes are the components' shapes, fully known, one for each; none when they were not
	// specified, and then elements may differ in shape and cannot be dequeued in batches.
	Shapes []tensor.Shape
	// Capacity is the most elements that the queue holds; negative for no limit.
	Capacity int
	// Pool is where batches are put together; tensor.Host when nil.
	Pool *tensor.Pool
}

// checked is o with its defaults filled in and nothing shared with the caller, or
// INVALID_ARGUMENT.
func (o Options) checked() (Options, error) {
	if len(o.DTypes) == 0 {
		return o, status.InvalidArgumentf("Empty component types for queue %s", o.Name)
	}
	for i, d := range o.DTypes {
		if !d.Valid() || d.IsRef() {
			return o, status.InvalidArgumentf("Component %d of queue '%s' has type %v, which no element can have", i, o.Name, d)
		}
	}
	if len(o.Shapes) != 0 && len(o.Shapes) != len(o.DTypes) {
		return o, status.InvalidArgumentf("Different number of component types.  Types: %s, Shapes: %s", typeList(o.DTypes), shapeList(o.Shapes))
	}
	for i, s := range o.Shapes {
		if _, err := s.NumElements(); err != nil {
			return o, status.InvalidArgumentf("Component %d of queue '%s' needs a fully defined shape: %v", i, o.Name, err)
		}
	}
	if o.Capacity > unbounded {
		return o, status.InvalidArgumentf("Queue '%s' has capacity %d, which is out of range for an int32", o.Name, o.Capacity)
	}
	if o.Capacity < 0 {
		o.Capacity = unbounded
	}
	if o.Pool == nil {
		o.Pool = tensor.Host
	}
	o.DTypes = slices.Clone(o.DTypes)
	shapes := make([]tensor.Shape, len(o.Shapes))
	for i, s := range o.Shapes {
		shapes[i] = s.Clone()
	}
	o.Shapes = shapes
	return o, nil
}

// matches is nil where a queue made from o may serve a node with the options asked for, which
// shares its name; else INVALID_ARGUMENT in TensorFlow's words (QueueBase::MatchesNodeDef).
func (o *Options) matches(asked Options) error {
	if asked.Capacity < 0 {
		asked.Capacity = unbounded
	}
	switch {
	case o.Capacity != asked.Capacity:
		return status.InvalidArgumentf("Shared queue '%s' has capacity %d but requested capacity was %d",
			o.Name, o.Capacity, asked.Capacity)
	case !slices.Equal(o.DTypes, asked.DTypes):
		return status.InvalidArgumentf("Shared queue '%s' has component types %s but requested component types were %s",
			o.Name, typeList(o.DTypes), typeList(asked.DTypes))
	case !slices.EqualFunc(o.Shapes, asked.Shapes, tensor.Shape.Equal):
		return status.InvalidArgumentf("Shared queue '%s' has component shapes %s but requested component shapes were %s",
			o.Name, shapeList(o.Shapes), shapeList(asked.Shapes))
	}
	return nil
}

// checkTypes checks an element's, or a batch's, number of components and their types.
func (o *Options) checkTypes(tuple []*tensor.Tensor) error {
	if len(tuple) != len(o.DTypes) {
		return status.InvalidArgumentf("Wrong number of components in tuple. Expected %d, got %d", len(o.DTypes), len(tuple))
	}
	for i, t := range tuple {
		if t.DType() != o.DTypes[i] {
			return status.InvalidArgumentf("Type mismatch in tuple component %d. Expected %v, got %v", i, o.DTypes[i], t.DType())
		}
	}
	return nil
}

// checkOne checks an element.
func (o *Options) checkOne(tuple []*tensor.Tensor) error {
	if err := o.checkTypes(tuple); err != nil {
		return err
	}
	for i, want := range o.Shapes {
		if !tuple[i].Shape().Equal(want) {
			return shapeMismatch(i, want, tuple[i].Shape())
		}
	}
	return nil
}

// checkMany checks a batch: components with as many rows each, every row an element's.
func (o *Options) checkMany(tuple []*tensor.Tensor) error {
	if err := o.checkTypes(tuple); err != nil {
		return err
	}
	for i, t := range tuple {
		if t.Rank() > 0 {
			continue
		}
		if len(o.Shapes) > 0 {
			return shapeMismatch(i, rowsOf(o.Shapes[i], -1), t.Shape())
		}
		return status.InvalidArgumentf("Tuple component %d of a batch must have at least one dimension, got shape []", i)
	}
	rows := tuple[0].Dim(0)
	for i, t := range tuple {
		if len(o.Shapes) > 0 {
			if want := rowsOf(o.Shapes[i], int64(rows)); !t.Shape().Equal(want) {
				return shapeMismatch(i, want, t.Shape())
			}
		} else if t.Dim(0) != rows {
			return status.InvalidArgumentf("All input tensors must have the same size in the 0th dimension. Component %d has %d, and should have %d",
				i, t.Dim(0), rows)
		}
	}
	return nil
}

func shapeMismatch(component int, want, got tensor.Shape) error {
	return status.InvalidArgumentf("Shape mismatch in tuple component %d. Expected %v, got %v", component, want, got)
}

// rowsOf is the shape of n elements of that shape.
func rowsOf(s tensor.Shape, n int64) tensor.Shape {
	return append(append(make(tensor.Shape, 0, len(s)+1), n), s...)
}

func typeList(dtypes []tensor.DType) string {
	names := make([]string, len(dtypes))
	for i, d := range dtypes {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}

func shapeList(shapes []tensor.Shape) string {
	names := make([]string, len(shapes))
	for i, s := range shapes {
		names[i] = s.String()
	}
	return "[" + strings.Join(names, ", ") + "]"
}
