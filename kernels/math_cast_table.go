package kernels

import (
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
)

func init() {
	sources := []unaryRows{
		castInts[int8](), castInts[int16](), castInts[int32](), castInts[int64](),
		castInts[uint8](), castInts[uint16](), castInts[uint32](), castInts[uint64](),
		castFloats[float32](), castFloats[float64](), castHalfs[float16](), castHalfs[bfloat16](),
		castBools(), castComplex64(), castComplex128(),
	}
	plain := map[[2]tensor.DType]Kernel{}
	for _, rows := range sources {
		for _, row := range rows {
			if row.in != row.out {
				plain[[2]tensor.DType{row.in.dtype, row.out.dtype}] = &unaryKernel{row, cheapGrain}
				registerCast(row.in.dtype, row.out.dtype, &castKernel{plain: unaryKernel{row, cheapGrain}})
			}
		}
		same := rows[0].in.dtype
		Register(Def{Op: "Cast", Types: castTypes(same, same), New: func(*Construction) (any, error) { return Func(castToSame), nil }})
	}
	registerSmallCasts(plain)
}

func castTypes(src, dst tensor.DType) map[string][]tensor.DType {
	return map[string][]tensor.DType{"SrcT": {src}, "DstT": {dst}}
}

func registerCast(src, dst tensor.DType, k *castKernel) {
	Register(Def{Op: "Cast", Types: castTypes(src, dst), New: k.construct})
}

func castToSame(ctx *Context) error {
	ctx.SetOutput(0, ctx.Input(0).Retain())
	return nil
}

// castKernel is a cast between two types.
type castKernel struct{ plain unaryKernel }

// mantissa is the bits of a float's fraction, by which the attribute Truncate cuts.
var mantissa = map[tensor.DType]int{
	tensor.Float64: 52, tensor.Complex128: 52, tensor.Float32: 23, tensor.Complex64: 23, tensor.Float16: 10, tensor.BFloat16: 7,
}

// construct picks the function for the attribute Truncate: with it, floats are cut rather than
// rounded to a narrower type. It says nothing about other pairs of types.
func (k *castKernel) construct(c *Construction) (any, error) {
	truncate, err := c.Attrs().Bool("Truncate")
	if err != nil {
		return nil, err
	}
	from, to := mantissa[k.plain.in.dtype], mantissa[k.plain.out.dtype]
	if !truncate || from == 0 || to == 0 || from <= to {
		return &k.plain, nil
	}
	cut := k.plain
	cut.unaryRow = clearLowBits(cut.unaryRow, from-to)
	return &cut, nil
}

// clearLowBits precedes a cast by clearing the low bits of the source's fraction.
func clearLowBits(row unaryRow, bits int) unaryRow {
	switch row.in.dtype {
	case tensor.Float64:
		return after(func(dst, a []float64) { clear64(dst, a, bits) }, row)
	case tensor.Complex128:
		return after(func(dst, a []complex128) {
			clear64(floatsOf[float64](dst), floatsOf[float64](a), bits)
		}, row)
	case tensor.Complex64:
		return after(func(dst, a []complex64) {
			clear32(floatsOf[float32](dst), floatsOf[float32](a), bits)
		}, row)
	case tensor.Float32:
		return after(func(dst, a []float32) { clear32(dst, a, bits) }, row)
	}
	return after(func(dst, a []float16) {
		for i, v := range a {
			dst[i] = v >> bits << bits
		}
	}, row)
}

// floatsOf views complex numbers as their parts.
func floatsOf[F floating, C complexNum](c []C) []F {
	return unsafe.Slice((*F)(unsafe.Pointer(unsafe.SliceData(c))), 2*len(c))
}

func clear64(dst, a []float64, bits int) {
	for i, v := range a {
		dst[i] = math.Float64frombits(math.Float64bits(v) >> bits << bits)
	}
}

func clear32(dst, a []float32, bits int) {
	for i, v := range a {
		dst[i] = math.Float32frombits(math.Float32bits(v) >> bits << bits)
	}
}

// after is a row that applies f before another row's function.
func after[S, M any](f func(dst []M, a []S), row unaryRow) unaryRow {
	middle := elemOf[M]()
	return unaryRow{in: elemOf[S](), out: row.out, each: func(dst, a unsafe.Pointer, n int) {
		block := middle.block()
		defer middle.blocks.Put(block)
		src := unsafe.Slice((*S)(a), n)
		for i := 0; i < n; i += blockLen {
			m := min(blockLen, n-i)
			f(unsafe.Slice((*M)(block), m), src[i:i+m])
			row.each(row.out.at(dst, i), block, m)
		}
	}}
}
