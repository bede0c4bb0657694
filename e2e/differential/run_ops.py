"""Compares single ops with inputs at the edges on TensorFlow's server and on Troupe. See ops.py.

  python run_ops.py --ours grpc://host:port --known OPS [--seed 0] [--programs 2000] [--ops REGEXP] [--time SECONDS]
  python run_ops.py --ours grpc://host:port --call 'Call("Abs", dict(x=a([-1], "int8")))'

OPS is a file with the names of the ops that Troupe's kernels know. The exit status is 1 if something differs.
"""
import argparse
import os
import re
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import ops  # noqa: E402
import ops_lists  # noqa: E402


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the target of a Troupe task")
    p.add_argument("--known", help="a file with the ops that Troupe knows, one a line")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--programs", type=int, default=2000)
    p.add_argument("--ops", default="", help="only ops that this regular expression finds")
    p.add_argument("--time", type=float, default=600, help="at most so many seconds")
    p.add_argument("--grid", metavar="PART/PARTS", help="a part of the cells of a grid of all types, sizes, attributes and wrong inputs, in place of programs by seed")
    p.add_argument("--call", help="runs one call, as findings print it")
    p.add_argument("--raw", action="store_true", help="prints findings as they are found, not made small")
    p.add_argument("--verbose", action="store_true", help="also prints what clients refuse, what ends TensorFlow's server, and the ops of which no call succeeds")
    return p.parse_args()


def one(pair, text):
    call = ops.read(text)
    outcomes = pair.run([call])[0]
    if outcomes is None:
        print("the client refuses it, or it ends TensorFlow's server:", call.refusal)
        return 1
    kind = ops.difference(call, *outcomes)
    print("TensorFlow: %r\nTroupe:     %r\n%s" % (*outcomes, kind or "the same"))
    return bool(kind)


def main():
    args = arguments()
    pair = ops.Pair(args.ours)
    try:
        if args.call:
            return one(pair, args.call)
        with open(args.known) as f:
            known = f.read().split()
        wrong = ops_lists.stale(known)
        if wrong:
            raise SystemExit("listed as not covered, but no kernel knows them, or they have a row: " + " ".join(wrong))
        covered = [op for op in known if not ops_lists.reason_not_covered(op)]
        chosen = [op for op in covered if re.search(args.ops, op)]
        if args.grid:
            grid = ops.Grid()
            part, parts = map(int, args.grid.split("/"))
            grid.run(pair, chosen, part, parts, args.time, small=not args.raw)
            report_grid(args, pair, grid, len(chosen))
            return bool(grid.tally.findings)
        tally = ops.fuzz(pair, chosen, args.seed, args.programs, args.time, small=not args.raw)
        report(args, pair, tally, known)
        return bool(tally.findings)
    finally:
        pair.close()


def report(args, pair, tally, known):
    for finding in tally.findings.values():
        if finding.times > 1:
            print("%d times: %s (%s)" % (finding.times, finding.call.op, finding.kind))
    for why, times in tally.accepted.items():
        print("accepted, %d times: %s" % (times, why))
    if args.verbose:
        for op, calls in tally.refused.items():
            print("refused %d times: %s: %s" % (len(calls), op, str(calls[-1].refusal).split("\n")[0][:300]))
        for op, s in sorted(tally.seconds.items(), key=lambda x: -x[1])[:5]:
            print("slow: %s, %.1f s" % (op, s))
        print("no call succeeds:", " ".join(op for op, (good, _) in tally.ops.items() if not good))
    print("programs: %d, errors among them: %d, refused by the client: %d, TensorFlow's server ended: %d" % (
        tally.programs, tally.errors, sum(map(len, tally.refused.values())), len(pair.crashed)))
    print("ops: %d of %d, with their types: %d" % (len(tally.ops), len(known), len(tally.types)))
    print("findings: %d" % len(tally.findings))


def report_grid(args, pair, grid, covered):
    for finding in grid.tally.findings.values():
        if finding.times > 1:
            print("%d times: %s (%s)" % (finding.times, finding.call.op, finding.kind))
    for why, times in grid.tally.accepted.items():
        print("accepted, %d times: %s" % (times, why))
    for op in sorted(grid.ops) if args.verbose else ():
        print("%s: %s" % (op, grid.ops[op]))
    for name, row in grid.names.items():
        print("%s: %s" % (name, row))
    if args.verbose:
        print("no call is taken:", " ".join(sorted({c.op + str(sorted(c.types())) for c in grid.never})))
    print("ops: %d of %d that there are calls of, with their types: %d, TensorFlow's server ended: %d" % (len(grid.done), covered, len(grid.tally.types), len(pair.crashed)))
    print("all: %s" % sum_of(grid.ops.values()))
    print("findings: %d" % len(grid.tally.findings))


def sum_of(rows):
    total = ops.Row()
    for row in rows:
        for name, value in vars(row).items():
            setattr(total, name, getattr(total, name) + value)
    return total


if __name__ == "__main__":
    if main():
        sys.exit(1)
