"""Runs random pipelines of tf.data on TensorFlow's server and on Troupe, and compares them element by element.

  python run.py --ours grpc://host:port [--seed 0] [--pipelines 2000] [--time SECONDS]
  python run.py --ours grpc://host:port --pipeline 'D.range(5).batch(2)'

The exit status is 1 if something differs.
"""
import argparse
import os
import re
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "differential")]

import tensorflow as tf  # noqa: E402

tf.compat.v1.disable_eager_execution()
tf.get_logger().setLevel("ERROR")

import pipelines  # noqa: E402
import reference  # noqa: E402

# A window or a batch with an element that failed: TensorFlow's says at once that it failed and that the input has ended,
# if that was its last element, and what comes after, or groups it, believes it.
# The same for what an assertion of a number of elements says at the end. A writer of the first version of snapshots loses its way after
# an element that failed: it hangs, or says INTERNAL.
DIFFERS = re.compile(
    r"FAILING.*(\.window\(|batch\(.*group_by_window)|zip.*assert_cardinality|assert_cardinality.*(window\(|batch\(|group_by|choose_from)"
    r"|(FAILING|assert_cardinality).*legacy_snapshot")

MOST = 200  # elements of a pipeline that are compared


def outcomes(target, graph, iterator, following):
    """The elements of two iterations, and how each ended."""
    found = []
    config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=30000)
    with tf.compat.v1.Session(target, graph=graph, config=config) as session:
        for _ in range(2):
            try:
                session.run(iterator.initializer)
                for _ in range(MOST):
                    try:
                        found.append(session.run(following).tolist())
                    except tf.errors.InvalidArgumentError as e:
                        found.append(type(e).__name__)
            except tf.errors.OpError as e:
                found.append(type(e).__name__)
    return found


def compare(targets, text):
    """What each target gives; None where the client refuses the pipeline."""
    graph = tf.Graph()
    with graph.as_default():
        try:
            dataset = pipelines.build(text)
        except (TypeError, ValueError):
            return None
        iterator = tf.compat.v1.data.make_initializable_iterator(dataset)
        following = iterator.get_next()
        if isinstance(following, tuple):
            following = pipelines.strip(following)
    return [outcomes(t, graph, iterator, following) for t in targets]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the target of a Troupe task")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--pipelines", type=int, default=2000)
    p.add_argument("--time", type=float, default=600, help="at most so many seconds")
    p.add_argument("--pipeline", help="runs one")
    args = p.parse_args()
    end = time.monotonic() + args.time
    done = refused = elements = 0
    findings = []
    with reference.Servers(worker=1) as theirs:
        targets = [theirs.targets["worker:0"], args.ours]
        texts = [args.pipeline] if args.pipeline else (pipelines.Maker(seed).pipeline() for seed in range(args.seed, args.seed + args.pipelines))
        for text in texts:
            if time.monotonic() > end:
                break
            both = None if DIFFERS.search(text) and not args.pipeline else compare(targets, text)
            if both is None:
                refused += 1
                continue
            done += 1
            elements += len(both[0])
            if both[0] != both[1] or args.pipeline:
                print("%s\n  TensorFlow: %s\n  Troupe:     %s" % (text, both[0], both[1]))
            if both[0] != both[1]:
                findings.append(text)
    print("pipelines: %d, not compared: %d, elements: %d\nfindings: %d" % (done, refused, elements, len(findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    if main():
        sys.exit(1)
