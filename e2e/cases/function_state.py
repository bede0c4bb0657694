"""Ops whose state is in their kernels, in functions: the state is the session's, on every task, whatever is fetched."""
import itertools

from support import control_flow_v2, tf
from tensorflow.python.framework import function, op_def_registry

R = tf.raw_ops
SEEDS = {"seed": 7, "seed2": 13}
DEVICES = ["/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"]  # the first one is the master's own


def empty():
    """The shape of a scalar."""
    return tf.constant([], tf.int32)


def sampled(op, **more):
    """The first number of a sampler of candidates."""
    return tf.cast(op(true_classes=tf.constant([[1]], tf.int64), num_true=1, num_sampled=1, unique=True, **SEEDS, **more)[0][0], tf.float32)


def shuffled():
    """The first of ten elements of a shuffled private queue, which each call fills again."""
    queue = R.RandomShuffleQueueV2(component_types=[tf.float32], shapes=[[]], capacity=1000, min_after_dequeue=1, **SEEDS)
    with tf.control_dependencies([R.QueueEnqueueManyV2(handle=queue, components=[tf.range(10.)])]):
        return R.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0]


def counted():
    """The size of a private queue, to which each call adds an element."""
    queue = R.FIFOQueueV2(component_types=[tf.float32])
    with tf.control_dependencies([R.QueueEnqueueV2(handle=queue, components=[1.])]):
        return tf.cast(R.QueueSizeV2(handle=queue), tf.float32)


# A number of each op that keeps a sequence: the next one each time.
OPS = {
    "RandomUniform": lambda: R.RandomUniform(shape=empty(), dtype=tf.float32, **SEEDS),
    "RandomUniformInt": lambda: tf.cast(R.RandomUniformInt(shape=empty(), minval=0, maxval=10**6, **SEEDS), tf.float32),
    "RandomStandardNormal": lambda: R.RandomStandardNormal(shape=empty(), dtype=tf.float32, **SEEDS),
    "TruncatedNormal": lambda: R.TruncatedNormal(shape=empty(), dtype=tf.float32, **SEEDS),
    "ParameterizedTruncatedNormal": lambda: R.ParameterizedTruncatedNormal(shape=[1], means=[0.], stdevs=[1.], minvals=[-2.], maxvals=[2.], **SEEDS)[0],
    "RandomGamma": lambda: R.RandomGamma(shape=empty(), alpha=1.0, **SEEDS),
    "RandomPoissonV2": lambda: R.RandomPoissonV2(shape=empty(), rate=10.0**6, dtype=tf.float32, **SEEDS),
    "Multinomial": lambda: tf.cast(R.Multinomial(logits=tf.zeros([1, 10**5]), num_samples=1, **SEEDS)[0, 0], tf.float32),
    "RandomShuffle": lambda: tf.cast(R.RandomShuffle(value=tf.range(10**5), **SEEDS)[0], tf.float32),
    "SampleDistortedBoundingBox": lambda: tf.cast(R.SampleDistortedBoundingBox(image_size=[30000, 30000, 3], bounding_boxes=[[[0., 0., 1., 1.]]], **SEEDS)[0][0], tf.float32),
    "SampleDistortedBoundingBoxV2": lambda: tf.cast(R.SampleDistortedBoundingBoxV2(image_size=[30000, 30000, 3], bounding_boxes=[[[0., 0., 1., 1.]]], min_object_covered=0.1, **SEEDS)[0][0], tf.float32),
    "UniformCandidateSampler": lambda: sampled(R.UniformCandidateSampler, range_max=10**6),
    "LogUniformCandidateSampler": lambda: sampled(R.LogUniformCandidateSampler, range_max=10**6),
    "LearnedUnigramCandidateSampler": lambda: sampled(R.LearnedUnigramCandidateSampler, range_max=10**4),
    "ThreadUnsafeUnigramCandidateSampler": lambda: sampled(R.ThreadUnsafeUnigramCandidateSampler, range_max=10**4),
    "FixedUnigramCandidateSampler": lambda: sampled(R.FixedUnigramCandidateSampler, range_max=1000, unigrams=[1.0] * 1000),
    "RandomShuffleQueueV2": shuffled,
    "FIFOQueueV2": counted,
}
# They have no kernel on CPUs, need no state since they take all, or are older forms whose kernels are those of others.
OTHERS = {"AllCandidateSampler", "CudnnRNN", "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "CudnnRNNV2", "CudnnRNNV3", "RandomCrop", "RandomPoisson", "RandomShuffleQueue"}


def nested(f):
    return tf.function(lambda: tf.function(f, autograph=False)(), autograph=False)()


names = itertools.count()


def defun(f, **options):
    return function.Defun(func_name="state_%d" % next(names), **options)(f)()


# Ways to call a function whose nodes TensorFlow puts in the place of the call.
WAYS = {
    "no function": lambda f: f(),
    "Defun": defun,
    "tf.function": lambda f: tf.function(f, autograph=False)(),
    "a function in a function": nested,
    "a loop": lambda f: tf.while_loop(lambda i, x: i < 1, lambda i, x: (i + 1, tf.reshape(f(), [])), [0, 0.])[1],
    "a conditional": lambda f: tf.cond(tf.placeholder_with_default(True, []), lambda: tf.reshape(f(), []), lambda: 0.),
    "two calls, the first": lambda f: tf.tuple([g() for g in [tf.function(f, autograph=False)] * 2])[0],
    "two calls, the second": lambda f: tf.tuple([g() for g in [tf.function(f, autograph=False)] * 2])[1],
}


def test_all_ops_with_a_seed_are_here(cluster):
    seeded = {name for name in dir(R) for op in [op_def_registry.get(name)] if op and op.is_stateful and any(a.name == "seed" for a in op.attr)}
    assert seeded - OPS.keys() == OTHERS, seeded - OPS.keys() ^ OTHERS


@control_flow_v2
def test_state_is_the_sessions(cluster):
    for device in DEVICES:
        made = {}
        with tf.device(device):
            for op, make in OPS.items():
                for way, call in WAYS.items():
                    made[op, way] = tf.identity(call(make))
            another = tf.constant(1.0) + 0
        sequences = {key: [] for key in made}
        with cluster.session() as sess:
            def run(*more):
                for key, value in sess.run([made, *more])[0].items():
                    sequences[key].append(float(value))
            run()
            run()
            run(another)
            run()
            with tf.device(device):
                extended = tf.function(lambda: tf.constant(3.0) * 2, autograph=False)()
            run(extended)
            run(another)
        for (op, way), sequence in sequences.items():
            assert sequence == sequences[op, "no function"], (device, op, way, sequence, sequences[op, "no function"])
        for op in OPS:
            assert len(set(sequences[op, "no function"])) > 4 or op == "RandomShuffleQueueV2", (device, op, sequences[op, "no function"])


@control_flow_v2
def test_a_function_that_may_not_be_inlined_has_its_own(cluster):
    for device in DEVICES:
        made, plain = {}, {}
        with tf.device(device):
            for op, make in OPS.items():
                plain[op] = make()
                made[op, "Defun"] = defun(make, noinline=True)
                made[op, "tf.function"] = tf.function(make, autograph=False, experimental_attributes={"_noinline": True})()
            another = tf.constant(1.0) + 0
        with cluster.session() as sess:
            want = [sess.run(plain) for _ in range(3)]
            for n, fetches in enumerate([made, made, (made, another), made]):
                value = sess.run(fetches)
                nth = [0, 1, 0, 2][n]  # the sequence belongs to what is fetched
                for (op, way), number in (value[0] if isinstance(value, tuple) else value).items():
                    if op not in ("RandomShuffleQueueV2", "FIFOQueueV2"):  # resources of the session have no place in a program
                        assert number == want[nth][op], (device, op, way, n)
