package batching

import (
	"fmt"
	"io"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/mapping"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// batch stacks a fixed number of elements.
type batch struct {
	input *dataset.Dataset
	size  int64
	drops bool // drops the last elements if they do not fill a batch
	whole bool // a failed element counts as part of its batch, which fails
}

// newBatch parses BatchDatasetV2, newBatchKeeping the first version, which keeps the last elements.
func newBatch(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return batchOf(in, in.Bool(2, "drop_remainder")) }
}

func newBatchKeeping(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return batchOf(in, false) }
}

// batchOf returns the kind of a plain batch. TensorFlow fuses a batch with the map before it; elements that fail in the map then count.
func batchOf(in *dataset.Inputs, drops bool) *batch {
	k := &batch{input: in.Dataset(0), size: batchSizeAt(in, 1), drops: drops}
	k.whole = mapping.IsMap(k.input.Kind)
	return k
}

func batchSizeAt(in *dataset.Inputs, i int) int64 {
	return in.Positive(in.Int(i, "batch_size"), "Batch size")
}

// newParallelBatch returns a batch that is computed ahead. TensorFlow computes several batches concurrently, in the order of the elements;
// most of the time goes into the elements.
func newParallelBatch(s *dataset.Settings) dataset.Maker {
	mapping.NewOrdering(s, "deterministic")
	return func(in *dataset.Inputs) dataset.Kind {
		k := batchOf(in, in.Bool(3, "drop_remainder"))
		return mapping.Prefetch(in, in.Within(k, "BatchDatasetV2"), in.Int(2, "num_parallel_calls"))
	}
}

// newMapAndBatch parses a parallel map whose results are batched.
func newMapAndBatch(s *dataset.Settings) dataset.Maker {
	f, n := s.Function("f"), len(s.TypeList("Targuments"))
	return func(in *dataset.Inputs) dataset.Kind {
		m := mapping.Parallel(in, in.Dataset(0), in.Function(f, 1, 1+n), in.Int(2+n, "num_parallel_calls"))
		return &batch{in.Within(m, "ParallelMapDataset"), batchSizeAt(in, 1+n), in.Bool(3+n, "drop_remainder"), true}
	}
}

// batches returns how many batches n elements fill.
func batches(n, size int64, drops bool) int64 {
	if n < 0 {
		return n
	}
	whole := n / size
	if n%size != 0 && !drops {
		whole++
	}
	return whole
}

func (k *batch) Cardinality(q *dataset.Query) int64 {
	return batches(k.input.Cardinality(q), k.size, k.drops)
}

func (k *batch) Arguments() string { return fmt.Sprint(k.size) }

func (k *batch) Shufflable() error {
	if !k.drops {
		return status.Errorf(status.FailedPrecondition, "BatchDatasetV2 does not support global shuffling with `drop_remainder=False`.")
	}
	return k.input.Shufflable()
}

func (k *batch) InRange(n, i int64) error {
	if i < 0 || i >= n {
		return dataset.OutOfRange(n, i)
	}
	return nil
}

func (k *batch) At(c *dataset.Call, i int64) (dataset.Element, error) {
	if i > math.MaxInt64/k.size-1 {
		return nil, io.EOF // no input has n elements
	}
	end := (i + 1) * k.size
	if n := k.input.Cardinality(c.Indexing()); n >= 0 {
		end = min(end, n)
	}
	var list []dataset.Element
	defer func() { dataset.ReleaseAll(list) }()
	for j := i * k.size; j < end; j++ {
		e, err := k.input.At(c, j)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return stack(c, list)
}

func (k *batch) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &batching{o, k} })
}

type batching struct {
	dataset.Over
	of *batch
}

func (it *batching) Next(c *dataset.Call) (dataset.Element, error) {
	list, err := nextOf(c, it.Input, it.of.size, it.of.whole)
	defer func() { dataset.ReleaseAll(list) }()
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 || it.of.drops && int64(len(list)) < it.of.size:
		return nil, io.EOF
	}
	return stack(c, list)
}

// nextOf returns up to n elements; fewer at the end. whole means that it consumes n of them even if one fails.
func nextOf(c *dataset.Call, input dataset.Iterator, n int64, whole bool) (list []dataset.Element, failed error) {
	for taken := int64(0); taken < n; taken++ {
		e, err := input.Next(c)
		if dataset.AtEnd(err) {
			break
		}
		switch {
		case err == nil && failed == nil:
			list = append(list, e)
			continue
		case err == nil:
			e.Release()
			continue
		case failed == nil:
			failed = err
			dataset.ReleaseAll(list)
			list = nil
		}
		if !whole || c.Err() != nil || status.CodeOf(err) == status.ResourceExhausted { // it would fail again and again
			break
		}
	}
	return list, failed
}

// stack stacks several elements along a new first dimension. It borrows them.
func stack(c *dataset.Call, list []dataset.Element) (dataset.Element, error) {
	first := list[0]
	out := make(dataset.Element, 0, len(first))
	for i, t := range first {
		for j, e := range list {
			if len(e) != len(first) {
				out.Release()
				return nil, status.InvalidArgumentf("Cannot batch elements of %d and %d components", len(first), len(e))
			}
			if e[i].DType() != t.DType() {
				out.Release()
				return nil, status.InvalidArgumentf("Cannot batch tensors with different types in component %d. First element had type %v and element %d had type %v.", i, t.DType(), j, e[i].DType())
			}
			if !e[i].Shape().Equal(t.Shape()) {
				out.Release()
				return nil, status.InvalidArgumentf("Cannot batch tensors with different shapes in component %d. First element had shape %v and element %d had shape %v.", i, t.Shape(), j, e[i].Shape())
			}
		}
		b, err := tensor.New(c.Pool(), t.DType(), append(tensor.Shape{int64(len(list))}, t.Shape()...))
		if err != nil {
			out.Release()
			return nil, err
		}
		n := t.Len()
		for j, e := range list {
			b.CopyElements(j*n, e[i], 0, n)
		}
		out = append(out, b)
	}
	return out, nil
}

// paddedBatch stacks elements of different sizes, which it pads.
type paddedBatch struct {
	input  *dataset.Dataset
	size   int64
	drops  bool
	shapes []shapes.PartialShape
	values dataset.Element
}

func newPaddedBatch(dropping bool) func(*dataset.Settings) dataset.Maker {
	return func(s *dataset.Settings) dataset.Maker {
		n := int(s.Int("N"))
		if types := s.TypeList("Toutput_types"); len(types) != n {
			s.Failf("There are %d padded shapes, and %d padding values", n, len(types))
		}
		return func(in *dataset.Inputs) dataset.Kind {
			k := &paddedBatch{input: in.Dataset(0), size: batchSizeAt(in, 1)}
			for i := range n {
				k.shapes = append(k.shapes, paddedShape(in, 2+i))
			}
			k.values = in.Rest(2+n, 2+2*n)
			if dropping {
				k.drops = in.Bool(2+2*n, "drop_remainder")
			}
			if in.Err == nil {
				k.check(in, n)
			}
			return k
		}
	}
}

// paddedShape reads a shape in which -1 is an unknown size.
func paddedShape(in *dataset.Inputs, i int) shapes.PartialShape {
	if t := in.Context.Input(i); t.DType() != tensor.Int64 || t.Rank() != 1 {
		in.Failf("All padded shapes must be vectors")
		return shapes.PartialShape{}
	}
	p, err := shapes.PartialShapeInput(in.Context, i)
	if err != nil {
		in.Fail(err)
	}
	return p
}

func (k *paddedBatch) check(in *dataset.Inputs, n int) {
	if len(k.input.Types) != n {
		in.Failf("Number of padded shapes (%d) must match the number of components in the input dataset's elements (%d)", n, len(k.input.Types))
		return
	}
	for i, v := range k.values {
		switch {
		case v.Rank() != 0:
			in.Failf("All padding values must be scalars")
		case v.DType() != k.input.Types[i]:
			in.Failf("Mismatched type between padding value %d and input dataset's component %d: %v vs. %v", i, i, v.DType(), k.input.Types[i])
		}
	}
}

func (k *paddedBatch) Cardinality(q *dataset.Query) int64 {
	return batches(k.input.Cardinality(q), k.size, k.drops)
}

func (k *paddedBatch) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &paddedBatching{o, k} })
}

type paddedBatching struct {
	dataset.Over
	of *paddedBatch
}

func (it *paddedBatching) Next(c *dataset.Call) (dataset.Element, error) {
	list, err := nextOf(c, it.Input, it.of.size, false)
	defer func() { dataset.ReleaseAll(list) }()
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 || it.of.drops && int64(len(list)) < it.of.size:
		return nil, io.EOF
	}
	out := make(dataset.Element, 0, len(it.of.shapes))
	for i := range it.of.shapes {
		t, err := it.of.pad(c, list, i)
		if err != nil {
			out.Release()
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// pad stacks component i of the elements, padded.
func (k *paddedBatch) pad(c *dataset.Call, list []dataset.Element, i int) (*tensor.Tensor, error) {
	want := k.shapes[i]
	shape := make(tensor.Shape, len(want.Dims))
	for d, size := range want.Dims {
		shape[d] = max(size, 0)
	}
	whole := true
	for _, e := range list {
		if i >= len(e) {
			return nil, status.InvalidArgumentf("An element has %d components, expected %d", len(e), len(k.shapes))
		}
		got := e[i].Shape()
		if want.Known && len(got) != len(want.Dims) {
			return nil, status.InvalidArgumentf("All elements in a batch must have the same rank as the padded shape for component%d: expected rank %d but got element with rank %d", i, len(want.Dims), len(got))
		}
		if e[i].DType() != k.values[i].DType() {
			return nil, dataset.TypeMismatch(i, k.values[i].DType(), e[i].DType())
		}
		for d, size := range got {
			if want.Dims[d] < 0 {
				shape[d] = max(shape[d], size)
			} else if size > shape[d] {
				return nil, status.Errorf(status.DataLoss, "Attempted to pad to a smaller size than the input element.")
			}
		}
	}
	out, err := tensor.New(c.Pool(), k.values[i].DType(), append(tensor.Shape{int64(len(list))}, shape...))
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		whole = whole && e[i].Shape().Equal(shape)
	}
	if !whole {
		fill(out, k.values[i])
	}
	n := out.Len() / len(list)
	for j, e := range list {
		copyInto(out, j*n, shape, e[i], 0, e[i].Shape())
	}
	return out, nil
}

// fill sets all elements to the value of scalar.
func fill(t, scalar *tensor.Tensor) {
	if t.Len() == 0 {
		return
	}
	t.CopyElements(0, scalar, 0, 1)
	for done := 1; done < t.Len(); done *= 2 {
		n := min(done, t.Len()-done)
		t.CopyElements(done, t, 0, n)
	}
}

// copyInto copies the elements of src, of shape small, into the corner of a block of shape large that begins at element at of dst.
func copyInto(dst *tensor.Tensor, at int, large tensor.Shape, src *tensor.Tensor, from int, small tensor.Shape) {
	if len(small) == 0 || large[1:].Equal(small[1:]) {
		n := 1
		for _, d := range small {
			n *= int(d)
		}
		dst.CopyElements(at, src, from, n)
		return
	}
	stride, part := 1, 1
	for i := 1; i < len(small); i++ {
		stride, part = stride*int(large[i]), part*int(small[i])
	}
	for i := range int(small[0]) {
		copyInto(dst, at+i*stride, large[1:], src, from+i*part, small[1:])
	}
}

// unbatch yields the rows of each element.
type unbatch struct{ input *dataset.Dataset }

func newUnbatch(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return &unbatch{in.Dataset(0)} }
}

// rows returns the first dimension of each element; -1 if it is unknown.
func (k *unbatch) rows() int64 {
	for _, s := range k.input.Shapes {
		if s.Known && len(s.Dims) > 0 && s.Dims[0] > 0 {
			return s.Dims[0]
		}
	}
	return -1
}

func (k *unbatch) Cardinality(q *dataset.Query) int64 {
	n := k.input.Cardinality(q)
	if n < 0 {
		return n
	}
	if rows := k.rows(); rows > 0 {
		return n * rows
	}
	return dataset.Unknown
}

func (k *unbatch) At(c *dataset.Call, i int64) (dataset.Element, error) {
	rows := k.rows()
	if rows <= 0 {
		return nil, status.Errorf(status.FailedPrecondition, "Random access for the `unbatch` dataset requires a known batch size. Got %d.", rows)
	}
	e, err := k.input.At(c, i/rows)
	if err != nil {
		return nil, err
	}
	defer e.Release()
	return source.Row(c, e, i%rows)
}

func (k *unbatch) Shufflable() error {
	return dataset.NotIndexed("UnbatchDataset")
}

func (k *unbatch) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &unbatching{Over: o} })
}

type unbatching struct {
	dataset.Over
	now  dataset.Element
	next int64
}

func (it *unbatching) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		if it.now != nil && it.next < it.now[0].Shape()[0] {
			it.next++
			return source.Row(c, it.now, it.next-1)
		}
		it.drop()
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		if err := sameRows(e); err != nil {
			e.Release()
			return nil, err
		}
		it.now, it.next = e, 0
	}
}

// sameRows rejects an element whose components differ in their number of rows.
func sameRows(e dataset.Element) error {
	for i, t := range e {
		switch {
		case t.Rank() == 0:
			return status.InvalidArgumentf("Input element must have a non-scalar value in each component.")
		case t.Dim(0) != e[0].Dim(0):
			return status.InvalidArgumentf("Input element must have the same batch size in each component. Component 0 had size %d but component %d had size, %d.", e[0].Dim(0), i, t.Dim(0))
		}
	}
	if len(e) == 0 {
		return status.InvalidArgumentf("Input element must have at least one component.")
	}
	return nil
}

func (it *unbatching) drop() {
	it.now.Release()
	it.now = nil
}

func (it *unbatching) Close() {
	it.drop()
	it.Over.Close()
}

func (it *unbatching) Save(c *dataset.Call, w *dataset.Writer) {
	w.Bool("open", it.now != nil)
	w.Int("next", it.next)
	if it.now != nil {
		w.Element("now", it.now)
	}
	it.Over.Save(c, w)
}

func (it *unbatching) Restore(c *dataset.Call, r *dataset.Reader) {
	it.next = r.Place("next")
	if r.Bool("open") {
		if it.now = r.Element("now"); r.Err == nil {
			r.Check(sameRows(it.now))
		}
		if r.Err != nil {
			it.drop()
		}
	}
	it.Over.Restore(c, r)
}
