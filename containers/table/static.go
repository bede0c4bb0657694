package table

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// Source gives the entries that a static table is initialized with.
type Source interface {
	// Size tells how many entries there are.
	Size() (int64, error)
	// Each calls add with the entries, some at a time, in order, until there are no more or add
	// fails, whose error it then gives.
	Each(add func(keys, values *tensor.Tensor) error) error
}

// ResourceKind is the kind of resource that tables of all sorts are. They share their names, as in TensorFlow.
const ResourceKind = "LookupTable"

// Initializable is a table that is filled once.
type Initializable interface {
	Table
	// Initialize fills the table. Where it was initialized before, the source must have as many entries as
	// the table: FAILED_PRECONDITION otherwise. A source that fails leaves the table as it was. The
	// source is read before the table is locked.
	Initialize(Source) error
	// Initialized tells whether the table was filled.
	Initialized() bool
}

// static is a table that only its initialization changes: TensorFlow's HashTable. Readers take no lock.
type static[K comparable, V any] struct {
	base
	fresh   func() *entries[K, V]
	mu      sync.Mutex // of initializers, while they publish
	entries atomic.Pointer[entries[K, V]]
}

func newStatic[K comparable, V any](t traits, key element[K], value element[V]) *static[K, V] {
	return &static[K, V]{base: base{traits: t}, fresh: func() *entries[K, V] { return newEntries(key, value, 1) }}
}

func (s *static[K, V]) Initialized() bool { return s.entries.Load() != nil }

func (s *static[K, V]) Len() int {
	if e := s.entries.Load(); e != nil {
		return e.len()
	}
	return 0
}

func (s *static[K, V]) Bytes() int64 {
	if e := s.entries.Load(); e != nil {
		return e.bytes()
	}
	return 0
}

func (s *static[K, V]) Describe() string { return s.describe(s.Len(), s.Bytes()) }

// Find takes but the first of the defaults, as TensorFlow's HashTable does.
func (s *static[K, V]) Find(keys, defaults *tensor.Tensor, allocate func(tensor.DType, tensor.Shape) (*tensor.Tensor, error)) error {
	shape, err := s.checkFind(keys, defaults)
	if err != nil {
		return err
	}
	out, err := allocate(s.to.DType, shape)
	if err != nil {
		return err
	}
	e := s.entries.Load()
	if e == nil {
		return status.Errorf(status.FailedPrecondition, "Table not initialized.")
	}
	e.find(e.value.of(out), e.key.of(keys), e.value.of(defaults), false)
	return nil
}

func (s *static[K, V]) Insert(_, _ *tensor.Tensor) error {
	return status.Unimplementedf("Insert not supported by InitializableLookupTable implementations")
}

func (s *static[K, V]) Remove(*tensor.Tensor) error {
	return status.Unimplementedf("Remove not supported by InitializableLookupTable implementations")
}

func (s *static[K, V]) Export(pool *tensor.Pool) (keys, values *tensor.Tensor, err error) {
	e := s.entries.Load()
	if e == nil {
		return nil, nil, status.Errorf(status.Aborted, "HashTable is not initialized.")
	}
	return e.export(pool, false)
}

// pair is two tensors as a source.
type pair struct{ keys, values *tensor.Tensor }

func (p pair) Size() (int64, error) { return int64(p.keys.Len()), nil }

func (p pair) Each(add func(keys, values *tensor.Tensor) error) error { return add(p.keys, p.values) }

func (s *static[K, V]) Import(keys, values *tensor.Tensor) error {
	if err := s.checkEntries(keys, values); err != nil {
		return err
	}
	if keys.Len() == 0 {
		return status.InvalidArgumentf("keys and values cannot be empty tensors.")
	}
	return s.Initialize(pair{keys, values})
}

func (s *static[K, V]) Initialize(src Source) error {
	if e := s.entries.Load(); e != nil {
		return same(e, src)
	}
	e := s.fresh()
	if err := src.Each(func(keys, values *tensor.Tensor) error {
		if err := s.checkEntries(keys, values); err != nil {
			return err
		}
		return e.addUnequal(e.key.of(keys), e.value.of(values))
	}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.entries.Load(); have != nil {
		return same(have, src)
	}
	s.entries.Store(e)
	return nil
}

// ErrDifferent is what a second initialization with other data ends with.
var ErrDifferent = status.Errorf(status.FailedPrecondition, "Table was already initialized with different data.")

func same[K comparable, V any](e *entries[K, V], src Source) error {
	n, err := src.Size()
	if err != nil {
		return err
	}
	if n != int64(e.len()) {
		return ErrDifferent
	}
	return nil
}

// IsDifferent tells whether an error says that a table was initialized before with other data.
func IsDifferent(err error) bool { return errors.Is(err, ErrDifferent) }

// addUnequal adds entries; a key may come twice if its value does not change.
func (e *entries[K, V]) addUnequal(keys []K, values []V) error {
	if err := e.room(len(keys)); err != nil {
		return err
	}
	for i, k := range keys {
		v := values[i : i+1]
		row, ok := e.rows[k]
		switch {
		case !ok:
			e.add(k, v)
		case any(e.values[row]) != any(v[0]):
			return status.Errorf(status.FailedPrecondition, "HashTable has different value for same key. Key %s has %s and trying to add value %s",
				show(k), show(e.values[row]), show(v[0]))
		}
	}
	return nil
}

// show prints an element as TensorFlow's messages do: floats with six digits, booleans as numbers.
func show(v any) string {
	switch v := v.(type) {
	case float32:
		return show(float64(v))
	case float64:
		switch {
		case math.IsNaN(v):
			return "nan"
		case math.IsInf(v, 0):
			return strings.TrimPrefix(strings.ToLower(fmt.Sprint(v)), "+")
		}
		return fmt.Sprintf("%.6g", v)
	case bool:
		if v {
			return "1"
		}
		return "0"
	}
	return fmt.Sprint(v)
}
