# usage: run.py --area AREA [--seed N] [--programs N] [--time SECONDS] (--ours TASK=TARGET,… | --troupe BINARY)
#
# Makes random programs, runs each on TensorFlow's own servers and on a Troupe cluster, both of one ps and two workers, and
# prints what differs, made small. The same seed gives the same program. Exits with 1 if there were differences.
import argparse
import os
import sys

for name, setting in (("TF_CPP_MIN_LOG_LEVEL", "3"), ("TF_ENABLE_ONEDNN_OPTS", "0"), ("CUDA_VISIBLE_DEVICES", "-1"),
                      ("GRPC_VERBOSITY", "ERROR")):
    os.environ.setdefault(name, setting)

import tensorflow.compat.v1 as tf  # pylint: disable=wrong-import-position

import areas  # pylint: disable=wrong-import-position
import clusters  # pylint: disable=wrong-import-position
import fuzzing  # pylint: disable=wrong-import-position
import reference  # pylint: disable=wrong-import-position


def main():
    parser = argparse.ArgumentParser(description="Compares random programs on Troupe and on TensorFlow's own servers.")
    parser.add_argument("--area", required=True, choices=[*areas.AREAS, "all"])
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--time", type=float, default=float("inf"), help="seconds for each area, without shrinking")
    parser.add_argument("--findings", type=int, default=5, help="so many, and an area ends")
    parser.add_argument("--shrink", type=float, default=60, help="seconds to make one finding small")
    parser.add_argument("--ours", help="the targets of a running cluster: ps:0=grpc://…,worker:0=grpc://…,worker:1=grpc://…")
    parser.add_argument("--troupe", help="the binary to start a cluster of")
    args = parser.parse_args()
    if bool(args.ours) == bool(args.troupe):
        parser.error("either --ours or --troupe is needed")
    tf.logging.set_verbosity(tf.logging.FATAL)
    tf.disable_v2_behavior()
    if args.ours:
        ours = clusters.Running(dict(task.split("=") for task in args.ours.split(",")))
    else:
        ours = clusters.Troupe(args.troupe, ps=1, worker=2)
    findings = 0
    try:
        with reference.Servers(ps=1, worker=2) as theirs:
            for area in areas.AREAS if args.area == "all" else [args.area]:
                fuzzer = fuzzing.Fuzzer(area, theirs, ours, args.shrink)
                fuzzer.run(args.seed, args.programs, args.time, args.findings)
                print(fuzzer.summary(), flush=True)
                findings += fuzzer.findings
    finally:
        ours.stop()
    sys.stdout.flush()
    os._exit(1 if findings else 0)  # a thread may hang in a call that was given up


main()
