"""Values and expressions of random TensorFlow 2 programs, as text. The same text is run eagerly and inside functions."""
import math

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")
RARE = ("float16", "bfloat16", "uint8", "int8", "uint16", "int16", "uint32", "uint64", "complex64", "complex128")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
SHAPES = ((), (), (1,), (3,), (3,), (2, 3), (2, 3), (3, 2), (0,), (0, 3), (2, 1, 3), (1, 1))
LARGE = (150, 130)  # beyond what crosses tasks together with a message
MOST = 40000  # elements of what expressions make larger
WORDS = ("", "a", "Bc", "déjà", "x" * 70, "12", "-3.5", "a b c", "line\\n", "\\x00\\xff", "été 2024")


class Value:
    """A name that a program has given to a tensor."""

    __slots__ = ("name", "dtype", "shape")

    def __init__(self, name, dtype, shape):
        self.name = name
        self.dtype = dtype
        self.shape = tuple(shape)

    def elements(self):
        return math.prod(self.shape)


def number(rng, dtype):
    """A number as text."""
    if dtype == "bool":
        return rng.choice(("True", "False"))
    if dtype == "string":
        return "'%s'" % rng.choice(WORDS)
    if dtype in UNSIGNED:
        return str(rng.choice((0, 1, 2, 3, 7, 200)))
    if dtype in INTEGERS or dtype in RARE and dtype.startswith("int"):
        return str(rng.choice((0, 1, 2, 3, -1, -5, 100)))
    if dtype.startswith("complex"):
        return "%s%sj" % (rng.choice(("0", "1", "-2", "0.5")), rng.choice(("+1", "-0.5", "+0")))
    return rng.choice(("0.0", "1.0", "-1.0", "0.5", "-2.25", "3.0", "1.5", "10.0", "0.1"))


def literal(rng, dtype, shape):
    """A nested list of numbers as text."""
    if not shape:
        return number(rng, dtype)
    return "[%s]" % ", ".join(literal(rng, dtype, shape[1:]) for _ in range(shape[0]))


def constant(rng, dtype, shape):
    """The text of a constant."""
    if shape == LARGE:
        if dtype == "string":
            return "tf.fill(%s, %s)" % (list(shape), number(rng, dtype))
        return "tf.cast(tf.reshape(tf.range(%d), %s) %% 11, tf.%s)" % (math.prod(shape), list(shape), dtype)
    if 0 in shape:
        return "tf.zeros(%s, tf.%s)" % (list(shape), dtype)
    return "tf.constant(%s, tf.%s)" % (literal(rng, dtype, shape), dtype)


def some_dtype(rng):
    return rng.choices((rng.choice(FLOATS), rng.choice(INTEGERS), "string", "bool", rng.choice(RARE)), (5, 4, 2, 1, 2))[0]


def some_constant(rng):
    """The text of a constant, with its dtype and shape."""
    dtype = some_dtype(rng)
    shape = LARGE if rng.random() < 0.06 else rng.choice(SHAPES)
    return constant(rng, dtype, shape), dtype, shape


def partner(rng, values, x):
    """The text of an operand that x can be combined with, element by element."""
    fitting = [v.name for v in values if v.dtype == x.dtype and (v.shape == x.shape or v.shape == ())]
    return rng.choice(fitting) if fitting and rng.random() < 0.8 else constant(rng, x.dtype, ())


def expression(rng, values):
    """The text of an expression of some of the values, with its dtype and shape."""
    if not values or rng.random() < 0.08:
        return some_constant(rng)
    x = rng.choice(values)
    if x.elements() > MOST:
        return "tf.identity(%s)[:1]" % x.name, x.dtype, (1,) + x.shape[1:]
    kinds = [_anything]
    if x.dtype == "string":
        kinds += [_text] * 2
    elif x.dtype == "bool":
        kinds += [_logical]
    elif x.dtype in FLOATS:
        kinds += [_arithmetic, _arithmetic, _real, _reduction]
    else:
        kinds += [_arithmetic, _arithmetic, _reduction]
    return rng.choice(kinds)(rng, values, x)


def same_kind(rng, values, x):
    """The text of an expression with the dtype and shape of x, such as what a loop carries."""
    if x.dtype == "string":
        return "tf.strings.join([%s, %s])" % (x.name, constant(rng, "string", ())) if x.shape != LARGE else "tf.strings.upper(%s)" % x.name
    if x.dtype == "bool":
        return "tf.logical_xor(%s, %s)" % (x.name, partner(rng, values, x))
    if x.dtype in FLOATS:
        return rng.choice(("%s * 0.5 + %s", "tf.tanh(%s) - %s", "tf.maximum(%s, %s)", "tf.sin(%s) * %s")) % (x.name, partner(rng, values, x))
    return rng.choice(("%s + %s", "tf.identity(%s) - %s")) % (x.name, partner(rng, values, x))


def _anything(rng, values, x):
    n, shape, dtype = x.name, x.shape, x.dtype
    choices = [
        ("tf.identity(%s)" % n, dtype, shape),
        ("tf.reshape(%s, [-1])" % n, dtype, (x.elements(),)),
        ("tf.expand_dims(%s, 0)" % n, dtype, (1,) + shape),
        ("tf.stack([%s, %s])" % (n, n), dtype, (2,) + shape),
        ("tf.shape(%s)" % n, "int32", (len(shape),)),
        ("tf.size(%s, tf.int64)" % n, "int64", ()),
        ("tf.zeros_like(%s)" % n, dtype, shape),
        ("tf.transpose(%s)" % n, dtype, shape[::-1]),
        ("tf.identity_n([%s, tf.constant(1)])[0]" % n, dtype, shape),
        ("tf.where(%s, %s, %s)" % (rng.choice(("True", "False")), n, n), dtype, shape),
        ("tf.broadcast_to(%s, %s)" % (n, [2] + list(shape)), dtype, (2,) + shape),
    ]
    if shape:
        choices += [
            ("tf.concat([%s, %s], 0)" % (n, n), dtype, (2 * shape[0],) + shape[1:]),
            ("tf.reverse(%s, [0])" % n, dtype, shape),
            ("%s[:1]" % n, dtype, (min(1, shape[0]),) + shape[1:]),
            ("tf.tile(%s, %s)" % (n, [2] + [1] * (len(shape) - 1)), dtype, (2 * shape[0],) + shape[1:]),
            ("tf.unstack(tf.stack([%s, %s]))[1]" % (n, n), dtype, shape),
            ("tf.split(tf.concat([%s, %s], 0), 2)[1]" % (n, n), dtype, shape),
        ]
        if shape[0]:
            choices += [
                ("tf.gather(%s, [0, %d])" % (n, shape[0] - 1), dtype, (2,) + shape[1:]),
                ("%s[-1]" % n, dtype, shape[1:]),
                ("tf.gather_nd(%s, [[0]])" % n, dtype, (1,) + shape[1:]),
                ("tf.tensor_scatter_nd_update(%s, [[0]], %s[-1:])" % (n, n), dtype, shape),
            ]
    return rng.choice(choices)


def _text(rng, values, x):
    n, shape = x.name, x.shape
    return rng.choice((
        ("tf.strings.upper(%s)" % n, "string", shape),
        ("tf.strings.length(%s)" % n, "int32", shape),
        ("tf.strings.join([%s, '-', %s])" % (n, n), "string", shape),
        ("tf.strings.substr(%s, 0, 0)" % n, "string", shape),
        ("tf.strings.to_hash_bucket_fast(%s, 10)" % n, "int64", shape),
        ("tf.strings.regex_replace(%s, '[a-c]', '<\\\\0>')" % n, "string", shape),
        ("tf.strings.reduce_join(%s)" % n, "string", ()),
        ("tf.equal(%s, %s)" % (n, partner(rng, values, x)), "bool", shape),
        ("tf.io.encode_base64(%s)" % n, "string", shape),
        ("tf.strings.bytes_split(tf.reshape(%s, [-1])).flat_values[:0]" % n, "string", (0,)),
        ("tf.strings.unicode_transcode(%s, 'UTF-8', 'UTF-16-BE')" % n, "string", shape),
    ))


def _logical(rng, values, x):
    n, shape = x.name, x.shape
    return rng.choice((
        ("tf.logical_not(%s)" % n, "bool", shape),
        ("tf.cast(%s, tf.int32)" % n, "int32", shape),
        ("tf.reduce_all(%s)" % n, "bool", ()),
        ("tf.reduce_any(%s)" % n, "bool", ()),
        ("tf.math.count_nonzero(%s)" % n, "int64", ()),
    ))


def _arithmetic(rng, values, x):
    n, shape, other = x.name, x.shape, partner(rng, values, x)
    choices = [
        ("%s + %s" % (n, other), x.dtype, shape),
        ("%s - %s" % (n, other), x.dtype, shape),
        ("%s * %s" % (n, other), x.dtype, shape),
        ("tf.equal(%s, %s)" % (n, other), "bool", shape),
        ("tf.square(%s)" % n, x.dtype, shape),
        ("tf.add_n([%s, %s, %s])" % (n, n, n), x.dtype, shape),
        ("tf.zeros_like(%s)" % n, x.dtype, shape),
    ]
    if not x.dtype.startswith("complex"):
        choices += [
            ("tf.maximum(%s, %s)" % (n, other), x.dtype, shape),
            ("tf.less(%s, %s)" % (n, other), "bool", shape),
            ("tf.cast(%s, tf.%s)" % (n, rng.choice(FLOATS)), None, shape),
        ]
    if x.dtype in INTEGERS:
        choices += [
            ("%s // tf.constant(3, tf.%s)" % (n, x.dtype), x.dtype, shape),
            ("%s %% tf.constant(4, tf.%s)" % (n, x.dtype), x.dtype, shape),
            ("tf.bitwise.bitwise_xor(%s, %s)" % (n, other), x.dtype, shape),
            ("tf.as_string(%s)" % n, "string", shape),
            ("tf.cast(%s, tf.int64)" % n, "int64", shape),
        ]
        if len(shape) == 1:
            choices += [("tf.one_hot(%s, 4)" % n, "float32", shape + (4,)), ("tf.sort(%s)" % n, x.dtype, shape)]
    text, dtype, shape = rng.choice(choices)
    return text, dtype or text.rsplit("tf.", 1)[1].rstrip(")"), shape


def _real(rng, values, x):
    n, shape, dtype = x.name, x.shape, x.dtype
    choices = [(f % n, dtype, shape) for f in (
        "tf.tanh(%s)", "tf.sigmoid(%s)", "tf.nn.relu(%s)", "tf.abs(%s)", "tf.floor(%s)", "tf.sin(%s)", "tf.negative(%s)", "tf.math.softplus(%s)",
        "tf.clip_by_value(%s, -1.0, 1.0)", "tf.stop_gradient(%s)", "tf.exp(tf.minimum(%s, 3))")]
    choices.append(("tf.math.divide_no_nan(%s, %s)" % (n, partner(rng, values, x)), dtype, shape))
    if len(shape) == 2:
        choices += [("tf.matmul(%s, %s, transpose_b=True)" % (n, n), dtype, (shape[0], shape[0])), ("tf.nn.softmax(%s)" % n, dtype, shape)]
    return rng.choice(choices)


def _reduction(rng, values, x):
    n, shape, dtype = x.name, x.shape, x.dtype
    choices = [("tf.reduce_sum(%s)" % n, dtype, ())]
    if shape and not dtype.startswith("complex"):
        choices += [
            ("tf.reduce_sum(%s, 0)" % n, dtype, shape[1:]),
            ("tf.reduce_max(%s, -1, keepdims=True)" % n, dtype, shape[:-1] + (1,)),
            ("tf.cumsum(%s)" % n, dtype, shape),
        ]
        if shape[0]:
            choices.append(("tf.argmax(%s)" % n, "int64", shape[1:]))
    return rng.choice(choices)
