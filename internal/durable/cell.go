package durable

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/troupe-run/troupe/graph/status"
)

// Place says which resource a cell holds. It is unique in a store.
type Place struct{ Device, Container, Kind, Name string }

func (p Place) compare(q Place) int {
	return cmp.Or(strings.Compare(p.Device, q.Device), strings.Compare(p.Container, q.Container), strings.Compare(p.Kind, q.Kind),
		strings.Compare(p.Name, q.Name))
}

// Cell is a durable resource: entries, each a key and a value.
type Cell struct {
	store  *Store
	place  Place
	number uint64 // never that of another cell of the store

	// The rest is guarded by the store's mu.
	slots   map[string]*slot // the keys with changes that are not on disk
	dropped bool
}

// slot is a key of a cell with changes that are not on disk, in their order: at most one a unit.
type slot struct {
	cell    *Cell
	key     string
	changes []*change
}

// described is a cell and what describes its resource.
type described struct {
	cell  *Cell
	about []byte
}

// droppedCell is a cell that is to be deleted from the disk.
type droppedCell struct {
	cell *Cell
	done func(error)
}

// Create makes a new resource, which about describes. The store writes it soon, and no later than the first change in it. If the place has
// a resource already, the error is ALREADY_EXISTS.
func (s *Store) Create(p Place, about []byte) (*Cell, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errClosed
	}
	if f := s.failure.Load(); f != nil {
		return nil, f.err
	}
	if s.cells[p] != nil {
		return nil, status.Errorf(status.AlreadyExists, "the durable store has a %s %q of container %q on device %q already", p.Kind, p.Name,
			p.Container, p.Device)
	}
	c := &Cell{store: s, place: p, number: s.nextCell}
	s.nextCell++
	s.cells[p] = c
	s.created = append(s.created, described{c, slices.Clone(about)})
	s.wake()
	return c, nil
}

// ReadAbout decodes the description that was given to Create, as JSON, of a resource such as "a queue". Damage is DATA_LOSS.
func ReadAbout(about []byte, resource string, v any) error {
	if err := json.Unmarshal(about, v); err != nil {
		return status.Errorf(status.DataLoss, "the description of %s on disk cannot be read: %v", resource, err)
	}
	return nil
}

// Load calls visit with the resources that were there after Open, sorted by Place. Only the first call has them. If visit fails, Load stops
// with its error.
func (s *Store) Load(visit func(c *Cell, p Place, about []byte) error) error {
	s.mu.Lock()
	all := s.loaded
	s.loaded = nil
	s.mu.Unlock()
	for _, l := range all {
		if err := visit(l.cell, l.cell.place, l.about); err != nil {
			return err
		}
	}
	return nil
}

// At returns the resources of a container on a device.
func (s *Store) At(device, container string) (cells []*Cell) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, c := range s.cells {
		if p.Device == device && p.Container == container {
			cells = append(cells, c)
		}
	}
	return cells
}

// Store returns the store that the cell belongs to.
func (c *Cell) Store() *Store { return c.store }

// Each calls visit with the committed entries in the order of their keys. It must be called before the first change. visit may not keep key
// or value. If visit fails, Each stops with its error.
func (c *Cell) Each(visit func(key, value []byte) error) error {
	return c.store.read(func(db *pebble.DB) error {
		return each(db, entriesOf(c.number), entriesOf(c.number+1), func(k, v []byte) error { return visit(k[entryPrefix:], v) })
	})
}

// Drop deletes the resource with all its entries, and ignores later changes of it. Its place is free at once. done is called when the
// deletion is on disk, or with the error.
func (c *Cell) Drop(done func(error)) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.dropped {
		c.dropped = true
		if s.cells[c.place] == c {
			delete(s.cells, c.place)
		}
	}
	s.deleted = append(s.deleted, droppedCell{c, done})
	if s.stopped {
		deleted := s.deleted
		s.deleted = nil
		s.answerLater(func() {
			for _, d := range deleted {
				s.finish(d.done, errClosed)
			}
		})
		return
	}
	s.wake()
}

// The keys of the store; see the package comment.
const (
	metaBatches = "mb" // the number of batches written
	metaCells   = "mc" // the number of the next cell
	entryPrefix = 9    // bytes before the key of an entry
	recordStart = "r"
	recordEnd   = "s"
	entryStart  = "e"
	entryEnd    = "f"
)

// entriesOf returns the key that all entries of a cell follow, and those of the cells before do not.
func entriesOf(number uint64) []byte { return appendEntryKey(nil, number, "") }

func appendEntryKey(b []byte, number uint64, key string) []byte {
	b = append(b, entryStart...)
	b = binary.BigEndian.AppendUint64(b, number)
	return append(b, key...)
}

func recordKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(recordStart), number)
}

// record encodes a cell's record: the four parts of its place, each after its length, and the description.
func record(p Place, about []byte) []byte {
	var b []byte
	for _, s := range []string{p.Device, p.Container, p.Kind, p.Name} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return append(b, about...)
}

func parseRecord(b []byte) (p Place, about []byte, err error) {
	for _, s := range []*string{&p.Device, &p.Container, &p.Kind, &p.Name} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return Place{}, nil, errors.New("malformed record of a resource")
		}
		b = b[size:]
		*s, b = string(b[:n]), b[n:]
	}
	return p, slices.Clone(b), nil
}

// each calls visit with the entries of the database from start up to end.
func each(db *pebble.DB, start, end []byte, visit func(k, v []byte) error) (err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, it.Close()) }() // Close repeats the iterator's error
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := visit(it.Key(), v); err != nil {
			return err
		}
	}
	return it.Error()
}
