"""Writes golden_debug.gz, as golden.py does: python golden_debug.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32 = np.float32
HOLES = [0, -0., 1.5, -2, np.nan, np.inf, -np.inf, 3, np.nan, -np.inf]
SHAPES = ((), (0,), (7,), (2, 3), (2, 0, 3), (2, 1, 3, 1, 1, 2), (1, 2, 1, 2, 1, 2, 3))

def tensors(t):
    for s in SHAPES: yield np.ones(s, bool) if t == bool else arr(t, s)
    if t in F: yield np.array(HOLES, t); yield np.array([1, np.inf], t); yield np.array([np.nan], t)

def section_counts():
    for t in F + SI + UI:
        for x in tensors(t): case('DebugNanCount', x, tensor_name='x:0')
    for t in [f32, np.float64, bool] + SI + UI:
        for x in tensors(t):
            case('DebugNumericSummary', x, tensor_name='x')
            for bounds in ((-1., 2.), (-np.inf, 1.), (0., np.inf), (np.inf, -np.inf), (2., -1.)): case('DebugNumericSummary', x, tensor_name='x:1', lower_bound=bounds[0], upper_bound=bounds[1])
    for op in ('DebugNanCount', 'DebugNumericSummary'):
        for name in ('', 'a', 'a:1', 'a:b', 'a:1:2'): case(op, f32([1]), tensor_name=name)

def section_health():
    for t in F + SI + UI + [bool]:
        for x in tensors(t):
            for mode in (2, 3, 4, 5, 8):
                for out in (tf.float32, tf.float64): case('DebugNumericSummaryV2', x, output_dtype=out, tensor_debug_mode=mode, tensor_id=37)
    for mode in (-1, 0, 1, 6, 7, 9): case('DebugNumericSummaryV2', f32([1]), tensor_debug_mode=mode, tensor_id=1)
    for number in (2 ** 24, 2 ** 24 + 1, 2 ** 53 + 1, -5):
        for out in (tf.float32, tf.float64): case('DebugNumericSummaryV2', f32([1, np.nan]), output_dtype=out, tensor_debug_mode=2, tensor_id=number); case('DebugNumericSummaryV2', f32([1]), output_dtype=out, tensor_debug_mode=8, tensor_id=number)

if __name__ == '__main__': golden.main(globals())
