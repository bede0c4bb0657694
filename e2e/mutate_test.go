package e2e

import (
	"math"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mutate changes a message's bytes at a few places, as a broken or hostile client would. Most results are not valid messages.
func mutate(r *rand.Rand, message []byte) []byte {
	b := append([]byte(nil), message...)
	for range 1 + r.IntN(3) {
		if len(b) == 0 {
			return []byte{byte(r.Uint32())}
		}
		at := r.IntN(len(b))
		switch r.IntN(7) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2: // a large varint
			b = append(b[:at:at], append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, b[at:]...)...)
		case 3: // cut out
			b = append(b[:at:at], b[min(len(b), at+1+r.IntN(16)):]...)
		case 4: // twice
			n := min(len(b)-at, 1+r.IntN(64))
			b = append(b[:at+n:at+n], b[at:]...)
		case 5: // the end is missing
			b = b[:at]
		case 6: // another part of it in between
			from := r.IntN(len(b))
			n := min(len(b)-from, r.IntN(32))
			b = append(b[:at:at], append(append([]byte(nil), b[from:from+n]...), b[at:]...)...)
		}
	}
	return b
}

// distort changes a few fields of a message, which stays valid: names, numbers, lists, dtypes.
func distort(r *rand.Rand, seed proto.Message) proto.Message {
	m := proto.Clone(seed)
	for range 1 + r.IntN(3) {
		distortOne(r, m.ProtoReflect())
	}
	return m
}

// distortOne walks down to a random field that is set and changes it.
func distortOne(r *rand.Rand, m protoreflect.Message) {
	var set []protoreflect.FieldDescriptor
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		set = append(set, f)
		return true
	})
	all := m.Descriptor().Fields()
	if len(set) == 0 || r.IntN(12) == 0 { // perhaps a field that is not set
		if all.Len() == 0 {
			return
		}
		set = []protoreflect.FieldDescriptor{all.Get(r.IntN(all.Len()))}
	} else { // Range has no defined order
		sortFields(set)
	}
	f := set[r.IntN(len(set))]
	switch {
	case r.IntN(15) == 0:
		m.Clear(f)
	case f.IsMap():
		distortMap(r, m.Mutable(f).Map(), f)
	case f.IsList():
		distortList(r, m.Mutable(f).List(), f)
	case f.Message() != nil:
		distortOne(r, m.Mutable(f).Message())
	default:
		m.Set(f, scalar(r, f))
	}
}

func sortFields(fs []protoreflect.FieldDescriptor) {
	for i := range fs {
		for j := i; j > 0 && fs[j].Number() < fs[j-1].Number(); j-- {
			fs[j], fs[j-1] = fs[j-1], fs[j]
		}
	}
}

func distortList(r *rand.Rand, l protoreflect.List, f protoreflect.FieldDescriptor) {
	n := l.Len()
	if n == 0 || r.IntN(5) == 0 {
		if f.Message() != nil {
			distortOne(r, l.AppendMutable().Message())
		} else {
			l.Append(scalar(r, f))
		}
		return
	}
	i, j := r.IntN(n), r.IntN(n)
	switch r.IntN(5) {
	case 0: // twice
		if f.Message() != nil {
			proto.Merge(l.AppendMutable().Message().Interface(), l.Get(i).Message().Interface())
		} else {
			l.Append(l.Get(i))
		}
	case 1: // in another order
		a, b := l.Get(i), l.Get(j)
		l.Set(i, b)
		l.Set(j, a)
	case 2: // without the last
		l.Truncate(n - 1)
	default:
		if f.Message() != nil {
			distortOne(r, l.Get(i).Message())
		} else {
			l.Set(i, scalar(r, f))
		}
	}
}

func distortMap(r *rand.Rand, m protoreflect.Map, f protoreflect.FieldDescriptor) {
	least, n := "", 0
	pick := r.IntN(max(m.Len(), 1))
	var keys []string
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k.String())
		return true
	})
	for range keys { // the pick-th in order
		var next string
		found := false
		for _, k := range keys {
			if (n == 0 || k > least) && (!found || k < next) {
				next, found = k, true
			}
		}
		least = next
		if n == pick {
			break
		}
		n++
	}
	if f.MapKey().Kind() != protoreflect.StringKind || len(keys) == 0 {
		return
	}
	key := protoreflect.ValueOfString(least).MapKey()
	if r.IntN(4) == 0 || f.MapValue().Message() == nil {
		m.Clear(key)
		return
	}
	distortOne(r, m.Mutable(key).Message())
}

// texts replace names, devices and ops.
var texts = []string{"", "two", "two:0", "two:1", "two:-1", "^two", "^", ":", "end", "end:0", "x", "x:0", "sum", "switch:1", "gone", "a b", "_x", "/",
	"/job:ps", "/job:worker/task:9", "/job:ps/device:GPU:0", "/device:CPU:*", "NoOp", "Neg", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Switch",
	"VariableV2", "Assign", "VarHandleOp", "ReadVariableOp", "Const", "Fill", "Reshape", "Concat", "While", "If", "PartitionedCall", "negative",
	"_Send", "_Recv", "_Arg", "_Retval", "Placeholder", "MatMul", "T", "dtype", "\x00", "é", "loc:@two", "loc:@gone"}

func scalar(r *rand.Rand, f protoreflect.FieldDescriptor) protoreflect.Value {
	numbers := []int64{0, 1, -1, 2, 7, 100, 1 << 20, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 40, math.MaxInt64, math.MinInt64}
	n := numbers[r.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(135) - 2))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(texts[r.IntN(len(texts))]))
	default:
		return protoreflect.ValueOfString(texts[r.IntN(len(texts))])
	}
}
