"""Sessions of a graph on a server, without TensorFlow: the parts of its MasterService that `troupe.pipeline` needs."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar

import numpy as np

from troupe import _messages
from troupe._connection import CODES, ClosedError, Connection, StatusError, grpc_module, status_of

grpc = grpc_module("troupe.pipeline")

# Those of TensorFlow, with the fields that are used: tensorflow/core/protobuf/master.proto and core/framework/*.proto. Enums
# are int32, and the entries of maps are messages, which are the same bytes.
_MESSAGES: _messages.Messages = {
    "CreateSessionRequest": ([("graph_def", 1, "GraphDef")], ""),
    "CreateSessionResponse": ([("session_handle", 1, "string")], ""),
    "CloseSessionRequest": ([("session_handle", 1, "string")], ""),
    "CloseSessionResponse": ([], ""),
    "RunStepRequest": (
        [
            ("session_handle", 1, "string"),
            ("feed", 2, "NamedTensor*"),
            ("fetch", 3, "string*"),
            ("target", 4, "string*"),
        ],
        "",
    ),
    "RunStepResponse": ([("tensor", 1, "NamedTensor*")], ""),
    "NamedTensor": ([("name", 1, "string"), ("tensor", 2, "Tensor")], ""),
    "GraphDef": ([("node", 1, "NodeDef*"), ("versions", 4, "Versions")], ""),
    "Versions": ([("producer", 1, "int32")], ""),
    "NodeDef": (
        [
            ("name", 1, "string"),
            ("op", 2, "string"),
            ("input", 3, "string*"),
            ("device", 4, "string"),
            ("attr", 5, "Attr*"),
        ],
        "",
    ),
    "Attr": ([("key", 1, "string"), ("value", 2, "AttrValue")], ""),
    "AttrValue": (
        [
            ("list", 1, "AttrList"),
            ("s", 2, "bytes"),
            ("i", 3, "int64"),
            ("b", 5, "bool"),
            ("type", 6, "int32"),
            ("shape", 7, "Shape"),
            ("tensor", 8, "Tensor"),
        ],
        "value",
    ),
    "AttrList": ([("type", 6, "int32*"), ("shape", 7, "Shape*")], ""),
    "Shape": ([("dim", 2, "Dim*")], ""),
    "Dim": ([("size", 1, "int64")], ""),
    "Tensor": (
        [
            ("dtype", 1, "int32"),
            ("shape", 2, "Shape"),
            ("content", 4, "bytes"),
            ("float_val", 5, "float*"),
            ("double_val", 6, "double*"),
            ("int_val", 7, "int32*"),
            ("string_val", 8, "bytes*"),
            ("scomplex_val", 9, "float*"),
            ("int64_val", 10, "int64*"),
            ("bool_val", 11, "bool*"),
            ("dcomplex_val", 12, "double*"),
            ("half_val", 13, "int32*"),
            ("uint32_val", 16, "uint32*"),
            ("uint64_val", 17, "uint64*"),
        ],
        "",
    ),
}

_PACKAGE = "troupe.session"
_messages.add(_messages.file("troupe/session.proto", _PACKAGE, _MESSAGES))
_pb: Dict[str, Any] = {name: _messages.message_class(f"{_PACKAGE}.{name}") for name in _MESSAGES}

_GRAPH_VERSION = 1882  # of TensorFlow 2.17; ops mean what they meant then

STRING = np.dtype(object)
"""The dtype of arrays of bytes objects, TensorFlow's strings."""

# By dtype: TensorFlow's number, and the field in which small tensors have their values.
_DTYPES: Dict[np.dtype[Any], Tuple[int, str]] = {
    np.dtype(np.float32): (1, "float_val"),
    np.dtype(np.float64): (2, "double_val"),
    np.dtype(np.int32): (3, "int_val"),
    np.dtype(np.uint8): (4, "int_val"),
    np.dtype(np.int16): (5, "int_val"),
    np.dtype(np.int8): (6, "int_val"),
    STRING: (7, "string_val"),
    np.dtype(np.complex64): (8, "scomplex_val"),
    np.dtype(np.int64): (9, "int64_val"),
    np.dtype(np.bool_): (10, "bool_val"),
    np.dtype(np.uint16): (17, "int_val"),
    np.dtype(np.complex128): (18, "dcomplex_val"),
    np.dtype(np.float16): (19, "half_val"),
    np.dtype(np.uint32): (22, "uint32_val"),
    np.dtype(np.uint64): (23, "uint64_val"),
}
_BY_NUMBER = {number: (dtype, field) for dtype, (number, field) in _DTYPES.items()}


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """Returns the dtype of a component; str, bytes and ``"string"`` are strings. Others than a tensor's raise TypeError."""
    if dtype in (str, bytes) or isinstance(dtype, str) and dtype == "string":
        return STRING
    found = np.dtype(dtype)
    if found not in _DTYPES:
        raise TypeError(f"{found} is not an element type of tensors")
    return found


def _shape(dims: Sequence[int]) -> Any:
    return _pb["Shape"](dim=[_pb["Dim"](size=d) for d in dims])


def encode(array: np.ndarray[Any, Any]) -> Any:
    """Returns an array as a tensor. Arrays of objects are strings."""
    tensor = _pb["Tensor"](dtype=_DTYPES[array.dtype][0], shape=_shape(array.shape))
    if array.dtype == STRING:
        tensor.string_val.extend(
            v.encode() if isinstance(v, str) else bytes(v) for v in array.reshape(-1)
        )
    else:
        tensor.content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return tensor


def decode(tensor: Any) -> np.ndarray[Any, Any]:
    """Returns a tensor as an array, which is the caller's."""
    dtype, field = _BY_NUMBER[tensor.dtype]
    shape = tuple(d.size for d in tensor.shape.dim)
    if tensor.content and dtype == STRING:
        return _strings(tensor.content, int(np.prod(shape, dtype=np.int64))).reshape(shape)
    if tensor.content:
        little = np.frombuffer(bytearray(tensor.content), dtype.newbyteorder("<"))
        return little.astype(dtype, copy=False).reshape(shape)
    values = getattr(tensor, field)
    array = np.empty(int(np.prod(shape, dtype=np.int64)), dtype)
    if dtype == STRING:
        array[:] = list(values)
        return array.reshape(shape)
    if field == "half_val":
        found = np.array(values, np.uint16).view(np.float16)
    elif field in ("scomplex_val", "dcomplex_val"):
        found = np.array(values, np.zeros(0, dtype).real.dtype).view(dtype)
    else:
        found = np.array(values).astype(dtype)
    array[: len(found)] = found
    array[len(found) :] = found[-1] if len(found) else 0  # a tensor's last value stands for the rest
    return array.reshape(shape)


def _strings(content: bytes, n: int) -> np.ndarray[Any, Any]:
    """Returns strings that are given as their lengths, as varints, and then their bytes."""
    lengths, at = [], 0
    for _ in range(n):
        length, shift = 0, 0
        while True:
            byte = content[at]
            at += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        lengths.append(length)
    array = np.empty(n, STRING)
    for i, length in enumerate(lengths):
        array[i] = content[at : at + length]
        at += length
    return array


class Graph:
    """A graph whose nodes are added by hand. The name of a node is that of its first output."""

    def __init__(self, device: str) -> None:
        self.definition = _pb["GraphDef"](versions=_pb["Versions"](producer=_GRAPH_VERSION))
        self._device = device

    def node(self, name: str, op: str, *inputs: str, **attrs: Any) -> str:
        """Adds a node. Attributes are ints, bools, strings, dtypes, shapes (tuples), lists of dtypes or shapes, arrays."""
        node = self.definition.node.add(name=name, op=op, input=inputs, device=self._device)
        for key, value in attrs.items():
            node.attr.add(key=key, value=_attribute(value))
        return name


def _attribute(value: Any) -> Any:
    made = _pb["AttrValue"]()
    if isinstance(value, bool):
        made.b = value
    elif isinstance(value, int):
        made.i = value
    elif isinstance(value, str):
        made.s = value.encode()
    elif isinstance(value, np.dtype):
        made.type = _DTYPES[value][0]
    elif isinstance(value, tuple):
        made.shape.CopyFrom(_shape(value))
    elif isinstance(value, np.ndarray):
        made.tensor.CopyFrom(encode(value))
    else:
        made.list.SetInParent()
        for v in value:
            if isinstance(v, np.dtype):
                made.list.type.append(_DTYPES[v][0])
            else:
                made.list.shape.append(_shape(v))
    return made


def is_lost(error: StatusError) -> bool:
    """Reports whether an error says that a task, a session or a connection was lost."""
    return error.name in ("UNAVAILABLE", "ABORTED")


T = TypeVar("T")

_FIRST_WAIT = 0.05  # seconds before a step is repeated for the first time
_LONGEST_WAIT = 2.0
_NEXT_LOSS = 30.0  # seconds; a step that lasts so long was at its server: if it is lost then, that is another loss
_CLOSE_TIMEOUT = 5.0  # seconds


def retried(limit: Optional[float], step: Callable[[], T], stop: threading.Event) -> T:
    """Repeats a step that fails because something was lost, for `limit` seconds after each loss."""
    until, wait = None, _FIRST_WAIT
    while True:
        began = time.monotonic()
        try:
            return step()
        except StatusError as error:
            now = time.monotonic()
            if until is None or now - began >= _NEXT_LOSS:
                until, wait = now + (limit or 0), _FIRST_WAIT
            if not is_lost(error) or now + wait > until or stop.wait(wait):
                raise
            wait = min(2 * wait, _LONGEST_WAIT)


class Session:
    """A session of a graph, which is opened when it is first used, and again after it was lost.

    A step that fails is not repeated here. The methods may be called from several threads.
    """

    def __init__(
        self, connection: Connection, graph: Graph, failure: Callable[[int, str], StatusError]
    ) -> None:
        self._connection = connection
        self._graph = graph
        self._failure = failure
        self._lock = threading.Lock()  # held while a session is opened
        self._handle: Optional[str] = None

    def run(
        self,
        feeds: Mapping[str, np.ndarray[Any, Any]],
        fetches: Sequence[str] = (),
        targets: Sequence[str] = (),
        started: Optional[Callable[[Any], None]] = None,
        timeout: Optional[float] = None,
    ) -> List[np.ndarray[Any, Any]]:
        """Runs a step. `started` gets grpc's future of each call, whose cancel() makes the step fail with CANCELLED."""
        handle = self._open(started, timeout)
        request = _pb["RunStepRequest"](session_handle=handle, fetch=fetches, target=targets)
        for name, array in feeds.items():
            request.feed.add(name=name, tensor=encode(array))
        try:
            answer = self._call("RunStep", request, started, timeout)
        except StatusError as error:
            if is_lost(error):
                self._lose(handle)
            raise
        found = {t.name: t.tensor for t in answer.tensor}
        return [decode(found[name]) for name in fetches]

    def close(self) -> None:
        """Closes the session if there is one. Errors do not matter: the server closes what nobody uses."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            call = self._close(handle)
            if call is not None:
                call.exception()

    def _open(
        self, started: Optional[Callable[[Any], None]], timeout: Optional[float]
    ) -> str:
        with self._lock:
            if self._handle is None:
                request = _pb["CreateSessionRequest"](graph_def=self._graph.definition)
                answer = self._call("CreateSession", request, started, timeout)
                self._handle = answer.session_handle
            return self._handle

    def _lose(self, handle: str) -> None:
        """Has the next step open another session."""
        with self._lock:
            if self._handle != handle:
                return
            self._handle = None
        self._close(handle)

    def _close(self, handle: str) -> Any:
        """Has the server close a session. Returns grpc's future of that, or None if there is no call: the token's file may be gone."""
        try:
            return self._connection.begin(
                "tensorflow.MasterService/CloseSession",
                _pb["CloseSessionRequest"](session_handle=handle),
                _pb["CloseSessionResponse"],
                _CLOSE_TIMEOUT,
            )
        except (OSError, ValueError, ClosedError):
            return None

    def _call(
        self,
        method: str,
        request: Any,
        started: Optional[Callable[[Any], None]],
        timeout: Optional[float],
    ) -> Any:
        try:
            call = self._connection.begin(
                f"tensorflow.MasterService/{method}", request, _pb[f"{method}Response"], timeout
            )
        except ClosedError as error:
            raise self._failure(error.code, error.message) from None
        try:
            if started is not None:
                started(call)
            return call.result()
        except grpc.RpcError as error:
            raise self._failure(*status_of(error)) from None
        except grpc.FutureCancelledError:
            raise self._failure(CODES.index("CANCELLED"), "the step was cancelled") from None
        except BaseException:
            call.cancel()
            raise
