"""The connections between this program and a server that it owns, which the server opens.

The protocol is documented in the server's source, in serve/internal/owner.
"""

from __future__ import annotations

import hmac
import os
import queue
import secrets
import selectors
import shutil
import socket
import tempfile
import threading
from typing import Any, Callable, List, Optional, Set

from troupe import _functions

MAX_CALLS = 512
"""The most functions of a server's graphs that run at once, abandoned calls included."""

_FIRST_LINE = 5.0  # seconds that a connection may take to say what it is for
_LONGEST_LINE = 1 << 16  # bytes
_PAUSE = 0.1  # seconds after a connection could not be accepted


class Channel:
    """Listens for one server, at an address that only it should know."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="troupe-")  # which only this user may enter
        self.token = secrets.token_hex(16)
        self.answers: "queue.Queue[Optional[str]]" = queue.Queue()
        """The lines that the server sends about its start; None when it has ended."""
        listener: Optional[socket.socket] = None
        try:
            listener = self._listen()
            listener.setblocking(False)
            # What is sent to it ends the acceptor. The folder may be gone by then: a server whose parent seems to have
            # ended removes it.
            self._waker, self._woken = socket.socketpair()
        except BaseException:  # such as too many open files
            if listener is not None:
                listener.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._listener = listener
        self._control: Optional[socket.socket] = None
        self._calls: Set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._acceptor: Optional[threading.Thread] = None

    def _listen(self) -> socket.socket:
        if hasattr(socket, "AF_UNIX"):
            listener = socket.socket(socket.AF_UNIX)
            path = os.path.join(self.folder, "socket")
            try:
                listener.bind(path)
                listener.listen(64)
                self.address = f"unix:{path}"
                return listener
            except OSError:  # the path is too long for a socket, or the file system has none
                listener.close()
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        self.address = f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        return listener

    def start(self, pid: int) -> None:
        """Starts to accept the connections of the process `pid`."""
        self._pid = pid
        self._acceptor = self._run(self._accept)

    def _accept(self) -> None:
        control: Optional[threading.Thread] = None
        # Unlike epoll's, its state is not shared with forks of this process.
        ends = selectors.PollSelector() if hasattr(selectors, "PollSelector") else selectors.SelectSelector()
        ends.register(self._listener, selectors.EVENT_READ)
        ends.register(self._woken, selectors.EVENT_READ)
        while any(key.fileobj is self._listener for key, _ in ends.select()):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                continue  # it has gone
            except OSError:  # such as too many open files: the connection waits for a while
                ends.unregister(self._listener)
                if ends.select(_PAUSE):
                    break  # the server has ended
                ends.register(self._listener, selectors.EVENT_READ)
                continue
            words = self._first_line(connection)
            if words[:2] == ["TROUPE", "1"] and len(words) > 3:
                purpose, token = words[2:4]
                if hmac.compare_digest(token.encode(), self.token.encode()):
                    if purpose == "control" and control is None:
                        self._control = connection
                        control = self._run(self._read_control, connection)
                        continue
                    if purpose == "calls" and len(words) == 6:
                        self._serve(connection, int(words[4], 16), int(words[5], 16))
                        continue
            connection.close()
        if control is not None:
            control.join()  # it has ended, or is about to
        self.answers.put(None)

    def _first_line(self, connection: socket.socket) -> List[str]:
        """Reads the line that each connection begins with; an empty list if there is none."""
        connection.settimeout(_FIRST_LINE)
        line = b""
        try:
            while not line.endswith(b"\n") and len(line) < 256:
                byte = connection.recv(1)
                if not byte:
                    return []
                line += byte
            connection.settimeout(None)
        except OSError:
            return []
        return line.decode("ascii", "replace").split()

    def _run(self, target: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(
            target=target, args=args, name=f"troupe-{self._pid}", daemon=True
        )
        thread.start()
        return thread

    def _read_control(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as lines:
                while True:
                    line = lines.readline(_LONGEST_LINE)
                    if not line:
                        break
                    self.answers.put(line.decode(errors="replace").rstrip("\r\n"))
        except (OSError, ValueError):
            pass  # it was closed

    def _serve(self, connection: socket.socket, address: int, number: int) -> None:
        """Calls functions for a connection, on a separate thread."""
        with self._lock:
            room = not self._closed and len(self._calls) < MAX_CALLS
            if room:
                self._calls.add(connection)
        if room:
            try:
                self._run(self._answer_calls, connection, address, number)
                return
            except RuntimeError:  # the system has no room for a thread
                with self._lock:
                    self._calls.discard(connection)
        try:
            connection.sendall(bytes([_functions.REFUSED]))
        except OSError:
            pass  # it has ended
        connection.close()

    def _answer_calls(self, connection: socket.socket, address: int, number: int) -> None:
        try:
            _functions.serve(connection, self._pid, address, number)
        finally:
            with self._lock:
                self._calls.discard(connection)
            connection.close()

    def write(self, line: str) -> bool:
        """Sends a line to the server, and returns whether it was sent."""
        try:
            self._control.sendall(line.encode() + b"\n")  # type: ignore[union-attr]
        except (OSError, AttributeError):  # AttributeError: it has never connected
            return False
        return True

    def ended(self) -> None:
        """Signals, after the server has ended, that no connections follow those that are already waiting."""
        try:
            self._waker.send(b"e")
        except OSError:
            pass  # it was closed before

    def hang_up(self) -> None:
        """Closes the control connection, which ends the server at once."""
        if self._control is not None:
            try:
                self._control.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the server has ended

    def close(self) -> None:
        """Closes all connections, and removes the folder. The server has ended."""
        self.hang_up()
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for connection in calls:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the server has ended
        self.ended()
        if self._acceptor not in (None, threading.current_thread()):
            self._acceptor.join(_FIRST_LINE)  # type: ignore[union-attr]
        for end in (self._listener, self._waker, self._woken, self._control):
            if end is not None:
                end.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def abandon(self) -> None:
        """In a fork of this process: closes its copies of the connections, without ending them."""
        for end in [self._listener, self._waker, self._woken, self._control, *self._calls]:
            if end is not None:
                try:
                    os.close(end.detach())
                except OSError:
                    pass  # it was closed before
