"""Clients that rest: what they have works after the rest as before.

    python e2e/clients/rests.py TARGET PROXY

It prints "rests" when all is in use, goes on when its input ends, and prints "done" in the end. TARGET and PROXY are a task and a proxy
that leads to it; the cluster has a parameter server.
"""
import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf

import troupe

tf.disable_eager_execution()


def session(target, device, name):
    """A session's variable, queue, callable and waiting step, before and after the rest."""
    with tf.Graph().as_default() as graph, tf.device(device):
        v = tf.get_variable(name, initializer=0.0, use_resource=True)
        x = tf.placeholder(tf.float32, [])
        add = v.assign_add(x)
        queue = tf.queue.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name=name + "_queue")
        put, take = queue.enqueue([x]), queue.dequeue()
        waited = tf.queue.FIFOQueue(10, [tf.float32], shapes=[[]], shared_name=name + "_waited")
        give, wait = waited.enqueue([x]), waited.dequeue()
    sess = tf.Session(target, graph=graph)
    sess.run(v.initializer)
    called = sess.make_callable(add, [x])
    assert called(1.0) == 1
    sess.run(put, {x: 7})
    found = []
    waiting = threading.Thread(target=lambda: found.append(sess.run(wait)), daemon=True)
    waiting.start()
    yield
    assert called(2.0) == 3
    assert sess.run(v) == 3
    assert sess.run(take) == 7
    sess.run(put, {x: 8})
    assert sess.run(take) == 8
    sess.run(give, {x: 9})
    waiting.join(20)
    assert found == [9], found
    sess.close()


def server():
    """A server of this process's own, which calls its functions."""
    calls = []

    def double(x):
        calls.append(x)
        return np.float32(x * 2)

    with troupe.Server({"w": ["127.0.0.1:0"]}, echo=False) as own:
        rests = session(own.target, "/job:w", "own")
        next(rests)
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [])
            y = tf.numpy_function(double, [x], tf.float32)
        sess = tf.Session(own.target, graph=graph)
        assert sess.run(y, {x: 2}) == 4
        yield
        assert sess.run(y, {x: 3}) == 6
        assert len(calls) == 2, calls
        sess.close()
        next(rests, None)


def main():
    target, proxy = sys.argv[1:]
    pairs = [session(target, "/job:ps", "direct"), session(proxy, "/job:ps", "proxied"), server()]
    for p in pairs:
        next(p)
    print("rests", flush=True)
    sys.stdin.read()
    for p in pairs:
        next(p, None)
    print("done", flush=True)


if __name__ == "__main__":
    main()
