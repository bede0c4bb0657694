package source

import (
	"io"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	typespb "github.com/galeone/tensorflow/tensorflow/go/core/framework/types_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// rangeOf returns the numbers from start (inclusive) to stop (exclusive) by step.
type rangeOf struct {
	start, stop, step int64
	dtype             tensor.DType
}

func newRange(s *dataset.Settings) dataset.Maker {
	types := s.TypeList("output_types")
	if s.Err() == nil && (len(types) != 1 || rangeScalar(types[0], 0) == nil) {
		s.Fail(status.Unimplementedf("Attr 'output_types' of RangeDataset: %v", types))
	}
	return func(in *dataset.Inputs) dataset.Kind {
		r := &rangeOf{in.Int(0, "start"), in.Int(1, "stop"), in.Int(2, "step"), types[0]}
		if in.Err == nil && r.step == 0 {
			in.Failf("step must be a non-zero integer.")
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

func (r *rangeOf) Cardinality(*dataset.Query) int64 {
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

func (r *rangeOf) At(_ *dataset.Call, i int64) (dataset.Element, error) {
	return dataset.Element{rangeScalar(r.dtype, r.start+i*r.step)}, nil
}

func (r *rangeOf) Open(*dataset.Env) (dataset.Iterator, error) { return NewIterator(r), nil }

// List is a dataset whose elements all exist in advance.
type List interface {
	dataset.Kind
	dataset.Indexed
}

// counting is the iterator of a list.
type counting struct {
	dataset.Stateless
	List
	next int64
}

func (it *counting) Next(c *dataset.Call) (dataset.Element, error) {
	if it.next >= it.Cardinality(nil) {
		return nil, io.EOF
	}
	// All loops over elements end with the call, since every element comes from a source that checks it.
	if err := c.Err(); err != nil {
		return nil, err
	}
	it.next++
	return it.At(c, it.next-1)
}

func (it *counting) Save(_ *dataset.Call, w *dataset.Writer) { w.Int("next", it.next) }

func (it *counting) Restore(_ *dataset.Call, r *dataset.Reader) { it.next = r.Place("next") }

// NewIterator returns an iterator over the elements of a list.
func NewIterator(l List) dataset.Iterator { return &counting{List: l} }

// single is a dataset of one element.
type single struct{ element dataset.Element }

func newTensors(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return &single{in.Rest(0, in.Context.NumInputs())} }
}

func (*single) Cardinality(*dataset.Query) int64 { return 1 }

func (s *single) At(*dataset.Call, int64) (dataset.Element, error) { return s.element.Retain(), nil }

func (s *single) Open(*dataset.Env) (dataset.Iterator, error) { return NewIterator(s), nil }

// rows returns the rows of tensors.
type rows struct {
	tensors dataset.Element
	n       int64
}

func newSlices(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		s := &rows{tensors: in.Rest(0, in.Context.NumInputs())}
		for i, t := range s.tensors {
			switch {
			case t.Rank() == 0 || s.tensors[0].Rank() == 0:
				in.Failf("All components must be at least 1-dimensional")
			case i > 0 && t.Dim(0) != s.tensors[0].Dim(0):
				in.Failf("All components must have the same size in the 0th dimension")
			default:
				s.n = int64(t.Dim(0))
			}
		}
		return s
	}
}

func (s *rows) Cardinality(*dataset.Query) int64 { return s.n }

func (s *rows) At(c *dataset.Call, i int64) (dataset.Element, error) { return Row(c, s.tensors, i) }

// Row returns row i of each tensor.
func Row(c *dataset.Call, tensors dataset.Element, i int64) (dataset.Element, error) {
	e := make(dataset.Element, 0, len(tensors))
	for _, t := range tensors {
		row, err := tensor.New(c.Pool(), t.DType(), t.Shape()[1:])
		if err != nil {
			e.Release()
			return nil, err
		}
		row.CopyElements(0, t, int(i)*row.Len(), row.Len())
		e = append(e, row)
	}
	return e, nil
}

func (s *rows) Open(*dataset.Env) (dataset.Iterator, error) { return NewIterator(s), nil }

// tuples returns given elements one after the other: ListDataset.
type tuples struct {
	all   dataset.Element
	width int
}

func newList(s *dataset.Settings) dataset.Maker {
	types := s.TypeList("output_types")
	return func(in *dataset.Inputs) dataset.Kind {
		l := &tuples{in.Rest(0, in.Context.NumInputs()), len(types)}
		if l.width == 0 || len(l.all)%l.width != 0 {
			in.Failf("Given number of input tensors: %d is not divisible by the number of components in each element: %d", len(l.all), l.width)
		}
		return l
	}
}

func (l *tuples) Cardinality(*dataset.Query) int64 { return int64(len(l.all) / l.width) }

func (l *tuples) At(_ *dataset.Call, i int64) (dataset.Element, error) {
	return l.all[int(i)*l.width : int(i+1)*l.width].Retain(), nil
}

func (l *tuples) Open(*dataset.Env) (dataset.Iterator, error) { return NewIterator(l), nil }

// sparseSlices returns the rows of a sparse tensor, each a sparse tensor of one rank less.
type sparseSlices struct {
	indices, values, dense *tensor.Tensor
}

func newSparseSlices(s *dataset.Settings) (dataset.Spec, dataset.Maker) {
	dtype := s.Type("Tvalues")
	open := shapes.PartialShape{}
	spec := dataset.Spec{Types: []tensor.DType{tensor.Int64, dtype, tensor.Int64}, Shapes: []shapes.PartialShape{open, open, open}}
	return spec, func(in *dataset.Inputs) dataset.Kind {
		k := &sparseSlices{in.Tensor(0), in.Tensor(1), in.Tensor(2)}
		indices, values, dense := k.indices.Shape(), k.values.Shape(), k.dense.Shape()
		switch {
		case len(indices) != 2:
			in.Failf("Input indices must be a matrix. Got: %v", indices)
		case len(values) != 1:
			in.Failf("Input values must be a vector. Got: %v", values)
		case len(dense) != 1:
			in.Failf("Input shape must be a vector. Got: %v", dense)
		case indices[0] != values[0]:
			in.Failf("Number of values must match first dimension of indices. Got %d values, indices shape: %v", values[0], indices)
		case indices[1] != dense[0]:
			in.Failf("Number of dimensions must match second dimension of indices. Got %d dimensions, indices shape: %v", dense[0], indices)
		case dense[0] == 0:
			in.Failf("The shape argument requires at least one element.")
		default:
			k.check(in)
		}
		return k
	}
}

// check checks that the rows are in order.
func (k *sparseSlices) check(in *dataset.Inputs) {
	at, dims := tensor.Of[int64](k.indices), tensor.Of[int64](k.dense)
	rank := len(dims)
	if dims[0] < 0 {
		in.Failf("Dimension 0 of the dense shape must not be negative, got %d", dims[0])
	}
	last := int64(-1)
	for i := 0; i < len(at); i += rank {
		switch row := at[i]; {
		case row < last:
			in.Fail(status.Unimplementedf("The SparseTensor must be ordered in the batch dimension; handling arbitrarily ordered input is not currently supported."))
			return
		case row < 0 || row >= dims[0]:
			in.Failf("indices[%d] = %d is out of range [0, %d)", i/rank, row, dims[0])
			return
		default:
			last = row
		}
	}
}

func (k *sparseSlices) Cardinality(*dataset.Query) int64 { return tensor.Of[int64](k.dense)[0] }

func (k *sparseSlices) Open(*dataset.Env) (dataset.Iterator, error) { return &sparseRows{of: k}, nil }

// sparseRows is positioned before a row, and before the first value of that row.
type sparseRows struct {
	dataset.Stateless
	of        *sparseSlices
	row, from int64
}

func (it *sparseRows) Next(c *dataset.Call) (dataset.Element, error) {
	if it.row >= it.of.Cardinality(nil) {
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
	indices, err := tensor.New(c.Pool(), tensor.Int64, tensor.Shape{n, rank - 1})
	if err != nil {
		return nil, err
	}
	values, err := tensor.New(c.Pool(), it.of.values.DType(), tensor.Shape{n})
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
		dataset.Element{indices, values}.Release()
		return nil, err
	}
	it.row, it.from = it.row+1, to
	return dataset.Element{indices, values, dense}, nil
}

func (it *sparseRows) Save(_ *dataset.Call, w *dataset.Writer) {
	w.Int("row", it.row)
	w.Int("from", it.from)
}

func (it *sparseRows) Restore(_ *dataset.Call, r *dataset.Reader) {
	it.row, it.from = r.Place("row"), r.Place("from")
}

// FromElements returns a dataset of existing elements with width components each. It takes them over.
func FromElements(all dataset.Element, width int, spec dataset.Spec) *dataset.Dataset {
	return dataset.FromNode(&tuples{all, width}, windowNode(all, width), spec, all)
}

// windowNode returns a node that creates a dataset of elements with width components.
func windowNode(all dataset.Element, width int) *graph.Node {
	var types, of []typespb.DataType
	var open []*shapepb.TensorShapeProto
	for i, t := range all {
		types = append(types, t.DType().Proto())
		if i < width {
			of = append(of, t.DType().Proto())
			open = append(open, &shapepb.TensorShapeProto{UnknownRank: true})
		}
	}
	return &graph.Node{Op: "WindowOp", Attrs: graph.Attrs{
		"Tinputs": dataset.ListAttr(&attrpb.AttrValue_ListValue{Type: types}), "output_types": dataset.ListAttr(&attrpb.AttrValue_ListValue{Type: of}),
		"output_shapes": dataset.ListAttr(&attrpb.AttrValue_ListValue{Shape: open}),
	}}
}
