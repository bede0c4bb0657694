"""Training on a GPU gives what it gives on a CPU."""
from support import np, tf

GPU = "/job:worker/replica:0/task:%d/device:GPU:0"
CPU = "/job:worker/replica:0/task:%d/device:CPU:0"


def losses(cluster, device, model, optimizer, steps, feeds):
    """The losses of some steps of training on a device."""
    with cluster.graph(), tf.device(device):
        tf.set_random_seed(7)
        inputs, loss = model()
        train = optimizer().minimize(loss)
        with cluster.session() as sess:
            sess.run(tf.global_variables_initializer())
            return [sess.run([loss, train], dict(zip(inputs, feeds(i))))[0] for i in range(steps)]


def same_on_both(cluster, model, optimizer, steps, feeds, tolerance=5e-3):
    on_cpu = losses(cluster, CPU % 0, model, optimizer, steps, feeds)
    on_gpu = losses(cluster, GPU % 0, model, optimizer, steps, feeds)
    assert np.allclose(on_cpu, on_gpu, rtol=tolerance), (on_cpu, on_gpu)
    assert on_gpu[2] < on_gpu[0], on_gpu  # the same batch


def weights(name, shape):
    values = np.random.RandomState(sum(shape)).randn(*shape) / np.sqrt(np.prod(shape[:-1]))
    return tf.get_variable(name, initializer=values.astype(np.float32))


def batch(shape, classes):
    def make(i):
        random = np.random.RandomState(i % 2)
        return random.randn(*shape).astype(np.float32), random.randint(classes, size=shape[0])
    return make


def perceptron():
    x, label = tf.placeholder(tf.float32, [None, 20]), tf.placeholder(tf.int32, [None])
    hidden = tf.nn.relu(tf.matmul(x, weights("w1", [20, 33])) + weights("b1", [33]))
    logits = tf.nn.bias_add(tf.matmul(tf.tanh(hidden), weights("w2", [33, 5])), weights("b2", [5]))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits))
    return [x, label], loss + 1e-3 * tf.nn.l2_loss(hidden)


def test_a_perceptron_by_each_optimizer(cluster):
    for optimizer in [lambda: tf.train.GradientDescentOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.01),
                      lambda: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True), lambda: tf.train.RMSPropOptimizer(0.01),
                      lambda: tf.train.AdagradOptimizer(0.1), lambda: tf.train.FtrlOptimizer(0.1)]:
        same_on_both(cluster, perceptron, optimizer, 4, batch([17, 20], 5))


def convolutional():
    x, label = tf.placeholder(tf.float32, [None, 12, 12, 3]), tf.placeholder(tf.int32, [None])
    y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weights("c1", [3, 3, 3, 8]), [1, 1, 1, 1], "SAME"), weights("d1", [8])))
    y, _, _ = tf.nn.fused_batch_norm(y, weights("scale", [8]) + 1, weights("offset", [8]), is_training=True)
    y = tf.nn.max_pool2d(y, 2, 2, "VALID")
    y = tf.nn.relu(tf.nn.conv2d(y, weights("c2", [3, 3, 8, 12]), [1, 2, 2, 1], "SAME"))
    y = tf.reshape(tf.nn.avg_pool2d(y, 3, 1, "VALID"), [-1, 12])
    logits = tf.matmul(y, weights("w", [12, 4]))
    return [x, label], tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot(label, 4), logits=logits))


def test_a_convolutional_network(cluster):
    same_on_both(cluster, convolutional, lambda: tf.train.MomentumOptimizer(0.05, 0.9), 3, batch([6, 12, 12, 3], 4))


def embedding():
    ids, wanted = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
    rows = tf.nn.embedding_lookup(weights("table", [30, 6]), ids)
    return [ids, wanted], tf.reduce_mean(tf.squared_difference(tf.reduce_sum(rows, 1), wanted))


def test_an_embedding_is_updated_where_it_was_read(cluster):
    def feeds(i):
        return np.array([3, 5, 3, 29]), np.array([1, 2, 3, 4.0])
    for optimizer in [lambda: tf.train.GradientDescentOptimizer(0.05), lambda: tf.train.AdagradOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.05)]:
        same_on_both(cluster, embedding, optimizer, 4, feeds)


def test_a_recurrence(cluster):
    def recurrent():
        x = tf.placeholder(tf.float32, [None, 4])
        w = weights("w", [4, 4])
        _, last = tf.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + x)), [0, tf.zeros_like(x)])
        return [x], tf.reduce_mean(tf.square(last - 0.5))
    same_on_both(cluster, recurrent, lambda: tf.train.GradientDescentOptimizer(0.1), 3, lambda i: [np.ones([3, 4], np.float32)])


def test_dropout_draws_what_the_cpu_draws(cluster):
    with tf.device(GPU % 0):
        a = tf.random.stateless_uniform([1000], seed=[1, 2])
    with tf.device(CPU % 0):
        b = tf.random.stateless_uniform([1000], seed=[1, 2])
    a, b = cluster.run([a, b])
    assert (a == b).all()


def test_queues_feed_a_gpu(cluster):
    with tf.device("/job:ps"):
        q = tf.FIFOQueue(10, [tf.float32], shapes=[[64]], shared_name=cluster.name)
    with tf.device(GPU % 1):
        out = tf.reduce_sum(tf.square(q.dequeue()))
        put = q.enqueue([tf.fill([64], 2.0) + 1.0])
    with cluster.session() as sess:
        sess.run(put)
        assert sess.run(out) == 64 * 9
