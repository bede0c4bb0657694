package example

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// countLists counts the rows and values of the feature lists.
func (q *sequences) countLists() error {
	for i := range q.lists {
		t := &q.lists[i]
		for e := range t.cells {
			cell := &t.cells[e]
			rows := 0
			for c := (cursor{cell.message}); ; rows++ {
				feature, done, ok := c.next(delimited(1))
				if !ok {
					return status.InvalidArgumentf("Error in sequence feature %s in example %s", t.key, q.name(e))
				}
				if done {
					break
				}
				n, ok := countRow(feature, t.dtype)
				if !ok {
					return status.InvalidArgumentf("Name: %s, Feature list: %s, Index: %d.  Data types don't match. Expected type: %v", q.name(e), t.key, rows, t.dtype)
				}
				cell.n += n
			}
			t.rows += rows
			if t.dense {
				t.length = max(t.length, cell.n)
			} else {
				t.length += cell.n
			}
		}
	}
	return nil
}

// countRow counts the values of a row, which may have none; ok is false if it has values of another type.
func countRow(feature string, dtype tensor.DType) (n int, ok bool) {
	if feature == "" {
		return 0, true
	}
	v, ok := valuesOf(feature)
	if !ok || v.dtype != dtype {
		return 0, false
	}
	return v.count()
}

// row is one row of a list.
type row struct {
	values values
	n      int
}

// eachRow calls visit for the rows of a list that has already been counted.
func eachRow(list string, visit func(i int, r row) error) (rows int, err error) {
	for c := (cursor{list}); ; rows++ {
		feature, done, _ := c.next(delimited(1))
		if done {
			return rows, nil
		}
		var r row
		r.values, _ = valuesOf(feature)
		r.n, _ = r.values.count()
		if err := visit(rows, r); err != nil {
			return rows, err
		}
	}
}

func (q *sequences) fillLists() error {
	for i := range q.Lists.Dense {
		if err := q.listDense(i); err != nil {
			return err
		}
	}
	for i := range q.Lists.Sparse {
		if err := q.listSparse(i); err != nil {
			return err
		}
	}
	for i := range q.Lists.Ragged {
		if err := q.listRagged(i); err != nil {
			return err
		}
	}
	return nil
}

func (q *sequences) listDense(i int) (err error) {
	d, r := &q.Lists.Dense[i], q.listsRes
	t := &q.lists[i]
	size := d.Shape.Elements()
	if size == 0 && t.rows > 0 || size != 0 && t.length%size != 0 {
		return status.InvalidArgumentf("Feature list '%s' has an unexpected number of values.  Total values size: %d is not consistent with output shape: %v",
			d.Key, t.length, append(tensor.Shape{-1}, d.Shape...))
	}
	rows := t.length / max(size, 1)
	if r.Dense[i], err = tensor.Zeros(q.run.Pool, d.DType, q.shape(append(tensor.Shape{int64(rows)}, d.Shape...)...)); err != nil {
		return err
	}
	if r.Lengths[i], err = tensor.New(q.run.Pool, tensor.Int64, q.shape()); err != nil {
		return err
	}
	to, lengths := columnOf(r.Dense[i]), tensor.Of[int64](r.Lengths[i])
	for e, cell := range t.cells {
		if !cell.present && !q.MayLack[i] {
			return q.missingList(e, d.Key)
		}
		n, err := eachRow(cell.message, func(j int, row row) error {
			if row.n != size {
				return status.InvalidArgumentf("Name: %s, Key: %s, Index: %d.  Number of values != expected.  values size: %d but output shape: %v", q.name(e), d.Key, j, row.n, d.Shape)
			}
			row.values.put(to, e*t.length+j*size, len(q.Serialized[e]))
			return nil
		})
		if err != nil {
			return err
		}
		lengths[e] = int64(n)
	}
	return nil
}

func (q *sequences) missingList(e int, key string) error {
	return status.InvalidArgumentf("Name: %s, Feature list '%s' is required but could not be found.  Did you mean to include it in feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?", q.name(e), key)
}

func (q *sequences) listSparse(i int) (err error) {
	t, r := &q.lists[len(q.Lists.Dense)+i], q.listsRes
	if r.Values[i], err = tensor.New(q.run.Pool, t.dtype, tensor.Shape{int64(t.length)}); err != nil {
		return err
	}
	columns := 2
	if q.Batch {
		columns = 3
	}
	if r.Indices[i], err = tensor.New(q.run.Pool, tensor.Int64, tensor.Shape{int64(t.length), int64(columns)}); err != nil {
		return err
	}
	to, at := columnOf(r.Values[i]), 0
	index := tensor.Of[int64](r.Indices[i])
	longest, widest := 0, 0
	for e, cell := range t.cells {
		rows, err := eachRow(cell.message, func(j int, row row) error {
			row.values.put(to, at, len(q.Serialized[e]))
			at += row.n
			widest = max(widest, row.n)
			for k := range row.n {
				index[0] = int64(e) // overwritten if there is no such column
				index[columns-2], index[columns-1] = int64(j), int64(k)
				index = index[columns:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		longest = max(longest, rows)
	}
	r.Shapes[i], err = q.vector(q.shape(int64(longest), int64(widest))...)
	return err
}

func (q *sequences) listRagged(i int) (err error) {
	t, r := &q.lists[len(q.Lists.Dense)+len(q.Lists.Sparse)+i], q.listsRes
	if r.RaggedValues[i], err = tensor.New(q.run.Pool, t.dtype, tensor.Shape{int64(t.length)}); err != nil {
		return err
	}
	to, at := columnOf(r.RaggedValues[i]), 0
	ends, outer := make([]int, 0, t.rows), make([]int, len(t.cells))
	for e, cell := range t.cells {
		if _, err := eachRow(cell.message, func(_ int, row row) error {
			row.values.put(to, at, len(q.Serialized[e]))
			at += row.n
			ends = append(ends, at)
			return nil
		}); err != nil {
			return err
		}
		outer[e] = len(ends)
	}
	if r.Splits[i], err = splits(q.run.Pool, q.Lists.Ragged[i].Splits, ends); err != nil {
		return err
	}
	r.OuterSplits[i], err = q.exampleSplits(q.Lists.Ragged[i].Splits, outer)
	return err
}
