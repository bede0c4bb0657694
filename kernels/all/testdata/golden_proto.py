"""Writes golden_proto.gz, as golden.py does: python golden_proto.py OUTPUT [OP_PREFIX...]"""
from golden import *
import golden
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

FIELD = descriptor_pb2.FieldDescriptorProto
KINDS = ['double', 'float', 'int64', 'uint64', 'int32', 'fixed64', 'fixed32', 'bool', 'string', 'bytes', 'uint32', 'sfixed32', 'sfixed64', 'sint32', 'sint64']
DEFAULT = dict(bool='true', string='héllo', bytes='\\001x', double='-2.5', float='inf')
TYPES = dict(double=[tf.float64], float=[tf.float32, tf.float64], int64=[tf.int64], uint64=[tf.uint64], int32=[tf.int32, tf.int64], fixed64=[tf.uint64],
             fixed32=[tf.uint32, tf.uint64], bool=[tf.bool], string=[tf.string], bytes=[tf.string], uint32=[tf.uint32, tf.uint64], sfixed32=[tf.int32, tf.int64],
             sfixed64=[tf.int64], sint32=[tf.int32, tf.int64], sint64=[tf.int64])

def schema():
    """A file with a message of all kinds, once, with a default, repeated and packed, an enumeration, a message, a group and an extension."""
    file = descriptor_pb2.FileDescriptorProto(name='golden.proto', package='golden', syntax='proto2')
    color = file.enum_type.add(name='Color')
    for name, number in (('RED', 3), ('GREEN', -7), ('BLUE', 0)): color.value.add(name=name, number=number)
    m = file.message_type.add(name='All')
    m.extension_range.add(start=1000, end=2000)
    number = 0
    def field(name, kind, label='OPTIONAL', **kw):
        nonlocal number
        number += 1
        return m.field.add(name=name, number=number, label=getattr(FIELD, 'LABEL_' + label), type=getattr(FIELD, 'TYPE_' + kind.upper()), **kw)
    for kind in reversed(KINDS):
        field('one_' + kind, kind)
        field('default_' + kind, kind, default_value=DEFAULT.get(kind, '42'))
        field('many_' + kind, kind, 'REPEATED')
        if kind not in ('string', 'bytes'): field('packed_' + kind, kind, 'REPEATED').options.packed = True
    field('one_color', 'enum', type_name='.golden.Color')
    field('default_color', 'enum', type_name='.golden.Color', default_value='BLUE')
    field('many_color', 'enum', 'REPEATED', type_name='.golden.Color')
    field('packed_color', 'enum', 'REPEATED', type_name='.golden.Color').options.packed = True
    field('one_all', 'message', type_name='.golden.All')
    field('many_all', 'message', 'REPEATED', type_name='.golden.All')
    m.nested_type.add(name='Group').field.add(name='x', number=1, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_INT32)
    field('group', 'group', type_name='.golden.All.Group')
    file.extension.add(name='extra', number=1001, label=FIELD.LABEL_REPEATED, type=FIELD.TYPE_INT32, extendee='.golden.All')
    required = file.message_type.add(name='Required')
    required.field.add(name='x', number=1, label=FIELD.LABEL_REQUIRED, type=FIELD.TYPE_INT32)
    return file

FILE = schema()
SET = descriptor_pb2.FileDescriptorSet(file=[FILE])
SOURCE = b'bytes://' + SET.SerializeToString()
POOL = descriptor_pool.DescriptorPool()
POOL.Add(FILE)
All = message_factory.GetMessageClass(POOL.FindMessageTypeByName('golden.All'))

def value(kind):
    if kind in ('double', 'float'): return float(np.float32(rng.normal()))
    if kind == 'bool': return bool(rng.integers(2))
    if kind == 'string': return 'x' * int(rng.integers(4))
    if kind == 'bytes': return bytes(rng.integers(0, 256, rng.integers(5), dtype=np.uint8))
    bits = 64 if '64' in kind else 32
    if kind.startswith(('u', 'fixed')): return [0, 1, 300, 2**bits - 1][rng.integers(4)]
    return [0, 1, -1, 300, -2**(bits - 1), 2**(bits - 1) - 1][rng.integers(6)]

def message(depth=1):
    m = All()
    for kind in KINDS:
        for name in ('one_', 'default_'):
            if rng.random() < .6: setattr(m, name + kind, value(kind))
        for name in ('many_', 'packed_'):
            if hasattr(m, name + kind): getattr(m, name + kind).extend(value(kind) for _ in range(rng.integers(4)))
    if rng.random() < .5: m.one_color = int(rng.choice([3, -7, 0]))
    m.many_color.extend(int(v) for v in rng.choice([3, -7, 0], rng.integers(3)))
    m.packed_color.extend(int(v) for v in rng.choice([3, -7, 0], rng.integers(3)))
    if depth:
        if rng.random() < .5: m.one_all.CopyFrom(message(0))
        for _ in range(rng.integers(3)): m.many_all.add().CopyFrom(message(0))
    if rng.random() < .5: m.group.x = int(rng.integers(-5, 5))
    return m

def strings(*v): return np.array(v, object)
def kind_of(name): return name.split('_')[1]
FIELDS = [(f.name, t) for f in FILE.message_type[0].field
          for t in ([tf.int32] if f.name.endswith('color') else [tf.string] if f.type in (FIELD.TYPE_MESSAGE, FIELD.TYPE_GROUP) else TYPES[kind_of(f.name)])]

def decode(bytes, fields, source=SOURCE, message='golden.All', **kw):
    case('DecodeProtoV2', bytes, message_type=message, field_names=[f for f, _ in fields], output_types=[t for _, t in fields], descriptor_source=source, **kw)

def section_decode():
    messages = [message() for _ in range(6)]
    batch = strings(*[m.SerializeToString(deterministic=True) for m in messages])
    for f in FIELDS: decode(batch, [f])
    for n in (2, 5, 20):
        for _ in range(4):
            some = [FIELDS[i] for i in rng.permutation(len(FIELDS))[:n]]
            names = set()
            some = [f for f in some if f[0] not in names and not names.add(f[0])]
            decode(batch.reshape(2, 3), some); decode(batch, some, sanitize=True)
            decode(strings(*[text_format.MessageToString(m) for m in messages]), some, message_format='text')
            decode(np.array(batch[0], object), some); decode(batch[:0], some)
    decode(batch, [])
    # One kind of writing read as the other, and broken messages.
    one, many = [('one_int32', tf.int64)], [('many_int32', tf.int64)]
    number = {f.name: f.number for f in FILE.message_type[0].field}
    def tag(name, wire):
        t = number[name] << 3 | wire
        return bytes([t & 127 | 128, t >> 7]) if t > 127 else bytes([t])
    negative = b'\xff' * 9 + b'\x01'
    for b in [b'', tag('one_int32', 2) + b'\x02\x05\x07', tag('many_int32', 2) + b'\x0a' + negative, tag('many_int32', 0) + negative, tag('many_int32', 5) + b'abcd',
              tag('one_int32', 0) + b'\x01' + tag('one_int32', 0) + b'\x02', tag('many_int32', 2) + b'\x01\x80', tag('many_int32', 2) + b'\x05\x01', tag('many_int32', 0),
              b'\x07', b'\x00', b'\x04', tag('one_int32', 4), b'\x80', tag('many_int32', 0) + b'\x01' + tag('many_int32', 2) + b'\x02\x02\x03']:
        for f in (one, many): decode(strings(b), f)
    decode(strings(tag('many_float', 2) + b'\x05abcde'), [('many_float', tf.float32)]); decode(strings(tag('many_string', 2) + b'\x05ab'), [('many_string', tf.string)])
    decode(strings(b'\xff\xff'), many, sanitize=True); decode(strings(b'nonsense: 3'), many, message_format='text')
    x = All.FromString(b'\xca\x3e\x03\x01\x02\x03').SerializeToString()
    decode(strings(x, b''), [('golden.extra', tf.int32), ('one_int32', tf.int32)])
    for f in [('no_such', tf.int32), ('one_int32', tf.string), ('one_string', tf.int32), ('one_double', tf.float32), ('many_all', tf.int32), ('one_bytes', tf.float32), ('one_color', tf.int64)]: decode(batch, [f])
    decode(batch, one, message='golden.No'); decode(batch, one, message_format='json'); decode(batch, one, source=b'bytes://nonsense')
    decode(strings(b''), [('x', tf.int32)], message='golden.Required'); decode(strings(b''), [('x', tf.int32)], message='golden.Required', sanitize=True)
    example = tf.train.Example(features=tf.train.Features(feature={'a': tf.train.Feature()})).SerializeToString()
    for source in ('', 'local://'): decode(strings(example), [('features', tf.string)], source=source, message='tensorflow.Example')

def encode(sizes, names, *values, source=SOURCE, message='golden.All'):
    case('EncodeProto', np.array(sizes, np.int32), *values, field_names=names, message_type=message, descriptor_source=source)

def some(t, kind, shape):
    t = t.as_numpy_dtype
    v = np.empty(shape, object)
    for i in np.ndindex(*v.shape): v[i] = value(kind).encode() if kind == 'string' else value(kind)
    return v if t == object else v.astype(t)

def section_encode():
    for f, t in FIELDS:
        if f.endswith('color'): v = rng.choice(np.array([3, -7, 0], np.int32), (3, 2))
        elif f.endswith('all'): v = strings(*[message(0).SerializeToString(deterministic=True) for _ in range(6)]).reshape(3, 2)
        elif f == 'group': v = strings(*[b'\x08\x05'] * 6).reshape(3, 2)
        else: v = some(t, kind_of(f), (3, 2))
        encode([[2], [0], [1]], [f], v)
    big = np.array([[2**40 + 5, -2**35 - 3]])
    for f in ('int32', 'sint32', 'sfixed32'): encode([[2]], ['many_' + f], big)
    for f in ('uint32', 'fixed32'): encode([[2]], ['packed_' + f], big.astype(np.uint64))
    a, b = some(tf.int32, 'int32', (2, 3, 2)), some(tf.string, 'bytes', (2, 3, 1))
    sizes = rng.integers(0, 2, (2, 3, 2))
    encode(sizes, ['many_int32', 'one_bytes'], a, b); encode(sizes[..., ::-1], ['one_bytes', 'many_int32'], b, a)
    encode(sizes[0], ['many_int32', 'one_bytes'], a, b); encode(sizes, ['many_int32', 'one_bytes'], a, b[:1]); encode(sizes + 3, ['many_int32', 'one_bytes'], a, b)
    encode(sizes[..., :1], ['many_int32', 'one_bytes'], a); encode([[1]], ['many_int32'], a[0, 0]); encode([[1]], ['no_such'], a[0, :1]); encode([[1]], ['one_float'], a[0, :1])
    encode([[1]], ['one_int32'], a[0, :1], message='golden.No'); encode(sizes[:0], ['many_int32', 'one_bytes'], a[:0], b[:0]); encode([[1]], ['x'], a[0, :1], message='golden.Required')

if __name__ == '__main__': golden.main(globals())
