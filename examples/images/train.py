"""usage: train.py TARGET QUEUE      trains on the examples that come out of the cluster's queue until it is closed"""
import sys

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
with tf.device("/job:ps/task:0"):
    queue = tf.queue.FIFOQueue(1024, [tf.float32, tf.int64], [[28, 28], []], shared_name=sys.argv[2])
    w, b = tf.get_variable("w", [784, 10], initializer=tf.zeros_initializer()), tf.get_variable("b", [10], initializer=tf.zeros_initializer())
images, labels = queue.dequeue_up_to(100)
logits = tf.reshape(images, [-1, 784]) @ w + b
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
train = tf.train.AdamOptimizer(0.01).minimize(loss)

with tf.Session(sys.argv[1]) as session:
    session.run(tf.global_variables_initializer())
    seen, recent = 0, []
    try:
        while True:
            n, accuracy, _ = session.run([labels, right, train])
            seen, recent = seen + len(n), (recent + [accuracy])[-10:]
    except tf.errors.OutOfRangeError:
        pass
    print("Python trained on %d images; of the last ones it read %.0f %%" % (seen, 100 * sum(recent) / len(recent)), flush=True)
