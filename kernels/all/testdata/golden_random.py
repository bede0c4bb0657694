"""Writes golden_random.gz, as golden.py does: python golden_random.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, f64, i32, i64, u64 = np.float32, np.float64, np.int32, np.int64, np.uint64
SEED = dict(seed=7, seed2=11)

def classes(*rows): return np.array(rows, i64)

def section_candidates():
    some = classes([0, 3], [2, 2], [4, 1])
    for op in ['UniformCandidateSampler', 'LogUniformCandidateSampler', 'LearnedUnigramCandidateSampler', 'ThreadUnsafeUnigramCandidateSampler']:
        for n, unique, most in [(4, True, 5), (5, True, 5), (20, False, 5), (30, True, 100), (100, False, 1000), (1, True, 64), (3, True, 1 << 20)]:
            case(op, np.minimum(some, most - 1), num_true=2, num_sampled=n, unique=unique, range_max=most, **SEED)
        case(op, np.zeros((0, 1), i64), num_true=1, num_sampled=3, unique=False, range_max=4, **SEED)
        for bad in [some + 1, some - 1, some[0], some[:, :1]]:
            case(op, bad, num_true=2, num_sampled=3, unique=True, range_max=5, **SEED)
        case(op, some, num_true=2, num_sampled=6, unique=True, range_max=5, **SEED)
    case('UniformCandidateSampler', some, num_true=2, num_sampled=6, unique=True, range_max=1 << 40, **SEED)
    case('AllCandidateSampler', some, num_true=2, num_sampled=49, unique=True, **SEED)
    case('AllCandidateSampler', some, num_true=2, num_sampled=4, unique=False, **SEED)

def section_fixed():
    some, weights = classes([0, 3], [2, 2], [4, 1]), [1., 0.5, 3., 2.5, 9.]
    op, kw = 'FixedUnigramCandidateSampler', dict(num_true=2, **SEED)
    for n, unique in [(5, True), (3, True), (40, False)]:
        case(op, some, num_sampled=n, unique=unique, range_max=5, unigrams=weights, **kw)
        case(op, some, num_sampled=n, unique=unique, range_max=5, unigrams=weights, distortion=0.75, **kw)
    case(op, some, num_sampled=40, unique=False, range_max=7, unigrams=weights, num_reserved_ids=2, **kw)
    case(op, some, num_sampled=40, unique=False, range_max=5, unigrams=[float(i % 7) for i in range(15)], num_shards=3, shard=1, **kw)
    case(op, some, num_sampled=40, unique=False, range_max=6, unigrams=[float(i % 7) for i in range(15)], num_reserved_ids=4, num_shards=3, shard=0, **kw)
    case(op, some, num_sampled=40, unique=False, range_max=5, unigrams=[0.] * 5, **kw)
    for bad in [dict(range_max=4, unigrams=weights), dict(range_max=6, unigrams=weights), dict(range_max=5), dict(range_max=5, unigrams=weights, vocab_file='x'), dict(range_max=5, vocab_file='/no/such/file')]:
        case(op, some, num_sampled=2, unique=False, **bad, **kw)

def section_hits():
    for a, b in [([[1, 2], [0, 4], [3, 3]], [3, 0, 7]), ([[1, 2]], []), ([[5, 5]], [5, 5, 6]), ([[1, 2]], [[1]])]:
        case('ComputeAccidentalHits', np.array(a, i64), np.array(b, i64), num_true=2)
    case('ComputeAccidentalHits', np.zeros((0, 2), i64), np.array([1], i64), num_true=2)
    case('ComputeAccidentalHits', np.array([[1, 2]], i64), np.array([1], i64), num_true=3)

SEEDS = [np.array([3, 5], i64), np.array([-1, 1 << 20], i32)]
COUNTS = [half, f32, f64, i32, i64]

def section_stateless():
    for t in COUNTS:
        for o in COUNTS:
            for s in SEEDS: case('StatelessRandomPoisson', np.array([2, 3, 4], i32), s, np.array([1, 5, 30, 0], t), dtype=o)
        case('StatelessRandomPoisson', np.array([0, 2], i64), SEEDS[0], np.array([1, 5], t), dtype=t)
    case('StatelessRandomPoisson', np.array([7], i64), SEEDS[0], f32(3.5), dtype=i64)
    case('StatelessRandomPoisson', np.array([7], i64), SEEDS[0], np.array([1, 2], f32), dtype=i64)
    case('StatelessRandomPoisson', np.array([7], i64), np.array([1], i64), f32(2), dtype=i64)
    for t in [half, f32, f64]:
        alphas = np.array([0.25, 1, 3.5, 100], t)
        for s in SEEDS: case('StatelessRandomGammaV2', np.array([5, 3, 4], i32), s, alphas)
        case('StatelessRandomGammaV2', np.array([6], i64), SEEDS[0], t(0.5))
        case('StatelessRandomGammaV2', np.array([0, 4], i64), SEEDS[0], alphas)
        case('StatelessRandomGammaV3', np.array([5, 4], i32), np.array([9], u64), np.array([1, 2], u64), i32(1), alphas)
    alphas = np.array([1, 2], f32)
    case('StatelessRandomGammaV2', np.array([3], i64), SEEDS[0], alphas)
    case('StatelessRandomGammaV2', np.array([3, 2], i64), np.array([1, 2, 3], i64), alphas)
    case('StatelessRandomGammaV3', np.array([5, 3], i32), np.array([9], u64), np.array([1, 2], u64), i32(1), alphas)
    case('StatelessRandomGammaV3', np.array([5, 2], i32), np.array([9], u64), np.array([1, 2], u64), i32(3), alphas)
    golden.producer = 24
    for t in [half, f32, f64]:
        case('RandomPoisson', np.array([4, 2], i32), np.array([[1, 20, 0.5]], t), **SEED)
    golden.producer = None

def section_shuffle():
    key, counter = np.array([9], u64), np.array([1, 2], u64)
    for x in [arr(t, 17) for t in F + SI + UI + C + [bool]] + [arr(f32, (6, 3)), arr(f32, (0, 3)), arr(f32, (3, 0)), f32(1), arr(f32, 1), arr(f32, (1, 5)), np.array([b'a', b'bc', b'', b'd'], object)]:
        case('StatelessShuffle', x, key, counter, i32(1))
    case('StatelessShuffle', arr(f32, 5), key, counter, i32(3))
    for bad in [(key, counter, i32(2)), (key[:0], counter, i32(1)), (key, counter, np.array([1], i32))]:
        case('StatelessShuffle', arr(f32, 5), *bad)

if __name__ == '__main__': golden.main(globals())
