"""The messages of the service troupe.program.v1.Actors.

The service is defined in the server's source, in remote/internal/actorservice/actorspb/actors.proto. The classes are
made here at run time, because generated ones depend on the version of protobuf, which TensorFlow chooses.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

# The types of google.protobuf are known to every program of the cluster, and here.
from google.protobuf import any_pb2, duration_pb2, empty_pb2, field_mask_pb2  # noqa: F401
from google.protobuf import struct_pb2, timestamp_pb2, wrappers_pb2  # noqa: F401
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "troupe.program.v1"

_ANY = ".google.protobuf.Any"

# By message: the fields, with their numbers and types, and the name of the oneof that they are all part of, if any.
_MESSAGES: Dict[str, Tuple[List[Tuple[str, int, str]], str]] = {
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


def file() -> Any:
    """Returns the descriptor of the messages, a FileDescriptorProto."""
    field = descriptor_pb2.FieldDescriptorProto
    scalars = {"string": field.TYPE_STRING, "int32": field.TYPE_INT32, "bool": field.TYPE_BOOL}
    made = descriptor_pb2.FileDescriptorProto(
        name="troupe/actors.proto",
        package=PACKAGE,
        syntax="proto3",
        dependency=["google/protobuf/any.proto"],
    )
    for name, (fields, oneof) in _MESSAGES.items():
        message = made.message_type.add(name=name)
        if oneof:
            message.oneof_decl.add(name=oneof)
        for field_name, number, kind in fields:
            added = message.field.add(name=field_name, number=number, label=field.LABEL_OPTIONAL)
            if oneof:
                added.oneof_index = 0
            if kind in scalars:
                added.type = scalars[kind]
            else:
                added.type = field.TYPE_MESSAGE
                added.type_name = kind if kind == _ANY else f".{PACKAGE}.{kind}"
    return made


def message_class(name: str) -> Any:
    """Returns the class of the messages with a full name; raises KeyError for an unknown one."""
    descriptor = descriptor_pool.Default().FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)  # before protobuf 4.22


descriptor_pool.Default().AddSerializedFile(file().SerializeToString())

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
