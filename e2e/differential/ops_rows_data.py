"""Rows for strings, parsing, sparse and ragged tensors, random numbers and summaries."""
import json
import zlib
import gzip

import numpy as np
import tensorflow.compat.v1 as tf

from ops_call import Encoded, SparseVariant
from ops_make import row


def strings(m, shape):
    return m.array("string", shape)


def text(m, *choices):
    """A scalar string."""
    return np.array(m.pick(*choices), object)


@row("StringJoin")
def join(m):
    shape = m.shape()
    m.set(separator=m.pick("", "-", "é"))
    return {"inputs": [strings(m, m.bent(shape, .02) if m.chance(.8) else ()) for _ in range(m.int(1, 3))]}


@row("StringLength StringLower StringUpper StringStrip")
def string_unary(m):
    if m.op == "StringLength":
        m.set(unit=m.pick("BYTE", "UTF8_CHAR"))
    elif m.op != "StringStrip":
        m.set(encoding=m.pick("", "utf-8"))
    return {"input": strings(m, m.shape())}


@row("StringToHashBucket StringToHashBucketFast StringToHashBucketStrong")
def buckets(m):
    m.set(num_buckets=m.pick(1, 2, 10, 1000003, 2**62))
    if m.op.endswith("Strong"):
        m.set(key=[m.pick(0, 1, -1, 2**62), m.pick(0, 7)])
    return {"string_tensor" if m.op == "StringToHashBucket" else "input": strings(m, m.shape())}


@row("StringToNumber")
def to_number(m):
    pool = [b"0", b"-0", b"1", b"+1", b" 1", b"1 ", b"1.5", b"1e3", b"1E-3", b".5", b"5.", b"nan", b"NaN", b"inf", b"-Infinity", b"1e400", b"-1e400", b"1e-400",
            b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808", b"4294967295", b"4294967296",
            b"18446744073709551615", b"18446744073709551616", b"-1", b"0x10", b"0x1p3", b"1e", b"1_0", b"\t7\n", b"3.4028236e38", b"16777217", b"0.1", b"1f", b"infinit"]
    shape = m.pick((), (1,), (1,), (2,))
    out = np.empty(int(np.prod(shape)), object)
    out[:] = [pool[m.int(0, len(pool) - 1)] for _ in out]
    return {"string_tensor": out.reshape(shape)}


@row("AsString")
def as_string(m):
    m.flags("scientific", "shortest")
    if m.attrs.get("scientific") and m.attrs.get("shortest"):
        m.attrs.pop(m.pick("scientific", "shortest"))
    if m.chance(.3) and (m.types["T"].startswith(("float", "bfloat", "complex")) or m.chance(.1)):
        m.set(precision=m.pick(0, 1, 3, 10))
    if m.chance(.3):
        m.set(width=m.pick(1, 8, 20), fill=m.pick("", " ", "0", "+", "-"))
    return {"input": m.any("T")}


@row("StringSplit StringSplitV2")
def string_split(m):
    x = strings(m, m.bent((m.int(0, 3),), .03))
    if m.op == "StringSplit":
        m.flags("skip_empty")
        return {"input": x, "delimiter": text(m, b"", b",", b" ,", b"a", b"bc")}
    m.set(maxsplit=m.pick(-1, 0, 1, 2))
    return {"input": x, "sep": text(m, b"", b",", b" ", b"bc")}


PATTERNS = ["a", "a+", ".*", "^a", "b$", "[a-c]+", "(a)(b)", "", "\\d+", "(?i)ABC", "x{2,}", "a|b", "\\bab", "[^a]", "("]


@row("RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace")
def regex(m):
    pattern, rewrite = m.pick(*PATTERNS), m.pick("", "X", "[\\0]", "\\1", "\\2\\1", "\\9", "a\\\\b")
    out = {"input": strings(m, m.shape())}
    if "Replace" in m.op:
        m.flags("replace_global")
    if m.op.startswith("Static"):
        m.set(pattern=pattern, **({"rewrite": rewrite} if "Replace" in m.op else {}))
        return out
    out["pattern"] = np.array(pattern.encode(), object)
    if "Replace" in m.op:
        out["rewrite"] = np.array(rewrite.encode(), object)
    return out


@row("StringFormat")
def string_format(m):
    n = m.int(0, 3)
    m.set(placeholder="{}", template=" and ".join(["{}"] * (n if m.chance(.95) else n + 1)), summarize=m.pick(-1, 0, 1, 2, 3))
    return {"inputs": [m.array(m.pick("float32", "int32", "string", "bool", "float64", "int64", "uint8"), m.shape()) for _ in range(n)]}


@row("StringNGrams")
def ngrams(m):
    splits = np.concatenate([[0], np.cumsum(m.rng.integers(0, 4, m.int(0, 3)))])
    m.set(separator=m.pick("|", ""), ngram_widths=[m.int(0 if m.chance(.03) else 1, 4) for _ in range(m.int(1, 2))], left_pad=m.pick("", "<"), right_pad=m.pick("", ">"),
          pad_width=m.pick(0, 0, 1, -1, 5), preserve_short_sequences=bool(m.int(0, 1)))
    n = int(splits[-1])
    if m.chance(.05):
        splits[m.int(0, splits.size - 1)] = m.pick(-1, 99)
    return {"data": strings(m, (n,)), "data_splits": m.ints(splits, "Tsplits")}


@row("ShardedFilename ShardedFilespec")
def sharded(m):
    out = {"basename": text(m, b"", b"a/b"), "num_shards": m.ints(m.pick(0, 1, 99999, 100000, -1))}
    return dict(out, shard=m.ints(m.pick(0, 1, 99999, 100000, -1))) if m.op == "ShardedFilename" else out


# Parsing


@row("DecodeRaw")
def decode_raw(m):
    m.flags("little_endian")
    size = m.dtype("out_type").itemsize
    n = size * m.int(0, 3) + (m.chance(.05))
    out = np.empty(m.shape(0, 2), object)
    for i in np.ndindex(*out.shape):
        out[i] = (m.array("out_type", (n // size,)).tobytes() + b"\0" * (n % size))
    return {"bytes": out}


@row("DecodePaddedRaw")
def decode_padded(m):
    m.flags("little_endian")
    size = m.dtype("out_type").itemsize
    out = np.empty(m.shape(0, 2), object)
    for i in np.ndindex(*out.shape):
        out[i] = m.array("out_type", (m.int(0, 4),)).tobytes()[:None if m.chance(.8) else -1]
    return {"input_bytes": out, "fixed_length": m.ints(size * m.int(0, 4) + (m.chance(.04)))}


@row("DecodeCompressed")
def decode_compressed(m):
    kind = m.pick("", "ZLIB", "GZIP")
    m.set(compression_type=kind)
    pack = {"": bytes, "ZLIB": zlib.compress, "GZIP": lambda b: gzip.compress(b, mtime=0)}[kind]
    out = np.empty(m.shape(0, 2), object)
    for i in np.ndindex(*out.shape):
        out[i] = pack(b"abc" * m.int(0, 50))[:None if m.chance(.95) else -3]
    return {"bytes": out}


@row("DecodeCSV")
def decode_csv(m):
    types = [m.pick("float32", "float64", "int32", "int64", "string") for _ in range(m.int(1, 3))]
    cells = [b"1", b"-2", b"1.5", b"", b"abc", b'"a,b"', b'"q""q"', b" 3 ", b"NA", b"9999999999", b"1e3", b"nan"]
    good = {"float32": [b"1.5", b"", b"nan", b" 2", b"1e3"], "float64": [b"-1", b"", b"inf"], "int32": [b"1", b"-2", b"", b" 3 "], "int64": [b"7", b""], "string": [b"abc", b"", b'"a,b"', b'"q""q"']}
    records = np.empty(m.shape(0, 2), object)
    for i in np.ndindex(*records.shape):
        records[i] = b",".join(m.pick(*(cells if m.chance(.05) else good[t])) for t in types[:None if m.chance(.97) else -1])
    if m.chance(.3):
        m.set(na_value=m.pick("NA", "abc"))
    m.flags("use_quote_delim", chance=.1)
    return {"records": records, "record_defaults": [m.array(t, m.pick((0,), (1,), (1,), (1,), ()), "plain") for t in types]}


def example(m):
    """A serialized tf.Example with features of all kinds, some missing, some cut."""
    feature = {}
    if m.chance(.8):
        feature["i"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[m.int(-3, 3) for _ in range(m.pick(0, 1, 2, 2, 2))]))
    if m.chance(.8):
        feature["f"] = tf.train.Feature(float_list=tf.train.FloatList(value=[m.pick(1.5, float("nan"), -0.0) for _ in range(m.pick(0, 1, 1, 1, 2))]))
    if m.chance(.8):
        feature["s"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[m.pick(b"", b"ab") for _ in range(m.int(0, 3))]))
    if m.chance(.05) and feature:
        feature["f"] = feature[m.pick(*feature)]
    return tf.train.Features(feature=feature)


def serialized(m, count, make):
    out = np.empty(count, object)
    for i in range(count):
        out[i] = make()
        if m.chance(.02):
            out[i] = out[i][:-1]
    return out


def keys(*names):
    out = np.empty(len(names), object)
    out[:] = [n.encode() for n in names]
    return out


@row("ParseExample ParseExampleV2 ParseSingleExample")
def parse_example(m):
    data = serialized(m, m.int(0, 3), lambda: tf.train.Example(features=example(m)).SerializeToString())
    defaults = [m.array("int64", m.pick((2,), (0,), (2,)), "plain"), m.array("float32", m.pick((1,), (), (0,)) if m.op != "ParseSingleExample" else (1,), "plain")]
    m.types.clear()
    m.set(sparse_types=["string"], dense_shapes=[[2], [1]] if m.chance(.5) else [[2], []])
    if m.op == "ParseSingleExample":
        m.set(num_sparse=1, sparse_keys=["s"], dense_keys=["i", "f"])
        one = data[0] if len(data) else tf.train.Example(features=example(m)).SerializeToString()
        return {"serialized": np.array(one, object), "dense_defaults": defaults}
    names = keys() if m.chance(.5) else keys(*["n%d" % i for i in range(len(data))])
    if m.op == "ParseExample":
        return {"serialized": data, "names": names, "sparse_keys": [np.array(b"s", object)], "dense_keys": [np.array(b"i", object), np.array(b"f", object)],
                "dense_defaults": defaults}
    m.set(num_sparse=1, ragged_value_types=["int64"], ragged_split_types=[m.pick("int32", "int64")])
    return {"serialized": data, "names": names, "sparse_keys": keys("s"), "dense_keys": keys("i", "f"), "ragged_keys": keys("r" if m.chance(.3) else "i2"),
            "dense_defaults": defaults}


@row("ParseSequenceExample ParseSequenceExampleV2 ParseSingleSequenceExample")
def parse_sequence(m):
    def one():
        lists = tf.train.FeatureLists(feature_list={"l": tf.train.FeatureList(feature=[tf.train.Feature(
            float_list=tf.train.FloatList(value=[m.pick(1., 2.)] * m.pick(1, 1, 1, 1, 2))) for _ in range(m.int(0, 3))])})
        return tf.train.SequenceExample(context=example(m), feature_lists=lists if m.chance(.9) else None).SerializeToString()

    single = m.op == "ParseSingleSequenceExample"
    data = serialized(m, 1 if single else m.int(0, 3), one)
    m.types.clear()
    m.set(context_sparse_types=["string"], context_dense_shapes=[[2]], feature_list_sparse_types=[], feature_list_dense_types=["float32"], feature_list_dense_shapes=[[1]])
    default = [m.array("int64", (2,), "plain")]
    if single:
        return {"serialized": np.array(data[0], object), "feature_list_dense_missing_assumed_empty": keys(*["l"] * m.int(0, 1)),
                "context_sparse_keys": [np.array(b"s", object)], "context_dense_keys": [np.array(b"i", object)], "feature_list_sparse_keys": [],
                "feature_list_dense_keys": [np.array(b"l", object)], "context_dense_defaults": default, "debug_name": np.array(b"", object)}
    names = keys() if m.chance(.7) else keys(*["n"] * len(data))
    if m.op == "ParseSequenceExample":
        m.set(feature_list_dense_missing_assumed_empty=["l"] * m.int(0, 1), context_sparse_keys=["s"], context_dense_keys=["i"], feature_list_sparse_keys=[],
              feature_list_dense_keys=["l"], Ncontext_sparse=1, Ncontext_dense=1, Nfeature_list_sparse=0, Nfeature_list_dense=1)
        return {"serialized": data, "debug_name": names, "context_dense_defaults": default}
    m.set(Ncontext_sparse=1, Nfeature_list_sparse=0, Nfeature_list_dense=1, context_ragged_value_types=["float32"], context_ragged_split_types=["int64"],
          feature_list_ragged_value_types=[], feature_list_ragged_split_types=[])
    return {"serialized": data, "debug_name": names, "context_sparse_keys": keys("s"), "context_dense_keys": keys("i"), "context_ragged_keys": keys("f"),
            "feature_list_sparse_keys": keys(), "feature_list_dense_keys": keys("l"), "feature_list_ragged_keys": keys(),
            "feature_list_dense_missing_assumed_empty": np.array([m.chance(.5)]), "context_dense_defaults": default}


@row("DecodeJSONExample")
def decode_json(m):
    out = np.empty(m.shape(0, 2), object)
    for i in np.ndindex(*out.shape):
        content = {"features": {"feature": {"a": {"int64List": {"value": [str(m.int(-9, 9))]}}}}} if m.chance(.8) else {}
        out[i] = json.dumps(content).encode() if m.chance(.96) else b"{"
    return {"json_examples": out}


@row("ParseTensor")
def parse_tensor(m):
    types = ["float32", "float64", "int32", "string", "bool", "complex64", "uint8", "bfloat16", "float16", "uint64"]
    m.types["out_type"] = m.pick(*types)
    x = m.array(m.types["out_type"] if m.chance(.95) else m.pick(*types), m.shape())
    content = tf.make_tensor_proto(x).SerializeToString()
    return {"serialized": np.array(content if m.chance(.96) else content[:-1] + b"\xff", object)}


# Sparse tensors


def sparse(m, dtype, low=1, high=3, shape=None, sort=True):
    """Indices, values and shape of a sparse tensor."""
    shape = m.shape(low, high) if shape is None else shape
    places = np.argwhere(np.asarray(m.rng.random(shape) < .5)).astype(np.int64)
    if not sort:
        m.rng.shuffle(places)
    if len(places) > 1 and m.chance(.05):
        places[1] = places[0]
    if places.size and m.chance(.04):
        places.reshape(-1)[m.int(0, places.size - 1)] = m.pick(-1, 99)
    return places, m.array(dtype, (len(places),)), m.ints(shape, "int64")


@row("SparseReorder")
def sparse_reorder(m):
    i, x, s = sparse(m, "T", 0, 4, sort=False)
    return {"input_indices": i, "input_values": x, "input_shape": s}


@row("SparseReshape")
def sparse_reshape(m):
    i, _, s = sparse(m, "int64")
    target = list(s)
    m.rng.shuffle(target)
    if m.chance(.5):
        target[m.int(0, len(target) - 1)] = -1
    if m.chance(.2):
        target.append(m.pick(1, 1, 2, -1))
    return {"input_indices": i, "input_shape": s, "new_shape": m.ints(target, "int64")}


@row("SparseConcat")
def sparse_concat(m):
    shape = list(m.shape(1, 3))
    axis = m.axis(len(shape))
    m.set(concat_dim=axis)
    parts = []
    for _ in range(m.int(2, 3)):
        if -len(shape) <= axis < len(shape):
            shape[axis] = m.int(0, 3)
        parts.append(sparse(m, "T", shape=m.bent(shape, .02)))
    return {"indices": [p[0] for p in parts], "values": [p[1] for p in parts], "shapes": [p[2] for p in parts]}


@row("SparseSplit")
def sparse_split(m):
    i, x, s = sparse(m, "T")
    m.set(num_split=m.int(1, 3))
    return {"split_dim": m.ints(m.axis(len(s)), "int64"), "indices": i, "values": x, "shape": s}


@row("SparseSlice")
def sparse_slice(m):
    i, x, s = sparse(m, "T")
    start = [m.int(0, int(d)) if m.chance(.97) else -1 for d in s]
    return {"indices": i, "values": x, "shape": s, "start": m.ints(start, "int64"), "size": m.ints([m.int(0, int(d) + 1) for d in s], "int64")}


@row("SparseSliceGrad")
def sparse_slice_grad(m):
    i, _, s = sparse(m, "int64")
    start = np.array([m.int(0, max(int(d) - 1, 0)) for d in s], np.int64)
    kept = i[(i >= start).all(-1)] - start
    return {"backprop_val_grad": m.array("T", m.bent((len(kept),))), "input_indices": i, "input_start": start, "output_indices": kept}


@row("SparseToDense")
def sparse_to_dense(m):
    i, x, s = sparse(m, "T")
    m.flags("validate_indices")
    return {"sparse_indices": i.astype(m.dtype("Tindices")), "output_shape": s.astype(m.dtype("Tindices")), "sparse_values": m.array("T", m.pick((), x.shape, x.shape)),
            "default_value": m.array("T", ())}


@row("SerializeSparse SerializeManySparse")
def serialize_sparse(m):
    i, x, s = sparse(m, "T", 2 if "Many" in m.op else 1)
    m.types["out_type"] = "string"
    return {"sparse_indices": i, "sparse_values": x, "sparse_shape": s}


@row("DeserializeSparse DeserializeManySparse")
def deserialize_sparse(m):
    m.types["dtype"] = m.pick("float32", "int64", "string", "bool", "float64")
    parts = sparse(m, "dtype")
    if m.op == "DeserializeSparse" and m.chance(.4):
        return {"serialized_sparse": SparseVariant(*parts)}
    n, out = m.int(1, 3), None
    shape = m.shape(1, 2)
    out = np.empty((n, 3), object)
    for i in range(n):
        for j, p in enumerate(sparse(m, "dtype", shape=m.bent(shape, .1))):
            out[i, j] = tf.make_tensor_proto(p).SerializeToString()
    return {"serialized_sparse": out[0] if m.op == "DeserializeSparse" and m.chance(.3) else out}


# Ragged tensors


def splits(m, dtype, bad=.05):
    out = np.concatenate([[0], np.cumsum(m.rng.integers(0, 4, m.int(0, 4)))])
    n = int(out[-1])
    if m.chance(bad):
        out[m.int(0, out.size - 1)] = m.pick(-1, 99, 1)
    return out.astype(m.dtype(dtype)), n


def nested(m, dtype, rank):
    """Splits of a ragged tensor, the inner ones to the outer ones' length, and how many values it has."""
    out, rows = [], m.int(0, 3)
    for _ in range(rank):
        s = np.concatenate([[0], np.cumsum(m.rng.integers(0, 3, rows))])
        rows = int(s[-1])
        if m.chance(.03):
            s[m.int(0, s.size - 1)] = m.pick(-1, 99)
        out.append(s.astype(m.dtype(dtype)))
    return out, rows


@row("RaggedGather")
def ragged_gather(m):
    s, n = nested(m, "Tsplits", m.int(1, 2))
    indices = m.index("Tindices", m.shape(0, 2), len(s[0]) - 1)
    m.set(OUTPUT_RAGGED_RANK=len(s) + indices.ndim - 1)
    return {"params_nested_splits": s, "params_dense_values": m.array("Tvalues", (n,) + m.shape(0, 1)), "indices": indices}


@row("RaggedTensorToSparse")
def ragged_to_sparse(m):
    s, n = nested(m, "Tsplits", m.int(1, 3))
    return {"rt_nested_splits": s, "rt_dense_values": m.array("T", m.bent((n,) + m.shape(0, 1), .02))}


@row("RaggedTensorToTensor")
def ragged_to_tensor(m):
    rank = m.int(1, 2)
    s, n = nested(m, "Tindex", rank)
    kinds, parts = ["ROW_SPLITS"] * rank, s
    inner = m.shape(0, 1)
    if m.chance(.3):
        ids = np.repeat(np.arange(len(s[0]) - 1), np.maximum(np.diff(s[0]), 0)) if len(s[0]) > 1 else np.zeros(0)
        kinds = ["FIRST_DIM_SIZE", "VALUE_ROWIDS"] + kinds[1:]
        parts = [m.ints(len(s[0]) - 1, "Tindex"), m.ints(ids, "Tindex")] + s[1:]
    m.set(row_partition_types=kinds)
    full = [-1] * (rank + 1 + len(inner))
    if m.chance(.3):
        full[m.int(0, rank)] = m.int(0, 4)
    return {"shape": m.ints(full if m.chance(.9) else -1, "Tshape"), "values": m.array("T", (n,) + inner), "default_value": m.array("T", m.pick((), inner)),
            "row_partition_tensors": parts}


@row("RaggedTensorFromVariant")
def ragged_from_variant(m):
    s, n = nested(m, "Tsplits", m.int(1, 2))
    batched = m.chance(.6)
    m.types["Tvalues"] = m.pick("float32", "int64", "string")
    m.set(input_ragged_rank=len(s) - 1 if batched else len(s), output_ragged_rank=len(s))
    return {"encoded_ragged": Encoded(*s, m.array("Tvalues", (n,)), batched=batched)}


# Random numbers


def sizes(m, dtype):
    out = list(m.shape(0, 3, zero=.05))
    return m.ints(out if m.chance(.96) else [-1], dtype)


def seeds(m):
    m.set(seed=m.pick(1, 7, -1, 2**40), seed2=m.pick(0, 3, -5))


@row("RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt")
def random(m):
    seeds(m)
    out = {"shape": sizes(m, "T")}
    return dict(out, **bounds(m, "Tout")) if m.op == "RandomUniformInt" else out


def bounds(m, dtype):
    info = np.iinfo(m.dtype(dtype))
    low, high = m.pick((0, 10), (-5, 5), (info.min, info.max), (0, 1), (3, 3), (5, 2), (info.max - 1, info.max))
    return {"minval": m.ints(max(low, info.min), dtype), "maxval": m.ints(high, dtype)}


@row("RandomGamma RandomPoissonV2")
def random_rate(m):
    seeds(m)
    return {"shape": sizes(m, "S"), "alpha" if m.op == "RandomGamma" else "rate": m.array("T" if m.op == "RandomGamma" else "R", m.shape(0, 2), "positive")}


@row("RandomShuffle")
def shuffle(m):
    seeds(m)
    return {"value": m.any("T")}


@row("Multinomial StatelessMultinomial")
def multinomial(m):
    out = {"logits": m.array("T", m.bent(m.shape(2, 2)), m.pick("plain", "ties")), "num_samples": m.ints(m.int(0, 4) if m.chance(.96) else -1)}
    if m.op == "Multinomial":
        seeds(m)
        return out
    return dict(out, seed=m.array("Tseed", (2,)))


@row("StatelessRandomNormal StatelessRandomUniform StatelessRandomUniformFullInt StatelessRandomUniformInt StatelessTruncatedNormal")
def stateless(m):
    out = {"shape": sizes(m, "T"), "seed": m.array("Tseed", m.bent((2,)))}
    return dict(out, **bounds(m, "dtype")) if m.op == "StatelessRandomUniformInt" else out


@row("StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2 StatelessTruncatedNormalV2")
def stateless_v2(m):
    alg = m.pick(1, 1, 3, 2)
    out = {"shape": sizes(m, "Tshape"), "key": m.array("uint64", m.bent((1,))), "counter": m.array("uint64", m.bent((1 if alg == 2 else 2,))), "alg": m.ints(alg)}
    return dict(out, **bounds(m, "dtype")) if m.op == "StatelessRandomUniformIntV2" else out


@row("StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg")
def key_counter(m):
    return {"seed": m.array("Tseed", m.bent((2,)))}


@row("RandomIndexShuffle")
def index_shuffle(m):
    most = m.int(0, 20)
    shape = m.pick((), (), (3,))
    return {"index": m.index("dtype", shape, most + 1), "seed": m.array("Tseed", m.pick((3,), shape + (3,))), "max_index": m.ints(np.full(m.pick((), shape), most), "dtype")}


@row("KmeansPlusPlusInitialization")
def kmeans(m):
    return {"points": m.array("float32", (m.int(1, 5), m.int(1, 3)), "plain"), "num_to_sample": m.ints(m.int(0, 4), "int64"), "seed": m.ints(m.int(0, 9), "int64"),
            "num_retries_per_sample": m.ints(m.int(-1, 2), "int64")}


@row("KMC2ChainInitialization")
def kmc2(m):
    return {"distances": m.array("float32", (m.int(0, 5),), "positive"), "seed": m.ints(m.int(0, 9), "int64")}


# Summaries


@row("ScalarSummary HistogramSummary")
def summary(m):
    shape = m.shape(0, 2)
    if m.op == "HistogramSummary":
        return {"tag": text(m, b"t"), "values": m.array("T", shape, m.pick("plain", "any"))}
    return {"tags": strings(m, m.bent(shape)), "values": m.array("T", shape)}


@row("TensorSummary TensorSummaryV2")
def tensor_summary(m):
    x = m.any("T")
    return {"tensor": x} if m.op == "TensorSummary" else {"tag": text(m, b"t"), "tensor": x, "serialized_summary_metadata": text(m, b"")}


@row("AudioSummary AudioSummaryV2")
def media_summary(m):
    out = {"tag": text(m, b"t"), "tensor": m.array("float32", m.shape(2, 3, zero=0), "plain")}
    if m.op == "AudioSummary":
        m.set(sample_rate=8000.)
        return out
    return dict(out, sample_rate=np.asarray(8000, np.float32))


@row("MergeSummary")
def merge_summary(m):
    one = lambda: tf.Summary(value=[tf.Summary.Value(tag=m.pick("a", "b", "c", "d", "e"), simple_value=1)]).SerializeToString()
    return {"inputs": [np.array(one() if m.chance(.97) else b"\xff", object) for _ in range(m.int(1, 3))]}


@row("DecodeProtoV2")
def decode_proto(m):
    fields = {"name": "string", "op": "string", "input": "string", "device": "string", "attr": "string", "experimental_debug_info": "string"}
    names = [n for n in fields if m.chance(.5)] or ["name"]
    m.set(message_type="tensorflow.NodeDef", field_names=names, output_types=[tf.string if m.chance(.97) else tf.int32 for _ in names],
          sanitize=m.chance(.2), message_format="binary", descriptor_source=m.pick("", "local://"))
    out = np.empty(m.shape(0, 2), object)
    for i in np.ndindex(*out.shape):
        node = tf.compat.v1.NodeDef(name="n" * m.int(0, 3), op="Add", input=["x"] * m.int(0, 3), device="/cpu:0" if m.chance(.5) else "")
        serialized = node.SerializeToString(deterministic=True)
        out[i] = serialized if m.chance(.97) else serialized[:m.int(0, len(serialized))]
    return {"bytes": out}


@row("EncodeProto")
def encode_proto(m):
    fields = {"name": "string", "op": "string", "input": "string"}
    names = [n for n in fields if m.chance(.6)] or ["input"]
    m.set(message_type="tensorflow.NodeDef", field_names=names, descriptor_source="local://")
    batch, most = m.shape(1, 2), m.int(0, 3)
    sizes = np.array([m.int(0, most + (1 if m.chance(.03) else 0)) for _ in range(int(np.prod(batch)) * len(names))], np.int32)
    values = []
    for _ in names:
        v = np.empty((*batch, most), object)
        for i in np.ndindex(*v.shape):
            v[i] = b"v" * m.int(0, 4)
        values.append(v)
    return {"sizes": sizes.reshape(*batch, len(names)), "values": values}


@row("ImmutableConst")
def immutable_const(m):
    m.set(memory_region_name="/no/such/file", dtype=m.pick(tf.float32, tf.string, tf.variant), shape=m.shape(0, 2))
    return {}
