"""Writes tableops.jsonl.gz: what TensorFlow makes of the ops that go with lookup tables (hash buckets of strings,
their case, parts and ngrams) and of those of clustering, for TestTableOpsLikeTensorFlow.

Run with a Python that has TensorFlow 2.21, in this folder. The cases have the form of arrayops.py's.
"""
import os
import arrayops
from arrayops import np, run

arrayops.lines.clear()


def strings(*s):
    return np.array(s, object)


def i64(*v):
    return np.array(v, np.int64)


def scalar(v, dtype=np.int64):
    return np.asarray(v, dtype)


texts = strings("", "a", "Hello World", "ÄÖÜß straße", "ΑΣ ΣΑΣ", "İstanbul ı", "ﬁ", "a\0b", "日本", b"\xff\xfe", b"ab\xe4\xb8", "x" * 100,
                *("x" * n + "y" * (n // 3) for n in list(range(1, 70, 3)) + [127, 128, 129, 1000]))
for n in (1, 10, 2**62):
    run("StringToHashBucketFast", input=texts, num_buckets=n)
    run("StringToHashBucket", string_tensor=texts, num_buckets=n)
    for key in ([1, 2], [-1, 2**40], [0, 0], [1]):
        run("StringToHashBucketStrong", input=texts, num_buckets=n, key=key)
for op in ("StringLower", "StringUpper"):
    for encoding in ("", "utf-8", "latin"):
        run(op, input=texts, encoding=encoding)
parts = strings("a b,c", "", ",,a b ", " xabyab", "  ", "a\tb\n c")
for d in ("", " ", ",", "ab", " ,", ",,"):
    for skip in (True, False):
        run("StringSplit", input=parts, delimiter=scalar(d, object), skip_empty=skip)
    for most in (-1, 0, 1, 2, 5):
        run("StringSplitV2", input=parts, sep=scalar(d, object), maxsplit=most)
letters = strings("a", "b", "c", "d", "e")
ngrams = {"separator": "|", "left_pad": "L", "right_pad": "RR"}
for widths in ([1], [3], [1, 2], [5], []):
    for pad in (-1, 0, 1, 10):
        for keep in (False, True):
            for t in (np.int32, np.int64):
                run("StringNGrams", data=letters, data_splits=np.array([0, 3, 3, 4, 5], t), ngram_widths=widths, pad_width=pad, preserve_short_sequences=keep, **ngrams)
for splits in ([0, 6], [1, 5], [0, 3], [0, 4, 3, 5], [0], [5, 5]):
    run("StringNGrams", data=letters, data_splits=i64(*splits), ngram_widths=[2], pad_width=-1, preserve_short_sequences=False, **ngrams)
run("StringNGrams", data=strings(), data_splits=i64(0, 0, 0), ngram_widths=[2], pad_width=-1, preserve_short_sequences=False, **ngrams)
for widths in ([0], [2**30, 2**30]):
    run("StringNGrams", data=letters, data_splits=i64(0, 5), ngram_widths=widths, pad_width=-2**30, preserve_short_sequences=False, **ngrams)
for v, t in ((0, np.int32), (3, np.int64), (0, np.float32), (-0.0, np.float64), (np.nan, np.float32), ("", object), ("0", object), (True, bool), ([0], np.int32), ([], np.int32), (1, np.float16), (1, np.complex64), (1, np.uint32)):
    run("ToBool", input=scalar(v, t))

rng = np.random.RandomState(3)
points, centers = rng.randn(60, 5).astype(np.float32), rng.randn(1100, 5).astype(np.float32)
for seed in (1, 2**40, -5):
    for retries in (-1, 0, 3):
        run("KmeansPlusPlusInitialization", points=points, num_to_sample=scalar(4), seed=scalar(seed), num_retries_per_sample=scalar(retries))
    run("KMC2ChainInitialization", distances=np.abs(points[:, 0]), seed=scalar(seed))
run("KmeansPlusPlusInitialization", points=np.ones((6, 2), np.float32), num_to_sample=scalar(4), seed=scalar(1), num_retries_per_sample=scalar(-1))
for n in (0, 300):
    run("KmeansPlusPlusInitialization", points=points, num_to_sample=scalar(n), seed=scalar(1), num_retries_per_sample=scalar(-1))
run("KmeansPlusPlusInitialization", points=points[:0], num_to_sample=scalar(1), seed=scalar(1), num_retries_per_sample=scalar(-1))
run("KMC2ChainInitialization", distances=points[:0, 0], seed=scalar(1))
for k in (1, 3, 50, 100):
    run("NearestNeighbors", points=points[:20], centers=centers[:50], k=scalar(k))
for k in (1, 7):
    run("NearestNeighbors", points=points[:20], centers=centers, k=scalar(k))
run("NearestNeighbors", points=np.ones((2, 2), np.float32), centers=np.ones((4, 2), np.float32), k=scalar(3))
run("NearestNeighbors", points=points[:2], centers=centers[:0], k=scalar(3))
run("NearestNeighbors", points=points[:0], centers=centers, k=scalar(3))
run("NearestNeighbors", points=points, centers=np.ones((2, 3), np.float32), k=scalar(1))
arrayops.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tableops.jsonl.gz"))
