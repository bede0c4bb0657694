"""Gives the processes that this one starts the same servers.

Forks have them anyway. Other processes inherit two variables of the environment: ``PYTHONPATH``, where a folder with a
``sitecustomize`` comes first, which Python imports when it starts, and ``TROUPE_CHILDREN``, which says what it does:

- ``1``: TensorFlow's servers are replaced when the process imports TensorFlow.
- ``v1``: the same, and ``import tensorflow`` imports TensorFlow 1's interface.
- ``0``: nothing. A program whose environment has this leaves its children alone.
"""

from __future__ import annotations

import multiprocessing.spawn
import os
import re
import runpy
import shlex
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple

VARIABLE = "TROUPE_CHILDREN"
FOLDER = os.path.dirname(os.path.abspath(__file__))
HOOK = os.path.join(FOLDER, "sitecustomize.py")

_enabled = False
_watching = False
_said: Set[str] = set()


def enable(kind: Optional[str] = None) -> None:
    """Gives processes that this one starts the servers that it has.

    Args:
        kind: ``1`` or ``v1``. The default is what the environment says, or ``1``.

    Raises:
        ValueError: ``TROUPE_CHILDREN`` is something else.
    """
    global _enabled, _watching
    given = os.environ.get(VARIABLE, "")
    if given not in ("", "0", "1", "v1"):
        raise ValueError(f"{VARIABLE} is {given!r}; it may be 0, 1 or v1")
    if given == "0":
        return
    os.environ[VARIABLE] = kind or given or "1"
    paths = _paths(os.environ)
    if FOLDER not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([FOLDER, *paths])
    if os.pathsep in FOLDER:
        _say(f"PYTHONPATH cannot contain the folder {FOLDER}, because of the {os.pathsep!r} in its name")
    _enabled = True
    if not _watching:
        _watching = True
        sys.addaudithook(_watch)
        _prepare_multiprocessing()


def disable() -> None:
    """Undoes `enable` for processes that are started from now on."""
    global _enabled
    if not _enabled:
        return
    _enabled = False
    os.environ.pop(VARIABLE, None)
    paths = [path for path in _paths(os.environ) if path != FOLDER]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)


def _paths(environment: Mapping[Any, Any]) -> List[str]:
    value = _variable(environment, "PYTHONPATH")
    return value.split(os.pathsep) if value else []


def _variable(environment: Mapping[Any, Any], name: str) -> str:
    """Returns a variable of an environment, whose names and values may be bytes."""
    for key in (name, os.fsencode(name)):
        try:
            value = environment.get(key)
        except TypeError:
            continue  # os.environ takes no bytes, and os.environb nothing else
        if value is not None:
            return os.fsdecode(value)
    return ""


class _Preparation:
    """Part of what multiprocessing sends to a process that it has started: unpickling it there runs the hook."""

    def __reduce__(self) -> Tuple[Any, Tuple[str]]:
        return runpy.run_path, (HOOK,)


def _prepare_multiprocessing() -> None:
    """Makes processes of multiprocessing that will not read the folder in PYTHONPATH get the hook with the data that
    prepare them: Python passes its options on to them, and a program may have set another PYTHONPATH."""
    prepare = multiprocessing.spawn.get_preparation_data

    def prepare_with_hook(name: str) -> Dict[str, Any]:
        data: Dict[str, Any] = prepare(name)
        ignored = sys.flags.ignore_environment or sys.flags.no_site or FOLDER not in _paths(os.environ)
        return {**data, "troupe": _Preparation()} if _enabled and ignored else data

    multiprocessing.spawn.get_preparation_data = prepare_with_hook


def _watch(event: str, arguments: Tuple[Any, ...]) -> None:
    """Says on standard error which processes will not have the servers, when they are started."""
    if event == "subprocess.Popen":
        path, command, _, environment = arguments
    elif event in ("os.exec", "os.posix_spawn"):
        path, command, environment = arguments
    else:
        return
    if not _enabled or not isinstance(command, (list, tuple)):
        return
    if environment is None:
        environment = os.environ
    if not isinstance(environment, Mapping):
        return
    try:
        words = [os.fsdecode(word) for word in command]
        reason = obstacle(os.fsdecode(path), words, environment)
    except TypeError:
        return  # the call that starts the process raises it
    if reason:
        line = " ".join(map(shlex.quote, words[: _options(words)[2]]))
        _say(f"if {line} creates servers, they are TensorFlow's own: {reason}", reason)


def obstacle(path: str, command: Sequence[str], environment: Mapping[Any, Any]) -> str:
    """Returns why a process would not have this one's servers, or "" if it is no Python, or will have them.

    Args:
        path: the program.
        command: its name and arguments.
        environment: its environment.
    """
    if path != sys.executable and not re.fullmatch(
        r"(python|pypy)[\d.]*[a-z]?(\.exe)?", os.path.basename(path)
    ):
        return ""
    letters, module, _ = _options(command)
    kind = _variable(environment, VARIABLE)
    if kind == "0" or module == "troupe.run":
        return ""
    for letter in "IES":
        if letter in letters:
            return f"with the option -{letter}, Python does not import sitecustomize from PYTHONPATH"
    if not kind:
        return f"its environment lacks {VARIABLE} ({VARIABLE}=0 says that it is meant)"
    if kind not in ("1", "v1"):
        return f"its environment's {VARIABLE} is {kind!r}, not 1, v1 or 0"
    if FOLDER not in _paths(environment):
        return f"its environment's PYTHONPATH lacks {FOLDER}"
    return ""


def _options(command: Sequence[str]) -> Tuple[str, str, int]:
    """Returns the letters of Python's own options in a command, the module that it runs, if any, and the number of words
    before the arguments of the script or module, which may be secret, or before the text of ``-c``."""
    letters = ""
    at = 1
    while at < len(command) and re.match("-.", command[at]):
        word = command[at]
        at += 1
        if word.startswith("--"):
            continue
        option = re.search("[cmWX]", word)
        letters += word[1 : option.end() if option else None]
        if option is None:
            continue
        if option.group() == "c":
            return letters, "", at
        value = word[option.end() :]
        if not value:
            value = command[at] if at < len(command) else ""
            at += 1
        if option.group() == "m":
            return letters, value, at
    return letters, "", at + 1


def _say(text: str, once: str = "") -> None:
    if (once or text) in _said or sys.stderr is None:
        return
    _said.add(once or text)
    try:
        print(f"troupe: {text}", file=sys.stderr)
    except (OSError, ValueError):
        pass  # this process has no such stream, or it was closed
