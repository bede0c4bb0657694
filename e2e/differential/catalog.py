"""The table of what a statement can be."""


class Spec:
    """How statements of one op are built."""

    __slots__ = ("name", "args", "results", "build", "writes", "fails", "aliases", "gates", "differentiates", "outermost")

    def __init__(self, name, args, results, build, writes, fails, aliases, gates, differentiates, outermost):
        self.name = name
        self.args = args  # kinds, or a function from the statement to them
        self.results = results
        self.build = build
        self.writes = writes  # changes the variables and queues among its operands
        self.fails = fails  # may fail: then it has to be clear which updates were done before
        self.aliases = aliases  # its result may share its operand's memory
        self.gates = gates  # orders itself by what the builder gives it in `deps`
        self.differentiates = differentiates  # reads again what its operands were computed from
        self.outermost = outermost  # cannot be in a body

    def arg_kinds(self, s):
        return self.args if isinstance(self.args, str) else self.args(s)

    def result_kinds(self, s):
        return self.results if isinstance(self.results, str) else self.results(s)


OPS = {}


def op(name, args, results, writes=False, fails=False, aliases=False, gates=False, differentiates=False, outermost=False):
    """Registers the function that builds statements of this name: build(builder, statement, *operands)."""

    def register(build):
        OPS[name] = Spec(name, args, results, build, writes, fails, aliases, gates, differentiates, outermost)
        return build

    return register
