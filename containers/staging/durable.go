package staging

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
)

// A durable area is a cell with an entry for each tuple: those of a buffer under their numbers in order of arrival, those of a map under their
// keys, since a key may have a complete tuple and an incomplete one.

// Letters that begin the keys of a map's entries. Those of a buffer have none.
const (
	completeKey   = 'c'
	incompleteKey = 'i'
)

// about is what is kept of an area besides its tuples.
type about struct {
	Name    string
	Limits  Limits
	Width   int // of a map
	Ordered bool
}

// About describes the buffer, so that RestoreBuffer can make it anew.
func (b *Buffer) About() ([]byte, error) { return json.Marshal(about{Name: b.name, Limits: b.limits}) }

// About describes the map, so that RestoreMap can make it anew.
func (m *Map) About() ([]byte, error) {
	return json.Marshal(about{m.name, m.limits, m.width, m.ordered})
}

// Keep makes the tuples durable in cell from now on. It is called before the buffer is shared.
func (b *Buffer) Keep(cell *durable.Cell) { b.keeper.Keep(cell, b.State) }

// Keep makes the tuples durable in cell from now on. It is called before the map is shared.
func (m *Map) Keep(cell *durable.Cell) { m.keeper.Keep(cell, m.State) }

// State records all that the buffer has.
func (b *Buffer) State(r durable.Recorder) {
	b.room.Look(func() {
		for _, s := range b.tuples {
			s.record(r)
		}
	})
}

// State records all that the map has.
func (m *Map) State(r durable.Recorder) {
	m.room.Look(func() {
		for _, all := range []map[int64]*entry{m.complete, m.incomplete} {
			for id, e := range all {
				e.record(r, id)
			}
		}
	})
}

func (s staged) diskKey() []byte { return binary.BigEndian.AppendUint64(nil, uint64(s.number)) }

func (s staged) record(r durable.Recorder) { r.Set(s.diskKey(), tuple.Tuple(retained(s.tuple))) }

func (s staged) recordGone(r durable.Recorder) { r.Delete(s.diskKey()) }

// RestoreBuffer makes the buffer whose tuples from has, with the tuples in memory from pool. Damage is DATA_LOSS.
func RestoreBuffer(from durable.Source, description []byte, pool *tensor.Pool) (*Buffer, error) {
	var a about
	if err := durable.ReadAbout(description, "a staging area", &a); err != nil {
		return nil, err
	}
	b := NewBuffer(a.Name, a.Limits)
	err := from.Each(func(key, value []byte) error {
		if len(key) != 8 {
			return unknownEntry(key)
		}
		t, err := tuple.Read(value, pool)
		if err != nil {
			return err
		}
		s := staged{int64(binary.BigEndian.Uint64(key)), t}
		b.tuples, b.bytes, b.next = append(b.tuples, s), b.bytes+bytesOf(t), s.number+1
		return nil
	})
	if err != nil {
		b.Close()
		return nil, unreadable(a.Name, err)
	}
	b.keeper.Use(from.Cell())
	return b, nil
}

// head is what is kept of a map's tuple besides the components that it has.
type head struct {
	Complete int64
	Has      []int
}

func (e *entry) diskKey(id int64) []byte {
	letter := byte(completeKey)
	if e.complete == 0 {
		letter = incompleteKey
	}
	return binary.BigEndian.AppendUint64([]byte{letter}, uint64(id))
}

func (e *entry) record(r durable.Recorder, id int64) {
	has, components := tuple.Present(e.tuple)
	r.Set(e.diskKey(id), tuple.Record{Head: durable.JSON(head{e.complete, has}), Tuple: append(tuple.Tuple{e.key.Retain()}, components...)})
}

// RestoreMap makes the map whose tuples from has, with the tuples in memory from pool. Damage is DATA_LOSS.
func RestoreMap(from durable.Source, description []byte, pool *tensor.Pool) (*Map, error) {
	var a about
	if err := durable.ReadAbout(description, "a staging area", &a); err != nil {
		return nil, err
	}
	m := NewMap(a.Name, a.Width, a.Ordered, a.Limits)
	complete := map[*entry]int64{}
	err := from.Each(func(key, value []byte) error {
		if len(key) != 9 || key[0] != completeKey && key[0] != incompleteKey {
			return unknownEntry(key)
		}
		id := int64(binary.BigEndian.Uint64(key[1:]))
		e, err := m.read(value, id, key[0] == completeKey, pool)
		if err != nil {
			return err
		}
		if e.complete == 0 {
			m.incomplete[id] = e
		} else {
			complete[e] = id
		}
		m.bytes += bytesOf(e.tuple)
		return nil
	})
	for e, id := range complete {
		m.complete[id] = e
		m.finished = max(m.finished, e.complete)
	}
	if err != nil {
		m.Close()
		return nil, unreadable(a.Name, err)
	}
	for _, id := range complete {
		m.order = append(m.order, id)
	}
	slices.SortFunc(m.order, func(x, y int64) int {
		if m.ordered {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(m.complete[x].complete, m.complete[y].complete)
	})
	m.keeper.Use(from.Cell())
	return m, nil
}

// read decodes a tuple.
func (m *Map) read(value []byte, id int64, complete bool, pool *tensor.Pool) (*entry, error) {
	r, err := tuple.ReadRecord(value, pool)
	if err != nil {
		return nil, err
	}
	var h head
	if err := json.Unmarshal(r.Head, &h); err != nil {
		r.Release()
		return nil, err
	}
	if len(r.Tuple) > 0 && complete == (h.Complete > 0) && isKey(r.Tuple[0], id) {
		if components, ok := tuple.Spread(h.Has, r.Tuple[1:], m.width); ok {
			return &entry{key: r.Tuple[0], complete: h.Complete, tuple: components}, nil
		}
	}
	r.Release()
	return nil, status.Errorf(status.DataLoss, "the tuple with key %d has the wrong components", id)
}

// isKey reports whether t is the key of a tuple.
func isKey(t *tensor.Tensor, id int64) bool {
	return t.DType() == tensor.Int64 && t.Len() == 1 && tensor.Of[int64](t)[0] == id
}

func unknownEntry(key []byte) error { return status.Errorf(status.DataLoss, "it has the key %q", key) }

func unreadable(name string, err error) error {
	return status.Errorf(tuple.Code(err), "the tuples of staging area '%s' cannot be read: %v", name, err)
}
