package queues

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// unbounded is the capacity of a queue without a limit (QueueBase::kUnbounded).
const unbounded = math.MaxInt32

// Options configure a queue. They are the attributes of its op.
type Options struct {
	Kind Kind
	// Name is the queue's name in error messages.
	Name string
	// DTypes are the types of an element's components.
	DTypes []tensor.DType
	// Shapes are the components' shapes, one for each, and must be fully known. If there are none, elements may differ in shape and cannot
	// be dequeued in batches. A PaddingFIFO requires shapes; in them, a negative size is unknown.
	Shapes []tensor.Shape
	// Capacity is the maximum number of elements in the queue; negative means no limit.
	Capacity int
	// MinAfterDequeue is the number of elements that a RandomShuffle keeps back while it is open.
	MinAfterDequeue int
	// Random is the source of a RandomShuffle's random numbers. It is called for each element that leaves, never concurrently.
	Random func() uint32
	// Seed and Seed2 are the seeds requested for Random; if both are zero, any seed will do.
	Seed, Seed2 int64
	// Pool is the memory in which batches are assembled; tensor.Host when nil.
	Pool *tensor.Pool
}

// checked returns o with its defaults filled in, sharing nothing with the caller. Invalid options are INVALID_ARGUMENT.
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
		shapes := slices.Clone(o.Shapes)
		for i, s := range shapes {
			shapes[i] = zeroUnknown(s)
		}
		return o, status.InvalidArgumentf("Different number of component types.  Types: %s, Shapes: %s", typeList(o.DTypes), shapeList(shapes))
	}
	if err := o.checkKind(); err != nil {
		return o, err
	}
	for i, s := range o.Shapes {
		if o.Kind == PaddingFIFO {
			s = zeroUnknown(s)
		} else if partial(s) {
			return o, status.InvalidArgumentf("Shape %v is not fully defined", s)
		}
		if _, err := s.NumElements(); err != nil {
			return o, status.InvalidArgumentf("Component %d of queue '%s': %v", i, o.Name, err)
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

// checkKind checks the requirements of the kind.
func (o *Options) checkKind() error {
	switch {
	case o.Kind == PaddingFIFO && len(o.Shapes) == 0:
		return status.InvalidArgumentf("Shapes must be provided for all components, but received %d dtypes and 0 shapes.", len(o.DTypes))
	case o.Kind == RandomShuffle && (o.Random == nil || o.MinAfterDequeue < 0):
		return status.Internalf("Queue '%s' has no random numbers, or keeps %d elements back", o.Name, o.MinAfterDequeue)
	case o.Kind != RandomShuffle && o.MinAfterDequeue != 0:
		return status.Internalf("%v '%s' keeps no elements back", o.Kind, o.Name)
	case o.Kind == Priority && o.DTypes[0] != tensor.Int64:
		return status.InvalidArgumentf("PriorityQueue priority index component must be type int64, but dtype is: %v", o.DTypes[0])
	case o.Kind == Priority && len(o.Shapes) > 0 && len(o.Shapes[0]) > 0:
		return status.InvalidArgumentf("PriorityQueue priority index component must be a scalar, but shape is: %v", o.Shapes[0])
	}
	return nil
}

// matches returns nil if a queue made from o can serve a node of the given op that asks for these options under the same name. Otherwise it
// returns INVALID_ARGUMENT in TensorFlow's words (the MatchesNodeDef of each kind).
func (o *Options) matches(op string, asked Options) error {
	same := tensor.Shape.Equal
	if o.Kind == PaddingFIFO {
		same = mayBeSame
	}
	if asked.Capacity < 0 {
		asked.Capacity = unbounded
	}
	switch {
	case o.Kind != asked.Kind:
		return status.InvalidArgumentf("Expected %v, found %s", o.Kind, op)
	case o.Capacity != asked.Capacity:
		return status.InvalidArgumentf("Shared queue '%s' has capacity %d but requested capacity was %d",
			o.Name, o.Capacity, asked.Capacity)
	case o.MinAfterDequeue != asked.MinAfterDequeue:
		return status.InvalidArgumentf("Shared queue '%s' has min_after_dequeue %d but requested min_after_dequeue was %d.",
			o.Name, o.MinAfterDequeue, asked.MinAfterDequeue)
	case (asked.Seed != 0 || asked.Seed2 != 0) && (asked.Seed != o.Seed || asked.Seed2 != o.Seed2):
		return status.InvalidArgumentf("Shared queue '%s' has random seeds (%d, %d) but requested seeds are (%d, %d).",
			o.Name, o.Seed, o.Seed2, asked.Seed, asked.Seed2)
	case !slices.Equal(o.DTypes, asked.DTypes):
		return status.InvalidArgumentf("Shared queue '%s' has component types %s but requested component types were %s",
			o.Name, typeList(o.DTypes), typeList(asked.DTypes))
	case !slices.EqualFunc(o.Shapes, asked.Shapes, same):
		return status.InvalidArgumentf("Shared queue '%s' has component shapes %s but requested component shapes were %s",
			o.Name, shapeList(o.Shapes), shapeList(asked.Shapes))
	}
	return nil
}

// mayBeSame reports whether two shapes with unknown sizes can describe the same tensor.
func mayBeSame(a, b tensor.Shape) bool {
	return slices.EqualFunc(a, b, func(x, y int64) bool { return x < 0 || y < 0 || x == y })
}

// checkTypes checks the number and the types of the components of an element or a batch.
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
	if o.Kind == Priority && len(o.Shapes) == 0 && tuple[0].Rank() > 0 {
		return badPriority(tuple[0].Shape())
	}
	for i, want := range o.Shapes {
		if !tuple[i].Shape().Compatible(want) {
			return shapeMismatch(i, want, tuple[i].Shape())
		}
	}
	return nil
}

// checkMany checks a batch: its components must have the same number of rows, each row a valid element.
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
	if o.Kind == Priority && len(o.Shapes) == 0 && tuple[0].Rank() > 1 {
		return badPriority(tuple[0].Shape()[1:])
	}
	rows := tuple[0].Dim(0)
	for i, t := range tuple {
		if len(o.Shapes) > 0 {
			if want := rowsOf(o.Shapes[i], int64(rows)); !t.Shape().Compatible(want) {
				return shapeMismatch(i, want, t.Shape())
			}
		} else if t.Dim(0) != rows {
			return status.InvalidArgumentf("All input tensors must have the same size in the 0th dimension. Component %d has %d, and should have %d",
				i, t.Dim(0), rows)
		}
	}
	return nil
}

// maxLease is the longest duration of a lease.
const maxLease = 24 * time.Hour

// checkTerms checks a lease of n elements.
func (o *Options) checkTerms(n int, t Terms) error {
	switch {
	case n < 1:
		return status.InvalidArgumentf("A lease of %d elements of queue '%s': it must have at least one", n, o.Name)
	case t.Duration < time.Millisecond || t.Duration > maxLease:
		return status.InvalidArgumentf("A lease of elements of queue '%s' lasts %v, and must last from %v to %v", o.Name, t.Duration, time.Millisecond, maxLease)
	case t.MaxDeliveries < 0:
		return status.InvalidArgumentf("Elements of queue '%s' are delivered up to %d times", o.Name, t.MaxDeliveries)
	case t.DeadLetters != nil && t.MaxDeliveries == 0:
		return status.InvalidArgumentf("Queue '%s' has a queue for dead letters, '%s', and no limit of deliveries", o.Name, t.DeadLetters.options.Name)
	case len(o.Shapes) == 0:
		return status.InvalidArgumentf("Leases of elements of queue '%s' require the components to have specified shapes.", o.Name)
	}
	return nil
}

func badPriority(shape tensor.Shape) error {
	return status.InvalidArgumentf("Expected the priority element to be a scalar, but received shape: %v", shape)
}

func shapeMismatch(component int, want, got tensor.Shape) error {
	return status.InvalidArgumentf("Shape mismatch in tuple component %d. Expected %v, got %v", component, want, got)
}

// rowsOf returns the shape of n elements of shape s.
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
