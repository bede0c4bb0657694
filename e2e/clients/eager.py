"""A program of TensorFlow 2 that uses two tasks of a cluster one op at a time, as remote devices.

usage: eager.py ADDRESS ADDRESS     the addresses of the tasks of a job worker
"""
import sys
import tempfile

import numpy as np
import tensorflow as tf

tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({"worker": sys.argv[1:]}), job_name="client")
FIRST, SECOND = ("/job:worker/replica:0/task:%d/device:CPU:0" % i for i in range(2))


def same(got, want):
    np.testing.assert_allclose(got.numpy() if hasattr(got, "numpy") else got, want)


def on(tensor, device):
    assert tensor.device == device, tensor.device


def fails(error, text, call):
    try:
        call()
    except error as e:
        assert text in e.message, e.message
        return
    raise AssertionError("no %s" % error.__name__)


def ops():
    with tf.device(FIRST):
        x = tf.constant([1.0, 2.0])
        y = x + x * 3.0
    on(y, FIRST)
    same(y, [4.0, 8.0])
    with tf.device(FIRST):
        both = tf.split(tf.range(6), 2)
        words = tf.strings.join([tf.constant("a"), tf.constant("b" * 1000)])
    same(both[1], [3, 4, 5])
    assert words.numpy() == b"a" + b"b" * 1000
    with tf.device(FIRST):
        large = tf.ones([1000, 1000]) * 2.0
        same(tf.reduce_sum(large), 2e6)
    same(large[999], np.full(1000, 2.0))


def copies():
    with tf.device(FIRST):
        x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.device(SECOND):
        y = tf.matmul(x, x)  # x goes from task to task
        z = tf.identity(np.float32([1.0, 1.0]))
    on(y, SECOND)
    same(y, [[7.0, 10.0], [15.0, 22.0]])
    with tf.device(FIRST):
        same(y * z, [[7.0, 10.0], [15.0, 22.0]])
    same(tf.identity(y) + 1.0, [[8.0, 11.0], [16.0, 23.0]])  # the op is the client's


def variables():
    with tf.device(FIRST):
        v = tf.Variable([1.0, 2.0])
        w = tf.Variable(3)
    v.assign_add([1.0, 1.0])
    w.assign(w * 2)
    same(v, [2.0, 3.0])
    assert int(w) == 6
    with tf.device(FIRST):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(v * v)
        same(tape.gradient(loss, v), [4.0, 6.0])


def functions():
    @tf.function
    def multiply(x, y):
        return tf.matmul(x, y)

    with tf.device(FIRST):
        here = tf.ones([2, 3])
    with tf.device(SECOND):
        there = tf.ones([3, 2]) * 2.0
        product = multiply(here, there)  # here is fetched from the first task
    on(product, SECOND)
    same(product, [[6.0, 6.0], [6.0, 6.0]])
    with tf.device(FIRST):
        count = tf.Variable(0.0)

    @tf.function
    def scale(x, by):
        return x * by

    @tf.function
    def step(x):
        with tf.device(FIRST):
            count.assign_add(1.0)
            total = tf.constant(0.0)
            for i in tf.range(4):
                total += scale(x, tf.cast(i, tf.float32))
            return total, count + 0.0

    with tf.device(FIRST):
        x = tf.constant(2.0)
        for i in range(3):
            total, counted = step(x)
            same(total, 12.0)
            same(counted, i + 1.0)
    mine = tf.Variable(0.0)

    @tf.function
    def counts(x):
        for _ in tf.range(3):
            mine.assign_add(1.0)
        if x > 100.0:
            mine.assign_add(1000.0)
        return x

    with tf.device(FIRST):  # the assignments are the program's part of the function
        same(counts(tf.constant(2.0)), 2.0)
    same(mine, 3.0)


def datasets():
    with tf.device(FIRST):
        elements = iter(tf.data.Dataset.range(6).map(lambda x: x * x).batch(3))
        same(next(elements), [0, 1, 4])
        same(next(elements), [9, 16, 25])
    graph = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.Dataset.range(3).map(lambda x: x + 1)._variant_tensor)
    with tf.device(FIRST):
        came = tf.data.experimental.from_variant(tf.raw_ops.DatasetFromGraph(graph_def=graph), tf.TensorSpec([], tf.int64))
        assert [int(x) for x in came] == [1, 2, 3]  # with its function
        half = tf.raw_ops.AutoShardDataset(
            input_dataset=tf.raw_ops.DatasetFromGraph(graph_def=graph), num_workers=2, index=1, output_types=[tf.int64], output_shapes=[[]]
        )
        assert [int(x) for x in tf.data.experimental.from_variant(half, tf.TensorSpec([], tf.int64))] == [2]


def tables():
    """Datasets of this program with its tables, filled in each of TensorFlow's ways, become the task's."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as words:
        words.write("a\nb\n")
        words.flush()
        names, numbers = tf.constant(["a", "b"]), tf.constant([0, 1], tf.int64)
        for fill in (
            tf.lookup.KeyValueTensorInitializer(names, numbers),
            tf.lookup.TextFileInitializer(words.name, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER),
            tf.data.experimental.DatasetInitializer(tf.data.Dataset.from_tensor_slices((names, numbers))),
        ):
            table = tf.lookup.StaticHashTable(fill, -1)
            graph = tf.raw_ops.DatasetToGraphV2(input_dataset=tf.data.Dataset.from_tensor_slices(["b", "x", "a"]).map(table.lookup)._variant_tensor)
            with tf.device(FIRST):
                for _ in range(2):
                    came = tf.data.experimental.from_variant(tf.raw_ops.DatasetFromGraph(graph_def=graph), tf.TensorSpec([], tf.int64))
                    assert [int(x) for x in came] == [1, -1, 0], type(fill)


def errors():
    @tf.function
    def spreads(x):
        with tf.device(FIRST):
            y = x + 1.0
        with tf.device(SECOND):
            return y * 2.0

    with tf.device(FIRST):
        x = tf.constant([1.0, 2.0])
        fails(tf.errors.InvalidArgumentError, "", lambda: tf.raw_ops.MatMul(a=x, b=x).numpy())
        same(x + x, [2.0, 4.0])  # what follows runs
        fails(tf.errors.InvalidArgumentError, "assertion failed", lambda: (tf.raw_ops.Assert(condition=tf.constant(False), data=[tf.constant("no")]), (x + x).numpy()))
        tf.experimental.async_clear_error()  # an op that was under way may fail after this one, and the client would report that with the next
        same(x + x, [2.0, 4.0])
        same(spreads(x), [4.0, 6.0])


for part in ops, copies, variables, functions, datasets, tables, errors:
    part()
    print(part.__name__, "works", flush=True)
