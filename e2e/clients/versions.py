"""Runs the programs of the tutorial with several versions of TensorFlow's client, and writes the table of docs/clients.md.

    python e2e/clients/versions.py --troupe ./troupe --out docs/clients.md 2.12.0 2.15.1 2.21.0

Each version is installed into a virtual environment of its own, in --cache, with the Python that runs this. A version of
TensorFlow wants a range of Pythons: 3.11 has 2.12 and later ones.
"""
import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "python")]

import programs  # noqa: E402
import troupe  # noqa: E402

# Programs beside those of the tutorial, by what they show.
MORE = {
    "loops": """
import os, tensorflow.compat.v1 as tf
tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [])
with tf.device("/job:worker/task:1"):
    _, total = tf.while_loop(lambda i, _: i < 100, lambda i, t: (i + 1, t + x), [0, 0.0])
    chosen = tf.cond(total > 100, lambda: tf.gradients(total, x)[0], lambda: total)
with tf.Session(os.environ["WORKER0"]) as session:
    print(session.run(chosen, {x: 2.0}))  # 100.0
""",
    "datasets": """
import os, tensorflow.compat.v1 as tf
tf.disable_eager_execution()
with tf.device("/job:worker/task:0"):
    rows = tf.data.Dataset.range(100).map(lambda x: x * x, num_parallel_calls=2).filter(lambda x: tf.equal(x % 2, 0)).batch(10).prefetch(1)
    following = tf.data.make_one_shot_iterator(rows).get_next()
with tf.Session(os.environ["WORKER0"]) as session:
    print(session.run(following).sum(), session.run(following).sum())  # 1140 8740
""",
    "checkpoints": """
import os, tempfile, tensorflow.compat.v1 as tf
tf.disable_eager_execution()
with tf.device("/job:ps/task:0"):
    v = tf.get_variable("kept", initializer=[1.0, 2.0], use_resource=True)
saver, path = tf.train.Saver([v]), os.path.join(tempfile.mkdtemp(), "model")
with tf.Session(os.environ["WORKER0"]) as session:
    session.run(v.initializer)
    saver.save(session, path)
    session.run(v.assign([5.0, 5.0]))
    saver.restore(session, path)
    print(session.run(v).tolist())  # [1.0, 2.0]
""",
}


def installed(version, cache):
    """The interpreter of an environment with a version of TensorFlow, or None where pip finds none."""
    folder = os.path.join(cache, "tensorflow-%s-python-%d.%d" % (version, *sys.version_info[:2]))
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "complete")):
        venv.create(folder, with_pip=True, clear=True)
        major, minor = (int(n) for n in version.split(".")[:2])
        old = ["numpy<2"] if (major, minor) < (2, 18) else []
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "tensorflow-cpu==" + version, *old], check=False)
        if done.returncode != 0:
            return None
        with open(os.path.join(folder, "complete"), "w", encoding="ascii"):
            pass
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", required=True, help="the program to test")
    parser.add_argument("--cache", default=os.path.join(tempfile.gettempdir(), "troupe-clients"))
    parser.add_argument("--out", help="the file to write the table to")
    parser.add_argument("versions", nargs="+", help="of TensorFlow")
    args = parser.parse_args()
    os.environ["TROUPE_BINARY"] = os.path.abspath(args.troupe)
    every = programs.marked(os.path.join(ROOT, "docs", "tutorial.md"), os.environ) + [programs.Program(name, text) for name, text in MORE.items()]
    rows, failed = {}, False
    for version in args.versions:
        python = installed(version, args.cache)
        if python is None:
            print("TensorFlow %s cannot be installed for this Python" % version, flush=True)
            failed = True
            continue
        with troupe.LocalCluster(ps=1, worker=2) as cluster:
            targets = {"PS": cluster.targets["ps:0"], "WORKER0": cluster.targets["worker:0"], "WORKER1": cluster.targets["worker:1"]}
            wrong = programs.run(python, every, dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1", **targets))
            rows[version] = {name: why.splitlines()[-1] for name, why in wrong.items()}
        failed = failed or bool(rows[version])
        print("TensorFlow %s: %s" % (version, rows[version] or "all %d programs work" % len(every)), flush=True)
    if args.out:
        write(args.out, [name for name, _, _ in every], rows)
    return 1 if failed else 0


def write(path, names, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.write(INTRODUCTION % (datetime.date.today(), *sys.version_info[:2]))
        f.write("| TensorFlow | %s |\n|%s\n" % (" | ".join(names), "---|" * (len(names) + 1)))
        for version, wrong in rows.items():
            f.write("| %s | %s |\n" % (version, " | ".join("**%s**" % wrong[n].replace("|", "\\|") if n in wrong else "works" for n in names)))


INTRODUCTION = """# Which clients work

Made by `e2e/clients/versions.py` on %s with Python %d.%d: each version of TensorFlow's client runs the programs of the
[tutorial](tutorial.md) and some more against a cluster of three tasks. All versions since 1.13 have the interface `tensorflow.compat.v1` that these programs
use. Those before 2.12 want an older Python than that of this table.
With 2.16 and later, programs with `tf.layers`, `tf.nn.rnn_cell` or `tf.compat.v1.keras` need `tf_keras` and `TF_USE_LEGACY_KERAS=1`, whatever the server:
[moving.md](moving.md#programs-with-layers).
TensorFlow 2's programs without sessions: [eager.md](eager.md).

"""

if __name__ == "__main__":
    sys.exit(main())
