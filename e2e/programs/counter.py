# usage: counter.py TARGET [new]     prints how often the cluster's counter was counted up
# The counter has no device: it lives where its first user's session put it, and every other
# client finds it there by its name, through whichever task it comes.
import sys

import tensorflow as tf

count = tf.Variable(0.0, name="count")
count_up = count.assign_add(1.0)

with tf.Session(sys.argv[1]) as sess:
    if "new" in sys.argv[2:]:
        sess.run(count.initializer)
    sess.run(count_up)
    print(sess.run(count))
