"""What calls gave, and whether two clusters gave the same."""
import numpy as np

HANGS = ("DeadlineExceededError", "Hang")
# TensorFlow's master looks for feeds that are missing in a partial run behind tensors that are fed, too.
OVERCAUTIOUS = "can't be computed from the feeds that have been fed so far"


class Outcome:
    """What one call gave: values, or an error."""

    __slots__ = ("values", "error", "message")

    def __init__(self, values=None, error=None, message=""):
        self.values = values
        self.error = error
        self.message = message

    def kind(self):
        """What a smaller program has to have in common with it."""
        return "a value" if self.error is None else "a hang" if self.error in HANGS else self.error

    def mistaken(self):
        """Whether it is a mistake of TensorFlow's servers, which nobody has to repeat."""
        return self.error == "InternalError" or self.error == "InvalidArgumentError" and OVERCAUTIOUS in self.message

    def __str__(self):
        if self.error is not None:
            return "%s: %s" % (self.error, _without_traceback(self.message))
        return "[%s]" % ", ".join(_short(v) for v in self.values)


def _without_traceback(message):
    """An error's text, without where the client made the node."""
    lines = [line for line in message.split("\n") if line.strip() and not line.lstrip().startswith(("File ", "Detected at"))]
    return " ".join(" ".join(lines).split())[:300]


def _short(v):
    v = np.asarray(v)
    return str((np.round(v.astype(float), 4) if v.dtype.kind == "f" else v).tolist())


def attempt(call):
    try:
        return Outcome([v for v in call() if v is not None])
    except Exception as e:  # pylint: disable=broad-except; whatever it is, it is compared
        return Outcome(error=type(e).__name__, message=str(e))


def same(a, b):
    if (a.error is None) != (b.error is None):
        return False
    if a.error is not None:
        return a.error == b.error
    return len(a.values) == len(b.values) and all(_equal(x, y) for x, y in zip(a.values, b.values))


def _equal(x, y):
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return np.allclose(x, y, rtol=1e-3, atol=1e-4, equal_nan=True) if x.dtype.kind == "f" else np.array_equal(x, y)


class Difference:
    """Where the clusters differ: at which call of which action (-1: the first initialization), and what they give."""

    def __init__(self, action, call, theirs, ours, seen):
        self.action = action
        self.call = call
        self.theirs = theirs
        self.ours = ours
        self.seen = seen  # all outcomes of TensorFlow's servers until then

    def kind(self):
        return "%s, not %s" % (self.ours.kind(), self.theirs.kind())
