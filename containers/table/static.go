package table

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
)

// Source supplies the entries that a static table is initialized with.
type Source interface {
	// Size returns the number of entries.
	Size() (int64, error)
	// Each calls add with the entries, in order and in portions. It returns the error of add, if any, and stops there.
	Each(add func(keys, values *tensor.Tensor) error) error
}

// ResourceKind is the resource kind of all tables. They share one namespace, as in TensorFlow.
const ResourceKind = "LookupTable"

// Initializable is a table that is filled once.
type Initializable interface {
	Table
	// Initialize fills the table. If it was initialized before, the source must have as many entries as the table. Otherwise the error is
	// FAILED_PRECONDITION and names the step that filled it. A source that fails leaves the table unchanged. The source is read before the
	// table is locked.
	Initialize(by *durable.Tx, src Source, origin view.StepOrigin) error
	// Fill is like Initialize with tensors as the source, and like Import with a known step.
	Fill(by *durable.Tx, keys, values *tensor.Tensor, origin view.StepOrigin) error
	// Initialized returns when the table was filled, and by whom; ok is false if it was not.
	Initialized() (a view.Act, ok bool)
}

// static is a table that changes only when it is initialized: TensorFlow's HashTable. Readers take no lock.
type static[K comparable, V any] struct {
	base
	fresh   func() *entries[K, V]
	mu      sync.Mutex // held by initializers while they publish
	entries atomic.Pointer[entries[K, V]]
	filled  view.Act // written once, before entries
}

func newStatic[K comparable, V any](t traits, key element[K], value element[V]) *static[K, V] {
	return &static[K, V]{base: base{traits: t}, fresh: func() *entries[K, V] { return newEntries(key, value, 1) }}
}

func (s *static[K, V]) Initialized() (a view.Act, ok bool) {
	if s.entries.Load() == nil {
		return view.Act{}, false
	}
	return s.filled, true
}

func (s *static[K, V]) kind() Kind { return Static }

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

// Find uses only the first of the defaults, as TensorFlow's HashTable does.
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

func (s *static[K, V]) Insert(*durable.Tx, *tensor.Tensor, *tensor.Tensor) error {
	return status.Unimplementedf("Insert not supported by InitializableLookupTable implementations")
}

func (s *static[K, V]) Remove(*durable.Tx, *tensor.Tensor) error {
	return status.Unimplementedf("Remove not supported by InitializableLookupTable implementations")
}

func (s *static[K, V]) Export(pool *tensor.Pool) (keys, values *tensor.Tensor, err error) {
	e := s.entries.Load()
	if e == nil {
		return nil, nil, status.Errorf(status.Aborted, "HashTable is not initialized.")
	}
	return e.export(pool, false)
}

// pair is a source of two tensors.
type pair struct{ keys, values *tensor.Tensor }

func (p pair) Size() (int64, error) { return int64(p.keys.Len()), nil }

func (p pair) Each(add func(keys, values *tensor.Tensor) error) error { return add(p.keys, p.values) }

func (s *static[K, V]) Import(by *durable.Tx, keys, values *tensor.Tensor) error {
	return s.Fill(by, keys, values, view.StepOrigin{})
}

func (s *static[K, V]) Fill(by *durable.Tx, keys, values *tensor.Tensor, origin view.StepOrigin) error {
	if err := s.checkEntries(keys, values); err != nil {
		return err
	}
	if keys.Len() == 0 {
		return status.InvalidArgumentf("keys and values cannot be empty tensors.")
	}
	return s.Initialize(by, pair{keys, values}, origin)
}

func (s *static[K, V]) Initialize(by *durable.Tx, src Source, origin view.StepOrigin) error {
	if e := s.entries.Load(); e != nil {
		s.mu.Lock() // whoever has filled it records that before it gives up the lock
		defer s.mu.Unlock()
		return s.again(by, e, src)
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
		return s.again(by, have, src)
	}
	if err := s.keeper.Admits(durable.Adds(encoded(e.key, e.value, e.keys, 1, e.values))); err != nil {
		return err
	}
	s.filled = view.Act{By: origin, At: time.Now()}
	s.entries.Store(e)
	s.keeper.Change(by, func(r durable.Recorder) {
		recordFilled(r, s.filled)
		recordSet(r, e.key, e.value, e.keys, 1, e.values, 1)
	})
	return nil
}

// again is a further initialization, which changes nothing. Its step is answered after that of the first one is on disk.
func (s *static[K, V]) again(by *durable.Tx, e *entries[K, V], src Source) error {
	err := s.same(e, src)
	if err == nil {
		s.keeper.After(by)
	}
	return err
}

// ErrDifferent is the error of a second initialization with other data.
var ErrDifferent = status.Errorf(status.FailedPrecondition, "Table was already initialized with different data.")

// same returns ErrDifferent if a source cannot be the one that the table was filled from.
func (s *static[K, V]) same(e *entries[K, V], src Source) error {
	n, err := src.Size()
	if err != nil {
		return err
	}
	if n != int64(e.len()) {
		return status.Errorf(status.FailedPrecondition, "%w It has %d entries, and these are %d: it was initialized %s, and keeps them until its container is reset",
			ErrDifferent, e.len(), n, s.filled.When(time.Now()))
	}
	return nil
}

// IsDifferent reports whether err means that a table was already initialized with other data.
func IsDifferent(err error) bool { return errors.Is(err, ErrDifferent) }

// addUnequal adds entries; a key may occur twice if its value is the same.
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

// show formats an element as TensorFlow's messages do: floats with six digits, booleans as numbers.
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
