"""Draws programs, runs them, and reports what differs."""
import collections
import os
import threading
import time

import tensorflow.compat.v1 as tf

import areas
import flow  # registers its statements, as pure and state do
import pure
import running
import state
from listing import action, listing
from shrinking import Shrinker

_REGISTERED = (flow, pure, state)

TIMEOUT = 10.0  # of one call, in seconds
WATCHDOG = 60.0  # of one program
# While a program that hangs is made small, a call that takes so long hangs, too. The smallest one gets TIMEOUT again.
IMPATIENCE = 1.5


class Stuck(Exception):
    """A program did not end, although each of its calls has a timeout."""


class Fuzzer:
    """One area's run."""

    def __init__(self, area, theirs, ours, shrink_seconds):
        self._area = area
        self._theirs = theirs  # cluster of TensorFlow's servers, which is restarted if it crashes
        self._ours = ours
        self._shrink_seconds = shrink_seconds
        self._containers = []
        self._number = 0
        self._started = time.monotonic()
        self._shrinking = 0.0
        self._pair = running.Pair(theirs.targets, ours.targets, self._container)
        self.programs = 0
        self.actions = 0
        self.findings = 0
        self.unstable = []
        self.hung = []  # that TensorFlow's servers did not answer
        self.broken = []  # that they failed at with an internal error
        self.restarts = 0
        self.intermittent = 0

    def _container(self):
        self._number += 1
        self._containers.append("program.%d.%d" % (os.getpid(), self._number))
        return self._containers[-1]

    def run(self, seed, programs, seconds, findings):
        """Runs programs until there were so many, the time is over, or there are enough findings."""
        self._started = time.monotonic()
        for number in range(seed, seed + programs):
            if time.monotonic() - self._started - self._shrinking > seconds or self.findings >= findings:
                break
            program = areas.AREAS[self._area](number)
            self.programs += 1
            self.actions += len(program.script)
            difference = self._bounded(program, TIMEOUT)
            if difference is not None:
                began = time.monotonic()
                self._judge(program, difference)
                self._shrinking += time.monotonic() - began
            if len(self._containers) >= 40:
                self._clean()

    def _clean(self):
        """Drops the variables of the programs that are over."""
        for cluster in (self._theirs, self._ours):
            for target in cluster.targets.values():
                tf.Session.reset(target, self._containers, config=tf.ConfigProto(operation_timeout_in_ms=int(TIMEOUT * 1000)))
        self._containers = []

    def _bounded(self, program, timeout, alone=False):
        """Runs a program under the watchdog, and gives the difference; alone, all that TensorFlow's servers give."""
        result = []

        def run():
            try:
                result.append(self._pair.run(program, timeout, alone))
            except BaseException as e:  # pylint: disable=broad-except; it is raised again below
                result.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(WATCHDOG)
        if not result:
            self._restart(self._ours)
            self._restart(self._theirs)
            raise Stuck(listing(program))
        if isinstance(result[0], BaseException):
            raise result[0]
        difference, seen = result[0]
        if not self._theirs.running():
            self._restart(self._theirs)
            return seen if alone else None
        if difference is not None and difference.ours.error in running.HANGS and not self._answers(self._ours):
            self._restart(self._ours)
        return seen if alone else difference

    def _answers(self, cluster):
        """Whether each task of a cluster still makes a variable."""
        with tf.Graph().as_default(), tf.container("alive"):
            ops = []
            for task in cluster.targets:
                with tf.device("/job:%s/task:%s" % tuple(task.split(":"))):
                    ops += [tf.Variable(0.0, use_resource=ref).initializer for ref in (False, True)]
            try:
                with tf.Session(cluster.targets["worker:0"], config=tf.ConfigProto(operation_timeout_in_ms=2000)) as session:
                    session.run(ops)
                return True
            except tf.errors.OpError:
                return False

    def _restart(self, cluster):
        cluster.restart()
        self.restarts += 1
        self._containers = []
        self._pair.move(self._theirs.targets, self._ours.targets)

    def _judge(self, program, difference):
        """Reports a difference, unless TensorFlow itself differs from run to run, or with Grappler."""
        if difference.theirs.error in running.HANGS:
            self.hung.append(program.seed)
            return
        if difference.theirs.error == running.BROKEN:
            self.broken.append(program.seed)
            return
        if not self._stable(program):
            self.unstable.append(program.seed)
            return
        kind = difference.kind()
        again = None
        for _ in range(4):
            again = again or self._bounded(program, TIMEOUT)
        small, tried = program, 0
        if again is None:
            self.intermittent += 1
        else:
            impatient = IMPATIENCE if "a hang" in kind else TIMEOUT
            shrinker = Shrinker(lambda p: self._fails(p, kind, impatient), self._shrink_seconds)
            small, tried = shrinker.shrink(program), shrinker.tried
            confirmed = self._bounded(small, TIMEOUT)
            if confirmed is None:
                small = program
            difference = confirmed or again
        self.findings += 1
        print(self._report(program, small, difference, tried, again is None), flush=True)

    def _stable(self, program, modes=(False, False, True)):
        """Whether TensorFlow's servers give the same in each of several runs, with Grappler and without."""
        runs = []
        for grappler in modes:
            one = program.copy()
            one.grappler = grappler
            runs.append(self._bounded(one, TIMEOUT, alone=True))
        return all(len(r) == len(runs[0]) and all(len(x) == len(y) and all(map(running.same, x, y)) for x, y in zip(r, runs[0]))
                   for r in runs)

    def _fails(self, program, kind, timeout):
        try:
            found = self._bounded(program, timeout)
            return found is not None and found.kind() == kind and self._stable(program, (False, True))
        except Stuck:
            return False

    def _report(self, program, small, difference, tried, once):
        lines = ["--- seed %d, area %s: %s" % (program.seed, self._area, difference.kind())]
        lines.append("%d statements of %d, after %d tries%s" % (small.size(), program.size(), tried, ", seen once in five runs" if once else ""))
        lines.append(listing(small))
        where = "initialization" if difference.action < 0 else "%d. %s" % (difference.action, action(small.script[difference.action]))
        if difference.call:
            where += ", call %d" % difference.call
        lines.append("differs at " + where)
        lines.append("  TensorFlow: %s" % difference.theirs)
        lines.append("  Troupe:     %s" % difference.ours)
        lines.append("repeat: python e2e/differential/run.py --area %s --seed %d --programs 1 --troupe BINARY" % (self._area, program.seed))
        return "\n".join(lines) + "\n"

    def summary(self):
        took = time.monotonic() - self._started - self._shrinking
        pair = self._pair
        refused = collections.Counter(pair.refused).most_common(8)
        return ("%s: programs: %d, actions: %d, calls: %d, findings: %d (intermittent: %d), reference unstable: %d %s, hung: %d %s, internal errors: %d %s, restarts: %d, "
                "steps that computed: %.1f %%, refused by the client: %s, %.1f programs a second" % (
                    self._area, self.programs, self.actions, pair.calls, self.findings, self.intermittent, len(self.unstable),
                    self.unstable[:10], len(self.hung), self.hung[:10], len(self.broken), self.broken[:10], self.restarts, 100 * (1 - pair.failed / max(1, pair.calls)), refused or "none",
                    self.programs / max(took, 1e-3)))
