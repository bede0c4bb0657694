"""Queues of a cluster, through troupe.pipeline."""

import contextlib
import itertools
import os
import queue as channels
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np
import tensorflow as tf

import troupe
from troupe import _session, pipeline

tf1 = tf.compat.v1
names = (f"queue-{i}" for i in itertools.count())
DEVICE = "/job:ps/task:0"

# A program that leases a batch, says so, and waits to be killed.
HOLDER = """
import sys
from troupe import pipeline
queue = pipeline.Queue(sys.argv[2], "int64", device="/job:ps/task:0")
for batch in queue.consumer(sys.argv[1], batch=4, lease=1):
    print(batch.value.tolist(), flush=True)
    sys.stdin.read()
"""


class Fails:
    """Checks the error that a block raises."""

    def __init__(self, test, name, text):
        self.test, self.name, self.text = test, name, text

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.test.assertIs(kind, pipeline.PipelineError, error)
        self.test.assertEqual(error.name, self.name, error)
        self.test.assertIn(self.text, error.message)
        return True


class Pipelines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = troupe.LocalCluster(ps=1, worker=2)
        cls.addClassCleanup(cls.cluster.stop, 0)
        cls.cluster.wait_ready(60)
        cls.target = cls.cluster.task("worker:0").target

    def queue(self, components="int64", **options):
        return pipeline.Queue(next(names), components, device=DEVICE, **options)

    def fails(self, name, text):
        return Fails(self, name, text)

    def filled(self, n, **options):
        """Returns a closed queue of the numbers below n."""
        queue = self.queue(**options)
        with queue.producer(self.target) as producer:
            producer.put_batch(range(n))
        return queue

    def test_values(self):
        rng = np.random.default_rng(1)
        for number, (dtype, _) in _session._BY_NUMBER.items():
            for shape in ((), (3,), (2, 0)):
                with self.subTest(dtype=dtype, shape=shape):
                    if dtype == _session.STRING:
                        given = np.empty((5,) + shape, object)
                        for at in np.ndindex(given.shape):
                            given[at] = rng.bytes(rng.integers(0, 200)) + b"\0"
                    else:
                        given = rng.integers(0, 100, (5,) + shape).astype(dtype)
                    queue = self.queue({"x": (dtype, shape), "n": "int32"})
                    with queue.producer(self.target) as producer:
                        producer.put({"n": 0, "x": given[0]})
                        producer.put_batch({"x": given[1:], "n": [1, 2, 3, 4]})
                    with queue.consumer(self.target, batch=8) as consumer:
                        (batch,) = consumer
                    self.assertEqual(batch.size, 5)
                    self.assertEqual(list(batch), ["x", "n"])
                    self.assertEqual(batch["x"].dtype, dtype)
                    np.testing.assert_array_equal(batch["x"], given)
                    np.testing.assert_array_equal(batch["n"], range(5))
                    batch["n"][0] = 7  # it is the program's

    def test_wrong_values(self):
        queue = self.queue({"a": ("uint8", [2]), "b": str})
        with queue.producer(self.target) as producer:
            for kind, text, element in (
                (ValueError, "has a, b, not a", {"a": [1, 2]}),
                (ValueError, "has a, b, not a, b, c", {"a": [1, 2], "b": "", "c": 1}),
                (ValueError, r"'a' has the shape \(3,\), not \(2,\)", {"a": [1, 2, 3], "b": ""}),
                (OverflowError, "'a': a value does not fit into uint8", {"a": [1, 256], "b": ""}),
                (OverflowError, "'a': a value does not fit", {"a": [1, -1], "b": ""}),
                (TypeError, "'a': values of float64 are no uint8", {"a": [1, 2.5], "b": ""}),
                (TypeError, "'b': a string is expected, not 5", {"a": [1, 2], "b": 5}),
            ):
                with self.assertRaisesRegex(kind, text):
                    producer.put(element)
            with self.assertRaisesRegex(ValueError, "'b' has 1 rows, and others have 2"):
                producer.put_batch({"a": [[1, 2], [3, 4]], "b": ["x"]})
            producer.put({"a": [1, 255], "b": "text"})
        with queue.consumer(self.target) as consumer:
            (batch,) = consumer
        self.assertEqual(batch["a"].tolist(), [[1, 255]])
        self.assertEqual(batch["b"].tolist(), [b"text"])
        for arguments in (
            lambda: pipeline.Queue("", "int64"),
            lambda: pipeline.Queue("q", {}),
            lambda: pipeline.Queue("q", ("int64", [-1])),
            lambda: pipeline.Queue("q", "int64", capacity=0),
            lambda: queue.producer(self.target, batch=0),
            lambda: queue.consumer(self.target, batch=0),
            lambda: queue.consumer(self.target, lease=None, max_deliveries=2),
            lambda: queue.consumer(self.target, dead_letters=queue),
            lambda: queue.consumer(
                self.target, max_deliveries=2, dead_letters=pipeline.Queue("d", str)
            ),
        ):
            self.assertRaises(ValueError, arguments)
        self.assertRaises(TypeError, pipeline.Queue, "q", "datetime64[s]")
        with self.assertRaisesRegex(TypeError, "queue q: component 'x': data type 'nothing'"):
            pipeline.Queue("q", {"y": "int64", "x": "nothing"})
        with self.assertRaisesRegex(ValueError, r"queue q: component 'x': .* not \(-1,\)"):
            pipeline.Queue("q", {"x": ("int64", [-1])})
        for target in ("localhost", "grpc://10.0.0.2", "grpc://:2222", "10.0.0.2:", "10.0.0.2:port", ""):
            with self.assertRaisesRegex(ValueError, "is not a target: a host and a port are expected"):
                queue.producer(target)
            with self.assertRaisesRegex(ValueError, "is not a target: a host and a port are expected"):
                troupe.Actor(target, "worker:1", "votes")

    def test_many_programs(self):
        """Two producers and three consumers, through two servers, of a queue that is much smaller than what goes through it."""
        queue, targets = self.queue(capacity=50), self.cluster.targets
        got = channels.SimpleQueue()

        def produce(k):
            with queue.producer(targets[f"worker:{k}"], batch=7, keep_open=True) as producer:
                for i in range(k, 1000, 2):
                    producer.put(i)
            self.assertEqual(producer.elements, 500)

        def consume(k):
            with queue.consumer(targets[f"worker:{k % 2}"], batch=9, prefetch=k) as consumer:
                for batch in consumer:
                    got.put(batch.value.tolist())

        consumers = [threading.Thread(target=consume, args=(k,)) for k in range(3)]
        producers = [threading.Thread(target=produce, args=(k,)) for k in range(2)]
        for thread in producers + consumers:
            thread.start()
        for thread in producers:
            thread.join()
        queue.producer(self.target).close()
        for thread in consumers:
            thread.join()
        all_of_them = [x for _ in range(got.qsize()) for x in got.get()]
        self.assertEqual(sorted(all_of_them), list(range(1000)))

    def test_left_early(self):
        for prefetch in (0, 1, 3):
            with self.subTest(prefetch=prefetch):
                queue = self.filled(10)
                with queue.consumer(self.target, batch=2, prefetch=prefetch) as consumer:
                    for batch in consumer:
                        if batch.value[0] == 2:
                            break  # 0 and 1 were used
                    for batch in consumer:
                        self.assertEqual(batch.value.tolist(), [2, 3])
                        batch.acknowledge()
                        break
                    with self.assertRaisesRegex(RuntimeError, "mine"):
                        for batch in consumer:
                            raise RuntimeError("mine")
                    for batch in consumer:
                        self.assertEqual(batch.value.tolist(), [4, 5])
                        batch.give_back()
                        with self.fails("FAILED_PRECONDITION", "returned to the queue before"):
                            batch.acknowledge()
                        break
                self.assertEqual(queue.size(self.target), 6)
                with queue.consumer(self.target, batch=100) as consumer:
                    (batch,) = consumer
                # Batches that were prefetched when another one was given back are of another order.
                self.assertEqual(sorted(batch.value), [4, 5, 6, 7, 8, 9])
                self.assertEqual(consumer.expired, 0)

    def test_killed_consumer(self):
        queue = self.filled(6)
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, self.target, queue.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as holder:
            self.assertEqual(holder.stdout.readline(), "[0, 1, 2, 3]\n")
            holder.kill()
        with queue.consumer(self.target, batch=3) as consumer:
            got = [x for batch in consumer for x in batch.value.tolist()]
        self.assertEqual(sorted(got), list(range(6)))

    def test_lease_that_is_kept(self):
        """A batch in use for several times its lease is renewed; without renewal it goes to another consumer."""
        queue = self.filled(2)
        with queue.consumer(self.target, lease=0.4) as slow, queue.consumer(self.target) as other:
            kept, gone = iter(slow), iter(slow)
            used = next(kept)
            self.assertEqual(used.value.tolist(), [0])
            batch = next(gone)
            with batch._leases._changed:  # as if the process were frozen
                batch._leases._ending = True
                batch._leases._changed.notify_all()
            (again,) = itertools.islice(other, 1)  # waits for the end of the lease
            self.assertEqual(again.value.tolist(), [1])
            with self.fails("FAILED_PRECONDITION", "had not been acknowledged within 0.4 s"):
                batch.acknowledge()
            self.assertEqual(slow.expired, 1)
            used.acknowledge()
            gone.close()
            kept.close()

    def test_dead_letters(self):
        dead = self.queue()
        queue = self.filled(3)
        with queue.consumer(
            self.target, max_deliveries=2, dead_letters=dead, batch=3
        ) as consumer:
            for _ in range(2):
                for batch in consumer:
                    self.assertEqual(batch.value.tolist(), [0, 1, 2])
                    break
            self.assertEqual(list(consumer), [])
        self.assertEqual(dead.size(self.target), 3)

    def test_runs_that_follow(self):
        queue = self.filled(2, open_wait=0.2)
        with self.fails("FAILED_PRECONDITION", "2 elements"):
            queue.producer(self.target)
        with queue.consumer(self.target, batch=5) as consumer:
            self.assertEqual([b.value.tolist() for b in consumer], [[0, 1]])
            with self.fails("FAILED_PRECONDITION", "closed"):
                list(consumer)
            with queue.producer(self.target) as producer:
                producer.put(7)
            self.assertEqual([b.value.tolist() for b in consumer], [[7]])
        queue.delete(self.target)
        self.assertEqual(queue.size(self.target), 0)

    def test_failures(self):
        queue = self.queue()
        with self.assertRaisesRegex(KeyError, "no such row"):
            with queue.producer(self.target) as producer:
                producer.put(1)
                producer.flush()
                raise KeyError("no such row")
        with queue.consumer(self.target, batch=5) as consumer:
            batches = iter(consumer)
            self.assertEqual(next(batches).value.tolist(), [1])
            with self.fails("UNKNOWN", "KeyError: 'no such row'"):
                next(batches)
        queue = self.queue(open_wait=0.2)
        late = queue.producer(self.target)
        queue.producer(self.target).fail(pipeline.PipelineError(11, "the file ends too early"))
        late.put(1)
        for method in (late.flush, lambda: late.put(2), late.close, late.flush):
            with self.fails("CANCELLED", "closed"):
                method()
        with queue.consumer(self.target) as consumer:
            with self.assertRaisesRegex(pipeline.PipelineError, "the file ends too early"):
                list(consumer)
        with self.fails("CANCELLED", "is closed"):
            list(consumer)
        with self.fails("INVALID_ARGUMENT", ""):
            pipeline.Queue("q", "int64", device="/job:none/task:5").size(self.target)
        with self.fails("UNAVAILABLE", ""):
            queue.consumer("grpc://localhost:1", retry=0.1).__iter__().__next__()

    def test_waiting_programs_can_be_closed(self):
        for prefetch in (0, 2):
            queue = self.queue(capacity=2)
            consumer = queue.consumer(self.target, prefetch=prefetch)
            ended = channels.SimpleQueue()

            def consume():
                try:
                    for batch in consumer:
                        ended.put(batch.value.tolist())
                    ended.put("the end")
                except pipeline.PipelineError as error:
                    ended.put(error.name)

            thread = threading.Thread(target=consume)
            thread.start()
            producer = queue.producer(self.target, keep_open=True)
            producer.put(1)
            self.assertEqual(ended.get(timeout=60), [1])
            consumer.close()
            self.assertEqual(ended.get(timeout=60), "CANCELLED")
            thread.join()
            # The producer's step waits for room, since nobody takes the elements.
            producer.put_batch([1, 2, 3, 4])
            producer.fail(RuntimeError("enough"))
            self.assertNotIn("troupe-producer", [t.name for t in threading.enumerate()])
            self.assertNotIn("troupe-consumer", [t.name for t in threading.enumerate()])
            self.assertNotIn("troupe-leases", [t.name for t in threading.enumerate()])

    def test_use_after_close(self):
        """What a program goes on with after the end of its consumer fails with CANCELLED, or ends as another loop would."""
        for prefetch in (0, 1):
            queue = self.filled(4)
            consumer = queue.consumer(self.target, prefetch=prefetch)
            loop = iter(consumer)
            batch = next(loop)
            consumer.close()
            with self.fails("CANCELLED", "closed"):
                batch.acknowledge()
            with self.fails("CANCELLED", "closed"):
                next(loop)
            self.assertEqual(consumer.expired, 1)
            self.assertEqual(queue.size(self.target), 4)
        actor = troupe.Actor(self.target, "", "a")
        actor.close()
        for call in (lambda: actor.ask("hello", timeout=20), actor.watch):
            with self.assertRaisesRegex(troupe.ActorError, "^CANCELLED: the connection is closed$"):
                call()

    def test_close_while_the_server_is_frozen(self):
        task = self.cluster.task("worker:1")
        for prefetch in (0, 1):
            consumer = self.queue().consumer(task.target, prefetch=prefetch)
            opening, ended = threading.Event(), channels.SimpleQueue()
            begin = consumer._connection.begin

            def begun(*args):
                call = begin(*args)
                opening.set()
                return call

            def consume():
                try:
                    list(consumer)
                except pipeline.PipelineError as error:
                    ended.put(error.name)

            os.kill(task.pid, signal.SIGSTOP)
            try:
                with mock.patch.object(consumer._connection, "begin", begun):
                    threads = [threading.Thread(target=f, daemon=True) for f in (consume, consumer.close)]
                    threads[0].start()
                    opening.wait(60)
                    threads[1].start()
                    self.assertEqual(ended.get(timeout=60), "CANCELLED")
                    for thread in threads:
                        thread.join(60)
                        self.assertFalse(thread.is_alive())
            finally:
                os.kill(task.pid, signal.SIGCONT)

    def test_token_that_is_gone(self):
        """What a consumer cannot tell the server, for a reason that is not the server's, fails its loop, also where it waits."""
        queue = self.queue()
        with queue.producer(self.target, keep_open=True) as producer:
            producer.put(1)
        with tempfile.TemporaryDirectory() as folder:
            token = os.path.join(folder, "token")
            with open(token, "w", encoding="ascii") as file:
                file.write("token")
            consumer = queue.consumer(self.target, prefetch=1, token_file=token)
            calls, ended = channels.SimpleQueue(), channels.SimpleQueue()
            begin = consumer._connection.begin

            def begun(*args):
                call = begin(*args)
                calls.put(args[0])
                return call

            def consume():
                try:
                    for _ in consumer:
                        for _ in range(3):  # the session, the batch, and the next one, which waits
                            calls.get(timeout=60)
                        os.remove(token)
                except OSError as error:
                    ended.put(type(error))

            with mock.patch.object(consumer._connection, "begin", begun):
                thread = threading.Thread(target=consume, daemon=True)
                thread.start()
                self.assertIs(ended.get(timeout=60), FileNotFoundError)
                thread.join()
            consumer.close()
            self.assertTrue(consumer._connection._closed)
            self.assertNotIn("troupe-leases", [t.name for t in threading.enumerate()])

    def test_lost_master(self):
        """The master of both ends is killed and comes back, again and again: each element is stored once, and used at least once."""
        queue, task = self.queue(capacity=20), self.cluster.task("worker:1")
        used = []
        kills = threading.Event()

        def consume():
            with queue.consumer(task.target, batch=3, lease=2, retry=60) as consumer:
                for batch in consumer:
                    used.extend(batch.value.tolist())
                    if len(used) > 30:
                        kills.wait(60)

        consumer = threading.Thread(target=consume)
        consumer.start()
        with queue.producer(task.target, batch=5, retry=60) as producer:
            for i in range(200):
                producer.put(i)
                if i in (40, 60):
                    task.kill()
                    task.restart()
                    self.cluster.wait_ready(60)
                if i == 45:
                    kills.set()
        consumer.join()
        self.assertEqual(producer.elements, 200)
        self.assertEqual(sorted(set(used)), list(range(200)))

    def test_tensorflow(self):
        """A graph of TensorFlow's client shares the queue; TensorFlow's own server has queues without leases."""
        queue = self.queue({"x": ("float32", [2]), "word": str}, capacity=32)

        def theirs(session_of, target, **options):
            with tf.Graph().as_default() as graph:
                with tf.device(DEVICE):
                    shared = tf.queue.FIFOQueue(
                        32, [tf.float32, tf.string], [[2], []], shared_name=queue.name
                    )
                put = shared.enqueue_many([[[1.0, 2.0], [3.0, 4.0]], ["a", "bc"]])
                take = shared.dequeue()
                with session_of(target, graph=graph) as session:
                    session.run(put)
                    with queue.consumer(target, batch=2, **options) as consumer:
                        for batch in consumer:
                            self.assertEqual(batch["x"].tolist(), [[1, 2], [3, 4]])
                            self.assertEqual(batch["word"].tolist(), [b"a", b"bc"])
                            batch.acknowledge()
                            break
                    with queue.producer(
                        target, retry=options.get("retry", 60), keep_open=True
                    ) as producer:
                        producer.put({"x": [5, 6], "word": "\u00e9"})
                    x, word = session.run(take)
                    self.assertEqual((x.tolist(), word.decode()), ([5, 6], "\u00e9"))

        theirs(tf1.Session, self.target)
        server = tf.distribute.Server({"ps": ["localhost:0"]}, "ps", 0)
        with contextlib.closing(tf1.Session(server.target)):
            theirs(tf1.Session, server.target, lease=None, retry=None)
            with self.fails("NOT_FOUND", "TroupeQueueLease"):
                list(queue.consumer(server.target))
class Retries(unittest.TestCase):
    """Steps that are lost, in simulated time."""

    def lose(self, waits, over=False):
        """Runs a step that waits, and is lost, for some times; its server is away for 40 s each time, and in the end for good if `over` is set."""
        clock, left, back = [0.0], list(waits), [0.0]
        lost = pipeline.PipelineError(14, "lost")

        def step():
            if clock[0] < back[0]:
                raise lost
            if not left:
                return clock[0]
            clock[0] += left.pop(0)
            back[0] = clock[0] + (40 if left or not over else 1e9)
            raise lost

        class Stop:
            def wait(self, seconds):
                clock[0] += seconds
                return False

        with mock.patch.object(_session.time, "monotonic", lambda: clock[0]):
            try:
                return _session.retried(60.0, step, Stop())
            finally:
                self.late = clock[0] - (back[0] - 1e9)

    def test_each_loss(self):
        for waits in ([7200], [0, 7200], [3600, 31, 90000, 60]):
            self.assertGreater(self.lose(waits), sum(waits))
        for waits in ([7200], [60, 7200]):
            with self.assertRaisesRegex(pipeline.PipelineError, "lost"):
                self.lose(waits, over=True)
            self.assertLessEqual(self.late, 60)


