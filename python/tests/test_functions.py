"""Python functions in graphs (tf.py_func and its kin), beside TensorFlow's own server."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

import troupe  # noqa: E402

EXTENT = os.environ.get("TROUPE_TESTS", "")


def outcome(target, graph, fetches):
    """Returns the results of a step, or the error's class and the line of the function's own error."""
    with tf.Session(target, graph=graph) as session:
        try:
            return session.run(fetches)
        except tf.errors.OpError as error:
            own = [line for line in error.message.splitlines() if "[[" not in line]
            wanted = ("Error:", "returns", "returned by", "StopIteration", "Unsupported", "Exit")
            return type(error), [line for line in own if any(w in line for w in wanted)][:1]


def arrays():
    """Arrays of all types that NumPy and TensorFlow have, of several shapes."""
    random = np.random.default_rng(1)
    kinds = (
        "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64 complex128 "
        "bfloat16 qint8 quint8 qint16 quint16 qint32"
    ).split()
    for kind in kinds:
        dtype = tf.as_dtype(kind)
        for shape in ((), (0,), (3,), (2, 0, 3), (2, 3, 4)):
            values = random.integers(0, 2 if kind == "bool" else 100, shape)
            base = {"qint8": "i1", "quint8": "u1", "qint16": "i2", "quint16": "u2", "qint32": "i4"}
            if kind in base:
                array = np.asarray(values, base[kind]).view(dtype.as_numpy_dtype)
            else:
                array = np.asarray(values).astype(dtype.as_numpy_dtype)
            yield f"{kind}{shape}", dtype, array
    for values in ([], [b""], [b"\0\xff", "é".encode(), b"x" * 300], [[b"a"], [b"\0"]]):
        yield f"string{values}"[:20], tf.string, np.array(values, object)
    yield "string", tf.string, np.array(b"scalar", object)


def raise_(error):
    raise error


class Exit(Exception):
    pass


def errors():
    """Functions that fail, by what they do."""
    yield "ValueError", lambda: raise_(ValueError("no such value")), tf.float32
    yield "TypeError", lambda: raise_(TypeError("no such type")), tf.float32
    yield "StopIteration", lambda: next(iter(())), tf.float32
    yield "MemoryError", lambda: raise_(MemoryError("too large")), tf.float32
    yield "NotImplementedError", lambda: raise_(NotImplementedError("not yet")), tf.float32
    yield "KeyError", lambda: {}["key"], tf.float32
    yield "UnicodeDecodeError", b"\xff".decode, tf.string
    yield "a class of its own", lambda: raise_(Exit("Exit")), tf.float32
    yield "TensorFlow's", lambda: raise_(tf.errors.AbortedError(None, None, "Error: aborted")), tf.float32
    yield "SystemExit", lambda: sys.exit(3), tf.float32
    yield "another type", lambda: np.float64(1), tf.float32
    yield "too many", lambda: (np.float32(1), np.float32(2)), tf.float32
    yield "too few", lambda: [], tf.float32
    yield "nothing", lambda: None, tf.float32
    yield "an object", lambda: np.array([object()]), tf.string
    yield "numbers and strings", lambda: np.array([1, b"x"], object), tf.string
    yield "ragged", lambda: [np.array([1.0, None], object)], tf.float32


def free_addresses(count):
    """Returns addresses of this machine that nobody has bound."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return ["127.0.0.1:%d" % h.getsockname()[1] for h in held]
    finally:
        for h in held:
            h.close()


def serve(test, *flags):
    """Starts a server that no program owns, until the end of a test or a class of tests, and returns its target."""
    clean = getattr(test, "addClassCleanup" if isinstance(test, type) else "addCleanup")
    server = subprocess.Popen([troupe.find_binary(), "serve", *flags], stderr=subprocess.PIPE, text=True)
    clean(server.wait)
    clean(server.kill)

    def drain():  # what it logs must not fill the pipe
        with server.stderr:
            server.stderr.read()

    for line in server.stderr:
        if "target=" in line:
            threading.Thread(target=drain, daemon=True).start()
            return line.split("target=")[1].split()[0]
    raise AssertionError(f"troupe serve {flags} has ended")


class BesideTensorFlow(unittest.TestCase):
    """The same graph on TensorFlow's server in this process and on ours."""

    @classmethod
    def setUpClass(cls):
        cls.theirs = tf.train.Server.create_local_server()
        cls.ours = troupe.Server({"local": ["127.0.0.1:0"]}, echo=False)

    @classmethod
    def tearDownClass(cls):
        cls.ours.stop()

    def both(self, build, name=""):
        with self.subTest(name):
            with tf.Graph().as_default() as graph:
                fetches = build()
            want, got = (outcome(server.target, graph, fetches) for server in (self.theirs, self.ours))
            if isinstance(want, tuple) and isinstance(want[0], type):
                self.assertEqual(got, want)
                return
            for mine, other in zip(tf.nest.flatten(got), tf.nest.flatten(want), strict=True):
                self.assertEqual(type(mine), type(other))
                if isinstance(other, (np.ndarray, np.generic)):
                    self.assertEqual((mine.dtype, mine.shape), (other.dtype, other.shape))
                    self.assertEqual(mine.tolist(), other.tolist())
                else:
                    self.assertEqual(mine, other)

    def test_types(self):
        for name, dtype, array in arrays():
            back = [] if dtype.is_quantized else [dtype]  # TensorFlow does not take these back

            def build(array=array, dtype=dtype, back=back):
                seen = []

                def function(x):
                    seen.append((type(x).__name__, getattr(x, "shape", None)))
                    return [x] * len(back) + [np.array(repr([seen[-1], x]), object)]

                return tf.numpy_function(function, [tf.constant(array, dtype)], back + [tf.string])

            self.both(build, name)

    def test_results(self):
        f4 = np.float32
        for name, function, types in (
            ("none", lambda: None, []),
            ("an empty list", lambda: [], []),
            ("a list of one", lambda: [f4(1)], [tf.float32]),
            ("numbers", lambda: (1.5, 2, True), [tf.float64, tf.int64, tf.bool]),
            ("a list of numbers", lambda: [[1, 2]], [tf.int64]),
            ("text", lambda: "é", tf.string),
            ("bytes", lambda: b"\0x", tf.string),
            ("an array of text", lambda: np.array(["é", "ab"]), tf.string),
            ("an array of bytes", lambda: np.array([b"a", b"abc"]), tf.string),
            ("Fortran's order", lambda: np.asfortranarray(np.arange(6, dtype="f4").reshape(2, 3)), tf.float32),
            ("a slice", lambda: np.arange(10, dtype="f4")[::-2], tf.float32),
            ("large", lambda: np.arange(1 << 18, dtype="f4").reshape(2, -1), tf.float32),
            ("large, a slice", lambda: np.arange(1 << 18, dtype="f8")[::2], tf.float64),
            ("large strings", lambda: np.array([b"x" * (1 << 18), b"", b"y" * 9], object), tf.string),
        ):
            self.both(lambda: tf.py_func(function, [], types), name)

    def test_large_inputs(self):
        def build():
            a, b = tf.ones([1 << 16, 5], tf.float64), tf.fill([4], "x" * (1 << 16))
            return tf.py_func(lambda a, i, b: (a + i, b), [a, tf.range(5.0, delta=1.0, dtype=tf.float64), b], [tf.float64, tf.string])

        self.both(build)

    def test_errors(self):
        for name, function, dtype in errors():
            self.both(lambda: tf.py_func(function, [], dtype), name)
        self.both(lambda: tf.raw_ops.PyFunc(input=[], token="none of ours", Tout=[tf.int32]), "token")
        self.both(lambda: tf.py_function(lambda: tf.constant(1), [], tf.int32), "eager")
        self.both(lambda: tf.py_function(lambda: raise_(StopIteration()), [], tf.int32), "eager, fails")
        self.both(lambda: tf.py_function(lambda: tf.Variable(1), [], tf.int32), "eager, a variable")

    def test_where_it_was_raised(self):
        def deep():
            raise ValueError("here")

        with tf.Graph().as_default() as graph:
            y = tf.py_func(deep, [], tf.float32)
        texts = []
        for server in (self.theirs, self.ours):
            with tf.Session(server.target, graph=graph) as session:
                with self.assertRaises(tf.errors.InvalidArgumentError) as caught:
                    session.run(y)
            text = caught.exception.message
            texts.append(text[text.index("ValueError") : text.rindex("ValueError: here")])
        self.assertEqual(texts[1], texts[0])

    def test_control_flow(self):
        def loop():
            step = tf.py_func(lambda: np.int64(2), [], tf.int64, stateful=False)
            return tf.while_loop(
                lambda i, _: i < 50,
                lambda i, s: (i + 1, s + tf.reshape(tf.py_func(lambda x: x * 2, [i], tf.int64), [])),
                [tf.constant(0, tf.int64), tf.reshape(step, [])],
            )

        def cond():
            return [
                tf.cond(
                    tf.constant(way),
                    lambda: tf.py_func(lambda: np.int64(1), [], tf.int64),
                    lambda: tf.py_func(lambda: raise_(ValueError("not taken")), [], tf.int64),
                )
                for way in (True, True)
            ]

        def dataset():
            data = tf.data.Dataset.range(20).map(
                lambda x: tf.numpy_function(lambda v: np.array([v, v * v]), [x], tf.int64), num_parallel_calls=4
            )
            iterator = tf.data.make_one_shot_iterator(data.batch(20))
            return iterator.get_next()

        def generator():
            data = tf.data.Dataset.from_generator(
                lambda n: ((i, f"row {i}") for i in range(n)), (tf.int64, tf.string), args=[tf.constant(7)]
            )
            return tf.data.make_one_shot_iterator(data.batch(10)).get_next()

        def failing_generator():
            def rows():
                yield 1
                raise ValueError("Error: in the generator")

            data = tf.data.Dataset.from_generator(rows, tf.int64)
            return tf.data.make_one_shot_iterator(data.batch(2)).get_next()

        for build in (loop, cond, dataset, generator, failing_generator):
            self.both(build, build.__name__)

    def test_gradient(self):
        def build():
            x = tf.constant([1.0, 2.0, 3.0])
            y = tf.py_function(lambda v: tf.reduce_sum(v * v * v), [x], tf.float32)
            return y, tf.gradients(y, x)

        self.both(build)

    @unittest.skipUnless(EXTENT == "full", "a measurement is for a machine that does nothing else")
    def test_rate(self):
        """A call with small arrays takes at most twice as long as in TensorFlow's server in this process."""
        with tf.Graph().as_default() as graph:
            n = 500
            loop = tf.while_loop(
                lambda i, _: i < n,
                lambda i, s: (i + 1, tf.reshape(tf.py_func(lambda v: v + np.float32(1), [s], tf.float32), [3])),
                [0, tf.zeros(3)],
            )
        with tf.Session(self.theirs.target, graph=graph) as theirs, tf.Session(self.ours.target, graph=graph) as ours:
            rates = []
            for _ in range(9):  # in turn, since others use the machine too
                took = []
                for session in (theirs, ours):
                    start = time.perf_counter()
                    session.run(loop)
                    took.append(time.perf_counter() - start)
                rates.append(took[0] / took[1])
        self.assertGreater(sorted(rates)[len(rates) // 2], 0.5, rates)


def memory(pid="self"):
    """The resident memory of a process, in MiB."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


class Life(unittest.TestCase):
    def setUp(self):
        self.server = troupe.Server({"local": ["127.0.0.1:0"]}, echo=False)
        self.addCleanup(self.server.stop)

    def test_memory(self):
        if not os.path.exists("/proc/self/status"):
            self.skipTest("only Linux tells a process's memory here")
        rounds = 100 if EXTENT in ("check", "full") else 10  # of a thousand calls
        with tf.Graph().as_default() as graph:
            big = tf.py_func(lambda v: v + 1, [tf.zeros([1 << 16])], tf.float32)
            loop = tf.while_loop(
                lambda i, _: i < 1000,
                lambda i, s: (i + 1, tf.reshape(tf.py_func(lambda v: v + b"x", [tf.constant(b"x" * 50)], tf.string), [])),
                [0, tf.constant(b"")],
            )
        with tf.Session(self.server.target, graph=graph) as session:
            for _ in range(5):
                session.run([big.op, loop])
            here, there = memory(), memory(self.server.pid)
            for _ in range(rounds):
                session.run([big.op, loop])
            self.assertLess(memory() - here, 64)
            self.assertLess(memory(self.server.pid) - there, 64)

    def test_side_by_side(self):
        """Functions that wait for each other run at the same time, those of two sessions too."""
        meet = threading.Barrier(8, timeout=60)

        def function():
            meet.wait()
            return np.int32(1)

        with tf.Graph().as_default() as graph:
            total = tf.add_n([tf.reshape(tf.py_func(function, [], tf.int32), []) for _ in range(4)])
        sums = []

        def run():
            with tf.Session(self.server.target, graph=graph) as session:
                sums.append(session.run(total))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual(sums, [4, 4])

    def test_cancelled(self):
        """A step ends at its deadline though its function does not; others are called meanwhile."""
        go_on = threading.Event()
        self.addCleanup(go_on.set)
        with tf.Graph().as_default() as graph:
            big = tf.zeros([1 << 18])
            stuck = tf.py_func(lambda v: (go_on.wait(60), np.float32(1))[1], [big], tf.float32)
            fine = tf.py_func(lambda: np.float32(2), [], tf.float32)
        with tf.Session(self.server.target, graph=graph) as session:
            start = time.monotonic()
            with self.assertRaises(tf.errors.DeadlineExceededError):
                session.run(stuck, options=tf.RunOptions(timeout_in_ms=200))
            self.assertLess(time.monotonic() - start, 10)
            self.assertEqual(session.run(fine), 2)
            go_on.set()
            self.assertEqual(session.run(stuck), 1)

    def test_no_memory(self):
        """A result that does not fit is an error of the step."""
        server = troupe.Server({"local": ["127.0.0.1:0"]}, echo=False, flags=["--memory-limit=16MiB"])
        self.addCleanup(server.stop)
        with tf.Graph().as_default() as graph:
            large = tf.py_func(lambda: np.zeros(1 << 23, "f4"), [], tf.float32)
            strings = tf.py_func(lambda: np.array([b"x" * (1 << 25)], object), [], tf.string)
            fine = tf.py_func(lambda: np.float32(2), [], tf.float32)
        with tf.Session(server.target, graph=graph) as session:
            for fetch in (large, strings):
                with self.assertRaises(tf.errors.ResourceExhaustedError):
                    session.run(fetch)
            self.assertEqual(session.run(fine), 2)

    def test_program_ends(self):
        """When a program is killed in a call, another task's clients hear that its task is unavailable."""
        cluster = {"w": free_addresses(2)}
        program = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(
                    """
                    import json, sys, time
                    import tensorflow.compat.v1 as tf, troupe
                    server = troupe.Server(json.loads(sys.argv[1]), "w", 1, echo=False)
                    with tf.Graph().as_default() as graph, tf.device("/job:w/task:1"):
                        tf.py_func(lambda: (print("called", flush=True), time.sleep(600)), [], tf.float32, name="f")
                    print(graph.as_graph_def().SerializeToString().hex(), flush=True)
                    time.sleep(600)
                    """
                ),
                json.dumps(cluster),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        definition = tf.GraphDef.FromString(bytes.fromhex(program.stdout.readline()))
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(definition, name="")
        said = []

        def run(target):
            with tf.Session(target, graph=graph) as session:
                try:
                    session.run("f:0")
                except tf.errors.OpError as error:
                    said.append(error)

        with troupe.Server(cluster, "w", 0, echo=False) as server:
            server.wait_ready()
            thread = threading.Thread(target=run, args=(server.target,))
            thread.start()
            self.assertEqual(program.stdout.readline(), "called\n")
            program.send_signal(signal.SIGKILL)
            thread.join(60)
        self.assertIsInstance(said[0], tf.errors.UnavailableError)
        self.assertIn("/job:w/replica:0/task:1", said[0].message)

    def test_no_program(self):
        """A server that no program owns says how to get one that is."""
        target = serve(self, "--local=127.0.0.1:0")
        with tf.Graph().as_default() as graph:
            y = tf.py_func(lambda: np.float32(1), [], tf.float32)
        with tf.Session(target, graph=graph) as session:
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "troupe.Server"):
                session.run(y)


class Placement(unittest.TestCase):
    """Parameter servers are `troupe serve`, and only the worker is this program: its functions run there, whichever task is the master."""

    @classmethod
    def setUpClass(cls):
        addresses = free_addresses(3)
        cluster = {"ps": addresses[:2], "worker": addresses[2:]}
        flags = ["--ps=" + ",".join(addresses[:2]), "--worker=" + addresses[2], "--job_name=ps"]
        parameter = serve(cls, *flags, "--task_index=0")
        serve(cls, *flags, "--task_index=1")
        server = troupe.Server(cluster, "worker", 0, echo=False)
        cls.addClassCleanup(server.stop)
        server.wait_ready()
        cls.targets = [server.target, parameter]

    def run_on_all(self, build, want, name=""):
        """Runs what `build` returns on sessions of both masters: its first value, after the others have run."""
        for target in self.targets:
            with self.subTest(name, target=target), tf.Graph().as_default() as graph:
                fetch, *before = build()
                with tf.Session(target, graph=graph) as session:
                    session.run(before)
                    self.assertEqual(np.asarray(session.run(fetch)).tolist(), want)

    def test_a_parameter_is_assigned_a_function(self):
        """The function has no inputs and one consumer, which is on a parameter server: other such nodes follow it there."""

        def build(assign=tf.assign, **options):
            with tf.device("/job:ps/task:0"):
                v = tf.Variable(0.0, **options)
            return (assign(v, tf.py_func(lambda: np.float32(7), [], tf.float32, stateful=False)),)

        self.run_on_all(build, 7.0, "a reference")
        self.run_on_all(lambda: build(use_resource=True), 7.0, "a resource")

    def test_functions(self):
        def double(x):
            return np.float32(2 * x)

        def one():
            return tf.constant(1.0)

        @tf.function
        def traced(x):
            return tf.numpy_function(double, [x], tf.float32) + 1.0

        def branch():
            x = tf.placeholder_with_default(1.0, [])
            return (tf.cond(x > 0, lambda: tf.py_func(double, [x], tf.float32), lambda: x),)

        def loop():
            def body(i, x):
                return i + 1, tf.reshape(tf.py_func(double, [x], tf.float32), [])

            return (tf.while_loop(lambda i, _: i < 3, body, [0, one()])[1],)

        def with_control_flow_v2(build):
            def built():
                tf.enable_control_flow_v2()
                try:
                    return build()
                finally:
                    tf.disable_control_flow_v2()

            return built

        for name, build, want in (
            ("py_func", lambda: (tf.py_func(double, [one()], tf.float32),), 2.0),
            ("numpy_function", lambda: (tf.numpy_function(double, [one()], tf.float32),), 2.0),
            ("py_function", lambda: (tf.py_function(lambda x: 2 * x, [one()], tf.float32),), 2.0),
            ("a gradient", lambda: tf.gradients(tf.py_function(lambda x: x * x, [x := one()], tf.float32), x), 2.0),
            ("a function", lambda: (traced(one()),), 3.0),
            ("cond", branch, 2.0),
            ("cond, version 2", with_control_flow_v2(branch), 2.0),
            ("while", loop, 8.0),
            ("while, version 2", with_control_flow_v2(loop), 8.0),
        ):
            self.run_on_all(build, want, name)

    def test_datasets(self):
        def generated():
            return tf.data.Dataset.from_generator(lambda: iter([1, 2, 3]), tf.int64, []).batch(3)

        def mapped():
            def one_more(x):
                return tf.reshape(tf.py_function(lambda v: v + 1, [x], tf.int64), [])

            return tf.data.Dataset.range(3).map(one_more).batch(3)

        def one_shot(dataset):
            return (tf.data.make_one_shot_iterator(dataset).get_next(),)

        def single(dataset):
            return (tf.data.experimental.get_single_element(dataset),)

        def initializable(dataset):
            iterator = tf.data.make_initializable_iterator(dataset)
            return iterator.get_next(), iterator.initializer

        def shared(dataset):
            iterator = tf.data.make_initializable_iterator(dataset, shared_name=self.id())
            return iterator.get_next(), iterator.initializer

        def again(dataset):
            iterator = tf.data.Iterator.from_structure(tf.data.get_output_types(dataset), tf.data.get_output_shapes(dataset))
            return iterator.get_next(), iterator.make_initializer(dataset)

        for make in (generated, mapped):
            for read in (one_shot, initializable, shared, again, single):
                name = f"{make.__name__}, {read.__name__}"
                self.run_on_all(lambda make=make, read=read: read(make()), [1, 2, 3], name)

    def test_in_two_runs(self):
        """What a session adds to its graph later follows what is there."""
        for target in self.targets:
            with self.subTest(target=target), tf.Graph().as_default() as graph, tf.Session(target, graph=graph) as session:
                dataset = tf.data.Dataset.from_generator(lambda: iter([5]), tf.int64, [])
                self.assertEqual(session.run(tf.py_func(lambda: np.int64(4), [], tf.int64)), 4)
                iterator = tf.data.make_initializable_iterator(dataset)
                session.run(iterator.initializer)
                self.assertEqual(session.run(iterator.get_next()), 5)

    def test_a_task_that_has_none(self):
        """A node whose device says where it has to be is an error that says what to do, before anything runs."""
        for target in self.targets:
            with self.subTest(target=target), tf.Graph().as_default() as graph:
                with tf.device("/job:ps/task:1"):
                    tf.py_func(lambda: np.float32(1), [], tf.float32, name="mine")
                with tf.Session(target, graph=graph) as session:
                    with self.assertRaises(tf.errors.InvalidArgumentError) as raised:
                        session.run(tf.constant(1))
                for part in ("mine", "/job:ps/replica:0/task:1", "(/job:worker/replica:0/task:0)", "troupe.Server"):
                    self.assertIn(part, raised.exception.message)


class SeveralPrograms(unittest.TestCase):
    """Two programs own a worker each, and the parameter server belongs to none. No program calls a function of the other one."""

    OTHER = textwrap.dedent(
        """
        import sys
        import numpy as np
        import tensorflow.compat.v1 as tf
        import troupe
        with troupe.Server({"ps": [sys.argv[1]], "worker": sys.argv[2:]}, "worker", 0), tf.Graph().as_default():
            theirs = [tf.py_func(lambda: np.int64(-1), [], tf.int64) for _ in range(2000)]
            print("ready", flush=True)
            sys.stdin.read()
        """
    )

    def test_whose_function_is_called(self):
        addresses = free_addresses(3)
        parameter = serve(self, "--ps=" + addresses[0], "--worker=" + ",".join(addresses[1:]), "--job_name=ps")
        other = subprocess.Popen(
            [sys.executable, "-c", self.OTHER, *addresses], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(other.communicate)
        server = troupe.Server({"ps": addresses[:1], "worker": addresses[1:]}, "worker", 1, echo=False)
        self.addCleanup(server.stop)
        self.assertEqual(other.stdout.readline(), "ready\n")
        server.wait_ready()

        def call(target, device=None):
            with tf.Graph().as_default() as graph, tf.device(device):
                y = tf.py_func(lambda: np.int64(7), [], tf.int64)
            with tf.Session(target, graph=graph) as session:
                return session.run(y)

        self.assertEqual(call(server.target), 7)
        self.assertEqual(call(parameter, "/job:worker/task:1"), 7)
        for target, device in ((parameter, None), (server.target, "/job:worker/task:0")):  # where the other program is
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "Could not find callback with key=pyfunc_"):
                call(target, device)

    @unittest.skipUnless(hasattr(os, "fork"), "there are no forks")
    def test_forks(self):
        """Forks of a program that has a server number their functions apart from each other and from the program."""
        server = troupe.Server.create_local_server()
        self.addCleanup(server.stop)
        registry = sys.modules["tensorflow.python.ops.script_ops"]._py_funcs
        tokens = {registry._next_unique_token()}
        for _ in range(3):
            source, sink = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(sink, registry._next_unique_token().encode())
                os._exit(0)
            os.waitpid(child, 0)
            tokens.add(os.read(source, 100).decode())
            os.close(source)
            os.close(sink)
        numbers = sorted(int(token.rpartition("_")[2]) for token in tokens)
        self.assertEqual(len(numbers), 4)
        for less, more in zip(numbers, numbers[1:]):
            self.assertGreater(more - less, 1 << 20)


class ActorsAndLearner(unittest.TestCase):
    """The shape of IMPALA: actors step environments, which are Python, and a learner dequeues their trajectories."""

    PROGRAM = textwrap.dedent(
        """
        import sys
        import numpy as np
        import tensorflow as tf
        job, index, learner, actors = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
        cluster = tf.train.ClusterSpec({"learner": [learner], "actor": actors})
        server = tf.train.Server(cluster, job_name=job, task_index=index)
        ROUNDS, LENGTH = 20, 5

        class Environment:
            state = 0.0
            def step(self, action):
                self.state += float(action) + index
                return np.float32(self.state), np.float32(index)

        with tf.device("/job:learner/task:0"):
            weight = tf.get_variable("weight", initializer=1.0, dtype=tf.float32)
            queue = tf.FIFOQueue(4, [tf.float32, tf.float32], [[LENGTH], [LENGTH]], shared_name="trajectories")
        if job == "actor":
            environment = Environment()
            with tf.device("/job:actor/task:%d" % index):
                def step(i, states, rewards):
                    state, reward = tf.py_func(environment.step, [weight.read_value()], [tf.float32, tf.float32])
                    return i + 1, states.write(i, state), rewards.write(i, reward)
                arrays = [tf.TensorArray(tf.float32, LENGTH, element_shape=[]) for _ in range(2)]
                _, states, rewards = tf.while_loop(lambda i, *_: i < LENGTH, step, [0] + arrays, parallel_iterations=1)
                put = queue.enqueue([states.stack(), rewards.stack()])
            with tf.Session(server.target) as session:
                while not session.run(tf.is_variable_initialized(weight)):
                    pass
                try:
                    while True:
                        session.run(put)
                except (tf.errors.CancelledError, tf.errors.UnavailableError, tf.errors.AbortedError):
                    pass
        else:
            with tf.device("/job:learner/task:0"):
                states, rewards = queue.dequeue()
                mean = tf.py_func(lambda r: np.float32(r.mean()), [rewards], tf.float32)
                learn = tf.assign_add(weight, 0.0 * tf.reduce_sum(states))
            with tf.Session(server.target) as session:
                session.run(weight.initializer)
                seen = set()
                while len(seen) < len(actors) or ROUNDS > 0:
                    ROUNDS -= 1
                    seen.add(float(session.run([mean, learn])[0]))
                session.run(queue.close(cancel_pending_enqueues=True))
            print(sorted(seen))
        """
    )

    def test_two_actors(self):
        addresses = free_addresses(3)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        place = os.path.join(folder.name, "impala.py")
        with open(place, "w", encoding="utf-8") as file:
            file.write(self.PROGRAM)

        def start(job, index):
            return subprocess.Popen(
                [sys.executable, "-m", "troupe.run", "--v1", place, job, str(index), addresses[0], ",".join(addresses[1:])],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

        programs = [start("learner", 0), start("actor", 0), start("actor", 1)]
        said = [program.communicate(timeout=120) for program in programs]
        self.assertEqual(said[0][0].strip(), "[0.0, 1.0]", said[0][1][-2000:])
        for program, (_, errors) in zip(programs, said):
            self.assertEqual(program.returncode, 0, errors[-2000:])


class Channel(unittest.TestCase):
    """What a server prints, and strangers, are no part of what it and its program say to each other."""

    def test_prints(self):
        server = troupe.Server({"local": ["127.0.0.1:0"]}, echo=False)
        self.addCleanup(server.stop)
        with tf.Graph().as_default() as graph:
            lines = ["STARTED", "ERROR 3 forged", "TARGET grpc://forged:1", "x" * (1 << 20)]
            prints = [tf.print(line, output_stream=stream) for line in lines for stream in (sys.stdout, sys.stderr)]
        with tf.Session(server.target, graph=graph) as session:
            for _ in range(40):
                session.run(prints)
        server.start()
        self.assertIn("forged", server.log)
        self.assertLess(len(server.log), 20 << 20)
        self.assertTrue(server.running)

    def test_strangers(self):
        server = troupe.Server({"local": ["127.0.0.1:0"]}, echo=False)
        channel = server._process._channel
        kind, _, path = channel.address.partition(":")
        self.assertEqual(os.stat(channel.folder).st_mode & 0o777, 0o700)
        for line in (b"", b"\n", b"x" * 1000, b"TROUPE 1 control wrong\n", b"TROUPE 1 calls wrong 0 0\n", b"TROUPE 2\n"):
            with socket.socket(socket.AF_UNIX) as stranger:
                self.assertEqual(kind, "unix")
                stranger.connect(path)
                stranger.sendall(line)
                stranger.shutdown(socket.SHUT_WR)
                try:
                    self.assertEqual(stranger.recv(1), b"")
                except ConnectionError:
                    pass  # it was closed with bytes unread
        server.start()
        folder = channel.folder
        server.stop()
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    tf.disable_v2_behavior()
    unittest.main()
