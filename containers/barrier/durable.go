package barrier

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/internal/view"
)

// A durable barrier is a cell with an entry for each tuple, complete or not, under the tuple's number, and one for the rest of its state.

// Letters that begin the keys of a cell's entries.
const (
	tupleKey = 't'
	stateKey = 's'
)

// about is what is kept of a barrier besides its contents.
type about struct {
	Name   string
	DTypes []tensor.DType
	Shapes []tensor.Shape
}

// About describes the barrier, so that Restore can make it anew.
func (b *Barrier) About() ([]byte, error) {
	o := b.options
	if err := tuple.CheckKeepable(fmt.Sprintf("barrier '%s'", o.Name), o.DTypes...); err != nil {
		return nil, err
	}
	return json.Marshal(about{o.Name, o.DTypes, o.Shapes})
}

// Keep makes the contents durable in cell from now on. It is called before the barrier is shared.
func (b *Barrier) Keep(cell *durable.Cell) { b.keeper.Keep(cell, b.State) }

// State records all that the barrier has.
func (b *Barrier) State(r durable.Recorder) {
	b.room.Look(func() {
		if b.closed || b.index != firstIndex {
			b.recordState(r)
		}
		for _, e := range b.incomplete {
			e.record(r)
		}
		for _, e := range b.ready {
			e.record(r)
		}
	})
}

// state is what is kept beside the tuples.
type state struct {
	Index             int64
	Closed, Cancelled bool
	Closing           view.Act
}

// recordState records that part of the state which is not in tuples.
func (b *Barrier) recordState(r durable.Recorder) {
	r.Set([]byte{stateKey}, durable.JSON(state{b.index, b.closed, b.cancelled, b.closing}))
}

func (e *element) diskKey() []byte {
	return binary.BigEndian.AppendUint64([]byte{tupleKey}, uint64(e.number))
}

// head is what is kept of a tuple besides the components that it has.
type head struct {
	Index    int64
	Complete int64
	Key      []byte // which may be no UTF-8
	Has      []int
}

func (e *element) record(r durable.Recorder) {
	has, components := tuple.Present(e.components)
	r.Set(e.diskKey(), tuple.Record{Head: durable.JSON(head{e.index, e.complete, []byte(e.key), has}), Tuple: components})
}

// recordInsertion records the tuples that an insertion has made, completed or dropped, and whether it has used up an index.
func (b *Barrier) recordInsertion(r durable.Recorder, fresh bool, touched []*element) {
	if fresh {
		b.recordState(r)
	}
	for _, e := range touched {
		if e.complete > 0 || b.incomplete[e.key] == e {
			e.record(r)
		} else {
			e.recordGone(r)
		}
	}
}

func (e *element) recordGone(r durable.Recorder) { r.Delete(e.diskKey()) }

// Restore makes the barrier whose contents from has, with its tuples in memory from pool. Damage is DATA_LOSS.
func Restore(from durable.Source, description []byte, pool *tensor.Pool) (*Barrier, error) {
	var a about
	if err := durable.ReadAbout(description, "a barrier", &a); err != nil {
		return nil, err
	}
	if len(a.DTypes) != len(a.Shapes) {
		return nil, status.Errorf(status.DataLoss, "the description of a barrier on disk has %d types and %d shapes", len(a.DTypes), len(a.Shapes))
	}
	b := New(Options{Name: a.Name, DTypes: a.DTypes, Shapes: a.Shapes, Pool: pool})
	err := from.Each(func(key, value []byte) error {
		switch {
		case len(key) == 9 && key[0] == tupleKey:
			return b.restore(int64(binary.BigEndian.Uint64(key[1:])), value)
		case len(key) == 1 && key[0] == stateKey:
			var s state
			if err := json.Unmarshal(value, &s); err != nil {
				return err
			}
			b.index, b.closed, b.cancelled, b.closing = s.Index, s.Closed, s.Cancelled, s.Closing
			return nil
		}
		return status.Errorf(status.DataLoss, "it has the key %q", key)
	})
	if err != nil {
		b.Close()
		return nil, status.Errorf(tuple.Code(err), "the contents of barrier '%s' cannot be read: %v", a.Name, err)
	}
	slices.SortFunc(b.ready, func(x, y *element) int {
		return cmp.Or(cmp.Compare(x.index, y.index), cmp.Compare(x.complete, y.complete))
	})
	b.drained = b.closed && len(b.incomplete) == 0
	b.keeper.Use(from.Cell())
	return b, nil
}

// restore puts back a tuple with a number.
func (b *Barrier) restore(number int64, value []byte) error {
	r, err := tuple.ReadRecord(value, b.options.Pool)
	if err != nil {
		return err
	}
	var h head
	if err := json.Unmarshal(r.Head, &h); err != nil {
		r.Release()
		return err
	}
	components, ok := tuple.Spread(h.Has, r.Tuple, len(b.options.DTypes))
	for i, t := range components {
		ok = ok && (t == nil || t.DType() == b.options.DTypes[i])
	}
	e := &element{number: number, index: h.Index, complete: h.Complete, key: string(h.Key), components: components}
	if incomplete := slices.Contains(e.components, nil); !ok || incomplete != (e.complete == 0) || incomplete && b.incomplete[e.key] != nil {
		r.Release()
		return status.Errorf(status.DataLoss, "a tuple has the wrong components")
	}
	b.elements = max(b.elements, number+1)
	b.completed = max(b.completed, e.complete)
	if e.complete == 0 {
		b.incomplete[e.key] = e
	} else {
		b.ready = append(b.ready, e)
	}
	return nil
}
