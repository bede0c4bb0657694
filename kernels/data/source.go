package data

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// rangeOf returns the numbers from start (inclusive) to stop (exclusive) by step.
type rangeOf struct {
	start, stop, step int64
	dtype             tensor.DType
}

func newRange(s *settings) maker {
	types := s.TypeList("output_types")
	if s.Err() == nil && (len(types) != 1 || rangeScalar(types[0], 0) == nil) {
		s.Fail(status.Unimplementedf("Attr 'output_types' of RangeDataset: %v", types))
	}
	return func(in *inputs) kind {
		r := &rangeOf{in.int(0, "start"), in.int(1, "stop"), in.int(2, "step"), types[0]}
		if in.err == nil && r.step == 0 {
			in.failf("step must be a non-zero integer.")
		}
		return r
	}
}

// rangeScalar returns a number of one of the op's types; nil for other types.
func rangeScalar(dtype tensor.DType, v int64) *tensor.Tensor {
	switch dtype {
	case tensor.Int64:
		return tensor.Scalar(dtype, v)
	case tensor.Int32:
		return tensor.Scalar(dtype, int32(v))
	case tensor.Int16:
		return tensor.Scalar(dtype, int16(v))
	case tensor.Int8:
		return tensor.Scalar(dtype, int8(v))
	case tensor.Uint8:
		return tensor.Scalar(dtype, uint8(v))
	case tensor.Uint16:
		return tensor.Scalar(dtype, uint16(v))
	case tensor.Uint32:
		return tensor.Scalar(dtype, uint32(v))
	case tensor.Uint64:
		return tensor.Scalar(dtype, uint64(v))
	case tensor.Float32:
		return tensor.Scalar(dtype, float32(v))
	case tensor.Float64:
		return tensor.Scalar(dtype, float64(v))
	case tensor.Float16:
		return tensor.Scalar(dtype, tensor.ToF16(float32(v)))
	case tensor.BFloat16:
		return tensor.Scalar(dtype, tensor.ToBF16(float32(v)))
	}
	return nil
}

func (r *rangeOf) cardinality(*query) int64 {
	from, to, by := r.start, r.stop, r.step
	if by < 0 {
		from, to, by = -from, -to, -by
	}
	if to <= from {
		return 0
	}
	n := uint64(to) - uint64(from)
	return int64((n-1)/uint64(by)) + 1
}

func (r *rangeOf) at(_ *Call, i int64) (Element, error) {
	return Element{rangeScalar(r.dtype, r.start+i*r.step)}, nil
}

func (r *rangeOf) open(*Env) (Iterator, error) { return &counting{list: r}, nil }

// list is a dataset whose elements all exist in advance.
type list interface {
	kind
	indexed
}

// counting is the iterator of a list.
type counting struct {
	stateless
	list
	next int64
}

func (it *counting) Next(c *Call) (Element, error) {
	if it.next >= it.cardinality(nil) {
		return nil, io.EOF
	}
	// All loops over elements end with the call, since every element comes from a source that checks it.
	if err := c.Err(); err != nil {
		return nil, err
	}
	it.next++
	return it.at(c, it.next-1)
}

func (it *counting) Save(_ *Call, w *Writer) { w.Int("next", it.next) }

func (it *counting) Restore(_ *Call, r *Reader) { it.next = r.Place("next") }

// single is a dataset of one element.
type single struct{ element Element }

func newTensors(*settings) maker {
	return func(in *inputs) kind { return &single{in.rest(0, in.ctx.NumInputs())} }
}

func (*single) cardinality(*query) int64 { return 1 }

func (s *single) at(*Call, int64) (Element, error) { return s.element.retain(), nil }

func (s *single) open(*Env) (Iterator, error) { return &counting{list: s}, nil }

// rows returns the rows of tensors.
type rows struct {
	tensors Element
	n       int64
}

func newSlices(*settings) maker {
	return func(in *inputs) kind {
		s := &rows{tensors: in.rest(0, in.ctx.NumInputs())}
		for i, t := range s.tensors {
			switch {
			case t.Rank() == 0 || s.tensors[0].Rank() == 0:
				in.failf("All components must be at least 1-dimensional")
			case i > 0 && t.Dim(0) != s.tensors[0].Dim(0):
				in.failf("All components must have the same size in the 0th dimension")
			default:
				s.n = int64(t.Dim(0))
			}
		}
		return s
	}
}

func (s *rows) cardinality(*query) int64 { return s.n }

func (s *rows) at(c *Call, i int64) (Element, error) { return rowOf(c, s.tensors, i) }

// rowOf returns row i of each tensor.
func rowOf(c *Call, tensors Element, i int64) (Element, error) {
	e := make(Element, 0, len(tensors))
	for _, t := range tensors {
		row, err := tensor.New(c.pool(), t.DType(), t.Shape()[1:])
		if err != nil {
			e.release()
			return nil, err
		}
		row.CopyElements(0, t, int(i)*row.Len(), row.Len())
		e = append(e, row)
	}
	return e, nil
}

func (s *rows) open(*Env) (Iterator, error) { return &counting{list: s}, nil }

// tuples returns given elements one after the other: ListDataset.
type tuples struct {
	all   Element
	width int
}

func newList(s *settings) maker {
	types := s.TypeList("output_types")
	return func(in *inputs) kind {
		l := &tuples{in.rest(0, in.ctx.NumInputs()), len(types)}
		if l.width == 0 || len(l.all)%l.width != 0 {
			in.failf("Given number of input tensors: %d is not divisible by the number of components in each element: %d", len(l.all), l.width)
		}
		return l
	}
}

func (l *tuples) cardinality(*query) int64 { return int64(len(l.all) / l.width) }

func (l *tuples) at(_ *Call, i int64) (Element, error) {
	return l.all[int(i)*l.width : int(i+1)*l.width].retain(), nil
}

func (l *tuples) open(*Env) (Iterator, error) { return &counting{list: l}, nil }

// sparseSlices returns the rows of a sparse tensor, each a sparse tensor of one rank less.
type sparseSlices struct {
	indices, values, dense *tensor.Tensor
}

func newSparseSlices(s *settings) (Spec, maker) {
	dtype := s.Type("Tvalues")
	open := shapes.PartialShape{}
	spec := Spec{Types: []tensor.DType{tensor.Int64, dtype, tensor.Int64}, Shapes: []shapes.PartialShape{open, open, open}}
	return spec, func(in *inputs) kind {
		k := &sparseSlices{in.tensor(0), in.tensor(1), in.tensor(2)}
		indices, values, dense := k.indices.Shape(), k.values.Shape(), k.dense.Shape()
		switch {
		case len(indices) != 2:
			in.failf("Input indices must be a matrix. Got: %v", indices)
		case len(values) != 1:
			in.failf("Input values must be a vector. Got: %v", values)
		case len(dense) != 1:
			in.failf("Input shape must be a vector. Got: %v", dense)
		case indices[0] != values[0]:
			in.failf("Number of values must match first dimension of indices. Got %d values, indices shape: %v", values[0], indices)
		case indices[1] != dense[0]:
			in.failf("Number of dimensions must match second dimension of indices. Got %d dimensions, indices shape: %v", dense[0], indices)
		case dense[0] == 0:
			in.failf("The shape argument requires at least one element.")
		default:
			k.check(in)
		}
		return k
	}
}

// check checks that the rows are in order.
func (k *sparseSlices) check(in *inputs) {
	at, dims := tensor.Of[int64](k.indices), tensor.Of[int64](k.dense)
	rank := len(dims)
	if dims[0] < 0 {
		in.failf("Dimension 0 of the dense shape must not be negative, got %d", dims[0])
	}
	last := int64(-1)
	for i := 0; i < len(at); i += rank {
		switch row := at[i]; {
		case row < last:
			in.fail(status.Unimplementedf("The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not currently supported."))
			return
		case row < 0 || row >= dims[0]:
			in.failf("indices[%d] = %d is out of range [0, %d)", i/rank, row, dims[0])
			return
		default:
			last = row
		}
	}
}

func (k *sparseSlices) cardinality(*query) int64 { return tensor.Of[int64](k.dense)[0] }

func (k *sparseSlices) open(*Env) (Iterator, error) { return &sparseRows{of: k}, nil }

// sparseRows is positioned before a row, and before the first value of that row.
type sparseRows struct {
	stateless
	of        *sparseSlices
	row, from int64
}

func (it *sparseRows) Next(c *Call) (Element, error) {
	if it.row >= it.of.cardinality(nil) {
		return nil, io.EOF
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	at, rank := tensor.Of[int64](it.of.indices), int64(it.of.indices.Dim(1))
	to := it.from
	for to*rank < int64(len(at)) && at[to*rank] == it.row {
		to++
	}
	n := to - it.from
	indices, err := tensor.New(c.pool(), tensor.Int64, tensor.Shape{n, rank - 1})
	if err != nil {
		return nil, err
	}
	values, err := tensor.New(c.pool(), it.of.values.DType(), tensor.Shape{n})
	if err != nil {
		indices.Release()
		return nil, err
	}
	for i := range n {
		from := (it.from + i) * rank
		copy(tensor.Of[int64](indices)[i*(rank-1):], at[from+1:from+rank])
	}
	values.CopyElements(0, it.of.values, int(it.from), int(n))
	dense, err := tensor.FromSlice(tensor.Int64, tensor.Shape{rank - 1}, tensor.Of[int64](it.of.dense)[1:])
	if err != nil {
		Element{indices, values}.release()
		return nil, err
	}
	it.row, it.from = it.row+1, to
	return Element{indices, values, dense}, nil
}

func (it *sparseRows) Save(_ *Call, w *Writer) {
	w.Int("row", it.row)
	w.Int("from", it.from)
}

func (it *sparseRows) Restore(_ *Call, r *Reader) { it.row, it.from = r.Place("row"), r.Place("from") }
