"""Writes true_numbers.gz, what TensorFlow computes of float64 numbers, and what is true: python true_numbers.py OUTPUT [OP...]. It needs tensorflow and mpmath.

A line "points NAME HEX" has lists of inputs: the bits of each number in 16 hexadecimal digits, the inputs of a call one after the other. A line
"op NAME POINTS TENSORFLOW TRUE REST" has for each call the bits of TensorFlow's result, those of the true result rounded to float64, and what is lost
by the rounding, in 1/200 of a unit in the last place, in two digits; zz where only TensorFlow's result is known. Ops are all that take one to three
float64 numbers for each result, and those of TOGETHER. Subnormal numbers are left out: TestSubnormalArguments has them."""
import gzip, math, random, signal, struct, sys
import tensorflow as tf
from mpmath import mp, mpf
from tensorflow.python.framework import kernels, op_def_registry
import special

random.seed(17)
LEAST = 2.2250738585072014e-308

def power(x, y):
    if x == 0 or x < 0 and y != mp.floor(y): raise ValueError('no number')
    return (-1 if x < 0 and int(y) % 2 else 1) * mp.exp(y * mp.log(abs(x)))

def atan2(y, x):
    if x == 0 and y == 0: raise ValueError('no number')
    return mp.atan2(y, x)

SELU = mpf(1.0507009873554804934193349852946), mpf(1.7580993408473768599402175208123)
TRUE = {op: f for op, f in special.FUNCTIONS.items() if op not in ('IgammaGradA', 'RandomGammaGrad', 'Betainc')} | {
    'Lgamma': lambda x: mp.re(mp.loggamma(x)), 'Sqrt': mp.sqrt, 'Rsqrt': lambda x: 1 / mp.sqrt(x), 'Reciprocal': lambda x: 1 / x, 'Inv': lambda x: 1 / x, 'Square': lambda x: x * x,
    'Softplus': lambda x: mp.log(1 + mp.exp(x)), 'Softsign': lambda x: x / (1 + abs(x)), 'Elu': lambda x: x if x > 0 else mp.expm1(x),
    'Selu': lambda x: SELU[0] * x if x > 0 else SELU[1] * mp.expm1(x),
    'Add': lambda x, y: x + y, 'AddV2': lambda x, y: x + y, 'Sub': lambda x, y: x - y, 'Mul': lambda x, y: x * y, 'RealDiv': lambda x, y: x / y,
    'Div': lambda x, y: x / y, 'SquaredDifference': lambda x, y: (x - y) ** 2, 'Pow': power, 'Atan2': atan2,
    'Xlogy': lambda x, y: x * mp.log(y) if y > 0 else 1 / 0, 'Xlog1py': lambda x, y: x * mp.log1p(y) if y > -1 else 1 / 0,
    'TanhGrad': lambda y, d: d * (1 - y * y), 'SigmoidGrad': lambda y, d: d * y * (1 - y), 'SqrtGrad': lambda y, d: d / 2 / y,
    'RsqrtGrad': lambda y, d: -d * y ** 3 / 2, 'Relu': lambda x: max(x, mpf(0)), 'Relu6': lambda x: min(max(x, mpf(0)), mpf(6)), 'ReciprocalGrad': lambda y, d: -d * y * y, 'InvGrad': lambda y, d: -d * y * y,
}
EDGES = [LEAST, 1e-300, 1e-160, 1e-100, 1e-20, 1e-8, 1e-5, 1e20, 1e100, 1e300, 1e308, sys.float_info.max]

def unary():
    yield from (0.0, -0.0, math.inf, -math.inf, math.nan)
    for b in special.BRANCHES:
        for v in (b, math.nextafter(b, math.inf), math.nextafter(b, -math.inf), b * (1 + random.gauss(0, 1) * 1e-3)): yield from (v, -v)
    for e in EDGES: yield from (e, -e)
    for n in range(-7, 4): yield from (n + 0.5, float(n), n + random.random(), n + random.gauss(0, 1) * 1e-6)
    for _ in range(40): yield random.gauss(0, 20)
    for _ in range(30): yield random.random()

def binary():
    few = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, 1.5, -2.5, 10.0, 1e-300, 1e300, -1e300, LEAST, 1024.5, 1 + 2.0 ** -52]
    for a in few:
        for b in few: yield a, b
    for _ in range(60): yield random.gauss(0, 3), random.gauss(0, 3)
    for _ in range(60): yield special.wide(-3, 3), special.wide(-3, 3)
    for _ in range(60):
        a = special.wide(-2, 4)
        yield a, random.choice([special.ulps(a), abs(a + math.sqrt(a) * random.gauss(0, 2)), special.ulps(1), -a])

def ternary():
    yield from list(special.triples())[:150]
    for a in (0.0, 1.0, -1.0, math.inf, math.nan): yield from ((a, 0.5, 0.5), (0.5, a, 0.5), (0.5, 0.5, a))

POINTS = {'one': [(v,) for v in unary()], 'two': list(binary()), 'three': list(ternary())}

# Ops whose results depend on the least and the greatest number of the list.
TOGETHER = {'QuantizeAndDequantize': 'range', 'QuantizeAndDequantizeV2': 'ranges', 'QuantizeAndDequantizeV4': 'ranges'}
POINTS['range'] = [(v,) for v in (-7.75, 6.5, 0.0, -0.0, 1e-300, LEAST) for v in (v, math.nextafter(v, math.inf))] + [(k * 7.75 / 127 + e,) for k in range(-128, 128) for e in (0, 7.75 / 254)] + [(random.gauss(0, 2),) for _ in range(60)]
POINTS['range'] = [r for r in POINTS['range'] if -7.75 <= r[0] <= 6.5]
POINTS['ranges'] = [(v, 0.0, 0.0) for v, in POINTS['range']]

class Slow(Exception): pass

def slow(*_): raise Slow()

def bits(v): return struct.pack('>d', math.nan if v != v else v).hex()

def nearly(list): return [bits(v + 0.0 if v else 0.0)[:12] for v in list]

def removed(op, rows):
    """What an op computes that TensorFlow only runs in graphs of old versions."""
    g = tf.compat.v1.GraphDef()
    g.versions.producer = 21
    x, y = g.node.add(name='x', op='Placeholder'), g.node.add(name='y', op=op, input=['x'])
    x.attr['dtype'].type = y.attr['T'].type = tf.float64.as_datatype_enum
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.import_graph_def(g, name='')
        return [float(v) for v in session.run('y:0', {'x:0': [r[0] for r in rows]})]

def ops():
    """The ops with one result for one to three numbers at the same place."""
    on_cpu = {k.op for k in kernels.get_all_registered_kernels().kernel if k.device_type in ('CPU', 'DEFAULT')}
    for name in sorted(on_cpu | {'NextIteration'}): # which the list of kernels lacks
        if name.startswith(('Check', 'Nccl', 'Xla', 'Collective', 'Deep')): continue
        d = op_def_registry.get(name)
        if d is None or name.startswith('_') or d.is_stateful or not hasattr(tf.raw_ops, name) or not 1 <= len(d.input_arg) <= 3 or len(d.output_arg) != 1: continue
        types = {a.type_attr for a in d.input_arg}
        if len(types) != 1 or '' in types or any(a.number_attr or a.type_list_attr or a.is_ref for a in d.input_arg): continue
        if any(not a.HasField('default_value') and a.name not in types for a in d.attr): continue
        points = POINTS[TOGETHER.get(name) or ('one', 'two', 'three')[len(d.input_arg) - 1]]
        if name == 'QuantizeAndDequantize':
            yield name, points, removed(name, points)
            continue
        def call(rows):
            out = getattr(tf.raw_ops, name)(**{a.name: tf.constant([r[i] for r in rows], tf.float64) for i, a in enumerate(d.input_arg)})
            return [float(v) for v in out.numpy()] if out.shape == (len(rows),) and out.dtype in (tf.float64, tf.bool) else None
        try:
            got, back = call(points), call(points[::-1])
        except (tf.errors.OpError, TypeError, ValueError):
            continue
        few = call(points[:7]) if got else None
        if got and few and (name in TOGETHER or nearly(got) == nearly(back[::-1]) and nearly(few) == nearly(got[:7])): yield name, points, got

# Of these, series are summed, which takes long far away from 1.
SUMMED = {'Zeta', 'Polygamma', 'Igamma', 'Igammac'}

def truth(op, x, got):
    """The true result and what rounding loses of it, or None where it is not known, or where there is no number."""
    f = TRUE.get(op)
    low, high = special.RANGES.get(op, (-math.inf, math.inf))
    if f is None or not all(map(math.isfinite, x)) or op in special.POSITIVE and x[0] <= 0 or len(x) == 1 and not low < x[0] < high and op not in ('Sin', 'Cos', 'Tan', 'Lgamma'): return None
    if not math.isfinite(got) or abs(got) < LEAST or op in SUMMED and not all(1e-4 < abs(v) < 2e4 for v in x): return None
    signal.alarm(3)
    try:
        with mp.workdps(400 if op in ('Sin', 'Cos', 'Tan') else 60): v = f(*map(mpf, x))
    except (ValueError, ZeroDivisionError, OverflowError, NotImplementedError, mp.NoConvergence, TypeError, Slow):
        return None
    finally:
        signal.alarm(0)
    if not isinstance(v, mpf) or v != v or not LEAST <= abs(v) < mpf(2) ** 1024: return None
    near = float(v)
    return near, int(mp.nint((v - mpf(near)) / mpf(math.ulp(near)) * 200))

def main():
    signal.signal(signal.SIGALRM, slow)
    with gzip.GzipFile(sys.argv[1], 'wb', mtime=0) as out:
        for name, rows in POINTS.items(): out.write(f'points {name} {"".join(bits(v) for r in rows for v in r)}\n'.encode())
        for op, points, got in ops():
            if sys.argv[2:] and op not in sys.argv[2:]: continue
            rest, true = '', ''
            for x, g in zip(points, got):
                t = truth(op, x, g)
                true += bits(t[0] if t else g)
                rest += '%02x' % (t[1] & 0xff) if t else 'zz'
            name = next(n for n, rows in POINTS.items() if rows is points)
            out.write(f'op {op} {name} {"".join(map(bits, got))} {true} {rest}\n'.encode())
            print(op, len(points), 'known:', (len(rest) - rest.count('z')) // 2, flush=True)

if __name__ == '__main__': main()
