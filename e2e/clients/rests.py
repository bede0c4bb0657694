"""Clients that rest: what they have works after each rest as before.

    python e2e/clients/rests.py TARGET PROXY

It prints "rests" when all is in use, and again when all has been used after each line of its input. When the input ends, it prints "done". TARGET and PROXY are a
task and a proxy that leads to it; the cluster has a parameter server.
"""
import os
import sys
import threading

import numpy as np
import tensorflow.compat.v1 as tf

import troupe

tf.disable_eager_execution()


def session(target, device, name):
    """A session's variable, queue, callable and waiting step, before and after each rest."""
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
    total = 0
    while True:
        sess.run(put, {x: total})
        found = []
        waiting = threading.Thread(target=lambda: found.append(sess.run(wait)), daemon=True)
        waiting.start()
        try:
            yield
        except GeneratorExit:
            sess.run(give, {x: 9})
            waiting.join(20)
            sess.close()
            raise
        sess.run(give, {x: 9})
        waiting.join(20)
        assert found == [9], found
        assert sess.run(take) == total
        total += 2
        assert called(2.0) == total
        assert sess.run(v) == total


def server():
    """A server of this process's own, which calls its functions."""
    calls = []

    def double(x):
        calls.append(x)
        return np.float32(x * 2)

    with troupe.Server({"w": ["127.0.0.1:0"]}, echo=False) as own:
        rests = session(own.target, "/job:w", "own")
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [])
            y = tf.numpy_function(double, [x], tf.float32)
        sess = tf.Session(own.target, graph=graph)
        while True:
            next(rests)
            assert sess.run(y, {x: len(calls)}) == 2 * len(calls) - 2, calls
            try:
                yield
            except GeneratorExit:
                rests.close()
                sess.close()
                raise


def main():
    target, proxy = sys.argv[1:]
    run = "_%d" % os.getpid()  # a program that was killed, or that runs at the same time, has other queues
    kinds = [session(target, "/job:ps", "direct" + run), session(proxy, "/job:ps", "proxied" + run), server()]
    for k in kinds:
        next(k)
    print("rests", flush=True)
    for _ in sys.stdin:
        for k in kinds:
            next(k)
        print("rests", flush=True)
    for k in kinds:
        k.close()
    print("done", flush=True)


if __name__ == "__main__":
    main()
