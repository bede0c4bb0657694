"""Statements that only compute. Values stay small, so that rounding stays small."""
import tensorflow.compat.v1 as tf

from catalog import op
from program import value


for _kind in "fsib":
    op("constant_" + _kind, "", _kind)(lambda b, s: tf.constant(value(s.op[-1], s.attrs["n"])))
    op("placeholder_" + _kind, "", _kind, outermost=True)(lambda b, s: _placeholder(s))


def _placeholder(s):
    fed = value(s.op[-1], s.attrs["n"])
    if s.attrs.get("default"):
        return tf.placeholder_with_default(fed, fed.shape)
    return tf.placeholder(fed.dtype, None if s.attrs.get("shapeless") else fed.shape)


def _simple(name, args, results, build, **flags):
    op(name, args, results, **flags)(lambda b, s, *xs: build(*xs))


_simple("add", "ff", "f", lambda x, y: x + y)
_simple("subtract", "ff", "f", lambda x, y: x - y)
_simple("multiply", "ff", "f", lambda x, y: x * tf.tanh(y))
_simple("matmul", "ff", "f", lambda x, y: tf.tanh(tf.matmul(x, y)))
_simple("tanh", "f", "f", tf.tanh)
_simple("relu", "f", "f", tf.nn.relu)
_simple("negative", "f", "f", tf.negative)
_simple("half", "f", "f", lambda x: x * 0.5)
_simple("square_root", "f", "f", lambda x: tf.sqrt(tf.abs(x) + 1.0))
_simple("transpose", "f", "f", tf.transpose)
_simple("reversed", "f", "f", lambda x: tf.reverse(x, [0]))
_simple("rows", "fi", "f", lambda x, i: tf.gather(x, tf.stack([i % 2, 1])))
_simple("add_n", "fff", "f", lambda x, y, z: tf.add_n([x, y, z]))
_simple("concat_split", "ff", "ff", lambda x, y: tf.split(tf.concat([x, y], 1), 2, axis=1))
_simple("stack_mean", "ff", "f", lambda x, y: tf.reduce_mean(tf.stack([x, y]), 0))
_simple("swap", "ff", "ff", lambda x, y: tf.identity_n([y, x]), aliases=True)
_simple("identity", "f", "f", tf.identity, aliases=True)
_simple("stop_gradient", "f", "f", tf.stop_gradient, aliases=True)
_simple("reshaped", "f", "f", lambda x: tf.reshape(tf.reshape(x, [4]), [2, 2]), aliases=True)
_simple("sum", "f", "s", tf.reduce_sum)
_simple("largest", "f", "s", tf.reduce_max)
_simple("positive_sum", "f", "s", lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0.0371)))
_simple("element", "fi", "s", lambda x, i: x[i % 2, 1] * 1.5)
_simple("spread", "fs", "f", lambda x, y: x + y)
_simple("scalar_add", "ss", "s", lambda x, y: tf.tanh(x + y))
_simple("fill", "s", "f", lambda x: tf.fill([2, 2], x))
_simple("choose", "bff", "f", lambda p, x, y: tf.where(p, x, y), aliases=True)
_simple("greater", "sf", "b", lambda x, y: x > y[0, 0] + 0.0371)
_simple("both", "bb", "b", tf.logical_and)
_simple("inverse", "b", "b", tf.logical_not)
_simple("less", "ii", "b", tf.less)
_simple("odd", "i", "b", lambda i: tf.equal(i % 2, 1))
_simple("plus", "ii", "i", lambda i, j: (i + j) % 97)
_simple("times", "ii", "i", lambda i, j: (i * j) % 89)
_simple("count", "b", "i", lambda p: tf.cast(p, tf.int32))
_simple("to_int", "s", "i", lambda x: tf.cast(x * 3 + 0.37, tf.int32))
_simple("to_float", "i", "s", lambda i: tf.cast(i % 7, tf.float32) * 0.25)
_simple("text", "i", "i", lambda i: tf.strings.to_number(tf.strings.as_string(i % 31), tf.int32))
_simple("size_where", "f", "i", lambda x: tf.shape(tf.where(x > 0.0371))[0])


@op("check", "s", "s", fails=True)
def _check(b, s, x):
    """Fails where its operand is large."""
    with tf.control_dependencies([tf.Assert(x < s.attrs["limit"], [x])]):
        return tf.identity(x)


@op("lookup", "fi", "s", fails=True)
def _lookup(b, s, x, i):
    """Fails where the index is not one of four."""
    return tf.gather(tf.reshape(x * 1.25, [4]), i)


@op("divide", "ii", "i", fails=True)
def _divide(b, s, i, j):
    """Fails where it divides by zero."""
    return tf.floordiv(i, j % 4)


@op("finite", "s", "s", fails=True)
def _finite(b, s, x):
    """Fails where its operand is negative."""
    return tf.check_numerics(tf.sqrt(x + s.attrs["limit"]), "negative")
