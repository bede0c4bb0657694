"""Rows for random numbers whose distribution has inputs, for samples of candidates, and for parts chosen at random."""
import numpy as np

from ops_make import row
from ops_rows_data import seeds, sizes

PHILOX, THREEFRY = 1, 2


@row("RandomPoisson")
def poisson(m):
    seeds(m)
    return {"shape": sizes(m, "S"), "rate": m.array("dtype", m.shape(0, 2), "positive")}


@row("StatelessRandomGammaV2 StatelessRandomPoisson")
def stateless_rate(m):
    shape = m.shape(0, 3, zero=.05)
    rates = shape[m.int(0, len(shape)):] if m.chance(.95) else shape + (2,)
    name, attr = ("alpha", "dtype") if "Gamma" in m.op else ("lam", "Rtype")
    return {"shape": m.ints(shape, "T"), "seed": m.array("Tseed", m.bent((2,))), name: m.array(attr, rates, "positive")}


@row("StatelessRandomGammaV3")
def stateless_gamma(m):
    shape, alg = m.shape(0, 3, zero=.05), m.pick(PHILOX, PHILOX, 3, THREEFRY)
    return {"shape": m.ints(shape, "shape_dtype"), "key": m.array("uint64", m.bent((1,))), "counter": m.array("uint64", m.bent((2,))), "alg": m.ints(alg),
            "alpha": m.array("dtype", shape[m.int(0, len(shape)):], "positive")}


@row("StatelessShuffle")
def stateless_shuffle(m):
    alg = m.pick(PHILOX, PHILOX, 3, THREEFRY)
    return {"value": m.any(m.pick("float32", "int64", "string", "uint8"), 0 if m.chance(.1) else 1, 3), "key": m.array("uint64", m.bent((1,))),
            "counter": m.array("uint64", m.bent((1 if alg == THREEFRY else 2,))), "alg": m.ints(alg)}


@row("RandomCrop")
def crop(m):
    seeds(m)
    shape = m.shape(3, 3)
    size = [m.int(0, d) if m.chance(.97) else d + 1 for d in shape[:2]]
    return {"image": m.array("T", shape), "size": m.ints(size if m.chance(.97) else size[:1], "int64")}


@row("UniformCandidateSampler LogUniformCandidateSampler LearnedUnigramCandidateSampler ThreadUnsafeUnigramCandidateSampler FixedUnigramCandidateSampler "
     "AllCandidateSampler")
def candidates(m):
    seeds(m)
    most, wanted, unique = m.int(1, 12), m.int(1, 8), m.chance(.5)
    if unique and m.chance(.97):
        most = max(most, wanted)
    true = m.int(1, 3)
    m.set(num_true=true, num_sampled=wanted, unique=unique)
    if m.op[0] == "A":
        most = wanted
    else:
        m.set(range_max=most)
    if m.op[:2] == "Fi":
        reserved = m.int(0, 2)
        m.set(unigrams=[m.int(1, 9) / 2 for _ in range(max(most - reserved, 1 if most else 0))] if m.chance(.97) else [], num_reserved_ids=reserved,
              distortion=m.pick(1., .5, 0., 2.), range_max=most)
        if most <= reserved:
            m.set(range_max=reserved + 1)
        if unique:
            m.set(num_sampled=max(1, min(wanted, m.attrs["range_max"] - reserved)))
    return {"true_classes": m.index("int64", m.bent((m.int(0, 4), true), .03), most, .03)}


@row("ComputeAccidentalHits")
def hits(m):
    true = m.int(1, 3)
    m.set(num_true=true)
    return {"true_classes": m.array("int64", m.bent((m.int(0, 4), true), .03), "ties"), "sampled_candidates": m.array("int64", m.bent((m.int(0, 8),), .03), "ties")}
