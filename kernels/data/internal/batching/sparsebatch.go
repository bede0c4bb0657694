package batching

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// sparseBatch combines size elements, whose shapes may differ, into sparse tensors. Each of its elements is a vector of three variants: the
// indices, the values, and the dense shape.
type sparseBatch struct {
	input *dataset.Dataset
	size  int64
	row   shapes.PartialShape
}

func newSparseBatch(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := &sparseBatch{input: in.Dataset(0), size: batchSizeAt(in, 1)}
		if in.Err != nil {
			return k
		}
		if len(k.input.Types) != 1 {
			in.Failf("DenseToSparseBatchDataset only supports inputs with a single component.")
			return k
		}
		if t := in.Context.Input(2); t.DType() != tensor.Int64 || t.Rank() != 1 {
			in.Failf("row_shape must be a vector")
			return k
		}
		row, err := shapes.PartialShapeInput(in.Context, 2)
		if err != nil {
			in.Fail(err)
		}
		k.row = row
		return k
	}
}

func (k *sparseBatch) Cardinality(q *dataset.Query) int64 {
	return batches(k.input.Cardinality(q), k.size, false)
}

func (k *sparseBatch) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &sparseBatching{o, k} })
}

type sparseBatching struct {
	dataset.Over
	of *sparseBatch
}

func (it *sparseBatching) Next(c *dataset.Call) (dataset.Element, error) {
	list, err := nextOf(c, it.Input, it.of.size, false)
	defer func() { dataset.ReleaseAll(list) }()
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, io.EOF
	}
	dense, total, err := it.of.extent(list)
	if err != nil {
		return nil, err
	}
	return it.of.join(c, list, dense, total)
}

// extent returns the dense shape of a batch and the number of its values.
func (k *sparseBatch) extent(list []dataset.Element) (dense []int64, total int, err error) {
	dense = []int64{int64(len(list))}
	for _, d := range k.row.Dims {
		dense = append(dense, max(d, 0))
	}
	for _, e := range list {
		if len(e) != 1 || e[0].DType() != k.input.Types[0] {
			return nil, 0, status.InvalidArgumentf("DenseToSparseBatchDataset needs elements of one component of type %v", k.input.Types[0])
		}
		shape := e[0].Shape()
		if len(shape) != len(k.row.Dims) {
			return nil, 0, status.InvalidArgumentf("Input element had shape (%v) that is incompatible with the row shape (%v).", shape, k.row)
		}
		for i, size := range shape {
			if k.row.Dims[i] < 0 {
				dense[i+1] = max(dense[i+1], size)
			} else if size > k.row.Dims[i] {
				return nil, 0, status.Errorf(status.DataLoss, "Input element had shape (%v) that is larger than the row shape (%v).", shape, k.row)
			}
		}
		total += e[0].Len()
	}
	return dense, total, nil
}

// join combines elements into a batch.
func (k *sparseBatch) join(c *dataset.Call, list []dataset.Element, dense []int64, total int) (_ dataset.Element, err error) {
	parts := make(dataset.Element, 0, 3)
	defer func() {
		if err != nil {
			parts.Release()
		}
	}()
	rank := len(dense)
	indices, err := tensor.New(c.Pool(), tensor.Int64, tensor.Shape{int64(total), int64(rank)})
	if err != nil {
		return nil, err
	}
	parts = append(parts, indices)
	values, err := tensor.New(c.Pool(), k.input.Types[0], tensor.Shape{int64(total)})
	if err != nil {
		return nil, err
	}
	parts = append(parts, values)
	shape, err := tensor.FromSlice(tensor.Int64, tensor.Shape{int64(rank)}, dense)
	if err != nil {
		return nil, err
	}
	parts = append(parts, shape)
	at, to := 0, tensor.Of[int64](indices)
	for row, e := range list {
		values.CopyElements(at, e[0], 0, e[0].Len())
		for j := range e[0].Len() {
			place := to[(at+j)*rank : (at+j+1)*rank]
			place[0] = int64(row)
			rest := int64(j)
			for d := rank - 1; d > 0; d-- {
				size := e[0].Shape()[d-1]
				place[d], rest = rest%size, rest/size
			}
		}
		at += e[0].Len()
	}
	out, err := tensor.New(c.Pool(), tensor.Variant, tensor.Shape{3})
	if err != nil {
		return nil, err
	}
	for i, t := range parts {
		out.Variants()[i] = variant.NewBoxed(t)
	}
	return dataset.Element{out}, nil
}
