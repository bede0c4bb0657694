"""What is compared: small programs of TensorFlow's client, each of which checks its results.

A workload is a function of a Clients. It yields figures: (name, unit, better, value), where better is "more" or "less".
"""
import contextlib
import statistics
import threading
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
LESS, MORE = "less", "more"
CONTAINER = "compared"  # of variables and queues: what a session leaves on a server stays there until it is reset


class Clients:
    """Opens sessions on a cluster of one ps and two workers."""

    def __init__(self, targets):
        self.targets = targets

    @contextlib.contextmanager
    def session(self, graph, task="worker:0", rewrites=True):
        config = tf1.ConfigProto(operation_timeout_in_ms=60000)
        if not rewrites:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
        with tf1.Session(self.targets[task], graph=graph, config=config) as session:
            yield session

    def reset(self):
        """Gives up the variables and queues of all tasks."""
        for target in self.targets.values():
            tf1.Session.reset(target, [CONTAINER])


def check(right, what):
    if not right:
        raise AssertionError("a wrong result: " + what)


def seconds(step, times, warm=3):
    """The median seconds of a call."""
    took = []
    for i in range(warm + times):
        start = time.perf_counter()
        step()
        if i >= warm:
            took.append(time.perf_counter() - start)
    return statistics.median(took)


def at_once(*functions):
    """Seconds from the common start of the functions, each in a thread, to the last end."""
    failures, gate = [], threading.Barrier(len(functions) + 1)

    def run(function):
        gate.wait()
        try:
            function()
        except Exception as e:  # pylint: disable=broad-except
            failures.append(e)

    threads = [threading.Thread(target=run, args=(f,), daemon=True) for f in functions]
    for t in threads:
        t.start()
    gate.wait()
    start = time.perf_counter()
    for t in threads:
        t.join()
    took = time.perf_counter() - start
    if failures:
        raise failures[0]
    return took


def steps(c):
    """A step that does next to nothing, on the master's task and on another one."""
    for name, device in (("on the master's task", WORKER), ("on another task", PS)):
        graph = tf.Graph()
        with graph.as_default(), graph.container(CONTAINER), tf.device(device):
            x = tf1.placeholder(tf.float32, [])
            y = x + 2.0
        with c.session(graph) as session:
            check(session.run(y, {x: 5.0}) == 7.0, "5 + 2")
            yield "a step %s" % name, "µs", LESS, 1e6 * seconds(lambda: session.run(y, {x: 5.0}), 1000, 100)


def tensors(c):
    """Tensors fed and fetched, and tensors between tasks."""
    graph = tf.Graph()
    with graph.as_default(), graph.container(CONTAINER), tf.device(WORKER):
        x = tf1.placeholder(tf.float32, [None])
        y = tf.identity(x)
    with c.session(graph) as session:
        for name, size, times in (("4 KiB", 4 << 10, 500), ("1 MiB", 1 << 20, 50), ("64 MiB", 64 << 20, 6)):
            data = np.random.default_rng(1).random(size // 4, dtype=np.float32)
            check(np.array_equal(session.run(y, {x: data}), data), "what was fed")
            yield "feed and fetch %s" % name, "GB/s", MORE, 2 * size / 1e9 / seconds(lambda: session.run(y, {x: data}), times)
    graph = tf.Graph()
    with graph.as_default(), graph.container(CONTAINER):
        with tf.device(PS):
            v = tf1.Variable(tf.fill([16 << 20], 0.5))
            small = [tf1.Variable(tf.fill([1024], float(i))) for i in range(100)]
        with tf.device(WORKER):
            total, of_small = tf.reduce_sum(v), tf.add_n([tf.reduce_sum(s) for s in small])
        init = tf1.global_variables_initializer()
    with c.session(graph) as session:
        session.run(init)
        check(session.run(total) == 8 << 20 and session.run(of_small) == 1024 * 4950, "sums of variables")
        yield "a variable of 64 MiB to another task", "GB/s", MORE, (64 << 20) / 1e9 / seconds(lambda: session.run(total), 10)
        yield "100 variables of 4 KiB to another task", "tensors/s", MORE, 100 / seconds(lambda: session.run(of_small), 100, 10)


def executor(c):
    """Many small operations in one step; none is optimized away."""
    n = 2000
    graph = tf.Graph()
    with graph.as_default(), graph.container(CONTAINER), tf.device(WORKER):
        x = tf1.placeholder(tf.float32, [])
        chain, one = x, tf.constant(1.0)
        for _ in range(n):
            chain = chain + one
        beside = tf.add_n([x + tf.constant(float(i)) for i in range(n)])
    with c.session(graph, rewrites=False) as session:
        check(session.run(chain, {x: 3.0}) == 3 + n, "a chain of additions")
        yield "2,000 operations in a chain", "operations/s", MORE, n / seconds(lambda: session.run(chain, {x: 3.0}), 100, 10)
        yield "2,000 operations side by side", "operations/s", MORE, n / seconds(lambda: session.run(beside, {x: 3.0}), 100, 10)
    n = 10000
    graph = tf.Graph()
    with graph.as_default(), graph.container(CONTAINER), tf.device(WORKER):
        start = tf1.placeholder(tf.float32, [])
        _, total = tf1.while_loop(lambda i, _: i < n, lambda i, t: (i + 1, t + 0.5), [tf.constant(0), start])
    with c.session(graph) as session:
        check(session.run(total, {start: 7.0}) == 7 + n / 2, "a loop")
        yield "a while loop", "iterations/s", MORE, n / seconds(lambda: session.run(total, {start: 7.0}), 10, 2)


def queues(c):
    """A queue on the ps that one client fills and another one empties."""

    def graph_of(device, shape, many):
        graph = tf.Graph()
        with graph.as_default(), graph.container(CONTAINER):
            with tf.device(PS):
                q = tf.queue.FIFOQueue(500, [tf.float32], [shape], shared_name="compared%d" % many)
            with tf.device(device):
                x = tf1.placeholder(tf.float32, ([None] if many else []) + shape)
            put, got = (q.enqueue_many([x]), q.dequeue_many(many)) if many else (q.enqueue([x]), q.dequeue())
        return graph, x, put, got

    for name, shape, many, count in (("scalars", [], 0, 1500), ("100 rows of 784", [784], 100, 60)):
        one, x, put, _ = graph_of(WORKER, shape, many)
        other, _, _, got = graph_of("/job:worker/task:1", shape, many)
        batches = [np.full(([many] if many else []) + shape, i, np.float32) for i in range(count)]
        with c.session(one) as producer, c.session(other, "worker:1") as consumer:
            producer.run(put, {x: batches[0]})
            check(np.array_equal(consumer.run(got), batches[0]), "the first element")
            received = []
            took = at_once(lambda: [producer.run(put, {x: b}) for b in batches], lambda: received.extend(consumer.run(got) for _ in range(count)))
            check(np.array_equal(received, batches), "elements lost, doubled or out of order")
            yield "a queue of %s" % name, "elements/s", MORE, count * max(many, 1) / took


def clients(c):
    """16 clients that add to one variable."""
    count, times = 16, 100
    graph = tf.Graph()
    with graph.as_default(), graph.container(CONTAINER), tf.device(PS):
        counter = tf1.Variable(tf.constant(0, tf.int64))
        add = tf1.assign_add(counter, tf.constant(1, tf.int64), use_locking=True).op
        value = counter.read_value()
        init = tf1.global_variables_initializer()
    with contextlib.ExitStack() as stack:
        sessions = [stack.enter_context(c.session(graph, "worker:%d" % (i % 2))) for i in range(count)]
        sessions[0].run(init)
        for s in sessions:
            s.run(add)
        took = at_once(*[lambda s=s: [s.run(add) for _ in range(times)] for s in sessions])
        check(sessions[1].run(value) == count * (1 + times), "the counter")
        yield "16 clients that add to a variable", "steps/s", MORE, count * times / took


def training(c):
    """Steps of a perceptron and of a convolutional network, with variables on the ps and computation on the worker."""
    rng = np.random.default_rng(4)
    for name, batch, times in (("a perceptron (784-100-10)", 100, 150), ("a convolutional network (28x28)", 32, 30)):
        graph = tf.Graph()
        with graph.as_default(), graph.container(CONTAINER), tf1.device(tf1.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
            tf1.set_random_seed(1)
            images, labels = tf1.placeholder(tf.float32, [batch, 784]), tf1.placeholder(tf.int64, [batch])
            hidden = images
            if "convolutional" in name:
                hidden = tf.reshape(images, [-1, 28, 28, 1])
                for i, (of, to) in enumerate(((1, 32), (32, 64))):
                    w = tf1.get_variable("filter%d" % i, [5, 5, of, to], initializer=tf1.truncated_normal_initializer(stddev=0.1))
                    hidden = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(hidden, w, 1, "SAME")), 2, 2, "SAME")
                hidden = tf.reshape(hidden, [-1, 7 * 7 * 64])
            for i, (of, to) in enumerate(((int(hidden.shape[1]), 100), (100, 10))):
                w = tf1.get_variable("weights%d" % i, [of, to], initializer=tf1.truncated_normal_initializer(stddev=0.1))
                b = tf1.get_variable("bias%d" % i, [to], initializer=tf1.zeros_initializer())
                hidden = tf.matmul(hidden, w) + b
                if i == 0:
                    hidden = tf.nn.relu(hidden)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden))
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
            init = tf1.global_variables_initializer()
        x, y = rng.random((batch, 784), np.float32), rng.integers(0, 10, batch)
        with c.session(graph) as session:
            session.run(init)
            before = session.run(loss, {images: x, labels: y})
            took = seconds(lambda: session.run(train, {images: x, labels: y}), times)
            check(session.run(loss, {images: x, labels: y}) < before, "the loss of " + name)
            yield "training " + name, "steps/s", MORE, 1 / took


ALL = (steps, tensors, executor, queues, clients, training)
