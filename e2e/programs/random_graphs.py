# usage: random_graphs.py DIR TARGET     runs the graphs of DIR on the cluster of TARGET and on one of TensorFlow's own
# servers, of as many tasks, and prints what differs: "same: N of N". Each graph is NAME.pb, a GraphDef, with
# NAME.json: init (targets), steps (what is fed), fetch and target.
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
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(tasks)]
    addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    process = subprocess.Popen([sys.executable, "-c", SERVERS] + addresses, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    while b"up" not in process.stdout.readline():
        if process.poll() is not None:
            sys.exit("TensorFlow's servers did not start")
    return process, "grpc://" + addresses[0]


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
    """All that the steps fetch."""
    g = tf.Graph()
    with g.as_default():
        tf.import_graph_def(graph, name="")
        out = []
        with tf.Session(where, config=tf.ConfigProto(operation_timeout_in_ms=30000)) as session:
            if case["init"]:
                session.run([g.get_operation_by_name(n) for n in case["init"]])
            targets = [g.get_operation_by_name(n) for n in case["target"]]
            for feed in case["steps"]:
                fed = {name: np.array(v, np.float32).reshape(3, 3) for name, v in zip(case["feed"], feed)}
                out.append(session.run([case["fetch"], targets], fed)[0])
    return out


def difference(ours, theirs, names):
    for step, (a, b) in enumerate(zip(ours, theirs)):
        for name, x, y in zip(names, a, b):
            if x.shape != y.shape or not np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True):
                return "step %d, %s: %s, with TensorFlow's server %s" % (step, name, x.tolist(), y.tolist())
    return ""


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
        theirs = run(reference, on_one_task(graph), case)
        different = difference(run(target, graph, case), theirs, case["fetch"])
        if different:
            print(os.path.basename(path), different)
        same += not different
finally:
    process.stdin.close()
    process.wait()
print("same: %d of %d" % (same, len(cases)))
