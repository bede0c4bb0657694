"""Writes golden_distance.gz, as golden.py does: python golden_distance.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i64, i32 = np.float32, np.int64, np.int32
S = lambda *w: np.array(list(w) + [None], object)[:-1]

def section_distance():
    H = (np.array([[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 2]], i64), np.array([2, 2, 4], i64))
    T = (np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]], i64), np.array([3, 2, 3], i64))
    for t in F + C + SI + UI + [bool, object]:
        make = lambda n: S(*[rng.choice([b'a', b'b', b'cd']) for _ in range(n)]) if t == object else arr(t, (n,), 0, 3)
        for normalize in (False, True):
            case('EditDistance', H[0], make(6), H[1], T[0], make(5), T[1], normalize=normalize)
            case('EditDistance', H[0][:, 1:], make(6), H[1][1:], T[0][:, 1:], make(5), T[1][1:], normalize=normalize)
    case('EditDistance', H[0][:0], np.zeros(0, i32), H[1], T[0], arr(i32, (5,)), T[1]); case('EditDistance', H[0], arr(i32, (6,)), H[1], T[0][:0], np.zeros(0, i32), T[1])
    v, w = arr(i32, (6,)), arr(i32, (5,))
    for bad in [(H[0][0], v, H[1], T[0], w, T[1]), (H[0], v[:2], H[1], T[0], w, T[1]), (H[0], v, H[1][:2], T[0], w, T[1]), (H[0], v, H[1], T[0], w[:1], T[1]), (H[0], v, H[1], T[0][:, :2], w, T[1][:2]), (H[0][:, :1], v, H[1][:1], T[0][:, :1], w, T[1][:1]),
                (H[0], v, H[1], T[0] + 9, w, T[1]), (H[0], v, np.array([0, 2, 4], i64), T[0], w, np.array([0, 2, 4], i64)), (H[0], v.reshape(6, 1), H[1], T[0], w, T[1])]: case('EditDistance', *bad)

def section_fingerprint():
    for t in F + C + SI + UI + [bool]:
        for shape in ((3,), (2, 3), (2, 0), (0, 2), (2, 2, 2)): case('Fingerprint', arr(t, shape), np.array(b'farmhash64', object))
    for a in (S(b'a', b'', b'xyz' * 30), S(b'a', b'b', b'c', b'd').reshape(2, 2), S().reshape(0, 2)): case('Fingerprint', a, np.array(b'farmhash64', object))
    case('Fingerprint', f32(1), np.array(b'farmhash64', object)); case('Fingerprint', arr(f32, (2,)), np.array(b'md5', object)); case('Fingerprint', arr(f32, (2,)), S(b'farmhash64'))

if __name__ == '__main__': golden.main(globals())
