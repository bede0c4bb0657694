"""Runs cases and programs for the Go tests of this folder, one after the other, in one process.

Importing TensorFlow takes seconds, so the tests keep a few of these processes. Each line on
standard input is a request, each line on standard output its answer, both in JSON:

  {"case": "cases/queues.py", "function": "test_…", "name": "…", "targets": {"ps:0": "grpc://…"}, "slack": 1}
  {"program": "programs/counter.py", "args": ["grpc://…"]}
  -> {"ok": true, "output": "what it printed", "result": …, "seconds": 0.1}
  -> {"ok": false, "error": "class", "message": "…", "op": "node", "trace": "…", …}

A case may ask the test for something to be done to a task before it goes on:

  -> {"do": "kill", "task": "ps:0"}
  {"ok": true}

With the argument --fork each request runs in a process of its own, a copy of this one that has imported TensorFlow and done nothing
else, which ends with it and may be killed. The test is told its number first:

  -> {"do": "started", "task": "4711"}

A program gets `import tensorflow` as tensorflow.compat.v1 in graph mode, as it was written for
TensorFlow 1; whatever is run starts with an empty default graph.
"""
import contextlib
import faulthandler
import gc
import importlib.util
import io
import json
import os
import runpy
import signal
import sys
import time
import traceback

from support import Cluster, np, tf


def plain(value):
    """A value as JSON takes it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def ask(what, task):
    """Has the test do something to a task, and returns when it is done."""
    print(json.dumps({"do": what, "task": task}), file=answers, flush=True)
    reply = json.loads(sys.stdin.readline())
    assert reply["ok"], reply


def run_case(request):
    path = os.path.join(os.path.dirname(__file__), request["case"])
    spec = importlib.util.spec_from_file_location("case", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # Cases name their variables alike: each has a container of its own.
    with tf.container(request["name"]):
        return getattr(module, request["function"])(Cluster(request["name"], request["targets"], ask, request["slack"]))


def run_program(request):
    modules, argv = sys.modules["tensorflow"], sys.argv
    sys.modules["tensorflow"] = tf
    sys.argv = [request["program"]] + request.get("args", [])
    try:
        runpy.run_path(request["program"], run_name="__main__")
    finally:
        sys.modules["tensorflow"], sys.argv = modules, argv


def answer(request):
    start, output = time.monotonic(), io.StringIO()
    reply = {"ok": True}
    try:
        with contextlib.redirect_stdout(output), tf.Graph().as_default():
            reply["result"] = plain((run_case if "case" in request else run_program)(request))
    except (Exception, SystemExit) as e:  # pylint: disable=broad-except
        op = getattr(e, "op", None)
        reply = {"ok": False, "error": type(e).__name__, "message": getattr(e, "message", None) or str(e),
                 "op": op.name if op is not None else "", "trace": traceback.format_exc()}
    # Sessions that are garbage say goodbye to their servers now: later these may be gone, and the
    # client would wait for them without end, in the middle of whatever runs then.
    gc.collect()
    reply.update(output=output.getvalue(), seconds=time.monotonic() - start)
    return reply


def in_a_process(request):
    """Runs a request in a process of its own. What that says of its end comes from there."""
    known, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(tell)
        os.read(known, 1)  # until the test knows the process
        print(json.dumps(answer(request), default=str), file=answers, flush=True)
        os._exit(0)
    os.close(known)
    ask("started", str(child))
    os.close(tell)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        print(json.dumps({"ok": False, "error": "Killed", "message": "exit code %d" % status}), file=answers, flush=True)


answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what TensorFlow prints goes to the log


def main():
    faulthandler.enable()  # SIGABRT
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # how a test asks where it hangs
    print(json.dumps({"ok": True}), file=answers, flush=True)
    while line := sys.stdin.readline():  # not a loop over its lines, which reads ahead
        if "--fork" in sys.argv:
            in_a_process(json.loads(line))
        else:
            print(json.dumps(answer(json.loads(line)), default=str), file=answers, flush=True)


if __name__ == "__main__":
    main()
