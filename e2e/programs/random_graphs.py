# usage: random_graphs.py DIR TARGET     runs the graphs of DIR on the cluster of TARGET and on one of TensorFlow's own
# servers, of as many tasks, and prints what differs: "same: N of N". Each graph is NAME.pb, a GraphDef, with
# NAME.json: init (targets) and steps (feed, by name, fetch, target, and want: what has to be fetched, if that is known).
import glob
import json
import os
import sys

import numpy as np
import tensorflow as tf

from differential.reference import Servers

directory, target = sys.argv[1:]


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
same = 0
with Servers(worker=2) as servers:
    for path in cases:
        graph = tf.GraphDef()
        with open(path, "rb") as f:
            graph.ParseFromString(f.read())
        with open(path[:-3] + ".json") as f:
            case = json.load(f)
        theirs, failed = attempt(servers.targets["worker:0"], on_one_task(graph), case)
        ours, failed_too = attempt(target, graph, case)
        different = failed_too and "fails: " + failed_too or failed and "fails with TensorFlow's server: " + failed
        different = different or difference(ours, theirs, case["steps"])
        if different:
            print(os.path.basename(path), different)
        same += not different
print("same: %d of %d" % (same, len(cases)))
