# usage: go_functions.py TARGET...        prints done
# Calls functions of the Go programs that the servers belong to, as docs/embedding.md says: by the op PyFunc, whose token is the name. The first
# task alone has functions.
import sys

import numpy as np
import tensorflow as tf

from support import raises

x = tf.placeholder(tf.float32, [None])
doubled, = tf.raw_ops.PyFunc(input=[x], token="double", Tout=[tf.float32])
names, count = tf.raw_ops.PyFunc(input=[tf.constant(["a", "", "ü"])], token="upper", Tout=[tf.string, tf.int64])
torn = tf.raw_ops.PyFunc(input=[], token="torn", Tout=[tf.int64])[0]
unknown = tf.raw_ops.PyFunc(input=[], token="nobody", Tout=[tf.int64])[0]
waits = tf.raw_ops.PyFunc(input=[], token="waits", Tout=[tf.int64])[0]
_, looped = tf.while_loop(
    lambda i, v: i < 10, lambda i, v: (i + 1, tf.reshape(tf.raw_ops.PyFuncStateless(input=[v], token="double", Tout=[tf.float32])[0], [1])), (0, x))
numbers = tf.data.Dataset.range(5).map(
    lambda i: tf.reshape(tf.raw_ops.PyFunc(input=[tf.cast(i, tf.float32)], token="double", Tout=[tf.float32])[0], []))
element = tf.data.make_one_shot_iterator(numbers).get_next()

for target in sys.argv[1:]:  # the functions are found whichever task is the master
    with tf.Session(target) as session:
        assert session.run(doubled, {x: [1, 2.5]}).tolist() == [2, 5]
        assert session.run(doubled, {x: []}).shape == (0,)
        large = np.arange(1 << 20, dtype=np.float32)
        assert (session.run(doubled, {x: large}) == 2 * large).all()
        got, n = session.run([names, count])
        assert got.tolist() == [b"A", b"", "Ü".encode()] and n == 3, (got, n)
        assert session.run(looped, {x: [1]}).tolist() == [1024]
        with raises(tf.errors.DataLossError, "shard 3 is torn"):
            session.run(torn)
        with raises(tf.errors.InvalidArgumentError, 'no function "nobody"'):
            session.run(unknown)
        with raises(tf.errors.DeadlineExceededError):
            session.run(waits, options=tf.RunOptions(timeout_in_ms=200))
        assert session.run(doubled, {x: [3]}).tolist() == [6]

with tf.Session(sys.argv[1]) as session:
    assert [session.run(element) for _ in range(5)] == [0, 2, 4, 6, 8]
    with raises(tf.errors.OutOfRangeError):
        session.run(element)
print("done")
