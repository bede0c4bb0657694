"""What random TensorFlow 2 programs keep on tasks: variables, tables, queues, iterators, files."""
import eager_expressions as ex
from eager_expressions import Value

# TensorFlow's client does not wait for the answer of an op without outputs. What another task reads after it, and its error, would come now or later.
DONE = "\ncontext.context().sync_executors()"


class Table:
    """A table of a program, whose keys have this dtype. Its values are int64."""

    __slots__ = ("name", "dtype", "mutable")

    def __init__(self, name, dtype, mutable):
        self.name = name
        self.dtype = dtype
        self.mutable = mutable


def variable(p):
    rng, name = p.rng, p.name("v")
    dtype = rng.choices((rng.choice(ex.FLOATS), rng.choice(ex.INTEGERS), "string", "bool", rng.choice(ex.RARE)), (6, 4, 1, 1, 1))[0]
    shape = ex.LARGE if rng.random() < 0.05 else rng.choice(ex.SHAPES)
    fitting = [v for v in p.values if v.dtype in ex.FLOATS + ex.INTEGERS + ("string",)]
    if fitting and rng.random() < 0.3:
        v = rng.choice(fitting)
        initial, dtype, shape = v.name, v.dtype, v.shape
    else:
        initial = ex.constant(rng, dtype, shape)
    p.emit(p.placed("%s = tf.Variable(%s)\nwhere(%s.handle)" % (name, initial, name)))
    p.variables.append(Value(name, dtype, shape))


def update(p):
    rng = p.rng
    if not p.variables:
        return variable(p)
    v = rng.choice(p.variables)
    operand = ex.constant(rng, v.dtype, v.shape)
    fitting = [x.name for x in p.values if x.dtype == v.dtype and x.shape == v.shape]
    if fitting and rng.random() < 0.6:
        operand = rng.choice(fitting)
    calls = ["%s.assign(%s)" % (v.name, operand)]
    if v.dtype in ex.FLOATS + ex.INTEGERS:
        calls += ["%s.assign_add(%s)" % (v.name, operand), "%s.assign_sub(%s)" % (v.name, operand)]
        if v.shape and v.shape[0]:
            row = ex.constant(rng, v.dtype, (2,) + v.shape[1:])
            at = rng.choice(("[0, %d]" % (v.shape[0] - 1), "[0, 0]", "[0, 0]", "[0, 9]"))
            how = rng.choice(("scatter_update", "scatter_add", "scatter_sub", "scatter_max", "scatter_min", "scatter_mul"))
            if at == "[0, 9]":  # TensorFlow leaves the rows before the bad one changed (docs/differences.md)
                row, at = ex.constant(rng, v.dtype, (1,) + v.shape[1:]), "[9]"
            calls += ["%s.%s(tf.IndexedSlices(%s, tf.constant(%s)))" % (v.name, how, row, at)] * 2
            calls += ["%s.scatter_nd_%s([[0]], %s)" % (v.name, rng.choice(("add", "sub", "update")), ex.constant(rng, v.dtype, (1,) + v.shape[1:])),
                      "%s[:1].assign(%s[:1] * 2)" % (v.name, v.name)]
    text = rng.choice(calls)
    p.emit((p.placed(text) if rng.random() < 0.5 else text) + DONE)
    if rng.random() < 0.5:
        p.emit("show(%s)" % v.name)


def read(p):
    if not p.variables:
        return variable(p)
    v, name = p.rng.choice(p.variables), p.name("x")
    text, shape = p.rng.choice(((v.name + ".read_value()", v.shape), ("tf.identity(%s)" % v.name, v.shape), ("tf.stack([%s, %s])" % (v.name, v.name), (2,) + v.shape)))
    if v.shape and v.shape[0]:
        text, shape = p.rng.choice(((text, shape), ("%s.sparse_read([0, %d])" % (v.name, v.shape[0] - 1), (2,) + v.shape[1:]), ("%s.gather_nd([[0]])" % v.name, (1,) + v.shape[1:])))
    p.emit(p.placed("%s = %s" % (name, text)) + "\nwhere(%s)" % name)
    p.values.append(Value(name, v.dtype, shape))


def delete(p):
    """Something ends: its last name goes, or only one of its names."""
    rng = p.rng
    lists = [some for some in (p.values, p.variables, p.tables) if some]
    if not lists:
        return
    some = rng.choice(lists)
    for gone in rng.sample(some, min(len(some), rng.randint(1, 3))):
        some.remove(gone)
        # A function that captured it has only a weak reference to a variable: it fails from then on, the same way everywhere.
        p.emit("del %s" % gone.name)
    if rng.random() < 0.4:
        p.emit("gc.collect()\nNone")


def raw_variable(p):
    """A variable by its ops, made and destroyed by name. Ops of optimizers are not among them: without a variable, TensorFlow's are INTERNAL."""
    rng, name = p.rng, p.name("h")
    at = "tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name='%s' + UNIQUE, container='')" % name
    p.emit(p.placed("%s = %s\nshow(tf.raw_ops.VarIsInitializedOp(resource=%s))" % (name, at, name)))
    steps = ["tf.raw_ops.AssignVariableOp(resource=%s, value=tf.constant([1.0, 2.0]))" % name, "show(tf.raw_ops.ReadVariableOp(resource=%s, dtype=tf.float32))" % name,
             "show(tf.raw_ops.VarIsInitializedOp(resource=%s))" % name, "tf.raw_ops.AssignAddVariableOp(resource=%s, value=tf.constant([1.0, 2.0]))" % name,
             "tf.raw_ops.DestroyResourceOp(resource=%s, ignore_lookup_error=%s)" % (name, rng.random() < 0.5),
             "show(tf.raw_ops.VariableShape(input=%s))" % name, "tf.raw_ops.AssignVariableOp(resource=%s, value=tf.constant([1, 2]))" % name,
             "tf.raw_ops.ResourceScatterUpdate(resource=%s, indices=[1], updates=[5.0])" % name,
             "tf.raw_ops.AssignAddVariableOp(resource=%s, value=tf.constant([1.0, 2.0, 3.0]))" % name]
    for step in rng.choices(steps, k=rng.randint(3, 7)):
        p.emit(step + DONE)


def table(p):
    rng, name = p.rng, p.name("table")
    dtype = rng.choice(("string", "int64"))
    keys = "['a', 'Bc', '12']" if dtype == "string" else "tf.constant([0, 1, 100], tf.int64)"
    values = "tf.constant([7, 8, 9], tf.int64)"
    kind = rng.choice(("static", "mutable", "dense"))
    if kind == "static":
        made = "tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(%s, %s), -1)" % (keys, values)
    elif kind == "mutable":
        made = "tf.lookup.experimental.MutableHashTable(tf.%s, tf.int64, -1)" % dtype
    else:
        empty, deleted = ("'<empty>'", "'<deleted>'") if dtype == "string" else ("-100", "-101")
        made = "tf.lookup.experimental.DenseHashTable(tf.%s, tf.int64, -1, %s, %s)" % (dtype, empty, deleted)
    p.emit(p.placed("%s = %s" % (name, made)))
    p.tables.append(Table(name, dtype, kind != "static"))
    if kind != "static":
        p.emit("%s.insert(%s, %s)" % (name, keys, values) + DONE)


def use_table(p):
    rng = p.rng
    if not p.tables:
        return table(p)
    t = rng.choice(p.tables)
    fitting = [v for v in p.values if v.dtype == t.dtype]
    keys = rng.choice(fitting).name if fitting and rng.random() < 0.6 else ex.constant(rng, t.dtype, (3,))
    texts = ["show(%s.lookup(%s))" % (t.name, keys), "show(%s.size())" % t.name]
    if t.mutable:
        texts += ["%s.insert(%s, tf.constant([1, 2, 3], tf.int64))" % (t.name, ex.constant(rng, t.dtype, (3,))),
                  "%s.remove(%s)" % (t.name, ex.constant(rng, t.dtype, (2,))), "k, x = %s.export()\nshow(tf.sort(x))" % t.name,
                  "%s.insert(%s, tf.constant([1, 2], tf.int64))" % (t.name, ex.constant(rng, t.dtype, (3,)))]
    text = rng.choice(texts)
    p.emit((p.placed(text) if rng.random() < 0.4 else text) + DONE)


def queue(p):
    """A queue, from its making to its end. No dequeue waits."""
    rng, name = p.rng, p.name("queue")
    kind = rng.choice(("FIFOQueue(10, [tf.%s], shapes=[%s])", "FIFOQueue(10, [tf.%s], shapes=[%s])", "PaddingFIFOQueue(10, [tf.%s], shapes=[%s])",
                       "RandomShuffleQueue(10, 0, [tf.%s], shapes=[%s], seed=3)"))
    dtype, shape = rng.choice(("float32", "int64", "string")), rng.choice(ex.SHAPES)
    p.emit(p.placed("%s = tf.queue.%s" % (name, kind % (dtype, list(shape)))))
    held = 0
    for _ in range(rng.randint(2, 7)):
        choice = rng.random()
        if choice < 0.35 and held < 9:
            held += 1
            p.emit(p.placed("%s.enqueue([%s])" % (name, ex.constant(rng, dtype, shape))) + DONE)
        elif choice < 0.5 and held < 7:
            held += 3
            p.emit("%s.enqueue_many([%s])" % (name, ex.constant(rng, dtype, (3,) + shape)) + DONE)
        elif choice < 0.7 and held:
            held -= 1
            p.emit("show(%s.dequeue())" % name if rng.random() < 0.5 else p.placed("show(%s.dequeue())" % name))
        elif choice < 0.8 and held > 1:
            held -= 2
            p.emit("show(%s.dequeue_many(2))" % name)
        elif choice < 0.85:
            p.emit("%s.enqueue([%s])" % (name, ex.constant(rng, dtype, shape + (2,))) + DONE)  # of a wrong shape
        else:
            p.emit("show(%s.size())" % name)
    if rng.random() < 0.5:
        p.emit("%s.close()" % name + DONE)
        for _ in range(held):
            p.emit("show(%s.dequeue())" % name)
        p.emit("show(%s.dequeue())" % name)
        p.emit("%s.enqueue([%s])" % (name, ex.constant(rng, dtype, shape)) + DONE)


def dataset_text(p):
    """The text of a dataset of scalars or vectors that ends. Generators are the client's: tasks cannot call them."""
    rng = p.rng
    integers = [v.name for v in p.variables if v.dtype == "int64" and v.shape == ()]
    base = rng.choice(("tf.data.Dataset.range(%d)" % rng.randint(0, 9), "tf.data.Dataset.from_tensor_slices(tf.constant([3, 1, 2, 1], tf.int64))",
                       "tf.data.Dataset.from_tensors(tf.constant(5, tf.int64)).repeat(3)", "tf.data.Dataset.range(3).interleave(lambda e: tf.data.Dataset.range(e), cycle_length=2)",
                       "tf.data.Dataset.range(2).concatenate(tf.data.Dataset.range(5, 8))"))
    steps = [".map(lambda e: e * 2 + 1)", ".map(lambda e: e + 3, num_parallel_calls=2)", ".filter(lambda e: e %% 2 < %d)" % rng.randint(1, 2), ".shuffle(4, seed=%d)" % p.seed(),
             ".repeat(2)", ".take(5)", ".skip(1)", ".cache()", ".prefetch(2)", ".enumerate().map(lambda i, e: i + e)", ".shard(2, 1)", ".flat_map(lambda e: tf.data.Dataset.range(e % 3))",
             ".scan(tf.constant(0, tf.int64), lambda s, e: (s + e, s + e))", ".unique()", ".window(2).flat_map(lambda w: w)", ".take_while(lambda e: e < 6)",
             ".map(lambda e: e // tf.constant(1, tf.int64))", ".apply(tf.data.experimental.ignore_errors())", ".map(lambda e: tf.debugging.check_numerics(tf.cast(e, tf.float32), 'x'))"
             ".map(lambda e: tf.cast(e, tf.int64))", ".snapshot(DIR + '/snapshot%s')" % p.name("s"), ".prefetch(tf.data.AUTOTUNE)"]
    if integers:
        steps += [".map(lambda e: e + %s)" % rng.choice(integers)] * 4
    if p.tables and any(t.dtype == "int64" for t in p.tables):
        steps += [".map(%s.lookup)" % rng.choice([t.name for t in p.tables if t.dtype == "int64"])] * 3
    text = base + "".join(rng.choice(steps) for _ in range(rng.randint(0, 4)))
    if rng.random() < 0.4:
        text += rng.choice((".batch(2)", ".batch(2, drop_remainder=True)", ".map(lambda e: tf.fill([e % 4], e)).padded_batch(2)", ".batch(3, num_parallel_calls=2)",
                            ".map(lambda e: {'a': e, 'b': tf.as_string(e)})", ".map(lambda e: tf.sparse.from_dense([e, 0]))", ".map(lambda e: tf.fill([e % 4], e)).ragged_batch(2)",
                            ".map(lambda e: 7 // e)", ".group_by_window(lambda e: e % 2, lambda k, d: d.batch(4), 4)", ".map(lambda e: (e, tf.cast(e, tf.float32)))"))
    if rng.random() < 0.2:
        option = rng.choice(("'deterministic', True", "'autotune.enabled', False", "'threading.private_threadpool_size', 2", "'threading.max_intra_op_parallelism', 1",
                             "'experimental_optimization.map_fusion', True", "'experimental_slack', True", "'experimental_optimization.apply_default_optimizations', False"))
        text = "with_options(%s, %s)" % (text, option)
    return text


def iterate(p):
    """A dataset on a task, and its elements one by one, whole, or in a function."""
    rng, name = p.rng, p.name("d")
    choice = rng.random()
    text = dataset_text(p)
    if choice < 0.5:
        p.emit(p.placed("%s = iter(%s)" % (name, text)))
        for _ in range(rng.randint(1, 4)):
            p.emit(rng.choice(("show(next(%s))" % name, "show(*list(%s))" % name, "o = %s.get_next_as_optional()\nshow(o.has_value())\nshow(o.get_value())" % name,
                               p.placed("show(next(%s))" % name), "show(next(%s, None))" % name)))
        if rng.random() < 0.3:
            p.emit("@tf.function\ndef g(it):\n    return next(it), it.get_next_as_optional().has_value()")
            p.emit(p.placed("show(g(%s))" % name))
        if rng.random() < 0.3:
            p.emit("c = tf.train.Checkpoint(it=%s)\npath = c.write(DIR + '/%s')\nshow(next(%s))" % (name, name, name))
            p.emit("c.restore(path)\nshow(next(%s))" % name)
        p.emit("del %s" % name)
    elif choice < 0.7:
        p.emit(p.placed("show(*list(%s))" % text))
    elif choice < 0.8:
        p.emit(p.placed("%s = %s\nshow(%s.cardinality())\nshow(*[e for e in %s])" % (name, text, name, name)))
    else:  # none is made on one task and iterated over on another: TensorFlow's servers cannot send datasets
        p.emit("@tf.function\ndef g():\n    n = tf.constant(0, tf.int64)\n    for e in %s:\n        n += 1\n    return n" % text)
        p.emit(p.placed("show(g())"))


def checkpoint(p):
    rng = p.rng
    some = [v.name for v in p.variables]
    if not some:
        return variable(p)
    some, path = rng.sample(some, min(len(some), 3)), p.name("c")
    parts = ", ".join("k%d=%s" % (i, n) for i, n in enumerate(some))
    p.emit("%s = tf.train.Checkpoint(%s).%s(DIR + '/%s')" % (path, parts, rng.choice(("save", "write")), path))
    changed = rng.choice(some)
    p.emit("%s.assign(tf.zeros_like(%s))" % (changed, changed) + DONE)
    p.emit("tf.train.Checkpoint(%s).restore(%s).assert_consumed()\nshow(%s)" % (parts, path, ", ".join(some)))
    if rng.random() < 0.4:
        p.emit("show(*[(n, s) for n, s in tf.train.list_variables(%s) if n.startswith('k')])" % path)
    if rng.random() < 0.2:
        p.emit("tf.train.Checkpoint(%s).restore(DIR + '/nothing')" % parts)


def saved_files(p):
    """The ops that write and read files, on tasks of their own."""
    name = p.name("file")
    v = p.rng.choice(p.values) if p.values else Value("tf.constant([1.0])", "float32", (1,))
    p.emit(p.placed("tf.raw_ops.SaveV2(prefix=DIR + '/%s', tensor_names=['a'], shape_and_slices=[''], tensors=[%s])" % (name, v.name)) + DONE)
    p.emit(p.placed("show(tf.raw_ops.RestoreV2(prefix=DIR + '/%s', tensor_names=['%s'], shape_and_slices=[''], dtypes=[tf.%s]))" % (
        name, p.rng.choice("aaab"), v.dtype)))
    if p.rng.random() < 0.3:
        p.emit(p.placed("tf.io.write_file(DIR + '/%s.txt', 'text')" % name) + DONE)
        p.emit(p.placed("show(tf.io.read_file(DIR + '/%s.txt'))" % name))
        p.emit(p.placed("show(tf.io.read_file(DIR + '/%s.none'))" % name))


def saved_model(p):
    """A model with a variable that is saved, and loaded elsewhere."""
    name = p.name("m")
    p.emit(p.placed("%s = tf.Module()\n%s.v = tf.Variable([1.0, 2.0])\n%s.f = tf.function(lambda x: x * %s.v, input_signature=[tf.TensorSpec([2])])" % ((name,) * 4)))
    p.emit("tf.saved_model.save(%s, DIR + '/%s')" % (name, name))
    p.emit(p.placed("%s_l = tf.saved_model.load(DIR + '/%s')\nshow(%s_l.v)\nshow(%s_l.f(tf.constant([3.0, 4.0])))" % ((name,) * 4)))
    p.emit("%s_l.v.assign_add([1.0, 1.0])" % name + DONE)
    p.emit("show(%s_l.f(tf.constant([3.0, 4.0])), %s.v)" % ((name,) * 2))


def staging(p):
    """Staging areas, maps, mutexes, and accumulators by name."""
    rng, name = p.rng, "'%s' + UNIQUE" % p.name("stage")
    device = p.device()
    choice = rng.random()
    if choice < 0.4:
        for _ in range(2):
            p.emit("with tf.device(%s):\n    tf.raw_ops.Stage(values=[tf.constant(%d)], shared_name=%s)" % (device, rng.randint(0, 9), name) + DONE)
        p.emit("with tf.device(%s):\n    show(tf.raw_ops.StageSize(dtypes=[tf.int32], shared_name=%s))" % (device, name))
        p.emit("with tf.device(%s):\n    show(tf.raw_ops.Unstage(dtypes=[tf.int32], shared_name=%s))" % (device, name))
        p.emit("with tf.device(%s):\n    show(tf.raw_ops.StagePeek(index=0, dtypes=[tf.int32], shared_name=%s))" % (device, name))
    elif choice < 0.7:
        p.emit("with tf.device(%s):\n    cs = tf.CriticalSection(shared_name=%s)\n    w = tf.Variable(1)" % (device, name))
        p.emit("show(cs.execute(lambda: w.assign_add(1).read_value()))" if rng.random() < 0.5 else p.placed("show(cs.execute(lambda: w.assign_add(1).read_value()))"))
    else:
        p.emit("with tf.device(%s):\n    g = tf.random.Generator.from_seed(%d)" % (device, p.seed()))
        p.emit("show(g.normal([2]))\nshow(g.uniform([2], 0, 100, tf.int32))")
        p.emit(p.placed("show(g.normal([2]))"))
        p.emit("show(g.state)\nh = g.split(2)\nshow(h[1].normal([2]))")


def lists(p):
    """Lists of tensors, which are variants, made on one task and used on others."""
    rng, name = p.rng, p.name("l")
    dtype, shape = rng.choice(("float32", "int64", "string")), rng.choice(ex.SHAPES)
    p.emit(p.placed("%s = tf.raw_ops.EmptyTensorList(element_shape=tf.constant(%s, tf.int32), max_num_elements=-1, element_dtype=tf.%s)" % (name, list(shape), dtype)))
    for _ in range(rng.randint(0, 3)):
        p.emit(p.placed("%s = tf.raw_ops.TensorListPushBack(input_handle=%s, tensor=%s)" % (name, name, ex.constant(rng, dtype, shape))))
    p.emit(p.placed("show(tf.raw_ops.TensorListLength(input_handle=%s))" % name))
    p.emit(p.placed("show(tf.raw_ops.TensorListStack(input_handle=%s, element_shape=tf.constant(%s, tf.int32), element_dtype=tf.%s))" % (name, list(shape), dtype)))
    p.emit(p.placed("%s, t = tf.raw_ops.TensorListPopBack(input_handle=%s, element_shape=tf.constant(%s, tf.int32), element_dtype=tf.%s)\nshow(t)" % (name, name, list(shape), dtype)))
    if rng.random() < 0.4:
        p.emit(p.placed("show(tf.raw_ops.TensorListLength(input_handle=tf.identity(tf.stack([%s, %s])[0])))" % (name, name)))
        p.emit(p.placed("o = tf.raw_ops.OptionalFromValue(components=[tf.constant(1.5)])"))
        p.emit(p.placed("show(tf.raw_ops.OptionalHasValue(optional=o))\nshow(tf.raw_ops.OptionalGetValue(optional=o, output_types=[tf.float32], output_shapes=[[]]))"))


def composites(p):
    rng = p.rng
    name = p.name("z")
    if rng.random() < 0.5:
        p.emit(p.placed("%s = tf.ragged.constant([[1, 2], [], [3]])\nshow(%s)" % (name, name)))
        p.emit(p.placed("show(tf.reduce_sum(%s, 1), (%s + 1), tf.concat([%s, %s], 0))" % ((name,) * 4)))
        p.emit("@tf.function\ndef g(a):\n    with tf.device(%s):\n        b = a * 2\n    return tf.map_fn(tf.reduce_sum, b, fn_output_signature=tf.int32)" % p.device())
        p.emit(p.placed("show(g(%s))" % name))
    else:
        p.emit(p.placed("%s = tf.sparse.SparseTensor([[0, 1], [2, 0]], [1.5, 2.5], [3, 2])\nshow(%s)" % (name, name)))
        p.emit(p.placed("show(tf.sparse.to_dense(%s), tf.sparse.reduce_sum(%s, 0), tf.sparse.reorder(%s))" % ((name,) * 3)))
        p.emit(p.placed("show(tf.sparse.sparse_dense_matmul(%s, tf.ones([2, 2])))" % name))
        p.emit(p.placed("s = tf.raw_ops.SerializeSparse(sparse_indices=%s.indices, sparse_values=%s.values, sparse_shape=%s.dense_shape, out_type=tf.variant)\nshow(tf.shape(s))" % ((name,) * 3)))
