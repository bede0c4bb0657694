"""Random pipelines of tf.data: Python expressions, so that a finding can be read and run again.

A pipeline is a string like "D.range(5).map(F[2]).batch(2, drop_remainder=True)". F are functions of one integer vector of any
shape, P predicates of it.
"""
import atexit
import itertools
import os
import random
import shutil
import tempfile

import tensorflow as tf
from tensorflow.python.data.experimental.ops import compression_ops, map_defun
from tensorflow.python.data.ops import dataset_ops, structured_function
from tensorflow.python.ops import gen_dataset_ops, gen_experimental_dataset_ops

D = tf.compat.v1.data.Dataset


def _total(x):
    return tf.reduce_sum(x)


F = [
    lambda x: x + 1,
    lambda x: x * x - 3,
    lambda x: tf.concat([tf.reshape(x, [-1]), [7]], 0),
    lambda x: _total(x) % 5,
    lambda x: tf.cond(_total(x) > 4, lambda: x, lambda: -x),
    lambda x: tf.while_loop(lambda y: tf.reduce_sum(tf.abs(y)) < 20, lambda y: y * 2 + 1, [x], shape_invariants=[x.shape])[0],
]
# Some elements fail, each with a message that names it.
FAILING = [
    lambda x: tf.debugging.check_numerics(1 / tf.cast(_total(x) % 4, tf.float64), "bad") > 0,
]
P = [
    lambda x: _total(x) % 2 == 0,
    lambda x: _total(x) < 9,
    lambda x: tf.greater(tf.size(x), 1),
    lambda x: True,
]
# Datasets made of an element.
M = [
    lambda x: D.from_tensors(x).repeat(2),
    lambda x: D.from_tensor_slices(tf.reshape(x, [-1])),
    lambda x: D.range(_total(x) % 4),
    lambda x: D.from_tensor_slices(tf.reshape(x, [-1])).map(lambda y: y * 10).batch(2),
]


def strip(x):
    """One tensor of what may be a tuple."""
    return x if not isinstance(x, tuple) else tf.concat([tf.reshape(strip(y), [-1]) for y in x], 0)


def scan(state, x):
    total = state + _total(x)
    return total, total


def of_variant(make, spec):
    """A transformation by an op that Python has no method for."""
    def apply(dataset):
        element = spec(dataset.element_spec)
        return dataset_ops.DatasetV1Adapter(dataset_ops._VariantDataset(make(  # pylint: disable=protected-access
            dataset._variant_tensor, output_types=[element.dtype], output_shapes=[element.shape]), element))  # pylint: disable=protected-access
    return apply


def sampled(rate, seed):
    return of_variant(
        lambda v, **declared: gen_experimental_dataset_ops.sampling_dataset(v, rate=rate, seed=seed, seed2=7, **declared), lambda e: e)


def sliding(size, shift, stride, drop):
    return of_variant(
        lambda v, **declared: gen_experimental_dataset_ops.sliding_window_dataset(v, size, shift, stride, drop_remainder=drop, **declared),
        lambda e: tf.TensorSpec(tf.TensorShape([None]).concatenate(e.shape), e.dtype))


def wrapped(dataset):
    """What is wrapped and unwrapped is what it was."""
    v = gen_dataset_ops.unwrap_dataset_variant(gen_dataset_ops.wrap_dataset_variant(dataset._variant_tensor))  # pylint: disable=protected-access
    return dataset_ops.DatasetV1Adapter(dataset_ops._VariantDataset(v, dataset.element_spec))  # pylint: disable=protected-access


def _variant(dataset):
    return dataset._variant_tensor  # pylint: disable=protected-access


def _number(e):
    """The spec of one number for each element."""
    return tf.TensorSpec([], e.dtype)


def _open(e):
    """The spec of elements of any shape."""
    return tf.TensorSpec(None, e.dtype)


def parts(replicas):
    """Each batch in so many parts."""
    return of_variant(lambda v, **declared: gen_experimental_dataset_ops.rebatch_dataset(v, replicas, **declared), _open)


def sharded(workers, index, policy):
    return of_variant(lambda v, **declared: gen_experimental_dataset_ops.auto_shard_dataset(
        v, num_workers=workers, index=index, auto_shard_policy=policy, **declared), lambda e: e)


def _function(f, **of):
    wrapper = structured_function.StructuredFunctionWrapper(f, "pipelines", add_to_graph=False, **of)
    wrapper.function.add_to_graph(tf.compat.v1.get_default_graph())
    return wrapper.function


def indexed(width):
    """So many numbers of each element, each by its index."""
    def apply(dataset):
        f = _function(lambda x: _total(x) + tf.range(width, dtype=tf.int64), dataset=dataset)
        of = _function(lambda i: (i // width, i % width), input_structure=tf.TensorSpec([], tf.int64))
        return of_variant(lambda v, **declared: gen_experimental_dataset_ops.index_flat_map_dataset(
            v, f.captured_inputs, of.captured_inputs, -2, map_func=f, index_map_func=of, **declared), _number)(dataset)
    return apply


def weighted(other, weights):
    return lambda dataset: of_variant(lambda v, **declared: gen_experimental_dataset_ops.weighted_flat_map_dataset(
        [v, _variant(other)], [tf.constant(w, tf.float64) for w in weights], **declared), _open)(dataset)


def fastest(experiments):
    return lambda dataset: of_variant(lambda v, **declared: gen_experimental_dataset_ops.choose_fastest_dataset(
        [v, _variant(dataset.prefetch(1))], num_experiments=experiments, **declared), _open)(dataset)


FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
_snapshots = itertools.count()


for _file in range(4):
    with open(os.path.join(FOLDER, "lines%d" % _file), "w", encoding="ascii") as _f:
        _f.writelines("%d\n" % (10 * _file + line) for line in range(_file + 1))


def lines(cycle, calls):
    """The numbers in files, whose names can be sharded."""
    files = D.list_files(os.path.join(FOLDER, "lines*"), shuffle=False)
    read = files.interleave(tf.compat.v1.data.TextLineDataset, cycle_length=cycle, num_parallel_calls=calls)
    return read.map(lambda line: tf.strings.to_number(line, tf.int64))


def snapshotted(compression):
    """The first iteration writes the elements, the second reads them.

    There is one shard, so that the order is that of the elements: TensorFlow's fingerprint of a pipeline whose functions call
    functions changes from iteration to iteration, and then it writes again where it could read.
    """
    def apply(dataset):
        path = os.path.join(FOLDER, str(next(_snapshots)))
        return dataset.map(_total).snapshot(
            path, compression=compression, shard_func=lambda x: tf.constant(0, tf.int64), reader_func=lambda datasets: datasets.flat_map(lambda d: d))
    return apply


def legacy_snapshot(compression):
    def apply(dataset):
        path = os.path.join(FOLDER, str(next(_snapshots)))
        return of_variant(lambda v, **declared: gen_experimental_dataset_ops.snapshot_dataset(
            v, path, compression=compression, **declared), lambda e: e)(dataset)
    return apply


def compressed(x):
    return compression_ops.uncompress(compression_ops.compress(x), tf.TensorSpec(x.shape, x.dtype))


def by_rows(x):
    f = tf.function(lambda r: r * 3 - 1, input_signature=[tf.TensorSpec([], tf.int64)])
    return map_defun.map_defun(f, [tf.reshape(x, [-1])], [tf.int64], [[]])[0]


def optional(x):
    return tf.experimental.Optional.from_value(x)


def dropped(x):
    """An optional of numbers above two, of no others."""
    some, none = tf.experimental.Optional.from_value(x), tf.experimental.Optional.empty(tf.TensorSpec(x.shape, x.dtype))
    return tf.cond(_total(x) > 2, lambda: some, lambda: none)


def options():
    o = tf.data.Options()
    o.deterministic = True
    o.experimental_optimization.map_and_batch_fusion = False
    return o


def sparse(x):
    return tf.sparse.from_dense(tf.reshape(x, [-1]))


def dense(x):
    return tf.concat([tf.reshape(x.indices, [-1]), x.values, x.dense_shape], 0)


def ragged(x):
    if not isinstance(x, tf.RaggedTensor):  # of elements of one shape
        return tf.reshape(x, [-1])
    return tf.concat([tf.reshape(x.flat_values, [-1])] + [tf.cast(s, tf.int64) for s in x.nested_row_splits], 0)


def _example(i):
    int64s = lambda *values: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    features = {"z dense": int64s(i, -i), "sparse": int64s(*range(i)), "ragged": int64s(*range(i, 6)), "padded": int64s(*[i] * (i % 4))}
    if i == 3:
        del features["z dense"]
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


EXAMPLES = [_example(i) for i in range(7)]


def parsed(size, calls):
    """Parses examples that the elements choose, and makes a number of all that is in a batch.

    Not a vector: for shapes that differ, the op that TensorFlow makes of a map and a batch fails even where it would drop the batch.
    """
    features = {
        "z dense": tf.io.FixedLenFeature([2], tf.int64, default_value=[8, 9]),
        "padded": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-4),
        "sparse": tf.io.VarLenFeature(tf.int64),
        "ragged": tf.io.RaggedFeature(tf.int64),
    }
    flat = lambda e: tf.concat([
        tf.reshape(x, [-1]) for x in (e["z dense"], e["padded"], e["sparse"].indices, e["sparse"].values, e["sparse"].dense_shape,
                                      e["ragged"].values, tf.cast(e["ragged"].row_splits, tf.int64))], 0)
    number = lambda v: tf.reduce_sum(v * tf.range(1, tf.size(v, tf.int64) + 1))
    return lambda dataset: (
        dataset.map(lambda x: tf.gather(EXAMPLES, _total(x) % 7)).batch(size)
        .apply(tf.data.experimental.parse_example_dataset(features, num_parallel_calls=calls)).map(lambda e: number(flat(e))))


class Maker:
    """Makes pipelines of a seed."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, *choices):
        return self.r.choice(choices)

    def source(self):
        n, m = self.r.randint(0, 12), self.r.randint(1, 4)
        return self.pick(
            "D.range(%d)" % n,
            "D.range(%d, %d, %d)" % (n, n - 9, -m),
            "D.from_tensors(tf.constant(%r, tf.int64))" % [self.r.randint(-5, 9) for _ in range(m)],
            "D.from_tensor_slices(tf.reshape(tf.range(%d, dtype=tf.int64), [%d, %d]))" % (n * m, n, m),
            "D.from_tensor_slices(tf.constant(%r, tf.int64))" % [self.r.randint(-5, 9) for _ in range(n)],
            "lines(%d, %s)" % (m, self.pick(None, 2)),
        )

    def step(self, depth):
        r = self.r
        n = r.randint(1, 6)
        calls = self.pick("", ", num_parallel_calls=%d" % n)
        steps = [
            ".map(F[%d]%s)" % (r.randrange(len(F)), calls),
            ".filter(P[%d])" % r.randrange(len(P)),
            ".take(%d)" % r.randint(-1, 9),
            ".skip(%d)" % r.randint(0, 5),
            ".repeat(%d)" % r.randint(1, 3),
            ".shard(%d, %d)" % (n, r.randrange(n)),
            ".batch(%d, drop_remainder=%s).map(strip)" % (n, r.random() < .5),
            ".map(lambda x: tf.reshape(x, [-1])).padded_batch(%d, padded_shapes=[%s])" % (n, self.pick("None", "400")),
            ".map(lambda x: tf.reshape(x, [-1])).unbatch()",
            ".flat_map(M[%d])" % r.randrange(len(M)),
            ".interleave(M[%d], cycle_length=%d, block_length=%d%s)" % (r.randrange(len(M)), n, r.randint(1, 4), calls),
            ".shuffle(%d, seed=%d, reshuffle_each_iteration=%s)" % (r.randint(1, 9), r.randint(1, 99), r.random() < .5),
            ".prefetch(%d)" % r.randint(0, 4),
            ".cache()",
            ".enumerate().map(lambda i, x: x + i)",
            ".window(%d, shift=%d, stride=%d, drop_remainder=%s).flat_map(lambda w: w)" % (n, r.randint(1, 4), r.randint(1, 3), r.random() < .5),
            ".apply(tf.data.experimental.group_by_window(lambda x: tf.reduce_sum(x) %% %d, lambda k, w: w.map(lambda x: x + k), %d))" % (n, r.randint(1, 4)),
            ".scan(tf.constant(0, tf.int64), scan)",
            ".map(lambda x: tf.reduce_sum(x)).unique()",
            ".take_while(P[%d])" % r.randrange(len(P)),
            ".apply(tf.data.experimental.ignore_errors())",
            ".apply(sampled(%s, %d))" % (self.pick("0.", ".4", ".9", "2."), r.randint(1, 99)),
            ".map(_total).apply(sliding(%d, %d, %d, %s))" % (n, r.randint(1, 4), r.randint(1, 3), r.random() < .5),
            ".apply(parsed(%d, %d))" % (n, r.randint(1, 3)),
            ".apply(wrapped)",
            ".map(_total).batch(%d).rebatch(%d, drop_remainder=%s).map(strip)" % (r.randint(1, 5), n, r.random() < .5),
            ".map(_total).batch(%d).apply(parts(%d))" % (r.randint(1, 5), r.randint(1, 3)),
            ".apply(sharded(%d, %d, %d))" % (n, r.randrange(n), self.pick(0, 2, -1)),
            ".apply(indexed(%d))" % r.randint(1, 3),
            ".apply(fastest(%d))" % r.randint(1, 4),
            ".apply(snapshotted(%r))" % self.pick(None, "GZIP", "SNAPPY", "AUTO"),
            ".apply(legacy_snapshot(%r))" % self.pick("", "GZIP", "SNAPPY"),
            ".map(compressed%s)" % calls,
            ".map(by_rows%s)" % calls,
            ".map(optional%s).map(lambda o: o.get_value())" % calls,
            ".map(dropped).filter(lambda o: o.has_value()).map(lambda o: o.get_value())",
            ".with_options(options())",
            ".map(sparse%s).cache().map(dense)" % calls,
            ".map(lambda x: tf.reshape(x, [-1])).ragged_batch(%d).map(ragged)" % n,
            ".map(lambda x: tf.reshape(x, [-1])).apply(tf.data.experimental.dense_to_sparse_batch(%d, [400])).map(dense)" % n,
            ".apply(tf.data.experimental.assert_cardinality(%d))" % r.randint(0, 9),
            ".prefetch(tf.data.AUTOTUNE)",
            ".map(FAILING[0]%s).map(lambda x: tf.cast(x, tf.int64))" % calls,
        ]
        if depth > 0:
            other = self.pipeline(depth - 1, 2)
            steps += [
                ".concatenate(%s)" % other,
                ".map(_total).apply(weighted(%s.map(_total), (%s, %s)))" % (other, self.pick("1.", ".3", "5."), self.pick("1.", ".4", "2.5")),
                ".map(_total).enumerate().map(lambda i, x: x).apply(lambda d: D.choose_from_datasets([d, %s.map(_total)], D.range(30).map(lambda x: x %% 2), "
                "stop_on_empty_dataset=%s))" % (other, r.random() < .5),
                ".map(strip).map(lambda x: tf.reshape(x, [-1])).concatenate(%s.map(lambda x: tf.reshape(x, [-1])))" % other,
            ]
        return r.choice(steps)

    def pipeline(self, depth=2, most=5):
        if depth > 0 and self.r.random() < .2:
            text = "D.zip((%s, %s)).map(lambda *x: strip(x))" % (self.pipeline(depth - 1, 2), self.pipeline(depth - 1, 2))
        else:
            text = self.source()
        for _ in range(self.r.randint(1, most)):
            text += self.step(depth)
        return text


def build(text):
    """The dataset that a pipeline's text says."""
    return eval(text)  # pylint: disable=eval-used
