"""Writes polynomials.go, the polynomials by which special_funcs.go computes functions: python polynomials.py OUTPUT. It needs mpmath.

Each is Chebyshev's series to fifty digits, ended where the rest is less than a sixteenth of a unit in the last place. It has the powers of a variable that
goes from -1 to 1: their coefficients fall fast, so that the sum is rounded little more than once."""
import sys
from mpmath import mp, mpf

mp.dps = 50
ZERO = mp.findroot(lambda x: mp.bessely(0, x), 0.8935)

def beside(f, at):
    """f, which is 0/0 at one point, where it is the mean of its values beside it."""
    return lambda v: (f(at - mpf(10) ** -20) + f(at + mpf(10) ** -20)) / 2 if abs(v - at) < mpf(10) ** -20 else f(v)

def scaled_i(n): return lambda x: mp.besseli(n, x) * mp.exp(-x) / x ** n
def tail_i(n): return lambda t: mp.besseli(n, 1 / t) * mp.exp(-1 / t) / mp.sqrt(t)
def scaled_k(n): return lambda x: mp.besselk(n, x) * mp.exp(x)
def tail_k(n): return lambda t: mp.besselk(n, 1 / t) * mp.exp(1 / t) / mp.sqrt(t)

def expint(x): # mp.ei takes a second for some arguments
    term, total, k = x, x, 1
    while abs(term) > total * mp.eps / 64:
        k += 1
        term *= x * (k - 1) / k / k
        total += term
    return mp.euler + mp.log(x) + total

EI_ZERO = mp.findroot(expint, 0.3725)

def dawson(x): return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)
def dawson_rise(s): return (dawson(mp.sqrt(s)) / mp.sqrt(s) - 1) / s

def dawson_tail(r):
    x = 1 / mp.sqrt(r)
    with mp.workdps(100): return (2 * x * dawson(x) - 1) / r

def cos_rise(z):
    x = mp.sqrt(mp.sqrt(z))
    return (mp.fresnelc(x) / x - 1) / z

def sin_rise(z):
    x = mp.sqrt(mp.sqrt(z))
    return mp.fresnels(x) / x ** 3

def auxiliary(t):
    """The functions f and g by which both Fresnel integrals approach 1/2, of 1/x²."""
    x = 1 / mp.sqrt(t)
    with mp.workdps(100):
        s, c, angle = mpf(1) / 2 - mp.fresnels(x), mpf(1) / 2 - mp.fresnelc(x), mp.pi / 2 * x * x
        return (s * mp.cos(angle) - c * mp.sin(angle)) * x, (c * mp.cos(angle) + s * mp.sin(angle)) * x ** 3

# For each function: what it is, and a list of intervals with the function on each, which is never computed at the ends.
TABLE = {
    f'{name}{order}': (comment % order, [(a, b, f(order)) for a, b in ((1, 2), (2, 4), (4, 8))] if of_x else [(0, mpf(1) / 8, f(order))])
    for name, comment, of_x, f in (
        ('besselIPieces', 'the modified Bessel function of the first kind of order %d, times exp(-x)/x^order', True, scaled_i),
        ('besselITail', 'the modified Bessel function of the first kind of order %d at 1/t, times exp(-1/t)/√t', False, tail_i),
        ('besselKPieces', 'the modified Bessel function of the second kind of order %d, times exp(x)', True, scaled_k),
        ('besselKTail', 'the modified Bessel function of the second kind of order %d at 1/t, times exp(1/t)/√t', False, tail_k),
    ) for order in (0, 1)
} | {
    'besselY0Rise': ("the Bessel function of the second kind of order 0, divided by the distance from its first zero", [(mpf(0.75), mpf(1.125), beside(lambda x: mp.bessely(0, x) / (x - ZERO), ZERO))]),
    'expintRise': ('the exponential integral, divided by the distance from its zero', [(0.25, 0.75, beside(lambda x: expint(x) / (x - EI_ZERO), EI_ZERO))]),
    'expintPieces': ('the exponential integral, times x·exp(-x)', [(a, b, lambda x: expint(x) * x * mp.exp(-x)) for a, b in ((0.75, 1.5), (1.5, 3), (3, 6), (6, 12), (12, 24), (24, 48))]),
    'dawsonRise': ("what Dawson's integral, divided by x, is more than 1, divided by s = x²", [(0, 1, dawson_rise)]),
    'dawsonPieces': ("Dawson's integral", [(a, b, dawson) for a, b in ((1, 2), (2, 3), (3, 4), (4, 6), (6, 8))]),
    'dawsonTail': ("what Dawson's integral at 1/√r, times 2/√r, is more than 1, divided by r", [(0, mpf(1) / 64, dawson_tail)]),
    'fresnelCosRise': ("what Fresnel's integral of cosines, divided by x, is more than 1, divided by z = x⁴", [(0, mpf(1.25) ** 4, cos_rise)]),
    'fresnelSinRise': ("Fresnel's integral of sines, divided by x³, of z = x⁴", [(0, mpf(1.25) ** 4, sin_rise)]),
    'fresnelF': ("the auxiliary function f of Fresnel's integrals, times x, of t = 1/x²", [(a, b, lambda t: auxiliary(t)[0]) for a, b in ((0, 0.0625), (0.0625, 0.25), (0.25, 0.640625))]),
    'fresnelG': ("the auxiliary function g of Fresnel's integrals, times x³, of t = 1/x²", [(a, b, lambda t: auxiliary(t)[1]) for a, b in ((0, 0.0625), (0.0625, 0.25), (0.25, 0.640625))]),
}

POINTS = 48
ANGLES = [mp.pi * (k + mpf(1) / 2) / POINTS for k in range(POINTS)]
COSINES = [mp.cos(mp.pi * k / (2 * POINTS)) for k in range(4 * POINTS)]

def polynomial(f, low, high):
    """The middle of the interval, the inverse of its radius and the coefficients of the powers, for the least degree that is good enough."""
    low, high = mpf(low), mpf(high)
    middle, radius = (low + high) / 2, (high - low) / 2
    values = [f(middle + radius * mp.cos(a)) for a in ANGLES]
    series = [2 * mp.fsum(v * COSINES[j * (2 * k + 1) % (4 * POINTS)] for k, v in enumerate(values)) / POINTS for j in range(POINTS)]
    series[0] /= 2
    least, rest = min(map(abs, values)) * mpf(2) ** -57, mpf(0)
    while rest + abs(series[-1]) < least: rest += abs(series.pop())
    if len(series) > POINTS - 4: raise ValueError('no polynomial is good enough')
    powers, before, now = [mpf(0)] * len(series), [mpf(1)], [mpf(0), mpf(1)]
    for c in series:
        for k, b in enumerate(before): powers[k] += c * b
        after = [mpf(0)] + [2 * b for b in now]
        for k, b in enumerate(before): after[k] -= b
        before, now = now, after
    return middle, 1 / radius, powers

def main():
    with open(sys.argv[1], 'w') as out:
        out.write('// Code generated by testdata/polynomials.py. DO NOT EDIT.\n\npackage math\n')
        for name, what, zero in (('besselY0Zero', 'first zero of the Bessel function of the second kind of order 0', ZERO), ('expintZero', 'zero of the exponential integral', EI_ZERO)):
            high = float(zero)
            out.write(f'\n// {name} is the {what}, as the sum of two numbers.\nvar {name} = [2]float64{{{high!r}, {float(zero - mpf(high))!r}}}\n')
        for name, (comment, intervals) in TABLE.items():
            out.write(f'\n// {name} is {comment}.\nvar {name} = pieces{{\n')
            for low, high, f in intervals:
                middle, scale, powers = polynomial(f, low, high)
                out.write(f'\t{{{float(high)!r}, {float(middle)!r}, {float(scale)!r}, []float64{{\n')
                for k in range(0, len(powers), 5): out.write('\t\t' + ', '.join(repr(float(c)) for c in powers[k:k + 5]) + ',\n')
                out.write('\t}},\n')
                print(name, low, high, len(powers), flush=True)
            out.write('}\n')

if __name__ == '__main__': main()
