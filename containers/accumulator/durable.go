package accumulator

import (
	"encoding/binary"
	"encoding/json"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
)

// A durable accumulator is a cell with one entry: the number of gradients, the step, and the sum. Each gradient writes it anew.

// about is what is kept of an accumulator besides its state.
type about struct {
	Name       string
	DType      tensor.DType
	Shape      tensor.Shape
	KnownShape bool
	Mean       bool
	Sparse     bool
}

// About describes the accumulator, so that Restore can make it anew.
func (a *Accumulator) About() ([]byte, error) {
	o := a.options
	_, sparse := a.sum.(*sparse)
	return json.Marshal(about{o.Name, o.DType, o.Shape, o.KnownShape, o.Mean, sparse})
}

// Keep makes the state durable in cell from now on. It is called before the accumulator is shared.
func (a *Accumulator) Keep(cell *durable.Cell) { a.keeper.Keep(cell, a.State) }

// State records the state, unless it is that of a new accumulator.
func (a *Accumulator) State(r durable.Recorder) {
	a.room.Look(func() {
		if a.count > 0 || a.step != 0 {
			a.recordState(r)
		}
	})
}

// record records the state as a change by a step.
func (a *Accumulator) record(changes *durable.Tx) { a.keeper.Change(changes, a.recordState) }

func (a *Accumulator) recordState(r durable.Recorder) {
	head := binary.BigEndian.AppendUint64(nil, uint64(a.count))
	head = binary.BigEndian.AppendUint64(head, uint64(a.step))
	head, parts := a.sum.parts(head)
	r.Set(nil, tuple.Record{Head: head, Tuple: parts})
}

func (d *dense) parts(b []byte) ([]byte, tuple.Tuple) {
	if d.sum == nil {
		return b, nil
	}
	return b, tuple.Tuple{d.sum.Retain()}
}

func (d *dense) restore(b []byte, t tuple.Tuple) bool {
	if len(b) > 0 || len(t) > 1 {
		return false
	}
	if len(t) == 1 {
		d.sum = t[0]
	}
	return true
}

func (s *sparse) parts(b []byte) ([]byte, tuple.Tuple) {
	if s.values == nil {
		return b, nil
	}
	for i, row := range s.indices {
		b = binary.AppendVarint(b, row)
		b = binary.AppendUvarint(b, uint64(s.counts[i]))
	}
	return b, tuple.Tuple{s.values.Retain()}
}

func (s *sparse) restore(b []byte, t tuple.Tuple) bool {
	if len(t) == 0 {
		return len(b) == 0
	}
	if len(t) > 1 || t[0].Rank() == 0 {
		return false
	}
	var indices []int64
	var counts []int
	for range t[0].Dim(0) {
		row, m := binary.Varint(b)
		n, k := binary.Uvarint(b[max(m, 0):])
		if m <= 0 || k <= 0 {
			return false
		}
		b = b[m+k:]
		indices, counts = append(indices, row), append(counts, int(n))
	}
	if len(b) > 0 {
		return false
	}
	s.values, s.indices, s.counts = t[0], indices, counts
	return true
}

// Restore makes the accumulator whose state from has, with its sum in memory from pool. arithmetic returns the operations on a type's
// elements. Damage is DATA_LOSS.
func Restore(from durable.Source, description []byte, pool *tensor.Pool, arithmetic func(tensor.DType) Arithmetic) (*Accumulator, error) {
	var d about
	if err := durable.ReadAbout(description, "an accumulator", &d); err != nil {
		return nil, err
	}
	create := NewDense
	if d.Sparse {
		create = NewSparse
	}
	a := create(Options{Name: d.Name, DType: d.DType, Arithmetic: arithmetic(d.DType), Shape: d.Shape, KnownShape: d.KnownShape, Mean: d.Mean, Pool: pool})
	if err := from.Each(func(key, value []byte) error {
		r, err := tuple.ReadRecord(value, pool)
		if err != nil {
			return err
		}
		ok := len(key) == 0 && len(r.Head) >= 16 && (len(r.Tuple) == 0 || r.Tuple[0].DType() == d.DType)
		if ok {
			a.count, a.step = int(binary.BigEndian.Uint64(r.Head)), int64(binary.BigEndian.Uint64(r.Head[8:]))
			ok = (a.count > 0) == (len(r.Tuple) > 0) && a.sum.restore(r.Head[16:], r.Tuple)
		}
		if !ok {
			r.Release()
			return status.Errorf(status.DataLoss, "it is malformed")
		}
		return nil
	}); err != nil {
		a.Close()
		return nil, status.Errorf(tuple.Code(err), "the state of accumulator '%s' cannot be read: %v", d.Name, err)
	}
	a.keeper.Use(from.Cell())
	return a, nil
}
