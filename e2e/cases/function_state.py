"""Ops whose state is in their kernels, in functions: the state is the session's, on every task, whatever is fetched."""
import itertools

from support import control_flow_v2, tf
from tensorflow.python.framework import function, op_def_registry

R = tf.raw_ops
SEEDS = {"seed": 7, "seed2": 13}
DEVICES = ["/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0"]  # the first one is the master's own
ALONE = {"device_filters": ["/job:worker/task:0"]}  # with no other task, calls that use resources stay calls
ON_MASTER, ON_WORKER, ON_PS = [(device, {}) for device in DEVICES]
ON_NO_OTHER = (DEVICES[0], ALONE)


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


# The session's step, from 0 on: what the resources below are given each time.
step = None


def first(make):
    """A number that is there once `make` has run in the first step, and at once in others."""
    def made():
        with tf.control_dependencies([make()]):
            return tf.constant(1.)
    return tf.cond(tf.equal(step, 0), made, lambda: tf.constant(0.))


def after(op, make):
    """The number of `make`, counted after `op`."""
    with tf.control_dependencies([op]):
        return tf.cast(make(), tf.float32)


INTEGERS = {"output_types": [tf.int64], "output_shapes": [[]]}


def numbers():
    """A dataset of numbers from 5 on."""
    return R.RangeDataset(start=tf.constant(5, tf.int64), stop=tf.constant(100, tf.int64), step=tf.constant(1, tf.int64), **INTEGERS)


def iterated(op):
    """The next element of an iterator that the first step makes."""
    iterator = op(shared_name="", container="", **INTEGERS)
    return after(first(lambda: R.MakeIterator(dataset=numbers(), iterator=iterator)), lambda: R.IteratorGetNext(iterator=iterator, **INTEGERS)[0])


def one_shot():
    """The next element of an iterator that makes its dataset itself."""
    factory = function.Defun(func_name="state_%d" % next(names), capture_by_value=True)(numbers)
    factory.add_to_graph(tf.get_default_graph())
    return tf.cast(R.IteratorGetNext(iterator=R.OneShotIterator(dataset_factory=factory, **INTEGERS), **INTEGERS)[0], tf.float32)


def dealt():
    """The next element of an iterator for several devices, which the first step makes."""
    iterator = R.MultiDeviceIterator(devices=["/device:CPU:0"], shared_name="", container="", **INTEGERS)
    make = lambda: R.MultiDeviceIteratorInit(dataset=numbers(), multi_device_iterator=iterator, max_buffer_size=1)
    return after(first(make), lambda: R.MultiDeviceIteratorGetNextFromShard(multi_device_iterator=iterator, shard_num=0, incarnation_id=tf.constant(1, tf.int64), **INTEGERS)[0])


def queued(op, enqueue, size, elements=(1.,), **more):
    """The size of a queue, to which each step adds an element."""
    queue = op(**more)
    return after(enqueue(handle=queue, components=list(elements)), lambda: size(handle=queue))


def read():
    """The number of records that a reader has produced, one in each step."""
    reader, queue = R.IdentityReaderV2(), R.FIFOQueueV2(component_types=[tf.string])
    with tf.control_dependencies([R.QueueEnqueueV2(handle=queue, components=["name"])]):
        return after(R.ReaderReadV2(reader_handle=reader, queue_handle=queue)[1].op, lambda: R.ReaderNumRecordsProducedV2(reader_handle=reader))


def table(op, insert, size, value=1., **more):
    """The size of a table, into which each step inserts a key."""
    made = op(key_dtype=tf.int64, value_dtype=tf.float32, **more)
    return after(insert(table_handle=made, keys=tf.cast(step, tf.int64), values=value), lambda: size(table_handle=made))


def dense_table():
    """The same of a table that has keys of its own."""
    made = R.MutableDenseHashTableV2(empty_key=tf.constant(-1, tf.int64), deleted_key=tf.constant(-2, tf.int64), value_dtype=tf.float32)
    return after(R.LookupTableInsertV2(table_handle=made, keys=tf.cast(step, tf.int64), values=1.), lambda: R.LookupTableSizeV2(table_handle=made))


def constant_table():
    """The size of a table that the first step fills."""
    made = R.HashTableV2(key_dtype=tf.int64, value_dtype=tf.float32)
    fill = lambda: R.InitializeTableV2(table_handle=made, keys=tf.range(10, dtype=tf.int64), values=tf.range(10.))
    return after(first(fill), lambda: R.LookupTableSizeV2(table_handle=made))


def inserted():
    """The number of a barrier's complete tuples, of which each step adds one."""
    barrier = R.Barrier(component_types=[tf.float32], shapes=[[]])
    return after(R.BarrierInsertMany(handle=barrier, keys=[tf.as_string(step)], values=[1.], component_index=0), lambda: R.BarrierReadySize(handle=barrier))


def accumulated(op, apply, count, **gradient):
    """The number of gradients in an accumulator, to which each step applies one."""
    accumulator = op(dtype=tf.float32, shape=[1])
    return after(apply(handle=accumulator, local_step=tf.constant(0, tf.int64), **gradient), lambda: count(handle=accumulator))


def assigned():
    """A variable that the first step initializes, and to which each step adds 1."""
    variable = R.VarHandleOp(dtype=tf.float32, shape=[])
    with tf.control_dependencies([first(lambda: R.AssignVariableOp(resource=variable, value=0.))]):
        return after(R.AssignAddVariableOp(resource=variable, value=1.), lambda: R.ReadVariableOp(resource=variable, dtype=tf.float32))


def staged(op, **more):
    """The step, which adds an element to a staging area that has room for those of its own steps."""
    return after(op(capacity=10, **more), lambda: step)


def locked():
    """A number that is there once a lock has been had."""
    mutex = R.MutexV2()
    return after(R.ConsumeMutexLock(mutex_lock=R.MutexLock(mutex=mutex)), lambda: step)


def stored(op):
    """The number of the sparse tensors that were stored before."""
    handle = op(sparse_indices=tf.constant([[0, 0]], tf.int64), sparse_values=[1.], sparse_shape=tf.constant([1, 1], tf.int64))
    return tf.cast(tf.reshape(handle, [-1])[0], tf.float32)




# A number of each resource without a shared name, which changes with each step, or would if another function's resource had the same name.
RESOURCES = {
    "Iterator": lambda: iterated(R.Iterator),
    "IteratorV2": lambda: iterated(R.IteratorV2),
    "OneShotIterator": one_shot,
    "MultiDeviceIterator": dealt,
    "FIFOQueue": lambda: queued(R.FIFOQueue, R.QueueEnqueue, R.QueueSize, component_types=[tf.float32], shapes=[[]]),
    "FIFOQueueV2": lambda: queued(R.FIFOQueueV2, R.QueueEnqueueV2, R.QueueSizeV2, component_types=[tf.float32], shapes=[[]]),
    "PaddingFIFOQueue": lambda: queued(R.PaddingFIFOQueue, R.QueueEnqueue, R.QueueSize, component_types=[tf.float32], shapes=[[]]),
    "PaddingFIFOQueueV2": lambda: queued(R.PaddingFIFOQueueV2, R.QueueEnqueueV2, R.QueueSizeV2, component_types=[tf.float32], shapes=[[]]),
    "PriorityQueue": lambda: queued(R.PriorityQueue, R.QueueEnqueue, R.QueueSize, (tf.constant(1, tf.int64), 1.), component_types=[tf.float32], shapes=[[]]),
    "PriorityQueueV2": lambda: queued(R.PriorityQueueV2, R.QueueEnqueueV2, R.QueueSizeV2, (tf.constant(1, tf.int64), 1.), component_types=[tf.float32], shapes=[[]]),
    "RandomShuffleQueue": lambda: queued(R.RandomShuffleQueue, R.QueueEnqueue, R.QueueSize, component_types=[tf.float32], shapes=[[]]),
    "RandomShuffleQueueV2": lambda: queued(R.RandomShuffleQueueV2, R.QueueEnqueueV2, R.QueueSizeV2, component_types=[tf.float32], shapes=[[]]),
    "IdentityReaderV2": read,
    "HashTableV2": constant_table,
    "MutableHashTable": lambda: table(R.MutableHashTable, R.LookupTableInsert, R.LookupTableSize),
    "MutableHashTableV2": lambda: table(R.MutableHashTableV2, R.LookupTableInsertV2, R.LookupTableSizeV2),
    "MutableHashTableOfTensors": lambda: table(R.MutableHashTableOfTensors, R.LookupTableInsert, R.LookupTableSize, value=[1.], value_shape=[1]),
    "MutableHashTableOfTensorsV2": lambda: table(R.MutableHashTableOfTensorsV2, R.LookupTableInsertV2, R.LookupTableSizeV2, value=[1.], value_shape=[1]),
    "MutableDenseHashTableV2": dense_table,
    "Barrier": inserted,
    "ConditionalAccumulator": lambda: accumulated(R.ConditionalAccumulator, R.AccumulatorApplyGradient, R.AccumulatorNumAccumulated, gradient=[1.]),
    "ResourceConditionalAccumulator": lambda: accumulated(R.ResourceConditionalAccumulator, R.ResourceAccumulatorApplyGradient, R.ResourceAccumulatorNumAccumulated, gradient=[1.]),
    "SparseConditionalAccumulator": lambda: accumulated(R.SparseConditionalAccumulator, R.SparseAccumulatorApplyGradient, R.AccumulatorNumAccumulated,
                                                        gradient_indices=tf.constant([0], tf.int64), gradient_values=[1.], gradient_shape=tf.constant([1], tf.int64), has_known_shape=True),
    "VarHandleOp": assigned,
    "Stage": lambda: staged(R.Stage, values=[1.]),
    "MapStage": lambda: staged(R.MapStage, key=tf.cast(step, tf.int64), indices=tf.constant([0]), values=[1.], dtypes=[tf.float32]),
    "OrderedMapStage": lambda: staged(R.OrderedMapStage, key=tf.cast(step, tf.int64), indices=tf.constant([0]), values=[1.], dtypes=[tf.float32]),
    "MutexV2": locked,
    "AddSparseToTensorsMap": lambda: stored(R.AddSparseToTensorsMap),
    "AddManySparseToTensorsMap": lambda: stored(R.AddManySparseToTensorsMap),
}
# These are named after their nodes, so that a function that may not be inlined finds them again in other steps.
NAMED = {"VarHandleOp", "Stage", "MapStage", "OrderedMapStage", "MutexV2", "AddSparseToTensorsMap", "AddManySparseToTensorsMap"}
# They take from what others have given a name, only hand on a handle, need files or cards, were removed, or are older forms of others.
OTHER_RESOURCES = {
    "BoostedTreesEnsembleResourceHandleOp", "BoostedTreesQuantileStreamResourceHandleOp", "ExperimentalStatsAggregatorHandle", "ExperimentalThreadPoolHandle",
    "FixedLengthRecordReader", "FixedLengthRecordReaderV2", "HashTable", "IdentityReader", "LMDBReader", "MapClear", "MapIncompleteSize", "MapPeek", "MapSize",
    "MapUnstage", "MapUnstageNoKey", "MutableDenseHashTable", "NcclAllReduce", "OrderedMapClear", "OrderedMapIncompleteSize", "OrderedMapPeek", "OrderedMapSize",
    "OrderedMapUnstage", "OrderedMapUnstageNoKey", "StageClear", "StagePeek", "StageSize", "StatsAggregatorHandle", "StatsAggregatorHandleV2", "SummaryWriter",
    "TFRecordReader", "TFRecordReaderV2", "TakeManySparseFromTensorsMap", "TextLineReader", "TextLineReaderV2", "ThreadPoolHandle", "Unstage", "Variable",
    "VariableV2", "WholeFileReader", "WholeFileReaderV2"}
names = itertools.count()


def nested(f):
    return tf.function(lambda: tf.function(f, autograph=False)(), autograph=False)()


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


def test_all_resources_without_a_name_are_here(cluster):
    shared = {name for name in dir(R) for op in [op_def_registry.get(name)] if op and op.is_stateful and any(a.name == "shared_name" for a in op.attr)}
    assert shared - RESOURCES.keys() == OTHER_RESOURCES, shared - RESOURCES.keys() ^ OTHER_RESOURCES


@control_flow_v2
def test_state_on_master(cluster):
    check_state(cluster, OPS, ON_MASTER)


@control_flow_v2
def test_state_on_worker(cluster):
    check_state(cluster, OPS, ON_WORKER)


@control_flow_v2
def test_state_on_ps(cluster):
    check_state(cluster, OPS, ON_PS)


@control_flow_v2
def test_state_on_no_other(cluster):
    check_state(cluster, OPS, ON_NO_OTHER)


@control_flow_v2
def test_resources_on_master(cluster):
    check_state(cluster, RESOURCES, ON_MASTER)


@control_flow_v2
def test_resources_on_worker(cluster):
    check_state(cluster, RESOURCES, ON_WORKER)


@control_flow_v2
def test_resources_on_ps(cluster):
    check_state(cluster, RESOURCES, ON_PS)


@control_flow_v2
def test_resources_on_no_other(cluster):
    check_state(cluster, RESOURCES, ON_NO_OTHER)


def check_state(cluster, ops, place):
    """Checks that each op's state is the same in each way to call a function, whatever is fetched with it."""
    global step  # pylint: disable=global-statement
    device, config = place
    step = tf.placeholder_with_default(0, [], name="step")
    made = {}
    with tf.device(device), tf.name_scope(cluster.name):
        for op, make in ops.items():
            for way, call in WAYS.items():
                made[op, way] = tf.identity(call(make))
        another = tf.constant(1.0) + 0
    sequences = {key: [] for key in made}
    with cluster.session(**config) as sess:
        def run(*more):
            for key, value in sess.run([made, *more], {step: len(sequences[next(iter(made))])})[0].items():
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
        assert sequence == sequences[op, "no function"], (op, way, sequence, sequences[op, "no function"])
    for op in ops:
        assert len(set(sequences[op, "no function"])) > 4 or op in ("RandomShuffleQueueV2", "HashTableV2"), (op, sequences[op, "no function"])


def scoped(make):
    """The same, with names of nodes that no other function has."""
    def made():
        with tf.name_scope("scope_%d" % next(names)):
            return make()
    return made


@control_flow_v2
def test_a_function_that_may_not_be_inlined_has_its_own(cluster):
    """The sequence belongs to the set of what is fetched, in whatever order."""
    global step  # pylint: disable=global-statement
    for device, config in ON_MASTER, ON_WORKER, ON_PS, ON_NO_OTHER:
        # With other tasks, functions that use resources are replaced by their nodes even so.
        ops = {**OPS, **RESOURCES, "a shuffled queue": shuffled} if config else {op: make for op, make in OPS.items() if make not in (shuffled, counted)}
        made, plain = {}, {}
        with cluster.graph(), tf.device(device):
            step = tf.placeholder_with_default(0, [], name="step")
            for op, make in ops.items():
                own = scoped if op in NAMED else lambda make: make
                plain[op] = scoped(make)()
                made[op, "Defun"] = defun(own(make), noinline=True)
                made[op, "tf.function"] = tf.function(own(make), autograph=False, experimental_attributes={"_noinline": True})()
            made["another"] = tf.constant(1.0) + 0
        with cluster.session(graph=step.graph, **config) as sess:
            want = [sess.run(plain, {step: i}) for i in range(4)]
            keys = [key for key in made if key != "another"]
            for n, (nth, order) in enumerate([(0, keys), (1, keys), (0, [*keys, "another"]), (2, keys), (3, keys[::-1]), (1, ["another", *keys])]):
                for key, number in zip(order, sess.run([made[key] for key in order], {step: nth})):
                    if key == "another" or key[0] == "VarHandleOp":  # the sets have one variable together
                        continue
                    expected = n if key[0] in ("AddSparseToTensorsMap", "AddManySparseToTensorsMap") else want[nth][key[0]]
                    assert number == expected, (device, key, n, number, expected)


@control_flow_v2
def test_functions_of_a_node_have_state_of_their_own(cluster):
    """The functions of a conditional or a loop have nodes of equal names."""
    uniform = lambda seed: R.RandomUniform(shape=empty(), dtype=tf.float32, seed=seed, seed2=1)
    for device in DEVICES:
        with tf.device(device):
            which = tf.placeholder_with_default(True, [])
            branches = tf.cond(which, lambda: uniform(1), lambda: uniform(2))
            wide = tf.cond(which, lambda: tf.cast(uniform(1), tf.float64), lambda: R.RandomUniform(shape=empty(), dtype=tf.float64, seed=2, seed2=1))
            loop = tf.while_loop(lambda i, x: tf.logical_and(i < 1, uniform(1) < 2), lambda i, x: (i + 1, uniform(2)), [0, 0.])[1]
            plain = [uniform(1), uniform(2)]
            plain64 = R.RandomUniform(shape=empty(), dtype=tf.float64, seed=2, seed2=1)
        with cluster.session() as sess:
            want = [sess.run([plain, plain64]) for _ in range(3)]
            for i in range(3):
                assert sess.run(loop) == want[i][0][1], (device, i)
                assert sess.run([branches, wide]) == [want[i][0][0]] * 2, (device, i)
                assert sess.run([branches, wide], {which: False}) == [want[i][0][1], want[i][1]], (device, i)
