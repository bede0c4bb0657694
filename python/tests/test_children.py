"""Processes that a program starts get its servers, whatever starts them. Most tests have a stand-in for TensorFlow, which
is imported at once."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

from troupe import _children

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

STAND_IN = {
    "tensorflow/__init__.py": """
        from tensorflow import distribute, train
        import tensorflow.compat.v1
        NAME = "v2"
    """,
    "tensorflow/server_lib.py": "class Server: pass",
    "tensorflow/distribute.py": "from tensorflow.server_lib import Server",
    "tensorflow/train.py": "from tensorflow.server_lib import Server",
    "tensorflow/compat/__init__.py": "",
    "tensorflow/compat/v1/__init__.py": """
        from tensorflow import distribute, train
        def disable_v2_behavior():
            global NAME
            NAME = "v1"
    """,
}

# The program's arguments are ways of starting a process. It prints what TensorFlow and which server each such process
# has. WAYS has all ways.
PROGRAM = """
import asyncio, concurrent.futures, functools, json, multiprocessing, os, subprocess, sys

def report(*ignored):
    import tensorflow as tf
    return tf.NAME + " " + tf.distribute.Server.__module__

def send(pipe):
    pipe.send(report())

CHILD = [sys.executable, os.path.abspath(__file__), "child"]
WAYS = {}

def way(function, *arguments, name=""):
    WAYS[name or function.__name__] = functools.partial(function, *arguments)
    return function

def process(method):
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    child = context.Process(target=send, args=(theirs,))
    child.start()
    theirs.close()
    said = ours.recv()
    child.join()
    return said

def pool(method):
    with multiprocessing.get_context(method).Pool(1) as pool:
        return pool.map(report, [0])[0]

def executor(method):
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(report).result()

def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, universal_newlines=True, **options)
    return done.stdout.strip()

for method in multiprocessing.get_all_start_methods():
    for start in process, pool, executor:
        way(start, method, name=start.__name__ + " " + method)
way(run, *CHILD, name="subprocess")
way(run, sys.executable, "-c", "import program; print(program.report())", name="subprocess -c")
way(run, sys.executable, "-m", "program", "child", name="subprocess -m")
way(run, sys.executable, "-B", "-u", *CHILD[1:], name="subprocess with options")
way(run, "sh", "-c", 'exec "$@"', "sh", *CHILD, name="sh")

@way
def environment_and_more():
    return run(*CHILD, env=dict(os.environ, RANK="1"))

@way
def path_and_more():
    path = os.pathsep.join(["/no/such/folder", os.environ.get("PYTHONPATH", "")])
    return run(*CHILD, env=dict(os.environ, PYTHONPATH=path))

@way
def launcher():
    # It does not import TensorFlow. It starts a process for each task, as torchrun does.
    return run(sys.executable, "launcher.py")

@way
def run_again():
    return run(sys.executable, "-m", "troupe.run", *CHILD[1:])

@way
def asynchronous():
    async def start():
        child = await asyncio.create_subprocess_exec(*CHILD, stdout=subprocess.PIPE)
        return (await child.communicate())[0].decode().strip()
    return asyncio.run(start())

def read(start):
    reader, writer = os.pipe()
    pid = start(writer)
    os.close(writer)
    with open(reader) as file:
        said = file.read().strip()
    os.waitpid(pid, 0)
    return said

if hasattr(os, "fork"):
    @way
    def execv():
        def start(writer):
            pid = os.fork()
            if pid == 0:
                os.dup2(writer, 1)
                os.execv(CHILD[0], CHILD)
            return pid
        return read(start)

SPAWNV = "import os, sys; os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])"
way(run, sys.executable, "-c", SPAWNV, *CHILD, name="spawnv")

if hasattr(os, "posix_spawn"):
    @way
    def posix_spawn():
        return read(lambda writer: os.posix_spawn(
            CHILD[0], CHILD, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)]))

if __name__ == "__main__":
    if sys.argv[1:] == ["child"]:
        print(report())
    else:
        if os.environ.get("IMPORT") == "1":
            import troupe.tensorflow
        print(json.dumps({name: WAYS[name]() for name in sys.argv[1:] or WAYS}))
"""

LAUNCHER = """
import os, subprocess, sys
said = {subprocess.check_output([sys.executable, "program.py", "child"], env=dict(os.environ, RANK=str(rank)))
        for rank in range(2)}
print(*(line.decode().strip() for line in said))
"""


class Folder(unittest.TestCase):
    """A folder with the stand-in and the program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        for name, text in STAND_IN.items():
            self.write(os.path.join("stand-in", name), text)
        self.write("program.py", PROGRAM)
        self.write("launcher.py", LAUNCHER)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in (_children.VARIABLE, "PYTHONPATH")
        }
        self.environment["PYTHONWARNINGS"] = "ignore::DeprecationWarning"  # forks of processes with threads
        self.paths = [ROOT, os.path.join(self.folder, "stand-in")]

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def run_python(self, *arguments, python=sys.executable, paths=None, **environment):
        paths = self.paths if paths is None else paths
        done = subprocess.run(
            [python, *arguments],
            env={**self.environment, "PYTHONPATH": os.pathsep.join(paths), **environment},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def run_child(self, *arguments, **options):
        """Runs Python as a program under Troupe starts it."""
        paths = [_children.FOLDER, *options.pop("paths", self.paths)]
        return self.run_python(*arguments, paths=paths, **{_children.VARIABLE: "1", **options})


class Ways(Folder):
    FEW = ["process fork", "process spawn", "process forkserver", "subprocess", "subprocess -c", "run_again"]

    def reports(self, *command, ways=(), **environment):
        done = self.run_python(*command, *ways, **environment)
        self.assertEqual(done.stderr, "")
        found = json.loads(done.stdout)
        for wanted in ways or ("process spawn", "executor spawn", "subprocess", "subprocess -c", "launcher"):
            self.assertIn(wanted, found)
        return found

    def few(self):
        """The ways of a short test, of those that this system has. TROUPE_TESTS=check is for all."""
        if os.environ.get("TROUPE_TESTS") == "check":
            return []
        methods = multiprocessing.get_all_start_methods()
        return [way for way in self.FEW if not way.startswith("process ") or way.split()[1] in methods]

    def check(self, found, want):
        for name, said in found.items():
            with self.subTest(name):
                self.assertEqual(said, want)

    def test_run(self):
        self.check(self.reports("-m", "troupe.run", "program.py"), "v2 troupe._server")

    def test_run_module(self):
        self.check(self.reports("-m", "troupe.run", "-m", "program", ways=self.few()), "v2 troupe._server")

    def test_run_v1(self):
        found = self.reports("-m", "troupe.run", "--v1", "program.py", ways=self.few())
        self.assertEqual(found.pop("run_again"), "v2 troupe._server")  # it is not told --v1
        self.check(found, "v1 troupe._server")

    def test_import(self):
        self.check(self.reports("program.py", ways=self.few(), IMPORT="1"), "v2 troupe._server")

    def test_off(self):
        found = self.reports("-m", "troupe.run", "program.py", ways=self.few(), TROUPE_CHILDREN="0")
        for name in list(found):
            if name.endswith(" fork") or name == "run_again":
                self.assertEqual(found.pop(name), "v2 troupe._server", name)
        self.check(found, "v2 tensorflow.server_lib")

    def test_processes_that_do_not_read_the_path(self):
        """multiprocessing passes Python's options on, and a program may set another path."""
        start = """if True:
            import os, sys
            sys.path[:0] = ["", *sys.argv[1].split(os.pathsep)]
            import troupe.run
            troupe.run.main(["other_path.py", *sys.argv[2:]])
        """
        self.write("other_path.py", "import os; os.environ['PYTHONPATH'] = '/a'\n" + PROGRAM)
        methods = [method for method in multiprocessing.get_all_start_methods() if method != "fork"]
        ways = ["process " + method for method in methods]
        for option in "-I", "-E", "-S", "-B":
            with self.subTest(option):
                paths = os.pathsep.join(self.paths)
                done = self.run_python(option, "-c", start, paths, *ways, paths=[])
                self.assertEqual(done.stderr, "")
                self.check(json.loads(done.stdout), "v2 troupe._server")


class Hook(Folder):
    """The sitecustomize in a process of its own."""

    REPORT = "import program; print(program.report())"

    def test_nothing_is_imported(self):
        """What does not use TensorFlow pays nothing."""
        script = "import json, sys; print(json.dumps([sorted(sys.modules), sys.path]))"
        modules, path = json.loads(self.run_python("-c", script).stdout)
        for value in "1", "0", "":
            with self.subTest(value):
                found, paths = json.loads(self.run_child("-c", script, TROUPE_CHILDREN=value).stdout)
                self.assertEqual(set(found) - {"sitecustomize"}, set(modules) - {"sitecustomize"})
                self.assertEqual(paths, path)

    def test_import_system(self):
        script = (
            "import sys, tensorflow; s = tensorflow.__spec__; "
            "print(tensorflow.__loader__ is s.loader, type(s.loader).__name__, "
            "*(getattr(f, '__name__', type(f).__name__) for f in sys.meta_path))"
        )
        want = self.run_python("-c", script).stdout
        self.assertEqual(self.run_child("-c", script).stdout, want)

    def test_forms_of_import(self):
        for form in (
            "import tensorflow.compat.v1 as tf; Server = tf.train.Server",
            "from tensorflow.distribute import Server",
            "from tensorflow.train import Server",
            "import importlib; Server = importlib.import_module('tensorflow.distribute').Server",
            "from troupe import Server",
            "import troupe.tensorflow; from tensorflow.server_lib import Server",
        ):
            with self.subTest(form):
                done = self.run_child("-c", form + "; print(Server.__module__)")
                self.assertEqual((done.stdout, done.stderr), ("troupe._server\n", ""))

    def test_tensorflow_that_fails(self):
        self.write("broken/tensorflow/__init__.py", "raise ModuleNotFoundError(name='ours')")
        script = """if True:
            for again in 1, 2:
                try:
                    import tensorflow
                except ModuleNotFoundError as error:
                    print(error.name)
        """
        done = self.run_child("-c", script, paths=[os.path.join(self.folder, "broken")])
        self.assertEqual((done.stdout, done.stderr), ("ours\n" * 2, ""))

    def test_other_sitecustomize(self):
        """One that is hidden runs, once, and is the module of that name."""
        self.write("own/sitecustomize.py", "print('own', __name__)")
        script = "import sys; print(sys.modules['sitecustomize'].__file__); " + self.REPORT
        own = os.path.join(self.folder, "own")
        for value in "1", "0":
            with self.subTest(value):
                done = self.run_child("-c", script, paths=[own, *self.paths], TROUPE_CHILDREN=value)
                server = "troupe._server" if value == "1" else "tensorflow.server_lib"
                want = ["own sitecustomize", os.path.join(own, "sitecustomize.py"), "v2 " + server]
                self.assertEqual(done.stdout.splitlines(), want)

    def test_sitecustomize_that_fails(self):
        for line in "import no_such_module", "1 / 0", "raise ImportError('no')":
            with self.subTest(line):
                self.write("own/sitecustomize.py", line)
                paths = [os.path.join(self.folder, "own"), *self.paths]
                want = self.run_python("-c", "", paths=paths).stderr
                done = self.run_child("-c", self.REPORT, paths=paths)
                self.assertEqual(done.stderr, want)
                self.assertEqual(done.stdout, "v2 troupe._server\n")

    def test_sitecustomize_that_imports_tensorflow(self):
        self.write("own/sitecustomize.py", "import tensorflow")
        paths = [os.path.join(self.folder, "own"), *self.paths]
        done = self.run_child("-c", self.REPORT, paths=paths)
        self.assertEqual((done.stdout, done.stderr), ("v2 troupe._server\n", ""))

    def test_environment_without_the_package(self):
        """Another virtual environment, which lacks the package, has another one of the name, or one that is broken."""
        place = os.path.join(self.folder, "venv")
        self.run_python("-m", "venv", "--without-pip", place, paths=[])
        python = os.path.join(place, "Scripts" if os.name == "nt" else "bin", "python")
        self.write("other/troupe/__init__.py", "NAME = 'of somebody else'")
        stand_in = self.paths[1]
        for name, paths in (
            ("lacks it", [stand_in]),
            ("has another", [os.path.join(self.folder, "other"), stand_in]),
        ):
            with self.subTest(name):
                done = self.run_child("-c", self.REPORT, python=python, paths=paths)
                self.assertEqual((done.stdout, done.stderr), ("v2 troupe._server\n", ""))

    def test_what_cannot_work_is_said(self):
        other = "import sys, types; sys.modules['troupe'] = types.ModuleType('troupe'); "
        old = "import sys; sys.version_info = (3, 8, 1); "
        for name, script, reason in (
            ("another package is imported", other, "ModuleNotFoundError: No module named 'troupe.tensorflow'"),
            ("old Python", old, r"Python 3\.8 is older than 3\.9"),
            ("old Python", old + "import tensorflow; del sys.modules['tensorflow']; ", r"Python 3\.8"),
        ):
            with self.subTest(name):
                done = self.run_child("-c", script + self.REPORT)
                self.assertEqual(done.stdout, "v2 tensorflow.server_lib\n")
                start = r"^troupe: process \d+ of .*python.* uses TensorFlow's own servers, unlike the program that "
                self.assertRegex(done.stderr, start + "started it: " + reason)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_oldest_python(self):
        with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as project:
            self.assertIn('requires-python = ">=3.9"', project.read())
        with open(_children.HOOK, encoding="utf-8") as hook:
            self.assertIn("OLDEST = (3, 9)", hook.read())


class Parent(Folder):
    """What the program's own process does."""

    def test_environment(self):
        script = """if True:
            import os, sys
            import troupe.tensorflow
            print(os.environ["TROUPE_CHILDREN"], os.environ["PYTHONPATH"])
            troupe.tensorflow.install()
            troupe.tensorflow.uninstall()
            print(os.environ.get("TROUPE_CHILDREN"), os.environ.get("PYTHONPATH"))
        """
        path = os.pathsep.join(self.paths)
        done = self.run_python("-c", script)
        want = [f"1 {os.pathsep.join([_children.FOLDER, path])}", f"None {path}"]
        self.assertEqual(done.stdout.splitlines(), want)
        done = self.run_python("-c", script.replace("import os, sys", "import os, sys; del os.environ['PYTHONPATH']"))
        self.assertEqual(done.stdout.splitlines(), [f"1 {_children.FOLDER}", "None None"])

    def test_value(self):
        script = "import troupe._children as c\ntry: c.enable()\nexcept ValueError as e: print(e)"
        done = self.run_python("-c", script, TROUPE_CHILDREN="yes")
        self.assertEqual(done.stdout, "TROUPE_CHILDREN is 'yes'; it may be 0, 1 or v1\n")

    def test_obstacles(self):
        python, inherited = sys.executable, {"TROUPE_CHILDREN": "1", "PYTHONPATH": _children.FOLDER}
        more = {**inherited, "PYTHONPATH": os.pathsep.join(["/a", _children.FOLDER, "/b"])}
        other = {**inherited, "PYTHONPATH": "/a"}
        in_bytes = {os.fsencode(name): os.fsencode(value) for name, value in inherited.items()}
        for path, arguments, environment, reason in (
            (python, "x.py", inherited, ""),
            (python, "x.py", more, ""),
            (python, "x.py", in_bytes, ""),
            (python, "-u -B -s -P x.py -I", inherited, ""),
            (python, "-c -I -S", inherited, ""),
            (python, "-W ignore -X dev -m x -E", inherited, ""),
            (python, "-Wignore -Xdev -m x -E", inherited, ""),
            (python, "- -E", inherited, ""),
            (python, "-I x.py", inherited, "option -I"),
            (python, "-uE x.py", inherited, "option -E"),
            (python, "-S -c x", inherited, "option -S"),
            (python, "-Sc x", inherited, "option -S"),
            (python, "-I -m troupe.run x.py", {}, ""),
            (python, "-Imtroupe.run x.py", {}, ""),
            (python, "x.py", {}, "lacks TROUPE_CHILDREN"),
            (python, "x.py", {**inherited, "TROUPE_CHILDREN": "yes"}, "TROUPE_CHILDREN is 'yes', not 1"),
            (python, "x.py", {**inherited, "TROUPE_CHILDREN": "v1"}, ""),
            (python, "x.py", other, "PYTHONPATH lacks " + _children.FOLDER),
            (python, "x.py", {**other, "TROUPE_CHILDREN": "0"}, ""),
            (python, "-I x.py", {"TROUPE_CHILDREN": "0"}, ""),
            ("/venv/bin/python", "x.py", {}, "lacks TROUPE_CHILDREN"),
            ("/venv/bin/python3.13t", "x.py", {}, "lacks TROUPE_CHILDREN"),
            ("python3", "x.py", {}, "lacks TROUPE_CHILDREN"),
            ("pypy3.11", "x.py", {}, "lacks TROUPE_CHILDREN"),
            ("/bin/sh", "-c x", {}, ""),
            ("/bin/pythonic", "x.py", {}, ""),
        ):
            with self.subTest(path=path, arguments=arguments, environment=environment):
                found = _children.obstacle(path, [path, *arguments.split()], environment)
                (self.assertIn if reason else self.assertEqual)(reason, found)

    def test_what_is_said(self):
        """Each reason once, whatever starts the process; and nothing after uninstall."""
        self.write("task.py", "")
        self.write(
            "starts.py",
            """
            import os, subprocess, sys
            import troupe.tensorflow
            def start():
                command = [sys.executable, "-I", "task.py", "--token=secret"]
                subprocess.run(command, check=True)
                subprocess.run(command, check=True, env={})
                os.waitpid(os.posix_spawn(command[0], command, os.environ), 0)
                os.waitpid(os.posix_spawn(command[0], [os.fsencode(command[0]), "-c", "'secret'"], {}), 0)
                os.spawnle(os.P_WAIT, command[0], command[0], "-m", "task", "secret", {"TROUPE_CHILDREN": "1"})
                subprocess.run(["true"], env={}, check=True)
                subprocess.run(command[:1] + command[2:], env=os.environb, check=True)
                for wrong in [sys.executable, 3], [], 3:
                    try:
                        subprocess.run(wrong, env={})
                    except (TypeError, IndexError):
                        pass
                    else:
                        print(wrong, "was started")
            start()
            troupe.tensorflow.uninstall()
            start()
            """,
        )
        done = self.run_python("starts.py")
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 3, done.stderr)
        for line, (command, reason) in zip(
            lines,
            (
                ("python.* -I task.py", "with the option -I, Python does not import sitecustomize from PYTHONPATH"),
                ("python.* -c", r"its environment lacks TROUPE_CHILDREN \(TROUPE_CHILDREN=0 says that it is meant\)"),
                ("python.* -m task", "its environment's PYTHONPATH lacks .*_children"),
            ),
        ):
            self.assertRegex(line, f"^troupe: if .*{command} creates servers, they are TensorFlow's own: {reason}$")


TRAINING = """
import multiprocessing
import socket
import subprocess
import sys

import tensorflow as tf

v1 = tf.compat.v1

def serve(cluster, ready):
    server = tf.distribute.Server(cluster, "ps", 0)
    ready.send(type(server).__module__)
    ready.recv()  # until the program is done

if __name__ == "__main__":
    free = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ps, worker = ("127.0.0.1:%d" % s.getsockname()[1] for s in free)
    for s in free:
        s.close()
    cluster = {"ps": [ps], "worker": [worker]}
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(cluster, theirs), daemon=True).start()
    other = subprocess.Popen(
        [sys.executable, "-c", "import tensorflow as tf; print(tf.distribute.Server.__module__)"],
        stdout=subprocess.PIPE, text=True)
    server = tf.distribute.Server(cluster, "worker", 0)
    print(type(server).__module__, ours.recv(), other.communicate()[0].strip())
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            x = v1.get_variable("x", initializer=1.0, use_resource=True)
        with v1.Session(server.target) as session:
            session.run(x.initializer)
            print(session.run(x.assign_add(41.0)))
    ours.send("done")
"""


class TensorFlow(Folder):
    def test_training(self):
        """A program starts its parameter server with multiprocessing's spawn."""
        path = self.write("training.py", TRAINING)
        environment = {"TF_CPP_MIN_LOG_LEVEL": "3"}
        done = self.run_python("-m", "troupe.run", path, paths=[ROOT], **environment)
        self.assertEqual(done.stdout.splitlines(), ["troupe._server " * 2 + "troupe._server", "42.0"], done.stderr)


if __name__ == "__main__":
    unittest.main()
