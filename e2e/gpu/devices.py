"""GPU devices: who has which, and what is placed on them."""
from support import np, placed, raises, tf

GPU = "/job:worker/replica:0/task:%d/device:GPU:%d"


def test_a_fifth_of_each_card_for_each_worker_and_none_for_the_ps(cluster):
    with cluster.session() as sess:
        gpus = {d.name: d for d in sess.list_devices() if d.device_type == "GPU"}
    assert sorted(gpus) == sorted(GPU % (task, card) for task in range(4) for card in range(2)), sorted(gpus)
    for d in gpus.values():
        assert d.memory_limit_bytes == int(0.2 * 2**30), d
    assert len({d.incarnation for d in gpus.values()}) == 8


def test_the_gpu_is_preferred(cluster):
    x = tf.placeholder(tf.float32, [2, 3])
    y = tf.nn.relu(tf.matmul(x, tf.ones([3, 4]), name="product"), name="relu")
    with cluster.session() as sess:
        where = placed(sess, y, {x: np.ones([2, 3])})
    assert where["product"] == where["relu"] == GPU % (0, 0), where


def test_an_op_without_a_gpu_kernel_falls_back_if_it_may(cluster):
    with tf.device("/job:worker/task:1/device:GPU:0"):
        joined = tf.strings.join([tf.constant("a"), tf.constant("b")], name="joined")
    assert cluster.run(joined, allow_soft_placement=True) == b"ab"
    with raises(tf.errors.InvalidArgumentError, "joined", "GPU"):
        cluster.run(joined)


def test_a_gpu_that_is_not_there(cluster):
    with tf.device("/job:ps/device:GPU:0"):
        a = tf.add(tf.placeholder_with_default(1.0, []), 1.0, name="a")
    assert cluster.run(a, allow_soft_placement=True) == 2
    with raises(tf.errors.InvalidArgumentError, "a", "/job:ps", "GPU:0", within=1):
        cluster.run(a)


def test_values_go_from_card_to_card_and_task_to_task(cluster):
    x = tf.placeholder(tf.float32, [None])
    for task, card in [(0, 0), (0, 1), (1, 1), (2, 0), (0, 0)]:
        with tf.device(GPU % (task, card)):
            x = x * 2 + 1
    with tf.device("/job:ps"):
        y = x + 1
    fed = np.arange(100000, dtype=np.float32)
    with cluster.session() as sess:
        got = sess.run(y, {"Placeholder:0": fed})
    assert (got == fed * 32 + 32).all(), got[:4]


def test_shapes_and_int32_stay_on_the_host(cluster):
    with tf.device(GPU % (0, 0)):
        x = tf.placeholder(tf.float32, [None, None])
        n = tf.shape(x)[0] * 2
        y = tf.reshape(tf.tile(x, [2, 1]), tf.stack([n, -1]))
    with cluster.session() as sess:
        assert sess.run(tf.reduce_sum(y), {x: np.ones([3, 5])}) == 30
        assert sess.run(y, {x: np.zeros([0, 5])}).shape == (0, 5)
