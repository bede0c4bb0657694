"""Server beside tf.distribute.Server: the same arguments, the same classes of errors."""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf  # noqa: E402

import troupe  # noqa: E402
import troupe.run  # noqa: E402

THEIRS = tf.train.Server
FREE = {"w": ["127.0.0.1:0"]}


def quiet(*args, **kwargs):
    return troupe.Server(*args, echo=False, **kwargs)


def answer(target):
    with tf.Graph().as_default() as graph:
        y = tf.constant(2.0) * 21
    with tf.Session(target, graph=graph) as session:
        return session.run(y)


class Arguments(unittest.TestCase):
    def test_forms(self):
        cluster = tf.train.ClusterSpec({"ps": ["127.0.0.1:1"], "w": {3: "127.0.0.1:0"}})
        one = tf.train.ClusterSpec(FREE)
        definition = tf.train.ServerDef(cluster=one.as_cluster_def(), job_name="w", protocol="grpc")
        config = tf.ConfigProto(intra_op_parallelism_threads=2)
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            second = {"w": ["127.0.0.1:1", "127.0.0.1:%d" % held.getsockname()[1]]}
            forms = {
                "dict": ((FREE,), {}),
                "tuple": (({"w": ("127.0.0.1:0",)},), {"protocol": "grpc", "config": config}),
                "sparse dict": (({"w": {0: "127.0.0.1:0"}}, "w", 0), {"start": False}),
                "ClusterSpec": ((one, "w", 0, "grpc", config, True), {}),
                "ClusterDef": ((one.as_cluster_def(),), {}),
                "ServerDef": ((definition,), {}),
                "ServerDef and more": ((definition,), {"task_index": 0, "config": config}),
                "second task": ((second, "w", 1), {}),
            }
            for name, (args, kwargs) in forms.items():
                with self.subTest(name):
                    with quiet(*args, **kwargs) as server:
                        ours, target = server.server_def, server.target
                    theirs = THEIRS(*args, **kwargs)
                    self.assertEqual(ours, theirs.server_def)
                    self.assertRegex(target, r"^grpc://127\.0\.0\.1:\d+$")
        with self.assertRaisesRegex(ValueError, "task_index"):
            quiet(second)
        self.assertEqual(cluster.task_indices("w"), [3])

    def test_clusters(self):
        """The ways in which programs write clusters, of which this machine has one task."""
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        other = ["127.0.0.1:1"]
        for name, cluster, job, index in (
            ("a chief", {"chief": ["127.0.0.1:%d" % port], "ps": other}, "chief", 0),
            ("a master", {"master": ["127.0.0.1:%d" % port], "ps": other}, "master", 0),
            ("own name", {"worker": ["localhost:%d" % port], "ps": other}, "worker", 0),
            ("all interfaces", {"worker": ["0.0.0.0:%d" % port], "ps": other}, "worker", 0),
            ("a sparse job", {"worker": {1: "127.0.0.1:%d" % port}, "ps": other}, "worker", 1),
            ("a job without tasks", {"worker": ["127.0.0.1:%d" % port], "ps": []}, "worker", 0),
            ("underscores", {"my_worker_": {3: "127.0.0.1:%d" % port}, "ps": other}, "my_worker_", 3),
            ("tuples", {"worker": ("127.0.0.1:%d" % port,), "ps": tuple(other)}, "worker", 0),
        ):
            with self.subTest(name):
                with quiet(cluster, job, index) as server:
                    ours = server.server_def
                    self.assertTrue(server.target.endswith(":%d" % port), server.target)
                theirs = tf.train.ClusterSpec(cluster).as_cluster_def()
                self.assertEqual(ours.cluster, theirs)
                self.assertEqual((ours.job_name, ours.task_index), (job, index))
        elsewhere = {"worker": ["203.0.113.7:%d" % port], "ps": other}
        with self.assertRaisesRegex(tf.errors.UnknownError, r'flags=\["--bind=0.0.0.0:%d"\]' % port):
            quiet(elsewhere, "worker", 0)
        with quiet(elsewhere, "worker", 0, flags=["--bind=0.0.0.0:%d" % port]) as server:
            self.assertTrue(server.running)

    def test_errors(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            cases = {
                "taken port": (({"w": ["127.0.0.1:%d" % taken.getsockname()[1]]},), {}),
                "protocol": ((FREE,), {"protocol": "carrier pigeon"}),
                "no such job": ((FREE, "x", 0), {}),
                "no such job, no task": ((FREE, "x"), {}),
                "no such task": ((FREE,), {"task_index": 3}),
                "negative task": ((FREE,), {"task_index": -1}),
                "no port": (({"w": ["nonsense"]},), {}),
                "number": ((3,), {}),
                "None": ((None,), {}),
                "two jobs": (({"a": ["127.0.0.1:0"], "b": ["127.0.0.1:1"]},), {}),
                "two tasks": (({"a": ["127.0.0.1:0", "127.0.0.1:1"]},), {}),
                "tasks are text": (({"w": "127.0.0.1:0"},), {}),
                "addresses are numbers": (({"w": [3]},), {}),
                "empty ServerDef": ((tf.train.ServerDef(),), {}),
                "ServerDef with a protocol": ((tf.train.ServerDef(protocol="grpc"),), {}),
                "ServerDef with a job's name": ((tf.train.ServerDef(), "w", 0, "grpc"), {}),
                "empty cluster": (({},), {}),
                "empty job": (({"w": []},), {}),
                "config is a number": ((FREE,), {"config": 3}),
                "protocol is a number": ((FREE,), {"protocol": 3}),
                "task is text": ((FREE,), {"task_index": "0"}),
            }
            for name, (args, kwargs) in cases.items():
                with self.subTest(name):
                    with self.assertRaises(Exception) as theirs:
                        THEIRS(*args, **kwargs)
                    with self.assertRaises(Exception) as ours:
                        quiet(*args, **kwargs)
                    self.assertIs(type(ours.exception), type(theirs.exception), ours.exception)
                    self.assertTrue(str(ours.exception))


    def test_errors_say_more(self):
        for kwargs, want in {
            "The cluster's jobs are: a, b.": {"cluster": {"a": ["h:1"], "b": ["h:2"]}},
            "The tasks of the job a are: 0, 1.": {"cluster": {"a": ["h:1", "h:2"]}},
            "No such job in cluster: 'c'. The cluster's jobs are: a, b.": {
                "cluster": {"a": ["h:1"], "b": ["h:2"]},
                "job_name": "c",
            },
            "flags is a list of strings, such as ['--gpus=0']": {"cluster": FREE, "flags": "--gpus=0"},
        }.items():
            with self.subTest(kwargs), self.assertRaises((ValueError, TypeError)) as error:
                troupe.Server(want.pop("cluster"), **want)
            self.assertIn(kwargs, str(error.exception))


class Life(unittest.TestCase):
    def test_with(self):
        with quiet(FREE) as server:
            self.assertEqual(answer(server.target), 42.0)
            server.wait_ready(20)
            self.assertEqual(server.status()["tasks"][0]["state"], "up")
            self.assertFalse(server.join(timeout=0))
            self.assertIn("msg=serving", server.log)
            server.start()
        self.assertFalse(server.running)
        self.assertTrue(server.join())
        server.stop()
        with self.assertRaises(tf.errors.UnknownError):
            server.start()

    def test_each_worker_has_its_own_variables(self):
        """Two workers with servers of their own do not share what they place nowhere, as with TensorFlow's servers."""
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        addresses = ["127.0.0.1:%d" % h.getsockname()[1] for h in held]
        for h in held:
            h.close()
        with quiet({"worker": addresses}, "worker", 0) as first, quiet({"worker": addresses}, "worker", 1) as second:
            first.wait_ready()
            for device in (None, "/cpu:0"):
                sessions = []
                for index, server in enumerate((first, second)):
                    with tf.Graph().as_default() as graph, tf.device(device):
                        n = tf.get_local_variable(f"n{device or ''}".replace("/", "_").replace(":", "_"), initializer=100 * index)
                        count = n.assign_add(1)
                    session = tf.Session(server.target, graph=graph)
                    session.run(n.initializer)
                    sessions.append((session, count))
                self.assertEqual([session.run(count) for session, count in sessions], [1, 101], device)
                self.assertEqual([session.run(count) for session, count in sessions], [2, 102], device)
                for session, _ in sessions:
                    session.close()
            self.assertNotIn("is shared with sessions of another master", first.log + second.log)

    def test_join_returns_after_stop(self):
        server = troupe.Server.create_local_server(start=False)
        server.start()
        ended = threading.Thread(target=server.join)
        ended.start()
        server.stop()
        ended.join(20)
        self.assertFalse(ended.is_alive())

    def test_stop_cancels_a_waiting_step(self):
        self.stop_cancels(quiet(FREE, flags=["--drain=200ms"]), None)

    def test_stop_with_a_grace_of_its_own(self):
        began = time.monotonic()
        self.stop_cancels(quiet(FREE, flags=["--drain=1h"]), 0.2)
        self.assertLess(time.monotonic() - began, 20)

    def stop_cancels(self, server, grace):
        with tf.Graph().as_default() as graph:
            begun, empty = (tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name=name) for name in ("begun", "empty"))
            with tf.control_dependencies([begun.enqueue(1.0)]):
                take = empty.dequeue()
            begin = begun.dequeue()
        limits = tf.ConfigProto(operation_timeout_in_ms=4000)
        self.addCleanup(server.stop, 0)
        failures = []
        session = tf.Session(server.target, graph=graph, config=limits)
        call = session.make_callable(take)

        def run():
            try:
                call()
            except tf.errors.OpError as error:
                failures.append(error)

        step = threading.Thread(target=run, daemon=True)
        step.start()
        session.run(begin)
        server.stop(grace)
        self.assertEqual(server._process.exit_code, 0)
        step.join(15)
        self.assertFalse(step.is_alive())
        self.assertEqual(len(failures), 1)
        self.assertNotIsInstance(failures[0], tf.errors.DeadlineExceededError)
        with self.assertRaises(tf.errors.OpError):
            session.close()  # or TensorFlow tries to for half a minute when the process ends

    def test_a_start_that_fails_leaves_nothing(self):
        before = set(troupe._process._running)
        for error, raised in (
            (troupe.ServerError(4, "no answer"), tf.errors.DeadlineExceededError),
            (KeyboardInterrupt(), KeyboardInterrupt),
        ):
            with mock.patch.object(troupe._process.Process, "start", side_effect=error):
                self.assertRaises(raised, quiet, FREE)
            self.assertEqual(troupe._process._running, before)

    def test_join_tells_of_a_failure(self):
        server = quiet(FREE)
        os.kill(server.pid, signal.SIGKILL)
        with self.assertRaisesRegex(tf.errors.UnavailableError, "exit code -9(.|\n)*msg=serving"):
            server.join(20)

    def test_a_cluster_that_is_not_complete(self):
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            cluster = {"w": ["127.0.0.1:%d" % held.getsockname()[1], "127.0.0.1:1"]}
            with quiet(cluster, "w", 0) as server:
                with self.assertRaisesRegex(tf.errors.DeadlineExceededError, "task:1"):
                    server.wait_ready(0.3)

    def test_a_dropped_server_goes_on(self):
        target = quiet(FREE).target
        self.assertEqual(answer(target), 42.0)


PROGRAM = """
import sys
import tensorflow as tf
print(sys.argv[1:], __name__)
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as session:
    print(session.run(tf.constant(2.0) * 21))
print(type(server).__module__)
"""


class Install(unittest.TestCase):
    def test_names(self):
        import tensorflow as tf2

        import troupe.tensorflow as replacement
        from tensorflow.python.training import server_lib

        try:
            for name in (tf2.distribute, tf.train, tf.distribute, tf2.compat.v1.train, server_lib):
                self.assertIs(name.Server, troupe.Server, name)
            with tf.train.Server(FREE, start=False) as server:
                self.assertIsInstance(server, tf2.distribute.Server)
        finally:
            replacement.uninstall()
        self.assertIs(tf2.distribute.Server, THEIRS)
        self.assertIs(tf.train.Server, THEIRS)
        replacement.install()
        self.assertIs(tf.train.Server, troupe.Server)
        replacement.uninstall()

    def test_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(PROGRAM)
            command = [sys.executable, "-m", "troupe.run", "--v1", path, "--job=w", "1"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines, ["['--job=w', '1'] __main__", "42.0", "troupe._server"])

    def test_run_without_a_program(self):
        for arguments, problem in {
            (): "a program is missing",
            ("-m",): "a module is missing",
            ("--v2", "program.py"): "unknown option --v2",
            ("no/such/program.py",): "cannot open no/such/program.py: No such file or directory",
        }.items():
            with self.subTest(problem), self.assertRaises(SystemExit) as end:
                with contextlib.redirect_stderr(io.StringIO()) as said:
                    troupe.run.main(list(arguments))
            self.assertEqual(end.exception.code, 2)
            self.assertTrue(said.getvalue().endswith(f"python -m troupe.run: {problem}\n"), said.getvalue())

    def test_run_of_a_program_for_version_1(self):
        for line, hint in {
            "tf.placeholder(tf.float32)": True,
            "tf.train.Server({'w': ['localhost:0']})": True,
            "tf.no_such_name": False,
            "[].tf": False,
        }.items():
            with self.subTest(line), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "program.py")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"import tensorflow as tf\n{line}\n")
                command = [sys.executable, "-m", "troupe.run", path]
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual("needs: python -m troupe.run --v1" in done.stderr, hint, done.stderr)


if __name__ == "__main__":
    unittest.main()
