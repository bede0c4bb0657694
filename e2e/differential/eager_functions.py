"""Random tf.functions: their parts run on several tasks, loop, branch, call others, and use variables and tables that are elsewhere."""
import textwrap

import eager_expressions as ex
import eager_state
from eager_expressions import Value


class Function:
    """A function that a program has defined."""

    __slots__ = ("name", "params", "results")

    def __init__(self, name, params, results):
        self.name = name
        self.params = params  # Values, or variables where the dtype begins with "variable:"
        self.results = results


class Body:
    """The text of a function's body as it grows, and the values that can be used at its end."""

    def __init__(self, program, values, variables):
        self._program = program
        self._rng = program.rng
        self.values = list(values)
        self._variables = variables  # that it captures or is given
        self._lines = []
        self._made = 0

    def text(self):
        return "\n".join(self._lines)

    def grow(self, parts):
        kinds = [self._plain] * 4 + [self._placed] * 4 + [self._reads, self._updates, self._updates, self._for, self._while, self._if, self._cond, self._switch,
                                                        self._array, self._gradient, self._mapped, self._random, self._stateless, self._elements, self._looks_up,
                                                        self._python, self._asserts, self._calls, self._calls, self._nested, self._ragged, self._loop_over_tasks,
                                                        self._branch_over_tasks, self._custom, self._list, self._partitioned]
        for _ in range(parts):
            self._rng.choice(kinds)()

    def _name(self):
        self._made += 1
        return "t%d" % self._made

    def _add(self, *lines):
        self._lines += lines

    def _keep(self, name, dtype, shape):
        self.values.append(Value(name, dtype, shape))

    def _pick(self, dtypes=None):
        """A value of these dtypes, made if there is none."""
        fitting = [v for v in self.values if dtypes is None or v.dtype in dtypes]
        if fitting:
            return self._rng.choice(fitting)
        dtype = self._rng.choice(dtypes or ex.FLOATS)
        name, shape = self._name(), self._rng.choice(ex.SHAPES)
        self._add("%s = %s" % (name, ex.constant(self._rng, dtype, shape)))
        self._keep(name, dtype, shape)
        return self.values[-1]

    def _device(self):
        return self._program.device(short=True)

    def _plain(self):
        text, dtype, shape = ex.expression(self._rng, self.values)
        name = self._name()
        self._add("%s = %s" % (name, text))
        self._keep(name, dtype, shape)

    def _placed(self):
        self._add("with tf.device(%s):" % self._device())
        start = len(self._lines)
        for _ in range(self._rng.randint(1, 3)):
            self._plain()
        self._indent(start)

    def _indent(self, start):
        self._lines[start:] = [textwrap.indent(line, "    ") for line in self._lines[start:]]

    def _variable(self):
        fitting = [v for v in self._variables if v.dtype in ex.FLOATS + ex.INTEGERS]
        return self._rng.choice(fitting) if fitting else None

    def _reads(self):
        if self._variables:
            v = self._rng.choice(self._variables)
            name = self._name()
            self._add("%s = %s" % (name, self._rng.choice(("%s.read_value()", "tf.identity(%s)", "%s.value()")) % v.name))
            self._keep(name, v.dtype, v.shape)

    def _updates(self):
        v = self._variable()
        if v:
            call = self._rng.choice(("assign_add", "assign_sub", "assign"))
            operand = ex.partner(self._rng, [x for x in self.values if x.shape == v.shape], v)
            if operand.startswith("tf."):
                operand = "tf.ones(%s, tf.%s)" % (list(v.shape), v.dtype)
            self._add("%s.%s(%s)" % (v.name, call, operand))

    def _for(self):
        x = self._pick(ex.FLOATS + ex.INTEGERS + ("string",))
        name, rng = self._name(), self._rng
        self._add("%s = %s" % (name, x.name), "for i in tf.range(%d):" % rng.randint(0, 4))
        start, v = len(self._lines), self._variable()
        carried = Value(name, x.dtype, x.shape)
        if rng.random() < 0.3:
            self._add("if i == 1:", "    %s = tf.identity(%s)" % (name, name), "    %s" % rng.choice(("continue", "break", "pass")))
        self._add("%s = %s" % (name, ex.same_kind(rng, self.values, carried)))
        if v and rng.random() < 0.5:
            self._add("%s.assign_add(tf.ones(%s, tf.%s))" % (v.name, list(v.shape), v.dtype))
        self._indent(start)
        self._keep(name, x.dtype, x.shape)

    def _while(self):
        x = self._pick(ex.FLOATS + ex.INTEGERS)
        name, counter, rng = self._name(), self._name(), self._rng
        carried = Value(name, x.dtype, x.shape)
        self._add("%s, %s = %s, tf.constant(0)" % (name, counter, x.name), "while %s < %d:" % (counter, rng.randint(0, 4)), "    %s += 1" % counter)
        if rng.random() < 0.5:
            self._add("    with tf.device(%s):" % self._device(), "        %s = %s" % (name, ex.same_kind(rng, self.values, carried)))
        else:
            self._add("    %s = %s" % (name, ex.same_kind(rng, self.values, carried)))
        self._keep(name, x.dtype, x.shape)
        self._keep(counter, "int32", ())

    def _condition(self):
        x = self._pick(ex.FLOATS + ex.INTEGERS + ("bool",))
        if x.dtype == "bool":
            return "tf.reduce_any(%s)" % x.name
        return "tf.reduce_sum(%s) > %s" % (x.name, "0")

    def _if(self):
        x, name = self._pick(), self._name()
        y = Value(name, x.dtype, x.shape)
        self._add("%s = tf.identity(%s)" % (name, x.name), "if %s:" % self._condition())
        start, v = len(self._lines), self._variable()
        self._add("%s = %s" % (name, ex.same_kind(self._rng, self.values, y)) if x.dtype in ex.FLOATS + ex.INTEGERS + ("bool", "string") else "pass")
        if v and self._rng.random() < 0.5:
            self._add("%s.assign_sub(tf.ones(%s, tf.%s))" % (v.name, list(v.shape), v.dtype))
        self._indent(start)
        self._keep(name, x.dtype, x.shape)

    def _cond(self):
        x, name = self._pick(ex.FLOATS + ex.INTEGERS), self._name()
        a, b = ex.same_kind(self._rng, self.values, x), ex.same_kind(self._rng, self.values, x)
        self._add("%s = tf.cond(%s, lambda: %s, lambda: %s)" % (name, self._condition(), a, b))
        self._keep(name, x.dtype, x.shape)

    def _switch(self):
        x, index, name = self._pick(ex.FLOATS + ex.INTEGERS), self._pick(("int32",)), self._name()
        branches = ", ".join("lambda: " + ex.same_kind(self._rng, self.values, x) for _ in range(3))
        self._add("%s = tf.switch_case(tf.reduce_sum(%s) %% 4, [%s])" % (name, index.name, branches))
        self._keep(name, x.dtype, x.shape)

    def _array(self):
        x, name, n = self._pick(), self._name(), self._rng.randint(1, 4)
        size = ", dynamic_size=True" if self._rng.random() < 0.5 else ""
        self._add("%s = tf.TensorArray(tf.%s, size=%s%s)" % (name, x.dtype, "0" if size else str(n), size), "for i in tf.range(%d):" % n,
                  "    %s = %s.write(i, %s)" % (name, name, x.name))
        if self._rng.random() < 0.3:
            self._add("with tf.device(%s):" % self._device(), "    %s = %s.stack()" % (name, name))
        else:
            self._add("%s = %s.stack()" % (name, name))
        self._keep(name, x.dtype, (n,) + x.shape)

    def _gradient(self):
        x, name, rng = self._pick(ex.FLOATS), self._name(), self._rng
        v = [u for u in self._variables if u.dtype == x.dtype and u.shape in (x.shape, ())]
        self._add("with tf.GradientTape() as tape:", "    tape.watch(%s)" % x.name)
        start = len(self._lines)
        if rng.random() < 0.5:
            self._add("with tf.device(%s):" % self._device(), "    %s_y = %s" % (name, ex.same_kind(rng, [x], x)))
        else:
            self._add("%s_y = %s" % (name, ex.same_kind(rng, [x], x)))
        if rng.random() < 0.5:
            self._add("for i in tf.range(%d):" % rng.randint(0, 3), "    %s_y = tf.sin(%s_y) * %s" % (name, name, x.name))
        if v:
            self._add("%s_y *= %s" % (name, rng.choice(v).name))
        self._add("%s_l = tf.reduce_sum(%s_y * %s_y)" % (name, name, name))
        self._indent(start)
        self._add("%s = tape.gradient(%s_l, %s)" % (name, name, x.name))
        self._keep(name, x.dtype, x.shape)

    def _mapped(self):
        x, name = self._pick(ex.FLOATS + ex.INTEGERS), self._name()
        if not x.shape:
            return
        e = Value("e", x.dtype, x.shape[1:])
        inner = ex.same_kind(self._rng, [e], e)
        how = self._rng.choice(("tf.map_fn(lambda e: %s, %s)", "tf.vectorized_map(lambda e: %s, %s)", "tf.scan(lambda c, e: c + (%s), %s)", "tf.foldl(lambda c, e: c + (%s), %s)"))
        self._add("%s = %s" % (name, how % (inner, x.name)))
        self._keep(name, x.dtype, x.shape[1:] if "foldl" in how else x.shape)

    def _random(self):
        name = self._name()
        text, dtype = self._rng.choice((("tf.random.uniform([2], seed=%d)", "float32"), ("tf.random.normal([2], seed=%d)", "float32"),
                                        ("tf.random.uniform([2], 0, 100, tf.int32, seed=%d)", "int32")))
        self._add("%s = %s" % (name, text % self._program.seed()))
        self._keep(name, dtype, (2,))

    def _stateless(self):
        name = self._name()
        self._add("%s = tf.random.stateless_uniform([3], seed=[%d, 2])" % (name, self._rng.randint(0, 99)))
        self._keep(name, "float32", (3,))

    def _elements(self):
        """Elements of a dataset that the function makes."""
        name, v = self._name(), [u for u in self._variables if u.dtype == "int64" and u.shape == ()]
        mapped = ".map(lambda e: e + %s)" % self._rng.choice(v).name if v else ".map(lambda e: e * e)"
        self._add("%s = tf.constant(0, tf.int64)" % name, "for e in tf.data.Dataset.range(%d)%s.batch(2):" % (self._rng.randint(0, 5), mapped),
                  "    %s += tf.reduce_sum(e)" % name)
        self._keep(name, "int64", ())

    def _looks_up(self):
        tables = self._program.tables
        if tables:
            table, name = self._rng.choice(tables), self._name()
            x = self._pick((table.dtype,))
            self._add("%s = %s.lookup(%s)" % (name, table.name, x.name))
            self._keep(name, "int64", x.shape)

    def _python(self):
        x, name = self._pick(ex.FLOATS), self._name()
        with_device = self._rng.random() < 0.3
        if with_device:
            self._add("with tf.device(%s):" % self._program.client)
        self._add("%s%s = tf.numpy_function(lambda a: a + 1, [%s], tf.%s)" % ("    " if with_device else "", name, x.name, x.dtype),
                  "%s.set_shape(%s)" % (name, list(x.shape)))
        self._keep(name, x.dtype, x.shape)

    def _asserts(self):
        x, rng = self._pick(ex.INTEGERS), self._rng
        limit = rng.choice(("-1000", "-1000", "-1000", "2"))
        if rng.random() < 0.4:
            self._add("with tf.device(%s):" % self._device(), "    tf.debugging.assert_greater(%s, tf.constant(%s, tf.%s), message='too small')" % (x.name, limit, x.dtype))
        else:
            self._add("tf.debugging.Assert(tf.reduce_all(%s > tf.constant(%s, tf.%s)), ['wrong', %s])" % (x.name, limit, x.dtype, x.name))

    def _calls(self):
        """Calls a function that the program has."""
        functions = [f for f in self._program.functions if all(not p.dtype.startswith("variable:") for p in f.params)]
        if not functions:
            return
        f = self._rng.choice(functions)
        args = []
        for p in f.params:
            fitting = [v.name for v in self.values if v.dtype == p.dtype and v.shape == p.shape]
            args.append(self._rng.choice(fitting) if fitting else ex.constant(self._rng, p.dtype, p.shape))
        call = "%s(%s)" % (f.name, ", ".join(args))
        names = [self._name() for _ in f.results]
        if self._rng.random() < 0.4:
            self._add("with tf.device(%s):" % self._device(), "    %s = %s" % (", ".join(names) + ("," if len(names) == 1 else ""), call))
        else:
            self._add("%s = %s" % (", ".join(names) + ("," if len(names) == 1 else ""), call))
        for name, r in zip(names, f.results):
            self._keep(name, r.dtype, r.shape)

    def _nested(self):
        """A function within the function."""
        x, name = self._pick(ex.FLOATS + ex.INTEGERS), self._name()
        inner, device = ex.same_kind(self._rng, self.values, Value("a", x.dtype, x.shape)), self._device()
        self._add("@tf.function", "def %s_f(a):" % name, "    with tf.device(%s):" % device, "        return %s" % inner)
        self._add("%s = %s_f(%s)" % (name, name, x.name))
        self._keep(name, x.dtype, x.shape)

    def _ragged(self):
        x, name = self._pick(("string",)), self._name()
        self._add("with tf.device(%s):" % self._device(), "    %s_r = tf.strings.split(tf.reshape(%s, [-1]), ' ')" % (name, x.name), "%s = %s_r.row_lengths()" % (name, name))
        self._keep(name, "int64", (x.elements(),))

    def _loop_over_tasks(self):
        x, name = self._pick(ex.FLOATS + ex.INTEGERS), self._name()
        self._add("%s = %s" % (name, x.name), "for i in tf.range(%d):" % self._rng.randint(0, 4))
        for _ in range(2):
            self._add("    with tf.device(%s):" % self._device(), "        %s = %s" % (name, ex.same_kind(self._rng, [x], Value(name, x.dtype, x.shape))))
        self._keep(name, x.dtype, x.shape)

    def _branch_over_tasks(self):
        x, name = self._pick(ex.FLOATS + ex.INTEGERS), self._name()
        y = Value(name, x.dtype, x.shape)
        self._add("%s = %s" % (name, x.name), "if %s:" % self._condition(), "    with tf.device(%s):" % self._device(),
                  "        %s = %s" % (name, ex.same_kind(self._rng, self.values, y)), "else:", "    with tf.device(%s):" % self._device(),
                  "        %s = %s" % (name, ex.same_kind(self._rng, self.values, y)))
        self._keep(name, x.dtype, x.shape)

    def _custom(self):
        x, name = self._pick(ex.FLOATS), self._name()
        self._add("@tf.custom_gradient", "def %s_f(a):" % name, "    return a * 3, lambda g: g * 7", "%s = tf.gradients(%s_f(%s), %s)[0]" % (name, name, x.name, x.name))
        self._keep(name, x.dtype, x.shape)

    def _list(self):
        """A list of tensors that is passed between tasks."""
        x, name = self._pick(), self._name()
        self._add("with tf.device(%s):" % self._device(),
                  "    %s_l = tf.raw_ops.TensorListReserve(element_shape=tf.constant(%s, tf.int32), num_elements=2, element_dtype=tf.%s)" % (name, list(x.shape), x.dtype),
                  "    %s_l = tf.raw_ops.TensorListSetItem(input_handle=%s_l, index=1, item=%s)" % (name, name, x.name),
                  "with tf.device(%s):" % self._device(),
                  "    %s = tf.raw_ops.TensorListGetItem(input_handle=%s_l, index=1, element_shape=tf.constant(%s, tf.int32), element_dtype=tf.%s)" % (
                      name, name, list(x.shape), x.dtype))
        self._keep(name, x.dtype, x.shape)

    def _partitioned(self):
        x, name = self._pick(), self._name()
        if x.shape and x.shape[0] == 3:
            self._add("%s = tf.dynamic_partition(%s, [0, 1, 0], 2)[0]" % (name, x.name))
            self._keep(name, x.dtype, (2,) + x.shape[1:])


def define(program):
    """Adds the definition of a function to a program, and returns it."""
    rng = program.rng
    params = []
    for k in range(rng.randint(0, 3)):
        if program.variables and rng.random() < 0.2:
            v = rng.choice(program.variables)
            params.append(Value("p%d" % k, "variable:" + v.dtype, v.shape))
        elif program.values and rng.random() < 0.8:
            v = rng.choice(program.values)
            params.append(Value("p%d" % k, v.dtype, v.shape))
        else:
            params.append(Value("p%d" % k, ex.some_dtype(rng), rng.choice(ex.SHAPES)))
    given = [Value(p.name, p.dtype[len("variable:"):], p.shape) for p in params if p.dtype.startswith("variable:")]
    captured = rng.sample(program.variables, min(len(program.variables), rng.randint(0, 2)))
    seen = [p for p in params if not p.dtype.startswith("variable:")]
    seen += rng.sample(program.values, min(len(program.values), rng.randint(0, 1)))  # a tensor that it captures
    body = Body(program, seen, given + captured)
    body.grow(rng.randint(1, 6))
    made = body.values[-6:]
    results = rng.sample(made, min(len(made), rng.choice((1, 1, 2, 3))))
    name = program.name("f")
    how = rng.choice(("@tf.function", "@tf.function", "@tf.function", "@tf.function(reduce_retracing=True)", "@tf.function(autograph=True)"))
    result = "".join("%s, " % r.name for r in results)
    program.emit("%s\ndef %s(%s):\n%s\n    return (%s)" % (how, name, ", ".join(p.name for p in params), textwrap.indent(body.text(), "    "), result))
    f = Function(name, params, results)
    program.functions.append(f)
    return f


def arguments(program, f):
    """The text of arguments for a function."""
    args = []
    for p in f.params:
        if p.dtype.startswith("variable:"):
            fitting = [v.name for v in program.variables if "variable:" + v.dtype == p.dtype and v.shape == p.shape]
            args.append(program.rng.choice(fitting) if fitting else "tf.Variable(%s)" % ex.constant(program.rng, p.dtype[len("variable:"):], p.shape))
            continue
        fitting = [v.name for v in program.values if v.dtype == p.dtype and v.shape == p.shape]
        args.append(program.rng.choice(fitting) if fitting and program.rng.random() < 0.9 else ex.constant(program.rng, p.dtype, p.shape))
    return ", ".join(args)


def call(program, f):
    """Adds a call of a function, whose results the program shows or goes on with."""
    rng = program.rng
    args = arguments(program, f)
    names = [program.name("r") for _ in f.results]
    target = "".join("%s, " % n for n in names).rstrip(" ") or "_"
    lines = "%s = %s(%s)" % (target, f.name, args)
    if rng.random() < 0.1:
        lines = "c = %s.get_concrete_function(%s)\n%s = c(%s)" % (f.name, args, target, args)
    # Their device is not asked for: TensorFlow's client hangs if it is asked for that of a function's result before its value.
    program.emit(program.placed(lines) + ("" if names else eager_state.DONE) + ("\nshow(%s)" % ", ".join(names) if names and rng.random() < 0.7 else ""))
    for n, r in zip(names, f.results):
        program.values.append(Value(n, r.dtype, r.shape))
