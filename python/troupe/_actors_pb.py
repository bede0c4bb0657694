"""The messages of the service troupe.program.v1.Actors.

The service is defined in the server's source, in remote/internal/actorservice/actorspb/actors.proto.
"""

from __future__ import annotations

from typing import Any

# The types of google.protobuf are known to every program of the cluster, and here.
from google.protobuf import any_pb2, duration_pb2, empty_pb2, field_mask_pb2  # noqa: F401
from google.protobuf import struct_pb2, timestamp_pb2, wrappers_pb2  # noqa: F401

from troupe import _messages
from troupe._messages import message_class

PACKAGE = "troupe.program.v1"

_ANY = ".google.protobuf.Any"

_MESSAGES: _messages.Messages = {
    "Actor": ([("task", 1, "string"), ("name", 2, "string")], ""),
    "Message": ([("any", 1, _ANY), ("json", 2, "string")], "form"),
    "AskRequest": ([("actor", 1, "Actor"), ("message", 2, "Message")], ""),
    "AskResponse": ([("answer", 1, "Message")], ""),
    "SendRequest": ([("actor", 1, "Actor"), ("message", 2, "Message")], ""),
    "SendResponse": ([], ""),
    "SpawnRequest": (
        [
            ("kind", 1, "string"),
            ("actor", 2, "Actor"),
            ("arguments", 3, "Message"),
            ("ensure", 4, "bool"),
        ],
        "",
    ),
    "SpawnResponse": ([("actor", 1, "Actor")], ""),
    "EndRequest": ([("actor", 1, "Actor")], ""),
    "EndResponse": ([], ""),
    "PublishRequest": ([("topic", 1, "string"), ("message", 2, "Message")], ""),
    "PublishResponse": ([], ""),
    "WatchRequest": ([("actor", 1, "Actor"), ("confirm", 2, "bool")], ""),
    "WatchResponse": ([("watching", 1, "Watching"), ("ended", 2, "Ended")], "event"),
    "Watching": ([], ""),
    "Ended": ([("code", 1, "int32"), ("message", 2, "string")], ""),
}

WRAPPERS = frozenset(
    m.full_name for m in wrappers_pb2.DESCRIPTOR.message_types_by_name.values()
)
"""The full names of protobuf's messages for single values."""


def wrap(value: Any) -> Any:
    """Returns the message for a str, bool, int, float or bytes."""
    if isinstance(value, bool):  # which is an int, too
        return wrappers_pb2.BoolValue(value=value)
    if isinstance(value, int):
        return wrappers_pb2.Int64Value(value=value)
    if isinstance(value, float):
        return wrappers_pb2.DoubleValue(value=value)
    if isinstance(value, bytes):
        return wrappers_pb2.BytesValue(value=value)
    return wrappers_pb2.StringValue(value=value)


def file() -> Any:
    """Returns the descriptor of the messages, a FileDescriptorProto."""
    return _messages.file(
        "troupe/actors.proto", PACKAGE, _MESSAGES, ["google/protobuf/any.proto"]
    )


_messages.add(file())

Actor, Message, AskRequest, AskResponse, SendRequest, SendResponse = (
    message_class(f"{PACKAGE}.{name}")
    for name in ("Actor", "Message", "AskRequest", "AskResponse", "SendRequest", "SendResponse")
)
PublishRequest, PublishResponse = (
    message_class(f"{PACKAGE}.{name}") for name in ("PublishRequest", "PublishResponse")
)
SpawnRequest, SpawnResponse, EndRequest, EndResponse, WatchRequest, WatchResponse = (
    message_class(f"{PACKAGE}.{name}")
    for name in (
        "SpawnRequest",
        "SpawnResponse",
        "EndRequest",
        "EndResponse",
        "WatchRequest",
        "WatchResponse",
    )
)
