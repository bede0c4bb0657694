"""A GPU's memory: what does not fit is refused, and costs nobody else anything."""
from support import np, raises, tf

GPU = "/job:worker/replica:0/task:%d/device:GPU:%d"


def test_what_does_not_fit_is_refused_with_the_sizes(cluster):
    n = tf.placeholder(tf.int32, [])
    with tf.device(GPU % (3, 0)):
        large = tf.reduce_sum(tf.fill([n, 1024], 1.0, name="large"))
    with cluster.session() as sess:
        with raises(tf.errors.ResourceExhaustedError, "large", "[100000,1024]", str(100000 * 4096), within=5):
            sess.run(large, {n: 100000})
        assert sess.run(large, {n: 8}) == 8 * 1024


def test_memory_comes_back_after_steps(cluster):
    with tf.device(GPU % (3, 1)):
        x = tf.placeholder(tf.float32, [None])
        y = tf.tanh(x) + 1
    fed = np.zeros(8 << 20, np.float32)  # 32 MiB, of 204
    with cluster.session() as sess:
        for _ in range(12):
            assert sess.run(y, {x: fed})[-1] == 1


def test_a_variable_larger_than_the_rest_is_refused(cluster):
    with tf.device(GPU % (2, 1)):
        v = tf.Variable(tf.zeros([30 << 20]), name="v")  # 120 MiB: its initial value is the variable
        w = tf.Variable(tf.zeros([30 << 20]), name="w")
    with cluster.session() as sess:
        sess.run(v.initializer)
        with raises(tf.errors.ResourceExhaustedError, within=5):
            sess.run(w.initializer)
        assert sess.run(tf.reduce_sum(v[:10])) == 0
