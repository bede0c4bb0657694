"""Finds the program troupe."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from typing import Optional

NAME = "troupe.exe" if os.name == "nt" else "troupe"


class BinaryNotFoundError(FileNotFoundError):
    """The program ``troupe`` is not installed; the message says where the search looked."""


def find_binary() -> str:
    """Returns the path of the program ``troupe``.

    The first of these is used:

    1. the one inside the package, as in wheels,
    2. the one that the environment variable ``TROUPE_BINARY`` names,
    3. the first one in ``PATH`` that is not this package's own command.

    Raises:
        BinaryNotFoundError: there is none, or ``TROUPE_BINARY`` does not name an executable file.
    """
    inside = Path(__file__).parent / "bin" / NAME
    if inside.is_file():
        return str(inside)
    named = os.environ.get("TROUPE_BINARY")
    if named:
        path = shutil.which(named)
        if path is None:
            raise BinaryNotFoundError(
                f"TROUPE_BINARY is {named!r}, which is not an executable file"
            )
        return os.path.abspath(path)
    for folder in os.get_exec_path():
        path = shutil.which(NAME, path=folder) if folder else None
        if path is not None and not _is_command(path):
            return os.path.abspath(path)
    raise BinaryNotFoundError(
        f"the program troupe is neither in {inside.parent} nor in PATH: install a wheel that contains "
        "it, or run `go install ./cmd/troupe` in Troupe's sources, or set TROUPE_BINARY to its path"
    )


def _is_command(path: str) -> bool:
    """Reports whether the file is the command that pip installs for this package, which would start
    itself."""
    if os.name == "nt":
        scripts: Optional[str] = sysconfig.get_path("scripts")
        return scripts is not None and os.path.samefile(os.path.dirname(path), scripts)
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
