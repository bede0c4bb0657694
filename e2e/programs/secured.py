# usage: secured.py TARGET FILE     uses a variable of the ps, and prints the result, why an op and a file are refused, and how many
#                                   tasks a profile has
import glob
import os
import sys
import tempfile
import threading

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
    enough = threading.Event()

    def steps():
        while not enough.is_set():
            session.run(y)

    busy = threading.Thread(target=steps)
    busy.start()
    try:
        profiler = tf.compat.v2.profiler.experimental.client
        with tempfile.TemporaryDirectory() as logdir:
            profiler.trace(target, logdir, 500)
            profiles = glob.glob(os.path.join(logdir, "plugins", "profile", "*", "*.xplane.pb"))
        monitored = profiler.monitor(target.removeprefix("grpc://"), 500).count(": busy ")
    finally:
        enough.set()
        busy.join()
print("; ".join([str(result), "%d tasks traced, %d monitored" % (len(profiles), monitored)] + [" ".join(r.split()) for r in refusals]))
