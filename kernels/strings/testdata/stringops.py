"""Writes stringops.jsonl.gz: what TensorFlow makes of the string ops, for TestStringOpsLikeTensorFlow.

Run with a Python that has TensorFlow 2.21, in this folder. The cases have the form of arrayops.py's.
"""
import os
import arrayops
from arrayops import i32, np, rand, run, tf

arrayops.lines.clear()
s = np.array(["a", "bc", ""], object)
run("StringJoin", inputs=[s, np.asarray("-", object), s], separator="+")
run("StringJoin", inputs=[np.asarray("x", object), np.asarray("y", object)])
run("StringJoin", inputs=[s, s[:2]])
run("StringLength", input=np.array(["a", "é", ""], object))
run("StringLength", input=np.array(["a", "é", ""], object), unit="UTF8_CHAR")
run("StringStrip", input=np.array([" a ", "\tb\n", "c"], object))
for t in (tf.float32, tf.float64, tf.int32, tf.int64):
    for v in ("1", "-7", " 3 ", "1.5", "1e3", "x", "", "99999999999999999999", "1_0", "inf", "nan", "+4", "0x10"):
        run("StringToNumber", string_tensor=np.asarray(v, object), out_type=t)
run("ShardedFilename", basename=np.asarray("f", object), shard=np.asarray(np.int32(3)), num_shards=np.asarray(np.int32(12)))
for p in ("a.*", "b", "(", "a|ab"):
    run("StaticRegexFullMatch", input=np.array(["ab", "b", "ab\n"], object), pattern=p)
    run("RegexFullMatch", input=np.array(["ab", "b", "ab\n"], object), pattern=np.asarray(p, object))
for p, r in (("(a)(b)", r"\2\1$"), ("b", r"<\0>"), ("x*", "-"), ("a", "\\\\")):
    for g in (True, False):
        run("StaticRegexReplace", input=np.array(["abab", "b", ""], object), pattern=p, rewrite=r, replace_global=g)
        run("RegexReplace", input=np.array(["abab", "b", ""], object), pattern=np.asarray(p, object), rewrite=np.asarray(r, object), replace_global=g)
f = np.array([1.5, -2.25, 1e10, 1e-7, np.nan, np.inf, -np.inf, 0], np.float32)
for v in (f, f.astype(np.float64), f.astype(np.float16), f[:3].astype(np.complex64)):
    for kw in ({}, {"precision": 2}, {"scientific": True}, {"shortest": True}, {"shortest": True, "precision": 3}, {"width": 12}, {"width": 12, "fill": "0"}, {"width": 12, "fill": "-"}, {"fill": "+"}, {"scientific": True, "shortest": True}, {"fill": "x"}):
        run("AsString", input=v, **kw)
for v in (i32(1, -20, 300), np.array([1, 200], np.uint8), np.array([True, False]), s):
    for kw in ({}, {"width": 5}, {"width": 5, "fill": "0"}, {"width": 5, "fill": "-"}, {"precision": 2}, {"shortest": True}):
        run("AsString", input=v, **kw)
x = rand(2, 3, 4)
for summarize in (3, 1, -1, 0):
    for v in (x, np.arange(10), np.asarray(np.float32(0.1)), np.array(["a", 'b"c'], object), np.arange(27).reshape(3, 3, 3), np.array([True, False]), np.array([1.0, 1e20, 1 / 3], np.float64), np.zeros((0, 2), np.int32), np.array([1 + 2j])):
        run("StringFormat", inputs=[v], template="<{}>", summarize=summarize)
run("StringFormat", inputs=[x[0, 0], np.asarray(np.int32(4))], template="a %% b %%", placeholder="%%")
run("StringFormat", inputs=[x], template="{} {}")
arrayops.write(os.path.join(os.path.dirname(os.path.abspath(__file__)), "stringops.jsonl.gz"))
