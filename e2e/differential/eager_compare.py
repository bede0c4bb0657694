# Compares what the statements of a program of TensorFlow 2 give on two clusters. A result is the number of the statement, what it shows, and its
# error, or None: its class, its first line without what varies, its text, and where it is from.
import numpy as np

DIFFERS, MISTAKEN, LATE = "differs", "mistaken", "late"  # how clusters can differ


def same(a, b):
    """Whether two statements gave the same."""
    if (a[2] is None) != (b[2] is None) or len(a[1]) != len(b[1]):
        return False
    if a[2] is not None and a[2][:2] != b[2][:2]:
        return False
    return all(map(_same_value, a[1], b[1]))


def _same_value(x, y):
    if not isinstance(x, np.ndarray) and not isinstance(x, np.generic) or not hasattr(y, "dtype"):
        return x == y
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "fc":
        rough = 1e-2 if x.dtype == np.float16 else 1e-5 if x.dtype in (np.float32, np.complex64) else 1e-9
        with np.errstate(all="ignore"):
            return np.allclose(x, y, rtol=rough, atol=rough, equal_nan=True)
    return np.array_equal(x, y)


def first(reference, ours):
    """The first statement that gave something else on the reference, as its place in the lists, and how it differs; (None, None) if there is none.

    MISTAKEN is an internal error of the reference, such as for results of a function that lie in the client, and LATE an error that it reported
    before, or reports later, when Troupe reports it now: TensorFlow's client hears of a remote op's error when its stream ends with it, and gives it
    to whatever statement it has just sent. What follows depends on both."""
    for i, (x, y) in enumerate(zip(reference, ours)):
        if same(x, y):
            continue
        if x[2] is not None and x[2][0] == "InternalError":
            return i, MISTAKEN
        if x[2] is not None and _has(reference[:i], x[2]) or x[2] is None and y[2] is not None and _has(reference[i + 1:], y[2]):
            return i, LATE
        return i, DIFFERS
    return None, None


def _has(results, error):
    return any(r[2] is not None and r[2][:2] == error[:2] for r in results)
