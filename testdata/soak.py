"""Writes soak.pbtxt: a loop with TensorArrays and its gradient, which soak_test.go runs over and over.

Run with TensorFlow 2.21: python soak.py
"""

import os

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

x = tf.placeholder(tf.float32, [16], name="x")
rows = tf.TensorArray(tf.float32, 8, name="rows").unstack(tf.reshape(tf.tile(x, [8]), [8, 16]))
_, _, out = tf.while_loop(
    lambda i, *_: i < 8,
    lambda i, s, ta: (i + 1, tf.tanh(s + rows.read(i)), ta.write(i, s * s)),
    (0, x, tf.TensorArray(tf.float32, 8, element_shape=[16])),
)
loss = tf.reduce_sum(out.stack(), name="loss")
tf.identity(tf.gradients(loss, x)[0], name="gradient")
graph = tf.get_default_graph().as_graph_def()
graph.ClearField("library")
here = os.path.dirname(os.path.abspath(__file__))
tf.io.write_graph(graph, here, "soak.pbtxt")
with tf.Session() as session:
    print(session.run(["loss:0", "gradient:0"], {x: [0.5] * 16}))
