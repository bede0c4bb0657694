"""Statements about variables and queues."""
import tensorflow.compat.v1 as tf

from catalog import op
from program import value

OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, l2_regularization_strength=0.1),
}


def _variable(b, s):
    return tf.Variable(value(s.op[-1], s.attrs["n"]), use_resource=not s.attrs["ref"])


op("variable_V", "", "V", outermost=True)(_variable)
op("variable_N", "", "N", outermost=True)(_variable)


@op("queue", "", "Q", outermost=True)
def _queue(b, s):
    make = tf.PaddingFIFOQueue if s.attrs["n"] % 3 == 0 else tf.FIFOQueue
    return make(1000, [tf.float32], [[2, 2]])


def _reads(name, args, results, build):
    op(name, args, results)(lambda b, s, *xs: build(*xs))


_reads("read_plus", "V", "f", lambda v: v + 0.5)
_reads("read_times", "Vf", "f", lambda v, x: v * tf.tanh(x))
_reads("read_matmul", "Vf", "f", lambda v, x: tf.tanh(tf.matmul(x, v)))
_reads("read_sum", "V", "s", lambda v: tf.reduce_sum(v) * 0.5)
_reads("read_rows", "Vi", "f", lambda v, i: tf.gather(v, tf.stack([i % 2, 0])))
_reads("read_reshaped", "V", "f", lambda v: tf.reshape(tf.reshape(v, [4]) * 1.5, [2, 2]))
_reads("read_column", "V", "s", lambda v: v[1, 0] * 1.5)
_reads("read_int", "N", "i", lambda v: v * 2)


@op("alias", "f", "A")
def _alias(b, s, v):
    """The identity of a variable, of an identity, or the reference itself."""
    how = s.attrs["how"]
    if how == "reference" and v.op.type == "VariableV2":
        return v.op.outputs[0]
    return tf.identity(tf.identity(v)) if how == "twice" else tf.identity(v)


def _bounded(x):
    return tf.tanh(x) + 0.1


def _changes(name, args, build, results="A", outermost=False):
    def written(b, s, *xs):
        out = build(*xs)
        # Of a resource variable this reads what was written, of a reference variable it is the reference.
        return out if isinstance(out, tf.Operation) else tf.convert_to_tensor(out)

    op(name, args, results, writes=True, outermost=outermost)(written)


def _row(x):
    return _bounded(x)[0:1]


_changes("assign", "Vf", lambda v, x: tf.assign(v, _bounded(x)))
_changes("assign_as_is", "Vf", lambda v, x: tf.assign(v, tf.tanh(x), use_locking=False))
_changes("assign_add", "Vf", lambda v, x: tf.assign_add(v, _bounded(x)))
_changes("assign_sub", "Vf", lambda v, x: tf.assign_sub(v, _bounded(x)))
_changes("scatter_update", "Vif", lambda v, i, x: tf.scatter_update(v, [i % 2], _row(x)))
_changes("scatter_add", "Vif", lambda v, i, x: tf.scatter_add(v, [i % 2, 0], tf.concat([_row(x), _row(x)], 0)))
_changes("scatter_sub", "Vif", lambda v, i, x: tf.scatter_sub(v, [i % 2], _row(x)))
_changes("scatter_max", "Vif", lambda v, i, x: v.scatter_max(tf.IndexedSlices(_row(x), [i % 2])))
_changes("scatter_nd_update", "Vif", lambda v, i, x: tf.scatter_nd_update(v, [[i % 2, 1]], _bounded(x)[0, 0:1]))
_changes("scatter_nd_add", "Vif", lambda v, i, x: tf.scatter_nd_add(v, [[i % 2]], _row(x)))
_changes("slice_assign", "Vif", lambda v, i, x: v[i % 2].assign(_bounded(x)[1]))
_changes("start_over", "V", lambda v: tf.assign(v, v.initial_value))
_changes("initialize", "V", lambda v: v.initializer, results="", outermost=True)
_changes("int_add", "Ni", lambda v, i: tf.assign_add(v, i % 97), results="")
_changes("bump", "N", lambda v: tf.assign_add(v, 3), results="")  # several at a time give the same sum in any order
_changes("int_assign", "Ni", lambda v, i: tf.assign(v, i % 97), results="")


@op("count_up_to", "N", "i", writes=True, fails=True)
def _count_up_to(b, s, v):
    return tf.count_up_to(v, s.attrs["limit"]) * 2


@op("initialized", "V", "b")
def _initialized(b, s, v):
    return tf.is_variable_initialized(v)


@op("apply", "Vf", "", writes=True)
def _apply(b, s, v, x):
    """One update by an optimizer, with a gradient that is given."""
    if b.scope.functional:  # an optimizer makes variables, and a function cannot
        return tf.assign_sub(v, 0.1 * x).op
    return OPTIMIZERS[s.attrs["optimizer"]]().apply_gradients([(tf.tanh(x), v)])


@op("train", lambda s: "s" + "V" * s.attrs["variables"], "", writes=True, differentiates=True, outermost=True)
def _train(b, s, loss, *variables):
    """One step of an optimizer. All gradients are there before the first update, or it would be a race."""
    optimizer = OPTIMIZERS[s.attrs["optimizer"]]()
    loss += 0.0 * tf.add_n([tf.reduce_sum(v) for v in variables])  # it depends on all of them
    pairs = optimizer.compute_gradients(loss, variables, gate_gradients=optimizer.GATE_GRAPH, grad_loss=tf.identity(tf.constant(1.0)),
                                        colocate_gradients_with_ops=b.colocates(s))
    return optimizer.apply_gradients(pairs)


@op("gradients", lambda s: "f" + "f" * s.attrs["sources"], lambda s: "f" * s.attrs["sources"], differentiates=True, outermost=True)
def _gradients(b, s, y, *sources):
    slopes = tf.gradients(y, sources, grad_ys=[tf.identity(b.default("f"))], colocate_gradients_with_ops=b.colocates(s))
    return [tf.zeros([2, 2]) if g is None else tf.tanh(tf.convert_to_tensor(g)) for g in slopes]


@op("enqueue", "Qf", "", writes=True, aliases=True)
def _enqueue(b, s, q, x):
    return q.enqueue(x)


@op("dequeue", "Q", "f", writes=True)
def _dequeue(b, s, q):
    """An element, or a constant where there is none."""
    return tf.cond(q.size() > 0, q.dequeue, lambda: tf.constant(value("f", s.attrs["n"])))


@op("through", "Qf", "f", writes=True, aliases=True)
def _through(b, s, q, x):
    """Puts an element in, and takes one out."""
    with tf.control_dependencies([q.enqueue(x)]):
        return tf.identity(q.dequeue())


@op("queued", "Q", "i")
def _queued(b, s, q):
    return q.size() * 1
