"""Writes golden.tar.gz: checkpoints as TensorFlow writes them, of values that golden_test.go makes too.

Run with TensorFlow 2.21: python golden.py
"""

import io
import os
import tarfile
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import dtypes

tf.disable_v2_behavior()

V2 = """float32 float64 int32 uint8 int16 int8 complex64 int64 bool qint8 quint8 qint32 bfloat16 qint16 quint16 uint16
complex128 half uint32 uint64 float8_e5m2 float8_e4m3fn int4 uint4""".split()
V1 = "float32 float64 int32 uint8 int16 int8 complex64 int64 bool qint8 quint8 qint32 uint16 complex128 half".split()
SHAPE = [3, 5]


def pattern(size, mask=0xFF):
    return bytes((i * 37 + 11) & mask for i in range(size))


def constant(dtype, shape):
    """A tensor with the bytes of pattern."""
    dtype = dtypes.as_dtype(dtype)
    if dtype.name in ("int4", "uint4"):
        low = 0x07 if dtype.name == "int4" else 0x0F
        return tf.cast(constant_of(tf.int8, shape, pattern(int(np.prod(shape)), low)), dtype)
    return constant_of(dtype, shape, pattern(int(np.prod(shape)) * dtype.size, 1 if dtype == tf.bool else 0xFF))


def constant_of(dtype, shape, content):
    proto = tf.make_tensor_proto(0)
    proto.Clear()
    proto.dtype = dtype.as_datatype_enum
    for d in shape:
        proto.tensor_shape.dim.add().size = d
    proto.tensor_content = content
    value = tf.AttrValue(tensor=proto)
    kind = tf.AttrValue(type=dtype.as_datatype_enum)
    return tf.get_default_graph().create_op("Const", [], [dtype], attrs={"value": value, "dtype": kind}).outputs[0]


def strings(n):
    return tf.constant([b"x" * i if i % 3 else bytes([i & 0xFF]) * (i // 2) for i in range(n)], tf.string)


def save(prefix, named, slices=None):
    names = list(named)
    return tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices or [""] * len(names), tensors=[named[n] for n in names])


def main():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    d = tempfile.mkdtemp()
    p = lambda name: os.path.join(d, name)
    steps = []
    everything = {t: constant(t, SHAPE) for t in V2}
    everything.update({"strings": tf.reshape(strings(20), [4, 5]), "scalar": constant("float32", []), "none": constant("int32", [0, 3]), "no strings": strings(0)})
    steps.append(lambda: save(p("types"), everything))
    steps.append(lambda: save(p("many"), {"layer_%d/%s" % (i, "w" * (i % 40)): constant("uint8", [i % 7]) for i in range(100)}))
    # An index of several blocks.
    steps.append(lambda: save(p("blocks"), {"%05d" % i + "n" * 3000: constant("uint8", [1]) for i in range(200)}))
    v = [constant("float32", [2, 6]), constant("float32", [2, 2]), constant("float32", [2, 4])]
    parts = ["4 6 0,2:-", "4 6 2,2:0,2", "4 6 2,2:2,4"]
    steps.append(lambda: [save(p("part%d" % i), {"v": v[i], "own%d" % i: constant("int64", [i])}, [parts[i], ""]) for i in range(3)])
    steps.append(lambda: tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[p("part0"), p("part1"), p("part2")], destination_prefix=p("merged"), delete_old_dirs=False))
    lists = tf.raw_ops.TensorListReserve(element_shape=tf.constant([2]), num_elements=3, element_dtype=tf.float32)
    lists = tf.raw_ops.TensorListSetItem(input_handle=lists, index=1, item=tf.constant([1.5, 2.5]))
    steps.append(lambda: save(p("variant"), {"list": lists, "after": constant("int32", [2])}))

    old = {t: constant(t, SHAPE) for t in V1}
    old.update({"strings": strings(20), "scalar": constant("float32", []), "none": constant("int32", [0, 3])})
    steps.append(lambda: tf.raw_ops.Save(filename=p("v1"), tensor_names=list(old), data=list(old.values())))
    steps.append(
        lambda: tf.raw_ops.SaveSlices(filename=p("v1s-00000-of-00002"), tensor_names=["v", "v", "big"], shapes_and_slices=[parts[0], parts[1], ""], data=[v[0], v[1], constant("float32", [300, 500])])
    )
    steps.append(lambda: tf.raw_ops.SaveSlices(filename=p("v1s-00001-of-00002"), tensor_names=["v"], shapes_and_slices=[parts[2]], data=[v[2]]))
    with tf.Session() as session:
        for step in steps:
            session.run(step())
    with tarfile.open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden.tar.gz"), "w:gz", compresslevel=9) as out:
        for name in sorted(os.listdir(d)):
            info = tarfile.TarInfo(name)
            with open(p(name), "rb") as f:
                data = f.read()
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
            print(name, len(data))


main()
