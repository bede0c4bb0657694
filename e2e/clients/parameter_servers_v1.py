"""Trains with TensorFlow 1's ParameterServerStrategy: it builds graphs with variables on the parameter servers, and sessions run them.

usage: parameter_servers_v1.py
"""
import os

import tensorflow.compat.v1 as tf

import troupe

tf.disable_v2_behavior()


def program(cluster, index):
    """A worker: it trains, and returns the weights and where they live."""
    os.environ["TF_CONFIG"] = cluster.tf_config("worker", index)
    with tf.Graph().as_default():
        strategy = tf.distribute.experimental.ParameterServerStrategy()
        with strategy.scope():
            weights = [tf.get_variable(f"w{i}", initializer=0.0) for i in range(4)]

            def train():
                loss = tf.add_n([(w - float(i)) ** 2 for i, w in enumerate(weights)])
                return tf.train.GradientDescentOptimizer(0.2).minimize(loss)

            step = strategy.extended.call_for_each_replica(train)
        with tf.train.MonitoredTrainingSession(cluster.task("worker", index).target, is_chief=index == 0) as session:
            for _ in range(50):
                session.run(step)
            return session.run(weights), {w.device for w in weights}


with troupe.LocalCluster(ps=2, worker=2) as cluster:
    for index in range(2):
        found, places = program(cluster, index)
        assert all(abs(w - i) < 1e-4 for i, w in enumerate(found)), found
        assert {place.split("/device")[0].split("/")[1] for place in places} == {"job:ps"}, places
        assert len(places) == 2, places
print("both workers train the weights of two parameter servers")
