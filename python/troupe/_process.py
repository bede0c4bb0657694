"""Runs one task of a cluster as a child process, without TensorFlow.

The protocol is in ``troupe serve --help``: the child sends ``TARGET grpc://…`` or ``ERROR code message``,
stops when it reads the line ``stop``, and ends at once when this process ends, however it ends, since that
closes their connection. It also calls functions of this process: see `_channel`.
"""

from __future__ import annotations

import atexit
import collections
import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import IO, Any, Dict, List, Optional, Sequence, Union

from troupe import _functions
from troupe._binary import find_binary
from troupe._channel import Channel

START_TIMEOUT = 60.0
"""Seconds within which a child must report whether it has bound its port."""

STOP_TIMEOUT = 15.0
"""Seconds within which a child must end after the grace period of its running steps: it may hand over resources."""

LOG_LINES = 10_000
"""How many lines at the end of a server's log are kept."""

_LOG_SIZE = 16 << 20  # characters of a log that are kept
_LONGEST_LINE = 1 << 16  # bytes; a longer line is kept as several

_UNKNOWN = 2  # TensorFlow's code


class ServerError(RuntimeError):
    """A server did not start or has failed.

    Attributes:
        code: TensorFlow's error code, an int such as 3 for INVALID_ARGUMENT.
        message: the text, without the code.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def durable_flags(
    data: Optional[str],
    durable: Union[str, Sequence[str], None],
    data_limit: Union[int, str, None],
) -> List[str]:
    """Returns the flags for containers that outlive their processes."""
    flags = [] if data is None else [f"--data={data}"]
    if data_limit is not None:
        flags.append(f"--data-limit={data_limit}")
    if durable is not None:
        patterns = [durable] if isinstance(durable, str) else durable
        flags.append("--durable=" + ",".join(patterns))
    return flags


def flag_list(flags: Sequence[str]) -> List[str]:
    """Returns the flags that a program gives as a list of their own.

    Raises:
        TypeError: they are a string, whose letters would be the flags.
    """
    if isinstance(flags, (str, bytes)):
        raise TypeError(f"flags is a list of strings, such as [{flags!r}], not a string")
    return list(flags)


class Process:
    """A child process ``troupe serve``. All methods may be called from any thread."""

    def __init__(
        self,
        server_def: Union[str, bytes],
        flags: Sequence[str] = (),
        echo: bool = False,
    ) -> None:
        """Starts the child; `wait_target` waits until it serves.

        Args:
            server_def: a ``tensorflow.ServerDef``, serialized (bytes) or as text (str).
            flags: further flags of ``troupe serve``.
            echo: whether what the child logs and prints also goes to this process's standard error
                and standard output.

        Raises:
            BinaryNotFoundError: the program is not installed.
        """
        binary = find_binary()
        _functions.number_apart()
        data = server_def.encode() if isinstance(server_def, str) else server_def
        self._channel = Channel()
        try:
            definition = os.path.join(self._channel.folder, "server_def")
            with open(definition, "wb") as file:
                file.write(data)
            environment = dict(os.environ, TROUPE_PARENT_TOKEN=self._channel.token)
            environment.pop("TF_CONFIG", None)  # it declares this program's task, not the child's
            command = [binary, "serve", *flags]
            command += [f"--parent={self._channel.address}", f"--server_def={definition}"]
            # In a session of its own, the child does not receive interrupts from the terminal or a notebook.
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        except BaseException:
            self._channel.close()
            raise
        try:
            self._own(echo)
        except BaseException:  # there may be no room for threads
            self._child.kill()
            self._child.wait()
            self._channel.close()
            for pipe in (self._child.stdout, self._child.stderr):
                assert pipe is not None
                pipe.close()
            raise

    def _own(self, echo: bool) -> None:
        """Starts to read what the child sends."""
        self.pid: int = self._child.pid
        self.target: str = ""
        self.http: str = ""
        """The address of the child's dashboard and metrics, if its flags have ``--http``."""
        self.stopped = False
        """Whether the child was asked to end."""
        self._mine = True  # False in forks of this process
        self._writing = threading.Lock()
        self._log = _Log()
        self._echo = echo
        self._channel.start(self.pid)
        self._readers = [
            threading.Thread(target=read, name=f"troupe-{self.pid}", daemon=True)
            for read in (self._read_output, self._read_log)
        ]
        for reader in self._readers:
            reader.start()
        _running.add(self)

    def _read_output(self) -> None:
        self._read(self._child.stdout, "stdout")
        self._channel.ended()

    def _read_log(self) -> None:
        self._read(self._child.stderr, "stderr")

    def _read(self, lines: Optional[IO[bytes]], name: str) -> None:
        """Keeps what the child writes, and echoes it to this process's stream of that name."""
        assert lines is not None
        echo = self._echo
        with lines:
            for line in iter(lambda: lines.readline(_LONGEST_LINE), b""):
                text = line.decode(errors="replace")
                self._log.append(text)
                if echo:
                    try:
                        getattr(sys, name).write(text)
                    except Exception:  # the child would end if nobody read what it writes
                        echo = False  # this process has no such stream, or it was closed

    def wait_target(self, timeout: float = START_TIMEOUT) -> str:
        """Waits until the child has bound its port, and returns its target, ``grpc://host:port``.

        Raises:
            ServerError: the child refused to start, ended, or did not answer in time. It is no longer
                running.
        """
        try:
            kind, _, rest = self._answer(timeout).partition(" ")
            if kind == "HTTP":
                self.http = rest.rstrip("/")
                kind, _, rest = self._answer(timeout).partition(" ")
        except BaseException:
            self.kill()
            raise
        if kind == "TARGET":
            self.target = rest
            return rest
        self.kill()
        code, _, message = rest.partition(" ")
        if kind == "ERROR" and code.isdigit():
            raise ServerError(int(code), message)
        raise ServerError(
            _UNKNOWN, f"the server answered {kind + ' ' + rest!r}, which is no part of the protocol"
        )

    def start(self, timeout: float = START_TIMEOUT) -> None:
        """Tells the child to start, and waits for its answer.

        Raises:
            ServerError: it has ended.
        """
        with self._writing:
            if not self._channel.write("start"):
                self._wait(5)
                raise ServerError(_UNKNOWN, self._ended())
            answer = self._answer(timeout)
        if answer != "STARTED":
            raise ServerError(_UNKNOWN, f"the server answered {answer!r} to start")

    def _answer(self, timeout: float) -> str:
        try:
            answer = self._channel.answers.get(timeout=timeout)
        except queue.Empty:
            raise ServerError(4, f"the server has not answered within {timeout:g} s") from None
        if answer is None:
            self._wait(5)
            self._channel.answers.put(None)  # for the next caller
            raise ServerError(_UNKNOWN, self._ended())
        return answer

    def _ended(self) -> str:
        return f"the server has ended with exit code {self._child.poll()}. Its log:\n{self.log(20)}"

    @property
    def exit_code(self) -> Optional[int]:
        """The child's exit code, -N if signal N ended it, or None while it runs."""
        return self._child.poll() if self._mine else None

    @property
    def running(self) -> bool:
        """Whether the child is running."""
        return self.exit_code is None

    def log(self, lines: Optional[int] = None) -> str:
        """Returns the last lines of the child's log, at most `lines` and at most LOG_LINES."""
        if self._child.poll() is not None:
            self._readers[1].join(5)
        return "".join(self._log.last(LOG_LINES if lines is None else lines))

    def join(self, timeout: Optional[float] = None) -> bool:
        """Waits until the child has ended, at most `timeout` seconds, and returns whether it has.

        Raises:
            ServerError: it failed, rather than being stopped.
        """
        if not self._wait(timeout):
            return False
        if self.exit_code != 0 and not self.stopped:
            raise ServerError(14, self._ended())
        return True

    def _wait(self, timeout: Optional[float]) -> bool:
        try:
            self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def terminate(self, grace: Optional[float] = None) -> None:
        """Asks the child to stop; running steps may continue for at most `grace` seconds or its --drain."""
        self.stopped = True
        if not self._mine or not self.running:
            return
        with self._writing:
            self._channel.write("stop" if grace is None else f"stop {grace:f}s")  # or it has ended

    def stop(self, grace: Optional[float]) -> None:
        """Stops the child, as `terminate` does, and waits until it has ended; a `grace` of 0 ends it at
        once."""
        if grace is not None and grace <= 0:
            self.kill()
            return
        self.terminate(grace)
        if not self._mine:
            return
        if not self._wait(None if grace is None else grace + STOP_TIMEOUT):
            self.kill()
        self._release()

    def kill(self) -> None:
        """Ends the child at once, as a crash would."""
        self.stopped = True
        if not self._mine:
            return
        if self.running:
            self._child.kill()
        self._child.wait()
        self._release()

    def _release(self) -> None:
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join(5)
        self._channel.close()
        _running.discard(self)

    def _abandon(self) -> None:
        """In a fork of this process: gives up the child, so that it ends with its creator."""
        self._mine = False
        self._channel.abandon()


class _Log:
    """The last lines of a log. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lines: "collections.deque[str]" = collections.deque()
        self._size = 0
        self._lock = threading.Lock()

    def append(self, line: str) -> None:
        with self._lock:
            self._lines.append(line)
            self._size += len(line)
            while len(self._lines) > LOG_LINES or self._size > _LOG_SIZE:
                self._size -= len(self._lines.popleft())

    def last(self, lines: int) -> List[str]:
        with self._lock:
            return list(self._lines)[-lines:] if lines > 0 else []


# All children. A reference here keeps a server running whose object is dropped, as TensorFlow's do.
_running: "set[Process]" = set()


def _at_exit() -> None:
    for process in list(_running):
        process._channel.hang_up()  # ends it at once
    for process in list(_running):
        if process._mine and not process._wait(5):
            process.kill()
        process._release()


def _after_fork() -> None:
    for process in _running:
        process._abandon()
    _running.clear()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def status(target: str, timeout: float = 15.0) -> Dict[str, Any]:
    """Returns what ``troupe status --json TARGET`` prints.

    Args:
        target: ``grpc://host:port`` of any task of the cluster.
        timeout: how many seconds the server may take to answer.

    Returns:
        ``{"task": …, "spec": …, "tasks": [{"task": …, "address": …, "state": "up", …}, …]}``

    Raises:
        ServerError: the server does not answer, or is not Troupe's.
    """
    command: List[str] = [find_binary(), "status", "--json", f"--timeout={timeout:f}s", target]
    try:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout + 10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerError(14, f"{target} has not answered within {timeout:g} s") from None
    # If there is output, a nonzero code only means that a declared task is not up.
    if result.returncode != 0 and not result.stdout:
        raise ServerError(14, result.stderr.decode(errors="replace").strip())
    seen: Dict[str, Any] = json.loads(result.stdout)
    return seen


def wait_ready(target: str, timeout: float) -> None:
    """Waits until all tasks of the server's cluster are up.

    Raises:
        ServerError: this takes longer than `timeout` seconds; the message names the missing ones.
    """
    end = time.monotonic() + timeout
    pause = 0.05
    missing: List[str] = []
    while True:
        left = end - time.monotonic()
        try:
            seen = status(target, max(0.1, min(15.0, left)))
            missing = [task["task"] for task in seen["tasks"] if task["state"] != "up"]
            if not missing:
                return
            problem = f"not up are {', '.join(missing)}"
        except ServerError as error:
            problem = error.message
            if missing:
                problem += f" (when it last answered, not up were {', '.join(missing)})"
        if time.monotonic() + pause > end:
            raise ServerError(4, f"the cluster is not ready after {timeout:g} s: {problem}")
        time.sleep(pause)
        pause = min(1.0, 2 * pause)
