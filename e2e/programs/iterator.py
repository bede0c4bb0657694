# usage: iterator.py ROLE TARGET FILE     prints elements
# Clients that share an iterator on the ps, by its name:
#   begin    initializes it, prints two elements
#   save     saves where it stands, prints the rest
#   next     prints one element
#   restore  initializes it, restores what was saved, prints the rest
#   wait     asks an iterator for an element that a queue has to give, prints it, or the class of the error
#   waiting  prints 0 when one is asked for
#   give     puts that element into the queue, and prints what the iterator gives next
import sys

import tensorflow as tf

role, target, path = sys.argv[1:]
waits = role in ("wait", "give")

with tf.device("/job:ps/task:0/cpu:0"):
    balls = tf.FIFOQueue(10, tf.int64, [], shared_name="balls")
    asked = tf.FIFOQueue(1000, tf.int64, [], shared_name="asked")  # those who ask may be many, and nobody has to take what they put here
    if waits:
        def add_ball(x):
            with tf.control_dependencies([asked.enqueue(0)]):
                return x + balls.dequeue()

        dataset = tf.data.Dataset.range(20).map(add_ball)
    else:
        dataset = tf.data.Dataset.range(20).shuffle(7, seed=3).batch(2).prefetch(2)
    iterator = tf.data.make_initializable_iterator(dataset, shared_name="waiting" if waits else "input")
    following = iterator.get_next()
    saver = tf.train.Saver({"iterator": tf.data.experimental.make_saveable_from_iterator(iterator)})
    give = balls.enqueue(100)
    is_asked = asked.dequeue()


def rest(session):
    found = []
    while True:
        try:
            found.append(session.run(following).tolist())
        except tf.errors.OutOfRangeError:
            return found


with tf.Session(target) as session:
    if role in ("begin", "restore", "wait"):
        session.run(iterator.initializer)
    if role == "begin":
        print([session.run(following).tolist() for _ in range(2)])
    elif role == "save":
        saver.save(session, path)
        print(rest(session))
    elif role == "restore":
        saver.restore(session, path)
        print(rest(session))
    elif role == "waiting":
        print(session.run(is_asked))
    elif role == "give":
        session.run(give)
        print(session.run(following))
    elif role == "wait":
        try:
            print(session.run(following))
        except tf.errors.OpError as e:
            print(type(e).__name__)
    else:
        print(session.run(following).tolist())
