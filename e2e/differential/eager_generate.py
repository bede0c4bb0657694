"""Random programs of TensorFlow 2 over a cluster, as statements in text. The same seed gives the same program."""
import random
import textwrap

import eager_expressions as ex
import eager_functions
import eager_state
from eager_expressions import Value

# The tasks that the servers have, and under which names a program may know them.
CLUSTERS = (
    {"worker": ["0", "1"], "ps": ["2"]}, {"worker": ["0", "1"], "ps": ["2"]}, {"worker": ["0", "1", "2"]}, {"worker": ["1", "0"]}, {"ps": ["0"], "worker": ["2"]},
    {"localhost": ["2"], "worker": ["0", "1"]},
)

class Program:
    """A program as it is drawn."""

    def __init__(self, number):
        self.rng = random.Random(number)
        self.number = number
        self.statements = []
        self.values = []
        self.variables = []
        self.tables = []
        self.functions = []
        self.client = "'/job:client/replica:0/task:0/device:CPU:0'"
        self._devices = []
        self._made = 0
        self._seeds = 0

    def emit(self, text):
        self.statements.append(text)

    def name(self, prefix):
        self._made += 1
        return "%s%d" % (prefix, self._made)

    def seed(self):
        """A seed for ops that nothing else has: kernels with the same attributes continue each other's sequence."""
        self._seeds += 1
        return self.number * 100 + self._seeds

    def device(self, short=False):
        """The text of a device of some task, seldom the program's own."""
        if self.rng.random() < 0.12:
            return self.client
        job, task = self.rng.choice(self._devices)
        return self.rng.choice(("'/job:%s/replica:0/task:%d/device:CPU:0'", "'/job:%s/task:%d'") if short else ("'/job:%s/replica:0/task:%d/device:CPU:0'", "'/job:%s/task:%d'", "'/job:%s/task:%d/cpu:0'")) % (job, task)

    def placed(self, lines):
        """Lines under some device, in one of the ways in which programs say that."""
        choice = self.rng.random()
        if choice < 0.1:
            return lines
        if choice < 0.8:
            return "with tf.device(%s):\n%s" % (self.device(), textwrap.indent(lines, "    "))
        inner = textwrap.indent(lines, "        ")
        if choice < 0.87:
            return "with tf.device(%s):\n    with tf.device(%s):\n%s" % (self.device(), self.device(), inner)
        if choice < 0.93:
            job, task = self.rng.choice(self._devices)
            return "with tf.device('/job:%s'):\n    with tf.device('/task:%d'):\n%s" % (job, task, inner)
        if choice < 0.97:
            return "with tf.device(%s):\n    with tf.device(None):\n%s" % (self.device(), inner)
        return "with tf.device(%s):\n    with tf.device('/device:CPU:0'):\n%s" % (self.device(), inner)

    def connect(self):
        tasks = self.rng.choice(CLUSTERS)
        self._devices = [(job, i) for job, members in tasks.items() for i in range(len(members))]
        self.emit("connect(%r)" % tasks)
        self.values, self.variables, self.tables, self.functions = [], [], [], []

    # What statements do.

    def constant(self):
        text, dtype, shape = ex.some_constant(self.rng)
        name = self.name("x")
        self.emit(self.placed("%s = %s" % (name, text)))
        self.values.append(Value(name, dtype, shape))

    def compute(self):
        text, dtype, shape = ex.expression(self.rng, self.values)
        name = self.name("x")
        self.emit(self.placed("%s = %s" % (name, text)) + self.rng.choice(("", "\nwhere(%s)" % name, "\nshow(%s)" % name)))
        self.values.append(Value(name, dtype, shape))

    def show(self):
        if self.values:
            x = self.rng.choice(self.values)
            self.emit(self.rng.choice(("show(%s)" % x.name, "show(tf.identity(%s))" % x.name, "with tf.device(%s):\n    show(tf.identity(%s))" % (self.device(), x.name),
                                       "with tf.device(%s):\n    show(tf.identity(%s))" % (self.client, x.name))))

    def function(self):
        f = eager_functions.define(self)
        for _ in range(self.rng.randint(1, 3)):
            eager_functions.call(self, f)

    def call(self):
        if self.functions:
            eager_functions.call(self, self.rng.choice(self.functions))

    def fail(self):
        """Something that fails. The program goes on."""
        rng = self.rng
        self.emit(self.placed(rng.choice(FAILURES)) + eager_state.DONE)

    def gradient(self):
        """A gradient of ops that run one by one."""
        fitting = [v for v in self.values + self.variables if v.dtype in ex.FLOATS]
        if not fitting:
            return
        x = self.rng.choice(fitting)
        y = ex.same_kind(self.rng, [v for v in fitting if v.dtype == x.dtype], x)
        z = ex.same_kind(self.rng, [x], Value("y", x.dtype, x.shape))
        self.emit("with tf.GradientTape() as tape:\n    tape.watch(%s)\n%s\n%s\nshow(tape.gradient(z, %s))" % (
            x.name, textwrap.indent(self.placed("y = " + y), "    "), textwrap.indent(self.placed("z = " + z), "    "), x.name))

    def random(self):
        seed = self.seed()
        self.emit(self.placed("show(tf.random.uniform([2], seed=%d))\nshow(tf.random.uniform([2], seed=%d))" % (seed, seed)))
        self.emit(self.placed("show(tf.random.stateless_normal([2], [%d, 1]))" % seed))

    def asynchronous(self):
        """Ops that the client sends without waiting."""
        lines = []
        for _ in range(self.rng.randint(1, 5)):
            text, dtype, shape = ex.expression(self.rng, self.values)
            name = self.name("x")
            lines.append(self.placed("%s = %s" % (name, text)))
            self.values.append(Value(name, dtype, shape))
        if self.rng.random() < 0.3 and self.variables:
            v = self.rng.choice(self.variables)
            lines.append("%s.assign(%s)" % (v.name, v.name))
        if self.rng.random() < 0.3:
            lines.append(self.placed(self.rng.choice(FAILURES[:6]).replace("show(", "(")))
        how = self.rng.random()
        if how < 0.5:
            opened, waits, clears = "tf.experimental.async_scope()", "pass", "pass"
        elif how < 0.8:
            opened, waits, clears = "context.execution_mode(context.ASYNC)", "context.async_wait()", "context.async_clear_error()"
        else:
            lines.insert(0, "ex = executor.new_executor(enable_async=True)")
            opened, waits, clears = "context.executor_scope(ex)", "ex.wait()", "ex.clear_error()"
        first = [lines.pop(0)] if how >= 0.8 else []
        # The client may notice that an op is wrong before its task does, so that the text differs from run to run.
        self.emit("\n".join(first + ["try:", "    with %s:" % opened, textwrap.indent("\n".join(lines), "        "), "        " + waits, "except tf.errors.OpError as e:",
                                     "    show(type(e).__name__)", "finally:", "    " + clears, "    tf.experimental.async_clear_error()"]))

    def collect(self):
        self.emit("gc.collect()\nNone")

    def again(self):
        self.emit("again()")

    def reconnect(self):
        """Another cluster. What was made in the old one cannot be used in it."""
        self.connect()

    def soft(self):
        on = self.rng.random() < 0.5
        self.emit("tf.config.set_soft_device_placement(%s)" % on)
        job, task = self.rng.choice(self._devices)
        device = self.rng.choice(("/job:%s/task:%d/device:GPU:0" % (job, task), "/device:GPU:0", "/job:%s/task:%d/device:CPU:3" % (job, task), "/job:%s/task:9" % job, "/job:none/task:0"))
        name = self.name("x")
        self.emit("with tf.device(%r):\n    %s = tf.constant(1.0) + 2.0\nwhere(%s)\nshow(%s)" % (device, name, name, name))
        self.emit("with tf.device(%r):\n    g = tf.function(lambda x: tf.square(x) + 1)\n    %s = g(tf.constant(2.0))\nwhere(%s)\nshow(%s)" % (device, name, name, name))
        self.emit("tf.config.set_soft_device_placement(True)")

    def synchronize(self):
        self.emit(self.rng.choice(("context.context().sync_executors()", "context.async_wait()", "tf.experimental.async_clear_error()")))


# Things that fail, most of them on the task where they run.
FAILURES = (
    "show(tf.raw_ops.MatMul(a=tf.ones([2, 3]), b=tf.ones([2, 3])))",
    "show(tf.gather(tf.constant([1, 2]), [5]))",
    "tf.debugging.Assert(tf.constant(False), ['no', tf.constant(3)])",
    "show(tf.raw_ops.Reshape(tensor=tf.constant([1, 2, 3]), shape=[2]))",
    "show(tf.strings.to_number(['1', 'x']))",
    "show(tf.constant(1) // tf.constant(0))",
    "show(tf.constant([1, 2]) + tf.constant([1, 2, 3]))",
    "show(tf.raw_ops.ConcatV2(values=[tf.ones([1, 2]), tf.ones([2])], axis=0))",
    "show(tf.debugging.check_numerics(tf.constant([1.0, np.nan]), 'bad'))",
    "show(tf.io.decode_base64('%'))",
    "show(tf.io.read_file('/nonexistent'))",
    "show(tf.linalg.inv([[0.0, 0.0], [0.0, 0.0]]))",
    "show(tf.raw_ops.ReadVariableOp(resource=tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[], shared_name='none'), dtype=tf.float32))",
    "show(tf.io.parse_tensor(b'x', tf.float32))",
    "show(tf.io.decode_raw(b'abc', tf.int32))",
    "show(tf.slice([1, 2, 3], [2], [4]))",
    "show(tf.raw_ops.Fill(dims=[-1], value=1))",
    "show(tf.tensor_scatter_nd_update([1, 2], [[4]], [1]))",
    "show(tf.range(1, 5, 0))",
    "show(tf.raw_ops.Split(axis=0, value=[1, 2, 3], num_split=2))",
    "show(tf.one_hot([1], -1))",
    "show(tf.strings.substr('abc', 5, 1))",
    "show(tf.nn.sparse_softmax_cross_entropy_with_logits([5], [[1.0, 2.0]]))",
    "show(tf.raw_ops.Transpose(x=[[1, 2]], perm=[0, 0]))",
    "show(tf.math.unsorted_segment_sum([1, 2], [0, 7], 2))",
    "show(tf.repeat([1, 2], [-1, 1]))",
    "show(tf.image.decode_png(b'not a png'))",
    "show(tf.random.uniform([2], 5, 1, tf.int32))",
    "show(tf.linspace(0.0, 1.0, -1))",
    "show(tf.raw_ops.Bincount(arr=[-1], size=2, weights=[1.0]))",
    "show(tf.raw_ops.ExpandDims(input=[1], axis=7))",
    "show(tf.raw_ops.Where(condition=tf.constant('a')))",
    "show(tf.raw_ops.Unpack(value=[1, 2], num=3))",
    "show(tf.raw_ops.Cast(x='a', DstT=tf.int32))",
    "show(tf.raw_ops.AddV2(x=True, y=False))",
    "next(iter(tf.data.Dataset.range(0)))",
    "show(next(iter(tf.data.Dataset.range(3).map(lambda e: 1 // e))))",
    "show(tf.function(lambda: tf.constant(1) // tf.constant([0, 1])[0])())",
    "show(tf.function(lambda x: tf.reshape(x, [3]))(tf.unique([1, 1, 2])[0]))",
    "show(tf.function(lambda x: tf.gather(x, [7]))(tf.constant([1])))",
    "show(tf.cast(tf.constant([1e20]), tf.float16))",
    "raise ValueError('of the program itself')",
)


def generate(number):
    """The program of this number: its statements and its seed."""
    p = Program(number)
    s = eager_state
    p.connect()
    kinds = {
        p.constant: 3, p.compute: 8, p.show: 3, p.function: 7, p.call: 3, p.fail: 3, p.gradient: 2, p.random: 1, p.asynchronous: 2, p.collect: 1, p.again: 0.4,
        p.reconnect: 0.5, p.soft: 0.5, p.synchronize: 1, lambda: s.variable(p): 4, lambda: s.update(p): 4, lambda: s.read(p): 3, lambda: s.delete(p): 1.5,
        lambda: s.raw_variable(p): 0.7, lambda: s.table(p): 1, lambda: s.use_table(p): 1.5, lambda: s.queue(p): 1, lambda: s.iterate(p): 2.5, lambda: s.checkpoint(p): 0.8,
        lambda: s.saved_files(p): 0.6, lambda: s.saved_model(p): 0.15, lambda: s.staging(p): 0.8, lambda: s.lists(p): 0.7, lambda: s.composites(p): 0.7,
    }
    for _ in range(p.rng.randint(8, 22)):
        p.rng.choices(list(kinds), list(kinds.values()))[0]()
    for v in p.variables:
        p.emit("show(%s)" % v.name)
    for v in p.values[-5:]:
        p.emit("show(%s)" % v.name)
    return {"number": number, "seed": number + 1, "statements": p.statements}
