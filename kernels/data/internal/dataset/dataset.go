package dataset

import (
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// Cardinalities that are not a number of elements.
const (
	Infinite = -1
	Unknown  = -2
)

// Element is an element of a dataset: one tensor for each component. Its holder owns a reference to each.
type Element []*tensor.Tensor

// Release drops the references.
func (e Element) Release() { kernels.ReleaseTensors(e) }

// Retain returns the element with new references.
func (e Element) Retain() Element {
	for _, t := range e {
		t.Retain()
	}
	return append(Element(nil), e...)
}

// ReleaseAll drops the references of several elements.
func ReleaseAll(list []Element) {
	for _, e := range list {
		e.Release()
	}
}

// Bytes returns the size of an element in memory.
func (e Element) Bytes() int64 {
	n := int64(0)
	for _, t := range e {
		n += int64(t.ByteSize())
	}
	return n
}

// Spec describes each component of the elements.
type Spec struct {
	Types  []tensor.DType
	Shapes []shapes.PartialShape
}

// Dataset is the description of a pipeline, held by a scalar variant. It is immutable, and reference counted,
// since it holds tensors.
type Dataset struct {
	refs atomic.Int32
	Kind
	// Op is the op that created it.
	Op string
	// number distinguishes datasets of an op; zero for datasets that are part of another one.
	number int64
	Spec
	Origin
	// Inputs are the datasets that it iterates over.
	Inputs  []*Dataset
	tensors []*tensor.Tensor
	nested  int          // the longest chain of datasets that are inputs of one another
	held    int          // the nesting depth of variants in the tensors, including those of the inputs
	pool    *tensor.Pool // the pool that counts it; nil for a part of another dataset

	// A dataset may be reachable on many paths through its consumers. Results that depend on all of its inputs are cached, so that
	// computing them takes time proportional to the number of datasets, not of paths.
	size  remembered[int64]
	whole remembered[error]
}

// remembered is a value that is computed once.
type remembered[T any] struct {
	once  sync.Once
	value T
}

func (r *remembered[T]) of(compute func() T) T {
	r.once.Do(func() { r.value = compute() })
	return r.value
}

// NewPart returns a dataset that is part of another one: it has no node of its own. It takes over its inputs.
func NewPart(k Kind, op string, spec Spec, inputs ...*Dataset) *Dataset {
	d := &Dataset{Kind: k, Op: op, Spec: spec, Inputs: inputs}
	d.refs.Store(1)
	return d
}

// FromNode returns a dataset that a pipeline makes while it runs: the one that a node would make of the given inputs. It takes over the
// inputs, and the datasets among them that it iterates over.
func FromNode(k Kind, node *graph.Node, spec Spec, inputs []*tensor.Tensor, datasets ...*Dataset) *Dataset {
	d := NewPart(k, node.Op, spec, datasets...)
	d.Origin = Origin{node, inputs}
	for _, t := range inputs {
		d.holds(t)
	}
	return d
}

// Cardinality returns the number of elements, Infinite or Unknown.
func (d *Dataset) Cardinality(q *Query) int64 {
	if q == nil {
		return d.size.of(func() int64 { return d.Kind.Cardinality(nil) })
	}
	return q.of(d)
}

// Retain adds a reference.
func (d *Dataset) Retain() { d.refs.Add(1) }

// Release drops a reference. The last one releases what the dataset holds.
func (d *Dataset) Release() {
	if d.refs.Add(-1) == 0 {
		if k, ok := d.Kind.(Dropper); ok {
			k.Drop()
		}
		kernels.ReleaseTensors(d.tensors)
		kernels.ReleaseTensors(d.Origin.Inputs)
		for _, in := range d.Inputs {
			in.Release()
		}
		if d.pool != nil {
			d.pool.Unreserve(datasetBytes)
		}
	}
}

// MaxNesting bounds the length of a chain of input datasets, since opening an iterator takes stack for each.
const MaxNesting = 1000

// Nested returns the nesting depth of variants in what the dataset holds.
func (d *Dataset) Nested() int { return d.held }

// holds records the nesting depth of variants in a tensor that the dataset holds. For input datasets, see nested.
func (d *Dataset) holds(t *tensor.Tensor) {
	if t.DType() != tensor.Variant {
		return
	}
	if in, err := InTensor(t); err == nil && slices.Contains(d.Inputs, in) {
		d.held = max(d.held, in.held)
	} else {
		d.held = max(d.held, variant.Nesting(t))
	}
}

// Shufflable returns why a dataset cannot be shuffled as a whole; nil if it can. Its kind may have a rule of its own;
// otherwise it needs access by index, and so do its inputs. The texts are TensorFlow's.
func (d *Dataset) Shufflable() error { return d.whole.of(d.findShufflable) }

func (d *Dataset) findShufflable() error {
	if k, ok := d.Kind.(Shuffler); ok {
		return k.Shufflable()
	}
	if _, ok := d.Kind.(Indexed); !ok {
		return NotIndexed(d.Op)
	}
	for _, in := range d.Inputs {
		if err := in.Shufflable(); err != nil {
			return err
		}
	}
	return nil
}

// NotIndexed returns the error for datasets that cannot be shuffled as a whole.
func NotIndexed(op string) error {
	return status.Errorf(status.FailedPrecondition, "%s does not support random access.", op)
}

// At returns the element at an index.
func (d *Dataset) At(c *Call, i int64) (Element, error) {
	k, ok := d.Kind.(Indexed)
	if !ok {
		return nil, status.Unimplementedf("Random access is not implemented for dataset %s", d.Text())
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := d.inRange(c, i); err != nil {
		return nil, err
	}
	e, err := k.At(c, i)
	if err == nil && len(d.Types) > 0 && len(e) != len(d.Types) {
		e.Release()
		// A dataset that is zipped with itself repeatedly would have elements with more components than fit in memory.
		return nil, status.InvalidArgumentf("An element of %s has %d components, and its output_types lists %d.", d.Op, len(e), len(d.Types))
	}
	return e, err
}

// inRange rejects an index that the dataset does not have. A program that requests an element needs a known number of
// elements, unless the kind has a rule of its own. In a global shuffle, the shuffled dataset knows the number of
// elements. Its inputs need not know theirs: they end where they end.
func (d *Dataset) inRange(c *Call, i int64) error {
	n := d.Cardinality(c.Indexing())
	if !c.Lookup {
		if i < 0 || n >= 0 && i >= n { // a negative one has overflowed
			return io.EOF
		}
		return nil
	}
	if k, ok := d.Kind.(IndexChecker); ok {
		return k.InRange(n, i)
	}
	switch {
	case n == Infinite:
		return status.Errorf(status.FailedPrecondition, "Dataset of type %s has infinite cardinality, which does not support random access.", d.Text())
	case n == Unknown:
		return status.Errorf(status.FailedPrecondition, "Dataset of type %s has unknown cardinality, which does not support random access.", d.Text())
	case i < 0 || i >= n:
		return OutOfRange(n, i)
	}
	return nil
}

// OutOfRange returns the error for an index that a dataset of n elements does not have.
func OutOfRange(n, i int64) error {
	return status.Errorf(status.OutOfRange, "Index out of range [0, %d):%d", n, i)
}

// TypeName returns TensorFlow's type name of variants that hold datasets.
func (d *Dataset) TypeName() string { return "tensorflow::DatasetVariantWrapper" }

// Text describes the dataset for printed variants and errors, with the arguments that TensorFlow names.
func (d *Dataset) Text() string {
	arguments := ""
	if k, ok := d.Kind.(Described); ok {
		arguments = "(" + k.Arguments() + ")"
	}
	return d.Op + "Op" + arguments + "::Dataset"
}

// FromTensor returns the dataset in a scalar variant, with a reference for the caller. A dataset that came from another process
// is created here.
func FromTensor(p Place, t *tensor.Tensor) (*Dataset, error) {
	d, err := InTensor(t)
	if err != nil {
		return nil, err
	}
	if a, ok := d.Kind.(absent); ok {
		return FromGraph(p, a.graph)
	}
	d.Retain()
	return d, nil
}

// InTensor returns the dataset in a scalar variant, which keeps the reference.
func InTensor(t *tensor.Tensor) (*Dataset, error) {
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Dataset tensor must be a scalar of dtype DT_VARIANT.")
	}
	d, ok := t.Variants()[0].(*Dataset)
	if !ok {
		return nil, status.InvalidArgumentf("Tensor must be a Dataset object.")
	}
	return d, nil
}

// ToTensor returns a scalar with a dataset, which it takes over.
func ToTensor(d *Dataset) *tensor.Tensor {
	return tensor.FromVariants(nil, d)
}

// CheckElement compares an element with its declaration.
func (s Spec) CheckElement(e Element) error {
	if len(s.Types) != len(e) {
		return status.InvalidArgumentf("Number of components does not match: expected %d types but got %d.", len(s.Types), len(e))
	}
	for i, t := range e {
		if t.DType() != s.Types[i] {
			return TypeMismatch(i, s.Types[i], t.DType())
		}
	}
	for i, t := range e {
		if i < len(s.Shapes) && !s.Shapes[i].Admits(t.Shape()) {
			return status.InvalidArgumentf("Incompatible shapes at component %d: expected %v but got %v.", i, s.Shapes[i], t.Shape())
		}
	}
	return nil
}

// TypeMismatch returns the error for component i of an element.
func TypeMismatch(i int, want, got tensor.DType) error {
	return status.InvalidArgumentf("Data type mismatch at component %d: expected %v but got %v.", i, want, got)
}

// Check compares a dataset's declared elements with those of its iterator.
func (s Spec) Check(got Spec) error {
	if len(s.Types) != len(got.Types) {
		return status.InvalidArgumentf("Number of components does not match: expected %d types but got %d.", len(s.Types), len(got.Types))
	}
	for i, t := range got.Types {
		if t != s.Types[i] {
			return TypeMismatch(i, s.Types[i], t)
		}
	}
	if len(s.Shapes) != len(got.Shapes) {
		return status.InvalidArgumentf("Number of components does not match: expected %d shapes but got %d.", len(s.Shapes), len(got.Shapes))
	}
	for i, p := range got.Shapes {
		if _, err := s.Shapes[i].Merge(p); err != nil {
			return status.InvalidArgumentf("Incompatible shapes at component %d: expected %v but got %v.", i, s.Shapes[i], p)
		}
	}
	return nil
}

// MatchesAnyVersion reports whether name is prefix, or a later version of it, such as BatchDatasetV2 of BatchDataset.
func MatchesAnyVersion(prefix, name string) bool {
	version, ok := strings.CutPrefix(name, prefix)
	if !ok || version == "" {
		return ok
	}
	return version[0] == 'V' && strings.Trim(version[1:], "0123456789") == ""
}

// Previous returns the last of the datasets that this one was made of; nil for a source.
func (d *Dataset) Previous() *Dataset {
	var last *Dataset
	for _, t := range d.Origin.Inputs {
		if t.DType() == tensor.Variant && t.Rank() == 0 {
			if p, ok := t.Variants()[0].(*Dataset); ok {
				last = p
			}
		}
	}
	return last
}
