"""Counts on a parameter server that is far away, and takes what it put into a queue there.

With "again" in place of "first", it goes on from where it was, once the workers and the parameter server reach each other, for which it
tries half a minute: by a step that only reads, since an element that a step had taken before it failed would be gone.
"""
import sys
import time

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()


def main(target, how):
    with tf.device("/job:ps/task:0"):
        count = tf.get_variable("count", initializer=0, use_resource=True)
        queue = tf.queue.FIFOQueue(10, [tf.int32], shapes=[[]], shared_name="far")
    more = count.assign_add(1)
    put, got = queue.enqueue([more]), queue.dequeue()
    with tf.device("/job:worker/task:1"):
        double, reach = got + got, tf.identity(count)
    end = time.monotonic() + 30
    lost = 0
    with tf.Session(target) as session:
        if how != "again":
            session.run(count.initializer)
        while how == "again":
            try:
                session.run(reach)
                break
            except (tf.errors.UnavailableError, tf.errors.AbortedError):
                lost += 1
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        session.run(put)
        print("counted", session.run(double) // 2, "after", lost, "errors")


main(*sys.argv[1:])
