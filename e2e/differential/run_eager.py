# usage: run_eager.py [--seed N] [--programs N] [--time SECONDS] [--within SECONDS] --ours ADDRESS,ADDRESS,ADDRESS
#
# Makes random programs of TensorFlow 2, which use tasks of a cluster as devices, runs each on TensorFlow's own servers and on three of Troupe,
# and prints what differs, made small. The same seed gives the same program. Exits with 1 if there were differences.
#
# A statement, a program and the whole run have bounds of time: a program that hangs is reported with its seed, and the run goes on.
import argparse
import os
import pickle
import re
import select
import signal
import struct
import subprocess
import sys
import time

import eager_compare
import eager_generate
import reference

START = 120.0  # seconds for a client to start
PATIENCE = 60.0  # for one statement
REFERENCE_PATIENCE = 15.0  # for one statement on TensorFlow's servers, from when the program has ended on Troupe's
PROGRAM = 240.0  # for all statements of a program
LONG = 30.0  # for a program that is worth a line
RENEWED = 100  # programs after which the clients are new processes: each cluster costs one a server that stays

HUNG, ENDED = "hung", "ended"  # what may become of a client


class Stopped(Exception):
    """A client gives no more results: it is HUNG, or its process has ENDED."""


def slack():
    """How many times longer something may take now than on a quiet machine, from 1 to 10: the programs per processor that want to run."""
    running = 0
    try:
        with open("/proc/loadavg") as f:
            running = int(f.read().split()[3].split("/")[0])
    except OSError:
        pass  # only Linux says it
    return min(10.0, max(1.0, max(os.getloadavg()[0], running) / os.cpu_count()))


class Limit:
    """A bound of time, which widens while others need the machine."""

    def __init__(self, seconds):
        self._seconds = seconds
        self._began = time.monotonic()

    def left(self):
        """How many seconds are left; 0 if none."""
        return max(0.0, self._began + self._seconds * slack() - time.monotonic())


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
        try:
            self._write(self._spec)
            self._message(Limit(START))
        except (OSError, Stopped) as e:
            raise RuntimeError("TensorFlow's client does not start: %s" % e) from e

    def _write(self, message):
        data = pickle.dumps(message)
        self._process.stdin.write(struct.pack("<I", len(data)) + data)
        self._process.stdin.flush()

    def begin(self, program):
        try:
            self._write(program)
        except OSError:  # it ended after the last program
            self.restart()
            self._write(program)

    def _read(self, n, *limits):
        while len(self._rest) < n:
            left = min(limit.left() for limit in limits)
            if not select.select([self._process.stdout], [], [], left)[0]:
                if all(limit.left() for limit in limits):
                    continue  # the machine has become busier meanwhile
                raise Stopped(HUNG)
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise Stopped(ENDED)
            self._rest += data
        data, self._rest = self._rest[:n], self._rest[n:]
        return data

    def _message(self, *limits):
        return pickle.loads(self._read(struct.unpack("<I", self._read(4, *limits))[0], *limits))

    def results(self, patience=PATIENCE):
        """What each statement of the program that was begun gives, and None; or what those up to one give that makes the client hang or end, and which
        of these. The client is a new process then. patience is the seconds for one statement."""
        seen, whole = [], Limit(PROGRAM)
        try:
            while True:
                one = self._message(Limit(patience), whole)
                if one is None:
                    return seen, None
                seen.append(one)
        except Stopped as e:
            self.restart()
            return seen, e.args[0]

    def restart(self):
        self.stop()
        self.start()

    def move(self, addresses):
        """Runs programs on another cluster from now on."""
        self._spec = {str(i): a for i, a in enumerate(addresses)}
        self.restart()

    def stop(self):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGABRT)  # it says where its threads are
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


def outcome(r):
    if isinstance(r, str):
        return "TensorFlow's client " + r
    if r is None:
        return "the program ends"
    text = ", ".join(re.sub(r"\s+", " ", repr(v))[:300] for v in r[1])
    return text + (" %s: %s\n      [%s] %s" % (r[2][0], r[2][1][:600], r[2][2][:1500], r[2][3][-600:]) if r[2] else "")


class Pair:
    """The clients of both clusters."""

    def __init__(self, theirs, ours, renew):
        self._theirs = theirs
        self._ours = ours
        self._renew = renew  # starts TensorFlow's servers anew if they have ended, or if it is told to
        self.passed_over = {eager_compare.MISTAKEN: 0, eager_compare.LATE: 0}  # programs that cannot be compared beyond an error of the reference

    def difference(self, program):
        """The number of the statement at which the clusters differ, with what it gives on each: its result, or what became of the client; None if
        there is none."""
        self._theirs.begin(program)
        self._ours.begin(program)
        b, gone = self._ours.results()
        a, left = self._theirs.results(REFERENCE_PATIENCE)
        left = self._renew(left)
        i, how = eager_compare.first(a, b)
        if how in self.passed_over:
            self.passed_over[how] += 1
            return None
        if how:
            return i, left if left == ENDED else a[i], b[i]
        if left or gone:
            n = min(len(a), len(b))
            return n, a[n] if len(a) > n else left, b[n] if len(b) > n else gone
        return None

    def unstable(self, program):
        """The number of the first statement that gives something else when TensorFlow's servers run the program again, with what it gives, or what
        becomes of the client; None if there is none."""
        runs = []
        for _ in range(2):
            self._theirs.begin(program)
            seen, left = self._theirs.results(REFERENCE_PATIENCE)
            left = self._renew(left)
            if left:
                return len(seen), None, left
            runs.append(seen)
        for x, y in zip(*runs):
            if not eager_compare.same(x, y):
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
    return tuple(r if r is None or isinstance(r, str) else (r[2] and r[2][:2]) for r in difference[1:])


def main():
    parser = argparse.ArgumentParser(description="Compares random programs of TensorFlow 2 on Troupe and on TensorFlow's own servers.")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--time", type=float, default=float("inf"), help="seconds in which programs begin, without those in which findings are looked into")
    parser.add_argument("--within", type=float, default=float("inf"), help="seconds in which programs begin, and findings are made small")
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
    print("\n" + run.summary(), flush=True)
    sys.exit(1 if run.findings else 0)


class Run:
    """The clusters, and what was found."""

    def __init__(self, args):
        self._args = args
        self._log = log = open(args.log, "ab") if args.log else None  # pylint: disable=consider-using-with; it is open as long as the clients
        self._servers = reference.Servers(worker=3)
        self._clients = [Client(self._addresses(), log), Client(args.ours.split(","), log)]
        self._pair = Pair(*self._clients, self._renew)
        self._began = time.monotonic()
        self._limit = Limit(args.within)
        self._shrinking = 0.0
        self.findings = 0
        self._programs = self._statements = 0
        self._unstable = []  # numbers of programs for which TensorFlow's servers differ from run to run
        self._intermittent = []  # that differed once
        self._broken = {HUNG: [], ENDED: []}  # with which TensorFlow's client or servers hang or end
        self._next = None  # the number of the program that has not been run

    def _addresses(self):
        return [t[len("grpc://"):] for t in self._servers.targets.values()]

    def stop(self):
        for c in self._clients:
            c.stop()
        self._servers.stop()

    def _renew(self, left):
        """Starts TensorFlow's servers anew if they have ended, or if their client has not come to the end of a program: an op that hangs keeps others
        from running. Gives what became of them or the client; None if they go on."""
        if not self._servers.running():
            left = ENDED
        if left:
            self._servers.restart()
            self._clients[0].move(self._addresses())
        return left

    def programs(self, first, count):
        for number in range(first, first + count):
            self._next = number
            if self.findings >= self._args.findings or time.monotonic() - self._began - self._shrinking > self._args.time or not self._limit.left():
                return
            if self._programs % RENEWED == RENEWED - 1:
                for c in self._clients:
                    c.restart()
            program = eager_generate.generate(number)
            self._say("seed %d" % number)
            print(number, end=" ", flush=True)  # whoever ends this sees where it was
            self._programs += 1
            self._statements += len(program["statements"])
            start = time.monotonic()
            found = self._pair.difference(program)
            end = time.monotonic()
            if end - start > LONG * slack():
                print("took %.0f s" % (end - start), end=" ", flush=True)
            if found is not None:
                self._judge(program, found)
                self._shrinking += time.monotonic() - end
        self._next = first + count

    def _say(self, text):
        if self._log:
            self._log.write(("--- %s\n" % text).encode())
            self._log.flush()

    def _judge(self, program, found):
        if isinstance(found[1], str):
            self._breaks(program, *found[:2])
            return
        small = {**program, "statements": program["statements"][:found[0] + 1]}
        unstable = self._pair.unstable(small)
        if unstable is not None and isinstance(unstable[2], str):
            self._breaks(program, unstable[0], unstable[2])
            return
        if unstable is not None:
            self._unstable.append(program["number"])
            self._say("seed %d is unstable\n%s\n  at first: %s\n  then: %s" % (
                program["number"], small["statements"][unstable[0]], outcome(unstable[1]), outcome(unstable[2])))
            return
        if all(self._pair.difference(small) is None for _ in range(2)):
            self._intermittent.append(program["number"])
            print("\n--- seed %d, not again in two runs: %s\n  TensorFlow: %s\n  Troupe:     %s\n" % (
                program["number"], small["statements"][-1], outcome(found[1]), outcome(found[2])), flush=True)
            return
        small = shrink(self._pair, small, kind_of(found), min(self._args.shrink, self._limit.left()))
        again = self._pair.difference(small)
        self.findings += 1
        last = again or found
        print("\n--- seed %d%s\n%s\n  TensorFlow: %s\n  Troupe:     %s\n" % (
            program["number"], "" if again else ", not each time", "\n".join(small["statements"]), outcome(last[1]), outcome(last[2])), flush=True)

    def _breaks(self, program, n, how):
        self._broken[how].append(program["number"])
        self._say("seed %d: the reference %s\n%s" % (program["number"], how, "\n".join(program["statements"][n:n + 1])))

    def summary(self):
        took = time.monotonic() - self._began - self._shrinking
        return "; ".join([
            "programs: %d, %.1f a second" % (self._programs, self._programs / took), "statements: %d" % self._statements, "findings: %d" % self.findings,
            "intermittent: %s" % self._intermittent, *("reference %s: %d" % p for p in self._pair.passed_over.items()),
            "reference unstable: %s" % self._unstable, "reference hung: %s" % self._broken[HUNG], "reference ended: %s" % self._broken[ENDED], "next seed: %s" % self._next])


if __name__ == "__main__":
    main()
