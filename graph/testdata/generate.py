"""Writes the graphs that the tests read, as TensorFlow's Python client makes them.

    python graph/testdata/generate.py

training.pb: a model with reference variables, resource variables and a queue, its
gradients, an optimizer, a saver, and loops and conditionals of the old kind.
functions.pb: loops, conditionals and calls of the new kind, whose bodies are functions.
"""

import pathlib

import tensorflow as tf

tf1 = tf.compat.v1
here = pathlib.Path(__file__).parent


def write(name, graph):
    (here / name).write_bytes(
        graph.as_graph_def().SerializeToString(deterministic=True)
    )


def training():
    tf1.disable_control_flow_v2()
    with tf1.Graph().as_default() as graph:
        with tf1.device("/job:ps/task:0"):
            w = tf1.get_variable("w", [4, 2], use_resource=True)
            b = tf1.get_variable("b", [2], use_resource=False)
            step = tf1.train.get_or_create_global_step()
        queue = tf1.FIFOQueue(10, [tf.float32], shapes=[[3, 4]], name="queue")
        x = tf1.placeholder_with_default(queue.dequeue(), [3, 4], name="x")
        labels = tf1.placeholder(tf.float32, [3, 2], name="labels")
        with tf1.device("/job:worker/task:1"):
            logits = tf1.nn.bias_add(tf.matmul(x, w), b, name="logits")
            loss = tf.reduce_mean(tf.square(logits - labels), name="loss")
        train = tf1.train.AdamOptimizer(0.1).minimize(loss, step, name="train")
        total = tf1.while_loop(
            lambda i, _: i < 5,
            lambda i, t: (i + 1, t + tf.reduce_sum(logits)),
            [0, 0.0],
            name="loop",
        )[1]
        tf.identity(total, name="total")
        picked = tf1.cond(loss > 1.0, lambda: loss * 2.0, lambda: -loss)
        tf.identity(picked, name="picked")
        tf1.assign_add(b, [1.0, 1.0], name="bump")
        queue.enqueue([tf.zeros([3, 4])], name="enqueue")
        queue.close(name="close")
        tf1.train.Saver(name="saver")
        with tf1.control_dependencies([train]):
            tf1.global_variables_initializer()
        write("training.pb", graph)


def functions():
    tf1.enable_control_flow_v2()

    @tf.function
    def scaled(a, factor):
        tf.print("scaling", factor)
        return a * factor, tf.split(a, 2)

    @tf.function
    def outer(a):
        b, halves = scaled(a, 3.0)
        return b + tf.concat(halves, 0)

    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [4], name="x")
        v = tf1.get_variable("v", [4], use_resource=True)
        y = tf.identity(outer(x) + v, name="y")
        loop = tf.while_loop(
            lambda i, _: i < 5, lambda i, t: (i + 1, t + y), [0, x], name="loop"
        )[1]
        tf.identity(loop, name="looped")
        tf.identity(
            tf.cond(tf.reduce_sum(x) > 0, lambda: loop, lambda: v.assign_add(x)),
            name="picked",
        )
        tf.identity(tf1.gradients(loop, x)[0], name="gradient")
        tf.identity(
            tf.switch_case(tf.cast(x[0], tf.int32), [lambda: x, lambda: y, lambda: v + x]),
            name="switched",
        )
        mapped = tf.data.Dataset.range(3).map(lambda i: i * 2).batch(2)
        tf.identity(tf1.data.make_one_shot_iterator(mapped).get_next(), name="next")
        write("functions.pb", graph)


if __name__ == "__main__":
    tf1.disable_eager_execution()
    training()
    functions()
