"""Times pipelines of tf.data on TensorFlow's server and on Troupe, in turn, and writes a table in Markdown.

  python speed.py --ours grpc://host:port [--rounds 3] [--only REGEXP] [--out docs/datasets.md]

With --out the table of that file is replaced. Each figure is the best of the rounds.
"""
import argparse
import os
import re
import statistics
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "differential")]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

tf.compat.v1.disable_eager_execution()
tf.get_logger().setLevel("ERROR")

import reference  # noqa: E402

D = tf.compat.v1.data.Dataset


def count(dataset):
    """How many elements there are, counted on the server."""
    return dataset.reduce(tf.constant(0, tf.int64), lambda n, *_: n + 1)


def costly(x):
    a = tf.random.stateless_uniform([256, 256], [x, x])
    return tf.reduce_sum(tf.matmul(a, a))


def text_files(folder):
    names = []
    for i in range(64):
        names.append(os.path.join(folder, "lines-%d" % i))
        with open(names[-1], "w") as f:
            f.writelines("%d %d\n" % (i, j) for j in range(1000))
    return names


def records(folder):
    name = os.path.join(folder, "examples.tfrecord")
    with tf.io.TFRecordWriter(name) as w:
        for i in range(100000):
            w.write(tf.train.Example(features=tf.train.Features(feature={
                "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[i])),
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=[i, i + 1, i + 2, i + 3])),
            })).SerializeToString())
    return name


def picture(folder):
    name = os.path.join(folder, "picture.jpg")
    pixels = np.add.outer(np.arange(300), np.arange(400))[:, :, None] * np.array([1, 2, 3]) % 256
    with tf.Graph().as_default(), tf.compat.v1.Session() as s:
        data = s.run(tf.io.encode_jpeg(pixels.astype(np.uint8)))
    with open(name, "wb") as f:
        f.write(data)
    return name


def trained(folder):
    """Steps of training whose input is made while the one before is computed."""
    del folder
    data = D.range(10**9).map(lambda x: tf.random.stateless_uniform([64, 256], [x, x])).prefetch(2)
    x = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
    w = tf.compat.v1.get_variable("w", [256, 256])
    loss = tf.reduce_mean(tf.matmul(tf.nn.relu(tf.matmul(x, w)), w))
    return tf.compat.v1.train.GradientDescentOptimizer(.01).minimize(loss)


# A name, what makes the node that is run, how often it is run, and how many elements that is.
ROWS = [
    ("range, map, batch of 100", lambda f: count(D.range(200000).map(lambda x: x + 1).batch(100)), 1, 200000),
    ("range, batch of 100", lambda f: count(D.range(500000).batch(100)), 1, 500000),
    ("parallel map of a product of 256x256", lambda f: count(D.range(200).map(costly, num_parallel_calls=2)), 1, 200),
    ("filter", lambda f: count(D.range(100000).filter(lambda x: x % 2 > 0).batch(100)), 1, 100000),
    ("flat_map of ranges of 100", lambda f: count(D.range(2000).flat_map(lambda x: D.range(100)).batch(100)), 1, 200000),
    ("zip of two", lambda f: count(D.zip((D.range(200000), D.range(200000))).batch(100)), 1, 200000),
    ("shuffle of 1,000,000", lambda f: count(D.range(1000000).shuffle(1000000, seed=1).batch(1000)), 1, 1000000),
    ("shuffle, buffer of 10,000", lambda f: count(D.range(300000).shuffle(10000, seed=1).batch(100)), 1, 300000),
    ("padded batch of 64", lambda f: count(D.range(50000).map(lambda x: tf.fill([x % 9], x)).padded_batch(64, [None])), 1, 50000),
    ("cache, second round", lambda f: count(D.range(100000).cache().repeat(2).batch(100)), 1, 200000),
    ("interleave of 64 text files", lambda f: count(D.from_tensor_slices(text_files(f)).interleave(tf.compat.v1.data.TextLineDataset, cycle_length=16, block_length=4).batch(100)), 1, 64000),
    ("parallel interleave of 64 text files", lambda f: count(D.from_tensor_slices(text_files(f)).interleave(tf.compat.v1.data.TextLineDataset, cycle_length=16, block_length=4, num_parallel_calls=2).batch(100)), 1, 64000),
    ("100,000 TFRecords, parse_example of 100", lambda f: count(tf.compat.v1.data.TFRecordDataset(records(f)).batch(100).map(
        lambda b: tf.io.parse_example(b, {"id": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([4], tf.float32)}))), 1, 100000),
    ("JPEG of 400x300 decoded and resized", lambda f: count(D.from_tensors(picture(f)).repeat(60).map(
        lambda n: tf.compat.v1.image.resize(tf.io.decode_jpeg(tf.io.read_file(n), channels=3), [128, 128]), num_parallel_calls=2)), 1, 60),
    ("prefetch beside a training step", trained, 200, 200),
    ("one get_next a step", lambda f: tf.compat.v1.data.make_one_shot_iterator(D.range(10**9)).get_next(), 2000, 2000),
]


def measure(targets, make, runs, rounds, folder):
    """The best seconds of each target."""
    graph = tf.Graph()
    with graph.as_default():
        node = make(folder)
        init = tf.compat.v1.global_variables_initializer()
    best = [float("inf")] * len(targets)
    for _ in range(rounds):
        for i, target in enumerate(targets):
            with tf.compat.v1.Session(target, graph=graph) as s:
                s.run(init)
                if runs > 1:
                    s.run(node)
                begun = time.perf_counter()
                for _ in range(runs):
                    s.run(node)
                best[i] = min(best[i], time.perf_counter() - begun)
    return best


def amount(seconds):
    return "%.0f ns" % (seconds * 1e9) if seconds < 1e-5 else "%.0f µs" % (seconds * 1e6)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the target of a Troupe task")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="")
    p.add_argument("--out", help="a Markdown file whose table is replaced")
    args = p.parse_args()
    lines, ratios = [], []
    with reference.Servers(worker=1) as theirs, tempfile.TemporaryDirectory() as folder:
        targets = [theirs.targets["worker:0"], args.ours]
        for name, make, runs, elements in ROWS:
            if not re.search(args.only, name):
                continue
            theirs_s, ours_s = measure(targets, make, runs, args.rounds, folder)
            ratios.append(theirs_s / ours_s)
            lines.append("| %s | %s | %s | %.2f |" % (name, amount(theirs_s / elements), amount(ours_s / elements), ratios[-1]))
            print(lines[-1], flush=True)
    lines.append("| median | | | %.2f |" % statistics.median(ratios))
    print(lines[-1])
    if args.out:
        with open(args.out) as f:
            text = f.read()
        begin, end = text.index("| pipeline |"), text.index("| median |")
        end = text.index("\n", end)
        head = "| pipeline | TensorFlow, each element | Troupe | times as fast |\n| --- | --- | --- | --- |\n"
        with open(args.out, "w") as f:
            f.write(text[:begin] + head + "\n".join(lines) + text[end:])


if __name__ == "__main__":
    main()
