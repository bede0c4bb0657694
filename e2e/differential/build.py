"""Makes TensorFlow graphs of programs, through the calls that users make."""
import collections
import contextlib

import tensorflow.compat.v1 as tf

from analysis import Analysis
from catalog import OPS
from program import DATA, value

Value = collections.namedtuple("Value", "tensor kind root")

DTYPES = {"f": tf.float32, "s": tf.float32, "i": tf.int32, "b": tf.bool}
SHAPES = {"f": [2, 2], "s": [], "i": [], "b": []}


class Scope:
    """A graph's top or a body of one: its values, and who touched which state last."""

    def __init__(self, parent=None, entry=(), functional=False):
        self.parent = parent
        self.values = {}
        self.entry = list(entry)  # what the first touches wait for
        self.functional = functional or (parent is not None and parent.functional)
        self.writers = {}  # (part, resource) -> the ops that changed it last
        self.readers = {}  # (part, resource) -> the ops that read it since

    def find(self, id):
        scope = self
        while scope is not None:
            if id in scope.values:
                return scope.values[id]
            scope = scope.parent
        return None

    def wait(self, part, reads, writes):
        """The ops that a touch comes after."""
        ops = []
        for resource in sorted(reads | writes, key=str):
            key = (part, resource)
            ops += self.writers.get(key, self.entry)
            if resource in writes:
                ops += self.readers.get(key, ())
        return _unique(ops)

    def touched(self, part, ops, reads, writes):
        if not ops:
            return
        for resource in writes:
            self.writers[(part, resource)] = list(ops)
            self.readers[(part, resource)] = []
        for resource in reads - writes:
            self.readers.setdefault((part, resource), []).extend(ops)

    def done(self):
        """The ops after which all touches of this scope are over."""
        return _unique([op for ops in [*self.writers.values(), *self.readers.values()] for op in ops])


def _unique(ops):
    return list(dict.fromkeys(ops))


def operation(result):
    """The op to wait for so that a result is there."""
    return result if isinstance(result, tf.Operation) else result.op


class Builder:
    """Builds a program into a graph, stage by stage."""

    def __init__(self, program, container, one_task=False):
        self.analysis = Analysis(program)
        self.graph = tf.Graph()
        self.initializers = []  # of the variables that this stage has added
        self.refused = []  # what TensorFlow's client does not build, and why
        self._variables = 0
        self._program = program
        self._container = container
        self._one_task = one_task
        self.top = Scope()
        self.scope = self.top
        self.part = 0
        self.deps = []

    def stage(self, number):
        """Adds the statements of a stage."""
        self.initializers = []
        with self.graph.as_default(), tf.container(self._container):
            for s in self._program.statements:
                if s.stage == number:
                    self.part = s.part
                    self.statement(s)
            self.initializers = self._new_initializers()

    def _new_initializers(self):
        """The initializers of the variables that came since the last time, those of optimizers included."""
        all = tf.global_variables()
        new, self._variables = all[self._variables:], len(all)
        left = {id(v.tensor) for values in self.top.values.values() for v in values
                if v.kind in "VN" and not self.analysis.statements[v.root].attrs.get("initialized", True)}
        return [v.initializer for v in new if id(v) not in left]

    def device(self, task):
        """The scope of a task, such as worker:1; None leaves the device open."""
        if self._one_task:
            task = "worker:0"
        if task is None:
            return contextlib.nullcontext()
        job, index = task.split(":")
        return tf.device("/job:%s/task:%s" % (job, index))

    def home(self, root):
        return self.analysis.statements[root].device

    def statement(self, s):
        spec = OPS[s.op]
        reads, writes = self.analysis.reads[s.id], self.analysis.writes[s.id]
        kinds = spec.result_kinds(s)
        place = self._place(s, spec, reads | writes)
        args = []
        for kind, ref in zip(spec.arg_kinds(s), s.args):
            arg = self._operand(spec, kind, ref, place)
            if arg is None:  # a write to a variable that is not there is none
                self.scope.values[s.id] = [Value(self.default(k), k, None) for k in kinds.replace("A", "f")]
                return
            args.append(arg)
        deps = _unique(self.scope.wait(self.part, reads, writes) + self._after(s))
        outer, self.deps = self.deps, [] if not spec.gates else deps
        # Names tell the statement: in errors, and so that what is captured by a function is not called like a node of it.
        with tf.name_scope("x%d" % s.id), self.device(place), contextlib.nullcontext() if spec.gates else tf.control_dependencies(deps):
            context = self.graph._get_control_flow_context()  # pylint: disable=protected-access
            try:
                out = spec.build(self, s, *args)
            except (AttributeError, TypeError, ValueError, LookupError, tf.errors.OpError) as e:  # of the client
                self.graph._set_control_flow_context(context)  # pylint: disable=protected-access
                self.refused.append("%s: %s" % (s.op, str(e).split("\n")[0][:100]))
                out = [self.default(k) for k in kinds.replace("A", "f")]
        self.deps = outer
        done = None
        if hasattr(out, "done"):
            out, done = out
        out = list(out) if isinstance(out, (list, tuple)) else [out]
        if kinds not in ("V", "N", "Q"):
            self.scope.touched(self.part, [operation(r) for r in out] if done is None else done, reads, writes)
        root = self.analysis.roots.get((s.id, 0))
        self.scope.values[s.id] = [Value(self._shaped(r, k), k, root) for r, k in zip(out, kinds or "-")]

    def _shaped(self, result, kind):
        if kind in DATA:
            result.set_shape(SHAPES[kind])
        return result

    def _place(self, s, spec, touched):
        """Where a statement goes: what touches a variable's memory itself has to be beside it."""
        for kind, ref in zip(spec.arg_kinds(s), s.args):
            root = self.analysis.roots.get(ref)
            if root is None or self._usable(ref, kind) is None:
                continue
            late = s.op == "alias" and self.analysis.references_change  # it may be read after an update
            if kind in "VNQ" or (self.analysis.statements[root].attrs.get("ref") and (late or not self._settled(root))):
                return self.home(root)
        return s.device

    def _settled(self, root):
        """Whether no update comes before a read at this place, so that another task may read, too."""
        scope = self.scope
        return scope.parent is None and (self.part, root) not in scope.writers

    def _usable(self, ref, kind):
        """The value of a reference, if it can be used here."""
        found = self.scope.find(ref[0]) if ref is not None else None
        if found is None or ref[1] >= len(found):
            return None
        v = found[ref[1]]
        if kind in "VNQ" and v.kind != kind or kind in DATA and v.kind not in {"f": "fVA", "i": "iN"}.get(kind, kind):
            return None
        if self.scope.functional and v.root is not None and (v.kind in "QA" or self.analysis.statements[v.root].attrs.get("ref")):
            return None  # functions cannot have references
        return v

    def _operand(self, spec, kind, ref, place):
        v = self._usable(ref, kind)
        if v is None:
            return None if kind in "VNQ" else self.default(kind)
        if kind in DATA and v.root is not None:
            reference = self.analysis.statements[v.root].attrs.get("ref")
            if spec.gates or reference and (spec.aliases or (self.home(v.root) != place and not self._settled(v.root))):
                return self.materialize(v)
        return v.tensor

    def materialize(self, v):
        """A value of its own of what stands for a variable."""
        reads = frozenset([v.root])
        with self.device(self.home(v.root)), tf.control_dependencies(self.scope.wait(self.part, reads, frozenset())):
            own = v.tensor * 0.75 if v.kind != "N" else v.tensor + 3
        self.scope.touched(self.part, [own.op], reads, frozenset())
        return own

    def plain(self, ref, kind):
        """A reference's value as a tensor that shares no variable's memory."""
        v = self._usable(ref, kind)
        if v is None:
            return self.default(kind)
        return v.tensor if v.root is None else self.materialize(v)

    def default(self, kind):
        return tf.constant(value(kind, 1))

    def _after(self, s):
        ops = []
        for id in s.after:
            found = self.scope.values.get(id)
            # A control dependency on the identity of a reference variable says when the variable is read: in TensorFlow
            # the value changes later all the same, since it is the variable's memory.
            if found and not any(v.kind in "VNQ" or (v.kind == "A" and v.tensor.op.type == "Identity") for v in found):
                ops += [operation(v.tensor) for v in found]
        return ops

    def colocates(self, s):
        """Whether gradients stay beside what they are of: where references change they cannot be read elsewhere."""
        return self.analysis.references_change or s.attrs.get("colocates", False)

    def touches(self, s):
        return self.analysis.touches(s.id)

    def body(self, body, params, entry=(), functional=False):
        """Builds a body. Gives its results, and the ops that its touches of state are over with."""
        scope = self.scope = Scope(self.scope, entry, functional)
        try:
            for (id, kind), tensor in zip(body.params, params):
                scope.values[id] = [Value(tensor, kind, None)]
            for s in body.statements:
                self.statement(s)
            results = [self.plain(ref, kind) for ref, kind in zip(body.results, body.kinds)]
            return results, scope.done()
        finally:
            self.scope = scope.parent

    def finished(self, body, params, entry=(), functional=False):
        """Builds a body, and gives results that are there when its touches are over."""
        results, done = self.body(body, params, entry, functional)
        if not done:
            return results
        with tf.control_dependencies(done):
            return [tf.identity(r) for r in results]
