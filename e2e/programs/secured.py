# usage: secured.py TARGET FILE     uses a variable of the ps, and prints the result and why an op and a file are refused
import sys

import tensorflow as tf

target, path = sys.argv[1:]

with tf.device("/job:ps/task:0"):
    x = tf.get_variable("x", initializer=20.0, use_resource=False)
with tf.device("/job:worker/task:0"):
    y = 2 * x + 2
denied = tf.linalg.inv([[2.0]])
reads = tf.io.read_file(path)


def refusal(fetch):
    try:
        session.run(fetch)
    except tf.errors.PermissionDeniedError as e:
        return e.message
    return "nothing was refused"


with tf.Session(target) as session:
    session.run(x.initializer)
    result = session.run(y)
    refusals = [refusal(denied), refusal(reads)]
print("; ".join([str(result)] + [" ".join(r.split()) for r in refusals]))
