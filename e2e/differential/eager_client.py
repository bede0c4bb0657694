# usage: eager_client.py     runs programs of TensorFlow 2, which it reads from its standard input, on the cluster that it is told, and writes what
# each statement gives. Both are pickled, with their length before them.
import contextlib
import faulthandler
import functools
import gc
import linecache
import os
import pickle
import re
import select
import shutil
import struct
import sys
import tempfile
import threading
import traceback
import types

for name, setting in (("TF_CPP_MIN_LOG_LEVEL", "3"), ("TF_ENABLE_ONEDNN_OPTS", "0"), ("CUDA_VISIBLE_DEVICES", "-1"), ("GRPC_VERBOSITY", "ERROR")):
    os.environ.setdefault(name, setting)

import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from tensorflow.core.protobuf import cluster_pb2, tensorflow_server_pb2  # pylint: disable=wrong-import-position
from tensorflow.python import pywrap_tfe  # pylint: disable=wrong-import-position
from tensorflow.python.eager import context, executor  # pylint: disable=wrong-import-position


class Namespace:
    """What a program's statements see."""

    def __init__(self, spec, folder):
        self._spec = spec
        self.shown = []
        module = types.ModuleType("program")  # AutoGraph looks for the module of a function
        sys.modules["program"] = module
        self.names = module.__dict__
        self.names.update({
            "tf": tf, "np": np, "gc": gc, "os": os, "context": context, "executor": executor, "contextlib": contextlib, "threading": threading,
            "DIR": folder, "UNIQUE": os.path.basename(folder), "show": self._show, "connect": self.connect, "again": self._again, "where": self._where, "with_options": _with_options,
        })
        self._own = set(self.names)

    def connect(self, tasks):
        """Gives the program a cluster of these tasks, named by job, in a context of its own. What it made before is gone: TensorFlow's client
        crashes if a variable of a former cluster ends after it."""
        self.clear()
        cluster = cluster_pb2.ClusterDef()
        for job, members in tasks.items():
            cluster.job.add(name=job).tasks.update(enumerate(self._spec[task] for task in members))
        # The server that the client had for its last cluster keeps its port.
        cluster.job.add(name="client").tasks[0] = "localhost:%d" % pywrap_tfe.TF_PickUnusedPortOrDie()
        context.context().set_server_def(tensorflow_server_pb2.ServerDef(cluster=cluster, job_name="client", protocol="grpc"))

    def clear(self):
        """Drops what the program has made."""
        for name in set(self.names) - self._own:
            del self.names[name]
        gc.collect()

    def _again(self):
        """Tells the tasks the same cluster once more. What was made before stays."""
        context.context().update_server_def(context.context().get_server_def())

    def _show(self, *values):
        self.shown += [_plain(v) for v in tf.nest.flatten(values, expand_composites=True)]

    def _where(self, *tensors):
        self.shown += [t.device for t in tensors]


def _with_options(dataset, name, value):
    """A dataset with an option of tf.data, such as threading.max_intra_op_parallelism."""
    options = tf.data.Options()
    *groups, name = name.split(".")
    setattr(functools.reduce(getattr, groups, options), name, value)
    return dataset.with_options(options)


def _plain(v):
    """A value that can be pickled."""
    if isinstance(v, tf.Variable):
        v = v.read_value()
    if isinstance(v, tf.Tensor):
        if v.dtype == tf.bfloat16:
            v = tf.cast(v, tf.float32)
        return v.numpy() if v.shape.rank or v.dtype != tf.string else np.array(v.numpy(), object)
    return v if isinstance(v, (int, float, bool, str, bytes, type(None))) else str(v)


# What differs from run to run, or from one server to another, in the text of an error: names of functions and of C++ classes, numbers, which
# function and op of the client it is from, which depends on when the client notices it, and whether an earlier program has used a container. Troupe
# says in which checkpoint it did not find a tensor, and who has closed a queue, unless that was just now.
_VARYING = (
    (r"(127\.0\.0\.1|localhost):\d+", "ADDRESS"), (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"_partitioned_\d+(_\d+)?", "_partitioned"), (r"(__inference_\w+?|__forward_\w+?|__backward_\w+?)_\d+\b", r"\1"), (r"Op ID: \d+", "Op ID: N"),
    (r"AnonymousVar\d+", "AnonymousVar"), (r"\b0x[0-9a-f]+\b", "POINTER"), (r"Queue '\w+'", "Queue 'N'"), (r"(not found in checkpoint) \S+$", r"\1"), (r"Dataset:\d+ ", "Dataset "), (r"\b\d{9,}\b", "N"),
    (r"\bN10tensorflow\d+(\w+?)E\b", r"\1"), (r"\{\{function_node [^}]*\}\} ", ""), (r" *\[Op:\w+\] name: *\w*$", ""),
    (r"(current size \d+\))\. It was closed after .*$", r"\1"), (r"(is closed\.) It was closed after .*$", r"\1"),
    (r"Container \w+ does not exist. \(Could not find resource: (\w+/\w+)\)", r"Resource \1/Var does not exist."),
)


def _first_line(message, folder):
    line = message.replace(folder, "DIR").replace(os.path.basename(folder), "UNIQUE").strip().split("\n")[0]
    for pattern, text in _VARYING:
        line = re.sub(pattern, text, line)
    return line


def run(program, spec):
    """Runs a program, and writes what each of its statements gives: what it shows, and the class and first line of its error."""
    folder = tempfile.mkdtemp(prefix="eager")
    space = Namespace(spec, folder)
    tf.random.set_seed(program["seed"])
    tf.config.set_soft_device_placement(True)
    try:
        for number, code in enumerate(program["statements"]):
            space.shown = []
            error = None
            name = "<statement %d>" % number
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)  # AutoGraph reads it
            try:
                exec(compile(code, name, "exec"), space.names)  # pylint: disable=exec-used
            except BaseException as e:  # pylint: disable=broad-except; whatever it is, it is compared
                message = e.message if isinstance(e, tf.errors.OpError) else str(e)
                error = (type(e).__name__, _first_line(message, folder), message, "" if isinstance(e, tf.errors.OpError) else traceback.format_exc())
            write((number, space.shown, error))
    finally:
        space.clear()
        context.context().executor.clear_error()
        tf.experimental.async_clear_error()
        gc.collect()
        shutil.rmtree(folder, ignore_errors=True)
    write(None)


def write(result):
    data = pickle.dumps(result)
    out.write(struct.pack("<I", len(data)) + data)
    out.flush()


def read():
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        os._exit(0)
    return pickle.loads(sys.stdin.buffer.read(struct.unpack("<I", head)[0]))


def end_with_reader():
    """Ends the process when nobody writes to its standard input any more, also while a program hangs."""
    end = select.poll()
    end.register(0, 0)  # it ends, or it fails: both are told unasked
    end.poll()
    os._exit(1)


out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what programs print
faulthandler.enable()
threading.Thread(target=end_with_reader, daemon=True).start()
spec = read()
write("ready")
while True:
    run(read(), spec)
