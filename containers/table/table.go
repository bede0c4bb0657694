// Package table holds lookup tables: the maps from keys to values that are held in containers. There are three kinds, as in TensorFlow. A
// static table is filled once and then only read, without a lock. A mutable one is a hash map behind a read-write lock. A dense one is
// TensorFlow's open addressing in two tensors of buckets. TensorFlow's checkpoints hold the buckets as they are, so the hash function and
// the order of probing are part of the format.
//
// Tables are typed by their constructor ([New]); elements are not boxed. All methods may be called concurrently. Readers see a call that
// changes several keys as one change.
package table

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
	"github.com/troupe-run/troupe/internal/view"
)

// Side describes a table's keys or its values: their type, and the shape of a single one.
type Side struct {
	DType tensor.DType
	Shape tensor.Shape
}

// Table is a lookup table of any kind. Errors have the code and the text of TensorFlow's (core/framework/lookup_interface.cc,
// core/kernels/lookup_table_op.{h,cc}).
type Table interface {
	// Key and Value describe the table's keys and values.
	Key() Side
	Value() Side
	// Len returns the number of entries; an uninitialized static table has none.
	Len() int
	// Bytes estimates the memory of the entries.
	Bytes() int64
	// Find returns the value of each key: a tensor of shape batch + value shape, made with allocate. A missing key gets its default:
	// defaults holds one value for all keys or one for each.
	Find(keys, defaults *tensor.Tensor, allocate func(tensor.DType, tensor.Shape) (*tensor.Tensor, error)) error
	// Insert adds entries or replaces their values; if it fails, it changes nothing. It fails with UNIMPLEMENTED for static tables. by is the
	// changes of the step that makes this one, here and below; it is nil for a change by no step.
	Insert(by *durable.Tx, keys, values *tensor.Tensor) error
	// Remove removes entries and ignores missing ones. It fails with UNIMPLEMENTED for static tables.
	Remove(by *durable.Tx, keys *tensor.Tensor) error
	// Import replaces all entries of the table. It initializes a static table.
	Import(by *durable.Tx, keys, values *tensor.Tensor) error
	// Export returns all entries, in memory from pool; the caller owns both tensors. Hash tables return them in the order of insertion, as
	// long as nothing is removed; dense ones return their buckets.
	Export(pool *tensor.Pool) (keys, values *tensor.Tensor, err error)
	// Describe returns kind, types, entries and bytes, for listings.
	Describe() string
	// Close ends the table when it leaves its container.
	Close()
	// Deleted reports whether Close was called.
	Deleted() bool
}

// Kind is the kind of a table.
type Kind int

// The kinds: TensorFlow's HashTable, MutableHashTable and MutableHashTableOfTensors, and
// MutableDenseHashTable.
const (
	Static Kind = iota
	Mutable
	Dense
)

// Options describe the table to make.
type Options struct {
	Kind       Kind
	Key, Value tensor.DType
	// ValueShape is the shape of one value: a scalar, or a vector in mutable and dense tables.
	ValueShape tensor.Shape

	// EmptyKey and DeletedKey mark the buckets of dense tables that hold no entry, and define the shape of a key. New retains them.
	EmptyKey, DeletedKey *tensor.Tensor
	// Buckets is the initial number of buckets of a dense table, a power of two.
	Buckets int64
	// MaxLoad is the fraction of used buckets above which a dense table grows.
	MaxLoad float32
	// Pool is the memory for the buckets of dense tables.
	Pool *tensor.Pool
}

// OptionsOf returns the options for a table like t, without its entries. The caller owns EmptyKey and DeletedKey, which only dense tables
// have.
func OptionsOf(t Table) (Options, error) {
	if a, ok := t.(*Anonymous); ok {
		t = a.Table
	}
	o := Options{Key: t.Key().DType, Value: t.Value().DType, ValueShape: t.Value().Shape.Clone()}
	var err error
	switch t := t.(type) {
	case interface{ kind() Kind }:
		o.Kind = t.kind()
	case interface{ options(o *Options) error }:
		err = t.options(&o)
	default:
		err = status.Unimplementedf("a table of type %T has no options", t)
	}
	return o, err
}

// New makes a table. The error is INVALID_ARGUMENT for contradictory options, UNIMPLEMENTED for unsupported types.
func New(o Options) (Table, error) {
	switch o.Key {
	case tensor.Int32:
		return withKey(o, element[int32]{dtype: o.Key, of: tensor.Of[int32], size: 4}, func(k int32) uint64 { return uint64(k) })
	case tensor.Int64:
		return withKey(o, element[int64]{dtype: o.Key, of: tensor.Of[int64], size: 8}, func(k int64) uint64 { return uint64(k) })
	case tensor.String:
		return withKey(o, stringElement, Hash64)
	}
	return nil, unsupported(o)
}

func withKey[K comparable](o Options, key element[K], hash func(K) uint64) (Table, error) {
	switch o.Value {
	case tensor.Bool:
		return build(o, key, hash, element[bool]{dtype: o.Value, of: tensor.Of[bool], size: 1})
	case tensor.Int32:
		return build(o, key, hash, element[int32]{dtype: o.Value, of: tensor.Of[int32], size: 4})
	case tensor.Int64:
		return build(o, key, hash, element[int64]{dtype: o.Value, of: tensor.Of[int64], size: 8})
	case tensor.Float32:
		return build(o, key, hash, element[float32]{dtype: o.Value, of: tensor.Of[float32], size: 4})
	case tensor.Float64:
		return build(o, key, hash, element[float64]{dtype: o.Value, of: tensor.Of[float64], size: 8})
	case tensor.String:
		return build(o, key, hash, stringElement)
	case tensor.Variant:
		return build(o, key, hash, variantElement)
	case tensor.Resource:
		return build(o, key, hash, element[tensor.Handle]{dtype: o.Value, of: (*tensor.Tensor).Handles, size: 120})
	}
	return nil, unsupported(o)
}

func build[K comparable, V any](o Options, key element[K], hash func(K) uint64, value element[V]) (Table, error) {
	b := traits{from: Side{DType: key.dtype}, to: Side{DType: value.dtype, Shape: slices.Clone(o.ValueShape)}}
	switch o.Kind {
	case Static:
		if o.Value == tensor.Variant || o.Value == tensor.Resource {
			return nil, unsupported(o) // their values cannot be compared
		}
		b.kind, b.to.Shape = "HashTable", nil
		return newStatic(b, key, value), nil
	case Mutable:
		b.kind = "MutableHashTable"
		return &mutable[K, V]{base: base{traits: b}, entries: newEntries(key, value, b.to.Shape.Elements())}, nil
	}
	b.kind = "MutableDenseHashTable"
	return newDense(b, o, key, hash, value)
}

func unsupported(o Options) error {
	return status.Unimplementedf("There are no tables from %v to %v", o.Key, o.Value)
}

// traits are the constant properties of a table.
type traits struct {
	kind     string
	from, to Side
}

func (t *traits) Key() Side   { return t.from }
func (t *traits) Value() Side { return t.to }

func (t *traits) describe(n int, bytes int64) string {
	return fmt.Sprintf("%s %v%v->%v%v, %d entries, %d bytes", t.kind, t.from.DType, t.from.Shape, t.to.DType, t.to.Shape, n, bytes)
}

// base is common to tables of all kinds.
type base struct {
	traits
	keeper  durable.Keeper
	deleted atomic.Bool
}

// Show adds to a listing whether the table is durable.
func (b *base) Show(r *view.Resource) { r.Durable = b.keeper.Kept() }

func (b *base) Deleted() bool { return b.deleted.Load() }
func (b *base) Close()        { b.deleted.Store(true) }
