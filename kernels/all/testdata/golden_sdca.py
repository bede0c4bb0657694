"""Writes golden_sdca.gz, as golden.py does: python golden_sdca.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden

f32, i64 = np.float32, np.int64
LOSSES = ['logistic_loss', 'squared_loss', 'hinge_loss', 'smooth_hinge_loss', 'poisson_loss']

def at(*rows): return np.array(rows, i64)
def floats(*v): return np.array(v, f32)

def sdca(sparse=(), dense=(), weights=floats(1), labels=floats(1), state=None, version='', valued=None, **kw):
    """A batch of groups: sparse ones are of example indices, feature indices, values, indices and weights; dense ones of features and weights."""
    if only and not any('SdcaOptimizer'.startswith(p) for p in only): return
    valued = len(sparse) if valued is None else valued
    state = np.zeros((len(weights), 4), f32) if state is None else state
    n, d = len(sparse), len(dense)
    arrays = [g[0] for g in sparse] + [g[1] for g in sparse] + [g[2] for g in sparse[:valued]] + [g[0] for g in dense] + [weights, labels]
    arrays += [g[3] for g in sparse] + [g[4] for g in sparse] + [g[1] for g in dense] + [state]
    kw = {**dict(loss_type='squared_loss', l1=.01, l2=.5, num_loss_partitions=1, num_inner_iterations=1), **kw}
    kw['adaptive' if version else 'adaptative'] = kw.pop('adaptive', False)
    with tf.Graph().as_default() as g, tf.device('/cpu:0'):
        ph = [tf.compat.v1.placeholder(a.dtype) for a in arrays]
        rest = iter(ph)
        take = lambda k: [next(rest) for _ in range(k)]
        out = getattr(R, 'SdcaOptimizer' + version)(
            sparse_example_indices=take(n), sparse_feature_indices=take(n), sparse_feature_values=take(valued), dense_features=take(d), example_weights=next(rest), example_labels=next(rest),
            sparse_indices=take(n), sparse_weights=take(n), dense_weights=take(d), example_state_data=next(rest), **kw)
        node = out[0].op
        code, msg, vals = 0, '', []
        try:
            # The op writes over its input.
            with tf.compat.v1.Session(graph=g) as s: vals = s.run(list(node.outputs), {p: a.copy() for p, a in zip(ph, arrays)})
        except tf.errors.OpError as e:
            code, msg = e.error_code, e.message.split('\n')[0]
            if msg.startswith('Graph execution error'): msg = e.message.split('Node: ')[1].split('\n')[1]
    write(node.node_def, arrays, vals, code, msg, [t.dtype for t in node.outputs])

# Groups of one example, and of three that share no feature, so that their order does not matter.
ONE = at(0, 0, 0), at(7, 3, 11), floats(.5, -2, 1), at(3, 7, 9, 11), floats(.2, -.3, 0, 4)
THREE = at(0, 0, 1, 2), at(7, 3, 11, 9), floats(.5, -2, 1, .1), at(3, 7, 9, 11), floats(.2, -.3, 0, .005)
DENSE = floats(.3, -1.5, .02).reshape(1, 3), floats(.1, -.2, .003)

def section_sdca():
    for loss in LOSSES:
        for label in (0, 1):
            for version in ('', 'V2'):
                for weight in (1, .25, 3):
                    kw = dict(loss_type=loss, version=version, labels=floats(label), weights=floats(weight))
                    sdca([ONE], [DENSE], **kw); sdca([ONE, ONE], [], valued=1, **kw); sdca([], [DENSE, DENSE], num_loss_partitions=3, **kw)
                    for dual in (-.5, .3, .9, 1.5): sdca([ONE], [DENSE], state=floats(dual, 1, 2, 3).reshape(1, 4), l1=0., num_loss_partitions=2, **kw)
            sdca([THREE], [], weights=floats(1, 2, .5), labels=floats(label, 1, 0), loss_type=loss, state=arr(f32, (3, 4), 0, 1))
            sdca([THREE], [], valued=0, weights=floats(1, 2, .5), labels=floats(label, 1, 0), loss_type=loss)
        sdca([ONE], [DENSE], adaptive=True, loss_type=loss)
        for label in (.5, -1): sdca([ONE], [DENSE], loss_type=loss, labels=floats(label))
    sdca([(at(), at(), floats(), at(3), floats(1))], []); sdca([THREE], [], weights=floats(), labels=floats())
    sdca([(at(0, 0, 5, 0), at(7, 3, 11, 9), floats(.5, -2, 1, 1), *ONE[3:])], [])
    # What does not fit.
    sdca([(ONE[0][:2], *ONE[1:])], []); sdca([(ONE[0], at(7, 3, 12), *ONE[2:])], []); sdca([(ONE[0], at(7, 3, 7), *ONE[2:])], [])
    sdca([ONE], [], labels=floats(1, 2)); sdca([ONE], [], state=floats(1, 2, 3, 4)); sdca([ONE], [], state=np.zeros((2, 4), f32)); sdca([ONE], [], state=np.zeros((1, 3), f32))
    sdca([], [(DENSE[0], floats(1, 2))]); sdca([], [(floats(1, 2, 3), DENSE[1])]); sdca([], [(np.zeros((1, 0), f32), floats())])
    case('SdcaFprint', np.array([b'', b'a', b'abc', b'x' * 15, b'x' * 16, b'y' * 17, b'z' * 63, b'z' * 64, b'w' * 127, b'w' * 128, b'v' * 129, b'u' * 1000], object))
    case('SdcaFprint', np.array([], object)); case('SdcaFprint', np.array(b'a', object)); case('SdcaFprint', np.array([[b'a']], object))

if __name__ == '__main__': golden.main(globals())
