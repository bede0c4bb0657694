"""Connections to a server's gRPC services, with what they show of the program."""

from __future__ import annotations

import ipaddress
import os
import ssl
import threading
from typing import Any, Callable, List, Optional, Tuple

# By code.
CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED "
    "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS "
    "UNAUTHENTICATED"
).split()


class StatusError(RuntimeError):
    """An error with a code.

    Attributes:
        code: the error's code, of TensorFlow and gRPC, an int such as 5 for NOT_FOUND.
        name: its name, such as ``"NOT_FOUND"``.
        message: the text, without the code.
    """

    def __init__(self, code: int, message: str) -> None:
        self.name = CODES[code] if 0 <= code < len(CODES) else f"code {code}"
        super().__init__(f"{self.name}: {message}")
        self.code = code
        self.message = message


class ClosedError(StatusError):
    """A connection was closed before a call, which was not sent."""

    def __init__(self) -> None:
        super().__init__(CODES.index("CANCELLED"), "the connection is closed")


def grpc_module(needed_by: str) -> Any:
    """Returns the package grpc. If it or protobuf is missing, the error names what needs them, and what installs them."""
    try:
        import grpc

        from google.protobuf import message  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"{needed_by} needs the packages grpcio and protobuf, which TensorFlow installs as well: "
            f"pip install grpcio protobuf ({error})"
        ) from error
    return grpc


class Connection:
    """A connection to a server. It may be used by several threads.

    When the files with its certificates are replaced, later calls have the new ones; those that have begun go on, until
    the files have been replaced as often as _KEPT says: then they fail with CANCELLED. Files that cannot be used, such as
    a certificate whose key is not there yet, leave what was read before.
    """

    _KEPT = 8  # channels, each with the certificates of its time

    def __init__(
        self,
        grpc: Any,
        target: str,
        *,
        tls_ca: Optional[str] = None,
        tls_cert: Optional[str] = None,
        tls_key: Optional[str] = None,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
    ) -> None:
        address = target[len("grpc://") :] if target.startswith("grpc://") else target
        if "," in address:
            raise ValueError(f"one server is expected, not {target!r}")
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(
                f"{target!r} is not a target: a host and a port are expected, such as grpc://10.0.0.2:2222"
            )
        if token is not None and token_file is not None:
            raise ValueError("token and token_file are given: one of them is expected")
        if (token or token_file) and not tls_ca and not _on_this_machine(address):
            raise ValueError(
                "a token is only sent over TLS and to this machine, because others could read it: give tls_ca"
            )
        if not tls_ca and (tls_cert or tls_key):
            raise ValueError("tls_cert and tls_key need tls_ca")
        self._grpc = grpc
        self._address = address
        self._token = token
        self._token_file = token_file
        self._files = [path for path in (tls_ca, tls_key, tls_cert) if path is not None]
        self._tls_ca, self._tls_key, self._tls_cert = tls_ca, tls_key, tls_cert
        self._lock = threading.Lock()  # guards the rest
        self._closed = False
        self._seen = _states(self._files)  # of the files, when they were last read
        self._channels = [self._open()]  # the last one is for new calls; the others may have some that go on

    def _open(self) -> Any:
        options = [
            ("grpc.enable_http_proxy", 0),  # as with the connections of the cluster
            ("grpc.max_receive_message_length", -1),  # the server's limits hold
            ("grpc.max_send_message_length", -1),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        if not self._tls_ca:
            return self._grpc.insecure_channel(self._address, options)
        credentials = self._grpc.ssl_channel_credentials(
            _contents(self._tls_ca), _contents(self._tls_key), _contents(self._tls_cert)
        )
        return self._grpc.secure_channel(self._address, credentials, options)

    @property
    def channel(self) -> Any:
        """grpc's channel for a new call."""
        if not self._files:
            return self._channels[-1]
        with self._lock:
            now = _states(self._files)
            if now != self._seen and not self._closed:
                self._seen = now
                try:
                    _check(self._tls_ca, self._tls_cert, self._tls_key)
                    self._channels.append(self._open())
                except (OSError, ValueError):  # ssl.SSLError is an OSError
                    pass  # until the files change again
                if len(self._channels) > self._KEPT:
                    self._channels.pop(0).close()
            return self._channels[-1]

    def metadata(self) -> List[Tuple[str, str]]:
        """Returns what identifies the program in a call."""
        token = self._token
        if self._token_file is not None:
            with open(self._token_file, encoding="ascii") as file:
                token = file.read().strip()
        return [("authorization", f"Bearer {token}")] if token else []

    def call(self, method: str, request: Any, answer: Any, timeout: Optional[float]) -> Any:
        """Calls a method such as ``"package.Service/Method"``, and returns its `answer`."""
        unary, metadata = self._unary(method, request, answer), self.metadata()
        return self.calling(lambda: unary(request, timeout, metadata))

    def begin(
        self, method: str, request: Any, answer: Any, timeout: Optional[float] = None
    ) -> Any:
        """Begins a call; returns grpc's future of an `answer`."""
        unary, metadata = self._unary(method, request, answer), self.metadata()
        return self.calling(lambda: unary.future(request, timeout, metadata))

    def calling(self, call: Callable[[], Any]) -> Any:
        """Returns what `call` returns. grpc's error for a call on a closed channel is a ValueError: it becomes ClosedError."""
        try:
            return call()
        except ValueError:
            with self._lock:
                if self._closed:
                    raise ClosedError from None
            raise

    def _unary(self, method: str, request: Any, answer: Any) -> Any:
        return self.channel.unary_unary(
            "/" + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )

    def close(self) -> None:
        """Closes the connection. Pending calls fail with CANCELLED. It may be called again."""
        with self._lock:
            self._closed = True
            for channel in self._channels:
                channel.close()


def status_of(error: Any) -> Tuple[int, str]:
    """Returns the code and the text of a grpc.RpcError."""
    return error.code().value[0], error.details() or ""


def _on_this_machine(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _states(paths: List[str]) -> List[Optional[Tuple[int, int, int]]]:
    """Returns what changes when a file is replaced, for each of several; None if there is no file."""
    states: List[Optional[Tuple[int, int, int]]] = []
    for path in paths:
        try:
            found = os.stat(path)
            states.append((found.st_ino, found.st_size, found.st_mtime_ns))
        except OSError:
            states.append(None)
    return states


def _check(ca: Optional[str], cert: Optional[str], key: Optional[str]) -> None:
    """Raises an error if files cannot be used, of which some may have been replaced already, and others not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    if cert is not None:
        context.load_cert_chain(cert, key, password="")  # without one, it would ask for it


def _contents(path: Optional[str]) -> Optional[bytes]:
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()
