# usage: late.py TARGET RUN     prints how many elements two sessions get in each of several ways, one after the other
# The first session fills a queue, closes it and takes everything, or iterates to the end. The second one is opened after that, as that of a
# program that runs again, and gets the end and nothing else. RUN is a part of all names.
import os
import sys

import tensorflow as tf

target, run = sys.argv[1:]


def queue(way, dtype):
    return tf.FIFOQueue(10, [dtype], shapes=[[]], shared_name=way + run)


def dequeue():
    rows = queue("dequeue", tf.int32)
    return [rows.enqueue_many([[1, 2, 3]]), rows.close()], [], rows.dequeue()


def reader():
    names = queue("reader", tf.string)
    return [names.enqueue_many([[os.path.abspath(__file__)] * 2]), names.close()], [], tf.WholeFileReader().read(names)


def dataset():
    rows = queue("dataset", tf.int32)
    taken = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensors(0).repeat().map(lambda _: rows.dequeue()))
    return [rows.enqueue_many([[1, 2, 3]]), rows.close()], [taken.initializer], taken.get_next()


def iterator():
    numbers = tf.data.make_initializable_iterator(tf.data.Dataset.range(4), shared_name="iterator" + run)
    return [numbers.initializer], [], numbers.get_next()


def taken(way, first):
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        fill, begin, take = way()
        with tf.Session(target) as session:
            for op in (fill if first else []) + begin:
                session.run(op)
            count = 0
            while True:
                try:
                    session.run(take)
                except tf.errors.OutOfRangeError:
                    return count
                count += 1


print(", ".join("%s %d %d" % (way.__name__, taken(way, True), taken(way, False)) for way in (dequeue, reader, dataset, iterator)))
