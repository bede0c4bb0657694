"""Makes calls by seed: the types from TensorFlow's own kernels, the inputs from the rows of ops_rows_*.py."""
import zlib

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels

import ops_values as v
from ops_call import Call, declaration, inferred

ROWS = {}
INDEX = (np.dtype(np.int32), np.dtype(np.int64))
PLAIN = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
         "complex64", "complex128", "string"]
SMALL = ["float8_e5m2", "float8_e4m3fn", "int4", "uint4", "qint8", "quint8", "qint32", "qint16", "quint16"]


def row(names):
    """Declares how the inputs of ops are made: the function gets a Maker and gives the inputs by name."""

    def declare(function):
        for name in names.split():
            if name in ROWS:
                raise ValueError("two rows for " + name)
            ROWS[name] = function
        return function

    return declare


def _type_names(attr_value):
    return [tf.as_dtype(t).name for t in attr_value.list.type]


def known_types(op):
    """What each type attribute of an op may be, of the types that calls are made of."""
    d = declaration(op)
    resource = any(a.is_ref or a.type == tf.resource.as_datatype_enum for a in d.input_arg)
    known = PLAIN + ([] if resource else SMALL)  # TensorFlow's variables of the small types fail in several ways
    return {a.name: [t for t in _type_names(a.allowed_values) if t in known] or known for a in d.attr if a.type == "type"}


class Maker:
    """What a row makes its inputs with."""

    def __init__(self, op, rng, types=None):
        self.op, self.rng, self.declaration, self.attrs, self.constant = op, rng, declaration(op), {}, False
        self.types = self._choose_types() if types is None else types

    def _choose_types(self):
        """An element type for each type attribute, such that TensorFlow has a CPU kernel for them."""
        declared = known_types(self.op)
        known = [*PLAIN, *SMALL]
        rows = []
        for k in kernels.get_registered_kernels_for_op(self.op).kernel:
            types = {c.name: [t for t in _type_names(c.allowed_values) if t in known and t in declared.get(c.name, [t])] for c in k.constraint}
            if k.device_type in ("CPU", "DEFAULT") and all(types.values()):
                rows.append(types)
        chosen = rows[int(self.rng.integers(len(rows)))] if rows else {}
        types = {}
        for name, allowed in declared.items():
            plain = [t for t in allowed if t in PLAIN]
            types[name] = str(self.rng.choice(chosen.get(name) or (allowed if self.rng.random() < .1 else plain) or PLAIN))
        return types

    # Types and attributes

    def dtype(self, attr):
        """The NumPy type of a type attribute, or of a type's name."""
        return np.dtype(tf.as_dtype(self.types.get(attr, attr)).as_numpy_dtype)

    def set(self, **attrs):
        self.attrs.update(attrs)

    def flags(self, *names, chance=.4):
        """Boolean attributes at random."""
        for name in names:
            if self.chance(chance):
                self.attrs[name] = bool(self.rng.integers(2))

    # Numbers

    def chance(self, p):
        return self.rng.random() < p

    def int(self, low, high):
        """A number in [low, high]."""
        return int(self.rng.integers(low, high, endpoint=True))

    def pick(self, *options):
        return options[int(self.rng.integers(len(options)))]

    # Arrays

    def shape(self, low=0, high=4, **more):
        return v.shape(self.rng, low, high, **more)

    def array(self, dtype, shape, palette="any"):
        return v.values(self.rng, self.dtype(dtype), shape, palette)

    def any(self, dtype="T", low=0, high=4, palette="any", **more):
        return self.array(dtype, self.shape(low, high, **more), palette)

    def ints(self, content, dtype="int32"):
        """Given numbers; those that the type does not hold become its limits."""
        dtype = self.dtype(dtype)
        if dtype.kind in "iu" and dtype.itemsize < 8:
            content = np.clip(np.asarray(content, np.int64), np.iinfo(dtype).min, np.iinfo(dtype).max)
        return np.asarray(content, dtype)

    def index(self, dtype, shape, bound, bad=.05):
        """Indices in [0, bound), with a chance of bad ones."""
        dtype = self.dtype(dtype)
        out = self.rng.integers(0, max(bound, 1), shape).astype(dtype)
        if out.size and self.chance(bad):
            info = np.iinfo(dtype)
            out.reshape(-1)[int(self.rng.integers(out.size))] = max(self.pick(-1, min(bound, info.max), info.max, info.min, -2), info.min)
        return out

    def axis(self, rank, bad=.05):
        """An axis in [-rank, rank), with a chance of a bad one."""
        if rank == 0 or self.chance(bad):
            return self.pick(0, -1, rank, -rank - 1, 100)
        return self.int(-rank, rank - 1)

    def bent(self, shape, bad=.04):
        """The shape, with a chance of one that does not fit."""
        if not self.chance(bad):
            return tuple(shape)
        shape = list(shape)
        if shape and self.chance(.6):
            shape[self.int(0, len(shape) - 1)] += 1
        elif shape and self.chance(.5):
            shape.pop()
        else:
            shape.append(1)
        return tuple(shape)


def generic(m):
    """Inputs of one random shape, mostly: what elementwise ops take."""
    shape, inputs = m.shape(), {}
    for arg in m.declaration.input_arg:
        if arg.type_list_attr:
            inputs[arg.name] = [m.array(str(m.rng.choice(PLAIN)), m.shape()) for _ in range(m.int(1, 3))]
        else:
            dtype = arg.type_attr or tf.as_dtype(arg.type).name
            one = lambda: m.array(dtype, m.bent(shape))
            inputs[arg.name] = [one() for _ in range(m.int(1, 4))] if arg.number_attr else one()
    return inputs


def broadcasting(m):
    """Two inputs whose shapes broadcast."""
    full = m.shape(high=5)
    shapes = [full, v.broadcast(m.rng, full)]
    if m.chance(.5):
        shapes.reverse()
    return {arg.name: m.array(arg.type_attr or tf.as_dtype(arg.type).name, s) for arg, s in zip(m.declaration.input_arg, shapes)}


def make(op, seed, types=None):
    """The call of an op that a seed stands for, of given types or of some of TensorFlow's kernels."""
    m = Maker(op, np.random.default_rng([zlib.crc32(op.encode()), seed]), types)
    inputs = ROWS.get(op, generic)(m)
    told, own = inferred(op), {a.name for a in m.declaration.attr}
    attrs = dict({k: t for k, t in m.types.items() if k in own and k not in told}, **m.attrs)
    return Call(op, inputs, attrs, constant=bool(m.constant or m.rng.random() < .3))
