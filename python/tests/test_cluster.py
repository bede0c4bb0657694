"""LocalCluster, what becomes of servers whose parent is killed, the command and the pytest plugin."""

import importlib.util
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import urllib.request
from unittest import mock

import troupe

CI = os.environ.get("CI") == "true"


def connect(target):
    host, _, port = target[len("grpc://") :].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def wait_end(connection):
    """Returns when the process at the other end is gone."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass


class Cluster(unittest.TestCase):
    def test_again_and_again(self):
        for _ in range(20):
            with troupe.LocalCluster(ps=1, worker=2) as cluster:
                self.assertEqual(list(cluster.targets), ["ps:0", "worker:0", "worker:1"])
                processes = [task.pid for task in cluster.tasks]
            self.assertFalse(any(task.running for task in cluster.tasks))
            for process in processes:
                self.assertRaises(ProcessLookupError, os.kill, process, 0)

    def test_many_at_once(self):
        clusters, failures = [], []

        def start():
            try:
                clusters.append(troupe.LocalCluster(a=2))
            except troupe.ServerError as error:
                failures.append(error)

        threads = [threading.Thread(target=start) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        addresses = {task.address for cluster in clusters for task in cluster.tasks}
        for cluster in clusters:
            cluster.stop(0)
        self.assertEqual(failures, [])
        self.assertEqual(len(addresses), 10)

    def test_tasks(self):
        with troupe.LocalCluster({"a_b": 1, "c": 2}) as cluster:
            cluster.wait_ready(20)
            self.assertEqual([t["state"] for t in cluster.status()["tasks"]], ["up"] * 3)
            second = cluster.task("c", 1)
            self.assertIs(cluster.task("c:1"), second)
            self.assertIs(cluster.task("/job:c/task:1"), second)
            self.assertEqual(second.device, "/job:c/task:1")
            self.assertIn("msg=serving", cluster.logs()["c:1"])
            second.kill()
            self.assertFalse(second.running)
            ended = r"the processes of these tasks have ended: c:1$"
            with self.assertRaisesRegex(troupe.ServerError, ended):
                cluster.wait_ready(0.1)
            self.assertIn("<td>not running</td>", cluster._repr_html_())
            second.restart()
            cluster.wait_ready(20)
            self.assertEqual(second.log.count("msg=serving"), 2)
            self.assertEqual(cluster._repr_html_().count("<td>running</td>"), 3)
            given = json.loads(cluster.tf_config("c", 1))
            self.assertEqual(given, {"cluster": cluster.spec, "task": {"type": "c", "index": 1}})
            self.assertRaises(KeyError, cluster.task, "c:2")
        with self.assertRaisesRegex(troupe.ServerError, "c:1 cannot be restarted: its cluster has been"):
            second.restart()
        self.assertFalse(second.running)

    def test_dashboard(self):
        with troupe.LocalCluster(a=2) as cluster:
            before = cluster.dashboard
            with urllib.request.urlopen(before) as page:
                self.assertIn(b"Troupe", page.read())
            self.assertIn(f'href="{before}"', cluster._repr_html_())
            cluster.task("a").kill()
            self.assertNotEqual(cluster.dashboard, before)
            with urllib.request.urlopen(cluster.dashboard) as page:
                self.assertIn(b"Troupe", page.read())
        self.assertEqual(cluster.dashboard, "")

    def test_notebook(self):
        shown = queue.Queue()  # what a notebook's table has had

        class Handle:
            def update(self, page):
                shown.put(page)

        def display(page, display_id):
            self.assertTrue(display_id)
            shown.put(page)
            return Handle()

        notebook = types.SimpleNamespace(HTML=str, display=display)
        with mock.patch.dict(sys.modules, {"IPython.display": notebook}):
            with troupe.LocalCluster(a=2) as cluster:
                cluster._ipython_display_()
                self.assertRegex(
                    shown.get(timeout=20),
                    r"running</td><td>\d+</td><td>0</td><td>0</td><td>[\d.]+ MiB",
                )
                cluster.task("a:1").kill()
                while "not running" not in shown.get(timeout=20):
                    pass
            while shown.qsize() > 1:
                shown.get()
            self.assertEqual(shown.get(timeout=20).count("not running"), 2)
            self.assertNotIn("troupe-table", [thread.name for thread in threading.enumerate()])

    def test_refusals(self):
        self.assertRaises(ValueError, troupe.LocalCluster, ps=0)
        self.assertRaises(TypeError, troupe.LocalCluster, ps="1")
        self.assertRaises(TypeError, troupe.LocalCluster, 2)
        with self.assertRaisesRegex(TypeError, r"flags is a list of strings, such as \['--http=:0'\]"):
            troupe.LocalCluster(a=1, flags="--http=:0")
        with self.assertRaisesRegex(troupe.ServerError, "no-such-flag"):
            troupe.LocalCluster(a=1, flags=["--no-such-flag"])

    def test_no_strategy(self):
        with troupe.LocalCluster(ps=1) as cluster:
            with self.assertRaisesRegex(ValueError, "the cluster has no job worker"):
                cluster.strategy()

    def test_session(self):
        import tensorflow.compat.v1 as tf

        with tf.Graph().as_default() as graph:
            with tf.device("/job:ps/task:0"):
                x = tf.get_variable("x", initializer=20.0, use_resource=False)
            with tf.device("/job:worker/task:1"):
                y = 2 * x + 2
        with troupe.LocalCluster() as cluster:
            with cluster.session(graph=graph) as session:
                session.run(x.initializer)
            with cluster.session("worker:1", graph=graph) as session:
                self.assertEqual(session.run(y), 42.0)


class Rare(unittest.TestCase):
    """What is left after a start that failed, or where the system has no room."""

    def left(self):
        """Returns the names of the threads, the processes, and the folders of servers."""
        threads = [t.name for t in threading.enumerate() if t.name.startswith("troupe-")]
        folders = [name for name in os.listdir(tempfile.gettempdir()) if name in self.folders]
        return threads, set(troupe._process._running), folders

    def setUp(self):
        self.folders, self.children = [], []
        make, popen = tempfile.mkdtemp, subprocess.Popen

        def made(*args, **kwargs):
            folder = make(*args, **kwargs)
            self.folders.append(os.path.basename(folder))
            return folder

        def started(*args, **kwargs):
            self.children.append(popen(*args, **kwargs))
            return self.children[-1]

        for target, stand_in in (("tempfile.mkdtemp", made), ("subprocess.Popen", started)):
            patch = mock.patch(target, stand_in)
            patch.start()
            self.addCleanup(patch.stop)

    def nothing_is_left(self):
        self.assertEqual(self.left(), ([], set(), []))
        self.assertNotIn(None, [child.poll() for child in self.children])

    def test_no_room_for_threads(self):
        start = threading.Thread.start
        for last in range(3):
            starts = iter(range(10))

            def limited(thread):
                if next(starts) >= last:
                    raise RuntimeError("can't start new thread")
                start(thread)

            with mock.patch.object(threading.Thread, "start", limited):
                self.assertRaisesRegex(RuntimeError, "new thread", troupe.LocalCluster, a=1)
            self.nothing_is_left()
        self.assertEqual(len(self.children), 3)

    def test_no_room_for_files(self):
        with mock.patch("socket.socketpair", side_effect=OSError(24, "Too many open files")):
            self.assertRaisesRegex(OSError, "Too many", troupe.LocalCluster, a=1)
        self.nothing_is_left()

    def test_connections_wait_for_files(self):
        """A connection that cannot be accepted now is accepted later, and is not asked for again and again until then."""
        refusals = []

        class Listener(socket.socket):
            def accept(self):
                if len(refusals) < 3:
                    refusals.append(time.monotonic())
                    raise OSError(24, "Too many open files")
                return super().accept()

        with mock.patch("socket.socket", Listener):
            with troupe.LocalCluster(a=1):
                self.assertEqual(len(refusals), 3)
        self.assertGreater(refusals[2] - refusals[0], 0.1)
        self.nothing_is_left()

    def test_no_room_for_a_call(self):
        ours, theirs = socket.socketpair()
        channel = troupe._channel.Channel()
        self.addCleanup(channel.close)
        with mock.patch.object(channel, "_run", side_effect=RuntimeError("can't start new thread")):
            channel._serve(ours, 0, 0)
        with theirs:
            self.assertEqual(theirs.recv(9), bytes([troupe._functions.REFUSED]))
            self.assertEqual(theirs.recv(9), b"")
        self.assertFalse(channel._calls)

    def test_retry_elsewhere(self):
        """Where ports cannot be reserved, a cluster whose start was retried is as any other, with a table in notebooks."""
        begin, taken = troupe.Task._begin, [troupe.ServerError(2, "the port is taken")]

        def lose_a_port(task):
            if taken:
                raise taken.pop()
            begin(task)

        updates = queue.Queue()
        handle = types.SimpleNamespace(update=updates.put)
        notebook = types.SimpleNamespace(HTML=str, display=lambda *_, **__: handle)
        with mock.patch.dict(sys.modules, {"IPython.display": notebook}):
            with mock.patch.object(troupe.Task, "_begin", lose_a_port):
                cluster = troupe.LocalCluster(a=1)
            with cluster:
                cluster._ipython_display_()
                self.assertIn("<td>running</td>", updates.get(timeout=20))
        self.nothing_is_left()

    def test_interrupted_stop(self):
        cluster = troupe.LocalCluster(a=2)
        calls = []
        stop = troupe._process.Process.stop

        def interrupted(process, grace):
            if not calls:
                calls.append(process)
                raise KeyboardInterrupt
            stop(process, grace)

        with mock.patch.object(troupe._process.Process, "stop", interrupted):
            self.assertRaises(KeyboardInterrupt, cluster.stop)
        self.nothing_is_left()

    def test_stream_that_fails(self):
        """A server goes on whatever happens to the streams of its owner."""

        class Broken:
            def write(self, _):
                raise RuntimeError("the window is gone")

        with mock.patch.object(sys, "stderr", Broken()):
            process = troupe._process.Process(
                'cluster { job { name: "a" tasks { key: 0 value: "127.0.0.1:0" } } } job_name: "a" protocol: "grpc"', echo=True
            )
            try:
                process.wait_target()
            finally:
                process.stop(None)
        self.assertEqual(process.exit_code, 0)
        self.assertIn("msg=stopping", process.log())

    def test_no_status(self):
        expired = subprocess.TimeoutExpired("troupe", 1)
        with mock.patch("subprocess.run", side_effect=expired):
            with self.assertRaisesRegex(troupe.ServerError, "grpc://a:1 has not answered within 1 s"):
                troupe._process.status("grpc://a:1", 1)


PARENT = """
import os, sys, time
import troupe
cluster = troupe.LocalCluster(a=2)
if sys.argv[1] == "fork" and os.fork() == 0:
    sys.stdout.close()
    assert cluster.targets and not troupe._process._running
    print("forked", file=sys.stderr, flush=True)
    time.sleep(60)
    os._exit(0)
print(*cluster.targets.values(), flush=True)
if sys.argv[1] == "exit":
    sys.stdin.readline()
    sys.exit()
time.sleep(60)
"""


class Parents(unittest.TestCase):
    def end(self, how):
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        try:
            targets = parent.stdout.readline().split()
            self.assertEqual(len(targets), 2)
            if how == "fork":
                self.assertEqual(parent.stderr.readline(), "forked\n")
            connections = [connect(target) for target in targets]
            if how == "exit":
                parent.stdin.write("\n")
                parent.stdin.flush()
            else:
                os.kill(parent.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
            for connection in connections:
                wait_end(connection)
                connection.close()
            parent.wait(20)
        finally:
            (
                os.killpg(parent.pid, signal.SIGKILL)
                if how == "fork" or parent.poll() is None
                else None
            )
            for pipe in (parent.stdin, parent.stdout, parent.stderr):
                pipe.close()

    def test_kill(self):
        self.end("kill")

    def test_terminate(self):
        self.end("term")

    def test_exit(self):
        self.end("exit")

    def test_kill_while_a_fork_lives(self):
        self.end("fork")

    def test_left_running(self):
        """A program that leaves a cluster running ends at once, without waiting for each of its tasks."""
        program = "import time, troupe; c = troupe.LocalCluster(a=4); print(time.time())"
        done = run([sys.executable, "-c", program], tempfile.gettempdir(), {})
        took = time.time() - float(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertLess(took, 4)  # an end that is not noticed would take 5 s for each


def run(command, folder, environment):
    """Runs a command in a folder, and returns how it ended and what it said."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
        cwd=folder,
    )


class Command(unittest.TestCase):
    def run_command(self, *command, **environment):
        # In a folder where none is a package of this name.
        return run(command, tempfile.gettempdir(), environment)

    def test_module(self):
        done = self.run_command(sys.executable, "-m", "troupe", "version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "^troupe ")
        done = self.run_command(sys.executable, "-m", "troupe", "no-such-command")
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_no_binary(self):
        done = self.run_command(sys.executable, "-m", "troupe", TROUPE_BINARY="/no/such/file")
        self.assertEqual(done.returncode, 127)
        self.assertIn("TROUPE_BINARY is '/no/such/file'", done.stderr)
        with tempfile.TemporaryDirectory() as folder:
            command = os.path.join(folder, "troupe")
            with open(command, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\n")
            os.chmod(command, 0o755)
            with mock.patch.dict(os.environ, {"PATH": folder, "TROUPE_BINARY": ""}):
                self.assertRaisesRegex(FileNotFoundError, "go install", troupe.find_binary)
            with open(command, "wb") as file:
                file.write(b"\x7fELF")
            with mock.patch.dict(os.environ, {"PATH": folder, "TROUPE_BINARY": ""}):
                self.assertEqual(troupe.find_binary(), command)

    @unittest.skipUnless(os.environ.get("TROUPE_BINARY"), "the wheel's program is TROUPE_BINARY's")
    def test_wheel(self):
        build = os.path.join(
            os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build.py"
        )
        with tempfile.TemporaryDirectory() as folder:
            binary = os.environ["TROUPE_BINARY"]
            done = self.run_command(sys.executable, build, "--binary", binary, "--out", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            wheel = done.stdout.strip()
            # The distribution "troupe" of PyPI is another project's: pip would replace this package by it.
            self.assertRegex(os.path.basename(wheel), r"^troupe_run-\d")
            place = os.path.join(folder, "venv")
            done = self.run_command(sys.executable, "-m", "venv", place)
            self.assertEqual(done.returncode, 0, done.stderr)
            python = os.path.join(place, "bin", "python")
            install = [
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--disable-pip-version-check",
            ]
            done = self.run_command(python, *install, wheel, PYTHONPATH="")
            self.assertEqual(done.returncode, 0, done.stderr)
            bare = {"PYTHONPATH": "", "TROUPE_BINARY": "", "PATH": os.defpath}
            done = self.run_command(os.path.join(place, "bin", "troupe"), "version", **bare)
            self.assertRegex(done.stdout, "^troupe ", done.stderr)
            script = (
                "import troupe; c = troupe.LocalCluster(a=1); print(c.status()['spec']); c.stop()"
            )
            done = self.run_command(python, "-c", script, **bare)
            self.assertRegex(done.stdout, "^a=127.0.0.1:", done.stderr)
            script = (
                "import subprocess, sys, troupe._children; troupe._children.enable(); "
                "child = 'import sys; print(type(sys.meta_path[0]).__name__)'; "
                "subprocess.run([sys.executable, '-c', child], check=True)"
            )
            done = self.run_command(python, "-c", script, **bare)
            self.assertEqual(done.stdout, "TensorFlowFinder\n", done.stderr)


TESTS = """
import pytest

def test_fails(troupe_cluster):
    assert list(troupe_cluster.targets) == ["ps:0"]

@pytest.mark.troupe_cluster(ps=1)
def test_passes(troupe_cluster):
    assert list(troupe_cluster.targets) == ["ps:0"]
"""


@unittest.skipUnless(CI or importlib.util.find_spec("pytest"), "pytest is not installed")
class Pytest(unittest.TestCase):
    def run_tests(self, *options, **environment):
        """Runs TESTS, and checks what the fixture does for them."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_it.py"), "w", encoding="utf-8") as file:
                file.write(TESTS)
            command = [sys.executable, "-m", "pytest", *options]
            command += ["--strict-markers", "-p", "no:cacheprovider", folder]
            done = run(command, folder, environment)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 1, said)
        self.assertIn("1 failed, 1 passed", done.stdout, said)
        for task in ("ps:0", "worker:0", "worker:1"):
            self.assertEqual(done.stdout.count(f"troupe log of {task} "), 1, said)

    def test_named(self):
        self.run_tests("-p", "troupe.pytest_plugin", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")

    @unittest.skipUnless(
        CI or importlib.util.find_spec("setuptools"), "setuptools is not installed"
    )
    def test_installed(self):
        # pip leaves what it has built beside the sources: pytest finds the plugin there, too.
        python = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        with tempfile.TemporaryDirectory() as folder:
            sources, target = os.path.join(folder, "python"), os.path.join(folder, "target")
            ignored = shutil.ignore_patterns("build", "dist", "*.egg-info", "tests")
            shutil.copytree(python, sources, ignore=ignored)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
            command += ["--no-build-isolation", "--disable-pip-version-check"]
            done = subprocess.run(
                command + ["--target", target, sources],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("troupe_run.egg-info", os.listdir(sources))
            for path in sources, target, os.pathsep.join([sources, target]):
                for options in [(), ("-p", "troupe.pytest_plugin")]:
                    with self.subTest(path=path, options=options):
                        self.run_tests(*options, PYTHONPATH=path)


if __name__ == "__main__":
    unittest.main()
