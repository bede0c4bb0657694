# usage: train.py PS[,PS…] WORKER[,WORKER…] TASK STEPS       prints "trained to STEP: LOSS"
# A worker's part of a training with parameter servers: variables on the ps job, the model on this
# worker, hooks and initialization by MonitoredTrainingSession, the worker with task 0 is chief.
import sys

import numpy as np
import tensorflow as tf

ps, workers = (a.split(",") for a in sys.argv[1:3])
task, steps = int(sys.argv[3]), int(sys.argv[4])
random = np.random.RandomState(17 + task)
slope = np.linspace(-1, 1, 6, dtype=np.float32)[:, None]

with tf.device(tf.train.replica_device_setter(
        worker_device="/job:worker/task:%d" % task, cluster=tf.train.ClusterSpec({"ps": ps, "worker": workers}))):
    features = tf.placeholder(tf.float32, [None, 6], name="features")
    wanted = tf.placeholder(tf.float32, [None, 1], name="wanted")
    weights = tf.get_variable("weights", [6, 1], initializer=tf.zeros_initializer())
    offset = tf.get_variable("offset", [1], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.squared_difference(tf.matmul(features, weights) + offset, wanted))
    global_step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.03).minimize(loss, global_step=global_step)

with tf.train.MonitoredTrainingSession("grpc://" + workers[task], is_chief=task == 0,
                                       hooks=[tf.train.StopAtStepHook(last_step=steps)],
                                       config=tf.ConfigProto(allow_soft_placement=True)) as sess:
    while not sess.should_stop():
        x = random.randn(48, 6).astype(np.float32)
        value, at, _ = sess.run([loss, global_step, train], {features: x, wanted: x @ slope - 0.25})
print("trained to %d: %.4f" % (at, value))
assert value < 0.05, "a loss of %g after %d steps" % (value, at)
