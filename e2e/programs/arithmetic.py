# usage: arithmetic.py TARGET        prints 9.0
# Nothing but constants: the first thing that one tries on a new server.
import sys

import tensorflow as tf

two = tf.constant(2.0)
five = two + 3
four = two * 2
with tf.Session(sys.argv[1]):
    print((five + four).eval())
