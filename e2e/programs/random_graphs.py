# usage: random_graphs.py DIR TARGET     runs the graphs of DIR on the cluster of TARGET and on one of TensorFlow's own
# servers, of as many tasks, and prints what differs: "same: N of N". Each graph is NAME.pb, a GraphDef, with
# NAME.json: init (targets) and steps (feed, by name, fetch, target, and want: what has to be fetched, if that is known).
import glob
import json
import os
import socket
import subprocess
import sys

import numpy as np
import tensorflow as tf

directory, target = sys.argv[1:]


# A process of its own: one with servers in it does not end by itself.
SERVERS = """
import os, sys
import tensorflow.compat.v1 as tf
spec = tf.train.ClusterSpec({"worker": sys.argv[1:]})
servers = [tf.train.Server(spec, "worker", i) for i in range(len(sys.argv) - 1)]
print("up", flush=True)
sys.stdin.read()
os._exit(0)
"""


def servers(tasks):
    """Starts TensorFlow's servers, and gives their process and the target of the first one."""
    for _ in range(5):  # another process may take a port before the server does
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(tasks)]
        addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in held]
        for s in held:
            s.close()
        process = subprocess.Popen([sys.executable, "-c", SERVERS] + addresses, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if any(b"up" in line for line in process.stdout):
            return process, "grpc://" + addresses[0]
        process.wait()
    sys.exit("TensorFlow's servers did not start")


def on_one_task(graph):
    """The graph as TensorFlow's servers can run it: calls of functions cannot leave a task there."""
    if not graph.library.function:
        return graph
    one = tf.GraphDef.FromString(graph.SerializeToString())
    for node in list(one.node) + [n for f in one.library.function for n in f.node_def]:
        if node.device:
            node.device = "/job:worker/task:0"
    return one


def run(where, graph, case):
    """All that the steps fetch. TensorFlow's optimizers are off: they rewrite what is fed, and read variables at other times."""
    config = tf.ConfigProto(operation_timeout_in_ms=30000)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    g = tf.Graph()
    with g.as_default():
        tf.import_graph_def(graph, name="")
        out = []
        with tf.Session(where, config=config) as session:
            if case["init"]:
                session.run([g.get_operation_by_name(n) for n in case["init"]])
            for step in case["steps"]:
                fed = {name: np.array(v, g.get_tensor_by_name(name).dtype.as_numpy_dtype) for name, v in step["feed"].items()}
                targets = [g.get_operation_by_name(n) for n in step["target"]]
                out.append(session.run([step["fetch"], targets], fed)[0])
    return out


def attempt(where, graph, case):
    """What the steps fetch, and the error that they end with."""
    try:
        return run(where, graph, case), ""
    except tf.errors.OpError as e:
        return None, e.message


def difference(ours, theirs, steps):
    for number, (a, b, step) in enumerate(zip(ours, theirs, steps)):
        for name, x, y, want in zip(step["fetch"], a, b, step.get("want", b)):
            if not same_values(x, y) or not same_values(y, np.array(want)):
                return "step %d, %s: %s, with TensorFlow's server %s, and it should be %s" % (number, name, x.tolist(), y.tolist(), np.array(want).tolist())
    return ""


def same_values(x, y):
    return x.shape == y.shape and np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True)


cases = sorted(glob.glob(os.path.join(directory, "*.pb")))
process, reference = servers(2)
same = 0
try:
    for path in cases:
        graph = tf.GraphDef()
        with open(path, "rb") as f:
            graph.ParseFromString(f.read())
        with open(path[:-3] + ".json") as f:
            case = json.load(f)
        theirs, failed = attempt(reference, on_one_task(graph), case)
        ours, failed_too = attempt(target, graph, case)
        different = failed_too and "fails: " + failed_too or failed and "fails with TensorFlow's server: " + failed
        different = different or difference(ours, theirs, case["steps"])
        if different:
            print(os.path.basename(path), different)
        same += not different
finally:
    process.stdin.close()
    process.wait()
print("same: %d of %d" % (same, len(cases)))
