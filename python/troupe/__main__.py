"""The command: ``python -m troupe …`` runs the program ``troupe`` with the same arguments."""

from __future__ import annotations

import os
import subprocess
import sys

from troupe._binary import BinaryNotFoundError, find_binary


def main() -> int:
    """Replaces this process with the program ``troupe``. Returns the exit code 127 if it is not found."""
    try:
        binary = find_binary()
    except BinaryNotFoundError as error:
        print(f"troupe: {error}", file=sys.stderr)
        return 127
    if os.name == "nt":  # there, exec starts a new process and ends this one first
        return subprocess.run([binary, *sys.argv[1:]], check=False).returncode
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(binary, [binary, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
