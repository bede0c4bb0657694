"""Replaces TensorFlow's servers with Troupe's.

``import troupe.tensorflow`` is enough: from then on, ``tf.distribute.Server``, ``tf.train.Server`` of
TensorFlow 1 and ``tf.compat.v1.train.Server`` are `troupe.Server`. Names that a program has already imported,
as with ``from tensorflow.distribute import Server``, are not replaced: import this module first.

Processes that the program starts have the same servers. The environment variable ``TROUPE_CHILDREN=0`` turns this off.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, List

from troupe import _children, _functions
from troupe._server import Server

_replaced: List[Any] = []  # the modules whose Server was replaced
_original: Any = None


def install() -> None:
    """Replaces TensorFlow's servers, also in processes that are started from now on. It may be called again, and after
    `uninstall`."""
    global _original
    v1 = importlib.import_module("tensorflow.compat.v1")
    if _original is None:
        _original = v1.train.Server
    for name in ("train", "distribute"):
        _replace(getattr(v1, name))
    # The same class under its other names: tf.distribute, tf.compat.v2.distribute, server_lib.
    for name, module in list(sys.modules.items()):
        if name.startswith("tensorflow."):
            _replace(module)
    _functions.number_apart()
    _children.enable()


def _replace(module: Any) -> None:
    if vars(module).get("Server") is _original:
        module.Server = Server
        _replaced.append(module)


def uninstall() -> None:
    """Restores the original classes, also in processes that are started from now on."""
    while _replaced:
        _replaced.pop().Server = _original
    _children.disable()


def inherit() -> None:
    """Gives this process what `_children` gives to those that it is started by: called when TensorFlow is imported."""
    install()
    if os.environ.get(_children.VARIABLE) == "v1":
        version1()


def version1() -> None:
    """Makes ``import tensorflow`` import TensorFlow 1's interface, in graph mode."""
    tf = importlib.import_module("tensorflow.compat.v1")
    tf.disable_v2_behavior()
    sys.modules["tensorflow"] = tf


install()
