package selection

import (
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/variant"
)

// unique returns the elements without repetitions.
type unique struct{ input *dataset.Dataset }

func newUnique(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := &unique{in.Dataset(0)}
		if in.Err != nil {
			return k
		}
		if len(k.input.Types) != 1 {
			in.Failf("UniqueDataset only supports inputs with a single component.")
			return k
		}
		switch k.input.Types[0] {
		case tensor.Int32, tensor.Int64, tensor.String:
		default:
			in.Failf("UniqueDataset only supports inputs with a single `tf.int32`, `tf.int64`, or `tf.string` component.")
		}
		return k
	}
}

func (k *unique) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *unique) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator {
		return &seeing{Over: o, pool: e.Pool(), seen: map[string]bool{}}
	})
}

type seeing struct {
	dataset.Over
	pool  *tensor.Pool // counts what was seen
	seen  map[string]bool
	bytes int64
}

// keyBytes is about what a key takes besides its text.
const keyBytes = 64

// add records a key.
func (it *seeing) add(key string) error {
	n := int64(len(key)) + keyBytes
	if err := it.pool.Reserve(n); err != nil {
		return err
	}
	it.seen[key] = true
	it.bytes += n
	return nil
}

func (it *seeing) Close() {
	it.pool.Unreserve(it.bytes)
	it.Over.Close()
}

func (it *seeing) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		e, err := it.Input.Next(c)
		if err != nil {
			return nil, err
		}
		if len(e) != 1 {
			e.Release()
			return nil, status.InvalidArgumentf("UniqueDataset only supports inputs with a single component.")
		}
		key, err := variant.MapKey(e[0])
		if err == nil && !it.seen[key] {
			if err = it.add(key); err == nil {
				return e, nil
			}
		}
		e.Release()
		if err != nil {
			return nil, err
		}
	}
}

func (it *seeing) Save(c *dataset.Call, w *dataset.Writer) {
	keys := slices.Sorted(maps.Keys(it.seen))
	t, err := tensor.FromStrings(tensor.Shape{int64(len(keys))}, keys)
	if err != nil {
		w.Fail(err)
		return
	}
	w.Tensor("seen", t)
	t.Release()
	it.Over.Save(c, w)
}

func (it *seeing) Restore(c *dataset.Call, r *dataset.Reader) {
	if t := r.Tensor("seen"); t != nil {
		if t.DType() != tensor.String {
			r.Fail(status.Errorf(status.DataLoss, "The saved state of a unique dataset is of type %v", t.DType()))
		} else {
			for _, key := range t.Strings() {
				if err := it.add(key); err != nil {
					r.Fail(err)
					break
				}
			}
		}
		t.Release()
	}
	it.Over.Restore(c, r)
}
