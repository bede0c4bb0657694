package batching

import (
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
)

// rebatch regroups the rows of its elements into batches of the given sizes, cycling through them.
type rebatch struct {
	input *dataset.Dataset
	sizes []int64
	drops bool
	spec  dataset.Spec
}

func newRebatch(s *dataset.Settings) dataset.Maker {
	spec := s.Spec()
	return func(in *dataset.Inputs) dataset.Kind {
		k := &rebatch{input: in.Dataset(0), sizes: in.Ints(1, "`batch_sizes`"), drops: in.Bool(2, "drop_remainder"), spec: spec}
		if in.Err == nil && len(k.sizes) == 0 {
			in.Failf("`batch_sizes` must not be empty")
		}
		for _, n := range k.sizes {
			if n < 0 {
				in.Failf("`batch_sizes` must not be negative, got %d", n)
			}
		}
		return k
	}
}

func (k *rebatch) Cardinality(q *dataset.Query) int64 {
	if k.input.Cardinality(q) == dataset.Infinite {
		return dataset.Infinite
	}
	return dataset.Unknown
}

func (k *rebatch) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &rebatching{Over: o, of: k} })
}

type rebatching struct {
	dataset.Over
	of   *rebatch
	now  dataset.Element
	row  int64 // the next row of now
	size int64 // index of the next batch's size
}

func (it *rebatching) Next(c *dataset.Call) (dataset.Element, error) {
	want := it.of.sizes[it.size]
	var parts []dataset.Element
	defer func() { dataset.ReleaseAll(parts) }()
	have, ended := int64(0), false
	for have < want {
		if it.now == nil {
			e, err := it.Input.Next(c)
			if dataset.AtEnd(err) {
				ended = true
				break
			}
			if err != nil {
				return nil, err
			}
			if err := sameRows(e); err != nil {
				e.Release()
				return nil, err
			}
			it.now, it.row = e, 0
		}
		n := min(want-have, it.now[0].Shape()[0]-it.row)
		part := make(dataset.Element, len(it.now))
		for i, t := range it.now {
			part[i] = t.Rows(int(it.row), int(it.row+n))
		}
		parts = append(parts, part)
		have, it.row = have+n, it.row+n
		if it.row == it.now[0].Shape()[0] {
			it.drop()
		}
	}
	if ended && (have == 0 || it.of.drops) {
		return nil, io.EOF
	}
	it.size = (it.size + 1) % int64(len(it.of.sizes))
	if want == 0 {
		return it.of.nothing(c)
	}
	return joinRows(c, parts, have)
}

// nothing returns a batch without rows.
func (k *rebatch) nothing(c *dataset.Call) (dataset.Element, error) {
	var e dataset.Element
	for i, dtype := range k.spec.Types {
		shape := tensor.Shape{0}
		if p := k.spec.Shapes[i]; p.Known {
			for j, d := range p.Dims {
				if j > 0 {
					shape = append(shape, max(d, 0))
				}
			}
		}
		t, err := tensor.New(c.Pool(), dtype, shape)
		if err != nil {
			e.Release()
			return nil, err
		}
		e = append(e, t)
	}
	return e, nil
}

// joinRows concatenates rows, which it borrows.
func joinRows(c *dataset.Call, parts []dataset.Element, rows int64) (dataset.Element, error) {
	first := parts[0]
	out := make(dataset.Element, 0, len(first))
	for i, t := range first {
		joined, err := tensor.New(c.Pool(), t.DType(), append(tensor.Shape{rows}, t.Shape()[1:]...))
		if err != nil {
			out.Release()
			return nil, err
		}
		out = append(out, joined)
		at := 0
		for _, p := range parts {
			if len(p) != len(first) || p[i].DType() != t.DType() || !p[i].Shape()[1:].Equal(t.Shape()[1:]) {
				out.Release()
				return nil, status.InvalidArgumentf("Cannot join rows of component %d: the first has shape %v of %v, another one %v of %v", i, t.Shape()[1:], t.DType(), p[i].Shape()[1:], p[i].DType())
			}
			joined.CopyElements(at, p[i], 0, p[i].Len())
			at += p[i].Len()
		}
	}
	return out, nil
}

func (it *rebatching) drop() {
	it.now.Release()
	it.now = nil
}

func (it *rebatching) Close() {
	it.drop()
	it.Over.Close()
}

func (it *rebatching) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("size", it.size)
	w.Int("row", it.row)
	w.Bool("open", it.now != nil)
	if it.now != nil {
		w.Element("now", it.now)
	}
	it.Over.Save(c, w)
}

func (it *rebatching) Restore(c *dataset.Call, r *dataset.Reader) {
	it.size, it.row = r.Place("size"), r.Place("row")
	if r.Bool("open") {
		if it.now = r.Element("now"); r.Err == nil {
			r.Check(sameRows(it.now))
		}
	}
	if r.Err == nil && (it.size >= int64(len(it.of.sizes)) || it.now != nil && it.row >= it.now[0].Shape()[0]) {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a rebatched dataset is at size %d of %d and row %d", it.size, len(it.of.sizes), it.row))
	}
	it.Over.Restore(c, r)
}

// split divides each batch into one part per replica; leading parts have the size of the largest: RebatchDataset.
type split struct {
	input    *dataset.Dataset
	replicas int64
}

func newSplit(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		return &split{in.Dataset(0), in.Positive(in.Int(1, "num_replicas"), "num_replicas")}
	}
}

func (*split) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *split) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &splitting{Over: o, of: k} })
}

type splitting struct {
	dataset.Over
	of   *split
	now  dataset.Element
	part int64 // the next part of now
}

func (it *splitting) Next(c *dataset.Call) (dataset.Element, error) {
	if it.part == 0 {
		it.drop()
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		for i, t := range e {
			if t.Rank() == 0 {
				e.Release()
				return nil, status.InvalidArgumentf("Cannot rebatch dataset: All components must have at least one dimension. Perhaps your input dataset is not batched? Component %d is scalar.", i)
			}
		}
		it.now = e
	}
	out := make(dataset.Element, len(it.now))
	for i, t := range it.now {
		// Components may differ in their batch sizes.
		rows := t.Shape()[0]
		size := (rows - 1 + it.of.replicas) / it.of.replicas
		end := min(size*(it.part+1), rows)
		out[i] = t.Rows(int(min(size*it.part, end)), int(end))
	}
	if it.part++; it.part == it.of.replicas {
		it.part = 0
	}
	return out, nil
}

func (it *splitting) drop() {
	it.now.Release()
	it.now = nil
}

func (it *splitting) Close() {
	it.drop()
	it.Over.Close()
}

func (it *splitting) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("part", it.part)
	if it.part > 0 {
		w.Element("now", it.now)
	}
	it.Over.Save(c, w)
}

func (it *splitting) Restore(c *dataset.Call, r *dataset.Reader) {
	it.part = r.Place("part")
	if it.part > 0 {
		it.now = r.Element("now")
		for _, t := range it.now {
			if t.Rank() == 0 {
				r.Fail(status.Errorf(status.DataLoss, "The saved state of a rebatched dataset has a scalar for a batch"))
			}
		}
		if it.part >= it.of.replicas {
			r.Fail(status.Errorf(status.DataLoss, "The saved state of a rebatched dataset is at part %d of %d", it.part, it.of.replicas))
		}
	}
	it.Over.Restore(c, r)
}
