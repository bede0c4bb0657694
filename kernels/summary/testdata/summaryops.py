"""Writes summaryops.jsonl.gz: what TensorFlow makes of the summary ops and of PNGs, for TestSummaryOpsLikeTensorFlow.

Run with a Python that has TensorFlow 2.21, in this folder. The cases have the form of arrayops.py's.
"""
import os
import arrayops
from arrayops import np, rand, run, tf

arrayops.lines.clear()


def s(*v):
    return np.array(v, object)


def one(v):
    return np.asarray(v, object)


rng = np.random.default_rng(5)
numbers = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, tf.bfloat16.as_numpy_dtype, np.float32, np.float64]
for t in numbers:
    v = np.array([0, 1, 2, 3, 100, 100, 7], t)
    run("ScalarSummary", tags=s("a", "b"), values=v[1:3])
    run("ScalarSummary", tags=one("x"), values=v[4])
    run("HistogramSummary", tag=one("h"), values=v.reshape(7, 1))
run("ScalarSummary", tags=one("x"), values=np.int64(2**53 + 1))
run("ScalarSummary", tags=one("x"), values=np.uint64(2**64 - 1))
run("ScalarSummary", tags=one("x"), values=np.float64(1e300))
run("ScalarSummary", tags=one("x"), values=np.float32(np.nan))
run("ScalarSummary", tags=s("x"), values=np.float32(1))
run("ScalarSummary", tags=s("x", "y"), values=np.zeros((2, 1), np.float32))
run("ScalarSummary", tags=np.zeros((0,), object), values=np.zeros((0,), np.float32))
normal = rng.normal(size=5000)
run("HistogramSummary", tag=one("h"), values=normal.astype(np.float32))
run("HistogramSummary", tag=one("h"), values=normal * 1e-13)
run("HistogramSummary", tag=one("h"), values=normal * 1e30)
run("HistogramSummary", tag=one("h"), values=np.array([1e-12, -1e-12, 1.1e-12, 0.0, -0.0, 1e308]))
run("HistogramSummary", tag=one("h"), values=np.zeros((0, 3), np.float32))
run("HistogramSummary", tag=one("h"), values=np.array([1, np.nan], np.float32))
run("HistogramSummary", tag=one("h"), values=np.array([1, np.inf, np.nan], np.float64))
run("HistogramSummary", tag=one("h"), values=np.array([-np.inf], np.float16))
run("HistogramSummary", tag=s("h"), values=np.float32(1))

audio = rng.uniform(-1.2, 1.2, (3, 7, 2)).astype(np.float32)
audio[0, 0] = [np.nan, np.inf]
audio[0, 1] = [1, -1]
for limit in (1, 2, 5):
    run("AudioSummaryV2", tag=one("a"), tensor=audio, sample_rate=np.float32(44100), max_outputs=limit)
for rate in (0.0, -1.0, 0.3, 1.5, 2.5, 4294967040.0, 4294967296.0, 1e12, np.nan):
    run("AudioSummaryV2", tag=one("a"), tensor=audio, sample_rate=np.float32(rate))
for shape in ((2,), (1, 2, 3, 4), (0, 3), (1, 0), (1, 0, 2), (1, 2, 0), (1, 0, 0), (1, 1, 65535), (1, 1, 65536)):
    run("AudioSummaryV2", tag=one("a"), tensor=np.zeros(shape, np.float32), sample_rate=np.float32(10))
run("AudioSummaryV2", tag=s("a"), tensor=audio, sample_rate=np.float32(10))
run("AudioSummaryV2", tag=one("a"), tensor=audio, sample_rate=np.ones(2, np.float32))

for depth in (1, 3, 4, 2):
    u = rng.integers(0, 256, (3, 4, 5, depth)).astype(np.uint8)
    for limit in (1, 2, 9):
        run("ImageSummary", tag=one("i"), tensor=u, max_images=limit)
    for t in (np.float16, np.float32, np.float64):
        f = rng.normal(size=(2, 4, 5, depth)).astype(t)
        run("ImageSummary", tag=one("i"), tensor=f)
        run("ImageSummary", tag=one("i"), tensor=np.abs(f))
        run("ImageSummary", tag=one("i"), tensor=np.abs(f) * t(1e-5))
        run("ImageSummary", tag=one("i"), tensor=f * t(1e-7))
        run("ImageSummary", tag=one("i"), tensor=-np.abs(f))
        f[0, 0, 0, 0], f[0, 1, 1, 0], f[1, 2, 3, 0] = np.nan, np.inf, -np.inf
        run("ImageSummary", tag=one("i"), tensor=f)
        run("ImageSummary", tag=one("i"), tensor=f, bad_color=tf.make_tensor_proto([1, 2], tf.uint8))
        run("ImageSummary", tag=one("i"), tensor=f * t(np.nan))
for shape in ((2, 3, 4), (0, 2, 2, 1), (1, 0, 2, 1), (1, 2, 0, 3), (1, 2, 2, 0), (1, 2, 2, 5)):
    run("ImageSummary", tag=one("i"), tensor=np.zeros(shape, np.float32))
run("ImageSummary", tag=s("i"), tensor=np.zeros((1, 1, 1, 1), np.uint8))
run("ImageSummary", tag=one("i"), tensor=np.zeros((1, 1, 1, 1), np.float32), bad_color=tf.make_tensor_proto([[1]], tf.uint8))

meta = tf.compat.v1.SummaryMetadata(display_name="d", summary_description="about", plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="p", content=b"c")).SerializeToString()
for v in (rand(2, 3), np.int64(7), s("a", "b"), np.array([True]), np.zeros((0,), np.float32), np.array([1 + 2j])):
    run("TensorSummary", tensor=v)
    run("TensorSummaryV2", tag=one("t"), tensor=v, serialized_summary_metadata=one(meta))
run("TensorSummaryV2", tag=one("t"), tensor=np.float32(1), serialized_summary_metadata=one(b""))
run("TensorSummaryV2", tag=one("t"), tensor=np.float32(1), serialized_summary_metadata=one(b"\xff\xff"))
run("TensorSummaryV2", tag=s("t"), tensor=np.float32(1), serialized_summary_metadata=one(meta))
run("TensorSummaryV2", tag=one("t"), tensor=np.float32(1), serialized_summary_metadata=s(meta))


def scalar(*tags):
    return tf.compat.v1.Summary(value=[tf.compat.v1.Summary.Value(tag=t, simple_value=1) for t in tags]).SerializeToString()


run("MergeSummary", inputs=[one(scalar("a")), s(scalar("b", "c"), scalar())])
run("MergeSummary", inputs=[one(scalar("a")), s(scalar("b", "a"))])
run("MergeSummary", inputs=[one(scalar("", "")), one(scalar(""))])
run("MergeSummary", inputs=[one(scalar("a")), one(b"nonsense")])

for t in (np.uint8, np.uint16):
    for depth in (1, 2, 3, 4, 5, 0):
        v = rng.integers(0, np.iinfo(t).max, (2, 3, 4, 5, depth), endpoint=True).astype(t)
        run("EncodePng", image=v)
        run("EncodePng", image=v[0, 0], compression=9)
    for shape in ((3, 3), (0, 2, 1), (2, 0, 1), (0, 2, 2, 1)):
        run("EncodePng", image=np.zeros(shape, t))
png = tf.compat.v1.Session(graph=tf.Graph())
with png.graph.as_default():
    file = png.run(tf.io.encode_png(rng.integers(0, 255, (3, 4, 3)).astype(np.uint8)))
for channels in (0, 1, 3, 4):
    run("DecodePng", contents=one(file), channels=channels)
    run("DecodePng", contents=one(file), channels=channels, dtype=tf.uint16)
    run("DecodeImage", contents=one(file), channels=channels, dtype=tf.float32)
for bad in (b"", b"nonsense", file[:20], file[:60], file[:-20], b"\x89PNG\r\n\x1a\n"):
    run("DecodePng", contents=one(bad))
run("DecodePng", contents=s(file))
arrayops.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "summaryops.jsonl.gz"))
