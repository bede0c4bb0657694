"""Compares single ops on TensorFlow's server and on Troupe, with inputs at the edges: a differential fuzzer.

A program is one call of an op: its seed chooses the types among those of TensorFlow's CPU kernels, the attributes and
the inputs. ops_make.py and the rows of ops_rows_*.py make calls, ops_run.py runs them, ops_compare.py says what is the
same, ops_shrink.py makes a finding small, and ops_lists.py names what is left out and what differs on purpose.
"""
import itertools
import time

import ops_grid
import ops_lists
import ops_rows_array, ops_rows_codecs, ops_rows_csr, ops_rows_data, ops_rows_images, ops_rows_math, ops_rows_nn, ops_rows_pictures, ops_rows_quantized, ops_rows_random  # noqa: E401,F401 they fill ops_make.ROWS
import ops_rows_sparse, ops_rows_state, ops_rows_windows  # noqa: E401,F401
from ops_call import declaration, read  # noqa: F401
from ops_compare import difference
from ops_make import make
from ops_run import Pair
from ops_shrink import shrink

BATCH = 40
MOST_CRASHES = 2  # of an op; then it is left alone
MOST_CRASHES_OF_GRID = 4


class Finding:
    def __init__(self, call, theirs, ours, kind):
        self.call, self.theirs, self.ours, self.kind, self.times = call, theirs, ours, kind, 1

    def __str__(self):
        return "%s (%s)\n  python run_ops.py --call '%r'\n  TensorFlow: %r\n  Troupe:     %r" % (
            self.call.op, self.kind, self.call, self.theirs, self.ours)


class Tally:
    """What a run came to."""

    def __init__(self):
        self.programs, self.refused, self.errors, self.ops, self.types = 0, {}, 0, {}, set()
        self.findings, self.accepted, self.seconds = {}, {}, {}

    def count(self, call, theirs, ours):
        self.seconds[call.op] = max(self.seconds.get(call.op, 0), theirs.seconds, ours.seconds)
        self.programs += 1
        self.errors += bool(theirs.error)
        self.ops.setdefault(call.op, [0, 0])[bool(theirs.error)] += 1
        self.types.update((call.op, t) for t in call.types())


def programs(ops, seed, count):
    """Calls of each op in turn, (op, seed) by (op, seed)."""
    for i in range(count):
        yield ops[i % len(ops)], seed + i // len(ops)


def fuzz(pair, ops, seed, count, seconds, small=True):
    """Runs programs until they are enough or the time is over, and gives the tally."""
    tally, end, waiting = Tally(), time.monotonic() + seconds, []

    def flush():
        for call, p in zip(waiting, pair.run(waiting)):
            if p is None:
                tally.refused.setdefault(call.op, []).append(call)
                continue
            tally.count(call, *p)
            check(tally, pair, call, *p, small=small and time.monotonic() < end)
        del waiting[:]

    for op, s in programs(ops, seed, count):
        if time.monotonic() > end:
            break
        if pair.crashes.get(op, 0) >= MOST_CRASHES:
            continue
        call = make(op, s)
        if not ops_lists.crashes(call):
            waiting.append(call)
        if len(waiting) == BATCH:
            flush()
    if waiting:
        flush()
    return tally


class Row:
    """What the cells of a grid came to, of an op or of a name."""

    def __init__(self):
        self.calls = self.same = self.errors = self.accepted = self.differ = self.refused = 0

    def __str__(self):
        return "%d calls, %d with the same result, %d with the same error, %d that differ on purpose, %d that differ, %d refused by the client" % (
            self.calls, self.same, self.errors, self.accepted, self.differ, self.refused)


class Grid:
    """The cells of all ops, run on both servers."""

    def __init__(self):
        self.tally, self.ops, self.names, self.never, self.texts, self.done = Tally(), {}, {}, [], [], set()

    def run(self, pair, ops, part, parts, seconds, small=True):
        """Runs a part of the grid, until the time is over; done then has the ops that it came to."""
        end, waiting = time.monotonic() + seconds, []
        ops = sorted(ops, key=ops_grid.turn)  # so that what the time is enough for is some of every kind
        cells = (ops_grid.grid(pair, ops[at:at + BATCH], part, parts) for at in range(0, len(ops), BATCH))
        for op, name, call in itertools.chain.from_iterable(cells):
            if time.monotonic() > end:
                break
            self.done.add(op)
            if name == "never":
                self.never.append(call)
            elif pair.crashes.get(op, 0) < MOST_CRASHES_OF_GRID:
                waiting.append((name, call))
            if len(waiting) == BATCH:
                self.flush(pair, waiting, small)
        self.flush(pair, waiting, small)

    def flush(self, pair, waiting, small):
        for (name, call), p in zip(waiting, pair.run([c for _, c in waiting])):
            rows = self.ops.setdefault(call.op, Row()), self.names.setdefault(name, Row())
            before = len(self.tally.findings), sum(f.times for f in self.tally.findings.values())
            if p:
                self.tally.count(call, *p)
                check(self.tally, pair, call, *p, small=small)
                self.texts.append((call, *p))
            for row in rows:
                row.calls += 1
                if p is None:
                    row.refused += 1
                elif not difference(call, *p):
                    row.same += not p[0].error
                    row.errors += bool(p[0].error)
                elif before != (len(self.tally.findings), sum(f.times for f in self.tally.findings.values())):
                    row.differ += 1
                else:
                    row.accepted += 1
        del waiting[:]


def check(tally, pair, call, theirs, ours, small=True):
    kind = difference(call, theirs, ours)
    if not kind:
        return
    why = ops_lists.accepted(call, theirs, ours)
    if why:
        tally.accepted[why] = tally.accepted.get(why, 0) + 1
        return
    key = call.op, kind
    if key in tally.findings:
        tally.findings[key].times += 1
        return
    if small:
        call = shrink(pair, call, kind)
        theirs, ours = pair.run([call])[0]
    tally.findings[key] = Finding(call, theirs, ours, kind)
    print(tally.findings[key], flush=True)
