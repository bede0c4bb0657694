"""Writes what TensorFlow computes for many small cases of each op, for the tests of the kernels.

Usage: TF_ENABLE_ONEDNN_OPTS=0 python golden.py OUTPUT [OP_PREFIX...]

Families may have a script of their own, golden_FAMILY.py, that imports this one and writes golden_FAMILY.gz.

A record is: NodeDef, the inputs, the outputs (TensorProto each; counts before them), the error's
code and message. Numbers and lengths are little-endian uint32. The whole file is gzip-compressed.
"""
import gzip, os, struct, sys
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'
os.environ['CUDA_VISIBLE_DEVICES'] = ''
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
tf.compat.v1.disable_eager_execution()
R, rng = tf.raw_ops, np.random.default_rng(7)
half, bf = np.float16, tf.bfloat16.as_numpy_dtype
F = [np.float32, np.float64, half, bf]
SI = [np.int8, np.int16, np.int32, np.int64]
UI = [np.uint8, np.uint16, np.uint32, np.uint64]
C = [np.complex64, np.complex128]
out, only = gzip.GzipFile(sys.argv[1], 'wb', mtime=0), sys.argv[2:]
RENAMED = {('Select', 't'): 'x', ('Select', 'e'): 'y'}
count, missing = {}, set()
producer = None  # the version of graphs that an op was removed after
KNOWN = {('FusedPadConv2D', 1)}  # inputs whose shapes TensorFlow has to know

def num(n): out.write(struct.pack('<I', n))
def blob(b): num(len(b)); out.write(b)

def case(op, *inputs, **attrs):
    if only and not any(op.startswith(p) for p in only): return
    with tf.Graph().as_default() as g, tf.device('/cpu:0'):
        if producer: tf.graph_util.import_graph_def(tf.compat.v1.GraphDef(versions=dict(producer=producer)))
        arrays = [np.asarray(a) for a in inputs]
        ph = [tf.compat.v1.placeholder(tf.as_dtype(a.dtype) if a.dtype != object else tf.string, a.shape if (op, i) in KNOWN else None) for i, a in enumerate(arrays)]
        opdef = op_def_registry.get(op)
        kw, i = dict(attrs), 0
        for arg in opdef.input_arg:
            if arg.number_attr:
                lists = sum(1 for a in opdef.input_arg if a.number_attr)
                n = (len(ph) - len(opdef.input_arg) + lists) // lists
                kw[arg.name] = ph[i:i + n]; i += n
            elif arg.type_list_attr and arg.name == opdef.input_arg[-1].name:
                kw[arg.name] = ph[i:]
            else:
                kw[RENAMED.get((op, arg.name), {'reduction_indices': 'axis'}.get(arg.name, arg.name))] = ph[i]; i += 1
        try:
            res = getattr(R, op)(**kw)
        except Exception as e:
            missing.add(op); return
        node = (tf.nest.flatten(res)[0] if isinstance(res, (list, tuple)) else res).op
        code, msg, vals = 0, '', []
        try:
            with tf.compat.v1.Session(graph=g) as s:
                vals = s.run(list(node.outputs), {p: a.copy() for p, a in zip(ph, arrays)})  # some ops write to their inputs
        except tf.errors.OpError as e:
            code, msg = e.error_code, e.message.split('\n')[0]
            if 'No OpKernel was registered' in e.message: return
            if msg.startswith('Graph execution error'): msg = e.message.split('Node: ')[1].split('\n')[1]
    if op.startswith('FusedBatchNorm') and attrs.get('is_training') is False and 'Grad' not in op:
        vals[3:5] = [np.zeros_like(v) for v in vals[3:5]]  # TensorFlow leaves them undefined
    if attrs.get('compute_uv') is False or attrs.get('compute_v') is False:
        vals[1:] = [np.zeros_like(v) for v in vals[1:]]
    write(node.node_def, arrays, vals, code, msg, [t.dtype for t in node.outputs])

def proto(a, dtype=None):
    p = tf.make_tensor_proto(a)
    if dtype and dtype.is_quantized: p.dtype = dtype.as_datatype_enum  # fetched as plain integers
    return p.SerializeToString()

def write(node_def, inputs, outputs, code, msg, types=()):
    nd = tf.compat.v1.NodeDef(); nd.CopyFrom(node_def); del nd.input[:]
    count[nd.op] = count.get(nd.op, 0) + 1
    blob(nd.SerializeToString())
    num(len(inputs))
    for a in inputs: blob(proto(a))
    num(len(outputs))
    for i, a in enumerate(outputs): blob(proto(a, types[i] if types else None))
    num(code); blob(msg.encode())

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1e-8, 3.7, -3.7]

def arr(dtype, shape, lo=-4, hi=4, special=False):
    n = int(np.prod(shape, dtype=int))
    dtype = np.dtype(dtype)
    if dtype == bool: return rng.random(shape) < .5
    if dtype.kind in 'iu':
        if dtype.kind == 'u': lo = max(lo, 0)
        return rng.integers(lo, hi, size=shape).astype(dtype)
    if dtype.kind == 'c':
        return (rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape)).astype(dtype)
    v = rng.uniform(lo, hi, shape)
    if special and n:
        flat = v.reshape(-1)
        k = min(n, len(SPECIAL)); flat[rng.permutation(n)[:k]] = SPECIAL[:k]
    return v.astype(dtype)

PAIRS = [((), ()), ((3,), (3,)), ((2, 3), (3,)), ((4, 1), (1, 5)), ((2, 3, 4), (2, 1, 4)), ((), (5,)), ((6,), ()), ((0,), (1,)),
         ((2, 0), (2, 1)), ((2, 3, 1, 2), (3, 5, 1)), ((2, 1, 3, 1), (1, 4, 1, 5)), ((2, 140), (2, 1)), ((1, 130), (2, 130))]

def binaries(ops, types, a=(-4, 4), b=(-4, 4), **attrs):
    for op in ops:
        for t in types:
            for j, (s1, s2) in enumerate(PAIRS if t == types[0] else PAIRS[:3]):
                if np.dtype(t).kind in 'iu' and j > 2: break
                case(op, arr(t, s1, *a, special=True), arr(t, s2, *b, special=True), **attrs)
        case(op, arr(types[0], (2, 3)), arr(types[0], (4,)), **attrs)

def section_binary():
    binaries(['AddV2', 'Add', 'Sub', 'Mul'], F + C + SI + UI)
    binaries(['RealDiv', 'DivNoNan', 'MulNoNan', 'Xdivy'], F + C)
    binaries(['Div'], F + C + SI + UI, b=(1, 5))
    binaries(['FloorDiv', 'FloorMod'], F + SI + UI, b=(1, 5))
    binaries(['TruncateDiv'], SI + UI, b=(1, 5))
    for op in ['FloorDiv', 'FloorMod', 'TruncateDiv', 'TruncateMod']:
        case(op, np.array([7, -7, 7, -7, -128], np.int8 if op != 'TruncateMod' else np.int32), np.array([2, 2, -2, -2, -1], np.int8 if op != 'TruncateMod' else np.int32))
        if not op.startswith('Trunc'): case(op, np.array([7, -7], np.int32), np.array([2, 0], np.int32))
    for op in ['FloorDiv', 'FloorMod', 'TruncateMod', 'Mod', 'RealDiv', 'DivNoNan', 'MulNoNan', 'Xdivy', 'Atan2', 'Pow', 'Maximum', 'Minimum', 'Xlogy']:
        v = np.array(SPECIAL, np.float32)
        case(op, np.repeat(v, len(v)), np.tile(v, len(v)))
    binaries(['Mod', 'TruncateMod'], [np.float32, np.float64, np.int32, np.int64], b=(1, 5))
    binaries(['Maximum', 'Minimum'], F + SI + UI)
    binaries(['SquaredDifference'], F + [np.int32, np.int64] + C)
    binaries(['Pow'], F + C, a=(0.1, 3))
    binaries(['Pow'], [np.int32, np.int64], b=(0, 5))
    case('Pow', np.array([2, 3], np.int32), np.array([2, -1], np.int32))
    binaries(['Atan2'], F)
    binaries(['Xlogy', 'Xlog1py'], F + C, b=(0.1, 4))
    binaries(['NextAfter'], [np.float32, np.float64])
    binaries(['Less', 'LessEqual', 'Greater', 'GreaterEqual'], F + SI + UI)
    binaries(['Equal', 'NotEqual'], F + C + SI + UI + [bool])
    for op in ['Equal', 'NotEqual']:
        case(op, np.array(['a', 'b', ''], object), np.array('b', object))
        for strict in (True, False):
            case(op, arr(np.float32, (2, 3)), arr(np.float32, (4,)), incompatible_shape_error=strict)
    case('Add', np.array(['a', 'b'], object), np.array([['x'], ['y']], object))
    for op in ['LogicalAnd', 'LogicalOr']:
        for s1, s2 in PAIRS: case(op, arr(bool, s1), arr(bool, s2))
    binaries(['BitwiseAnd', 'BitwiseOr', 'BitwiseXor'], SI + UI)
    binaries(['LeftShift', 'RightShift'], SI + UI, b=(0, 7))
    for t in SI: 
        for op in ['LeftShift', 'RightShift']: case(op, np.array([-5, 5, 1, -1], t), np.array([-2, 70, 64, 100], t))
    for t in F + C:
        for op in ['TanhGrad', 'SigmoidGrad', 'SqrtGrad', 'RsqrtGrad', 'ReciprocalGrad', 'InvGrad']:
            dy = arr(t, (5, 4)); dy[0, 0] = 0
            y = arr(t, (5, 4), 0.1, 2); y[0, 0] = 0
            case(op, y, dy)
    for t in F: 
        case('Complex' , *(arr(t, s) for s in ((2, 3), (3,)))) if t in (np.float32,) else None
    case('Complex', arr(np.float64, (2,)), arr(np.float64, ()), Tout=tf.complex128)
    for t in [np.float32, np.float64, half, np.int32, np.int64, np.uint8, np.complex64]:
        case('ApproximateEqual', arr(t, (3, 4)), arr(t, (3, 4)), tolerance=1.5)
    case('ApproximateEqual', arr(np.float32, (3, 4)), arr(np.float32, (3, 1)), tolerance=1.5)

def unaries(ops, types, lo=-4, hi=4, special=True):
    for op in ops:
        for t in types:
            for s in ([(), (7,), (3, 5), (0, 2), (40,)] if t == types[0] else [(13,)]):
                kw = {}
                case(op, arr(t, s, lo, hi, special=special), **kw)

def section_unary():
    unaries(['Neg', 'Sign', 'Square'], F + SI + C)
    unaries(['Abs'], F + SI)
    unaries(['Round'], F)
    unaries(['Floor', 'Ceil', 'Rint', 'IsNan', 'IsInf', 'IsFinite'], F)
    unaries(['Exp', 'Expm1', 'Sin', 'Cos', 'Tan', 'Sinh', 'Cosh', 'Tanh', 'Sigmoid', 'Asinh', 'Atan', 'Reciprocal', 'Inv'], F + C)
    unaries(['Erf', 'Erfc', 'Lgamma', 'Digamma'], F[:1] + F[2:]); unaries(['Erf', 'Erfc', 'Lgamma', 'Digamma'], [np.float64], special=False)
    unaries(['Sqrt', 'Rsqrt', 'Log', 'Log1p'], F + C, 0.05, 9)
    unaries(['Asin', 'Acos', 'Atanh'], F + C, -.95, .95)
    unaries(['Acosh'], F + C, 1.05, 9)
    unaries(['Erfinv'], F[:2], -.95, .95)
    unaries(['Ndtri'], F[:2], .02, .95, special=False)
    unaries(['Invert', 'PopulationCount'], SI + UI)
    unaries(['LogicalNot'], [bool])
    unaries(['Conj', 'ComplexAbs', 'Real', 'Imag', 'Angle'], C[:1])
    for op in ['ComplexAbs', 'Real', 'Imag', 'Angle']: case(op, arr(C[1], (4,)), Tout=tf.float64)
    x = np.array([1e4, -1e4, 88, 89, -88, -104, 700, -745, 1e30, -1e30, 1e-30, 0.1], np.float32)
    for op in ['Exp', 'Tanh', 'Sigmoid', 'Softplus', 'Elu', 'Selu', 'Softsign', 'Log', 'Sqrt', 'Rsqrt', 'Expm1', 'Erf', 'Erfc', 'Sin', 'Cos']: case(op, x)
    unaries(['Relu', 'Relu6'], F + SI + UI, -9, 9)
    unaries(['Elu', 'Selu', 'Softplus', 'Softsign'], F, special=False)
    for t in F:
        case('LeakyRelu', arr(t, (4, 5)), alpha=0.3)
        case('LeakyReluGrad', arr(t, (4, 5)), arr(t, (4, 5)), alpha=0.3)
        for op in ['EluGrad', 'SeluGrad', 'SoftplusGrad', 'SoftsignGrad', 'ReluGrad', 'Relu6Grad']: case(op, arr(t, (4, 9), -8, 8), arr(t, (4, 9), -8, 8))
    case('ReluGrad', arr(np.float32, (2, 3)), arr(np.float32, (3,)))
    case('ReluGrad', arr(np.float32, (2, 30), special=True), arr(np.float32, (2, 30), special=True))

def section_cast():
    all_types = F + SI + UI + C + [bool]
    for a in all_types:
        for b in all_types:
            v = arr(a, (5,), -4, 120) if np.dtype(a).kind != 'b' else arr(bool, (5,))
            case('Cast', v, DstT=tf.as_dtype(b))
    for b in SI + UI:
        for v in [3e9, -3e9, 1e20, np.nan, np.inf, -1, -1.9, 300, -300, 70000, 1.5e19]:
            for a in F[:2]: case('Cast', np.array(v, a), DstT=tf.as_dtype(b))
    for a, b in [(np.float64, np.float32), (np.float64, half), (np.float32, half), (np.float32, bf), (np.float64, bf)]:
        case('Cast', arr(a, (9,)), DstT=tf.as_dtype(b), Truncate=True)
        case('Cast', np.array([1e-8, 6e-8, 65504, 65520, 1e9, -1e-7, 5.9e-8, 3e-5], a), DstT=tf.as_dtype(b))

AXES = [((), []), ((5,), [0]), ((5,), []), ((2, 3), [0]), ((2, 3), [1]), ((2, 3), [0, 1]), ((2, 3, 4), [1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [-1]),
        ((2, 3, 4, 5), [1, 3]), ((2, 3, 4, 5), [0, 2]), ((0,), [0]), ((3, 0), [1]), ((0, 3), [1]), ((2, 1, 3), [1]), ((3, 1), [1]), ((400, 3), [0]), ((3, 100), [1]), ((300,), [0])]

def section_reduce():
    for op, types in [('Sum', F + SI + UI + C), ('Mean', F + [np.int32, np.int64] + C), ('Prod', F + [np.int32, np.int64] + C), ('Max', F + SI + UI), ('Min', F + SI + UI), ('EuclideanNorm', F[:2] + C + [np.int32])]:
        for t in types:
            for i, (s, ax) in enumerate(AXES):
                if t != types[0] and i % 4 != 2: continue
                if np.dtype(t).kind == 'c' and 0 in s: continue
                if np.prod(s) > 200 and op == 'Prod': continue
                if np.dtype(t).kind in 'iu' and 0 in s and op == 'Mean': continue
                case(op, arr(t, s, 1 if op == 'Prod' else -4), np.array(ax, np.int32 if i % 2 else np.int64), keep_dims=bool(i % 2))
        case(op, arr(types[0], (2, 3)), np.array([2], np.int32))
        case(op, arr(types[0], (2, 3)), np.array([0, -2], np.int32))
        case(op, arr(types[0], (2, 3)), np.array(1, np.int32))
    for op in ['Max', 'Min', 'Sum']: case(op, np.array([[1, np.nan, 3], [np.inf, -np.inf, 2], [4, 5, 6]], np.float32), np.array([1], np.int32))
    for op in ['All', 'Any']:
        for i, (s, ax) in enumerate(AXES): case(op, rng.random(s) < (.9 if op == 'All' else .1), np.array(ax, np.int32), keep_dims=bool(i % 2))
    for op in ['ArgMax', 'ArgMin']:
        for t in F + SI + UI:
            for s, ax in ([((5,), 0), ((2, 3), 0), ((2, 3), 1), ((2, 3, 4), 1), ((2, 3, 4), -1)] if t == np.float32 else [((2, 3, 2), 1)]):
                for o in [tf.int32, tf.int64]: case(op, arr(t, s), np.array(ax, np.int32), output_type=o)
        case(op, np.array([1, np.nan, 2, np.nan], np.float32), np.array(0, np.int32))
        case(op, arr(bool, (3, 4)), np.array(1, np.int32))
        case(op, arr(np.float32, (3, 4)), np.array(2, np.int32))
        case(op, arr(np.float32, (3, 4)), np.array([1], np.int32))
        case(op, arr(np.float32, (3, 0)), np.array(1, np.int32))
        case(op, arr(np.float32, (0, 3)), np.array(1, np.int32))
    for t in F + SI: 
        case('AddN', arr(t, (2, 3))); case('AddN', arr(t, (2, 3)), arr(t, (2, 3))); case('AddN', *[arr(t, (4,)) for _ in range(5)])
    case('AddN', arr(np.float32, (2, 3)), arr(np.float32, (3,)))
    for t in F: case('L2Loss', arr(t, (3, 4))); case('L2Loss', arr(t, (0,)))

def section_matmul():
    for t in F + C + [np.int32, np.int64]:
        for ta in (False, True):
            for tb in (False, True):
                a, b = (5, 4) if ta else (4, 5), (3, 5) if tb else (5, 3)
                case('MatMul', arr(t, a), arr(t, b), transpose_a=ta, transpose_b=tb)
                for op in ['BatchMatMul', 'BatchMatMulV2']:
                    case(op, arr(t, (2, 3) + a), arr(t, (2, 3) + b), adj_x=ta, adj_y=tb)
                case('BatchMatMulV2', arr(t, (2, 1) + a), arr(t, (3,) + b), adj_x=ta, adj_y=tb)
                case('BatchMatMulV2', arr(t, a), arr(t, (2,) + b), adj_x=ta, adj_y=tb)
    for a, b in [((2, 3), (4, 5)), ((2,), (2, 3)), ((2, 3, 4), (2, 3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((3,), (3,))]:
        case('MatMul', arr(np.float32, a), arr(np.float32, b))
    for a, b in [((2, 2, 3), (3, 3, 2)), ((2, 3), (3,)), ((3, 2, 3), (2, 3, 2)), ((2, 2, 3), (2, 4, 2)), ((2, 2, 3), (2, 3, 2))]:
        case('BatchMatMul', arr(np.float32, a), arr(np.float32, b)); case('BatchMatMulV2', arr(np.float32, a), arr(np.float32, b))
    for t in F + [np.int32]:
        for s in [(2, 3), (2, 4, 4, 3), (2, 5, 3)]:
            case('BiasAdd', arr(t, s), arr(t, (3,))); case('BiasAddV1', arr(t, s), arr(t, (3,))); case('BiasAddGrad', arr(t, s))
            case('BiasAdd', arr(t, s), arr(t, (s[1],)), data_format='NCHW')
            if len(s) > 2: case('BiasAddGrad', arr(t, s), data_format='NCHW')
    case('BiasAdd', arr(np.float32, (2, 3)), arr(np.float32, (4,)))
    case('BiasAdd', arr(np.float32, (3,)), arr(np.float32, (3,)))
    case('BiasAdd', arr(np.float32, (2, 3)), arr(np.float32, (1, 3)))
    case('BiasAddGrad', arr(np.float32, (3,)))

def section_select():
    for op in ['Select', 'SelectV2']:
        for t in F + SI + UI + C + [bool]: case(op, arr(bool, (3, 4)), arr(t, (3, 4)), arr(t, (3, 4)))
        case(op, np.array([True, False]), np.array(['a', 'b'], object), np.array(['c', 'd'], object))
        for sc, sa, sb in [((), (2, 3), (2, 3)), ((2,), (2, 3), (2, 3)), ((3,), (2, 3), (2, 3)), ((2, 1), (2, 3), (2, 3)), ((2, 3), (2, 3), (3,)), ((2, 3), (), ()), ((2, 1), (1, 3), ()), ((4,), (2, 3), (2, 3)), ((0,), (1,), (1,))]:
            case(op, arr(bool, sc), arr(np.float32, sa), arr(np.float32, sb))
    for t in F + [np.int32, np.int64]:
        case('ClipByValue', arr(t, (3, 4)), np.array(-1, t), np.array(2, t))
        case('ClipByValue', arr(t, (3, 4)), arr(t, (3, 4), -4, -1), arr(t, (3, 4), 1, 4))
    case('ClipByValue', arr(np.float32, (3, 4)), arr(np.float32, (4,)), np.float32(1))
    for op in ['Cumsum', 'Cumprod']:
        for t in F + C + [np.int32, np.int64, np.uint8]:
            for e in (False, True):
                for r in (False, True): case(op, arr(t, (2, 3, 4)), np.array(1, np.int32), exclusive=e, reverse=r)
        case(op, arr(np.float32, (2, 3)), np.array(-1, np.int64)); case(op, arr(np.float32, (2, 3)), np.array(2, np.int32)); case(op, arr(np.float32, (2, 3)), np.array([1], np.int32)); case(op, arr(np.float32, (0, 3)), np.array(0, np.int32))

def section_nn():
    for t in F:
        for s in [(3, 5), (2, 3, 4), (6,), (0, 3)]: case('Softmax', arr(t, s)); case('LogSoftmax', arr(t, s))
        for i in (np.int32, np.int64):
            case('SparseSoftmaxCrossEntropyWithLogits', arr(t, (4, 11)), np.array([0, 3, 10, 5], i))
            case('SparseSoftmaxCrossEntropyWithLogits', arr(t, (3, 11)), np.array([0, 11, 2], i))
            case('SparseSoftmaxCrossEntropyWithLogits', arr(t, (3, 11)), np.array([0, 11, -2], i))
        for s1, s2 in [((4, 5), (4, 5)), ((4, 5), (1, 5)), ((1, 5), (4, 5)), ((4, 1), (4, 5)), ((4, 5), (3, 5)), ((5,), (5,)), ((0, 5), (0, 5))]:
            case('SoftmaxCrossEntropyWithLogits', arr(t, s1), np.abs(arr(t, s2)))
    case('Softmax', np.float32(1)); case('Softmax', np.array([[1e4, 0, -1e4], [np.inf, 0, 1], [-np.inf, 0, 1]], np.float32))
    case('SparseSoftmaxCrossEntropyWithLogits', arr(np.float32, (4,)), np.array([0], np.int32))
    case('SparseSoftmaxCrossEntropyWithLogits', arr(np.float32, (4, 2)), np.array([[0]], np.int32))
    case('SparseSoftmaxCrossEntropyWithLogits', arr(np.float32, (4, 2)), np.array([0, 1], np.int32))
    case('SparseSoftmaxCrossEntropyWithLogits', arr(np.float32, (4, 0)), np.array([0, 1, 0, 0], np.int32))
    for t in [np.float32, np.float64, half]:
        for (n, h, w, c), (kh, kw, o), st, pad, dil in [((2, 6, 5, 3), (3, 3, 4), (1, 1), 'SAME', (1, 1)), ((1, 7, 7, 2), (3, 2, 3), (2, 2), 'VALID', (1, 1)), ((2, 8, 7, 1), (5, 5, 2), (2, 3), 'SAME', (1, 1)),
            ((2, 5, 5, 4), (1, 1, 3), (1, 1), 'VALID', (1, 1)), ((2, 5, 5, 4), (1, 1, 3), (2, 2), 'SAME', (1, 1)), ((1, 9, 9, 2), (3, 3, 2), (1, 1), 'VALID', (2, 2)), ((1, 9, 9, 2), (3, 3, 2), (1, 1), 'SAME', (2, 3)), ((1, 4, 4, 2), (2, 2, 2), (3, 3), 'VALID', (1, 1)), ((1, 3, 3, 1), (5, 5, 1), (1, 1), 'SAME', (1, 1))]:
            x, f = arr(t, (n, h, w, c)), arr(t, (kh, kw, c, o))
            kw_ = dict(strides=[1, *st, 1], padding=pad, dilations=[1, *dil, 1])
            case('Conv2D', x, f, **kw_)
            eh, ew = (kh - 1) * dil[0] + 1, (kw - 1) * dil[1] + 1
            oh, ow = ((h + st[0] - 1) // st[0], (w + st[1] - 1) // st[1]) if pad == 'SAME' else ((h - eh) // st[0] + 1, (w - ew) // st[1] + 1)
            dy = arr(t, (n, oh, ow, o))
            if dil == (1, 1):
                case('Conv2DBackpropInput', np.array(x.shape, np.int32), f, dy, **kw_)
                case('Conv2DBackpropFilter', x, np.array(f.shape, np.int32), dy, **kw_)
        case('Conv2D', arr(t, (1, 5, 5, 2)), arr(t, (3, 3, 2, 2)), strides=[1, 1, 2, 1], padding='EXPLICIT', explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
        case('Conv2DBackpropInput', np.array([1, 5, 5, 2], np.int32), arr(t, (3, 3, 2, 2)), arr(t, (1, 6, 2, 2)), strides=[1, 1, 2, 1], padding='EXPLICIT', explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
        case('Conv2DBackpropFilter', arr(t, (1, 5, 5, 2)), np.array([3, 3, 2, 2], np.int32), arr(t, (1, 6, 2, 2)), strides=[1, 1, 2, 1], padding='EXPLICIT', explicit_paddings=[0, 0, 1, 2, 0, 1, 0, 0])
        case('Conv2D', arr(t, (1, 5, 5, 4)), arr(t, (3, 3, 2, 6)), strides=[1, 1, 1, 1], padding='SAME')
    f32 = np.float32
    case('Conv2D', arr(f32, (1, 2, 2, 1)), arr(f32, (1, 1, 2, 1)), strides=[1, 1, 1, 1], padding='VALID')
    case('Conv2D', arr(f32, (1, 2, 2, 1)), arr(f32, (5, 5, 1, 1)), strides=[1, 1, 1, 1], padding='VALID')
    case('Conv2D', arr(f32, (2, 2, 1)), arr(f32, (5, 5, 1, 1)), strides=[1, 1, 1, 1], padding='VALID')
    case('Conv2D', arr(f32, (0, 4, 4, 1)), arr(f32, (3, 3, 1, 2)), strides=[1, 1, 1, 1], padding='SAME')
    for t in F + SI[1:] + [np.uint8]:
        for (n, h, w, c), k, st, pad in [((2, 6, 5, 3), (2, 2), (2, 2), 'SAME'), ((2, 6, 5, 3), (3, 2), (1, 2), 'VALID'), ((1, 5, 5, 1), (3, 3), (2, 2), 'SAME'), ((1, 4, 4, 40), (2, 2), (2, 2), 'VALID')]:
            x = arr(t, (n, h, w, c)); kw_ = dict(ksize=[1, *k, 1], strides=[1, *st, 1], padding=pad)
            case('MaxPool', x, **kw_)
            case('MaxPoolV2', x, np.array([1, *k, 1], np.int32), np.array([1, *st, 1], np.int32), padding=pad)
            oh, ow = ((h + st[0] - 1) // st[0], (w + st[1] - 1) // st[1]) if pad == 'SAME' else ((h - k[0]) // st[0] + 1, (w - k[1]) // st[1] + 1)
            if np.dtype(t).kind not in 'iu':
                x = x.astype(np.float64); y = np.full((n, oh, ow, c), -1e9)
                p0, p1 = (max(0, (oh - 1) * st[0] + k[0] - h) // 2, max(0, (ow - 1) * st[1] + k[1] - w) // 2) if pad == 'SAME' else (0, 0)
                for a in range(oh):
                    for b in range(ow): y[:, a, b] = x[:, max(0, a * st[0] - p0):a * st[0] - p0 + k[0], max(0, b * st[1] - p1):b * st[1] - p1 + k[1]].max((1, 2))
                case('MaxPoolGrad', x.astype(t), y.astype(t), arr(t, y.shape), **kw_)
                case('AvgPool', x.astype(t), **kw_)
                case('AvgPoolGrad', np.array([n, h, w, c], np.int32), arr(t, y.shape), **kw_)
    case('MaxPool', arr(f32, (1, 2, 2, 4)), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding='VALID')
    case('MaxPool', arr(f32, (1, 2, 2, 3)), ksize=[1, 1, 1, 2], strides=[1, 1, 1, 2], padding='VALID')
    case('MaxPool', arr(f32, (1, 2, 2, 3)), ksize=[2, 1, 1, 1], strides=[1, 1, 1, 1], padding='VALID')
    case('AvgPool', arr(f32, (1, 2, 2, 3)), ksize=[1, 5, 5, 1], strides=[1, 1, 1, 1], padding='VALID')

def section_random():
    for t in [tf.float32, tf.float64, tf.float16, tf.bfloat16]:
        for shape in [[1], [3], [2, 5], [67], [0]]:
            for seeds in [(1, 2), (87654321, 0), (0, 5), (-3, 1 << 40)]:
                for op in ['RandomUniform', 'RandomStandardNormal', 'TruncatedNormal']:
                    case(op, np.array(shape, np.int32), dtype=t, seed=seeds[0], seed2=seeds[1])
            for op in ['StatelessRandomUniform', 'StatelessRandomNormal', 'StatelessTruncatedNormal']:
                case(op, np.array(shape, np.int32), np.array([3, -4], np.int32), dtype=t)
                case(op + 'V2', np.array(shape, np.int32), np.array([123456789012345], np.uint64), np.array([77, 1 << 50], np.uint64), np.array(1, np.int32), dtype=t)
    for t in [np.int32, np.int64]:
        for lo, hi in [(0, 10), (-5, 1000), (3, 3)]:
            case('RandomUniformInt', np.array([9], np.int32), np.array(lo, t), np.array(hi, t), seed=4, seed2=5)
            case('StatelessRandomUniformInt', np.array([9], np.int32), np.array([1, 2], np.int64), np.array(lo, t), np.array(hi, t))
    for t in [tf.int32, tf.int64, tf.uint32, tf.uint64]: case('StatelessRandomUniformFullInt', np.array([7], np.int32), np.array([1, 2], np.int64), dtype=t)
    for x in [np.arange(10, dtype=np.int32), np.arange(12.).reshape(4, 3), np.array(['a', 'b', 'c', 'd'], object), np.float32(3), np.arange(1)]: case('RandomShuffle', x, seed=3, seed2=9)
    case('Multinomial', arr(np.float32, (1, 6)), np.array(8, np.int32), seed=1, seed2=2)
    case('Multinomial', arr(np.float64, (1, 6)), np.array(5, np.int32), seed=1, seed2=2, output_dtype=tf.int32)
    case('StatelessRandomGetKeyCounter', np.array([5, 6], np.int64)); case('StatelessRandomGetKeyCounterAlg', np.array([5, 6], np.int32))
    case('RandomUniform', np.array([-1], np.int32), dtype=tf.float32, seed=1)
    case('RandomUniform', np.array([[1]], np.int32), dtype=tf.float32, seed=1)
    case('StatelessRandomUniform', np.array([2], np.int32), np.array([3], np.int32), dtype=tf.float32)

def section_more():
    f32 = np.float32
    for t in F + [np.int32, np.uint8]:
        for k in (1, 3, 5): case('TopKV2', arr(t, (3, 5)), np.array(k, np.int32)); 
        case('TopK', arr(t, (3, 5)), k=2)
    case('TopKV2', np.array([3, 1, 3, 2, 3, 1], f32), np.array(4, np.int32)); case('TopKV2', arr(f32, (2, 60)), np.array(40, np.int32)); case('TopKV2', arr(f32, (4,)), np.array(5, np.int32)); case('TopKV2', arr(f32, (4,)), np.array(-1, np.int32)); case('TopKV2', f32(1), np.array(1, np.int32)); case('TopKV2', arr(f32, (4,)), np.array(0, np.int32)); case('TopKV2', arr(f32, (4,)), np.array([1], np.int32))
    for t in (np.int32, np.int64):
        p = arr(f32, (6, 5)); p[4, 1] = np.nan; p[5, 2] = np.inf
        case('InTopKV2', p, np.array([0, 1, 4, 7, 2, 0], t), np.array(2, t)); case('InTopK', p, np.array([0, 1, 4, -7, 2, 0], t), k=3)
    case('InTopK', arr(f32, (3, 2)), np.array([0, 1], np.int32), k=1)
    for t in [f32, half, bf]:
        for a in [dict(), dict(depth_radius=2, bias=2., alpha=.5, beta=.75), dict(depth_radius=1, beta=1.)]:
            case('LRN', arr(t, (2, 2, 3, 7)), **a)
            case('LRNGrad', arr(t, (2, 2, 3, 7)), arr(t, (2, 2, 3, 7)), arr(t, (2, 2, 3, 7)), **a)
    case('LRN', arr(f32, (2, 3)))
    for op in ['FusedBatchNorm', 'FusedBatchNormV2', 'FusedBatchNormV3']:
        for t in ([f32] if op == 'FusedBatchNorm' else [f32, half, bf]):
            for tr in (True, False):
                for avg in (1., .3):
                    if not tr and avg != 1.: continue
                    m = [] if tr and avg == 1. else 5
                    case(op, arr(t, (2, 3, 4, 5)), arr(f32, (5,)), arr(f32, (5,)), arr(f32, (5,) if m else (0,)), arr(f32, (5,) if m else (0,), .1, 2), is_training=tr, exponential_avg_factor=avg, epsilon=.01)
            case(op, arr(t, (2, 5, 3, 4)), arr(f32, (5,)), arr(f32, (5,)), arr(f32, (0,)), arr(f32, (0,)), is_training=True, data_format='NCHW', epsilon=.01)
            g = {'FusedBatchNorm': 'FusedBatchNormGrad', 'FusedBatchNormV2': 'FusedBatchNormGradV2', 'FusedBatchNormV3': 'FusedBatchNormGradV3'}[op]
            for tr in (True, False):
                extra = [arr(f32, (5,))] if g.endswith('V3') else []
                case(g, arr(t, (2, 3, 4, 5)), arr(t, (2, 3, 4, 5)), arr(f32, (5,)), arr(f32, (5,)), arr(f32, (5,), .1, 2), *extra, is_training=tr, epsilon=.01)
    case('FusedBatchNorm', arr(f32, (2, 3, 4, 5)), arr(f32, (4,)), arr(f32, (5,)), arr(f32, (0,)), arr(f32, (0,)))
    case('FusedBatchNormV3', arr(f32, (2, 2, 3, 4, 5)), arr(f32, (5,)), arr(f32, (5,)), arr(f32, (0,)), arr(f32, (0,)), data_format='NDHWC')
    for t in [f32, np.float64, half]:
        for (n, h, w, c), (kh, kw, m), st, pad in [((2, 6, 5, 3), (3, 3, 2), 1, 'SAME'), ((1, 7, 7, 4), (3, 2, 1), 2, 'VALID'), ((2, 5, 5, 1), (3, 3, 3), 2, 'SAME')]:
            kw_ = dict(strides=[1, st, st, 1], padding=pad)
            oh, ow = ((h + st - 1) // st, (w + st - 1) // st) if pad == 'SAME' else ((h - kh) // st + 1, (w - kw) // st + 1)
            x, f, dy = arr(t, (n, h, w, c)), arr(t, (kh, kw, c, m)), arr(t, (n, oh, ow, c * m))
            case('DepthwiseConv2dNative', x, f, **kw_)
            case('DepthwiseConv2dNativeBackpropInput', np.array(x.shape, np.int32), f, dy, **kw_)
            case('DepthwiseConv2dNativeBackpropFilter', x, np.array(f.shape, np.int32), dy, **kw_)
    for t in F + SI + UI + C:
        for i in (np.int32, np.int64):
            ids = np.array([0, 0, 2, 3, 3], i)
            for op in ['SegmentSum', 'SegmentProd'] + ([] if np.dtype(t).kind == 'c' else ['SegmentMax', 'SegmentMin', 'SegmentMean']): case(op, arr(t, (5, 2), 1), ids)
            for op in ['UnsortedSegmentSum', 'UnsortedSegmentProd'] + ([] if np.dtype(t).kind == 'c' else ['UnsortedSegmentMax', 'UnsortedSegmentMin']): case(op, arr(t, (5, 2), 1), np.array([3, 0, -1, 3, 1], i), np.array(5, np.int32))
    case('SegmentSum', arr(f32, (3,)), np.array([0, 2, 1], np.int32)); case('SegmentSum', arr(f32, (3,)), np.array([0, 1], np.int32)); case('SegmentSum', arr(f32, (2,)), np.array([-1, 0], np.int32)); case('SegmentSum', arr(f32, (0, 2)), np.array([], np.int32)); case('SegmentSum', arr(f32, (2,)), np.array([[0, 1]], np.int32))
    case('UnsortedSegmentSum', arr(f32, (2, 3, 2)), np.array([[0, 1, 1], [2, 0, 0]], np.int32), np.array(3, np.int32)); case('UnsortedSegmentSum', arr(f32, (2, 3)), np.array([[0, 1, 1], [2, 0, 5]], np.int32), np.array(3, np.int32)); case('UnsortedSegmentSum', arr(f32, (2,)), np.array([0, 1, 1], np.int32), np.array(3, np.int32)); case('UnsortedSegmentSum', arr(f32, (2,)), np.array([0, 1], np.int32), np.array(-3, np.int32))

def section_einsum():
    eqs = [('ij,jk->ik', (2, 3), (3, 4)), ('ij,kj->ki', (2, 3), (4, 3)), ('bij,bjk->bik', (2, 3, 4), (2, 4, 5)), ('...ij,...jk->...ik', (2, 1, 3, 4), (5, 4, 2)), ('ij->ji', (2, 3)), ('ii->i', (3, 3)), ('ii->', (3, 3)),
           ('i->ii', (3,)), ('ij->', (2, 3)), ('ijk->k', (2, 3, 4)), ('i,j->ij', (3,), (4,)), ('i,i->', (3,), (3,)), ('iij,jk->ik', (2, 2, 3), (3, 4)), ('abc,cd->ab', (2, 3, 4), (4, 5)), ('...->...', (2, 3)), ('a...,b...->ab...', (2, 3), (4, 3)), ('i,->i', (3,), ()), ('...i,ij->...j', (2, 3, 4), (4, 2)), ('b...d,bd->b...', (2, 3, 4), (2, 4)), ('ij,jk->ik', (0, 3), (3, 4)), ('ij,jk->ik', (2, 0), (0, 4))]
    for eq, *shapes in eqs:
        for t in [np.float32] + ([np.float64, half, np.int32, np.complex64] if len(eq) < 10 else []):
            case('Einsum', *[arr(t, s) for s in shapes], equation=eq)
    f = np.float32
    for eq, *shapes in [('ij,jk->ik', (2, 3), (4, 4)), ('ij,jk->ik', (2, 3), (4,)), ('ii->i', (2, 3)), ('...ij->...', (3,))]: case('Einsum', *[arr(f, s) for s in shapes], equation=eq)

def section_linalg():
    T = [np.float32, np.float64] + C
    def sq(t, *s): return arr(t, s, -1, 1) + 3 * np.eye(s[-1]).astype(t)
    def pd(t, *s):
        a = arr(t, s, -1, 1); return (a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(s[-1])).astype(t)
    for t in T:
        for s in [(3, 3), (2, 4, 4), (1, 1), (0, 0), (0, 2, 2)]:
            b = s[:-1] + (2,)
            case('Cholesky', pd(t, *s)); case('MatrixDeterminant', sq(t, *s)); case('LogMatrixDeterminant', sq(t, *s))
            for adj in (False, True):
                case('MatrixInverse', sq(t, *s), adjoint=adj); case('MatrixSolve', sq(t, *s), arr(t, b), adjoint=adj)
                for lower in (False, True): case('MatrixTriangularSolve', sq(t, *s), arr(t, b), lower=lower, adjoint=adj)
            if 0 not in s: case('Svd', arr(t, s), compute_uv=False); case('SelfAdjointEigV2', pd(t, *s), compute_v=False); case('Lu', sq(t, *s)); case('Qr', arr(t, s))
        case('MatrixTriangularSolve', sq(t, 3, 3), arr(t, (2, 3, 2)))
        case('Svd', arr(t, (2, 5, 3)), compute_uv=False); case('Qr', arr(t, (5, 3))); case('Qr', arr(t, (5, 3)), full_matrices=True); case('Qr', arr(t, (3, 5)))
        for m, n in ((5, 3), (3, 5), (3, 3)):
            for fast in (True, False): case('MatrixSolveLs', sq(t, m, m)[:, :n] if n <= m else np.concatenate([sq(t, m, m), arr(t, (m, n - m))], 1), arr(t, (m, 2)), np.array(.1 if fast else 0., np.float64), fast=fast)
        for piv in (True, False):
            for n in (1, 2, 5):
                d = arr(t, (3, n)); d[1] += 9
                case('TridiagonalSolve', d, arr(t, (n, 2)), partial_pivoting=piv)
        d = arr(t, (3, 6)); case('TridiagonalSolve', d, arr(t, (6, 2)))
        case('TridiagonalMatMul', arr(t, (1, 5)), arr(t, (1, 5)), arr(t, (1, 5)), arr(t, (5, 3)))
        for lower in (False, True):
            for adj in (False, True):
                bnd = arr(t, (3, 5)); bnd[0 if lower else 2] += 6
                case('BandedTriangularSolve', bnd, arr(t, (5, 2)), lower=lower, adjoint=adj)
    f = np.float32
    case('Cholesky', arr(f, (2, 3))); case('Cholesky', arr(f, (2,)))
    case('MatrixInverse', np.zeros((2, 2), f)); case('MatrixSolve', np.zeros((2, 2), f), arr(f, (2, 1))); case('MatrixSolve', arr(f, (2, 3)), arr(f, (2, 1))); case('MatrixSolve', arr(f, (2, 2)), arr(f, (3, 1))); case('MatrixSolve', arr(f, (2, 2)), arr(f, (1, 2, 2)))
    case('MatrixDeterminant', np.zeros((2, 2), f)); case('LogMatrixDeterminant', np.zeros((2, 2), f)); case('Lu', np.zeros((2, 2), f)); case('MatrixDeterminant', arr(f, (2, 3)))
    case('TridiagonalSolve', np.zeros((3, 3), f), arr(f, (3, 1))); case('TridiagonalSolve', np.zeros((2, 3), f), arr(f, (3, 1))); case('TridiagonalSolve', np.zeros((3, 3), f), arr(f, (2, 1))); case('TridiagonalSolve', np.zeros((3, 1), f), arr(f, (1, 1)))

def section_bincount():
    for t in F + SI + UI + C:
        for i in (np.int32, np.int64):
            case('DenseBincount', np.array([1, 2, 2, 5, 9], i), np.array(6, i), arr(t, (5,))); case('DenseBincount', np.array([[1, 2, 2], [0, 1, 9]], i), np.array(4, i), arr(t, (0,)), binary_output=i == np.int64)
            case('RaggedBincount', np.array([0, 2, 2, 5], np.int64), np.array([1, 2, 2, 5, 1], i), np.array(4, i), arr(t, (5,)))
            case('SparseBincount', np.array([[0, 1], [1, 0], [1, 3]], np.int64), np.array([1, 2, 2], i), np.array([3, 4], np.int64), np.array(4, i), arr(t, (3,)), binary_output=i == np.int64)
            case('SparseBincount', np.array([[0], [2]], np.int64), np.array([1, 2], i), np.array([4], np.int64), np.array(4, i), arr(t, (0,)))
        case('Bincount', np.array([1, 2, 2, 5, 9], np.int32), np.array(6, np.int32), arr(t, (5,)))
    f, i = np.float32, np.int32
    case('DenseBincount', np.array([1, -2], i), np.array(6, i), arr(f, (0,))); case('DenseBincount', np.array([1, 2], i), np.array(-6, i), arr(f, (0,))); case('DenseBincount', np.array([1, 2], i), np.array(6, i), arr(f, (3,))); case('DenseBincount', np.array([1, 2], i), np.array([6], i), arr(f, (0,))); case('DenseBincount', np.ones((1, 1, 2), i), np.array(6, i), arr(f, (0,)))
    case('DenseBincount', np.array([[1, -2]], i), np.array(6, i), arr(f, (0,))); case('Bincount', np.array([1, -2], i), np.array(6, i), arr(f, (0,))); case('RaggedBincount', np.array([1, 2], np.int64), np.array([1, 2], i), np.array(4, i), arr(f, (0,)))

def section_special():
    for op in ['BesselI0', 'BesselI0e', 'BesselI1', 'BesselI1e', 'BesselJ0', 'BesselJ1', 'Dawsn', 'FresnelSin', 'FresnelCos']:
        for t in [np.float32, np.float64]: case(op, np.concatenate([arr(t, (30,), -12, 12), np.array([0, 1e-3, 30, 60, -50], t)]))
    for op in ['BesselK0', 'BesselK0e', 'BesselK1', 'BesselK1e', 'BesselY0', 'BesselY1', 'Spence', 'Expint']:
        for t in [np.float32, np.float64]: case(op, np.concatenate([arr(t, (30,), .05, 12), np.array([1e-3, 30, 60, 1, 2], t)]))
    for t in [half]:
        for op in ['BesselI0e', 'BesselI1e', 'Dawsn']: case(op, arr(t, (9,)))
    for t in [np.float32, np.float64]:
        for op in ['Igamma', 'Igammac']: case(op, arr(t, (40,), .1, 9), arr(t, (40,), .1, 9)); case(op, np.array([0, 1, -1, 2, 0], t), np.array([1, 0, 1, -1, 0], t))
        case('Zeta', arr(t, (30,), 1.1, 6), arr(t, (30,), .2, 9)); case('Polygamma', np.array([0, 1, 2, 3, 4, 1], t), np.array([.5, 1.5, 2.5, 3, 7, .2], t))
        case('Betainc', arr(t, (30,), .1, 9), arr(t, (30,), .1, 9), arr(t, (30,), 0, 1)); case('Betainc', np.array(2., t), np.array(3., t), arr(t, (5,), 0, 1)); case('Betainc', arr(t, (3,), .1, 9), arr(t, (2,), .1, 9), np.array(.5, t))

def section_volumes():
    for t in [np.float32, np.float64, half]:
        for (n, d, h, w, c), (kd, kh, kw, o), st, pad in [((2, 4, 5, 4, 2), (3, 3, 2, 3), (1, 1, 1), 'SAME'), ((1, 5, 5, 6, 2), (2, 3, 3, 2), (2, 1, 2), 'VALID'), ((1, 3, 4, 4, 3), (1, 1, 1, 2), (1, 1, 1), 'VALID'), ((1, 3, 5, 4, 1), (3, 3, 3, 1), (2, 2, 2), 'SAME')]:
            x, f = arr(t, (n, d, h, w, c)), arr(t, (kd, kh, kw, c, o)); a = dict(strides=[1, *st, 1], padding=pad)
            os_ = [(i + s - 1) // s if pad == 'SAME' else (i - k) // s + 1 for i, s, k in zip((d, h, w), st, (kd, kh, kw))]
            case('Conv3D', x, f, **a); dy = arr(t, (n, *os_, o))
            case('Conv3DBackpropInputV2', np.array(x.shape, np.int32), f, dy, **a); case('Conv3DBackpropFilterV2', x, np.array(f.shape, np.int32), dy, **a)
            p = dict(ksize=[1, kd, kh, kw, 1], **a)
            if t != half:
                case('MaxPool3D', x, **p); case('AvgPool3D', x, **p); case('AvgPool3DGrad', np.array(x.shape, np.int32), arr(t, (n, *os_, c)), **p)
            case('Conv', x, f, strides=[1, *st, 1], padding=pad)
        case('Conv', arr(t, (2, 5, 5, 3)), arr(t, (3, 3, 3, 2)), strides=[1, 2, 2, 1], padding='SAME')
    f32 = np.float32
    for s in [(3, 4), (5,), (2, 2, 7)]:
        for t in [f32, half, bf]: case('ApproxTopK', arr(t, s), k=2)
    for t in (np.int32, np.int64):
        case('DataFormatDimMap', np.array([-4, 3, -2, 1, 0], t), src_format='NHWC', dst_format='NCHW'); case('DataFormatDimMap', np.array([0, 1, 2, 3, 4, -1], t), src_format='NDHWC', dst_format='NCDHW')
        case('DataFormatVecPermute', np.array([7, 4, 9, 3], t), src_format='NHWC', dst_format='NCHW'); case('DataFormatVecPermute', np.array([[7, 4], [9, 3], [1, 2], [5, 6]], t), src_format='HWNC', dst_format='NHWC'); case('DataFormatVecPermute', np.array([7, 4], t), src_format='NHWC', dst_format='WNHC'); case('DataFormatVecPermute', np.array([7, 4, 5], t), src_format='NHWC', dst_format='NCHW'); case('DataFormatVecPermute', np.array([7, 4, 5], t), src_format='NDHWC', dst_format='NCDHW')
    for t in F + [np.int32, np.int64, np.uint8]:
        for i in (np.int32, np.int64):
            for name in ['Sum'] + ([] if np.dtype(t).kind in 'iu' else ['Mean', 'SqrtN']):
                case('SparseSegment' + name, arr(t, (4, 3)), np.array([0, 3, 3, 1], i), np.array([0, 0, 2, 2], np.int32))
                case('SparseSegment' + name + 'WithNumSegments', arr(t, (4, 3)), np.array([0, 3, 3, 1], i), np.array([0, 0, 2, 2], np.int32), np.array(4, np.int32))
                if np.dtype(t).kind not in 'iu': case('SparseSegment' + name + 'Grad', arr(t, (3, 3)), np.array([0, 3, 3, 1], i), np.array([0, 0, 2, 2], np.int32), np.array(5, np.int32))
    i = np.int32
    for ix, ids in [([0, 4], [0, 0]), ([0, 1], [1, 0]), ([0], [0, 0]), ([0, 1], [-1, 0]), ([], [])]: case('SparseSegmentSum', arr(f32, (4, 2)), np.array(ix, i), np.array(ids, i))
    case('SparseSegmentSumWithNumSegments', arr(f32, (4, 2)), np.array([0], i), np.array([3], i), np.array(2, i))

def section_fft():
    for t, r in ((np.complex64, np.float32), (np.complex128, np.float64)):
        for n in (1, 2, 3, 8, 12, 17):
            case('FFT', arr(t, (2, n))); case('IFFT', arr(t, (n,)))
            case('RFFT', arr(r, (2, n)), np.array([n], np.int32), Tcomplex=t); case('IRFFT', arr(t, (2, n // 2 + 1)), np.array([n], np.int32), Treal=r)
        case('FFT2D', arr(t, (2, 3, 4))); case('IFFT2D', arr(t, (5, 4))); case('FFT3D', arr(t, (3, 4, 5))); case('IFFT3D', arr(t, (2, 3, 4, 2)))
        case('RFFT2D', arr(r, (2, 5, 6)), np.array([4, 6], np.int32), Tcomplex=t); case('RFFT3D', arr(r, (3, 5, 6)), np.array([3, 5, 5], np.int32), Tcomplex=t)
        case('IRFFT2D', arr(t, (2, 5, 6)), np.array([4, 9], np.int32), Treal=r); case('IRFFT3D', arr(t, (3, 5, 6)), np.array([3, 5, 10], np.int32), Treal=r)
        case('RFFT', arr(r, (2, 5)), np.array([8], np.int32), Tcomplex=t); case('RFFT', arr(r, (2, 5)), np.array([-8], np.int32), Tcomplex=t); case('RFFT', arr(r, (2, 5)), np.array([2, 3], np.int32), Tcomplex=t); case('IRFFT', arr(t, (2, 5)), np.array([12], np.int32), Treal=r); case('FFT2D', arr(t, (5,))); case('RFFT', arr(r, (0, 5)), np.array([5], np.int32), Tcomplex=t)
    for t in (np.int32, np.int64, np.uint32, np.uint64):
        for m in (0, 1, 7, 1000, 70000, 10 ** 9): case('RandomIndexShuffle', np.array(m // 2, t), np.array([1, 2, 3], np.int32), np.array(m, t), rounds=4); case('RandomIndexShuffle', np.array([0, m // 3, m], t), np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.uint32), np.array(m, t), rounds=8)

def section_space():
    i = np.int32
    for t in [np.float32, np.int64, np.uint8, half]:
        case('SpaceToBatchND', arr(t, (2, 4, 5, 2)), np.array([2, 3], i), np.array([[0, 0], [1, 0]], i)); case('SpaceToBatchND', arr(t, (2, 4)), np.array([2], i), np.array([[1, 1]], i)); case('SpaceToBatchND', arr(t, (2, 4, 3)), np.array([1], i), np.array([[0, 0]], i))
        case('BatchToSpaceND', arr(t, (12, 2, 2, 2)), np.array([2, 3], i), np.array([[0, 0], [1, 0]], i)); case('BatchToSpaceND', arr(t, (4, 3)), np.array([2], i), np.array([[1, 1]], i))
        case('SpaceToBatch', arr(t, (1, 4, 4, 1)), np.array([[0, 0], [0, 0]], i), block_size=2); case('BatchToSpace', arr(t, (4, 2, 2, 1)), np.array([[0, 1], [0, 0]], i), block_size=2)
        case('SpaceToDepth', arr(t, (2, 4, 6, 3)), block_size=2); case('DepthToSpace', arr(t, (2, 2, 3, 12)), block_size=2)
    f = np.float32
    case('SpaceToBatchND', arr(f, (2, 5)), np.array([2], i), np.array([[0, 0]], i)); case('SpaceToBatchND', arr(f, (2, 5)), np.array([2], i), np.array([[0, -1]], i)); case('SpaceToBatchND', arr(f, (2, 5)), np.array([[2]], i), np.array([[0, 1]], i)); case('SpaceToBatchND', arr(f, (2, 5)), np.array([0], i), np.array([[0, 1]], i)); case('SpaceToBatchND', arr(f, (2, 5)), np.array([2, 2], i), np.array([[0, 1]], i)); case('SpaceToBatchND', arr(f, (2, 5)), np.array([2], i), np.array([[0, 1, 2]], i))
    case('BatchToSpaceND', arr(f, (3, 5)), np.array([2], i), np.array([[0, 0]], i)); case('BatchToSpaceND', arr(f, (2, 2)), np.array([2], i), np.array([[3, 3]], i)); case('DepthToSpace', arr(f, (2, 2, 3, 5)), block_size=2); case('SpaceToDepth', arr(f, (2, 3, 4, 3)), block_size=2); case('DepthToSpace', arr(f, (2, 3)), block_size=2)
    for t in (np.float32, np.float64, np.int32, np.int64): case('Bucketize', arr(t, (3, 5), -9, 9), boundaries=[-5., 0., 3.])
    for t in [np.float32, np.int32, np.int64, np.uint8]:
        s, v = np.sort(arr(t, (2, 6)), 1), arr(t, (2, 4))
        for o in (tf.int32, tf.int64): case('LowerBound', s, v, out_type=o); case('UpperBound', s, v, out_type=o)
        for r in (False, True): case('NthElement', arr(t, (3, 5)), np.array(2, i), reverse=r)
    case('NthElement', arr(f, (3, 5)), np.array(5, i)); case('NthElement', arr(f, (3, 5)), np.array(-1, i)); case('LowerBound', arr(f, (3, 5)), arr(f, (2, 5)))
    for t in (np.float32, np.float64, half):
        for sh in ([5], [2, 3], []): case('RandomGamma', np.array(sh, i), np.array([.5, 1, 3.7], t), seed=3, seed2=4)
        case('RandomGamma', np.array([4], i), np.array(2.5, t), seed=3, seed2=4)

def section_roll():
    i = np.int32
    for t in [np.float32, np.int64, np.uint8, bool, np.complex128]: case('Roll', arr(t, (3, 4)), np.array([1, -2], i), np.array([0, 1], i)); case('Roll', arr(t, (5,)), np.array(2, i), np.array(0, i)); case('Roll', arr(t, (2, 3, 4)), np.array([1, 2, 1], np.int64), np.array([0, 1, -2], np.int64)); case('Roll', arr(t, (2, 0)), np.array([1], i), np.array([0], i))
    case('Roll', np.array(['a', 'b', 'c'], object), np.array(1, i), np.array(0, i)); f = np.float32
    case('Roll', f(1), np.array(1, i), np.array(0, i)); case('Roll', arr(f, (3,)), np.array([1], i), np.array(0, i)); case('Roll', arr(f, (3,)), np.array([1], i), np.array([1], i)); case('Roll', arr(f, (3,)), np.array([1], i), np.array([-2], i))
    for t in (np.float32, np.float64, np.int32, np.int64):
        for o in (tf.int32, tf.int64): case('HistogramFixedWidth', arr(t, (20,), -9, 9), np.array([-5, 5], t), np.array(4, i), dtype=o)
    case('HistogramFixedWidth', arr(f, (20,)), np.array([5, 5], f), np.array(4, i)); case('HistogramFixedWidth', arr(f, (20,)), np.array([5, 6], f), np.array(0, i)); case('HistogramFixedWidth', arr(f, (20,)), np.array([5, 6, 7], f), np.array(2, i))

def optimizer(op, slots, args, types=(np.float32, np.float64, half), sparse=False, **attrs):
    """args: names with scalars; grad and indices are made here."""
    if only and not any(op.startswith(p) for p in only): return
    for t in types:
        for shape in ([(5, 3)] if sparse else [(), (7,), (3, 4)]):
            with tf.Graph().as_default() as g, tf.device('/cpu:0'):
                kw, inputs, vs = dict(attrs), [], []
                for s in slots:
                    init = np.abs(arr(t, shape, 0.1, 2)).astype(t)
                    if s in ('var', 'linear', 'm', 'gradient_accumulator'): init = arr(t, shape)
                    v = tf.compat.v1.get_variable(s, initializer=tf.constant(init), use_resource=op.startswith('Resource'))
                    kw[s] = v.handle if op.startswith('Resource') else v._variable
                    vs.append(v); inputs.append(init)
                feeds = {}
                for name, value in args:
                    if name in ('grad', 'delta'): value = arr(t, (3,) + shape[1:] if sparse else shape)
                    elif name == 'indices': value = np.array([4, 0, 4], np.int32)
                    elif name == 'global_step': value = np.array(value, np.int64)
                    else: value = np.array(value, t)
                    p = tf.compat.v1.placeholder(value.dtype, None); feeds[p] = value; kw[name] = p; inputs.append(value)
                res = getattr(R, op)(**kw)
                node = res if isinstance(res, tf.Operation) else res.op
                opdef = op_def_registry.get(op)
                try: g_ok = tf.compat.v1.Session(graph=g).run(node, feeds)
                except tf.errors.OpError as e:
                    if 'No OpKernel was registered' in e.message: continue
                with tf.compat.v1.Session(graph=g) as s:
                    s.run(tf.compat.v1.global_variables_initializer())
                    s.run(node, feeds)
                    vals = s.run([v.value() if op.startswith('Resource') else v for v in vs])
                order = [a.name for a in opdef.input_arg]
                have = dict(zip(list(slots) + [n for n, _ in args], inputs))
            write(node.node_def, [have[n] for n in order], vals, 0, '')

def section_opt():
    G, D, I = ('grad', None), ('delta', None), ('indices', None)
    for pre in ('', 'Resource'):
        optimizer(pre + 'ApplyGradientDescent', ['var'], [('alpha', .3), D])
        optimizer(pre + 'ApplyProximalGradientDescent', ['var'], [('alpha', .3), ('l1', .2), ('l2', .1), D])
        optimizer(pre + 'ApplyProximalGradientDescent', ['var'], [('alpha', .3), ('l1', 0), ('l2', .1), D])
        for n in (False, True):
            optimizer(pre + 'ApplyMomentum', ['var', 'accum'], [('lr', .3), G, ('momentum', .9)], use_nesterov=n)
            optimizer(pre + 'ApplyAdam', ['var', 'm', 'v'], [('beta1_power', .9), ('beta2_power', .99), ('lr', .1), ('beta1', .9), ('beta2', .99), ('epsilon', 1e-3), G], use_nesterov=n)
            optimizer(pre + 'ApplyAdagrad', ['var', 'accum'], [('lr', .3), G], update_slots=n)
            optimizer(pre + 'ApplyAdagradV2', ['var', 'accum'], [('lr', .3), ('epsilon', .1), G], update_slots=n)
            optimizer(pre + 'ApplyFtrl', ['var', 'accum', 'linear'], [G, ('lr', .3), ('l1', .2), ('l2', .1), ('lr_power', -.5)], multiply_linear_by_lr=n)
            optimizer(pre + 'ApplyFtrlV2', ['var', 'accum', 'linear'], [G, ('lr', .3), ('l1', .2), ('l2', .1), ('l2_shrinkage', .05), ('lr_power', -.7)], multiply_linear_by_lr=n)
        optimizer(pre + 'ApplyAdaMax', ['var', 'm', 'v'], [('beta1_power', .9), ('lr', .1), ('beta1', .9), ('beta2', .99), ('epsilon', 1e-3), G])
        optimizer(pre + 'ApplyProximalAdagrad', ['var', 'accum'], [('lr', .3), ('l1', .2), ('l2', .1), G])
        optimizer(pre + 'ApplyAdagradDA', ['var', 'gradient_accumulator', 'gradient_squared_accumulator'], [G, ('lr', .3), ('l1', .02), ('l2', .1), ('global_step', 4)], types=(np.float32, np.float64))
        optimizer(pre + 'ApplyAdadelta', ['var', 'accum', 'accum_update'], [('lr', .3), ('rho', .9), ('epsilon', .1), G])
        optimizer(pre + 'ApplyRMSProp', ['var', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', .1), G])
        optimizer(pre + 'ApplyCenteredRMSProp', ['var', 'mg', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', 5.), G])
        optimizer(pre + 'ApplyAddSign', ['var', 'm'], [('lr', .3), ('alpha', 1.), ('sign_decay', .5), ('beta', .9), G])
        optimizer(pre + 'ApplyPowerSign', ['var', 'm'], [('lr', .3), ('logbase', 1.), ('sign_decay', .5), ('beta', .9), G])
        t = (np.float32, np.float64)
        optimizer(pre + 'SparseApplyProximalGradientDescent', ['var'], [('alpha', .3), ('l1', .2), ('l2', .1), G, I], t, True)
        optimizer(pre + 'SparseApplyMomentum', ['var', 'accum'], [('lr', .3), G, I, ('momentum', .9)], t, True, use_nesterov=True)
        optimizer(pre + 'SparseApplyAdagrad', ['var', 'accum'], [('lr', .3), G, I], t, True)
        optimizer(pre + 'SparseApplyAdagradV2', ['var', 'accum'], [('lr', .3), ('epsilon', .1), G, I], t, True)
        optimizer(pre + 'SparseApplyFtrl', ['var', 'accum', 'linear'], [G, I, ('lr', .3), ('l1', .2), ('l2', .1), ('lr_power', -.5)], t, True)
        optimizer(pre + 'SparseApplyFtrlV2', ['var', 'accum', 'linear'], [G, I, ('lr', .3), ('l1', .2), ('l2', .1), ('l2_shrinkage', .05), ('lr_power', -.7)], t, True)
        optimizer(pre + 'SparseApplyProximalAdagrad', ['var', 'accum'], [('lr', .3), ('l1', .2), ('l2', .1), G, I], t, True)
        optimizer(pre + 'SparseApplyAdagradDA', ['var', 'gradient_accumulator', 'gradient_squared_accumulator'], [G, I, ('lr', .3), ('l1', .02), ('l2', .1), ('global_step', 4)], t, True)
        optimizer(pre + 'SparseApplyAdadelta', ['var', 'accum', 'accum_update'], [('lr', .3), ('rho', .9), ('epsilon', .1), G, I], t, True)
        optimizer(pre + 'SparseApplyRMSProp', ['var', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', .1), G, I], t, True)
        optimizer(pre + 'SparseApplyCenteredRMSProp', ['var', 'mg', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', 5.), G, I], t, True)
    for n in (False, True):
        optimizer('ResourceApplyKerasMomentum', ['var', 'accum'], [('lr', .3), G, ('momentum', .9)], use_nesterov=n)
        optimizer('ResourceSparseApplyKerasMomentum', ['var', 'accum'], [('lr', .3), G, I, ('momentum', .9)], (np.float32,), True, use_nesterov=n)
    optimizer('ResourceApplyAdamWithAmsgrad', ['var', 'm', 'v', 'vhat'], [('beta1_power', .9), ('beta2_power', .99), ('lr', .1), ('beta1', .9), ('beta2', .99), ('epsilon', 1e-3), G])

def section_types():
    """Types that few programs use, which TensorFlow registers all the same."""
    for t in [half, bf]:
        for op in ['LowerBound', 'UpperBound']:
            for o in (tf.int32, tf.int64): case(op, np.sort(arr(t, (2, 6))), arr(t, (2, 4)), out_type=o)
    for t in [np.uint32, np.uint64]:
        x = arr(t, (1, 4, 4, 2), 0, 90)
        case('MaxPoolGrad', x, x[:, :2, :2], arr(t, (1, 2, 2, 2), 0, 90), ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding='VALID')
    for op in ['Equal', 'NotEqual']:
        for q in [tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32]:
            t = q.as_numpy_dtype
            case(op, np.array([1, 2, 3], t), np.array([1, 5, 3], t)); case(op, np.array([[1], [2]], t), np.array([1, 2], t))
    G, I = ('grad', None), ('indices', None)
    for pre in ('', 'Resource'):
        for n in (False, True):
            optimizer(pre + 'ApplyAdam', ['var', 'm', 'v'], [('beta1_power', .9), ('beta2_power', .99), ('lr', .1), ('beta1', .9), ('beta2', .99), ('epsilon', 1e-3), G], C, use_nesterov=n)
            optimizer(pre + 'ApplyAdagrad', ['var', 'accum'], [('lr', .3), G], C, update_slots=n)
            optimizer(pre + 'ApplyAdagradV2', ['var', 'accum'], [('lr', .3), ('epsilon', .1), G], C, update_slots=n)
            optimizer(pre + 'ApplyMomentum', ['var', 'accum'], [('lr', .3), G, ('momentum', .9)], C, use_nesterov=n)
        dense = lambda op, *more: optimizer(pre + op, *more, C)
        sparse = lambda op, *more: optimizer(pre + 'Sparse' + op, *more, C, True)
        dense('ApplyAdadelta', ['var', 'accum', 'accum_update'], [('lr', .3), ('rho', .9), ('epsilon', .1), G])
        dense('ApplyRMSProp', ['var', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', .1), G])
        dense('ApplyCenteredRMSProp', ['var', 'mg', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', 5.), G])
        sparse('ApplyMomentum', ['var', 'accum'], [('lr', .3), G, I, ('momentum', .9)])
        sparse('ApplyAdagrad', ['var', 'accum'], [('lr', .3), G, I])
        sparse('ApplyAdagradV2', ['var', 'accum'], [('lr', .3), ('epsilon', .1), G, I])
        sparse('ApplyAdadelta', ['var', 'accum', 'accum_update'], [('lr', .3), ('rho', .9), ('epsilon', .1), G, I])
        sparse('ApplyRMSProp', ['var', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', .1), G, I])
        sparse('ApplyCenteredRMSProp', ['var', 'mg', 'ms', 'mom'], [('lr', .3), ('rho', .9), ('momentum', .5), ('epsilon', 5.), G, I])
    for n in (False, True):
        optimizer('ResourceApplyKerasMomentum', ['var', 'accum'], [('lr', .3), G, ('momentum', .9)], C, use_nesterov=n)
        optimizer('ResourceSparseApplyKerasMomentum', ['var', 'accum'], [('lr', .3), G, I, ('momentum', .9)], C, True, use_nesterov=n)

def main(names):
    for name, f in list(names.items()):
        if name.startswith('section_') and f.__module__ == '__main__': f(); print(name, sum(count.values()), flush=True)
    out.close()
    print('not built:', missing)

if __name__ == '__main__': main(globals())
