"""Actors of a cluster's programs, seen from Python."""

from __future__ import annotations

import concurrent.futures
import json
import threading
from types import TracebackType
from typing import Any, Mapping, Optional, Tuple, Type, Union

from troupe._connection import (
    CODES,
    ClosedError,
    Connection,
    StatusError,
    grpc_module,
    status_of,
)

Message = Union[Mapping[str, Any], Any]
"""A protocol buffer, a dict of the JSON of one with its type under ``"@type"``, or a str, bool, int, float or bytes."""

_BASIC = (str, bool, int, float, bytes)


class ActorError(StatusError):
    """A message did not reach its actor, or the actor answered with an error, or it ended with one.

    Attributes:
        code: the error's code, of TensorFlow and gRPC, an int such as 5 for NOT_FOUND.
        name: its name, such as ``"NOT_FOUND"``.
        message: the text, without the code.
    """


class Actor:
    """An actor of a Go program that is a task of the cluster (``docs/actors.md``).

    ::

        votes = troupe.Actor("grpc://10.0.0.2:2222", "worker:1", "votes")
        votes.send({"@type": "google.protobuf.Int64Value", "value": 3})
        votes.ask({"@type": "google.protobuf.Empty"}, timeout=5)  # {'@type': …, 'value': '3'}
        votes.ask(empty_pb2.Empty(), timeout=5)                   # an Int64Value

    Messages are protocol buffers of the program, or dicts with the JSON of one, for programs that do not have
    its classes. The answer to a dict is a dict. The server at `target`, which may be any task of the cluster, passes
    them on; of a dict, it or the actor's program has to know the type. A str, bool, int, float or bytes is sent as a
    ``google.protobuf.StringValue``, ``BoolValue``, ``Int64Value``, ``DoubleValue`` or ``BytesValue``, and an answer of
    such a type to it is returned as its value::

        greeter.ask("world")  # 'Hello, world'

    Args:
        target: a server of the cluster, ``grpc://host:port``.
        task: the actor's task, such as ``"worker:1"`` or ``"/job:worker/task:1"``; ``""`` is the server's own.
            ``"/kind:account"`` is any task, for the virtual actor of the kind ``account`` that the name identifies.
        name: the actor's name there. It need not exist yet.
        tls_ca: a file with the authorities that are trusted (PEM). The connection is then encrypted.
        tls_cert, tls_key: files with a certificate and its key (PEM), for servers that ask for one. These files are read
            again when they have changed.
        token: a token to show (``troupe token new``), over TLS or to this machine.
        token_file: a file with the token, which is read for each call.

    The methods raise `ActorError`. Their timeouts are in seconds; without one, they wait for as long as it takes. They
    may be called from several threads. ``with`` closes the connection at its end, as `close` does.

    It needs the packages grpcio and protobuf, which TensorFlow depends on (without it: ``pip install grpcio protobuf``).
    """

    def __init__(
        self,
        target: str,
        task: str,
        name: str,
        *,
        tls_ca: Optional[str] = None,
        tls_cert: Optional[str] = None,
        tls_key: Optional[str] = None,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
    ) -> None:
        self.target = target
        self.task = task
        self.name = name
        self._grpc, self._pb = _modules()
        self._connection = Connection(
            self._grpc,
            target,
            tls_ca=tls_ca,
            tls_cert=tls_cert,
            tls_key=tls_key,
            token=token,
            token_file=token_file,
        )

    @classmethod
    def spawn(
        cls,
        target: str,
        task: str,
        kind: str,
        name: str = "",
        arguments: Optional[Message] = None,
        *,
        ensure: bool = False,
        timeout: Optional[float] = None,
        **security: Any,
    ) -> Actor:
        """Makes an actor of a kind that the program of the task has registered, and returns it when it exists.

        Args:
            name: without one, it gets a unique one.
            arguments: a message for the program, or None.
            ensure: if the task has an actor of this name and kind already, it is returned.
            security: the arguments ``tls_ca`` to ``token_file`` of the class.
        """
        actor = cls(target, task, name, **security)
        try:
            request = actor._pb.SpawnRequest(kind=kind, actor=actor._at(), ensure=ensure)
            if arguments is not None:
                actor._enclose(request.arguments, arguments)
            made = actor._call("Spawn", request, timeout).actor
        except BaseException:
            actor.close()
            raise
        actor.task, actor.name = made.task, made.name
        return actor

    def ask(self, message: Message, timeout: Optional[float] = None) -> Any:
        """Sends a message and returns the answer: a dict if the message is one, else a protocol buffer.

        The answer to a str, bool, int, float or bytes is a value as well, if the actor answers with one.

        A protocol buffer whose class this program does not have is returned as a ``google.protobuf.Any``.
        """
        request = self._pb.AskRequest(actor=self._at())
        self._enclose(request.message, message)
        answer = self._call("Ask", request, timeout).answer
        if answer.WhichOneof("form") == "json":
            return json.loads(answer.json)
        try:
            made = self._pb.message_class(answer.any.type_url.rpartition("/")[2])
        except KeyError:
            return answer.any
        found = made.FromString(answer.any.value)
        if isinstance(message, _BASIC) and found.DESCRIPTOR.full_name in self._pb.WRAPPERS:
            return found.value
        return found

    def send(self, message: Message, timeout: Optional[float] = None) -> None:
        """Sends a message, at most once. While the actor's queue is full, it waits.

        It raises an error if the message certainly does not arrive.
        """
        request = self._pb.SendRequest(actor=self._at())
        self._enclose(request.message, message)
        self._call("Send", request, timeout)

    def end(self, timeout: Optional[float] = None) -> None:
        """Ends the actor after the messages that wait for it, and returns when it has ended."""
        self._call("End", self._pb.EndRequest(actor=self._at()), timeout)

    def watch(self, timeout: Optional[float] = None) -> Watch:
        """Returns a watch of the actor's end, which is in place: it does not miss an end from now on.

        Args:
            timeout: how long that may take; it does not bound the watch.
        """
        return Watch(self, timeout)

    def close(self) -> None:
        """Closes the connection. Pending calls raise CANCELLED. It may be called again."""
        self._connection.close()

    def __enter__(self) -> Actor:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"troupe.Actor({self.target!r}, {self.task!r}, {self.name!r})"

    def _at(self) -> Any:
        return self._pb.Actor(task=self.task, name=self.name)

    def _enclose(self, into: Any, message: Message) -> None:
        if isinstance(message, Mapping):
            into.json = json.dumps(message)
        elif hasattr(message, "DESCRIPTOR"):
            into.any.Pack(message)
        elif isinstance(message, _BASIC):
            into.any.Pack(self._pb.wrap(message))
        else:
            raise TypeError(
                "a message is a protocol buffer, a dict, or a str, bool, int, float or bytes, "
                f"not a {type(message).__name__}"
            )

    def _call(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        answer = getattr(self._pb, f"{method}Response")
        try:
            return self._connection.call(
                f"{self._pb.PACKAGE}.Actors/{method}", request, answer, timeout
            )
        except self._grpc.RpcError as error:
            raise ActorError(*status_of(error)) from None
        except ClosedError as error:
            raise ActorError(error.code, error.message) from None


def publish(
    target: str,
    topic: str,
    message: Message,
    *,
    timeout: Optional[float] = None,
    **security: Any,
) -> None:
    """Sends a message to all actors of a cluster that subscribe to a topic, to each at most once.

    There need not be any. It waits while the queue of one of them is full.

    Args:
        target: a server of the cluster, ``grpc://host:port``.
        message: a protocol buffer, or a dict of the JSON of one, whose type the server's program has to know.
        timeout: in seconds.
        security: the arguments ``tls_ca`` to ``token_file`` of `Actor`.
    """
    with Actor(target, "", "", **security) as server:
        request = server._pb.PublishRequest(topic=topic)
        server._enclose(request.message, message)
        server._call("Publish", request, timeout)


class Watch:
    """A watch of an actor's end, as `Actor.watch` returns it. ``with`` cancels it at its end."""

    def __init__(self, actor: Actor, timeout: Optional[float]) -> None:
        call = actor._connection.channel.unary_stream(
            f"/{actor._pb.PACKAGE}.Actors/Watch",
            request_serializer=actor._pb.WatchRequest.SerializeToString,
            response_deserializer=actor._pb.WatchResponse.FromString,
        )
        self._actor = actor
        self._begun: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[Optional[ActorError]] = concurrent.futures.Future()
        metadata = actor._connection.metadata()
        try:
            self._call = actor._connection.calling(
                lambda: call(
                    actor._pb.WatchRequest(actor=actor._at(), confirm=True), metadata=metadata
                )
            )
        except ClosedError as error:
            raise ActorError(error.code, error.message) from None
        threading.Thread(
            target=self._read, name="troupe-watch", daemon=True
        ).start()  # it ends with the call
        try:
            self._begun.result(timeout)
        except concurrent.futures.TimeoutError:
            self.cancel()
            raise ActorError(
                CODES.index("DEADLINE_EXCEEDED"),
                f"the watch of {actor!r} is not in place after {timeout} s",
            ) from None
        except BaseException:
            self.cancel()
            raise

    def _read(self) -> None:
        try:
            for event in self._call:
                if event.WhichOneof("event") == "ended":
                    code = event.ended.code
                    self._ended.set_result(ActorError(code, event.ended.message) if code else None)
                    break
                self._begun.set_result(None)
            else:
                self._ended.set_exception(
                    ActorError(
                        CODES.index("INTERNAL"), "the server did not say how the actor ended"
                    )
                )
        except self._actor._grpc.RpcError as error:
            self._ended.set_exception(ActorError(*status_of(error)))
        if not self._begun.done():
            failure = self._ended.exception()
            if failure is None:
                self._begun.set_result(None)
            else:
                self._begun.set_exception(failure)

    def wait(self, timeout: Optional[float] = None) -> Optional[ActorError]:
        """Waits for the actor's end and returns the reason: None if it was ended or ended itself.

        Otherwise it is an error with the code NOT_FOUND if there was no such actor, INTERNAL if it panicked, CANCELLED
        if its server stops, UNAVAILABLE if its task was lost, or that of the error that it failed with.

        Raises:
            TimeoutError: the actor has not ended after `timeout` seconds. The watch goes on.
            ActorError: the server was lost, or the watch was cancelled: nothing is known of the actor.
        """
        try:
            return self._ended.result(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"{self._actor!r} has not ended after {timeout} s") from None

    def cancel(self) -> None:
        """Ends the watch. It may be called again."""
        self._call.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.cancel()


def _modules() -> Tuple[Any, Any]:
    grpc = grpc_module("troupe.Actor")
    from troupe import _actors_pb

    return grpc, _actors_pb
