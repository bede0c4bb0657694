package table

import (
	"cmp"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/durable"
)

// errDeleted returns the error of operations on a table that has been deleted.
func (d *dense[K, V]) errDeleted() error {
	return status.Errorf(status.NotFound, "The %s was deleted.", d.kind)
}

// Find uses only the first of the defaults, as TensorFlow's dense table does.
func (d *dense[K, V]) Find(keys, defaults *tensor.Tensor, allocate func(tensor.DType, tensor.Shape) (*tensor.Tensor, error)) error {
	shape, err := d.checkFind(keys, defaults)
	if err != nil {
		return err
	}
	out, err := allocate(d.to.DType, shape)
	if err != nil {
		return err
	}
	n, err := d.batch(keys)
	if err != nil {
		return err
	}
	in, to, missing := d.key.of(keys), d.value.of(out), d.value.of(defaults)
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.keys == nil {
		return d.errDeleted()
	}
	for i := range n {
		key := in[i*d.width : (i+1)*d.width]
		if err := d.legal(key); err != nil {
			return err
		}
		value := missing[:min(d.valueWidth, len(missing))]
		if at, _ := d.probe(&d.buckets, key); at >= 0 {
			value = d.v[at*d.valueWidth : (at+1)*d.valueWidth]
		}
		d.value.copy(to[i*d.valueWidth:(i+1)*d.valueWidth], value)
	}
	return nil
}

// each calls visit with the entries in b.
func (d *dense[K, V]) each(b *buckets[K, V], visit func(key []K, value []V)) {
	for i := range len(b.k) / d.width {
		if key := b.k[i*d.width : (i+1)*d.width]; !d.mark(key) {
			visit(key, b.v[i*d.valueWidth:(i+1)*d.valueWidth])
		}
	}
}

func (d *dense[K, V]) Insert(by *durable.Tx, keys, values *tensor.Tensor) error {
	if err := d.checkEntries(keys, values); err != nil {
		return err
	}
	n, err := d.batch(keys)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		return d.errDeleted()
	}
	in, v := d.key.of(keys), d.value.of(values)
	if err := d.allLegal(in); err != nil {
		return err
	}
	if err := d.keeper.Admits(d.need(in, v)); err != nil {
		return err
	}
	if err := d.grow(n); err != nil {
		return err
	}
	for i := range n {
		added, err := d.put(&d.buckets, in[i*d.width:(i+1)*d.width], v[i*d.valueWidth:(i+1)*d.valueWidth])
		if err != nil {
			return err // which cannot happen: there is room
		}
		d.n += added
	}
	d.keeper.Change(by, func(r durable.Recorder) { recordSet(r, d.key, d.value, in, d.width, v, d.valueWidth) })
	return nil
}

// need returns what inserting entries needs on disk.
func (d *dense[K, V]) need(keys []K, values []V) durable.Need {
	if !d.keeper.Kept() {
		return durable.Removes()
	}
	return putting(d.key, d.value, keys, d.width, values, func(key []K) []V {
		if at, _ := d.probe(&d.buckets, key); at >= 0 {
			return d.v[at*d.valueWidth : (at+1)*d.valueWidth]
		}
		return nil
	})
}

// encoded returns about how many bytes the entries in b take on disk, if the table is durable.
func (d *dense[K, V]) encoded(b *buckets[K, V]) (n int) {
	if d.keeper.Kept() {
		d.each(b, func(key []K, value []V) { n += encoded(d.key, d.value, key, d.width, value) })
	}
	return n
}

// put adds an entry or replaces its value, and returns the number of entries added.
func (d *dense[K, V]) put(b *buckets[K, V], key []K, value []V) (added int, err error) {
	at, free := d.probe(b, key)
	if at < 0 {
		if free < 0 {
			return 0, status.Internalf("Internal error in MutableDenseHashTable insert")
		}
		at, added = free, 1
		d.key.keep(b.k[at*d.width:], key)
	}
	for j, v := range value {
		d.value.set(b.v, at*d.valueWidth+j, v)
	}
	return added, nil
}

// grow makes room for n more entries, and ensures that the table owns its buckets. As in TensorFlow, all n count as new.
func (d *dense[K, V]) grow(n int) error {
	want, size := float32(d.n+n), d.size()
	if want <= float32(size)*d.maxLoad {
		return d.own()
	}
	for want > float32(size)*d.maxLoad {
		size <<= 1
	}
	fresh, err := d.allocate(size)
	if err != nil {
		return err
	}
	entries := 0
	for i := range int(d.size()) {
		key := d.k[i*d.width : (i+1)*d.width]
		if d.mark(key) {
			continue
		}
		added, err := d.put(&fresh, key, d.v[i*d.valueWidth:(i+1)*d.valueWidth])
		if err != nil {
			fresh.release()
			return err
		}
		entries += added
	}
	d.release()
	d.buckets, d.n = fresh, entries
	return nil
}

// own copies the buckets if they are shared.
func (d *dense[K, V]) own() error {
	if d.keys.Exclusive() && d.values.Exclusive() {
		return nil
	}
	keys, err := d.keys.Clone(d.pool)
	if err != nil {
		return err
	}
	values, err := d.values.Clone(d.pool)
	if err != nil {
		keys.Release()
		return err
	}
	d.release()
	d.buckets = d.over(keys, values)
	return nil
}

func (d *dense[K, V]) Remove(by *durable.Tx, keys *tensor.Tensor) error {
	if err := d.checkKeys(keys); err != nil {
		return err
	}
	n, err := d.batch(keys)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		return d.errDeleted()
	}
	in := d.key.of(keys)
	if err := cmp.Or(d.keeper.Admits(durable.Removes()), d.allLegal(in)); err != nil {
		return err
	}
	if err := d.own(); err != nil {
		return err
	}
	for i := range n {
		if at, _ := d.probe(&d.buckets, in[i*d.width:(i+1)*d.width]); at >= 0 {
			d.n--
			copy(d.k[at*d.width:], d.deleted)
		}
	}
	d.keeper.Change(by, func(r durable.Recorder) { recordDelete(r, d.key, in, d.width) })
	return nil
}

func (d *dense[K, V]) options(o *Options) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.keys == nil {
		return d.errDeleted()
	}
	o.Kind, o.Buckets, o.MaxLoad = Dense, d.keys.Shape()[0], d.maxLoad
	for _, k := range []struct {
		to  **tensor.Tensor
		key []K
	}{{&o.EmptyKey, d.empty}, {&o.DeletedKey, d.deleted}} {
		t, err := tensor.New(tensor.Host, d.from.DType, d.from.Shape)
		if err != nil {
			return err
		}
		copy(d.key.of(t), k.key)
		*k.to = t
	}
	return nil
}

// Import takes buckets in the form returned by Export.
func (d *dense[K, V]) Import(by *durable.Tx, keys, values *tensor.Tensor) error {
	if err := d.checkTypes(keys, values); err != nil {
		return err
	}
	if s := keys.Shape(); len(s) != 2 || s[0] == 0 || s[1] != int64(d.width) {
		return status.InvalidArgumentf("Expected a matrix of buckets with %d columns and at least a row for keys, got shape %v", d.width, s)
	}
	if want := (tensor.Shape{keys.Shape()[0], int64(d.valueWidth)}); !values.Shape().Equal(want) {
		return status.InvalidArgumentf("Expected shape %v for value, got %v", want, values.Shape())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Deleted() {
		return d.errDeleted()
	}
	fresh := d.over(keys.Retain(), values.Retain())
	if err := d.keeper.Admits(durable.Replaces(d.encoded(&d.buckets), d.encoded(&fresh))); err != nil {
		fresh.release()
		return err
	}
	gone := d.buckets
	defer gone.release()
	d.buckets = fresh
	d.n = 0
	d.each(&d.buckets, func([]K, []V) { d.n++ })
	d.keeper.Change(by, func(r durable.Recorder) {
		d.each(&gone, func(key []K, _ []V) { recordDelete(r, d.key, key, d.width) })
		d.each(&d.buckets, func(key []K, value []V) { recordSet(r, d.key, d.value, key, d.width, value, d.valueWidth) })
	})
	return nil
}

func (d *dense[K, V]) Export(*tensor.Pool) (keys, values *tensor.Tensor, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.keys == nil {
		return nil, nil, d.errDeleted()
	}
	return d.keys.Retain(), d.values.Retain(), nil
}

// Close releases the buckets.
func (d *dense[K, V]) Close() {
	d.base.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release()
	d.n = 0
}
