package math

import (
	"math"
	"unsafe"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
)

func castTypes(src, dst tensor.DType) map[string][]tensor.DType {
	return map[string][]tensor.DType{"SrcT": {src}, "DstT": {dst}}
}

// castRows returns the rows of Cast, one for each pair of types.
func castRows() []kernels.Def {
	var casts []kernels.Def
	plain := map[[2]tensor.DType]kernels.Kernel{}
	for _, rows := range []elementwise.UnaryRows{
		castInts[int8](), castInts[int16](), castInts[int32](), castInts[int64](),
		castInts[uint8](), castInts[uint16](), castInts[uint32](), castInts[uint64](),
		castFloat32(), castFloat64(), castHalves[element.Float16](), castHalves[element.BFloat16](),
		castBools(), castComplex64(), castComplex128(),
	} {
		for _, row := range rows {
			if row.In != row.Out {
				k := elementwise.UnaryKernel{UnaryRow: row, Grain: element.CheapGrain}
				plain[[2]tensor.DType{row.In.DType, row.Out.DType}] = &k
				casts = append(casts, kernels.Def{Types: castTypes(row.In.DType, row.Out.DType), New: (&castKernel{plain: k}).construct})
			}
		}
		same := rows[0].In.DType
		casts = append(casts, kernels.Def{Types: castTypes(same, same), New: kernels.Always(castToSame)})
	}
	return append(casts, smallCasts(plain)...)
}

func castToSame(ctx *kernels.Context) error {
	ctx.SetOutput(0, ctx.Input(0).Retain())
	return nil
}

// castKernel is a cast between two types.
type castKernel struct{ plain elementwise.UnaryKernel }

// mantissa holds the number of fraction bits of each float type. The attribute Truncate cuts by their difference.
var mantissa = map[tensor.DType]int{
	tensor.Float64: 52, tensor.Complex128: 52, tensor.Float32: 23, tensor.Complex64: 23, tensor.Float16: 10, tensor.BFloat16: 7,
	tensor.Float8E4M3FN: 3, tensor.Float8E5M2: 2,
}

// cutBits returns how many low bits of the source's fraction a cast clears first: by the attribute Truncate, a cast to a narrower float type
// cuts the fraction rather than rounding it. The attribute has no effect on other pairs of types.
func cutBits(c *kernels.Construction, src, dst tensor.DType) (int, error) {
	truncate, err := c.Attrs().Bool("Truncate")
	from, to := mantissa[src], mantissa[dst]
	if err != nil || !truncate || from == 0 || to == 0 {
		return 0, err
	}
	return max(0, from-to), nil
}

func (k *castKernel) construct(c *kernels.Construction) (any, error) {
	bits, err := cutBits(c, k.plain.In.DType, k.plain.Out.DType)
	if err != nil || bits == 0 {
		return &k.plain, err
	}
	cut := k.plain
	cut.UnaryRow = clearLowBits(cut.UnaryRow, bits)
	return &cut, nil
}

// clearLowBits makes a cast clear the low bits of the source's fraction first.
func clearLowBits(row elementwise.UnaryRow, bits int) elementwise.UnaryRow {
	return lowBitClearers[row.In.DType](row, bits)
}

// lowBitClearers holds a function that clears low bits for each type that can be cast to one with a shorter fraction.
var lowBitClearers = map[tensor.DType]func(row elementwise.UnaryRow, bits int) elementwise.UnaryRow{
	tensor.Float64: beforeCast(clear64),
	tensor.Float32: beforeCast(clear32),
	tensor.Complex128: beforeCast(func(dst, a []complex128, bits int) {
		clear64(floatsOf[float64](dst), floatsOf[float64](a), bits)
	}),
	tensor.Complex64: beforeCast(func(dst, a []complex64, bits int) {
		clear32(floatsOf[float32](dst), floatsOf[float32](a), bits)
	}),
	tensor.Float16: beforeCast(clearHalves[element.Float16](0x7c00)),
}

func beforeCast[T any](clear func(dst, a []T, bits int)) func(row elementwise.UnaryRow, bits int) elementwise.UnaryRow {
	return func(row elementwise.UnaryRow, bits int) elementwise.UnaryRow {
		return after(func(dst, a []T) { clear(dst, a, bits) }, row)
	}
}

// floatsOf views complex numbers as pairs of floats.
func floatsOf[F element.Floating, C element.ComplexNum](c []C) []F {
	return unsafe.Slice((*F)(unsafe.Pointer(unsafe.SliceData(c))), 2*len(c))
}

// The functions that clear bits leave NaNs as they are, since one without its low bits may be an infinity.

func clear64(dst, a []float64, bits int) {
	for i, v := range a {
		if v == v {
			v = math.Float64frombits(math.Float64bits(v) >> bits << bits)
		}
		dst[i] = v
	}
}

func clear32(dst, a []float32, bits int) {
	for i, v := range a {
		if v == v {
			v = math.Float32frombits(math.Float32bits(v) >> bits << bits)
		}
		dst[i] = v
	}
}

func clearHalves[H element.HalfFloat](infinity H) func(dst, a []H, bits int) {
	return func(dst, a []H, bits int) {
		for i, v := range a {
			if v&0x7fff <= infinity {
				v = v >> bits << bits
			}
			dst[i] = v
		}
	}
}

// after returns a row that applies f, then the function of row.
func after[S, M any](f func(dst []M, a []S), row elementwise.UnaryRow) elementwise.UnaryRow {
	middle := elementwise.ElemOf[M]()
	return elementwise.UnaryRow{In: elementwise.ElemOf[S](), Out: row.Out, Each: func(dst, a unsafe.Pointer, n int) {
		block := middle.Block()
		defer middle.Blocks.Put(block)
		src := unsafe.Slice((*S)(a), n)
		for i := 0; i < n; i += element.BlockLen {
			m := min(element.BlockLen, n-i)
			f(unsafe.Slice((*M)(block), m), src[i:i+m])
			row.Each(row.Out.At(dst, i), block, m)
		}
	}}
}
