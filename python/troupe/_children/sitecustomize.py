"""Gives a process the servers that the program which started it has.

Python imports this module when it starts, since `troupe._children.enable` has put its folder in PYTHONPATH. Nothing more
is imported until the process imports TensorFlow. The module runs in each Python that inherits the environment, so it is
written for all versions from 2.7 on, and imports the ``sitecustomize`` that it has hidden.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
OLDEST = (3, 9)  # requires-python of pyproject.toml


class TensorFlowFinder(object):
    """Finds TensorFlow as the finders after it do, so that its servers are replaced when it has been imported."""

    def __init__(self):
        self.module = sys.modules.get(__name__)  # Python 2 clears modules that nothing refers to

    def find_spec(self, name, path=None, target=None):
        if name != "tensorflow" or not enabled():
            return None
        if sys.version_info < OLDEST:
            say_too_old()
            return None
        spec = find_next(self, name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = Loader(spec.loader, self)
        return spec

    def find_module(self, name, path=None):
        """Python 2 calls this one."""
        if name == "tensorflow" and enabled():
            say_too_old()


class FolderFinder(object):
    """Finds one module in the given folders."""

    def __init__(self, name, folders):
        self.name = name
        self.folders = folders

    def find_spec(self, name, path=None, target=None):
        return find_next(self, name, self.folders, target) if name == self.name else None


def find_next(finder, name, path, target):
    """Returns what the finders after this one find."""
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:
        spec = other.find_spec(name, path, target) if hasattr(other, "find_spec") else None
        if spec is not None:
            return spec
    return None


class Loader(object):
    """Loads TensorFlow with its own loader."""

    def __init__(self, loader, finder):
        self.loader = loader
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        replace()


def enabled():
    return os.environ.get("TROUPE_CHILDREN") in ("1", "v1")


def replace():
    """Replaces the servers of TensorFlow, which has been imported."""
    try:
        if "troupe" not in sys.modules:
            # That of this file: this interpreter's environment may lack the package, or have another one of its name.
            import_from([os.path.dirname(os.path.dirname(FOLDER))], "troupe")
        __import__("troupe.tensorflow")
        sys.modules["troupe.tensorflow"].inherit()
    except Exception as error:
        say("%s: %s" % (type(error).__name__, error))


def import_from(folders, name):
    """Imports a module that these folders contain."""
    finder = FolderFinder(name, folders)
    sys.meta_path.insert(0, finder)
    try:
        __import__(name)
    finally:
        sys.meta_path.remove(finder)


def say_too_old():
    if not said:
        said.append(True)
        say("Python %d.%d is older than %d.%d" % (sys.version_info[:2] + OLDEST))


said = []


def say(reason):
    line = "troupe: process %d of %s uses TensorFlow's own servers, unlike the program that started it: %s\n"
    if sys.stderr is not None:
        sys.stderr.write(line % (os.getpid(), sys.executable, reason))


def start():
    """Hooks the import of TensorFlow. The folder leaves the process's path, but stays in the environment."""
    index = next((i for i, path in enumerate(sys.path) if os.path.abspath(path) == FOLDER), len(sys.path))
    hidden = sys.path[index + 1 :]
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != FOLDER]
    hooked = any(type(finder).__name__ == "TensorFlowFinder" for finder in sys.meta_path)
    if enabled() and "tensorflow" in sys.modules:
        replace()
    elif enabled() and not hooked:
        sys.meta_path.insert(0, TensorFlowFinder())
    if __name__ == "sitecustomize":
        import_hidden(hidden)


def import_hidden(folders):
    """Imports the sitecustomize that this one has hidden, if there is one, in its place."""
    own = sys.modules.pop("sitecustomize")
    try:
        if sys.version_info < (3,):
            import imp

            imp.load_module("sitecustomize", *imp.find_module("sitecustomize", folders))
        else:
            import_from(folders, "sitecustomize")
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


start()
