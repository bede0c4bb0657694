# usage: rows.py put|take TARGET QUEUE COUNT [BATCH]     prints how many rows went through
# One side of a pipeline whose other side may be a Go program: rows of a number and a vector go into a queue in
# batches, or come out of it until it is closed, and each must be the next one.
import sys

import numpy as np
import tensorflow as tf

role, target, name, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
batch = int(sys.argv[5]) if len(sys.argv) > 5 else 1000

with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
    rows = tf.FIFOQueue(capacity=8192, dtypes=[tf.int64, tf.float32], shapes=[[], [3]], shared_name=name)
    number, vector = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 3])
    put, close, take = rows.enqueue_many([number, vector]), rows.close(), rows.dequeue_up_to(batch)
    with tf.Session(target) as sess:
        if role == "put":
            for start in range(0, count, batch):
                n = np.arange(start, min(start + batch, count))
                sess.run(put, {number: n, vector: n[:, None] * [1.0, 0.5, 0.25]})
            sess.run(close)
            print("put", count)
        else:
            seen = 0
            while True:
                try:
                    n, v = sess.run(take)
                except tf.errors.OutOfRangeError:
                    print("took", seen)
                    break
                except tf.errors.OpError as e:
                    print("took", seen, type(e).__name__, " ".join(e.message.split()))
                    break
                np.testing.assert_array_equal(n, np.arange(seen, seen + len(n)))
                np.testing.assert_array_equal(v, (n[:, None] * [1.0, 0.5, 0.25]).astype(np.float32))
                seen += len(n)
