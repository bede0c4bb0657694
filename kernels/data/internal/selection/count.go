package selection

import (
	"fmt"
	"io"
	"math"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// Datasets that omit elements by their position, or repeat them: take, skip, shard, repeat.

// take returns the first elements; all for a negative count.
type take struct {
	input *dataset.Dataset
	count int64
}

func newTake(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return &take{in.Dataset(0), in.Int(1, "count")} }
}

// Take returns the kind of a dataset of the first elements of another one; all for a negative count.
func Take(input *dataset.Dataset, count int64) dataset.Kind { return &take{input, count} }

func (k *take) Cardinality(q *dataset.Query) int64 {
	switch n := k.input.Cardinality(q); {
	case n == dataset.Unknown:
		if k.count == 0 {
			return 0
		}
		return dataset.Unknown
	case n == dataset.Infinite:
		return max(k.count, dataset.Infinite)
	case k.count < 0:
		return n
	default:
		return min(n, k.count)
	}
}

func (k *take) ChangesNothing() bool { return k.count < 0 }

func (k *take) StageName() string {
	if k.count == 0 {
		return "EmptyTake"
	}
	return "FiniteTake"
}

func (k *take) At(c *dataset.Call, i int64) (dataset.Element, error) { return k.input.At(c, i) }

func (k *take) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &taking{Over: o, count: k.count} })
}

type taking struct {
	dataset.Over
	count, given int64
}

func (it *taking) Next(c *dataset.Call) (dataset.Element, error) {
	if it.count >= 0 && it.given >= it.count {
		return nil, io.EOF
	}
	e, err := it.Input.Next(c)
	if err == nil {
		it.given++
	}
	return e, err
}

func (it *taking) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("given", it.given)
	it.Over.Save(c, w)
}

func (it *taking) Restore(c *dataset.Call, r *dataset.Reader) {
	it.given = r.Place("given")
	it.Over.Restore(c, r)
}

// skip omits the first elements; all for a negative count.
type skip struct {
	input *dataset.Dataset
	count int64
}

func newSkip(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return &skip{in.Dataset(0), in.Int(1, "count")} }
}

func (k *skip) Cardinality(q *dataset.Query) int64 {
	switch n := k.input.Cardinality(q); {
	case k.count < 0:
		return 0
	case n < 0:
		return n
	default:
		return max(n-k.count, 0)
	}
}

func (k *skip) ChangesNothing() bool { return k.count == 0 }

func (k *skip) StageName() string {
	if k.count < 0 {
		return "EmptySkip"
	}
	return "FiniteSkip"
}

func (k *skip) Shufflable() error {
	if k.count < 0 {
		return status.Errorf(status.FailedPrecondition, "Global shuffling does not support empty dataset or skipping the entire dataset. Got skip(%d).", k.count)
	}
	return k.input.Shufflable()
}

func (k *skip) At(c *dataset.Call, i int64) (dataset.Element, error) { return k.input.At(c, i+k.count) }

func (k *skip) Open(e *dataset.Env) (dataset.Iterator, error) {
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &skipping{Over: o, count: k.count} })
}

type skipping struct {
	dataset.Over
	count, skipped int64
}

func (it *skipping) Next(c *dataset.Call) (dataset.Element, error) {
	if it.count < 0 {
		return nil, io.EOF
	}
	n, err := skipOver(c, it.Input, it.count-it.skipped)
	if err != nil {
		return nil, err
	}
	it.skipped += n
	return it.Input.Next(c)
}

// skipOver skips n elements. As in TensorFlow, those before a failed one do not count.
func skipOver(c *dataset.Call, input dataset.Iterator, n int64) (skipped int64, err error) {
	for range n {
		e, err := input.Next(c)
		if err != nil {
			return 0, err
		}
		e.Release()
	}
	return n, nil
}

func (it *skipping) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("skipped", it.skipped)
	it.Over.Save(c, w)
}

func (it *skipping) Restore(c *dataset.Call, r *dataset.Reader) {
	it.skipped = r.Place("skipped")
	it.Over.Restore(c, r)
}

// shard returns every shards-th element, starting with the one at index.
type shard struct {
	input            *dataset.Dataset
	shards, index    int64
	requiresNonEmpty bool
}

// ShardHint stands for the number of shards that AutoShardDataset fills in.
const ShardHint = -1

func newShard(s *dataset.Settings) dataset.Maker {
	nonEmpty := s.Bool("require_non_empty")
	return func(in *dataset.Inputs) dataset.Kind {
		k := &shard{in.Dataset(0), in.Int(1, "num_shards"), in.Int(2, "index"), nonEmpty}
		if in.Err == nil && k.shards <= 0 && k.shards != ShardHint {
			in.Failf("Number of shards must be greater than zero (currently num_shards = %d).", k.shards)
		}
		if in.Err == nil && k.shards != ShardHint && (k.index < 0 || k.index >= k.shards) {
			in.Failf("Index must be between 0 and %d (currently index = %d).", k.shards-1, k.index)
		}
		return k
	}
}

func (k *shard) Cardinality(q *dataset.Query) int64 {
	n := k.input.Cardinality(q)
	if n < 0 || k.shards == ShardHint {
		return n
	}
	size := n / k.shards
	if k.index < n%k.shards {
		size++
	}
	return size
}

func (k *shard) Arguments() string { return fmt.Sprintf("%d, %d", k.shards, k.index) }

func (k *shard) ChangesNothing() bool { return k.shards == 1 }

func (k *shard) At(c *dataset.Call, i int64) (dataset.Element, error) {
	return k.input.At(c, k.index+i*k.shards)
}

func (k *shard) Open(e *dataset.Env) (dataset.Iterator, error) {
	if k.shards == ShardHint {
		return nil, status.Errorf(status.FailedPrecondition, "`tf.data.Dataset.shard(SHARD_HINT, ...)` can only be used in `tf.distribute.Strategy.experimental_distribute_dataset()` with `tf.data.experimental.AutoShardPolicy.HINT` policy, or tf.data service with `tf.data.experimental.service.ShardingPolicy.HINT` processing mode.")
	}
	return dataset.OpenOver(e, k.input, func(o dataset.Over) dataset.Iterator { return &sharding{Over: o, of: k} })
}

type sharding struct {
	dataset.Over
	of   *shard
	seen int64
}

func (it *sharding) Next(c *dataset.Call) (dataset.Element, error) {
	n := it.of.shards
	skipped, err := skipOver(c, it.Input, ((it.of.index-it.seen)%n+n)%n)
	if err != nil {
		return nil, err
	}
	it.seen += skipped
	e, err := it.Input.Next(c)
	if err != nil {
		return nil, err
	}
	it.seen++
	if !it.of.requiresNonEmpty || it.seen >= n {
		return e, nil
	}
	_, err = skipOver(c, it.Input, n-it.seen)
	if dataset.AtEnd(err) {
		err = status.InvalidArgumentf("Could not apply FILE based sharding: the dataset only has %d file(s), which is not enough for the required %d shards/workers. If you are using datasets with distribution strategy, consider setting the auto sharding policy to either DATA or OFF using the `experimental_distribute.auto_shard_policy` option of `tf.data.Options()`. Or, split your input files into a larger number of small files such that number of files is greater than number of shards/workers.", it.seen, n)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	it.seen = n
	return e, nil
}

func (it *sharding) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("seen", it.seen)
	it.Over.Save(c, w)
}

func (it *sharding) Restore(c *dataset.Call, r *dataset.Reader) {
	it.seen = r.Place("seen")
	it.Over.Restore(c, r)
}

// repeat repeats the elements count times; indefinitely for a negative count.
type repeat struct {
	input *dataset.Dataset
	count int64
}

func newRepeat(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind { return &repeat{in.Dataset(0), in.Int(1, "count")} }
}

func (k *repeat) Cardinality(q *dataset.Query) int64 {
	n := k.input.Cardinality(q)
	switch {
	case k.count < 0 && n == 0:
		return 0
	case k.count < 0:
		return dataset.Infinite
	}
	return times(n, k.count)
}

func (k *repeat) Shufflable() error {
	if err := k.input.Shufflable(); err != nil {
		return err
	}
	if k.count <= 0 {
		return status.Errorf(status.FailedPrecondition, "`repeat(%d)` does not support random access of tf.data datasets.", k.count)
	}
	return nil
}

func (k *repeat) ChangesNothing() bool { return k.count == 1 }

func (k *repeat) StageName() string {
	switch {
	case k.count == 0:
		return "EmptyRepeat"
	case k.count < 0:
		return "ForeverRepeat"
	}
	return "FiniteRepeat"
}

// At assumes that a round is as long as the input's cardinality. If that is unknown, only the first round can be indexed.
func (k *repeat) At(c *dataset.Call, i int64) (dataset.Element, error) {
	if n := k.input.Cardinality(c.Indexing()); n > 0 {
		i %= n
	}
	return k.input.At(c, i)
}

func (k *repeat) Open(e *dataset.Env) (dataset.Iterator, error) {
	return &repeating{of: k, env: e}, nil
}

type repeating struct {
	of    *repeat
	env   *dataset.Env
	input dataset.Iterator // nil between rounds
	round int64
	given bool // the round returned an element
}

func (it *repeating) Next(c *dataset.Call) (dataset.Element, error) {
	for it.of.count < 0 || it.round < it.of.count {
		if it.input == nil {
			input, err := it.of.input.Open(it.env.Input(it.round))
			if err != nil {
				return nil, err
			}
			it.input, it.given = input, false
		}
		e, err := it.input.Next(c)
		if !dataset.AtEnd(err) {
			it.given = it.given || err == nil
			return e, err
		}
		it.Close()
		it.round++
		if it.of.count < 0 && !it.given {
			it.round--
			return nil, io.EOF // it would loop forever
		}
		if err := c.Err(); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

func (it *repeating) Close() {
	if it.input != nil {
		it.input.Close()
		it.input = nil
	}
}

func (it *repeating) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("round", it.round)
	w.Bool("given", it.given)
	w.Bool("open", it.input != nil)
	if it.input != nil {
		it.input.Save(c, w.In("input"))
	}
}

func (it *repeating) Restore(c *dataset.Call, r *dataset.Reader) {
	it.round, it.given = r.Place("round"), r.Bool("given")
	if !r.Bool("open") {
		return
	}
	input, err := it.of.input.Open(it.env.Input(it.round))
	if err != nil {
		r.Fail(err)
		return
	}
	it.input = input
	input.Restore(c, r.In("input"))
}

// times multiplies a cardinality by a count, which may be infinite too.
func times(n, count int64) int64 {
	switch {
	case n == 0 || count == 0:
		return 0
	case n < 0:
		return n
	case count < 0:
		return dataset.Infinite
	}
	if p, ok := shapes.MulSize(n, count); ok {
		return p
	}
	return math.MaxInt64
}
