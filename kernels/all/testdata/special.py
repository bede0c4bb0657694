"""Writes special.gz, what functions are at the edges of their range and near the places where kernels change the way to compute them:
python special.py OUTPUT [OP...]. It needs mpmath. A line has an op, its inputs, the result, and how far that moves when the inputs move by one in their last place."""
import gzip, math, random, sys
from mpmath import mp, mpf, inf, nan

mp.dps = 50
random.seed(5)

def igamma(a, x):
    term, total, k = mpf(1), mpf(1), 1
    while term > total * mpf(10) ** -(mp.dps - 5):
        term *= x / (a + k)
        total += term
        k += 1
    return mp.exp(a * mp.log(x) - x - mp.loggamma(a + 1)) * total

def igammac(a, x):
    with mp.workdps(int(60 + min(x, 2000) / 2)): return 1 - igamma(a, x)

def beta_below(a, b, x):
    term, total, k = mpf(1), mpf(1), 0
    while term > total * mpf(10) ** -28:
        term *= (a + b + k) / (a + 1 + k) * x
        total += term
        k += 1
        if k > 8000: raise ValueError('too many terms')
    return mp.exp(a * mp.log(x) + b * mp.log(1 - x) - mp.log(a) - mp.loggamma(a) - mp.loggamma(b) + mp.loggamma(a + b)) * total

def betainc(a, b, x):
    return beta_below(a, b, x) if x * (a + b) <= a else 1 - beta_below(b, a, 1 - x)

def grad(a, x):
    h = a * mpf(10) ** -18
    return (igamma(a + h, x) - igamma(a - h, x)) / (2 * h)

def sample_grad(a, x): return -grad(a, x) / (mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a)))

def ndtri(p):
    if p > 0.5: return -ndtri(1 - p)
    t = mp.sqrt(-2 * mp.log(p)) if p < 0.1 else mpf(0.5)
    return -mp.findroot(lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2) - mp.log(p), t, tol=1e-60, maxsteps=200)

FUNCTIONS = {
    'Exp': mp.exp, 'Log': mp.log, 'Expm1': mp.expm1, 'Log1p': mp.log1p, 'Sinh': mp.sinh, 'Cosh': mp.cosh, 'Tanh': mp.tanh, 'Asinh': mp.asinh, 'Acosh': mp.acosh,
    'Atanh': mp.atanh, 'Sin': mp.sin, 'Cos': mp.cos, 'Tan': mp.tan, 'Asin': mp.asin, 'Acos': mp.acos, 'Atan': mp.atan, 'Erf': mp.erf, 'Erfc': mp.erfc, 'Erfinv': mp.erfinv,
    'Ndtri': ndtri, 'Lgamma': lambda x: mp.log(abs(mp.gamma(x))), 'Digamma': mp.digamma, 'Sigmoid': lambda x: 1 / (1 + mp.exp(-x)),
    'BesselI0': lambda x: mp.besseli(0, x), 'BesselI1': lambda x: mp.besseli(1, x), 'BesselI0e': lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
    'BesselI1e': lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), 'BesselK0': lambda x: mp.besselk(0, x), 'BesselK1': lambda x: mp.besselk(1, x),
    'BesselK0e': lambda x: mp.besselk(0, x) * mp.exp(x), 'BesselK1e': lambda x: mp.besselk(1, x) * mp.exp(x), 'BesselJ0': lambda x: mp.besselj(0, x),
    'BesselJ1': lambda x: mp.besselj(1, x), 'BesselY0': lambda x: mp.bessely(0, x), 'BesselY1': lambda x: mp.bessely(1, x),
    'Dawsn': lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), 'FresnelSin': mp.fresnels, 'FresnelCos': mp.fresnelc, 'Spence': lambda x: mp.polylog(2, 1 - x).real,
    'Expint': mp.ei, 'Zeta': lambda s, q: mp.zeta(s, q), 'Polygamma': lambda n, x: mp.psi(int(n), x), 'Igamma': igamma, 'Igammac': igammac, 'IgammaGradA': grad,
    'RandomGammaGrad': sample_grad, 'Betainc': betainc,
}
POSITIVE = {'Log', 'BesselK0', 'BesselK1', 'BesselK0e', 'BesselK1e', 'BesselY0', 'BesselY1', 'Spence', 'Expint'}
RANGES = {'Ndtri': (0, 1), 'Erfinv': (-1, 1), 'Atanh': (-1, 1), 'Asin': (-1, 1), 'Acos': (-1, 1), 'Acosh': (1, 1e308), 'Log1p': (-1, 1e308), 'BesselJ0': (-1e6, 1e6), 'BesselJ1': (-1e6, 1e6),
          'BesselY0': (0, 1e6), 'BesselY1': (0, 1e6), 'Dawsn': (-1e5, 1e5), 'FresnelSin': (-1e4, 1e4), 'FresnelCos': (-1e4, 1e4), 'Digamma': (-500, 1e308), 'Lgamma': (-150, 1e305),
          'Sin': (-1e9, 1e9), 'Cos': (-1e9, 1e9), 'Tan': (-1e9, 1e9), 'BesselI0': (-1e4, 1e4), 'BesselI1': (-1e4, 1e4), 'BesselI0e': (-1e8, 1e8), 'BesselI1e': (-1e8, 1e8)}
BRANCHES = [0.1, 0.2, 0.25, 0.5, 0.85, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 20, 25, 37.5, 40, 41, 50, 64, 100, 700, 708, 709, 709.43, 709.7, 710, 710.4, 745, 1e4, 1e7, 1e10, 0.9375, 0.999]
# Where a kernel goes from one polynomial or series to the next one, beside BRANCHES.
ENDS = {'Expint': [0.75, 12, 24, 48], 'BesselY0': [0.75, 0.8935769662791675, 1.125], 'FresnelSin': [1.25, 2, 4, 1e8, 1e17], 'FresnelCos': [1.25, 2, 4, 1e8, 1e17]}
EDGES = [5e-324, 1e-320, 1e-308, 2.3e-308, 1e-300, 1e-160, 1e-100, 1e-20, 1e-8, 1e-5, 1e20, 1e100, 1e300, 1e308, sys.float_info.max]

def single():
    for b in BRANCHES:
        for v in (b, math.nextafter(b, math.inf), math.nextafter(b, -math.inf), b * (1 + random.gauss(0, 1) * 1e-3)): yield from (v, -v)
    for e in EDGES: yield from (e, -e)
    for _ in range(60): yield random.gauss(0, 20)
    for _ in range(40): yield random.random()

def wide(low, high): return 10 ** random.uniform(low, high)
def ulps(v, n=4): return v * (1 + random.randint(-n, n) * 2.0 ** -52)

def pairs(op):
    if op == 'Zeta':
        for s in (2.0, 3.0, 1.5, 1 + 2.0 ** -40, 12.25, 40.0, 200.0):
            for q in (1.0, 1e-3, 0.5, 11.999, 12.0, 50.0, 1e6): yield s, q
        for s in (2.0, 3.0, 4.0, 7.0):
            for q in (-0.5, -12.25, -63.5, -64.5, -70.75, -1000.5): yield s, q
    elif op == 'Polygamma':
        for n in (0.0, 1.0, 2.0, 3.0, 10.0, 60.0):
            for x in (1e-3, 0.5, 1.0, 2.5, 11.999, 12.0, 60.0, 1e5, -0.5, -12.25, -70.75): yield n, x
    else:
        few = 'Grad' in op
        for _ in range(60 if few else 160):
            a = wide(-3, 3.5)
            yield a, random.choice([a, ulps(a), abs(a + math.sqrt(a) * random.gauss(0, 2)), wide(-3, 3), ulps(1)])
        for a in (2999.0, 3000.0, 3001.0, 1e4, 1e5):
            for z in (-5, -1, 0, 1, 5): yield a, a + z * math.sqrt(a)
        if not few:
            for a in (1e-300, 1e-10, 1e-5, 9.9e-5, 1e-4): yield from ((a, 1e-300), (a, 0.3), (a, 1.0))

def triples():
    yield from [(33.548301672250005, 32.26172261958674, 0.509486643502192), (1.0, 1e-10, 0.7), (1.0, 1e-10, 0.97), (1e-5, 1e5, 1e-300), (1e-300, 1e-300, 0.3), (5e-324, 5e-324, 0.5),
                (3000.0, 5000.0, 0.38), (2999.0, 3001.0, 0.5), (3001.0, 3002.0, 0.5), (4000.0, 3500.0, 0.53)]
    for _ in range(200):
        a, b = wide(-2, 3.3), wide(-2, 3.3)
        mean, sd = a / (a + b), math.sqrt(a * b / (a + b + 1)) / (a + b)
        x = random.choice([ulps((a + 1) / (a + b + 2)), ulps(mean), mean + sd * random.gauss(0, 2), random.random(), 1 - wide(-9, -3)])
        if 0 < x < 1: yield a, b, x

def cases(op):
    if op == 'Betainc': return triples()
    if op in ('Zeta', 'Polygamma') or 'amma' in op and op not in ('Lgamma', 'Digamma'): return pairs(op)
    low, high = (0, math.inf) if op in POSITIVE and op not in RANGES else RANGES.get(op, (-math.inf, math.inf))
    list = [v for v in single() if low < v < high]
    for b in ENDS.get(op, ()): list += [v for v in (b, math.nextafter(b, math.inf), math.nextafter(b, -math.inf)) if v > low]
    return ((v,) for v in list)

def near(f, x, i):
    h = abs(x[i]) * mpf(2) ** -52
    moved = list(x)
    moved[i] += h if abs(x[i]) < 1 or x[i] < 0 else -h
    return moved

def main():
    with gzip.GzipFile(sys.argv[1], 'wb', mtime=0) as out:
        for op, f in FUNCTIONS.items():
            if sys.argv[2:] and op not in sys.argv[2:]: continue
            for inputs in dict.fromkeys(cases(op)):
                if op == 'Digamma' and inputs[0] <= 0 and inputs[0] == int(inputs[0]) or op == 'Lgamma' and inputs[0] <= 0 and inputs[0] == int(inputs[0]): continue
                x = [mpf(v) for v in inputs]
                try:
                    want = f(*x)
                    moves = 0
                    for i in range(len(x)):
                        try: moves += abs(f(*near(f, x, i)) - want)
                        except (ValueError, ZeroDivisionError): pass
                except (ValueError, ZeroDivisionError, OverflowError, NotImplementedError, mp.NoConvergence):
                    continue
                if not isinstance(want, mpf) or want != want: continue
                to = lambda v: float(v) if abs(v) < mpf(2) ** 1024 else math.copysign(math.inf, v)
                out.write((' '.join([op, ','.join(map(repr, inputs)), repr(to(want)), '%.2e' % to(moves)]) + '\n').encode())

if __name__ == '__main__': main()
