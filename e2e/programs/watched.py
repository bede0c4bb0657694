# usage: watched.py TARGET FOLDER     prints "done"
# TensorFlow's debugger watches steps that run on two tasks, and reads what their tensors were. The variable is in a container of the folder's
# name: it has no value in the beginning, whoever else runs this.
import glob
import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.debug.lib import debug_data
from tensorflow.python.debug.lib import debug_utils
from tensorflow.python.debug.wrappers import dumping_wrapper

target, folder = sys.argv[1:]
first, second = ("/job:worker/replica:0/task:%d/device:CPU:0" % i for i in (0, 1))


def raises(error, text, run):
    try:
        run()
    except error as e:
        assert text in str(e), e
    else:
        raise AssertionError("no " + error.__name__)


with tf.device("/job:worker/task:0"):
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    with tf.container(os.path.basename(folder)):
        v = tf.Variable(tf.ones([2, 2]), use_resource=False, name="v")
    y = tf.matmul(x, v, name="scope/y")
with tf.device("/job:worker/task:1"):
    z = tf.log(y - 7, name="z")
    text = tf.strings.as_string(z, name="text")
    end = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")

with tf.Session(target) as plain:
    sess = dumping_wrapper.DumpingDebugWrapperSession(plain, os.path.join(folder, "session"))
    sess.run(v.initializer)
    got = sess.run([z, text, end], {x: [[1, 2], [3, 4]]})
    np.testing.assert_allclose(got[0], np.log([[-4, -4], [0, 0]]))
    assert got[2] == 3

    runs = sorted(glob.glob(os.path.join(folder, "session", "run_*")))
    assert len(runs) == 2, runs
    # The Assign saw a variable without a value.
    assigned = debug_data.DebugDumpDir(runs[0])
    before, = assigned.get_tensors("v", 0, "DebugIdentity")
    assert isinstance(before, debug_data.InconvertibleTensorProto) and not before.initialized, before

    dump = debug_data.DebugDumpDir(runs[1])
    assert sorted(dump.devices()) == [first, second], dump.devices()
    assert dump.core_metadata.input_names == ["x:0"], dump.core_metadata
    np.testing.assert_allclose(dump.get_tensors("scope/y", 0, "DebugIdentity"), [[[3, 3], [7, 7]]])
    assert [int(i) for i in dump.get_tensors("loop/Identity", 0, "DebugIdentity")] == [0, 1, 2]
    bad = [d.node_name for d in dump.find(debug_data.has_inf_or_nan)]
    assert bad[0] == "z", bad
    assert dump.nodes(device_name=second) and dump.node_device("z") == second
    assert "sub" in dump.node_inputs("z"), dump.node_inputs("z")

    # What the run's metadata tells of the graphs is what lies in the files: TensorFlow checks causality by it.
    options, metadata = tf.RunOptions(output_partition_graphs=True), tf.RunMetadata()
    root = os.path.join(folder, "summaries")
    debug_utils.watch_graph(options, plain.graph, debug_ops=["DebugIdentity", "DebugNanCount", "DebugNumericSummary(lower_bound=-1.5)"],
                            debug_urls="file://" + root, tolerate_debug_op_creation_failures=True, global_step=41)
    plain.run(z, {x: [[1, 2], [3, 4]]}, options=options, run_metadata=metadata)
    dump = debug_data.DebugDumpDir(root, partition_graphs=metadata.partition_graphs)
    assert dump.core_metadata.global_step == 41
    assert dump.get_tensors("z", 0, "DebugNanCount")[0] == [2]
    summary, = dump.get_tensors("z", 0, "DebugNumericSummary")
    assert list(summary[:8]) == [1, 4, 2, 2, 0, 0, 0, 0], summary

    # Steps that nobody watches write nothing and are as they were.
    count = sum(len(files) for _, _, files in os.walk(folder))
    plain.run(z, {x: [[1, 2], [3, 4]]})
    assert count == sum(len(files) for _, _, files in os.walk(folder))

    options = tf.RunOptions()
    debug_utils.watch_graph(options, plain.graph, debug_urls="grpc://localhost:1")
    raises(tf.errors.UnimplementedError, "grpc://localhost:1", lambda: plain.run(z, {x: [[1, 2], [3, 4]]}, options=options))
    options = tf.RunOptions()
    debug_utils.watch_graph(options, plain.graph, debug_ops=["DebugNanCount"], debug_urls="file://" + root)
    raises(tf.errors.FailedPreconditionError, "text", lambda: plain.run(text, {x: [[1, 2], [3, 4]]}, options=options))
print("done")
