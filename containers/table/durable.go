package table

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/durable/tuple"
	"github.com/troupe-run/troupe/internal/view"
)

// A durable table is a cell with an entry for each of its own, so that a change writes what changes, and one that says that a static table was
// filled. Tables that were restored return their entries in another order.

// Letters that begin the keys of a cell's entries.
const (
	filledKey = 'f' // a static table was filled: when, and by which step
	entryKey  = 'k' // an entry of the table: the elements of its key, then as the value those of its value
)

// about is what is kept of a table besides its entries.
type about struct {
	Kind           Kind
	Key, Value     tensor.DType
	ValueShape     tensor.Shape
	Empty, Deleted []byte // of a dense table
	Buckets        int64
	MaxLoad        float32
}

// about returns what Restore needs to make a table with these options.
func (o *Options) about() ([]byte, error) {
	for _, d := range []tensor.DType{o.Key, o.Value} {
		if !tuple.Keepable(d) {
			return nil, status.Errorf(status.FailedPrecondition, "the elements of a table from %v to %v refer to memory, and cannot be kept in a durable container", o.Key, o.Value)
		}
	}
	a := about{Kind: o.Kind, Key: o.Key, Value: o.Value, ValueShape: o.ValueShape, Buckets: o.Buckets, MaxLoad: o.MaxLoad}
	for to, t := range map[*[]byte]*tensor.Tensor{&a.Empty: o.EmptyKey, &a.Deleted: o.DeletedKey} {
		if t == nil {
			continue
		}
		var err error
		if *to, err = (tuple.Tuple{t}).Append(nil); err != nil {
			return nil, err
		}
	}
	return json.Marshal(a)
}

// aboutTable describes a table for Restore.
func aboutTable(t Table) ([]byte, error) {
	o, err := OptionsOf(t)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, k := range []*tensor.Tensor{o.EmptyKey, o.DeletedKey} {
			if k != nil {
				k.Release()
			}
		}
	}()
	return o.about()
}

// About describes the table, so that Restore can make it anew.
func (s *static[K, V]) About() ([]byte, error) { return aboutTable(s) }

// About describes the table, so that Restore can make it anew.
func (m *mutable[K, V]) About() ([]byte, error) { return aboutTable(m) }

// About describes the table, so that Restore can make it anew.
func (d *dense[K, V]) About() ([]byte, error) { return aboutTable(d) }

// Keep makes the table durable in cell from now on. It is called before the table is shared.
func (s *static[K, V]) Keep(cell *durable.Cell) { s.keeper.Keep(cell, s.State) }

// Keep makes the table durable in cell from now on. It is called before the table is shared.
func (m *mutable[K, V]) Keep(cell *durable.Cell) { m.keeper.Keep(cell, m.State) }

// Keep makes the table durable in cell from now on. It is called before the table is shared.
func (d *dense[K, V]) Keep(cell *durable.Cell) { d.keeper.Keep(cell, d.State) }

// State records all that the table has.
func (s *static[K, V]) State(r durable.Recorder) {
	if e := s.entries.Load(); e != nil {
		recordFilled(r, s.filled)
		recordSet(r, e.key, e.value, e.keys, 1, e.values, e.width)
	}
}

// State records all that the table has.
func (m *mutable[K, V]) State(r durable.Recorder) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	e := m.entries
	recordSet(r, e.key, e.value, e.keys, 1, e.values, e.width)
}

// State records all that the table has.
func (d *dense[K, V]) State(r durable.Recorder) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	d.each(&d.buckets, func(key []K, value []V) { recordSet(r, d.key, d.value, key, d.width, value, d.valueWidth) })
}

// resume says that cell, or none if it is nil, keeps what the table has.
func (b *base) resume(cell *durable.Cell) { b.keeper.Use(cell) }

// restorable is a table that takes what an earlier process has left.
type restorable interface {
	Table
	resume(cell *durable.Cell)
	// restore adds an entry of a cell whose key begins with the letter.
	restore(letter byte, key, value []byte) error
}

// errMalformed is the error of an entry on disk that is not one of the table's.
var errMalformed = status.New(status.DataLoss, "an entry has the wrong size")

// Restore makes the table whose entries from has. The buckets of a dense table are in memory from pool. Damage is DATA_LOSS.
func Restore(from durable.Source, description []byte, pool *tensor.Pool) (Table, error) {
	var a about
	if err := durable.ReadAbout(description, "a table", &a); err != nil {
		return nil, err
	}
	o := Options{Kind: a.Kind, Key: a.Key, Value: a.Value, ValueShape: a.ValueShape, Buckets: a.Buckets, MaxLoad: a.MaxLoad, Pool: pool}
	for to, b := range map[**tensor.Tensor][]byte{&o.EmptyKey: a.Empty, &o.DeletedKey: a.Deleted} {
		t, err := tuple.Read(b, tensor.Host)
		if err != nil {
			return nil, err
		}
		defer t.Release()
		if len(t) == 1 {
			*to = t[0]
		} else if a.Kind == Dense {
			return nil, status.Errorf(status.DataLoss, "the description of a table on disk has no special keys")
		}
	}
	made, err := New(o)
	if err != nil {
		return nil, status.Errorf(status.DataLoss, "a table on disk cannot be made: %v", err)
	}
	t := made.(restorable)
	if err := from.Each(func(key, value []byte) error {
		if len(key) == 0 {
			return errMalformed
		}
		return t.restore(key[0], key[1:], value)
	}); err != nil {
		t.Close()
		return nil, status.Errorf(tuple.Code(err), "the entries of a table cannot be read: %v", err)
	}
	t.resume(from.Cell())
	return t, nil
}

func (s *static[K, V]) restore(letter byte, key, value []byte) error {
	e := s.entries.Load()
	switch {
	case letter == filledKey && e == nil && len(key) == 0:
		s.entries.Store(s.fresh())
		return json.Unmarshal(value, &s.filled)
	case letter != entryKey || e == nil:
		return unknownEntry(letter)
	}
	return e.restore(key, value)
}

func (m *mutable[K, V]) restore(letter byte, key, value []byte) error {
	if letter != entryKey {
		return unknownEntry(letter)
	}
	return m.entries.restore(key, value)
}

func (d *dense[K, V]) restore(letter byte, key, value []byte) error {
	if letter != entryKey {
		return unknownEntry(letter)
	}
	k, v := make([]K, d.width), make([]V, d.valueWidth)
	if !d.key.parse(key, k) || !d.value.parse(value, v) || d.mark(k) {
		return errMalformed
	}
	if err := d.grow(1); err != nil {
		return err
	}
	added, err := d.put(&d.buckets, k, v)
	d.n += added
	return err
}

func (e *entries[K, V]) restore(key, value []byte) error {
	k, v := make([]K, 1), make([]V, e.width)
	if !e.key.parse(key, k) || !e.value.parse(value, v) {
		return errMalformed
	}
	if err := e.room(1); err != nil {
		return err
	}
	e.put(k, v)
	return nil
}

func unknownEntry(letter byte) error {
	return status.New(status.DataLoss, fmt.Sprintf("a key begins with %q", letter))
}

// keyOf returns the key of an entry on disk.
func (e element[K]) keyOf(key []K) []byte { return e.append([]byte{entryKey}, key) }

// recordSet records the values of keys, each with a row of width elements.
func recordSet[K comparable, V any](r durable.Recorder, key element[K], value element[V], keys []K, keyWidth int, values []V, width int) {
	for i := range len(keys) / keyWidth {
		r.Set(key.keyOf(keys[i*keyWidth:(i+1)*keyWidth]), durable.Bytes(value.append(nil, values[i*width:(i+1)*width])))
	}
}

// entryOverhead is about what an entry takes on disk besides its key and its value.
const entryOverhead = 24

// encoded returns about how many bytes entries take on disk.
func encoded[K comparable, V any](key element[K], value element[V], keys []K, keyWidth int, values []V) int {
	return entryOverhead*(len(keys)/keyWidth) + key.encoded(keys) + value.encoded(values)
}

// encoded returns about how many bytes append appends.
func (e element[T]) encoded(list []T) int {
	if e.extra == nil {
		return int(e.size) * len(list)
	}
	return len(list) + int(e.extras(list))
}

// putting returns what adding entries to a table, or replacing their values, needs on disk. was returns the value of a key that is there already.
func putting[K comparable, V any](key element[K], value element[V], keys []K, keyWidth int, values []V, was func(key []K) []V) durable.Need {
	before := 0
	for i := range len(keys) / keyWidth {
		k := keys[i*keyWidth : (i+1)*keyWidth]
		if old := was(k); old != nil {
			before += encoded(key, value, k, keyWidth, old)
		}
	}
	return durable.Replaces(before, encoded(key, value, keys, keyWidth, values))
}

// recordDelete records that keys have no values.
func recordDelete[K comparable](r durable.Recorder, key element[K], keys []K, keyWidth int) {
	for i := range len(keys) / keyWidth {
		r.Delete(key.keyOf(keys[i*keyWidth : (i+1)*keyWidth]))
	}
}

// recordFilled records that a static table was filled.
func recordFilled(r durable.Recorder, by view.Act) {
	r.Set([]byte{filledKey}, durable.JSON(by))
}

// append appends the encoding of elements: numbers in their size, little-endian, and strings after their lengths.
func (e element[T]) append(b []byte, list []T) []byte {
	if texts, ok := any(list).([]string); ok {
		for _, s := range texts {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		return b
	}
	b, err := binary.Append(b, binary.LittleEndian, list)
	if err != nil {
		panic(err) // cannot happen: About refuses other types
	}
	return b
}

// parse decodes what append has encoded, and reports whether b has as many elements as list.
func (e element[T]) parse(b []byte, list []T) bool {
	texts, ok := any(list).([]string)
	if !ok {
		n, err := binary.Decode(b, binary.LittleEndian, list)
		return err == nil && n == len(b)
	}
	for i := range texts {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return false
		}
		b = b[size:]
		texts[i], b = string(b[:n]), b[n:]
	}
	return len(b) == 0
}
