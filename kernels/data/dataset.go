package data

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// Cardinalities that are not a number of elements.
const (
	infinite = -1
	unknown  = -2
)

// Element is an element of a dataset: one tensor for each component. Its holder owns a reference to each.
type Element []*tensor.Tensor

// release drops the references.
func (e Element) release() { kernels.ReleaseTensors(e) }

// retain returns the element with new references.
func (e Element) retain() Element {
	for _, t := range e {
		t.Retain()
	}
	return append(Element(nil), e...)
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
	kind
	// Op is the op that created it.
	Op string
	// number distinguishes datasets of an op; zero for datasets that are part of another one.
	number int64
	Spec
	origin
	inputs  []*Dataset
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

// cardinality returns the number of elements, infinite or unknown.
func (d *Dataset) cardinality(q *query) int64 {
	if q == nil {
		return d.size.of(func() int64 { return d.kind.cardinality(nil) })
	}
	return q.of(d)
}

// kind is the behaviour of an op's datasets.
type kind interface {
	// cardinality returns the number of elements, infinite or unknown. A nil query asks for what is known without work.
	cardinality(q *query) int64
	// open creates an iterator, positioned before the first element.
	open(e *Env) (Iterator, error)
}

// indexed kinds can return the element at an index without computing those before it.
type indexed interface {
	// at returns the element at index i, which inRange has checked, or io.EOF if the elements end before it.
	at(c *Call, i int64) (Element, error)
}

// Retain adds a reference.
func (d *Dataset) Retain() { d.refs.Add(1) }

// Release drops a reference. The last one releases what the dataset holds.
func (d *Dataset) Release() {
	if d.refs.Add(-1) == 0 {
		if k, ok := d.kind.(interface{ release() }); ok {
			k.release()
		}
		kernels.ReleaseTensors(d.tensors)
		kernels.ReleaseTensors(d.origin.inputs)
		for _, in := range d.inputs {
			in.Release()
		}
		if d.pool != nil {
			d.pool.Unreserve(datasetBytes)
		}
	}
}

// maxNesting bounds the length of a chain of input datasets, since opening an iterator takes stack for each.
const maxNesting = 1000

// Nested returns the nesting depth of variants in what the dataset holds.
func (d *Dataset) Nested() int { return d.held }

// holds records the nesting depth of variants in a tensor that the dataset holds. For input datasets, see nested.
func (d *Dataset) holds(t *tensor.Tensor) {
	if t.DType() != tensor.Variant {
		return
	}
	if in, err := datasetAt(t); err == nil && slices.Contains(d.inputs, in) {
		d.held = max(d.held, in.held)
	} else {
		d.held = max(d.held, variant.Nesting(t))
	}
}

// shufflable returns why a dataset cannot be shuffled as a whole; nil if it can. Its kind may have a rule of its own;
// otherwise it needs access by index, and so do its inputs. The texts are TensorFlow's.
func (d *Dataset) shufflable() error { return d.whole.of(d.findShufflable) }

func (d *Dataset) findShufflable() error {
	if k, ok := d.kind.(interface{ shufflable() error }); ok {
		return k.shufflable()
	}
	if _, ok := d.kind.(indexed); !ok {
		return notIndexed(d.Op)
	}
	for _, in := range d.inputs {
		if err := in.shufflable(); err != nil {
			return err
		}
	}
	return nil
}

// notIndexed returns the error for datasets that cannot be shuffled as a whole.
func notIndexed(op string) error {
	return status.Errorf(status.FailedPrecondition, "%s does not support random access.", op)
}

// at returns the element at an index.
func (d *Dataset) at(c *Call, i int64) (Element, error) {
	k, ok := d.kind.(indexed)
	if !ok {
		return nil, status.Unimplementedf("Random access is not implemented for dataset %s", d.Text())
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := d.inRange(c, i); err != nil {
		return nil, err
	}
	e, err := k.at(c, i)
	if err == nil && len(d.Types) > 0 && len(e) != len(d.Types) {
		e.release()
		// A dataset that is zipped with itself repeatedly would have elements with more components than fit in memory.
		return nil, status.InvalidArgumentf("An element of %s has %d components, and its output_types lists %d.", d.Op, len(e), len(d.Types))
	}
	return e, err
}

// inRange rejects an index that the dataset does not have. A program that requests an element needs a known number of
// elements, unless the kind has a rule of its own. In a global shuffle, the shuffled dataset knows the number of
// elements. Its inputs need not know theirs: they end where they end.
func (d *Dataset) inRange(c *Call, i int64) error {
	n := d.cardinality(accessBy(c))
	if !c.lookup {
		if i < 0 || n >= 0 && i >= n { // a negative one has overflowed
			return io.EOF
		}
		return nil
	}
	if k, ok := d.kind.(interface{ inRange(n, i int64) error }); ok {
		return k.inRange(n, i)
	}
	switch {
	case n == infinite:
		return status.Errorf(status.FailedPrecondition, "Dataset of type %s has infinite cardinality, which does not support random access.", d.Text())
	case n == unknown:
		return status.Errorf(status.FailedPrecondition, "Dataset of type %s has unknown cardinality, which does not support random access.", d.Text())
	case i < 0 || i >= n:
		return outOfRange(n, i)
	}
	return nil
}

func outOfRange(n, i int64) error {
	return status.Errorf(status.OutOfRange, "Index out of range [0, %d):%d", n, i)
}

// TypeName returns TensorFlow's type name of variants that hold datasets.
func (d *Dataset) TypeName() string { return "tensorflow::DatasetVariantWrapper" }

// Text describes the dataset for printed variants and errors, with the arguments that TensorFlow names.
func (d *Dataset) Text() string {
	arguments := ""
	if k, ok := d.kind.(interface{ arguments() string }); ok {
		arguments = "(" + k.arguments() + ")"
	}
	return d.Op + "Op" + arguments + "::Dataset"
}

// datasetIn returns the dataset in a scalar variant, with a reference for the caller. A dataset that came from another process
// is created here.
func datasetIn(p place, t *tensor.Tensor) (*Dataset, error) {
	d, err := datasetAt(t)
	if err != nil {
		return nil, err
	}
	if a, ok := d.kind.(absent); ok {
		return datasetOfGraph(p, a.graph)
	}
	d.Retain()
	return d, nil
}

func datasetAt(t *tensor.Tensor) (*Dataset, error) {
	if t.DType() != tensor.Variant || t.Rank() != 0 {
		return nil, status.InvalidArgumentf("Dataset tensor must be a scalar of dtype DT_VARIANT.")
	}
	d, ok := t.Variants()[0].(*Dataset)
	if !ok {
		return nil, status.InvalidArgumentf("Tensor must be a Dataset object.")
	}
	return d, nil
}

// checkElement compares an element with its declaration.
func (s Spec) checkElement(e Element) error {
	if len(s.Types) != len(e) {
		return status.InvalidArgumentf("Number of components does not match: expected %d types but got %d.", len(s.Types), len(e))
	}
	for i, t := range e {
		if t.DType() != s.Types[i] {
			return typeMismatch(i, s.Types[i], t.DType())
		}
	}
	for i, t := range e {
		if i < len(s.Shapes) && !s.Shapes[i].Admits(t.Shape()) {
			return status.InvalidArgumentf("Incompatible shapes at component %d: expected %v but got %v.", i, s.Shapes[i], t.Shape())
		}
	}
	return nil
}

func typeMismatch(i int, want, got tensor.DType) error {
	return status.InvalidArgumentf("Data type mismatch at component %d: expected %v but got %v.", i, want, got)
}

// check compares a dataset's declared elements with those of its iterator.
func (s Spec) check(got Spec) error {
	if len(s.Types) != len(got.Types) {
		return status.InvalidArgumentf("Number of components does not match: expected %d types but got %d.", len(s.Types), len(got.Types))
	}
	for i, t := range got.Types {
		if t != s.Types[i] {
			return typeMismatch(i, s.Types[i], t)
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
