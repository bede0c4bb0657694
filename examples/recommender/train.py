"""Trains a recommender like DLRM (https://arxiv.org/abs/1906.00091) with TensorFlow 2's ParameterServerStrategy.

usage: train.py [--rows N] [--steps N] [--ps N] [--workers N]

The tables of embeddings are divided among the parameter servers. A step concerns only the rows of its examples: its worker fetches them, and
Adagrad changes them where they are. The cluster consists of processes on this machine.

It needs the packages troupe (docs/python.md) and tensorflow.
"""
import argparse

import tensorflow as tf
import troupe

TABLES, WIDTH, NUMBERS, BATCH, RATE = 4, 8, 3, 256, 0.3

flags = argparse.ArgumentParser()
flags.add_argument("--rows", type=int, default=2_500_000, help="of each of the %d tables" % TABLES)
flags.add_argument("--steps", type=int, default=1000)
flags.add_argument("--ps", type=int, default=2)
flags.add_argument("--workers", type=int, default=2)
flags = flags.parse_args()


def examples():
    """What people have clicked on: an item's numbers and its ids, a few of which are much more frequent than the rest."""

    def example(seed):
        x = tf.random.stateless_uniform([BATCH, NUMBERS + TABLES + 1], seed=[seed, 7])
        numbers = x[:, :NUMBERS]
        ids = tf.cast(x[:, NUMBERS:-1] ** 8 * tf.cast(flags.rows, tf.float32), tf.int64)
        liked = tf.reduce_sum(tf.cast(ids % 3 == 0, tf.float32), 1) + numbers[:, 0] - 2.0
        return numbers, ids, tf.cast(x[:, -1] < tf.sigmoid(4.0 * liked), tf.float32)

    return tf.data.Dataset.random(seed=1).map(example).prefetch(2)


class Trained:
    """A variable with what Adagrad remembers of its gradients."""

    def __init__(self, shape, spread):
        def initial(shard_info=None):
            return tf.random.uniform(shard_info.shape if shard_info else shape, -spread, spread)

        def squares(shard_info=None):
            return tf.fill(shard_info.shape if shard_info else shape, 0.1)

        self.value = tf.Variable(initial)
        if hasattr(self.value, "variables"):  # it is divided, and so are the squares, on the same tasks
            self.parts = list(zip(self.value.variables, tf.Variable(squares).variables))
        else:
            with strategy.extended.colocate_vars_with(self.value):
                self.parts = [(self.value, tf.Variable(squares))]


def adagrad(v, squares, gradient):
    if isinstance(gradient, tf.IndexedSlices):
        tf.raw_ops.ResourceSparseApplyAdagradV2(var=v.handle, accum=squares.handle, lr=RATE, epsilon=1e-7, grad=gradient.values, indices=gradient.indices)
    else:
        tf.raw_ops.ResourceApplyAdagradV2(var=v.handle, accum=squares.handle, lr=RATE, epsilon=1e-7, grad=gradient)


cluster = troupe.LocalCluster(ps=flags.ps, worker=flags.workers)  # until the program ends
strategy = cluster.strategy(variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(1 << 16, max_shards=flags.ps))
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    tables = [Trained([flags.rows, WIDTH], 0.3) for _ in range(TABLES)]
    pairs = TABLES * (TABLES + 1) // 2  # of a table's vector, or that of the numbers, with another
    bottom, hidden, top = Trained([NUMBERS, WIDTH], 0.5), Trained([WIDTH + pairs, 32], 0.2), Trained([32, 1], 0.2)
parts = [part for trained in (*tables, bottom, hidden, top) for part in trained.parts]

@tf.function
def step(iterator):
    numbers, ids, clicked = next(iterator)
    with tf.GradientTape() as tape:
        dense = tf.nn.relu(numbers @ bottom.value)
        vectors = tf.stack([dense] + [tf.nn.embedding_lookup(t.value, ids[:, i]) for i, t in enumerate(tables)], axis=1)
        products = tf.matmul(vectors, vectors, transpose_b=True)
        alike = tf.boolean_mask(products, tf.linalg.band_part(tf.ones([TABLES + 1, TABLES + 1]), 0, -1) - tf.eye(TABLES + 1) > 0, axis=1)
        logits = tf.nn.relu(tf.concat([dense, alike], 1) @ hidden.value) @ top.value
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=clicked, logits=logits[:, 0]))
    for (v, squares), gradient in zip(parts, tape.gradient(loss, [v for v, _ in parts])):
        adagrad(v, squares, gradient)
    return loss

print("%d rows in %d parts on %d parameter servers" % (TABLES * flags.rows, sum(len(t.parts) for t in tables), flags.ps), flush=True)
iterator = iter(coordinator.create_per_worker_dataset(examples))
losses = []
while len(losses) < flags.steps:
    scheduled = [coordinator.schedule(step, args=(iterator,)) for _ in range(min(100, flags.steps - len(losses)))]
    losses += coordinator.fetch(scheduled)
    print("after %d steps: loss %.3f" % (len(losses), sum(map(float, losses[-50:])) / len(losses[-50:])), flush=True)
