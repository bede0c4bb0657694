"""Makes the classes of protocol buffers at run time.

Generated classes depend on the version of protobuf, which TensorFlow chooses.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Tuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Messages = Mapping[str, Tuple[Sequence[Tuple[str, int, str]], str]]
"""By message: the fields, with their numbers and types, and the name of the oneof that they are all part of, if any.

A type is a scalar's, a message's of the same file, or a full one with a leading dot. A ``*`` at its end makes the
field a repeated one.
"""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}


def file(name: str, package: str, messages: Messages, dependency: Sequence[str] = ()) -> Any:
    """Returns the descriptor of messages, a FileDescriptorProto."""
    made = descriptor_pb2.FileDescriptorProto(
        name=name, package=package, syntax="proto3", dependency=dependency
    )
    for message_name, (fields, oneof) in messages.items():
        message = made.message_type.add(name=message_name)
        if oneof:
            message.oneof_decl.add(name=oneof)
        for field_name, number, kind in fields:
            repeated = kind.endswith("*")
            kind = kind.rstrip("*")
            added = message.field.add(
                name=field_name,
                number=number,
                label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
            )
            if oneof:
                added.oneof_index = 0
            if kind in _SCALARS:
                added.type = _SCALARS[kind]
            else:
                added.type = _Field.TYPE_MESSAGE
                added.type_name = kind if kind.startswith(".") else f".{package}.{kind}"
    return made


def add(made: Any) -> None:
    """Makes the messages of a file known to `message_class`."""
    descriptor_pool.Default().AddSerializedFile(made.SerializeToString())


def message_class(name: str) -> Any:
    """Returns the class of the messages with a full name; raises KeyError for an unknown one."""
    descriptor = descriptor_pool.Default().FindMessageTypeByName(name)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory().GetPrototype(descriptor)  # before protobuf 4.22
