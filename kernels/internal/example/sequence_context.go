package example

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// countContext counts the values of the context features.
func (q *sequences) countContext() error {
	for i := range q.context {
		t := &q.context[i]
		for e := range t.cells {
			cell := &t.cells[e]
			if cell.message == "" {
				continue
			}
			v, ok := valuesOf(cell.message)
			n := 0
			if ok && v.dtype == t.dtype {
				n, ok = v.count()
			} else {
				ok = false
			}
			if !ok {
				return status.InvalidArgumentf("Name: %s, Context feature: %s.  Data types don't match. Expected type: %v", q.name(e), t.key, t.dtype)
			}
			cell.values, cell.n = v, n
			if t.dense {
				t.length = max(t.length, n)
			} else {
				t.length += n
			}
		}
	}
	return nil
}

func (q *sequences) fillContext() error {
	for i := range q.Context.Dense {
		if err := q.contextDense(i); err != nil {
			return err
		}
	}
	for i := range q.Context.Sparse {
		if err := q.contextSparse(i); err != nil {
			return err
		}
	}
	for i := range q.Context.Ragged {
		if err := q.contextRagged(i); err != nil {
			return err
		}
	}
	return nil
}

func (q *sequences) contextDense(i int) error {
	d := &q.Context.Dense[i]
	t := &q.context[i]
	size := d.Shape.Elements()
	if t.length != size {
		return status.InvalidArgumentf("Inconsistent max number of elements for feature %s: expected %d, but found %d", d.Key, size, t.length)
	}
	out, err := tensor.New(q.run.Pool, d.DType, q.shape(d.Shape...))
	if err != nil {
		return err
	}
	q.result.Dense[i] = out
	to := columnOf(out)
	for e, cell := range t.cells {
		switch {
		case !cell.present && q.Defaults[i].Len() == 0:
			return status.InvalidArgumentf("Feature: %s (data type: %v) is required but could not be found.", d.Key, d.DType)
		case !cell.present:
			copyColumn(to, e*size, columnOf(q.Defaults[i]))
		case cell.n != size:
			return status.InvalidArgumentf("Unexpected number of elements in example %s", q.name(e))
		default:
			cell.values.put(to, e*size, len(q.Serialized[e]))
		}
	}
	return nil
}

// concatenate returns a tensor of the values of all examples.
func (q *sequences) concatenate(t *track) (*tensor.Tensor, error) {
	out, err := tensor.New(q.run.Pool, t.dtype, tensor.Shape{int64(t.length)})
	if err != nil {
		return nil, err
	}
	to, at := columnOf(out), 0
	for e, cell := range t.cells {
		cell.values.put(to, at, len(q.Serialized[e]))
		at += cell.n
	}
	return out, nil
}

func (q *sequences) contextSparse(i int) (err error) {
	t, r := &q.context[len(q.Context.Dense)+i], q.result
	if r.Values[i], err = q.concatenate(t); err != nil {
		return err
	}
	columns := 1
	if q.Batch {
		columns = 2
	}
	if r.Indices[i], err = tensor.New(q.run.Pool, tensor.Int64, tensor.Shape{int64(t.length), int64(columns)}); err != nil {
		return err
	}
	to, most := tensor.Of[int64](r.Indices[i]), 0
	for e, cell := range t.cells {
		most = max(most, cell.n)
		for j := range cell.n {
			if q.Batch {
				to[0] = int64(e)
			}
			to[columns-1] = int64(j)
			to = to[columns:]
		}
	}
	r.Shapes[i], err = q.vector(q.shape(int64(most))...)
	return err
}

func (q *sequences) contextRagged(i int) (err error) {
	t, r := &q.context[len(q.Context.Dense)+len(q.Context.Sparse)+i], q.result
	if r.RaggedValues[i], err = q.concatenate(t); err != nil {
		return err
	}
	ends, at := make([]int, len(t.cells)), 0
	for e, cell := range t.cells {
		at += cell.n
		ends[e] = at
	}
	r.Splits[i], err = q.exampleSplits(q.Context.Ragged[i].Splits, ends)
	return err
}
