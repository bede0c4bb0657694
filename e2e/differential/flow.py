"""Statements with bodies: conditionals, loops, functions."""
import collections
import contextlib

import tensorflow as tf2
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import function

from build import DTYPES
from catalog import op

# What a statement with bodies gives: results, and the ops after which its touches of state are over.
Flow = collections.namedtuple("Flow", "results done")


@contextlib.contextmanager
def _version(functional):
    """TensorFlow's functional control flow, or the one with Switch, Merge, Enter and Exit."""
    if not functional:
        yield
        return
    tf.enable_control_flow_v2()
    try:
        yield
    finally:
        tf.disable_control_flow_v2()


def _gated(b, tensor):
    if not b.deps:
        return tensor
    with tf.control_dependencies(b.deps):
        return tf.identity(tensor)


def _body_kinds(s):
    return s.bodies[0].kinds


def _branches(b, s, functional):
    """The functions of a conditional's branches. The last result of those that touch state is there when they are over."""
    touches = b.touches(s)

    def branch(body):
        def build():
            results, done = b.body(body, (), functional=functional)
            if not touches:
                return results
            with tf.control_dependencies(done):
                return [tf.identity(r) for r in results] + [tf.identity(tf.constant(0))]

        return build

    return [branch(body) for body in s.bodies]


def _flow(b, s, out):
    out = tf.nest.flatten(out)
    return Flow(out[:-1], [out[-1].op]) if b.touches(s) else Flow(out, [])


@op("cond", "b", _body_kinds, gates=True)
def _cond(b, s, p):
    p = _gated(b, p)
    with _version(s.attrs.get("functional")):
        out = tf.cond(p, *_branches(b, s, s.attrs.get("functional", False)), strict=True)
    return _flow(b, s, out)


@op("case", "i", _body_kinds, gates=True)
def _case(b, s, i):
    i = _gated(b, i)
    with _version(s.attrs.get("functional")):
        out = tf.switch_case(i % len(s.bodies), _branches(b, s, s.attrs.get("functional", False)))
    return _flow(b, s, out)


def _loop_results(s):
    return s.bodies[0].kinds + ("f" if s.attrs.get("collects") else "")


@op("loop", lambda s: "".join(kind for _, kind in s.bodies[0].params), _loop_results, gates=True)
def _loop(b, s, *starts):
    """A loop of a few rounds. Its second body, if there is one, says whether it goes on."""
    touches, functional, times = b.touches(s), s.attrs.get("functional", False), s.attrs["times"]
    collects = s.attrs.get("collects", False)

    def condition(i, *xs):
        more = i < times
        if len(s.bodies) > 1:
            (go_on,) = b.finished(s.bodies[1], xs, [i.op] if touches else (), functional)
            more = tf.logical_and(more, go_on)
        return more

    def body(i, *xs):
        xs, arrays = (xs[:-1], xs[-1:]) if collects else (xs, ())
        results, done = b.body(s.bodies[0], xs, [i.op] if touches else (), functional)
        arrays = [array.write(i, results[0]) for array in arrays]
        with tf.control_dependencies(done):
            return [i + 1] + results + arrays

    first = _gated(b, tf.constant(0))
    with _version(functional):
        array = [tf.TensorArray(tf.float32, times, element_shape=[2, 2])] if collects else []
        out = tf.while_loop(condition if not collects else lambda i, *xs: condition(i, *xs[:-1]), body, [first, *starts, *array],
                            parallel_iterations=s.attrs.get("parallel", 10))
    results = list(out[1:])
    if collects:  # as many as were written: the loop may end early
        results[-1] = tf.reduce_sum(results[-1].gather(tf.range(out[0])), 0)
    return Flow(results, [out[0].op])


@op("scan", "ffff", "f", gates=True)
def _scan(b, s, start, *rows):
    elements = _gated(b, tf.stack(rows))

    def step(sum, x):
        return b.finished(s.bodies[0], [sum, x], [sum.op, x.op])[0]

    out = tf.scan(step, elements, initializer=start, parallel_iterations=s.attrs.get("parallel", 10))
    return Flow([tf.reduce_mean(out, 0)], [out.op])


@op("map", "fff", "f", gates=True)
def _map(b, s, *rows):
    elements = _gated(b, tf.stack(rows))
    out = tf.map_fn(lambda x: b.finished(s.bodies[0], [x], [x.op])[0], elements, parallel_iterations=s.attrs.get("parallel", 10))
    return Flow([tf.reduce_mean(out, 0)], [out.op])


def _param_kinds(s):
    return "".join(kind for _, kind in s.bodies[0].params)


@op("function", _param_kinds, _body_kinds, aliases=True)
def _function(b, s, *args):
    def body(*xs):
        out = b.finished(s.bodies[0], xs, functional=True)
        return out[0] if len(out) == 1 else tuple(out)

    if s.attrs["how"] == "defun":
        call = function.Defun(*[DTYPES[kind] for _, kind in s.bodies[0].params])(body)
    else:
        call = tf2.function(body, autograph=False)
    out = call(*args)
    return list(out) if isinstance(out, (list, tuple)) else [out]
