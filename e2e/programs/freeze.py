# usage: freeze.py FILE VALUES     writes a frozen graph with a loop, a conditional and functions of both kinds to FILE, and
# what it gives for x = [[0.5, -1], [2, 3]] to VALUES, a text of numbers
import sys

import numpy as np
import tensorflow as tf

file, values = sys.argv[1:]
fed = np.array([[0.5, -1], [2, 3]], np.float32)


def body(i, t):
    return i + 1, tf.cond(tf.reduce_sum(t) > 10, lambda: t * 0.5, lambda: tf.matmul(t, t) + w)


with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", [2, 2], initializer=tf.random_normal_initializer(seed=1), use_resource=True)
    _, first = tf.while_loop(lambda i, t: i < 5, body, [0, x])
    tf.enable_control_flow_v2()
    _, second = tf.while_loop(lambda i, t: i < 5, body, [0, x + 1])
    tf.disable_control_flow_v2()
    called = tf.function(lambda a: tf.nn.softmax(a @ w), input_signature=[tf.TensorSpec([None, 2], tf.float32)])(x)
    y = tf.concat([first, second, called], 0, name="y")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        np.savetxt(values, session.run(y, {x: fed}).ravel())

with open(file, "wb") as f:
    f.write(frozen.SerializeToString())
print("frozen")
