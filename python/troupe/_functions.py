"""Calls the Python functions of this program's graphs for a server that the program owns.

Functions are TensorFlow's: those that ``tf.py_func``, ``tf.numpy_function``, ``tf.py_function`` and
``Dataset.from_generator`` have registered in this process. TensorFlow and NumPy are imported when the
first one is called. Errors, arguments and results are those of TensorFlow's own kernel
(tensorflow/python/lib/core/py_func.cc).
"""

from __future__ import annotations

import ctypes
import functools
import os
import secrets
import socket
import struct
import sys
import traceback
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

REFUSED, ACCEPTED, ACCEPTED_NEAR = 0, 1, 2
"""The first byte that a connection receives; `ACCEPTED_NEAR` if this program can access the server's
memory."""

_CALL, _TAKEN, _RESULTS, _ERROR, _ROOM, _WRITTEN = range(1, 7)
_PREFIX = struct.Struct("<BI")
_CALL_HEAD = struct.Struct("<BHHH")
_DESCRIPTION = struct.Struct("<BBBBQQ")
_NEAR_FROM = 128 << 10  # bytes from which a result is written into the server's memory
_BUFFER = 256 << 10  # bytes
_LONGEST_ERROR = 64 << 10  # characters
_STRING = 7  # tensorflow.DT_STRING

# TensorFlow's codes.
_UNKNOWN, _INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _FAILED_PRECONDITION = 2, 3, 8, 9
_OUT_OF_RANGE, _UNIMPLEMENTED, _INTERNAL = 11, 12, 13


class _Refused(Exception):
    """Fails a call with one of TensorFlow's codes."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Input(NamedTuple):
    """The description of an input in a call."""

    dtype: int
    shape: Tuple[int, ...]
    address: int  # in the server's memory, or 0 for bytes that follow
    size: int


class _Call(NamedTuple):
    token: str
    eager: bool
    outputs: bytes  # their types
    inputs: Tuple[_Input, ...]


def _parse(head: bytes) -> _Call:
    eager, name, inputs, outputs = _CALL_HEAD.unpack_from(head)
    at = _CALL_HEAD.size
    token = head[at : at + name].decode()
    at += name
    types = head[at : at + outputs]
    at += outputs
    seen = []
    for _ in range(inputs):
        dtype, rank, elsewhere, _, size, address = _DESCRIPTION.unpack_from(head, at)
        at += _DESCRIPTION.size
        shape = struct.unpack_from(f"<{rank}Q", head, at)
        at += 8 * rank
        seen.append(_Input(dtype, shape, address if elsewhere else 0, size))
    return _Call(token, bool(eager), types, tuple(seen))


_numbered = False  # whether this process's functions have numbers of their own


def number_apart() -> None:
    """Numbers the functions that TensorFlow registers in this process from now on from a random number on.

    TensorFlow counts from 0 in each process: ``pyfunc_0`` is a function of each program that has one, and a node that comes
    to a task of another program than its own would call that one's. With numbers of its own, a program does not know the
    functions of others, and refuses them by name. Forks have numbers of their own, too.
    """
    global _numbered
    registry = _registry()
    if _numbered or not hasattr(registry, "_unique_id"):
        return
    _numbered = True
    with registry._lock:
        registry._unique_id = secrets.randbits(62)


def _registry() -> Any:
    """TensorFlow's registry of functions, or None if it is not imported."""
    return getattr(sys.modules.get("tensorflow.python.ops.script_ops"), "_py_funcs", None)


def _number_fork() -> None:
    if _numbered:  # without the lock: a thread that only the parent has may hold it
        _registry()._unique_id = secrets.randbits(62)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_fork)

_parse_again = functools.lru_cache(maxsize=256)(_parse)  # calls in a loop have the same head


class _Line:
    """A connection, read through a buffer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._view = memoryview(bytearray(_BUFFER))
        self._start = self._end = 0
        self.send = connection.sendall

    def take(self, size: int) -> memoryview:
        """Returns the next bytes, at most _BUFFER, which are valid until the next call of a method."""
        start = self._start
        if self._end - start < size:
            left = self._end - start
            self._view[:left] = self._view[start : self._end]
            start, self._end = 0, left
            while self._end < size:
                got = self._connection.recv_into(self._view[self._end :])
                if not got:
                    raise EOFError
                self._end += got
        self._start = start + size
        return self._view[start : start + size]

    def into(self, target: memoryview) -> None:
        """Fills the target."""
        at = min(len(target), self._end - self._start)
        target[:at] = self.take(at)
        while at < len(target):
            got = self._connection.recv_into(target[at:])
            if not got:
                raise EOFError
            at += got

    def message(self) -> Tuple[int, bytes]:
        """Reads the kind and the head of a message."""
        kind, size = _PREFIX.unpack(self.take(_PREFIX.size))
        if size <= _BUFFER:
            return kind, bytes(self.take(size))
        head = bytearray(size)
        self.into(memoryview(head))
        return kind, bytes(head)


class _IOVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class _Memory:
    """The memory of another process, if Linux allows this process to access it."""

    def __init__(self, pid: int) -> None:
        """Raises OSError or AttributeError if the system has no such calls."""
        library = ctypes.CDLL(None, use_errno=True)
        self._pid = pid
        self._read, self._write = library.process_vm_readv, library.process_vm_writev
        for call in (self._read, self._write):
            call.restype = ctypes.c_ssize_t
            call.argtypes = [
                ctypes.c_int,
                ctypes.POINTER(_IOVec),
                ctypes.c_ulong,
                ctypes.POINTER(_IOVec),
                ctypes.c_ulong,
                ctypes.c_ulong,
            ]

    def _move(self, call: Any, here: int, there: int, size: int) -> None:
        while size > 0:
            ours, theirs = _IOVec(here, size), _IOVec(there, size)
            moved = call(self._pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
            if moved <= 0:
                number = ctypes.get_errno()
                raise OSError(number, f"the memory of process {self._pid} cannot be used")
            here, there, size = here + moved, there + moved, size - moved

    def read(self, array: Any, there: int) -> None:
        self._move(self._read, array.ctypes.data, there, array.nbytes)

    def write(self, array: Any, there: int) -> None:
        self._move(self._write, array.ctypes.data, there, array.nbytes)


def _memory(pid: int, address: int, number: int) -> Optional[_Memory]:
    """Returns the memory of a process if `number` is found at `address`, otherwise None."""
    found = ctypes.c_uint64()
    try:
        memory = _Memory(pid)
        memory._move(memory._read, ctypes.addressof(found), address, 8)
    except (OSError, AttributeError, TypeError):  # TypeError: CDLL(None), on Windows
        return None
    return memory if found.value == number else None


def serve(connection: socket.socket, pid: int, address: int, number: int) -> None:
    """Answers the calls on a connection of the process `pid` until it ends.

    Args:
        address: the address of `number` in the process's memory.
    """
    memory = _memory(pid, address, number)
    try:
        connection.sendall(bytes([ACCEPTED if memory is None else ACCEPTED_NEAR]))
        line = _Line(connection)
        while True:
            kind, head = line.message()
            if kind != _CALL:
                return
            call = _parse_again(head) if len(head) < 1024 else _parse(head)
            _answer(line, memory, call)
    except (OSError, EOFError):
        return  # the server has ended, or has abandoned the call


def _answer(line: _Line, memory: Optional[_Memory], call: _Call) -> None:
    arguments = [_argument(line, memory, given) for given in call.inputs]
    if any(given.address for given in call.inputs):
        line.send(_PREFIX.pack(_TAKEN, 0))
    try:
        results = _call(call, arguments)
        del arguments
        described, contents, away = _describe(results, memory is not None)
    except BaseException as error:  # pylint: disable=broad-except
        text = str(error) if isinstance(error, _Refused) else _text(error)
        message = struct.pack("<I", _code(error)) + text[:_LONGEST_ERROR].encode(errors="replace")
        line.send(_PREFIX.pack(_ERROR, len(message)) + message)
        return
    parts = [_PREFIX.pack(_RESULTS, len(described)) + described]
    for content in contents:
        if len(content) < _NEAR_FROM:
            parts.append(content)
            continue
        line.send(b"".join(parts))
        line.send(content)
        parts = []
    if parts:
        line.send(b"".join(parts))
    if not away:
        return
    kind, head = line.message()
    if kind != _ROOM or len(head) != 8 * len(away):
        raise EOFError
    assert memory is not None
    for array, there in zip(away, struct.unpack(f"<{len(away)}Q", head)):
        memory.write(array, there)
    line.send(_PREFIX.pack(_WRITTEN, 0))


def _argument(line: _Line, memory: Optional[_Memory], given: _Input) -> Any:
    """Reads an input: an array, or for rank 0 a NumPy scalar, as from PyArray_Return."""
    import numpy

    if given.size <= _NEAR_FROM and not given.address:
        content = numpy.frombuffer(bytearray(line.take(given.size)), numpy.uint8)
    else:
        content = numpy.empty(given.size, numpy.uint8)
        if given.address:
            assert memory is not None
            memory.read(content, given.address)
        elif given.size:
            line.into(memoryview(content))
    if given.dtype == _STRING:
        array = _strings(content, given.shape)
    else:
        array = content.view(_numpy_type(given.dtype)).reshape(given.shape)
    return array if given.shape else array[()]


def _strings(content: Any, shape: Sequence[int]) -> Any:
    """Makes an array of bytes objects from the lengths and the data that follows them."""
    import numpy

    count = 1
    for size in shape:
        count *= size
    array = numpy.empty(count, object)
    data, at = content.tobytes(), 8 * count
    for index, size in enumerate(struct.unpack_from(f"<{count}Q", data)):
        array[index] = data[at : at + size]
        at += size
    return array.reshape(shape)


@functools.lru_cache(maxsize=None)
def _numpy_type(dtype: int) -> Any:
    import numpy
    from tensorflow.python.framework import dtypes

    found = numpy.dtype(dtypes.as_dtype(dtype).as_numpy_dtype)
    return found[0] if found.fields else found  # functions receive quantized numbers as integers


@functools.lru_cache(maxsize=256)
def _tensor_type(dtype: Any) -> int:
    """Returns TensorFlow's number for a NumPy type.

    Raises:
        _Refused: it has none.
    """
    from tensorflow.python.framework import dtypes

    if dtype.char in "OSU":
        return _STRING
    try:
        return int(dtypes.as_dtype(dtype).as_datatype_enum)
    except TypeError:
        raise _Refused(_UNIMPLEMENTED, f"Unsupported numpy type: {dtype}") from None


def _call(call: _Call, arguments: List[Any]) -> List[Tuple[int, Any]]:
    """Calls a function, and returns the type and the array of each result."""
    scripts = sys.modules.get("tensorflow.python.ops.script_ops")
    if scripts is None:
        raise ValueError(f"Could not find callback with key={call.token} in the registry.")
    if call.eager:
        return _call_eagerly(call, arguments, scripts)
    found = scripts._py_funcs(call.token, None, arguments)
    if not isinstance(found, list):
        if found.ndim == 0 and found.dtype.char == "O" and found[()] is None:
            return []
        found = [found]
    return [_native(array) for array in found]


def _native(array: Any) -> Tuple[int, Any]:
    """Returns an array's type, and the array in native byte order."""
    dtype = array.dtype
    if not dtype.isnative:
        array = array.astype(dtype.newbyteorder("="))
    return _tensor_type(array.dtype), array


def _call_eagerly(call: _Call, arguments: List[Any], scripts: Any) -> List[Tuple[int, Any]]:
    import numpy
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    with context.eager_mode():
        tensors = [
            ops.convert_to_tensor(argument, dtype=given.dtype)
            for argument, given in zip(arguments, call.inputs)
        ]
        found = scripts._py_funcs(call.token, None, tensors)
        if found is None:
            found = []
        results = []
        for tensor in found if isinstance(found, list) else [found]:
            if not isinstance(tensor, ops.EagerTensor):
                raise _Refused(
                    _FAILED_PRECONDITION,
                    f"Expected EagerTensor, found PyObject of type: {type(tensor).__name__}",
                )
            dtype = tensor.dtype.as_datatype_enum
            array = tensor.numpy()
            results.append((dtype, numpy.asarray(array, object if dtype == _STRING else None)))
        return results


def _describe(
    results: List[Tuple[int, Any]], near: bool
) -> Tuple[bytes, List["memoryview | bytes"], List[Any]]:
    """Returns the head of results, the bytes that follow it, and the arrays to write into the server's
    memory."""
    import numpy

    head = [struct.pack("<H", len(results))]
    contents: List["memoryview | bytes"] = []
    away: List[Any] = []
    for dtype, array in results:
        if dtype == _STRING:
            content = _packed(array)
        elif array.nbytes < _NEAR_FROM:
            content = array.tobytes()
        else:
            flat = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
            content = flat.data
        size = len(content)
        elsewhere = near and size >= _NEAR_FROM
        if elsewhere:
            away.append(numpy.frombuffer(content, numpy.uint8))
        else:
            contents.append(content)
        head.append(_DESCRIPTION.pack(dtype, array.ndim, elsewhere, 0, size, 0))
        head.append(struct.pack(f"<{array.ndim}Q", *array.shape))
    return b"".join(head), contents, away


def _packed(array: Any) -> bytes:
    """Encodes an array of strings as lengths and bytes."""
    values = []
    for value in array.ravel().tolist():
        if isinstance(value, str):
            value = value.encode()
        elif not isinstance(value, bytes):
            raise _Refused(_INTERNAL, f"Unsupported object type {type(value).__name__}")
        values.append(value)
    return b"".join([struct.pack(f"<{len(values)}Q", *map(len, values)), *values])


def _code(error: BaseException) -> int:
    """Returns TensorFlow's code for an exception."""
    if isinstance(error, _Refused):
        return error.code
    for kinds, code in (
        ((ValueError, TypeError), _INVALID_ARGUMENT),
        (StopIteration, _OUT_OF_RANGE),
        (MemoryError, _RESOURCE_EXHAUSTED),
        (NotImplementedError, _UNIMPLEMENTED),
    ):
        if isinstance(error, kinds):
            return code
    return _UNKNOWN


def _text(error: BaseException) -> str:
    """Returns the text of an exception, with its traceback."""
    kind, trace = type(error), error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next  # begin where TensorFlow's traceback does
    lines = traceback.format_exception(kind, error, trace)
    return f"{kind.__name__}: {error}\n" + "\n".join(lines)
