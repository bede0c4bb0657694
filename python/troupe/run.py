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
import runpy
import sys
from typing import List, Optional

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
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    _children.enable("v1" if v1 else "1")
    replacement = importlib.import_module("troupe.tensorflow")
    if v1:
        replacement.version1()
    sys.argv = rest
    if module:
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")


if __name__ == "__main__":
    main()
