"""Rows for random numbers whose distribution has inputs, for samples of candidates, and for parts chosen at random."""
import numpy as np

from ops_call import Ref, Var
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


@row("StatelessRandomBinomial")
def stateless_binomial(m):
    shape = m.shape(0, 3, zero=.05)
    batch = shape[m.int(0, len(shape)):] if m.chance(.95) else shape + (2,)
    return {"shape": m.ints(shape, "S"), "seed": m.array("Tseed", m.bent((2,))), **trials(m, batch)}


@row("StatefulRandomBinomial")
def binomial(m):
    shape = m.shape(0, 3, zero=.05)
    m.types["S"] = "int32"  # TensorFlow's server ends where they are int64
    return {"resource": Var(m.array("int64", (3,), "plain")), "algorithm": m.ints(PHILOX, "int64"), "shape": m.ints(shape, "S"), **trials(m, shape[m.int(0, len(shape)):])}


def trials(m, batch):
    count, prob = m.array("T", batch, "positive"), m.array("T", batch, "positive")
    return {"counts": np.asarray(np.minimum(count, 1000), count.dtype), "probs": np.asarray(prob / (1 + prob), prob.dtype)}


@row("ParameterizedTruncatedNormal StatelessParameterizedTruncatedNormal")
def truncated_normal(m):
    """Few numbers: TensorFlow's threads begin at places of their own in the sequence."""
    number = lambda low, high: np.asarray(m.int(low, high) / 4, m.dtype("dtype"))
    m.types["dtype"] = m.pick("float32", "float64")  # TensorFlow rounds each step to half precision
    low = number(-20, 12)
    deviations = "stdevs" if m.op[0] == "P" else "stddevs"
    parts = {"means": number(-8, 8), deviations: number(0 if m.chance(.1) else 1, 8), "minvals": low, "maxvals": np.asarray(low + number(0 if m.chance(.1) else 1, 20), low.dtype)}
    if m.op[0] == "P":
        seeds(m)
        return {"shape": m.ints([m.int(0, 3)], "T"), **parts}
    return {"shape": m.ints([m.int(0, 3)], "S"), "seed": m.array("Tseed", m.bent((2,))), **parts}


@row("SobolSample")
def sobol(m):
    return {"dim": m.ints(m.pick(1, 2, 5, 40, 1000, 21200, 0, 21201)), "num_results": m.ints(m.pick(1, 3, 20, 0)), "skip": m.ints(m.pick(0, 1, 7, 1000, 10**6, -1))}


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


@row("SdcaShrinkL1")
def shrink(m):
    n = m.int(1, 3)
    m.set(l1=m.pick(0., .5, 2.), l2=m.pick(1., 4.))
    return {"weights": [Ref(m.array("float32", m.shape(0, 2))) for _ in range(n)]}
