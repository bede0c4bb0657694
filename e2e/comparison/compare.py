"""Runs the same programs of TensorFlow's client on TensorFlow's servers and on Troupe's, in turn, and writes the figures.

    python e2e/comparison/compare.py --troupe ./troupe --out docs/comparison.json --plot docs/images/comparison

Both clusters (a ps and two workers, a process each) are up all the time, and one is under load at a time. A figure's ratio
is above 1 where Troupe is better; it is the median of the rounds' ratios.
"""
import argparse
import datetime
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE] + [os.path.join(os.path.dirname(HERE), folder) for folder in ("differential", "speed")]

import tensorflow as tf  # noqa: E402

import machine  # noqa: E402
import plot  # noqa: E402
import reference  # noqa: E402
import workloads  # noqa: E402

JOBS = {"ps": 1, "worker": 2}

# One of TensorFlow's tasks.
TENSORFLOW = """
import json, sys
import tensorflow.compat.v1 as tf
tf.train.Server(json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])).join()
"""


class Cluster:
    """A cluster of processes that a command starts, of which it tells the targets and what they need."""

    def __init__(self, command):
        spec = reference.free_addresses(JOBS)
        self.targets = reference.targets_of(spec)
        start = time.perf_counter()
        self.processes = [subprocess.Popen(command(spec, job, i), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                          for job, n in JOBS.items() for i in range(n)]
        for target in self.targets.values():
            self.listens(target[len("grpc://"):])
        graph = tf.Graph()
        with graph.as_default():
            sums = []
            for job, n in JOBS.items():
                for i in range(n):
                    with tf.device("/job:%s/task:%d" % (job, i)):
                        sums.append(tf.constant(1.0) + tf.constant(float(i)))
        with tf.compat.v1.Session(self.targets["worker:0"], graph=graph) as session:
            session.run(sums)
        self.start = time.perf_counter() - start

    def listens(self, address):
        """Waits for a task: TensorFlow's client tries again only after a second."""
        host, port = address.rsplit(":", 1)
        while True:
            try:
                socket.create_connection((host, int(port))).close()
                return
            except ConnectionRefusedError:
                if any(p.poll() is not None for p in self.processes):
                    raise
                time.sleep(0.005)

    def memory(self):
        """Resident memory of a task, MiB: the median."""
        return statistics.median(self.resident(p.pid) for p in self.processes)

    @staticmethod
    def resident(pid):
        with open("/proc/%d/statm" % pid) as f:
            return int(f.read().split()[1]) * resource.getpagesize() / 2**20

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
        for p in self.processes:
            p.wait()


def tensorflow_task(spec, job, index):
    return [sys.executable, "-c", TENSORFLOW, json.dumps(spec), job, str(index)]


def troupe_task(program, flags):
    def command(spec, job, index):
        cluster = ";".join(name + "=" + ",".join(addresses) for name, addresses in spec.items())
        return [program, "serve", "--cluster", cluster, "--job", job, "--task", str(index), *flags]
    return command


def figures(cluster):
    """All figures of one round: {name: (unit, better, value)}."""
    found = {}
    c = workloads.Clients(cluster.targets)
    for workload in workloads.ALL:
        for name, unit, better, value in workload(c):
            found[name] = unit, better, value
        c.reset()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--troupe", required=True, help="the program to measure")
    parser.add_argument("--flags", nargs="*", default=[], help="more flags of troupe serve")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="the file to write the figures to, as JSON")
    parser.add_argument("--plot", help="where to write the plot: this name with .svg")
    args = parser.parse_args()
    rounds = []
    with Cluster(tensorflow_task) as theirs, Cluster(troupe_task(os.path.abspath(args.troupe), args.flags)) as ours:
        once = {"start of a cluster, to the end of the first step": ("s", "less", theirs.start, ours.start),
                "memory of a task that was just started": ("MiB", "less", theirs.memory(), ours.memory())}
        for i in range(args.rounds):
            rounds.append((figures(theirs), figures(ours)))
            print("round %d of %d" % (i + 1, args.rounds), flush=True)
        once["memory of a task after the load"] = "MiB", "less", theirs.memory(), ours.memory()
    rows = [row(name, unit, better, [t], [o]) for name, (unit, better, t, o) in once.items()]
    rows += [row(name, unit, better, [t[name][2] for t, _ in rounds], [o[name][2] for _, o in rounds])
             for name, (unit, better, _) in rounds[0][0].items()]
    for r in rows:
        print("%6.2f  %-60s %10.4g %10.4g %s" % (r["ratio"], r["name"], r["tensorflow"], r["troupe"], r["unit"]))
    result = {"date": str(datetime.date.today()), "processor": machine.processor(), "cores": os.cpu_count(), "tensorflow": tf.__version__,
              "rounds": args.rounds, "rows": rows}
    if args.out:
        with open(args.out, "w") as f:
            json.dump(result, f, indent=1, ensure_ascii=False)
            f.write("\n")
    if args.plot:
        plot.draw(result, args.plot)


def row(name, unit, better, theirs, ours):
    ratios = [t / o if better == "less" else o / t for t, o in zip(theirs, ours)]
    return {"name": name, "unit": unit, "better": better, "tensorflow": statistics.median(theirs), "troupe": statistics.median(ours),
            "ratio": statistics.median(ratios)}


if __name__ == "__main__":
    main()
