"""Runs a program that creates TensorFlow's servers on Troupe's, without changing it.

    python -m troupe.run [--v1] program.py [arguments]
    python -m troupe.run [--v1] -m module [arguments]

With --v1, ``import tensorflow`` in the program imports ``tensorflow.compat.v1`` in graph mode, as programs
for TensorFlow 1 expect. Processes that the program starts have the same servers, and the same ``tensorflow``. The
environment variable ``TROUPE_CHILDREN=0`` leaves them alone.
"""

from __future__ import annotations

import importlib
import os
import re
import runpy
import sys
import types
from typing import Any, List, Optional

from troupe import _children


def main(arguments: Optional[List[str]] = None) -> None:
    """Runs the program that the arguments name (default: those of the command line)."""
    rest = list(sys.argv[1:] if arguments is None else arguments)
    v1 = rest[:1] == ["--v1"]
    if v1:
        rest.pop(0)
    module = rest[:1] == ["-m"]
    if module:
        rest.pop(0)
    if rest[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return
    if not rest or rest[0].startswith("-"):
        problem = "a module is missing" if module else "a program is missing"
        if rest:
            problem = f"unknown option {rest[0]}"
        print(__doc__, f"python -m troupe.run: {problem}", sep="\n", file=sys.stderr)
        sys.exit(2)
    if not module:
        try:
            os.stat(rest[0])
        except OSError as error:
            print(f"python -m troupe.run: cannot open {rest[0]}: {error.strerror}", file=sys.stderr)
            sys.exit(2)
    _children.enable("v1" if v1 else "1")
    replacement = importlib.import_module("troupe.tensorflow")
    if v1:
        replacement.version1()
    sys.argv = rest
    try:
        if module:
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
            runpy.run_path(rest[0], run_name="__main__")
    except AttributeError as error:
        if not v1 and _lacks_version1(error):
            _note(error, "A program for TensorFlow 1 needs: python -m troupe.run --v1 …")
        raise


def _lacks_version1(error: AttributeError) -> bool:
    """Reports whether TensorFlow 2 lacks a name that ``import tensorflow`` has with ``--v1``."""
    module = getattr(error, "obj", None)
    name = getattr(error, "name", None)
    if not isinstance(module, types.ModuleType) or not isinstance(name, str):
        return False
    path = re.fullmatch(r"tensorflow(?:\._api\.v2)?(?:\.(.+))?", module.__name__)
    if path is None:
        return False
    version1: Any = importlib.import_module("tensorflow.compat.v1")
    for part in (path.group(1) or "").split("."):
        version1 = getattr(version1, part, None) if part else version1
    return hasattr(version1, name)


def _note(error: Exception, text: str) -> None:
    """Adds a line to an exception's traceback."""
    if hasattr(error, "add_note"):  # Python 3.11 and later
        error.add_note(text)
    else:
        print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
