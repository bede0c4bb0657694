# usage: run_eager.py [--seed N] [--programs N] [--time SECONDS] --ours ADDRESS,ADDRESS,ADDRESS
#
# Makes random programs of TensorFlow 2, which use tasks of a cluster as devices, runs each on TensorFlow's own servers and on three of Troupe,
# and prints what differs, made small. The same seed gives the same program. Exits with 1 if there were differences.
import argparse
import os
import pickle
import re
import select
import struct
import subprocess
import sys
import time

import numpy as np

import eager_generate
import reference

PATIENCE = 60.0  # seconds for one statement, or for a client to start
RENEWED = 100  # programs after which the clients are new processes: each cluster costs one a server that stays


class Stuck(Exception):
    """A statement does not end."""


class Client:
    """A process with TensorFlow's client, which runs programs on one cluster."""

    def __init__(self, addresses, log=None):
        self._log = log  # file for what TensorFlow's client prints
        self._spec = {str(i): a for i, a in enumerate(addresses)}
        self._process = None
        self._rest = b""
        self.start()

    def start(self):
        self._process = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "eager_client.py")], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._log or subprocess.DEVNULL)
        self._rest = b""
        self._write(self._spec)

    def _write(self, message):
        data = pickle.dumps(message)
        self._process.stdin.write(struct.pack("<I", len(data)) + data)
        self._process.stdin.flush()

    def begin(self, program):
        self._write(program)

    def _read(self, n, end):
        while len(self._rest) < n:
            if not select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise Stuck()
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise Stuck()
            self._rest += data
        data, self._rest = self._rest[:n], self._rest[n:]
        return data

    def results(self):
        """What each statement of the program that was begun gives, up to one that does not end: the second result."""
        seen = []
        try:
            while True:
                end = time.monotonic() + PATIENCE
                one = pickle.loads(self._read(struct.unpack("<I", self._read(4, end))[0], end))
                if one is None:
                    return seen, False
                seen.append(one)
        except Stuck:
            self.restart()
            return seen, True

    def restart(self):
        self.stop()
        self.start()

    def move(self, addresses):
        """Runs programs on another cluster from now on."""
        self._spec = {str(i): a for i, a in enumerate(addresses)}
        self.restart()

    def stop(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


def same(a, b):
    """Whether two statements gave the same."""
    if (a[2] is None) != (b[2] is None) or len(a[1]) != len(b[1]):
        return False
    if a[2] is not None and a[2][:2] != b[2][:2]:
        return False
    return all(map(same_value, a[1], b[1]))


def same_value(x, y):
    if not isinstance(x, np.ndarray) and not isinstance(x, np.generic) or not hasattr(y, "dtype"):
        return x == y
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "fc":
        rough = 1e-2 if x.dtype == np.float16 else 1e-5 if x.dtype in (np.float32, np.complex64) else 1e-9
        with np.errstate(all="ignore"):
            return np.allclose(x, y, rtol=rough, atol=rough, equal_nan=True)
    return np.array_equal(x, y)


def outcome(r):
    if r is None:
        return "does not end"
    text = ", ".join(re.sub(r"\s+", " ", repr(v))[:300] for v in r[1])
    return text + (" %s: %s\n      [%s] %s" % (r[2][0], r[2][1][:600], r[2][2][:1500], r[2][3][-600:]) if r[2] else "")


class Pair:
    """The clients of both clusters."""

    def __init__(self, theirs, ours):
        self._theirs = theirs
        self._ours = ours
        self.mistaken = 0  # programs in which TensorFlow's servers fail with an error of their own

    def difference(self, program):
        """The number of the statement at which the clusters differ, with what it gives on each; None if there is none."""
        self._theirs.begin(program)
        self._ours.begin(program)
        (a, hung), (b, hangs) = self._theirs.results(), self._ours.results()
        for x, y in zip(a, b):
            if not same(x, y):
                if x[2] is not None and x[2][0] == "InternalError":
                    # A mistake of TensorFlow's servers, such as for results of a function that lie in the client. What follows depends on it.
                    self.mistaken += 1
                    return None
                return x[0], x, y
        if hung or hangs:
            n = min(len(a), len(b))
            return n, a[n] if len(a) > n else None, b[n] if len(b) > n else None
        return None

    def unstable(self, program):
        """The number of the first statement that gives something else when TensorFlow's servers run the program again, with what it gives; None
        if there is none."""
        self._theirs.begin(program)
        first, _ = self._theirs.results()
        self._theirs.begin(program)
        again, _ = self._theirs.results()
        for x, y in zip(first, again):
            if not same(x, y):
                return x[0], x, y
        return None


def shrink(pair, program, kind, seconds):
    """A program with fewer statements that differs in the same way."""
    end = time.monotonic() + seconds
    head, statements = program["statements"][:1], program["statements"][1:]  # the first cluster stays
    chunk = max(1, len(statements) // 2)
    while time.monotonic() < end:
        start, smaller = 0, False
        while start < len(statements) and time.monotonic() < end:
            fewer = statements[:start] + statements[start + chunk:]
            found = pair.difference({**program, "statements": head + fewer})
            if found is not None and kind_of(found) == kind:
                statements, smaller = fewer[:max(0, found[0])], True
            else:
                start += chunk
        if chunk == 1 and not smaller:
            break
        chunk = max(1, chunk // 2)
    return {**program, "statements": head + statements}


def kind_of(difference):
    return tuple(None if r is None else (r[2] and r[2][:2]) for r in difference[1:])


def main():
    parser = argparse.ArgumentParser(description="Compares random programs of TensorFlow 2 on Troupe and on TensorFlow's own servers.")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--time", type=float, default=float("inf"), help="seconds in which programs begin")
    parser.add_argument("--findings", type=int, default=5, help="so many, and it ends")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to make one finding small")
    parser.add_argument("--ours", required=True, help="the addresses of three servers of Troupe")
    parser.add_argument("--log", help="file for what TensorFlow's clients and servers print")
    args = parser.parse_args()
    run = Run(args)
    try:
        run.programs(args.seed, args.programs)
    finally:
        run.stop()
    print(run.summary(), flush=True)
    sys.exit(1 if run.findings else 0)


class Run:
    """The clusters, and what was found."""

    def __init__(self, args):
        self._args = args
        self._log = log = open(args.log, "ab") if args.log else None  # pylint: disable=consider-using-with; it is open as long as the clients
        self._servers = reference.Servers(worker=3)
        self._clients = [Client(self._addresses(), log), Client(args.ours.split(","), log)]
        self._pair = Pair(*self._clients)
        self._began = time.monotonic()
        self._shrinking = 0.0
        self.findings = 0
        self._programs = self._statements = 0
        self._unstable = []  # numbers of programs for which TensorFlow's servers differ from run to run
        self._intermittent = []  # that differed once
        self._broken = []  # at which they crash or hang

    def _addresses(self):
        return [t[len("grpc://"):] for t in self._servers.targets.values()]

    def stop(self):
        for c in self._clients:
            c.stop()
        self._servers.stop()

    def programs(self, first, count):
        for number in range(first, first + count):
            if self.findings >= self._args.findings or time.monotonic() - self._began - self._shrinking > self._args.time:
                break
            if self._programs % RENEWED == RENEWED - 1:
                for c in self._clients:
                    c.restart()
            program = eager_generate.generate(number)
            self._programs += 1
            self._statements += len(program["statements"])
            found = self._pair.difference(program)
            if found is not None:
                start = time.monotonic()
                self._judge(program, found)
                self._shrinking += time.monotonic() - start

    def _judge(self, program, found):
        if found[1] is None or not self._servers.running():
            self._broken.append(program["number"])
            self._servers.restart()
            self._clients[0].move(self._addresses())
            return
        small = {**program, "statements": program["statements"][:found[0] + 1]}
        unstable = self._pair.unstable(small)
        if unstable is not None:
            self._unstable.append(program["number"])
            if self._log:
                self._log.write(("--- seed %d is unstable\n%s\n  at first: %s\n  then: %s\n" % (
                    program["number"], small["statements"][unstable[0]], outcome(unstable[1]), outcome(unstable[2]))).encode())
                self._log.flush()
            return
        if all(self._pair.difference(small) is None for _ in range(2)):
            self._intermittent.append(program["number"])
            print("--- seed %d, not again in two runs: %s\n  TensorFlow: %s\n  Troupe:     %s\n" % (
                program["number"], program["statements"][found[0]], outcome(found[1]), outcome(found[2])), flush=True)
            return
        small = shrink(self._pair, small, kind_of(found), self._args.shrink)
        again = self._pair.difference(small)
        self.findings += 1
        last = again or found
        print("--- seed %d%s\n%s\n  TensorFlow: %s\n  Troupe:     %s\n" % (
            program["number"], "" if again else ", not each time", "\n".join(small["statements"]), outcome(last[1]), outcome(last[2])), flush=True)

    def summary(self):
        took = time.monotonic() - self._began - self._shrinking
        return "; ".join([
            "programs: %d, %.1f a second" % (self._programs, self._programs / took), "statements: %d" % self._statements, "findings: %d" % self.findings,
            "intermittent: %s" % self._intermittent, "reference mistaken: %d" % self._pair.mistaken, "reference unstable: %s" % self._unstable,
            "reference broken: %s" % self._broken])


if __name__ == "__main__":
    main()
