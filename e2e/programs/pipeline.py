# usage: pipeline.py load|learn TARGET COUNT     prints how many rows went through
# One client loads rows into a queue of the cluster and closes it at the end; another one, which
# knows only the queue's name, takes them out until the queue is closed and empty.
import sys

import tensorflow as tf

role, target, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

rows = tf.FIFOQueue(capacity=32, dtypes=[tf.int32, tf.string, tf.float32], shapes=[[], [], [2, 2]],
                    shared_name="rows_to_learn")

if role == "load":
    number, text, matrix = (tf.placeholder(t, s) for t, s in zip(rows.dtypes, rows.shapes))
    put, close = rows.enqueue([number, text, matrix]), rows.close()
    with tf.Session(target) as sess:
        for i in range(count):
            sess.run(put, {number: i, text: "row %d" % i, matrix: [[i, 1], [2, -i]]})
        sess.run(close)
    print("loaded", count)
else:
    take = rows.dequeue_up_to(7)
    seen = 0
    with tf.Session(target) as sess:
        while True:
            try:
                numbers, texts, matrices = sess.run(take)
            except tf.errors.OutOfRangeError:
                break
            for n, s, m in zip(numbers, texts, matrices):
                assert n == seen and s == b"row %d" % n and m.tolist() == [[n, 1], [2, -n]], (seen, n, s, m)
                seen += 1
    print("learned", seen)
