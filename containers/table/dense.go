package table

import (
	"slices"
	"sync"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// dense is TensorFlow's MutableDenseHashTable: open addressing in a tensor of keys and one of values, with a row for each bucket. Buckets
// without an entry hold the empty key, or the deleted key if their entry was removed. Importing and exporting pass the tensors themselves;
// the next change copies them.
type dense[K comparable, V any] struct {
	base
	key            element[K]
	value          element[V]
	hash           func(K) uint64
	width          int // elements of one key
	valueWidth     int
	empty, deleted []K
	maxLoad        float32
	pool           *tensor.Pool

	mu sync.RWMutex
	buckets[K, V]
	n int // entries
}

// buckets is the memory of a dense table. It holds a reference to each of its tensors.
type buckets[K comparable, V any] struct {
	keys, values *tensor.Tensor
	k            []K
	v            []V
}

func (b *buckets[K, V]) release() {
	if b.keys != nil {
		b.keys.Release()
		b.values.Release()
	}
	*b = buckets[K, V]{}
}

func newDense[K comparable, V any](t traits, o Options, key element[K], hash func(K) uint64, value element[V]) (Table, error) {
	if !(o.MaxLoad > 0 && o.MaxLoad < 1) {
		return nil, status.InvalidArgumentf("max_load_factor must be between 0 and 1, got: %v", o.MaxLoad)
	}
	if len(o.ValueShape) > 1 {
		return nil, status.InvalidArgumentf("Empty value must be a scalar or a vector, got shape %v", o.ValueShape)
	}
	if s := o.EmptyKey.Shape(); len(s) > 1 {
		return nil, status.InvalidArgumentf("Empty key must be a scalar or a vector, got shape %v", s)
	}
	if a, b := o.EmptyKey.Shape(), o.DeletedKey.Shape(); !a.Equal(b) {
		return nil, status.InvalidArgumentf("Empty and deleted keys must have same shape, got shapes: %v and %v", a, b)
	}
	if o.EmptyKey.DType() != key.dtype || o.DeletedKey.DType() != key.dtype {
		return nil, status.InvalidArgumentf("Key must be type %v but got %v and %v", key.dtype, o.EmptyKey.DType(), o.DeletedKey.DType())
	}
	t.from.Shape = o.EmptyKey.Shape().Clone()
	d := &dense[K, V]{base: base{traits: t}, key: key, value: value, hash: hash, width: o.EmptyKey.Len(), valueWidth: o.ValueShape.Elements(),
		empty: slices.Clone(key.of(o.EmptyKey)), deleted: slices.Clone(key.of(o.DeletedKey)), maxLoad: o.MaxLoad, pool: o.Pool}
	if slices.Equal(d.empty, d.deleted) {
		return nil, status.InvalidArgumentf("Empty and deleted keys cannot be equal")
	}
	fresh, err := d.allocate(o.Buckets)
	if err != nil {
		return nil, err
	}
	d.buckets = fresh
	return d, nil
}

// allocate makes n empty buckets.
func (d *dense[K, V]) allocate(n int64) (buckets[K, V], error) {
	if n < 4 || n&(n-1) != 0 {
		return buckets[K, V]{}, status.InvalidArgumentf("Number of buckets must be at least 4 and a power of 2, got: %d", n)
	}
	keys, err := tensor.New(d.pool, d.key.dtype, tensor.Shape{n, int64(d.width)})
	if err != nil {
		return buckets[K, V]{}, err
	}
	values, err := tensor.Zeros(d.pool, d.value.dtype, tensor.Shape{n, int64(d.valueWidth)})
	if err != nil {
		keys.Release()
		return buckets[K, V]{}, err
	}
	b := d.over(keys, values)
	for i := range int(n) {
		copy(b.k[i*d.width:], d.empty)
	}
	return b, nil
}

// over wraps both tensors and takes over their references.
func (d *dense[K, V]) over(keys, values *tensor.Tensor) buckets[K, V] {
	return buckets[K, V]{keys, values, d.key.of(keys), d.value.of(values)}
}

// size returns the number of buckets.
func (d *dense[K, V]) size() int64 {
	if d.keys == nil {
		return 0
	}
	return d.keys.Shape()[0]
}

func (d *dense[K, V]) Len() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.n
}

func (d *dense[K, V]) Bytes() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return int64(len(d.k))*d.key.size + int64(len(d.v))*d.value.size + d.key.extras(d.k) + d.value.extras(d.v)
}

func (d *dense[K, V]) Describe() string { return d.describe(d.Len(), d.Bytes()) }

// batch interprets keys as the rows of a matrix and returns their number.
func (d *dense[K, V]) batch(keys *tensor.Tensor) (int, error) {
	n := 1
	if keys.Rank() > 0 {
		n = keys.Dim(0)
	}
	if keys.Len() != n*d.width {
		return 0, status.InvalidArgumentf("Expected key shape %v got %v", slices.Concat(tensor.Shape{int64(n)}, d.from.Shape), keys.Shape())
	}
	return n, nil
}

// hashOf returns the hash of a key.
func (d *dense[K, V]) hashOf(key []K) uint64 {
	if len(key) == 1 {
		return d.hash(key[0])
	}
	var h uint64
	for _, k := range key {
		h = combine(h, d.hash(k))
	}
	return h
}

// mark reports whether a key marks buckets without an entry.
func (d *dense[K, V]) mark(key []K) bool {
	return slices.Equal(key, d.empty) || slices.Equal(key, d.deleted)
}

// legal returns an error for keys that mark buckets.
func (d *dense[K, V]) legal(key []K) error {
	switch {
	case !d.mark(key):
		return nil
	case slices.Equal(key, d.empty):
		return status.InvalidArgumentf("Using the empty_key as a table key is not allowed")
	}
	return status.InvalidArgumentf("Using the deleted_key as a table key is not allowed")
}

// allLegal returns an error if any of the keys marks buckets.
func (d *dense[K, V]) allLegal(keys []K) error {
	for i := range len(keys) / d.width {
		if err := d.legal(keys[i*d.width : (i+1)*d.width]); err != nil {
			return err
		}
	}
	return nil
}

// probe looks for a key. It returns the bucket that holds it, or -1 and the bucket that may take it; that is -1 if all buckets are taken.
// The distance between probes grows by one each time, which is TensorFlow's order.
func (d *dense[K, V]) probe(b *buckets[K, V], key []K) (found, free int) {
	free = -1
	n := int64(b.keys.Dim(0))
	at := int64(d.hashOf(key)) & (n - 1)
	for i := int64(1); i <= n; i++ {
		have := b.k[int(at)*d.width : (int(at)+1)*d.width]
		switch {
		case slices.Equal(have, key):
			return int(at), -1
		case slices.Equal(have, d.empty):
			if free < 0 {
				free = int(at)
			}
			return -1, free
		case free < 0 && slices.Equal(have, d.deleted):
			free = int(at)
		}
		at = (at + i) & (n - 1)
	}
	return -1, free
}
