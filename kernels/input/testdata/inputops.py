"""Writes inputops.jsonl.gz: what TensorFlow makes of messages and raw bytes, for TestInputOpsLikeTensorFlow.

Run with a Python that has TensorFlow 2.21, in this folder. The cases have the form of arrayops.py's.
"""
import gzip
import os
import zlib
import arrayops
from arrayops import i32, i64, np, run, tf

arrayops.lines.clear()
rng = np.random.default_rng(11)


def s(*v):
    return np.array(v, object)


def one(v):
    return np.asarray(v, object)


def each(*v):
    return [one(k) for k in v]


def f32(*v):
    return np.array(v, np.float32)


def feature(v):
    if v is None:
        return tf.train.Feature()
    kind, *v = v
    if kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=v))
    if kind == "i":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=v))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=v))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in features.items()})).SerializeToString()


def sequence(context={}, **lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={k: feature(v) for k, v in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list={k: tf.train.FeatureList(feature=[feature(v) for v in l]) for k, l in lists.items()}),
    ).SerializeToString()


types = {"f": tf.float32, "i": tf.int64, "s": tf.string}
empty = {"f": f32(), "i": i64(), "s": s()}


def parse(examples, sparse=(), dense=(), ragged=(), names=None):
    """Runs ParseExample (where nothing is ragged), ParseExampleV2 and, on each example alone, the ops for one."""
    names = s() if names is None else s(*names)
    sparse_types = [types[t] for _, t in sparse]
    defaults = [empty[t] if d is None else d for _, t, _, d in dense]
    shapes = [sh for _, _, sh, _ in dense]
    common = dict(sparse_types=sparse_types, dense_defaults=defaults, dense_shapes=shapes)
    if not ragged:
        run("ParseExample", serialized=s(*examples), names=names, sparse_keys=each(*[k for k, _ in sparse]), dense_keys=each(*[k for k, *_ in dense]), **common)
    v2 = dict(
        sparse_keys=s(*[k for k, _ in sparse]), dense_keys=s(*[k for k, *_ in dense]), ragged_keys=s(*[k for k, *_ in ragged]), num_sparse=len(sparse),
        ragged_value_types=[types[t] for _, t, _ in ragged], ragged_split_types=[sp for _, _, sp in ragged], **common)
    run("ParseExampleV2", serialized=s(*examples), names=names, **v2)
    for e in examples[:3]:
        run("ParseExampleV2", serialized=one(e), names=s(), **v2)
        if not ragged:
            run("ParseSingleExample", serialized=one(e), num_sparse=len(sparse), sparse_keys=[k for k, _ in sparse], dense_keys=[k for k, *_ in dense], **common)


a = example(x=("i", 1), y=("f", 1.5, -2.5), z=("s", b"hello", b"w"), e=None)
b = example(x=("i", -9), y=("f", 3.0), w=("i", 1, 2, 3, 4))
c = example()
both = [("x", "i", [1], i64(7)), ("y", "f", [2], f32(8, 9))]
for batch in ([a], [a, b], [a, b, c], [c], []):
    parse(batch, sparse=[("y", "f"), ("z", "s"), ("w", "i"), ("e", "f")])
    parse(batch, dense=[("x", "i", [], np.asarray(np.int64(5)))])
    parse(batch, dense=[("x", "i", [1], i64(5)), ("z", "s", [2], s("p", "q"))], sparse=[("w", "i")])
    parse(batch, dense=[("w", "i", [None, 2], i64(-1).reshape(1)), ("y", "f", [None], f32(0.5)), ("z", "s", [None], s("pad"))])
    parse(batch, ragged=[("y", "f", tf.int32), ("w", "i", tf.int64), ("z", "s", tf.int64), ("e", "s", tf.int32)])
    parse(batch, ragged=[("y", "f", tf.int32)], sparse=[("w", "i")], dense=[("x", "i", [], np.asarray(np.int64(5)))])
    parse(batch, dense=both)
    parse(batch, dense=[("x", "i", [1], None)], names=["n%d" % i for i in range(len(batch))])
    parse(batch, dense=[("x", "f", [1], None)])
    parse(batch, sparse=[("x", "f")])
    parse(batch, ragged=[("x", "s", tf.int32)])
    parse(batch, dense=[("w", "i", [3], i64(0, 0, 0))])
    parse(batch, dense=[("w", "i", [2, 2], i64(0, 0, 0, 0).reshape(2, 2))])
    parse(batch, dense=[("w", "i", [None, 3], i64(0).reshape(1))])
    parse(batch, dense=[("w", "s", [None], s("x"))])
    parse(batch, dense=[("z", "s", [1], s("x"))])
    parse(batch, dense=[("z", "s", [3], s("x", "y", "z"))])
    parse(batch, dense=[("y", "f", [3], f32(1, 2, 3))])
    parse(batch, dense=[("e", "f", [1], None)])
    parse(batch, dense=[("e", "f", [1], f32(4))])
# Messages one after the other are one message; the last feature of a name counts.
for m in (a + b, b + a, a + c, example(x=("i", 1)) + example(x=None)):
    parse([m, a], dense=both, sparse=[("z", "s"), ("w", "i")], ragged=[("q", "i", tf.int64)])
    parse([m, a], dense=both, sparse=[("z", "s"), ("w", "i")])
# Lists that are not packed, fields that nobody knows, other orders.
field = lambda n, body: bytes([n << 3 | 2, len(body)]) + body
entry = lambda k, v: field(1, field(1, k) + field(2, v))
loose = field(1, entry(b"x", field(3, b"\x08\x05")) + entry(b"y", field(2, b"\x0d\0\0\x80\x3f\x0d\0\0\0\x40")) + entry(b"w", field(3, b"\x08\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")))
turned = field(1, field(1, field(2, field(3, b"\x0a\x01\x05")) + field(1, b"x")) + entry(b"y", field(2, b"\x0a\x08\0\0\x80\x3f\0\0\0\x40")))
unknown = b"\x10\x07" + loose + b"\x1a\x03abc" + b"\x25\0\0\0\0" + b"\x21" + bytes(8)
for m in (loose, turned, unknown):
    parse([m, a], dense=both, sparse=[("w", "i")])
for m in (b"bogus", b"\x0a", b"\x0a\x05\x0a\x07abc", b"\x0b"):
    parse([a, m], dense=both)
parse([a, field(1, entry(b"x", field(3, b"\x0a\x01\x85")))], dense=[("x", "i", [1], None)])
parse([a, field(1, entry(b"x", field(3, b"\x0a\x01\x85")))], sparse=[("x", "i")])
parse([a, field(1, entry(b"x", b"\x22\0"))], sparse=[("x", "i")])
parse([a], dense=[("x", "i", [1], None), ("x", "i", [1], None)])
# What does not fit together.
parse([a], dense=[("x", "i", [1], i64(1, 2))])
parse([a], dense=[("w", "i", [None], i64())])
plain = dict(sparse_keys=s("x"), dense_keys=s(), ragged_keys=s())
types0 = dict(dense_defaults=[], num_sparse=1, sparse_types=[tf.int64], ragged_value_types=[], ragged_split_types=[], dense_shapes=[])
run("ParseExampleV2", serialized=s(a, b), names=s("n"), **plain, **types0)
for keys in (dict(sparse_keys=s("q", "r")), dict(dense_keys=s("q")), dict(ragged_keys=s("q"))):
    run("ParseExampleV2", serialized=s(a), names=s(), **{**plain, **keys}, **types0)
run("ParseExampleV2", serialized=s(a).reshape(1, 1), names=s(), **plain, **types0)
# Large batches, in several portions.
large = [example(x=("i", i), y=("f", *rng.normal(size=2)), w=("i", *rng.integers(-(2**62), 2**62, size=i % 7)), z=("s", *[b"v" * (j * 40) for j in range(i % 4)])) for i in range(60)]
parse(large, dense=both, sparse=[("z", "s")], ragged=[("q", "i", tf.int64), ("z2", "s", tf.int32)])
parse(large, dense=[("w", "i", [None], i64(-5)), ("z", "s", [None], s("-"))], sparse=[("y", "f")])
parse(large[:9] + [b"bogus"] + large[10:], dense=both)
parse(large, dense=[("w", "i", [None, 2], i64(-5))])


def parse_sequence(examples, context=(), lists=(), names=None, lack=(), v2=True):
    """context and lists are (kind, key, type, shape or default)."""
    pick = lambda part, kind: [c for c in part if c[0] == kind]
    names = s() if names is None else s(*names)
    cd, cs, cr = (pick(context, k) for k in "dsr")
    ld, ls, lr = (pick(lists, k) for k in "dsr")
    defaults = [empty[c[2]] if c[4] is None else c[4] for c in cd]
    common = dict(
        context_dense_defaults=defaults, context_dense_shapes=[c[3] for c in cd], context_sparse_types=[types[c[2]] for c in cs],
        feature_list_dense_types=[types[c[2]] for c in ld], feature_list_dense_shapes=[c[3] for c in ld], feature_list_sparse_types=[types[c[2]] for c in ls])
    keys = lambda cs: [c[1] for c in cs]
    if not cr and not lr:
        run("ParseSequenceExample", serialized=s(*examples), debug_name=names, feature_list_dense_missing_assumed_empty=list(lack),
            context_sparse_keys=keys(cs), context_dense_keys=keys(cd), feature_list_sparse_keys=keys(ls), feature_list_dense_keys=keys(ld),
            Ncontext_sparse=len(cs), Ncontext_dense=len(cd), Nfeature_list_sparse=len(ls), Nfeature_list_dense=len(ld), **common)
        for e in examples[:2]:
            run("ParseSingleSequenceExample", serialized=one(e), debug_name=one("n0"), feature_list_dense_missing_assumed_empty=s(*lack),
                context_sparse_keys=each(*keys(cs)), context_dense_keys=each(*keys(cd)), feature_list_sparse_keys=each(*keys(ls)), feature_list_dense_keys=each(*keys(ld)), **common)
    # The splits of one example's ragged features are scalars that TensorFlow leaves as they are.
    for serialized, n in ((s(*examples), names),) if cr or lr else ((s(*examples), names), (one(examples[0]), names[:1])):
        run("ParseSequenceExampleV2", serialized=serialized, debug_name=n,
            context_sparse_keys=s(*keys(cs)), context_dense_keys=s(*keys(cd)), context_ragged_keys=s(*keys(cr)),
            feature_list_sparse_keys=s(*keys(ls)), feature_list_dense_keys=s(*keys(ld)), feature_list_ragged_keys=s(*keys(lr)),
            feature_list_dense_missing_assumed_empty=np.array([k in lack for k in keys(ld)], bool),
            Ncontext_sparse=len(cs), Nfeature_list_sparse=len(ls), Nfeature_list_dense=len(ld),
            context_ragged_value_types=[types[c[2]] for c in cr], context_ragged_split_types=[c[3] for c in cr],
            feature_list_ragged_value_types=[types[c[2]] for c in lr], feature_list_ragged_split_types=[c[3] for c in lr], **common)


p = sequence({"a": ("i", 4), "t": ("f", 1, 2)}, l=[("i", 1, 2), ("i", 3, 4)], v=[("s", b"x"), ("s",), ("s", b"y", b"z")], h=[("f", 1.5), None])
q = sequence({"a": ("i", 5)}, l=[("i", 9, 8)], v=[])
r = sequence({"t": ("f", 3)})
for batch in ([p], [p, q], [q, p], [p, q, r]):
    parse_sequence(batch, [("d", "a", "i", [], np.asarray(np.int64(7))), ("s", "t", "f")], [("s", "v", "s"), ("s", "h", "f")])
    parse_sequence(batch, [("d", "a", "i", [1], None)], [("d", "l", "i", [2])], lack=["l"], names=["n%d" % i for i in range(len(batch))])
    parse_sequence(batch, [], [("d", "l", "i", [2])])
    parse_sequence(batch, [], [("d", "l", "i", [3])], lack=["l"])
    parse_sequence(batch, [], [("d", "l", "f", [2])], lack=["l"])
    parse_sequence(batch, [], [("s", "l", "s")])
    parse_sequence(batch, [], [("d", "v", "s", [1])], lack=["v"])
    parse_sequence(batch, [("s", "a", "f")], [])
    parse_sequence(batch, [("d", "t", "f", [2], f32(0.5, 0.25))], [])
    parse_sequence(batch, [("r", "t", "f", tf.int32), ("r", "a", "i", tf.int64)], [("r", "v", "s", tf.int64), ("r", "h", "f", tf.int32), ("r", "l", "i", tf.int32)])
parse_sequence([p, b"bogus"], [], [("s", "l", "i")])
parse_sequence([p, q], [], [("s", "l", "i")], names=["n"])
parse_sequence([p], [("s", "a", "i"), ("d", "a", "i", [], None)], [])
parse_sequence([p], [("s", "a", "i"), ("r", "a", "i", tf.int64)], [])
parse_sequence([p], [], [("s", "l", "i"), ("d", "l", "i", [2])])

json = ['{"features": {"feature": {"a": {"int64List": {"value": ["1", 2]}}}}}', '{"features": {"feature": {"b": {"bytesList": {"value": ["aGk="]}}}}}', "{}", '{"features": {"feature": {"c": {"float_list": {"value": [1.5, "NaN", "Infinity"]}}}}}']
for j in json:
    run("DecodeJSONExample", json_examples=one(j))
run("DecodeJSONExample", json_examples=np.zeros((2, 0), object))

for dtype in (tf.float16, tf.float32, tf.float64, tf.int32, tf.uint16, tf.uint8, tf.int16, tf.int8, tf.int64, tf.complex64, tf.complex128, tf.bfloat16):
    for little in (True, False):
        for v in (s(bytes(range(16)), bytes(range(16, 32))), s(b"", b""), np.zeros((2, 0), object), s(b"abc"), s(b"ab", b"abcd")):
            run("DecodeRaw", bytes=v, out_type=dtype, little_endian=little)
        if dtype.is_complex or dtype == tf.float16:
            continue
        for n in (16, 8, 3, 0, -8, -1):
            for v in (s(bytes(range(1, 17)), b"abc", b"", bytes(range(40))), np.zeros((2, 0), object)):
                run("DecodePaddedRaw", input_bytes=v, fixed_length=np.int32(n), out_type=dtype, little_endian=little)
run("DecodeRaw", bytes=s(b"\0\1\1"), out_type=tf.bool)
run("DecodePaddedRaw", input_bytes=s(b"ab"), fixed_length=i32(4), out_type=tf.uint8)

text = b"hello world " * 50
for kind, packed in (("", text), ("ZLIB", zlib.compress(text)), ("GZIP", gzip.compress(text, mtime=0))):
    for v in (s(packed, packed), s(), s(b""), s(packed[:-9]), s(packed[:-1] + b"?"), s(packed + b"more, and still more"), s(b"xyz, not packed")):
        run("DecodeCompressed", bytes=v, compression_type=kind)
run("DecodeCompressed", bytes=s(gzip.compress(b"a", mtime=0) + gzip.compress(b"b", mtime=0)), compression_type="GZIP")
run("DecodeCompressed", bytes=s(b"xyz"), compression_type="ZSTD")
run("DecodeCompressed", bytes=s(b"\x28\xb5\x2f\xfd\x20\x03\x19\0\0abc"), compression_type="ZSTD")
run("DecodeCompressed", bytes=s(b"x"), compression_type="LZ4")

for v in (f32(1, 2).reshape(2, 1), i64(3), s("a", "bc"), np.asarray(True), np.zeros((0, 3), np.float32), np.array([1 + 2j]), np.asarray(np.uint8(200)), np.asarray("", object)):
    run("SerializeTensor", tensor=v)
    p = tf.make_tensor_proto(v, dtype=tf.string if v.dtype == object else None).SerializeToString()
    run("ParseTensor", serialized=one(p), out_type=tf.string if v.dtype == object else tf.as_dtype(v.dtype))
    run("ParseTensor", serialized=one(p), out_type=tf.int16)
    run("ParseTensor", serialized=s(p), out_type=tf.int16)
run("ParseTensor", serialized=one("bogus"), out_type=tf.int16)
run("ParseTensor", serialized=one(""), out_type=tf.int16)


def csv(records, defaults, **kw):
    run("DecodeCSV", records=s(*records), record_defaults=defaults, **kw)


d = [f32(), i32(), i64(), np.zeros(0), s()]
d1 = [f32(1.5), i32(-3), i64(2**40), np.array([0.25]), s("none")]
csv(["1,2,3,4,five", "-1.5,-2,-3,1e300, s "], d)
csv([",,,,", "1,2,3,4,5"], d1)
csv([",,,,"], d)
csv(["1,2,3,4,"], d1)
csv(["1,2,3,4"], d1)
csv(["1,2,3,4,5,6"], d1)
csv([""], d1)
csv(["", ""], [s("x")])
csv([], d1)
for v in ("1", " 2 ", "+3", "-4", "0x10", "1_0", "1.5", "1e3", "x", "inf", "-inf", "nan", "+nan", "1e", "99999999999", "99999999999999999999", "1e400", "1e-400", "--1", "+-1", ".5", "5.", "infinity", "1 2"):
    for t in (i32(), i64(), f32(), np.zeros(0)):
        csv([v], [t])
quoted = ['"a","b"', '"a""b","c"', '"a,b","c\n"', 'a"b,c', '"a"b,c', '"a', '"', '"a",', ',"a"', '"",""', 'a\nb,c', '\na,b', 'a,\rb', '"a" ,b', '"a"\n,b', 'a,b\n', '"a","b"\n', '""",b']
for v in quoted:
    csv([v], [s("x"), s("y")])
    csv([v], [s("x"), s("y")], use_quote_delim=False)
    csv([v.replace(",", "|")], [s("x"), s("y")], field_delim="|")
csv(["NA,1,NA", "2,,x"], [f32(-1), i32(-2), s("z")], na_value="NA")
csv(["NA"], [f32()], na_value="NA")
for cols in ([0, 2], [1], [3], [2, 4], [0, 5]):
    csv(["a,b,c,d", "e,f,g,", '"h",i,"j",k'], [s("x")] * len(cols), select_cols=cols)
csv(["a,b,c,"], [s("x"), s("y")], select_cols=[2, 3])
csv(["a,b"], [s("x"), s("y")], select_cols=[1])
csv(["a,b"], [s("x"), s("y")], select_cols=[1, 0])
csv(["a,b"], [s("x"), s("y")], select_cols=[-1, 0])
csv(["a,b"], [s("x"), s("y")], field_delim="||")
csv(["a,b"], [s("x", "y"), s("y")])
csv(["a,b"], [s("x").reshape(1, 1), s("y")])
run("DecodeCSV", records=s("1,2", "3,4").reshape(2, 1), record_defaults=[i32(), i32()])
run("DecodeCSV", records=one("1\t2"), record_defaults=[i32(), i32()], field_delim="\t")
arrayops.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "inputops.jsonl.gz"))
