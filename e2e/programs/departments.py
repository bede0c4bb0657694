# usage: departments.py FIRST SECOND     prints "done"
# Four clients over two tasks keep accounts under one name. Two of them share the default
# container's, two that of the container "north_office"; one of these reads both. A reset of
# "north_office" closes all sessions of the task it was sent to and leaves the default container.
import sys

import tensorflow as tf

first, second = sys.argv[1:3]
OFFICE = "north_office"


def account(container):
    return tf.raw_ops.VariableV2(shape=[], dtype=tf.float64, container=container, shared_name="account")


def client(target, operation):
    """A client with a graph and a session of its own; operation() builds what it runs."""
    with tf.Graph().as_default() as graph:
        fetch = operation()
        with tf.Session(target, graph=graph) as sess:
            return float(sess.run(fetch))


def opens(container, amount):
    return lambda: tf.assign(account(container), amount)


def earns(container, amount):
    return lambda: tf.assign_add(account(container), amount)


def takes_over():
    return tf.assign_add(account(OFFICE), account("") * 2.0)


def expect(got, want):
    assert got == want, "%s in the account, not %s" % (got, want)


expect(client(first, opens("", 10)), 10)
expect(client(second, earns("", 5)), 15)
expect(client(first, opens(OFFICE, 1000)), 1000)
expect(client(first, takes_over), 1030)
expect(client(second, earns(OFFICE, 70)), 1100)

with tf.Graph().as_default():
    number = tf.constant(7)
    bystander = tf.Session(first)
    bystander.run(number)
    tf.Session.reset(first, [OFFICE])
    try:
        bystander.run(number)
        sys.exit("a session survived the reset of its master")
    except tf.errors.AbortedError as error:
        print("the bystander:", error.message)

try:
    client(second, earns(OFFICE, 1))
    sys.exit("the container survived its reset")
except tf.errors.FailedPreconditionError as error:
    print("the office:", error.message.splitlines()[0])
expect(client(second, earns("", 1)), 16)
print("done")
