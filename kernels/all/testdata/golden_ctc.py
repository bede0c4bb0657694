"""Writes golden_ctc.gz, as golden.py does: python golden_ctc.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32, i64 = np.float32, np.float64, np.int32, np.int64

def labels(*rows):
    at = [(b, t) for b, row in enumerate(rows) for t in range(len(row))]
    return np.array(at, i64).reshape(-1, 2), np.array([v for row in rows for v in row], i32)

def section_loss():
    for t in (f32, f64):
        for flags in [{}, dict(ctc_merge_repeated=False), dict(preprocess_collapse_repeated=True), dict(ignore_longer_outputs_than_inputs=True)]:
            case('CTCLoss', arr(t, (7, 3, 5)), *labels([0, 1, 2], [3, 3], [1, 1, 2, 2]), np.array([7, 6, 6], i32), **flags)
            case('CTCLoss', arr(t, (5, 2, 4)), *labels([0, 0, 1], [2, 1, 0]), np.array([2, 5], i32), **flags)
        case('CTCLoss', arr(t, (4, 2, 4)), *labels([0, 1, 3, 3], [2]), np.array([4, 1], i32))
        case('CTCLoss', arr(t, (4, 2, 4)), *labels([0, 3, 1], [2]), np.array([4, 1], i32))
        case('CTCLoss', np.full((3, 1, 3), 0, t), *labels([0, 1]), np.array([3], i32))
        case('CTCLoss', np.array([[[1e4, 0, 0]], [[1e4, 0, 0]]], t), *labels([1]), np.array([2], i32))
    x, n = arr(f32, (4, 2, 4)), np.array([4, 4], i32)
    case('CTCLoss', x, *labels([0], []), n)
    case('CTCLoss', x, *labels([0], [-1]), n)
    case('CTCLoss', x, *labels([0], [1]), np.array([4, 5], i32))
    case('CTCLoss', x, *labels([0], [1]), np.array([4, -1], i32))
    case('CTCLoss', x, *labels([0], [1]), np.array([4], i32))
    case('CTCLoss', x, *labels([0], [1], [2]), n)
    case('CTCLoss', x, *labels([0, 1], [1] * 5), n)
    case('CTCLoss', x, np.array([[0, 0], [0, 0]], i64), np.array([1, 1], i32), n)
    case('CTCLoss', x, np.array([[1, 0], [0, 0]], i64), np.array([1, 1], i32), n)
    case('CTCLoss', x, np.array([[0, 0], [-1, 0]], i64), np.array([1, 1], i32), n)
    case('CTCLoss', x, np.array([[0, 0], [1, 0]], i64), np.array([1], i32), n)
    case('CTCLoss', x, np.array([[0, 0, 0], [1, 0, 0]], i64), np.array([1, 1], i32), n)
    case('CTCLoss', x, np.array([[0], [1]], i64), np.array([1, 1], i32), n)
    case('CTCLoss', x[0], *labels([0], [1]), n)
    case('CTCLoss', x[:0], *labels([0], [1]), n)
    case('CTCLoss', x[:, :0], *labels(), n[:0])

def section_greedy():
    for t in (f32, f64):
        for merge in (False, True):
            for blank in (-1, 0, 2):
                case('CTCGreedyDecoder', np.round(arr(t, (6, 3, 4), -1, 1) * 2), np.array([6, 0, 4], i32), merge_repeated=merge, blank_index=blank)
    x = arr(f32, (3, 2, 4))
    for blank in (4, -5): case('CTCGreedyDecoder', x, np.array([3, 3], i32), blank_index=blank)
    for n in ([3], [3, 4], [-1, 2]): case('CTCGreedyDecoder', x, np.array(n, i32))
    case('CTCGreedyDecoder', x, np.array(3, i32)); case('CTCGreedyDecoder', x[0], np.array([3, 3], i32)); case('CTCGreedyDecoder', x[:0], np.array([3, 3], i32))

def section_beam():
    for t in (f32, f64):
        for width, paths in [(1, 1), (2, 2), (5, 3), (100, 4)]:
            for merge in (False, True):
                case('CTCBeamSearchDecoder', arr(t, (6, 3, 4)), np.array([6, 3, 4], i32), beam_width=width, top_paths=paths, merge_repeated=merge)
        case('CTCBeamSearchDecoder', arr(t, (12, 2, 9)), np.array([12, 9], i32), beam_width=10, top_paths=5)
    x = arr(f32, (3, 2, 4))
    case('CTCBeamSearchDecoder', x, np.array([3, 3], i32), beam_width=1, top_paths=2)
    case('CTCBeamSearchDecoder', x, np.array([3, 0], i32), beam_width=3, top_paths=2)
    case('CTCBeamSearchDecoder', x, np.array([3, 4], i32), beam_width=3, top_paths=2)
    case('CTCBeamSearchDecoder', x[:, :, :1], np.array([3, 3], i32), beam_width=3, top_paths=1)

if __name__ == '__main__': golden.main(globals())
