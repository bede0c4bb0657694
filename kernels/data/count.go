package data

import (
	"fmt"
	"io"

	"github.com/troupe-run/troupe/graph/status"
)

// Datasets that omit elements by their position, or repeat them: take, skip, shard, repeat.

// take returns the first elements; all for a negative count.
type take struct {
	input *Dataset
	count int64
}

func newTake(*settings) maker {
	return func(in *inputs) kind { return &take{in.dataset(0), in.int(1, "count")} }
}

func (k *take) cardinality(q *query) int64 {
	switch n := k.input.cardinality(q); {
	case n == unknown:
		if k.count == 0 {
			return 0
		}
		return unknown
	case n == infinite:
		return max(k.count, infinite)
	case k.count < 0:
		return n
	default:
		return min(n, k.count)
	}
}

func (k *take) changesNothing() bool { return k.count < 0 }

func (k *take) stageName() string {
	if k.count == 0 {
		return "EmptyTake"
	}
	return "FiniteTake"
}

func (k *take) at(c *Call, i int64) (Element, error) { return k.input.at(c, i) }

func (k *take) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &taking{over: o, count: k.count} })
}

type taking struct {
	over
	count, given int64
}

func (it *taking) Next(c *Call) (Element, error) {
	if it.count >= 0 && it.given >= it.count {
		return nil, io.EOF
	}
	e, err := it.input.Next(c)
	if err == nil {
		it.given++
	}
	return e, err
}

func (it *taking) Save(c *Call, w *Writer) {
	w.Int("given", it.given)
	it.over.Save(c, w)
}

func (it *taking) Restore(c *Call, r *Reader) {
	it.given = r.Place("given")
	it.over.Restore(c, r)
}

// skip omits the first elements; all for a negative count.
type skip struct {
	input *Dataset
	count int64
}

func newSkip(*settings) maker {
	return func(in *inputs) kind { return &skip{in.dataset(0), in.int(1, "count")} }
}

func (k *skip) cardinality(q *query) int64 {
	switch n := k.input.cardinality(q); {
	case k.count < 0:
		return 0
	case n < 0:
		return n
	default:
		return max(n-k.count, 0)
	}
}

func (k *skip) changesNothing() bool { return k.count == 0 }

func (k *skip) stageName() string {
	if k.count < 0 {
		return "EmptySkip"
	}
	return "FiniteSkip"
}

func (k *skip) shufflable() error {
	if k.count < 0 {
		return status.Errorf(status.FailedPrecondition, "Global shuffling does not support empty dataset or skipping the entire dataset. Got skip(%d).", k.count)
	}
	return k.input.shufflable()
}

func (k *skip) at(c *Call, i int64) (Element, error) { return k.input.at(c, i+k.count) }

func (k *skip) open(e *Env) (Iterator, error) {
	return openOver(e, k.input, func(o over) Iterator { return &skipping{over: o, count: k.count} })
}

type skipping struct {
	over
	count, skipped int64
}

func (it *skipping) Next(c *Call) (Element, error) {
	if it.count < 0 {
		return nil, io.EOF
	}
	n, err := skipOver(c, it.input, it.count-it.skipped)
	if err != nil {
		return nil, err
	}
	it.skipped += n
	return it.input.Next(c)
}

// skipOver skips n elements. As in TensorFlow, those before a failed one do not count.
func skipOver(c *Call, input Iterator, n int64) (skipped int64, err error) {
	for range n {
		e, err := input.Next(c)
		if err != nil {
			return 0, err
		}
		e.release()
	}
	return n, nil
}

func (it *skipping) Save(c *Call, w *Writer) {
	w.Int("skipped", it.skipped)
	it.over.Save(c, w)
}

func (it *skipping) Restore(c *Call, r *Reader) {
	it.skipped = r.Place("skipped")
	it.over.Restore(c, r)
}

// shard returns every shards-th element, starting with the one at index.
type shard struct {
	input            *Dataset
	shards, index    int64
	requiresNonEmpty bool
}

// shardHint stands for the number of shards that AutoShardDataset fills in.
const shardHint = -1

func newShard(s *settings) maker {
	nonEmpty := s.Bool("require_non_empty")
	return func(in *inputs) kind {
		k := &shard{in.dataset(0), in.int(1, "num_shards"), in.int(2, "index"), nonEmpty}
		if in.err == nil && k.shards <= 0 && k.shards != shardHint {
			in.failf("Number of shards must be greater than zero (currently num_shards = %d).", k.shards)
		}
		if in.err == nil && k.shards != shardHint && (k.index < 0 || k.index >= k.shards) {
			in.failf("Index must be between 0 and %d (currently index = %d).", k.shards-1, k.index)
		}
		return k
	}
}

func (k *shard) cardinality(q *query) int64 {
	n := k.input.cardinality(q)
	if n < 0 || k.shards == shardHint {
		return n
	}
	size := n / k.shards
	if k.index < n%k.shards {
		size++
	}
	return size
}

func (k *shard) arguments() string { return fmt.Sprintf("%d, %d", k.shards, k.index) }

func (k *shard) changesNothing() bool { return k.shards == 1 }

func (k *shard) at(c *Call, i int64) (Element, error) { return k.input.at(c, k.index+i*k.shards) }

func (k *shard) open(e *Env) (Iterator, error) {
	if k.shards == shardHint {
		return nil, status.Errorf(status.FailedPrecondition, "`tf.data.Dataset.shard(SHARD_HINT, ...)` can only be used in `tf.distribute.Strategy.experimental_distribute_dataset()` with `tf.data.experimental.AutoShardPolicy.HINT` policy, or tf.data service with `tf.data.experimental.service.ShardingPolicy.HINT` processing mode.")
	}
	return openOver(e, k.input, func(o over) Iterator { return &sharding{over: o, of: k} })
}

type sharding struct {
	over
	of   *shard
	seen int64
}

func (it *sharding) Next(c *Call) (Element, error) {
	n := it.of.shards
	skipped, err := skipOver(c, it.input, ((it.of.index-it.seen)%n+n)%n)
	if err != nil {
		return nil, err
	}
	it.seen += skipped
	e, err := it.input.Next(c)
	if err != nil {
		return nil, err
	}
	it.seen++
	if !it.of.requiresNonEmpty || it.seen >= n {
		return e, nil
	}
	_, err = skipOver(c, it.input, n-it.seen)
	if atEnd(err) {
		err = status.InvalidArgumentf("Could not apply FILE based sharding: the dataset only has %d file(s), which is not enough for the required %d shards/workers. If you are using datasets with distribution strategy, consider setting the auto sharding policy to either DATA or OFF using the `experimental_distribute.auto_shard_policy` option of `tf.data.Options()`. Or, split your input files into a larger number of small files such that number of files is greater than number of shards/workers.", it.seen, n)
	}
	if err != nil {
		e.release()
		return nil, err
	}
	it.seen = n
	return e, nil
}

func (it *sharding) Save(c *Call, w *Writer) {
	w.Int("seen", it.seen)
	it.over.Save(c, w)
}

func (it *sharding) Restore(c *Call, r *Reader) {
	it.seen = r.Place("seen")
	it.over.Restore(c, r)
}

// repeat repeats the elements count times; indefinitely for a negative count.
type repeat struct {
	input *Dataset
	count int64
}

func newRepeat(*settings) maker {
	return func(in *inputs) kind { return &repeat{in.dataset(0), in.int(1, "count")} }
}

func (k *repeat) cardinality(q *query) int64 {
	n := k.input.cardinality(q)
	switch {
	case k.count < 0 && n == 0:
		return 0
	case k.count < 0:
		return infinite
	}
	return times(n, k.count)
}

func (k *repeat) shufflable() error {
	if err := k.input.shufflable(); err != nil {
		return err
	}
	if k.count <= 0 {
		return status.Errorf(status.FailedPrecondition, "`repeat(%d)` does not support random access of tf.data datasets.", k.count)
	}
	return nil
}

func (k *repeat) changesNothing() bool { return k.count == 1 }

func (k *repeat) stageName() string {
	switch {
	case k.count == 0:
		return "EmptyRepeat"
	case k.count < 0:
		return "ForeverRepeat"
	}
	return "FiniteRepeat"
}

// at assumes that a round is as long as the input's cardinality. If that is unknown, only the first round can be indexed.
func (k *repeat) at(c *Call, i int64) (Element, error) {
	if n := k.input.cardinality(accessBy(c)); n > 0 {
		i %= n
	}
	return k.input.at(c, i)
}

func (k *repeat) open(e *Env) (Iterator, error) { return &repeating{of: k, env: e}, nil }

type repeating struct {
	of    *repeat
	env   *Env
	input Iterator // nil between rounds
	round int64
	given bool // the round returned an element
}

func (it *repeating) Next(c *Call) (Element, error) {
	for it.of.count < 0 || it.round < it.of.count {
		if it.input == nil {
			input, err := it.of.input.open(it.env.input(it.round))
			if err != nil {
				return nil, err
			}
			it.input, it.given = input, false
		}
		e, err := it.input.Next(c)
		if !atEnd(err) {
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

func (it *repeating) Save(c *Call, w *Writer) {
	w.Int("round", it.round)
	w.Bool("given", it.given)
	w.Bool("open", it.input != nil)
	if it.input != nil {
		it.input.Save(c, w.In("input"))
	}
}

func (it *repeating) Restore(c *Call, r *Reader) {
	it.round, it.given = r.Place("round"), r.Bool("given")
	if !r.Bool("open") {
		return
	}
	input, err := it.of.input.open(it.env.input(it.round))
	if err != nil {
		r.Fail(err)
		return
	}
	it.input = input
	input.Restore(c, r.In("input"))
}
