"""One call of an op with its inputs: how it is written down and put into a graph."""
import itertools
import os

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import op_def_library, op_def_registry

raw = tf.raw_ops
_numbers = itertools.count()


def fresh():
    """A name that no other resource on the servers has."""
    return "edges_%d_%d" % (os.getpid(), next(_numbers))


class Kept:
    """An input that is a resource, a reference or a variant, made of arrays (parts).

    make gives the tensor that the op takes; after gives what the input holds when the op is done.
    """

    def __init__(self, *parts, **more):
        self.parts, self.more = list(parts), more

    def rebuilt(self, parts):
        return type(self)(*parts, **self.more)

    def after(self):
        return []

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, ", ".join([written(p) for p in self.parts] + ["%s=%r" % i for i in self.more.items()]))


class Var(Kept):
    """A variable with a value, by handle."""

    def make(self, feed):
        value = feed(self.parts[0])
        handle = raw.VarHandleOp(dtype=value.dtype, shape=None, shared_name=fresh())
        with tf.control_dependencies([raw.AssignVariableOp(resource=handle, value=value)]):
            self._handle = tf.identity(handle)
        self._dtype = value.dtype
        return self._handle

    def after(self):
        return [raw.ReadVariableOp(resource=self._handle, dtype=self._dtype)]


class Ref(Kept):
    """A variable with a value, by reference."""

    def make(self, feed):
        value = feed(self.parts[0])
        variable = raw.VariableV2(shape=self.parts[0].shape, dtype=value.dtype, shared_name=fresh())
        self._ref = raw.Assign(ref=variable, value=value)
        return self._ref

    def after(self):
        return [tf.identity(self._ref)]


class TensorList(Kept):
    """A list of tensors, made of the rows of one."""

    def make(self, feed):
        value = feed(self.parts[0])
        return raw.TensorListFromTensor(tensor=value, element_shape=tf.constant(self.more.get("element_shape", self.parts[0].shape[1:]), tf.int32))


class TensorLists(Kept):
    """A vector of such lists."""

    def make(self, feed):
        return raw.Pack(values=[TensorList(p).make(feed) for p in self.parts])


class TensorMap(Kept):
    """A map of tensors: keys and values, the rows of two tensors."""

    def make(self, feed):
        keys, values = (feed(p) for p in self.parts)
        handle = raw.EmptyTensorMap()
        for i in range(self.parts[0].shape[0]):
            handle = raw.TensorMapInsert(input_handle=handle, key=keys[i], value=values[i])
        return handle


class Optional(Kept):
    """An optional with components."""

    def make(self, feed):
        return raw.OptionalFromValue(components=[feed(p) for p in self.parts]) if self.parts else raw.OptionalNone()


class Encoded(Kept):
    """A ragged tensor in a variant: splits and values."""

    def make(self, feed):
        return raw.RaggedTensorToVariant(rt_nested_splits=[feed(p) for p in self.parts[:-1]], rt_dense_values=feed(self.parts[-1]),
                                         batched_input=self.more["batched"])


class SparseVariant(Kept):
    """A sparse tensor in variants: indices, values and shape."""

    def make(self, feed):
        return raw.SerializeSparse(sparse_indices=feed(self.parts[0]), sparse_values=feed(self.parts[1]), sparse_shape=feed(self.parts[2]),
                                   out_type=tf.variant)


class Compressed(Kept):
    """A sparse matrix in compressed rows: indices, values and shape."""

    def make(self, feed):
        indices, shape = (tf.constant(self.parts[i]) for i in (0, 2))  # the client has to know the rank
        return raw.SparseTensorToCSRSparseMatrix(indices=indices, values=feed(self.parts[1]), dense_shape=shape)


class Table(Kept):
    """A lookup table with keys and values."""

    def make(self, feed):
        keys, values = (feed(p) for p in self.parts)
        self._types = keys.dtype, values.dtype
        make, load = (raw.HashTableV2, raw.InitializeTableV2) if self.more["static"] else (raw.MutableHashTableV2, raw.LookupTableImportV2)
        handle = make(key_dtype=keys.dtype, value_dtype=values.dtype, shared_name=fresh())
        with tf.control_dependencies([load(table_handle=handle, keys=keys, values=values)]):
            self._handle = tf.identity(handle)
        return self._handle

    def after(self):
        return [raw.LookupTableSizeV2(table_handle=self._handle)]


class TensorArray(Kept):
    """A TensorArray with the rows of a tensor written to it. Its flow is the input flow_in."""

    def make(self, feed):
        value = feed(self.parts[0])
        n = self.parts[0].shape[0]
        self._handle, flow = raw.TensorArrayV3(size=n, dtype=value.dtype, dynamic_size=self.more.get("dynamic", False),
                                               clear_after_read=False, element_shape=None)
        if n:
            flow = raw.TensorArrayScatterV3(handle=self._handle, indices=tf.range(n), value=value, flow_in=flow)
        self.flow, self._dtype = flow, value.dtype
        return self._handle

    def after(self):
        size = raw.TensorArraySizeV3(handle=self._handle, flow_in=self.flow)
        return [size, raw.TensorArrayGatherV3(handle=self._handle, indices=tf.range(size), flow_in=self.flow, dtype=self._dtype)]


class Flow(Kept):
    """The flow of the call's TensorArray."""


KEPT = {c.__name__: c for c in (Var, Ref, TensorList, TensorLists, TensorMap, Optional, Encoded, SparseVariant, Compressed, Table, TensorArray, Flow)}


def parts_of(value):
    """The arrays of an input."""
    if isinstance(value, list):
        return [p for v in value for p in parts_of(v)]
    return [p for v in value.parts for p in parts_of(v)] if isinstance(value, Kept) else [value]


def with_parts(value, parts):
    """The input with other arrays, taken from an iterator."""
    if isinstance(value, list):
        return [with_parts(v, parts) for v in value]
    if isinstance(value, Kept):
        return value.rebuilt([with_parts(v, parts) for v in value.parts])
    return next(parts)


class Call:
    """An op, its inputs by name (arrays, lists of them, or Kept) and the attributes that inputs do not tell."""

    def __init__(self, op, inputs, attrs=None, constant=False):
        self.op, self.inputs, self.attrs, self.constant = op, inputs, dict(attrs or {}), constant

    def arrays(self):
        return [p for v in self.inputs.values() for p in parts_of(v)]

    def changed(self, arrays=None, attrs=None, constant=None):
        parts = iter(arrays if arrays is not None else self.arrays())
        return Call(self.op, {k: with_parts(v, parts) for k, v in self.inputs.items()}, self.attrs if attrs is None else attrs,
                    self.constant if constant is None else constant)

    def types(self):
        """The element types of the inputs and of the attributes, for the tally."""
        return {tf.as_dtype(a.dtype).name for a in self.arrays()} | {v for k, v in self.attrs.items() if isinstance(v, str) and k.lower().endswith("type")}

    def build(self, name):
        """Puts the call into the current graph. Gives the tensors to fetch and what is fed."""
        fed = {}

        def feed(array):
            # The client aborts where it infers shapes from constants of the small types.
            if self.constant and not array.dtype.fields and array.dtype not in (np.int8, np.int16):
                return tf.constant(array, tf.as_dtype(array.dtype))
            holder = tf.placeholder(tf.as_dtype(array.dtype))
            fed[holder] = array
            return holder

        with tf.name_scope(name):
            given, kept = {}, []

            def tensor(value):
                if isinstance(value, list):
                    return [tensor(v) for v in value]
                if isinstance(value, Flow):
                    return next(k for k in kept if isinstance(k, TensorArray)).flow
                if not isinstance(value, Kept):
                    return feed(value)
                kept.append(value)
                return value.make(feed)

            for key, value in self.inputs.items():
                given[key] = tensor(value)
            defaults = {x.name: None for x in declaration(self.op).attr if x.HasField("default_value") and x.name not in inferred(self.op)}
            op = next(x for x in op_def_library._apply_op_helper(self.op, **given, **{**defaults, **self.attrs}) if isinstance(x, tf.Operation))
            outputs, fetch = op.outputs, []
            if "Switch" in self.op:  # all outputs but one are dead
                outputs = raw.Merge(inputs=outputs)
            for out in outputs:
                if out.dtype == tf.variant:
                    fetch += read_variant(self, out)
                elif out.dtype != tf.resource and not out.dtype._is_ref_dtype:
                    fetch.append(out)
            with tf.control_dependencies([op]):
                for k in kept:
                    fetch += k.after()
        return fetch + ([] if fetch else [op]), fed

    def __repr__(self):
        inputs = ", ".join("%s=%s" % (k, written(v)) for k, v in self.inputs.items())
        return "Call(%r, dict(%s), %r%s)" % (self.op, inputs, self.attrs, ", constant=True" if self.constant else "")


def read_variant(call, out):
    """What a variant holds, as tensors."""
    if "Ragged" in call.op or "Serialize" in call.op or "Composite" in call.op:
        return []  # the op that decodes it has a row of its own
    if "SparseMatrix" in call.op:
        dtype = call.attrs.get("type") or next(tf.as_dtype(a.dtype) for a in call.arrays() if a.dtype.kind in "fc")
        return list(raw.CSRSparseMatrixToSparseTensor(sparse_matrix=out, type=dtype))
    if "Optional" in call.op:
        return [raw.OptionalHasValue(optional=out)]
    if "Map" in call.op:
        return [raw.TensorMapSize(input_handle=out)]
    if call.op == "TensorListPushBackBatch":
        lists = raw.Unpack(value=out, num=len(call.inputs["input_handles"].parts))
        return [raw.TensorListStack(input_handle=x, element_shape=tf.constant(-1), element_dtype=call.inputs["tensor"].dtype) for x in lists]
    if "List" in call.op:
        dtype = call.attrs.get("element_dtype") or next((tf.as_dtype(a.dtype) for v in call.inputs.values() if isinstance(v, TensorList)
                                                         for a in v.parts), None) or tf.as_dtype(call.inputs["tensor"].dtype)
        return [raw.TensorListLength(input_handle=out), raw.TensorListElementShape(input_handle=out, shape_type=tf.int64)] + (
            [] if call.op in ("TensorListReserve", "TensorListResize", "EmptyTensorList") else
            [raw.TensorListStack(input_handle=out, element_shape=tf.constant(-1), element_dtype=dtype)])
    return []


def written(value):
    """An input as Python, in the terms of read."""
    if isinstance(value, list):
        return "[%s]" % ", ".join(written(v) for v in value)
    if isinstance(value, Kept):
        return repr(value)
    flat = value.reshape(-1)
    if value.dtype.fields:
        flat = flat.view(value.dtype[0])
    items = [plain(x) for x in flat]
    if len(items) > 1 and len(set(items)) == 1:
        items = items[:1]
    content = "[%s]" % ", ".join(items) if value.ndim != 0 and not (len(items) == 1 and flat.size > 1) else items[0]
    extra = ", %r" % (value.shape,) if value.ndim != 1 and value.ndim or value.ndim and not content.startswith("[") else ""
    return "a(%s, %r%s)" % (content, tf.as_dtype(value.dtype).name, extra)


def plain(x):
    if isinstance(x, (bytes, str, bool, np.bool_)):
        return repr(bool(x)) if isinstance(x, np.bool_) else repr(x)
    if isinstance(x, (complex, np.complexfloating)):
        return "c(%s, %s)" % (plain(x.real), plain(x.imag))
    if np.issubdtype(type(x), np.integer):
        return str(int(x))
    if tf.as_dtype(x.dtype).is_integer:  # int4, uint4
        return str(int(x))
    text = str(x)  # the fewest digits that tell the number in its own type
    return text if any(c in text for c in ".en") else text + "."


def a(content, dtype, shape=None):
    """An array of a TensorFlow type: a list, or one value that fills the shape."""
    base = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    array = np.array(content, base[0] if base.fields else base).view(base)
    return array if shape is None else np.full(shape, array) if array.ndim == 0 else array.reshape(shape)


def read(text):
    """The call that repr gave."""
    return eval(text, dict(KEPT, Call=Call, a=a, c=complex, nan=np.nan, inf=np.inf))


def declaration(op):
    return op_def_registry.get(op)


def inferred(op):
    """The attributes that inputs tell."""
    return {x for arg in declaration(op).input_arg for x in (arg.type_attr, arg.number_attr, arg.type_list_attr)}
