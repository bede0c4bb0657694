"""Writes tensorflow.pb.gz: what TensorFlow infers for ops with random shapes, attributes and constants.

    python generate.py ops.txt [seed]

ops.txt names the ops, one a line. The file is a gzipped GraphDef with a node for each case: the op with its
attributes, and _in (the inputs' shapes), _const_N (the value of input N), _handle_types_N and _handle_shapes_N (what is
behind handle N), and _out (the outputs' shapes) or _error (the message).
"""
import gzip
import os
import random
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, graph_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry, ops as tf_ops

TYPES = [tf.float32, tf.int32, tf.int64, tf.float64, tf.string, tf.bool, tf.uint8, tf.complex64]
INTS = (tf.int32, tf.int64)

# What random values would hardly hit: choices by attribute, or by op and attribute.
ATTRS = {
    "strides": lambda r, op: [1, r.choice([1, 1, 2, 3]), r.choice([1, 2]), 1] if "3D" not in op else [1, r.choice([1, 2]), 1, 2, 1],
    "ksize": lambda r, op: [1, r.choice([1, 2, 3]), r.choice([1, 2]), 1] if "3D" not in op else [1, r.choice([1, 2]), 1, 2, 1],
    "dilations": lambda r, op: [1, r.choice([1, 1, 2]), 1, 1] if "3D" not in op else [1, r.choice([1, 2]), 1, 1, 1],
    "explicit_paddings": lambda r, op: [],
    "padding": lambda r, op: r.choice(["SAME", "VALID"]),
    "equation": lambda r, op: r.choice(["ab,bc->ac", "ab->ba", "a,a->a", "...a,ab->...b", "ab->a", "ij,ij->", "i...->...", "ab,b->d", "aa->a", "ab,bc", "...->..."]),
    "axis": lambda r, op: r.choice([0, 0, -1, 1, -2, 2]),
    "batch_dims": lambda r, op: r.choice([0, 0, 0, 1, -1, 1]),
    "block_size": lambda r, op: 2,
    "begin_mask": lambda r, op: r.choice([0, 0, 1, 2, 3]),
    "end_mask": lambda r, op: r.choice([0, 0, 1, 2, 3]),
    "ellipsis_mask": lambda r, op: r.choice([0, 0, 0, 1, 2]),
    "new_axis_mask": lambda r, op: r.choice([0, 0, 1, 2, 4]),
    "shrink_axis_mask": lambda r, op: r.choice([0, 0, 1, 2]),
    "seq_dim": lambda r, op: r.choice([0, 1]),
    "batch_dim": lambda r, op: r.choice([0, 1]),
    "k": lambda r, op: r.choice([0, 1, 2, 5]),
    "num_elements": lambda r, op: r.choice([-1, 0, 3]),
    "template": lambda r, op: r.choice(["{}", "{} {}", ""]),
    "placeholder": lambda r, op: "{}",
    "squeeze_dims": lambda r, op: r.choice([[], [], [0], [-1], [0, 1], [1]]),
    "input_ragged_rank": lambda r, op: r.choice([-1, 0, 1]),
    "output_ragged_rank": lambda r, op: r.choice([1, 2]),
    "PARAMS_RAGGED_RANK": lambda r, op: 1,
    "OUTPUT_RAGGED_RANK": lambda r, op: r.choice([0, 1, 2]),
    "channels": lambda r, op: r.choice([0, 1, 3, -1]),
    "groups": lambda r, op: r.choice([1, 1, 2]),
    "reduction_dimension": lambda r, op: r.choice([-1, 0, 1]),
    "recall_target": lambda r, op: r.choice([0.95, 1.0, 0.5]),
    "reduction_input_size_override": lambda r, op: -1,
    "row_partition_types": lambda r, op: r.choice([["ROW_SPLITS"], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]]),
    "num_row_partition_tensors": lambda r, op: r.choice([1, 2]),
}


def a_shape(r, rank=None):
    if rank is None:
        if r.random() < 0.12:
            return None
        rank = r.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5])
    return [None if r.random() < 0.15 else r.choice(DIMS) for _ in range(rank)]


DIMS = [1, 2, 2, 3, 3, 3, 4, 4, 0, 6]


def attr_value(r, op, a, fixed):
    if a.name in fixed:
        return fixed[a.name]
    if a.name in ATTRS and r.random() < 0.97:
        v = ATTRS[a.name](r, op)
        allowed = [x.decode() for x in a.allowed_values.list.s]
        if not allowed or v in allowed:
            return v
    kind = a.type
    least = a.minimum if a.has_minimum else None
    allowed_types = [tf.as_dtype(t) for t in a.allowed_values.list.type]
    if kind == "type":
        return r.choice(allowed_types) if allowed_types else r.choice(TYPES)
    if kind == "list(type)":
        n = max(least or 0, r.choice([1, 2]))
        return [r.choice(allowed_types or TYPES) for _ in range(n)]
    if a.HasField("default_value") and r.random() < 0.5:
        return None
    if kind == "int":
        return max(least if least is not None else -5, r.choice([0, 1, 2, 3, 2, 1, -1]))
    if kind == "bool":
        return r.random() < 0.5
    if kind == "float":
        return r.choice([0.5, 1.0])
    if kind == "string":
        allowed = [x.decode() for x in a.allowed_values.list.s]
        return r.choice(allowed) if allowed else "x"
    if kind == "shape":
        return tf.TensorShape(a_shape(r))
    if kind == "list(int)":
        return [r.choice([0, 1, 2]) for _ in range(max(least or 0, r.choice([1, 2, 4])))]
    if kind == "list(shape)":
        return [tf.TensorShape(a_shape(r)) for _ in range(r.choice([0, 1, 2]))]
    if kind == "list(string)":
        return ["x"] * max(least or 0, 1)
    if kind == "list(float)":
        return [0.5]
    if kind == "tensor":
        return tf.make_tensor_proto(np.zeros([d or 2 for d in a_shape(r) or []], np.float32))
    raise NotImplementedError(kind)


def to_proto(v, kind):
    p = attr_value_pb2.AttrValue()
    if kind == "type":
        p.type = v.as_datatype_enum
    elif kind == "int":
        p.i = v
    elif kind == "bool":
        p.b = v
    elif kind == "float":
        p.f = v
    elif kind == "string":
        p.s = v.encode()
    elif kind == "shape":
        p.shape.CopyFrom(v.as_proto())
    elif kind == "tensor":
        p.tensor.CopyFrom(v)
    else:
        p.list.SetInParent()
        for e in v:
            if kind == "list(type)":
                p.list.type.append(e.as_datatype_enum)
            elif kind == "list(int)":
                p.list.i.append(e)
            elif kind == "list(shape)":
                p.list.shape.add().CopyFrom(e.as_proto())
            elif kind == "list(string)":
                p.list.s.append(e.encode())
            elif kind == "list(float)":
                p.list.f.append(e)
    return p


RANKS = {}  # the ranks of the inputs in cases that had no error, by op


def case(r, name):
    """One case: the op in a graph of its own; None where the attributes are refused before any shape is looked at."""
    op = op_def_registry.get(name)
    if op is None:
        return None
    fixed, attrs = {}, {}
    for a in op.attr:
        if a.type in ("func", "list(func)"):
            return None
        v = attr_value(r, name, a, fixed)
        if v is None:
            attrs[a.name] = a.default_value
            continue
        attrs[a.name] = to_proto(v, a.type)
    dtypes = []
    for i in op.input_arg:
        n = attrs[i.number_attr].i if i.number_attr else 1
        if n > 6:
            return None
        if i.type_list_attr:
            dtypes += [tf.as_dtype(t) for t in attrs[i.type_list_attr].list.type]
            continue
        t = tf.as_dtype(attrs[i.type_attr].type if i.type_attr else i.type)
        dtypes += [(t._as_ref if i.is_ref else t)] * n
    like = r.choice(RANKS[name]) if RANKS.get(name) and r.random() < 0.8 else None
    same = a_shape(r) if r.random() < 0.35 else None
    if "Apply" in name and like is None and r.random() < 0.7:  # slots of one shape, scalars, a gradient
        like = [1 if a.name == "indices" else 3 if t._is_ref_dtype or a.name in ("grad", "delta", "gradient") else 0
                for a, t in zip(op.input_arg, dtypes)]
        same = [r.choice(DIMS) for _ in range(3)]
    node = node_def_pb2.NodeDef(op=name)
    with tf.Graph().as_default() as g:
        inputs = []
        for i, t in enumerate(dtypes):
            rank = like[i] if like and i < len(like) and r.random() < 0.95 else None
            inputs.append(an_input(r, node, i, t, same if same is not None and rank in (None, len(same)) and r.random() < 0.8 else a_shape(r, rank), rank, inputs))
        if any(i is None for i in inputs):
            return None
        node.attr["_in"].list.SetInParent()
        for i in inputs:
            node.attr["_in"].list.shape.add().CopyFrom(i.shape.as_proto())
        try:
            o = g.create_op(name, inputs, None, attrs=attrs, op_def=op)
        except Exception as e:  # the errors of shape functions come as ValueError
            message = str(e)
            if "with input shapes" not in message and "with input shapes" not in repr(e):
                return None
            node.attr["_error"].s = message.encode()
        else:
            node.attr["_out"].list.SetInParent()
            for t in o.outputs:
                node.attr["_out"].list.shape.add().CopyFrom(t.shape.as_proto())
            RANKS.setdefault(name, []).append([len(i.shape) if i.shape.rank is not None else 2 for i in inputs])
            for k, v in o.node_def.attr.items():
                node.attr[k].CopyFrom(v)
    for k, v in attrs.items():
        node.attr[k].CopyFrom(v)
    for k in ("_class",):
        if k in node.attr:
            del node.attr[k]
    return node


def an_input(r, node, i, t, shape, rank, before):
    if t.is_ref_dtype if hasattr(t, "is_ref_dtype") else t._is_ref_dtype:
        base = t.base_dtype
        return tf.raw_ops.VariableV2(shape=tf.TensorShape(shape), dtype=base)
    if t == tf.resource:
        if r.random() < 0.3 or "Queue" in node.op or "Table" in node.op:
            return tf.compat.v1.placeholder(t, shape if r.random() < 0.1 else [])
        d = r.choice([tf.float32, tf.float32, tf.int32])
        node.attr["_handle_types_%d" % i].list.type.append(d.as_datatype_enum)
        node.attr["_handle_shapes_%d" % i].list.shape.add().CopyFrom(tf.TensorShape(shape).as_proto())
        return tf.raw_ops.VarHandleOp(dtype=d, shape=tf.TensorShape(shape))
    if t == tf.variant and "TensorList" in node.op and r.random() < 0.7:
        s = [2, 3] if r.random() < 0.5 else [-1, 3]
        d = r.choice([tf.float32, tf.float32, tf.int32])
        node.attr["_handle_types_%d" % i].list.type.append(d.as_datatype_enum)
        node.attr["_handle_shapes_%d" % i].list.shape.add().CopyFrom(tf.TensorShape([None if x < 0 else x for x in s]).as_proto())
        return tf.raw_ops.EmptyTensorList(element_shape=tf.constant(s), max_num_elements=tf.constant(3), element_dtype=d)
    if t in INTS and r.random() < 0.75:
        k = rank if rank is not None and rank <= 2 else r.choice([0, 1, 1, 1, 2])
        other = next((b.shape.rank for b in before if b.shape.rank is not None), None) or 2
        n = r.choice([other, other, other, 2, 1, 4])
        s = [[], [n], [n, 2]][k]
        small = r.choice([[0, 1, 2], [0], [1, 2, 3], [-1, 0, 1, 2], [2, 3, 4]])
        v = np.array([r.choice(small) for _ in range(int(np.prod(s)))]).reshape(s)
        if node.op in ("Transpose", "ConjugateTranspose", "InvertPermutation") and k == 1:
            v = np.array(r.sample(range(n), n))
        c = tf.constant(v, t)
        node.attr["_const_%d" % i].tensor.CopyFrom(tf.make_tensor_proto(v, t))
        return c
    return tf.compat.v1.placeholder(t, shape)


def cases(name, seed):
    """The cases of one op, as a serialized GraphDef."""
    r = random.Random("%s %d" % (name, seed))
    out = graph_pb2.GraphDef()
    good = bad = 0
    for _ in range(60):
        if good >= 9 and bad >= 3:
            break
        try:
            node = case(r, name)
        except (NotImplementedError, ValueError, TypeError, KeyError, tf.errors.OpError):
            continue
        if node is None:
            continue
        failed = "_error" in node.attr
        if (bad >= 3) if failed else (good >= 9):
            continue
        good, bad = good + (not failed), bad + failed
        node.name = "%s_%d" % (name, good + bad)
        out.node.append(node)
    return out.SerializeToString(deterministic=True)


def apart(name, seed):
    """cases in a process of its own, since some shape functions end the process on values that do not fit."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "wb") as f:
            f.write(cases(name, seed))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        got = f.read()
    os.waitpid(child, 0)
    return got


def main():
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "tensorflow.pb.gz"), "wb") as f:
        with gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
            for name in open(sys.argv[1]).read().split():  # messages one behind the other are one message
                z.write(apart(name, seed))
                z.flush()


main()
