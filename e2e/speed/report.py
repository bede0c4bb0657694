"""Times our kernels beside TensorFlow's, in turn, and writes the table of docs/kernels.md.

    python e2e/speed/report.py --troupe ./troupe --out docs/kernels.md

TensorFlow runs in this process, in a session of its own; ours is a server beside it. The same graph runs on both, with no
optimizer of graphs: an operation is repeated in it, one after the other, so that a step takes some milliseconds, and what
an empty step takes is taken off. A row's figure is the median of the rounds' ratios, TensorFlow's time by ours: above 1
ours is faster. Give --only a regular expression to time some rows.
"""
import argparse
import datetime
import multiprocessing
import os
import re
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf

import cases
import machine

tf1 = tf.compat.v1
tf1.disable_eager_execution()

STEP = 4e-3  # what a step is to take, s, or one operation
MOST_REPEATS = 200
CONTAINER = "speed"  # of the variables: what a session leaves on a server stays there until it is reset


class Server:
    """One of our servers, that computes on so many threads."""

    def __init__(self, program, threads):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % s.getsockname()[1]
        self.process = subprocess.Popen(
            [program, "serve", "--local=" + self.address, "--log-level=warn"], env=dict(os.environ, GOMAXPROCS=str(threads)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def config(threads):
    c = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    c.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    return c


class Runner:
    """A session on one of the two, with the steps of graph_of."""

    def __init__(self, target, graph, threads):
        self.target = target
        self.session = tf1.Session(target, graph=graph, config=config(threads))
        self.session.run(graph.get_operation_by_name("initialize"))
        self.steps = {name: self.session.make_callable(graph.get_operation_by_name(name)) for name in ("before", "repeated")}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.close()
        if self.target:
            tf1.Session.reset(self.target, [CONTAINER])

    def time(self, least):
        """Seconds that the repeated operations take in a step, beyond what comes before them."""
        return max(1e-9, self.median("repeated", least) - self.median("before", least / 4))

    def median(self, name, least):
        """Seconds a run of a step: the median of five runs or more, that take at least so many seconds together."""
        step, times, spent = self.steps[name], [], 0
        while spent < least or len(times) < 5:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
            spent += times[-1]
        return statistics.median(times)


def graph_of(make, repeats):
    """The graph that repeats the operation that make makes, one after the other."""
    graph = tf.Graph()
    with graph.as_default(), graph.container(CONTAINER):
        tf1.set_random_seed(1)
        op = make()
        op = op.op if isinstance(op, tf.Tensor) else op
        tf.group(*[v.initializer for v in tf1.global_variables()], name="initialize")
        with tf.control_dependencies([i.op for i in op.inputs]):
            tf.no_op(name="before")
        last = op
        for _ in range(repeats - 1):
            with tf.control_dependencies([last]):
                last = copy_of(op)
        with tf.control_dependencies([last]):
            tf.no_op(name="repeated")
    return graph


def copy_of(op):
    """Another operation like op, of the same inputs."""
    attributes = {name: value for name, value in op.node_def.attr.items() if name != "_class"}
    # pylint: disable=protected-access
    return op.graph._create_op_internal(op.type, list(op.inputs), [o.dtype for o in op.outputs], attrs=attributes)


class Row:
    """What was measured of a row with a number of threads: seconds an operation, and the ratio."""

    def __init__(self, theirs, ours):
        self.theirs, self.ours = statistics.median(theirs), statistics.median(ours)
        self.ratio = statistics.median(t / o for t, o in zip(theirs, ours))


def measure(make, server, threads, rounds):
    """Times one row on both, in turn."""
    with Runner("", graph_of(make, 1), threads) as once:
        took = once.time(STEP)
    repeats = int(min(MOST_REPEATS, max(1, STEP / took)))
    graph = graph_of(make, repeats)
    theirs, ours = [], []
    with Runner("", graph, threads) as tensorflow, Runner("grpc://" + server.address, graph, threads) as troupe:
        for runner in (tensorflow, troupe):
            runner.time(0)
        for _ in range(rounds):
            theirs.append(tensorflow.time(5 * STEP) / repeats)
            ours.append(troupe.time(5 * STEP) / repeats)
    return Row(theirs, ours)


def measure_all(args, threads):
    """Measures the rows that are asked for: {(title, name): Row or the name of the error}."""
    rows = {}
    with Server(args.troupe, threads) as server:
        for group in cases.GROUPS:
            for name, make in group.rows:
                label = group.title + ": " + name
                if not re.search(args.only, label):
                    continue
                try:
                    row = measure(make, server, threads, args.rounds)
                    text = "%6.2f  %9s %9s" % (row.ratio, duration(row.theirs), duration(row.ours))
                except tf.errors.OpError as e:
                    row = text = type(e).__name__
                rows[group.title, name] = row
                print("%d  %-75s %s" % (threads, label, text), flush=True)
    return rows


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds / 1e-9)


def cell(row):
    if isinstance(row, str):
        return row
    ratio = "%.2f" % row.ratio
    return "%s (%s)" % ("**%s**" % ratio if row.ratio < 1 else ratio, duration(row.ours))


def write(out, measured, threads):
    """Writes the table: measured[title, name][threads] is a Row or what went wrong."""
    ratios = [row.ratio for rows in measured.values() for row in rows.values() if isinstance(row, Row)]
    with open(out, "w") as f:
        f.write(INTRODUCTION % (datetime.date.today(), machine.processor(), tf.__version__, len(ratios), statistics.median(ratios),
                                sum(r < 1 for r in ratios)))
        title = None
        for (heading, name), rows in measured.items():
            if heading != title:
                title = heading
                f.write("\n## %s\n\n| | %s |\n|%s\n" % (title, " | ".join("%d thread%s" % (t, "s" * (t > 1)) for t in threads), "---|" * (len(threads) + 1)))
            f.write("| %s | %s |\n" % (name, " | ".join(cell(rows[t]) for t in threads)))


INTRODUCTION = """# How fast the kernels are

Made by `make kernel-report` on %s; %s, TensorFlow %s. Each figure is TensorFlow's time by ours (above 1, ours is
faster), then our time for one operation. Both ran in turn: TensorFlow in a session in the process of its client, ours in a
server beside it; what a step takes without the operation is taken off. What an optimizer of graphs would do is switched off.

%d figures, their median %.2f; %d are below 1, in bold.

Why figures are below 1, as far as it is known:

- **Products and convolutions of float32** (most from 0.8 to 1): the inner loops of both run at the processor's limit. The
  rest is the copying of operands into the order that they read, which weighs more in small ones, and windows of few
  channels, which leave lanes of vectors empty.
- **bfloat16**: the processor's tiles (AMX), or vectors of pairs (AVX512-BF16), multiply as fast as with TensorFlow. Packing small
  operands for them, and rounding the sums, takes as long as the products.
- **Two threads, where a step takes some milliseconds**: the second thread sleeps when a step begins, and a virtual machine takes
  0.1 to 0.3 ms to wake it, once a step. TensorFlow's threads spin in the process of the client. In a longer step, kernels
  take the same time on both.
- **Fourier transforms of 1e6 numbers**: both wait for memory.
- **JPEG**: the Huffman codes are read by Go code, with a check of each access. **Splitting of strings**: each part is a string of Go's, a header of 16 bytes.
- **Functions of elements, sums and moves of 1e6 elements** (0.8 to 1): both wait for memory. Figures of one row differ by a
  tenth from run to run.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", required=True, help="the program to measure")
    parser.add_argument("--out", help="the file to write the table to")
    parser.add_argument("--only", default="", help="regular expression for the rows to time")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    measured = {}
    for threads in args.threads:
        # TensorFlow's threads are those that its first session in a process asks for.
        with multiprocessing.get_context("spawn").Pool(1) as process:
            for key, row in process.apply(measure_all, (args, threads)).items():
                measured.setdefault(key, {})[threads] = row
    if args.out:
        write(args.out, measured, args.threads)


if __name__ == "__main__":
    sys.exit(main())
