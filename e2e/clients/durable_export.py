"""Exports the variables of a stopped task as a checkpoint, reads it with TensorFlow, and imports one that TensorFlow has written.

usage: durable_export.py
"""
import os
import subprocess
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

import troupe

temporary = tempfile.TemporaryDirectory()
folder = temporary.name
prefix = os.path.join(folder, "exported", "model")
data = os.path.join(folder, "data")


def run(*arguments):
    """Runs a command of troupe data."""
    done = subprocess.run([troupe.find_binary(), "data", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


with troupe.LocalCluster(ps=1, data=data, durable=["model", "pictures:snapshot=1h"]) as cluster:
    with tf.Graph().as_default(), tf.device("/job:ps/task:0/cpu:0"):
        with tf.container("model"):
            weights = tf.get_variable("layer/weights", initializer=tf.reshape(tf.range(6.0), [2, 3]), use_resource=True)
            step = tf.get_variable("step", initializer=tf.constant(7, tf.int64), use_resource=False)
        with tf.container("pictures"):
            large = tf.get_variable("large", initializer=tf.ones([1000, 5000]), use_resource=True)
            words = tf.get_variable("words", initializer=tf.constant(["a", "bc"]), use_resource=True)
        with cluster.session("ps") as session:
            session.run(tf.global_variables_initializer())
            session.run([weights.assign_add(tf.ones([2, 3])), tf.assign_add(step, 1), large.assign_add(large)])

task = os.path.join(data, "ps-0")
assert "no damage in 4 resources" in run("check", data)
assert "float [1000,5000]" in run("show", task)
run("export", task, prefix)
want = {
    "layer/weights": np.arange(1, 7, dtype=np.float32).reshape([2, 3]),
    "step": np.int64(8),
    "large": np.full([1000, 5000], 2, np.float32),
    "words": np.array([b"a", b"bc"], object),
}
reader = tf.train.load_checkpoint(prefix)
assert set(reader.get_variable_to_shape_map()) == set(want), reader.get_variable_to_shape_map()
for name, value in want.items():
    np.testing.assert_array_equal(reader.get_tensor(name), value)

run("export", task, prefix, "--container", "model")
with tf.Graph().as_default(), tf.Session() as session:
    weights = tf.get_variable("layer/weights", [2, 3])
    step = tf.get_variable("step", [], tf.int64)
    tf.train.Saver().restore(session, prefix)
    np.testing.assert_array_equal(session.run(weights), want["layer/weights"])
    assert session.run(step) == 8
    # Another program goes on with the training, and has a variable more.
    tf.get_variable("bias", initializer=[5.0])
    session.run([tf.assign(weights, weights * 10), tf.assign_add(step, 100), tf.variables_initializer(tf.global_variables("bias"))])
    trained = tf.train.Saver().save(session, os.path.join(folder, "trained"))

assert "bias is not the name of a variable, and was left out" in run("import", task, trained)
assert "bias was made" in run("import", task, trained, "--container", "model", "--make", "resource")
with troupe.LocalCluster(ps=1, data=data, durable=["model", "pictures:snapshot=1h"]) as cluster:
    with tf.Graph().as_default(), tf.device("/job:ps/task:0/cpu:0"):
        with tf.container("model"):
            weights = tf.get_variable("layer/weights", [2, 3], use_resource=True)
            step = tf.get_variable("step", [], tf.int64, use_resource=False)
            bias = tf.get_variable("bias", [1], use_resource=True)
        with tf.container("pictures"):
            large = tf.get_variable("large", [1000, 5000], use_resource=True)
        with cluster.session("ps") as session:
            assert session.run(tf.report_uninitialized_variables()).size == 0
            np.testing.assert_array_equal(session.run(weights), 10 * want["layer/weights"])
            np.testing.assert_array_equal(session.run(large), want["large"])
            assert session.run([step, bias]) == [108, [5]]
            session.run(weights.assign_add(weights))
assert "no damage in 5 resources" in run("check", data)
print("TensorFlow reads the export, and is read")
