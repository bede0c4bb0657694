"""Writes golden_linalg.gz, as golden.py does: python golden_linalg.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

REAL = [np.float32, np.float64]
ALL = REAL + C
SHAPES = [(3, 3), (2, 4, 4), (1, 1), (0, 0), (0, 2, 2), (2, 1, 2, 2), (9, 9)]

def well(t, s): return (arr(t, s, -1, 1) + 3 * np.eye(s[-1])).astype(t)
def hermitian(t, s): a = arr(t, s, -1, 1); return (a + np.conj(np.swapaxes(a, -1, -2))).astype(t)
def definite(t, s): a = hermitian(t, s); return (a @ a + np.eye(s[-1])).astype(t)
def lower(t, s): return np.tril(arr(t, s, .1, 1) + 2 * np.eye(s[-1])).astype(t)

def section_functions():
    for t in ALL:
        for s in SHAPES:
            golden.producer = 26
            case('MatrixExponential', arr(t, s, -1, 1)); case('MatrixExponential', (arr(t, s, -1, 1) * 10).astype(t) if t in (np.float64, np.complex128) and s[-1] < 5 else arr(t, s, 0, .2))
            golden.producer = None
            case('MatrixSquareRoot', well(t, s)); case('MatrixSquareRoot', definite(t, s))
        golden.producer = 26
        case('MatrixExponential', np.zeros((3, 3), t)); case('MatrixExponential', np.array([[0, 1], [0, 0]], t))
        golden.producer = None
        case('MatrixSquareRoot', np.array([[4, 1], [0, 9]], t)); case('MatrixSquareRoot', np.array([[0, -4], [4, 0]], t))
        case('MatrixSquareRoot', np.array([[-4]], t)); case('MatrixSquareRoot', np.eye(3, dtype=t) * 2)
    for t in C:
        for s in SHAPES:
            case('MatrixLogarithm', well(t, s)); case('MatrixLogarithm', arr(t, s, -1, 1)); case('MatrixLogarithm', definite(t, s))
        case('MatrixLogarithm', np.array([[1, 5], [0, 1]], t)); case('MatrixLogarithm', np.array([[2, 1, 3], [0, 2, 1], [0, 0, 1e-6]], t)); case('MatrixLogarithm', np.eye(2, dtype=t) * 1e10)
        case('MatrixLogarithm', np.array([[-1]], t)); case('MatrixLogarithm', arr(t, (2, 3))); case('MatrixLogarithm', arr(t, (2,)))
    for op, version in (('MatrixExponential', 26), ('MatrixSquareRoot', None)):
        golden.producer = version
        case(op, arr(np.float32, (2, 3))); case(op, arr(np.float32, (2,)))
    golden.producer = None

def section_gradient():
    for t in REAL:
        for s in SHAPES + [(33, 33), (70, 70)]: case('CholeskyGrad', lower(t, s), arr(t, s))
        case('CholeskyGrad', well(t, (3, 3)), arr(t, (3, 3)))
    f = np.float32
    case('CholeskyGrad', arr(f, (3, 3)), arr(f, (2, 2))); case('CholeskyGrad', arr(f, (2, 3)), arr(f, (2, 3))); case('CholeskyGrad', arr(f, (2, 2, 2)), arr(f, (2, 2))); case('CholeskyGrad', arr(f, (2, 2, 2)), arr(f, (3, 2, 2)))

def section_old():
    golden.producer = 12
    for t in REAL:
        for s in SHAPES:
            case('BatchCholeskyGrad', lower(t, s), arr(t, s)); case('BatchSvd', arr(t, s), compute_uv=False) if 0 not in s else None
            case('BatchSelfAdjointEigV2', hermitian(t, s), compute_v=False) if 0 not in s else None
            case('BatchMatrixSolveLs', well(t, s), arr(t, s[:-1] + (2,)), np.array(.1)); case('BatchMatrixSolveLs', well(t, s), arr(t, s[:-1] + (2,)), np.array(0.), fast=False)
    golden.producer = 10
    for op in ('SelfAdjointEig', 'BatchSelfAdjointEig'):
        for t in REAL:
            for d in ([2.], [3., -1, 2]): case(op, np.diag(np.array(d, t)))
            case(op, np.zeros((0, 0), t)); case(op, np.zeros((0, 2, 2), t))
        case(op, arr(np.float32, (2, 3)))
    golden.producer = None

if __name__ == '__main__': golden.main(globals())
