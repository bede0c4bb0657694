"""Fits a line on a cluster: the variables are on the parameter server, and each worker computes gradients of its own points."""
import os

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()

WORKERS = 2

with tf.device("/job:ps/task:0"):
    w = tf.get_variable("w", initializer=0.0, use_resource=False)
    b = tf.get_variable("b", initializer=0.0, use_resource=False)
losses = []
for task in range(WORKERS):
    with tf.device("/job:worker/task:%d" % task):
        x = tf.random.uniform([64], -1, 1, seed=task)
        losses.append(tf.reduce_mean(tf.square(w * x + b - (2 * x + 1))))
loss = tf.add_n(losses)
train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)

with tf.Session(os.environ["TARGET"]) as session:
    session.run(tf.global_variables_initializer())
    for step in range(200):
        value, _ = session.run([loss, train])
        if step % 50 == 0:
            print("step %d: loss %.4f" % (step, value))
    print("w %.2f, b %.2f" % tuple(session.run([w, b])))
