"""Draws programs, runs them, and reports what differs."""
import collections
import os
import threading
import time

import tensorflow.compat.v1 as tf

from areas import AREAS
from listing import action, listing
from outcomes import HANGS, same
from running import Pair
from shrinking import Shrinker

TIMEOUT = 10.0  # of one call, in seconds
WATCHDOG = 60.0  # of one program
# While a program that hangs is made small, a call that takes so long hangs, too. The smallest one gets TIMEOUT again.
IMPATIENCE = 1.5


# What TensorFlow's placer says of a function that uses variables of several tasks. Troupe puts its nodes where these are.
SPREAD = "Cannot place the graph because a reference or resource edge connects colocation groups"
# What it says of values that a branch takes in from such a function.
APART = "Cannot merge devices with incompatible"
# What TensorFlow's servers say where a result of a function is fetched that needs no more than some of the arguments. Where
# Troupe runs the function's nodes in the place of the call, the others need not be fed.
UNFED = "You must feed a value for placeholder tensor"


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
        self._shrinking = 0.0  # seconds
        self._lost = False  # our cluster does not answer, and somebody else has to restart it
        self._pair = Pair(theirs.targets, ours.targets, self._container)
        self.programs = self.actions = self.findings = self.intermittent = self.restarts = 0
        self.unstable = []  # seeds for which TensorFlow's servers differ from run to run, or with Grappler
        self.hung = []  # that they do not answer
        self.refused = 0  # that they cannot place, and Troupe can
        self.listed = 0  # differences that docs/differences.md names: a functional loop needs all its inputs
        self.broken = []  # that they answer with a mistake of their own, or crash at

    def _container(self):
        self._number += 1
        self._containers.append("program.%d.%d" % (os.getpid(), self._number))
        return self._containers[-1]

    def run(self, seed, programs, seconds, findings):
        """Runs programs until there were so many, the time is over, or there are enough findings."""
        self._started = time.monotonic()
        for number in range(seed, seed + programs):
            if time.monotonic() - self._started - self._shrinking > seconds or self.findings >= findings or self._lost:
                break
            program = AREAS[self._area](number)
            self.programs += 1
            self.actions += len(program.script)
            try:
                difference = self._bounded(program, TIMEOUT)
                if difference is not None:
                    began = time.monotonic()
                    self._judge(program, difference)
                    self._shrinking += time.monotonic() - began
            except Stuck:
                self.findings += 1
                print("--- seed %d, area %s: the client is stuck\n%s\n" % (number, self._area, listing(program)), flush=True)
            if len(self._containers) >= 40 and not self._lost:
                self._clean()

    def _clean(self):
        """Drops the variables of the programs that are over."""
        for cluster in (self._theirs, self._ours):
            for task, target in cluster.targets.items():
                try:
                    tf.Session.reset(target, self._containers, config=tf.ConfigProto(operation_timeout_in_ms=int(TIMEOUT * 1000)))
                except tf.errors.OpError as e:
                    if cluster is self._ours:
                        self.findings += 1
                        print("--- a reset of %s gives %s\n" % (task, e.message), flush=True)
                    self._restart(cluster)
                    break
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
            raise Stuck()
        if isinstance(result[0], BaseException):
            raise result[0]
        difference, seen = result[0]
        if difference is not None and difference.ours.error and not (self._ours.running() and self._answers(self._ours)):
            self._restart(self._ours)
        if not self._theirs.running():
            self._restart(self._theirs)
            self.broken.append(program.seed)
            return seen if alone else None
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
        if not cluster.restartable:
            self._lost = True
            return
        cluster.restart()
        self.restarts += 1
        self._containers = []
        self._pair.move(self._theirs.targets, self._ours.targets)

    def _judge(self, program, difference):
        """Reports a difference, unless TensorFlow's servers have no right answer."""
        if difference.theirs.error in HANGS:
            self.hung.append(program.seed)
            return
        if difference.theirs.mistaken():
            self.broken.append(program.seed)
            return
        if difference.ours.error is None and any(words in difference.theirs.message for words in (SPREAD, APART, UNFED)):
            self.refused += 1
            return
        if program.one_task and APART in difference.ours.message:  # the reference was not asked for these devices
            self.refused += 1
            return
        if UNFED in difference.ours.message and any(s.attrs.get("functional") for scope in program.scopes() for s in scope):
            self.listed += 1
            return
        small, tried, note = program, 0, ""
        if self._lost:
            note = ", and the cluster does not answer any more"
        elif not self._stable(program, difference, [(False, True), (False, True), (True, True), (False, False)]):
            self.unstable.append(program.seed)
            return
        else:
            small, difference, tried, note = self._smaller(program, difference)
        self.findings += 1
        print(self._report(program, small, difference, tried, note), flush=True)

    def _smaller(self, program, difference):
        """Makes a program small that differs, if it does so again."""
        kind = difference.kind()
        again = None
        for _ in range(4):
            again = again or self._bounded(program, TIMEOUT)
        if again is None or self._lost:
            self.intermittent += again is None
            return program, difference, 0, ", not again in four runs" if again is None else ""
        shrinker = Shrinker(lambda p: self._fails(p, kind, IMPATIENCE if "a hang" in kind else TIMEOUT), self._shrink_seconds)
        small = shrinker.shrink(program)
        confirmed = None if self._lost else self._bounded(small, TIMEOUT)
        if confirmed is None:
            return program, again, shrinker.tried, ", a smaller one does not differ each time"
        return small, confirmed, shrinker.tried, ""

    def _fails(self, program, kind, timeout):
        """Whether a smaller program differs in the same way."""
        if self._lost:
            return False
        try:
            found = self._bounded(program, timeout)
            return found is not None and found.kind() == kind and self._stable(program, found, [(False, True), (True, True)])
        except Stuck:
            return False

    def _stable(self, program, difference, modes):
        """Whether TensorFlow's servers give what they gave in further runs, up to the difference. Modes are whether Grappler
        runs, and whether constants are folded."""
        for grappler, folds in modes:
            one = program.copy()
            one.grappler, one.folds = grappler, folds
            for before, now in zip(difference.seen, self._bounded(one, TIMEOUT, alone=True)):
                if len(before) != len(now) or not all(map(same, before, now)):
                    return False
        return True

    def _report(self, program, small, difference, tried, note):
        where = "the initialization"
        if difference.action >= 0:
            where = "%d. %s" % (difference.action, action(small, small.script[difference.action]))
        return "\n".join([
            "--- seed %d, area %s: %s" % (program.seed, self._area, difference.kind()),
            "%d statements of %d, after %d tries%s" % (small.size(), program.size(), tried, note),
            listing(small),
            "differs at %s%s" % (where, ", call %d" % difference.call if difference.call else ""),
            "  TensorFlow: %s" % difference.theirs,
            "  Troupe:     %s" % difference.ours,
            "repeat: python e2e/differential/run.py --area %s --seed %d --programs 1 --troupe BINARY" % (self._area, program.seed),
            ""])

    def summary(self):
        took = time.monotonic() - self._started - self._shrinking
        pair = self._pair
        refused = ", ".join("%d %s" % (n, what) for what, n in collections.Counter(pair.refused).most_common(8))
        return "; ".join([
            "%s: programs: %d, %.1f a second" % (self._area, self.programs, self.programs / max(took, 1e-3)),
            "actions: %d, calls: %d" % (self.actions, pair.calls),
            "calls that computed: %.1f %%" % (100 * (1 - pair.failed / max(1, pair.calls))),
            "findings: %d, intermittent: %d" % (self.findings, self.intermittent),
            "reference unstable: %d %s" % (len(self.unstable), self.unstable[:10]),
            "reference hung: %d %s" % (len(self.hung), self.hung[:10]),
            "reference broken: %d %s" % (len(self.broken), self.broken[:10]), "refused by the reference: %d" % self.refused,
            "listed: %d" % self.listed,
            "restarts: %d" % self.restarts,
            "not built by the client: %s" % (refused or "none")])
