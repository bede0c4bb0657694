package example

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// One parses one SequenceExample into tensors without a dimension for examples. It is like Parse without Batch, but words errors like
// ParseSingleSequenceExample, with two further differences: a row without values has the wrong type for a dense list, and all rows of a
// dense list have the full number of values. There are no ragged features.
func (p *SequenceParser) One(run Run, serialized, name string, defaults []*tensor.Tensor, mayLack []bool) (context, lists *Result, err error) {
	in := SequenceInput{Serialized: []string{serialized}, Names: []string{name}, Defaults: defaults, MayLack: mayLack}
	q := &sequences{SequenceParser: p, SequenceInput: in, run: run, result: newResult(&p.Context), listsRes: newResult(&p.Lists)}
	if err := q.one(); err != nil {
		q.result.Release()
		q.listsRes.Release()
		return nil, nil, err
	}
	return q.result, q.listsRes, nil
}

// unparsed returns the error for a malformed message.
func (q *sequences) unparsed() error {
	return status.InvalidArgumentf("Could not parse example input, value: '%s'", q.Serialized[0])
}

func (q *sequences) one() error {
	if err := q.makeTracks(); err != nil {
		return err
	}
	if !q.scan(0, (*cursor).skip) {
		return q.unparsed()
	}
	for i := range q.context {
		if err := q.oneContext(&q.context[i]); err != nil {
			return err
		}
	}
	for i := range q.Context.Dense {
		if err := q.oneDense(i); err != nil {
			return err
		}
	}
	for i := range q.Context.Sparse {
		if err := q.contextSparse(i); err != nil {
			return err
		}
	}
	for i := range q.lists {
		if err := q.oneList(&q.lists[i], q.listTitle(i)); err != nil {
			return err
		}
	}
	for i := range q.Lists.Dense {
		if err := q.oneListDense(i); err != nil {
			return err
		}
	}
	for i := range q.Lists.Sparse {
		if err := q.listSparse(i); err != nil {
			return err
		}
	}
	return nil
}

// listTitle returns what messages about rows call a list.
func (q *sequences) listTitle(i int) string {
	if i < len(q.Lists.Dense) {
		return "Feature list"
	}
	return "Feature List"
}

// oneContext counts the values of a context feature.
func (q *sequences) oneContext(t *track) error {
	cell := &t.cells[0]
	v, ok := valuesOf(cell.message)
	if !ok {
		return q.unparsed()
	}
	if v.dtype != t.dtype && (v.dtype != tensor.Invalid || t.dense && cell.present) {
		return status.InvalidArgumentf("Name: %s, Context feature: %s.  Data types don't match. Expected type: %v  Feature is: %s", q.name(0), t.key, t.dtype, v.debug())
	}
	if cell.n, ok = v.count(); !ok {
		return q.unparsed()
	}
	cell.values, t.length = v, cell.n
	return nil
}

func (q *sequences) oneDense(i int) (err error) {
	d, cell := &q.Context.Dense[i], &q.context[i].cells[0]
	switch {
	case !cell.present && q.Defaults[i].Len() == 0:
		return status.InvalidArgumentf("Name: %s, Context feature '%s' is required but could not be found.", q.name(0), d.Key)
	case !cell.present:
		q.result.Dense[i] = q.Defaults[i].Retain()
		return nil
	case cell.n != d.Shape.Elements():
		return q.wrongNumber(d, 0, cell.n)
	}
	if q.result.Dense[i], err = tensor.New(q.run.Pool, d.DType, d.Shape); err != nil {
		return err
	}
	cell.values.put(columnOf(q.result.Dense[i]), 0, len(q.Serialized[0]))
	return nil
}

func (q *sequences) wrongNumber(d *Dense, index, n int) error {
	if d.DType == tensor.String {
		return status.InvalidArgumentf("Name: %s, Key %s, Index: %d.  Number of bytes values != expected.  Values size: %d but output shape: %v", q.name(0), d.Key, index, n, d.Shape)
	}
	return status.InvalidArgumentf("Name: %s, Key: %s, Index: %d.  Number of %v values != expected.  values size: %d but output shape: %v", q.name(0), d.Key, index, d.DType, n, d.Shape)
}

// oneList counts the rows and values of a feature list.
func (q *sequences) oneList(t *track, title string) error {
	for c := (cursor{t.cells[0].message}); ; t.rows++ {
		feature, done, ok := c.next(delimited(1))
		if !ok {
			return q.unparsed()
		}
		if done {
			return nil
		}
		v, ok := valuesOf(feature)
		if !ok {
			return q.unparsed()
		}
		if v.dtype != t.dtype && (v.dtype != tensor.Invalid || t.dense) {
			return status.InvalidArgumentf("Name: %s, %s: %s, Index: %d.  Data types don't match. Expected type: %v  Feature is: %s", q.name(0), title, t.key, t.rows, t.dtype, v.debug())
		}
		n, ok := v.count()
		if !ok {
			return q.unparsed()
		}
		t.length += n
	}
}

func (q *sequences) oneListDense(i int) (err error) {
	d, t := &q.Lists.Dense[i], &q.lists[i]
	cell := &t.cells[0]
	if !cell.present && !q.MayLack[i] {
		return q.missingList(0, d.Key)
	}
	size := d.Shape.Elements()
	if _, err := eachRow(cell.message, func(j int, r row) error {
		if r.n != size {
			return q.wrongNumber(d, j, r.n)
		}
		return nil
	}); err != nil {
		return err
	}
	out, err := tensor.New(q.run.Pool, d.DType, append(tensor.Shape{int64(t.rows)}, d.Shape...))
	if err != nil {
		return err
	}
	q.listsRes.Dense[i] = out
	to := columnOf(out)
	_, err = eachRow(cell.message, func(j int, r row) error {
		r.values.put(to, j*size, len(q.Serialized[0]))
		return nil
	})
	return err
}
