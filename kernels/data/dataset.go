package data

import (
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// What a cardinality says where it is not the number of elements.
const (
	infinite = -1
	unknown  = -2
)

// Element is an element of a dataset: one tensor for each component. Its holder owns a reference to each.
type Element []*tensor.Tensor

// release gives the references up.
func (e Element) release() { kernels.ReleaseTensors(e) }

// retain is the element with references of its own.
func (e Element) retain() Element {
	for _, t := range e {
		t.Retain()
	}
	return append(Element(nil), e...)
}

// Spec is what is known about each component of the elements.
type Spec struct {
	Types  []tensor.DType
	Shapes []shapes.PartialShape
}

// Dataset is what a scalar variant holds: the description of a pipeline. It does not change. Its memory is counted by
// references, since it holds tensors.
type Dataset struct {
	refs atomic.Int32
	kind
	// Op is the op that made it.
	Op string
	Spec
	origin
	inputs  []*Dataset
	tensors []*tensor.Tensor
	nested  int
}

// kind is what the datasets of an op do.
type kind interface {
	// cardinality is the number of elements, infinite or unknown.
	cardinality() int64
	// open makes an iterator that stands before the first element.
	open(e *Env) (Iterator, error)
}

// indexed kinds give the element at an index without those before.
type indexed interface {
	// at gives the element at index i, which is in the range of the cardinality.
	at(c *Call, i int64) (Element, error)
}

// Retain adds a reference.
func (d *Dataset) Retain() { d.refs.Add(1) }

// Release drops a reference, after the last one those that the dataset has.
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
	}
}

// maxNesting bounds how many datasets may be made of one another, since opening an iterator takes stack for each.
const maxNesting = 1000

// shufflable tells why a dataset cannot be shuffled as a whole; nil where it can. Its kind may have a rule of its own;
// else it needs access by index, and so do the datasets that it is made of. The texts are TensorFlow's.
func (d *Dataset) shufflable() error {
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

// notIndexed is the error for datasets that cannot be shuffled as a whole.
func notIndexed(op string) error {
	return status.Errorf(status.FailedPrecondition, "%s does not support random access.", op)
}

// at is the element at an index.
func (d *Dataset) at(c *Call, i int64) (Element, error) {
	k, ok := d.kind.(indexed)
	if !ok {
		return nil, status.Unimplementedf("Random access is not implemented for this dataset.")
	}
	_, any := d.kind.(interface{ anyIndex() })
	switch n := d.cardinality(); {
	case any && i >= 0 && (n < 0 || i < n):
	case n == infinite:
		return nil, status.Errorf(status.FailedPrecondition, "Dataset of type %s has infinite cardinality, which does not support random access.", d.Op)
	case n == unknown:
		return nil, status.Errorf(status.FailedPrecondition, "Dataset of type %s has unknown cardinality, which does not support random access.", d.Op)
	case i < 0 || i >= n:
		return nil, outOfRange(n, i)
	}
	return k.at(c, i)
}

func outOfRange(n, i int64) error {
	return status.Errorf(status.OutOfRange, "Index out of range [0, %d):%d", n, i)
}

// datasetIn is the dataset in a scalar variant, of which the caller gets a reference. One that came from elsewhere is
// made here.
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

// checkElement compares an element with what was declared of it.
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

// check compares what is declared of the elements of a dataset with what is declared of those of its iterator.
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
