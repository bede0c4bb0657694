"""Where nodes run: devices asked for, colocation, soft placement."""
from support import np, raises, same, tf

CPU = "/job:%s/replica:0/task:%d/device:CPU:0"


def placed(sess, fetch, feeds=None):
    """Runs a step and tells on which device each node ran."""
    metadata = tf.RunMetadata()
    sess.run(fetch, feeds, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return {n.name: n.device for g in metadata.partition_graphs for n in g.node}


def test_every_way_to_name_a_device(cluster):
    ways = {"/job:ps": CPU % ("ps", 0), "/job:worker/task:1": CPU % ("worker", 1),
            "/job:worker/replica:0/task:1/device:CPU:0": CPU % ("worker", 1), "/job:worker/task:1/cpu:0": CPU % ("worker", 1),
            "/cpu:0": CPU % ("worker", 0), "/device:CPU:0": CPU % ("worker", 0), "": CPU % ("worker", 0),
            "/job:ps/device:CPU:*": CPU % ("ps", 0)}
    p = tf.placeholder(tf.float32, [])
    nodes = {}
    for i, device in enumerate(ways):
        with tf.device(device):
            nodes["n%d" % i] = tf.add(p, float(i), name="n%d" % i)
    with cluster.session() as sess:
        where = placed(sess, list(nodes.values()), {p: 1.0})
    for i, (device, want) in enumerate(ways.items()):
        assert where["n%d" % i] == want, (device, where["n%d" % i])


def test_a_job_without_a_task_is_one_of_its_tasks(cluster):
    with tf.device("/job:worker"):
        p = tf.placeholder(tf.float32, [], name="p")
        n = tf.add(p, 1.0, name="n")
    with cluster.session(cluster.target("ps")) as sess:
        assert placed(sess, n, {p: 1.0})["n"].startswith("/job:worker/replica:0/task:")


def test_colocated_nodes_share_a_device(cluster):
    with tf.device("/job:ps"):
        v = tf.Variable(1.0, use_resource=False, name="v")
    p = tf.placeholder(tf.float32, [])
    with tf.colocate_with(v.op):
        beside = tf.add(p, 1.0, name="beside")
    up = tf.assign_add(v, beside, name="up")
    with cluster.session() as sess:
        sess.run(v.initializer)
        where = placed(sess, up, {p: 1.0})
    assert where["beside"] == where["v"] == where["up"] == CPU % ("ps", 0), where


def test_colocation_that_cannot_be_is_refused(cluster):
    with tf.device("/job:ps"):
        a = tf.constant(1.0, name="a")
    with tf.device("/job:worker/task:1"):
        b = tf.add(tf.placeholder_with_default(1.0, []), 1.0, name="b")
    b.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@a"])))
    with raises(tf.errors.InvalidArgumentError, "Cannot colocate nodes", "/job:ps", "/job:worker", within=1):
        cluster.run(a + b)


def test_soft_placement_forgives_a_device_but_not_a_task(cluster):
    one = tf.placeholder_with_default(1.0, [])
    with tf.device("/job:ps/device:GPU:0"):
        gpu = tf.add(one, one, name="gpu")
    with tf.device("/job:ps/task:7"):
        tf.add(one, one, name="nowhere")
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(without(gpu.graph, "nowhere"), name="")
        with cluster.session(graph=graph, allow_soft_placement=True) as sess:
            assert sess.run("gpu:0") == 2
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(without(gpu.graph, "nowhere"), name="")
        with cluster.session(graph=graph) as sess:
            with raises(tf.errors.InvalidArgumentError, "GPU", "{{node gpu}}", within=1):
                sess.run("gpu:0")
    for soft in (True, False):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(without(gpu.graph, "gpu"), name="")
            with cluster.session(graph=graph, allow_soft_placement=soft) as sess:
                with raises(tf.errors.InvalidArgumentError, "/job:ps/task:7", "{{node nowhere}}", within=1):
                    sess.run("nowhere:0")


def without(graph, name):
    """The graph's definition without one node."""
    definition = graph.as_graph_def()
    kept = [n for n in definition.node if n.name != name]
    del definition.node[:]
    definition.node.extend(kept)
    return definition


def test_a_stateful_node_stays_where_it_is(cluster):
    v = tf.Variable(np.zeros(3, np.float32), use_resource=True, name=cluster.name)
    with cluster.session() as sess:
        sess.run(v.initializer)
        first = placed(sess, v.read_value())
        for _ in range(3):
            with tf.device("/job:ps"):
                more = tf.add(v.read_value(), 1.0)
            again = placed(sess, more)
            name = v.handle.op.name
            assert again[name] == first[name], (first, again)


def test_log_device_placement(cluster):
    x = tf.placeholder_with_default(2.0, [])
    with tf.device("/job:ps"):
        total = tf.add(x, x, name="sum")
    with tf.device("/job:worker/task:0"):
        product = tf.multiply(total, x, name="product")
    assert cluster.run(product, log_device_placement=True) == 8


def test_an_extension_moves_a_node_that_a_new_one_is_colocated_with(cluster):
    # The node is placed by its first step, and again with the new one, which names another task.
    free = tf.tanh(tf.constant(0.5), name="free")
    v = tf.get_variable("moved", [], initializer=tf.zeros_initializer(), use_resource=True)
    with cluster.session() as sess:
        sess.run(v.initializer)
        before = sess.run([free, v.assign_add(free)])
        with tf.device("/job:ps/task:0"):
            beside = tf.negative(free)
        beside.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@free"])))
        same(sess.run(beside), -before[0])
        same(sess.run([free, v]), before)
