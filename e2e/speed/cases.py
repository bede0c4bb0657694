"""The rows of the table: what is timed. A row is a function that makes the operation to be timed, in the current graph.

Operands are variables, filled on the server, so that nothing large crosses the wire and no constant can be folded.
"""
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

GROUPS = []


class Group:
    """Rows under one heading of the table."""

    def __init__(self, title):
        self.title, self.rows = title, []
        GROUPS.append(self)

    def add(self, name, make):
        self.rows.append((name, make))


def numbers(*shape, dtype=tf.float32, low=-1.0, high=1.0):
    """A variable of random numbers."""
    def initial():
        values = tf.random.uniform(shape, low, high, seed=len(shape) + sum(shape))
        return values if dtype == tf.float32 else tf.cast(values, dtype)
    return tf1.Variable(initial, dtype=dtype, use_resource=False)


def integers(*shape, below, dtype=tf.int32):
    """A variable of random integers from 0."""
    return tf1.Variable(lambda: tf.random.uniform(shape, 0, below, dtype, seed=1), dtype=dtype, use_resource=False)


def bound(make, *args, **kwargs):
    return lambda: make(*args, **kwargs)


def words(n):
    """A variable of n lines of text."""
    return tf1.Variable(lambda: tf.strings.join([tf.as_string(tf.range(n)), "the quick brown", "fox jumps"], " "), use_resource=False)


# Products

def matmul(m, k, n, dtype=tf.float32, ta=False, tb=False):
    a = numbers(k, m, dtype=dtype, high=9.0) if ta else numbers(m, k, dtype=dtype, high=9.0)
    b = numbers(n, k, dtype=dtype, high=9.0) if tb else numbers(k, n, dtype=dtype, high=9.0)
    return tf.matmul(a, b, transpose_a=ta, transpose_b=tb)


products = Group("Matrix products")
for dtype in (tf.float32, tf.float64, tf.bfloat16, tf.int32):
    for n in (256, 512, 1024, 2048):
        if dtype != tf.int32 or n <= 1024:
            products.add("%s %d" % (dtype.name, n), bound(matmul, n, n, n, dtype))
for m, k, n in ((128, 784, 300), (128, 300, 100), (128, 100, 10)):
    for ta, tb in ((False, False), (True, False), (False, True)):
        products.add("%dx%d·%dx%d%s" % (m, k, k, n, ", first transposed" * ta + ", second transposed" * tb),
                     bound(matmul, m, k, n, ta=ta, tb=tb))
for batch, m, k, n in ((64, 64, 64, 64), (96, 128, 64, 128), (1000, 16, 16, 16)):
    products.add("%d of %dx%d·%dx%d" % (batch, m, k, k, n), lambda b=batch, m=m, k=k, n=n: tf.matmul(numbers(b, m, k), numbers(b, k, n)))


# Convolutions: size of the filter, stride, pixels, channels in and out

CONVOLUTIONS = [
    (1, 1, 56, 64, 64), (1, 1, 28, 256, 256), (1, 1, 112, 32, 64), (3, 1, 28, 256, 256), (3, 1, 56, 64, 64), (3, 1, 112, 32, 32),
    (3, 2, 56, 64, 64), (3, 1, 224, 3, 32), (5, 1, 28, 32, 64), (5, 1, 28, 1, 32), (5, 1, 56, 32, 64), (7, 2, 224, 3, 64),
]


def conv_shapes(size, stride, pixels, cin, cout):
    batch = 32 if pixels <= 28 else 8 if pixels <= 112 else 4
    out = -(-pixels // stride)
    return [batch, pixels, pixels, cin], [size, size, cin, cout], [batch, out, out, cout]


def channels_first(shape):
    return [shape[0], shape[3], shape[1], shape[2]]


def conv(kind, layout, row):
    image, kernel, out = conv_shapes(*row)
    strides = [1, row[1], row[1], 1]
    if layout == "NCHW":
        image, out, strides = channels_first(image), channels_first(out), channels_first(strides)
    attributes = dict(strides=strides, padding="SAME", data_format=layout)
    if kind == "forward":
        return tf1.nn.conv2d(numbers(*image), numbers(*kernel), **attributes)
    if kind == "by the input":
        return tf1.nn.conv2d_backprop_input(image, numbers(*kernel), numbers(*out), **attributes)
    return tf1.nn.conv2d_backprop_filter(numbers(*image), kernel, numbers(*out), **attributes)


for kind in ("forward", "by the input", "by the filter"):
    group = Group("Convolution, " + ("forward" if kind == "forward" else "gradient " + kind))
    for row in CONVOLUTIONS:
        group.add("%dx%d/%d, %d pixels, %d to %d" % (row[0], row[0], *row[1:]), bound(conv, kind, "NHWC", row))
# On a CPU, TensorFlow knows channels that come first only in the forward direction, and by oneDNN.
first = Group("Convolution, channels first")
for row in CONVOLUTIONS[4:9]:
    first.add("%dx%d/%d, %d pixels, %d to %d" % (row[0], row[0], *row[1:]), bound(conv, "forward", "NCHW", row))

windows = Group("Depthwise convolution and pooling")


def depthwise(kind, size, pixels, depth):
    image, kernel = [8, pixels, pixels, depth], [size, size, depth, 1]
    attributes = dict(strides=[1, 1, 1, 1], padding="SAME")
    if kind == "forward":
        return tf1.nn.depthwise_conv2d_native(numbers(*image), numbers(*kernel), **attributes)
    if kind == "by the input":
        return tf1.nn.depthwise_conv2d_native_backprop_input(image, numbers(*kernel), numbers(*image), **attributes)
    return tf1.nn.depthwise_conv2d_native_backprop_filter(numbers(*image), kernel, numbers(*image), **attributes)


for kind in ("forward", "by the input", "by the filter"):
    windows.add("depthwise 3x3, 56 pixels, 64, " + kind, bound(depthwise, kind, 3, 56, 64))


def pool(kind, grad, size, stride):
    image, attributes = [8, 112, 112, 64], dict(ksize=[1, size, size, 1], strides=[1, stride, stride, 1], padding="SAME")
    x, out = numbers(*image), -(-112 // stride)
    if not grad:
        return (tf1.nn.max_pool if kind == "max" else tf1.nn.avg_pool)(x, **attributes)
    g = numbers(8, out, out, 64)
    if kind == "max":
        return tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=numbers(8, out, out, 64), grad=g, **attributes)
    return tf.raw_ops.AvgPoolGrad(orig_input_shape=image, grad=g, **attributes)


for kind in ("max", "average"):
    for grad in (False, True):
        for size, stride in ((2, 2), (3, 2)):
            windows.add("%s pool %dx%d/%d%s" % (kind, size, size, stride, " gradient" * grad), bound(pool, kind, grad, size, stride))

# Elementwise

elementwise = Group("Elementwise")
for n in (1000, 10**6, 10**7):
    label = {1000: "1e3", 10**6: "1e6", 10**7: "1e7"}[n]
    for name, fn in (("add", tf.add), ("mul", tf.multiply)):
        elementwise.add("%s %s" % (name, label), lambda n=n, fn=fn: fn(numbers(n), numbers(n)))
    elementwise.add("pow " + label, lambda n=n: tf.pow(numbers(n, low=0.1), numbers(n)))
    for name, fn in (("relu", tf.nn.relu), ("tanh", tf.tanh), ("exp", tf.exp), ("sigmoid", tf.sigmoid), ("erf", tf.math.erf)):
        elementwise.add("%s %s" % (name, label), lambda n=n, fn=fn: fn(numbers(n)))
    for to in (tf.float64, tf.int32, tf.bfloat16):
        elementwise.add("cast to %s %s" % (to.name, label), lambda n=n, to=to: tf.cast(numbers(n), to))

broadcast = Group("Broadcasting, 1000x1000")
for name, fn in (("add", tf.add), ("mul", tf.multiply)):
    broadcast.add(name + " a row", lambda fn=fn: fn(numbers(1000, 1000), numbers(1, 1000)))
    broadcast.add(name + " a column", lambda fn=fn: fn(numbers(1000, 1000), numbers(1000, 1)))
    broadcast.add(name + " over the middle of 100x100x100", lambda fn=fn: fn(numbers(100, 100, 100), numbers(100, 1, 100)))
    broadcast.add(name + " a number", lambda fn=fn: fn(numbers(1000, 1000), numbers()))

reductions = Group("Reductions of 100x100x100")
for name, fn in (("sum", tf.reduce_sum), ("mean", tf.reduce_mean), ("max", tf.reduce_max)):
    for axis in (0, 1, 2, None):
        reductions.add("%s over %s" % (name, "all" if axis is None else "axis %d" % axis),
                       lambda fn=fn, axis=axis: fn(numbers(100, 100, 100), axis=axis))

losses = Group("Losses and norms")
for rows, classes in ((128, 10), (128, 10000)):
    losses.add("softmax %dx%d" % (rows, classes), lambda r=rows, c=classes: tf.nn.softmax(numbers(r, c)))
    losses.add("sparse cross-entropy %dx%d" % (rows, classes), lambda r=rows, c=classes: tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
        features=numbers(r, c), labels=integers(r, below=c)).loss)


def batch_norm(training):
    x = numbers(32, 28, 28, 64)
    return tf.raw_ops.FusedBatchNormV3(x=x, scale=numbers(64), offset=numbers(64), mean=numbers(64) if not training else numbers(0),
                                       variance=numbers(64, low=0.1) if not training else numbers(0), is_training=training).y


def batch_norm_grad():
    x = numbers(32, 28, 28, 64)
    return tf.raw_ops.FusedBatchNormGradV3(y_backprop=x, x=x, scale=numbers(64), reserve_space_1=numbers(64),
                                           reserve_space_2=numbers(64, low=0.1), reserve_space_3=numbers(0)).x_backprop


losses.add("batch norm in training", bound(batch_norm, True))
losses.add("batch norm in inference", bound(batch_norm, False))
losses.add("batch norm's gradient", batch_norm_grad)
losses.add("mean of each row of 128x1024", lambda: tf.reduce_mean(numbers(128, 1024), axis=1, keepdims=True))
losses.add("squared difference with a column", lambda: tf.math.squared_difference(numbers(128, 1024), numbers(128, 1)))
losses.add("bias add 32x28x28x64", lambda: tf.nn.bias_add(numbers(32, 28, 28, 64), numbers(64)))
losses.add("bias add's gradient", lambda: tf.raw_ops.BiasAddGrad(out_backprop=numbers(32, 28, 28, 64)))

# Rows of tables

table = Group("Rows of a table of 1e6x16")
table.add("gather 10,000", lambda: tf.gather(numbers(10**6, 16), integers(10000, below=10**6)))
table.add("scatter add 10,000", lambda: tf1.scatter_add(numbers(10**6, 16), integers(10000, below=10**6), numbers(10000, 16)))
table.add("embedding bag: sum of 10,000 into 1,000", lambda: tf.raw_ops.SparseSegmentSum(
    data=numbers(10**6, 16), indices=integers(10000, below=10**6), segment_ids=tf.range(10000) // 10))
table.add("unsorted sum of 10,000 into 1e6", lambda: tf.math.unsorted_segment_sum(numbers(10000, 16), integers(10000, below=10**6), 10**6))

moves = Group("Moves")
moves.add("transpose 1000x1000", lambda: tf.transpose(numbers(1000, 1000)))
moves.add("transpose 100x100x100 to 0 2 1", lambda: tf.transpose(numbers(100, 100, 100), [0, 2, 1]))
moves.add("transpose 100x100x100 to 2 0 1", lambda: tf.transpose(numbers(100, 100, 100), [2, 0, 1]))
moves.add("transpose NHWC to NCHW", lambda: tf.transpose(numbers(32, 28, 28, 64), [0, 3, 1, 2]))
moves.add("concat of two 1000x500 in columns", lambda: tf.concat([numbers(1000, 500), numbers(1000, 500)], 1))
moves.add("concat of ten 100x1000 in rows", lambda: tf.concat([numbers(100, 1000) for _ in range(10)], 0))
moves.add("split 1000x1000 in 4 by columns", lambda: tf.split(numbers(1000, 1000), 4, 1)[0])
moves.add("slice 500x500 of 1000x1000", lambda: tf.slice(numbers(1000, 1000), [250, 250], [500, 500]))
moves.add("pad 1000x1000 by 1", lambda: tf.pad(numbers(1000, 1000), [[1, 1], [1, 1]]))
moves.add("tile 1000x100 by 10", lambda: tf.tile(numbers(1000, 100), [1, 10]))
moves.add("one-hot 10000 of 100", lambda: tf.one_hot(integers(10000, below=100), 100))
moves.add("where of 1e6", lambda: tf.where(numbers(10**6) > 0, numbers(10**6), numbers(10**6)))

# Optimizers

optimizers = Group("Optimizers on 1e7 numbers")
N = 10**7


def adam():
    return tf.raw_ops.ApplyAdam(var=numbers(N), m=numbers(N), v=numbers(N, low=0.1), beta1_power=0.9, beta2_power=0.999, lr=1e-9,
                                beta1=0.9, beta2=0.999, epsilon=1e-7, grad=numbers(N))


optimizers.add("Adam", adam)
optimizers.add("momentum", lambda: tf.raw_ops.ApplyMomentum(var=numbers(N), accum=numbers(N), lr=1e-9, grad=numbers(N), momentum=0.9))
optimizers.add("Adagrad", lambda: tf.raw_ops.ApplyAdagrad(var=numbers(N), accum=numbers(N, low=0.1), lr=1e-9, grad=numbers(N)))
optimizers.add("gradient descent", lambda: tf.raw_ops.ApplyGradientDescent(var=numbers(N), alpha=1e-9, delta=numbers(N)))
optimizers.add("sparse momentum, 10,000 rows of 16", lambda: tf.raw_ops.SparseApplyMomentum(
    var=numbers(10**6, 16), accum=numbers(10**6, 16), lr=1e-9, grad=numbers(10000, 16), indices=integers(10000, below=10**6), momentum=0.9))
optimizers.add("sparse Adagrad, 10,000 rows of 16", lambda: tf.raw_ops.SparseApplyAdagrad(
    var=numbers(10**6, 16), accum=numbers(10**6, 16, low=0.1), lr=1e-9, grad=numbers(10000, 16), indices=integers(10000, below=10**6)))

# The rest

order = Group("Order, spectra, decompositions, random numbers")
order.add("top 10 of 128x10000", lambda: tf.nn.top_k(numbers(128, 10000), 10)[0])
order.add("top 1000 of 1e6", lambda: tf.nn.top_k(numbers(10**6), 1000)[0])
order.add("sort 1e6 (top k of all)", lambda: tf.nn.top_k(numbers(10**6), 10**6)[0])
order.add("unique of 1e6, 1000 values", lambda: tf.unique(integers(10**6, below=1000))[0])
order.add("unique of 1e6, 1e6 values", lambda: tf.unique(integers(10**6, below=10**6))[0])
order.add("FFT 1000x1024", lambda: tf.signal.fft(tf.complex(numbers(1000, 1024), numbers(1000, 1024))))
order.add("real FFT 1000x1024", lambda: tf.signal.rfft(numbers(1000, 1024)))
order.add("2-D FFT 512x512", lambda: tf.signal.fft2d(tf.complex(numbers(512, 512), numbers(512, 512))))


def positive(n):
    """A variable that holds a positive definite matrix."""
    return tf1.Variable(lambda: tf.matmul(*[tf.random.uniform([n, n], seed=3)] * 2, transpose_b=True) + n * tf.eye(n), use_resource=False)


order.add("Cholesky 256", lambda: tf.linalg.cholesky(positive(256)))
order.add("QR 256", lambda: tf.linalg.qr(numbers(256, 256))[0])
order.add("SVD 256", lambda: tf.linalg.svd(numbers(256, 256))[0])
order.add("inverse 256", lambda: tf.linalg.inv(positive(256)))
order.add("solve 256", lambda: tf.linalg.solve(positive(256), numbers(256, 16)))
order.add("eigenvalues 256", lambda: tf.linalg.eigvalsh(positive(256)))
order.add("random normal 1e6", lambda: tf.raw_ops.RandomStandardNormal(shape=[10**6], dtype=tf.float32, seed=1))
order.add("random uniform 1e6", lambda: tf.raw_ops.RandomUniform(shape=[10**6], dtype=tf.float32, seed=1))
order.add("stateless normal 1e6", lambda: tf.raw_ops.StatelessRandomNormalV2(
    shape=[10**6], key=tf.constant([1], tf.uint64), counter=tf.constant([2, 3], tf.uint64), alg=1))

others = Group("Strings and images")
others.add("split 10,000 lines", lambda: tf1.string_split(words(10000)).values)
others.add("hash 10,000 lines", lambda: tf.strings.to_hash_bucket_fast(words(10000), 1000))
others.add("join 10,000 lines", lambda: tf.strings.join([words(10000), words(10000)], ","))
others.add("resize bilinear 8x224x224x3 to 299", lambda: tf1.image.resize_bilinear(numbers(8, 224, 224, 3), [299, 299]))


def jpeg():
    x, y, z = np.meshgrid(np.arange(299), np.arange(299), np.arange(3))
    picture = (127 + 60 * np.sin(x / 17 + z) + 60 * np.cos(y / 11)).astype(np.uint8)
    with tf.Graph().as_default(), tf1.Session() as sess:
        encoded = sess.run(tf.image.encode_jpeg(picture))
    return tf.image.decode_jpeg(tf1.Variable(encoded, use_resource=False))


others.add("decode JPEG 299x299", jpeg)
