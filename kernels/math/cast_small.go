package math

import (
	"math"
	"slices"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/element"
)

// These casts convert the types that only Cast supports: quantized types, which are stored as plain integers, 4-bit integers and 8-bit
// floats. They go through a type that other kernels support.

// smallType is such a type. As a source it is widened to a plain type; as a destination it is narrowed from one.
type smallType struct {
	from, to tensor.DType
	widen    func(ctx *kernels.Context, dst, src *tensor.Tensor)
	narrow   func(ctx *kernels.Context, dst, src *tensor.Tensor)
	// sources are the plain types that can be cast to it, destinations those that it can be cast to.
	sources, destinations []tensor.DType
}

var (
	plainInts   = []tensor.DType{tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	plainFloats = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}
	plainCasts  = slices.Concat(plainInts, plainFloats, []tensor.DType{tensor.Bool, tensor.Complex64, tensor.Complex128})
)

func smallTypes() map[tensor.DType]smallType {
	types := map[tensor.DType]smallType{}
	for quantized, plain := range map[tensor.DType]tensor.DType{
		tensor.QInt8: tensor.Int8, tensor.QUint8: tensor.Uint8, tensor.QInt16: tensor.Int16, tensor.QUint16: tensor.Uint16, tensor.QInt32: tensor.Int32,
	} {
		same := func(_ *kernels.Context, dst, src *tensor.Tensor) { copy(dst.Data(), src.Data()) }
		types[quantized] = smallType{plain, plain, same, same, plainCasts, plainCasts}
	}
	types[tensor.Int4] = smallType{tensor.Int8, tensor.Int8, eachByte(func(b uint8) uint8 { return uint8(int8(b<<4) >> 4) }), eachByte(lowBits), plainInts, plainInts}
	types[tensor.Uint4] = smallType{tensor.Uint8, tensor.Uint8, eachByte(lowBits), eachByte(lowBits), plainInts, plainInts}
	// An 8-bit float is rounded once, from float64, which can represent every source.
	e5m2, e4m3 := newFloat8(0x7c, e5m2Value), newFloat8(0x7f, e4m3Value)
	types[tensor.Float8E5M2] = smallType{tensor.Float32, tensor.Float64, e5m2.widen, e5m2.narrow, plainFloats, plainCasts}
	types[tensor.Float8E4M3FN] = smallType{tensor.Float32, tensor.Float64, e4m3.widen, e4m3.narrow, plainFloats, plainCasts}
	return types
}

func lowBits(b uint8) uint8 { return b & 0xf }

func eachByte(f func(uint8) uint8) func(*kernels.Context, *tensor.Tensor, *tensor.Tensor) {
	return func(_ *kernels.Context, dst, src *tensor.Tensor) {
		to := dst.Data()
		for i, b := range src.Data() {
			to[i] = f(b)
		}
	}
}

// smallCast is a cast in up to four steps. Steps that are nil are skipped.
type smallCast struct {
	dtype, dst tensor.DType
	from, to   tensor.DType // the plain types
	cut        func(ctx *kernels.Context, dst, src *tensor.Tensor)
	widen      func(ctx *kernels.Context, dst, src *tensor.Tensor)
	plain      kernels.Kernel
	narrow     func(ctx *kernels.Context, dst, src *tensor.Tensor)
}

func (k *smallCast) Compute(ctx *kernels.Context) error {
	if err := args.CheckType(ctx, 0, k.dtype); err != nil {
		return err
	}
	at := ctx.Input(0).Retain()
	defer func() { at.Release() }()
	step := func(dtype tensor.DType, f func(ctx *kernels.Context, dst, src *tensor.Tensor)) error {
		next, err := tensor.New(ctx.Device.Pool(), dtype, at.Shape())
		if err != nil {
			return err
		}
		f(ctx, next, at)
		at.Release()
		at = next
		return nil
	}
	if k.cut != nil {
		if err := step(k.dtype, k.cut); err != nil {
			return err
		}
	}
	if k.widen != nil {
		if err := step(k.from, k.widen); err != nil {
			return err
		}
	}
	if k.plain != nil {
		sub := *ctx
		sub.Inputs, sub.Outputs = []kernels.Value{{Tensor: at}}, make([]kernels.Value, 1)
		err := k.plain.Compute(&sub)
		if err != nil {
			return err
		}
		at.Release()
		at = sub.Outputs[0].Tensor
	}
	if k.narrow != nil {
		if err := step(k.dst, k.narrow); err != nil {
			return err
		}
	}
	ctx.SetOutput(0, at.Retain())
	return nil
}

// construct adds the step for the attribute Truncate.
func (k *smallCast) construct(c *kernels.Construction) (any, error) {
	bits, err := cutBits(c, k.dtype, k.dst)
	if err != nil || bits == 0 {
		return k, err
	}
	clearer := smallBitClearers[k.dtype]
	cut := *k
	cut.cut = func(_ *kernels.Context, dst, src *tensor.Tensor) { clearer(dst, src, bits) }
	return &cut, nil
}

// smallBitClearers holds a function that clears low bits for each type that can be cast to an 8-bit float with a shorter fraction.
var smallBitClearers = map[tensor.DType]func(dst, src *tensor.Tensor, bits int){
	tensor.Float64:  clearTensor(clear64),
	tensor.Float32:  clearTensor(clear32),
	tensor.Float16:  clearTensor(clearHalves[element.Float16](0x7c00)),
	tensor.BFloat16: clearTensor(clearHalves[element.BFloat16](0x7f80)),
	tensor.Float8E4M3FN: clearTensor(func(dst, a []uint8, bits int) {
		for i, v := range a {
			if v&0x7f != 0x7f {
				v = v >> bits << bits
			}
			dst[i] = v
		}
	}),
}

func clearTensor[T any](clear func(dst, a []T, bits int)) func(dst, src *tensor.Tensor, bits int) {
	return func(dst, src *tensor.Tensor, bits int) { clear(element.ViewOf[T](dst), element.ViewOf[T](src), bits) }
}

// smallCasts returns the casts of types of up to 8 bits. plain holds the kernels of casts between plain types. The last row matches every
// remaining pair and fails.
func smallCasts(plain map[[2]tensor.DType]kernels.Kernel) []kernels.Def {
	var rows []kernels.Def
	types := smallTypes()
	add := func(k *smallCast) {
		k.plain = plain[[2]tensor.DType{k.from, k.to}]
		rows = append(rows, kernels.Def{Types: castTypes(k.dtype, k.dst), New: k.construct})
	}
	for a, s := range types {
		for _, d := range s.destinations {
			add(&smallCast{dtype: a, dst: d, from: s.from, to: d, widen: s.widen})
		}
		for _, d := range s.sources {
			add(&smallCast{dtype: d, dst: a, from: d, to: s.to, narrow: s.narrow})
		}
		for b, t := range types {
			if slices.Contains(s.destinations, t.to) && slices.Contains(t.sources, s.from) {
				add(&smallCast{dtype: a, dst: b, from: s.from, to: t.to, widen: s.widen, narrow: t.narrow})
			}
		}
	}
	return append(rows, kernels.Def{New: func(c *kernels.Construction) (any, error) {
		src, err1 := c.Attrs().Type("SrcT")
		dst, err2 := c.Attrs().Type("DstT")
		return nil, args.FirstError(err1, err2, status.Unimplementedf("Cast %v to %v is not supported", src, dst))
	}})
}

// float8 is an 8-bit float format.
type float8 struct {
	values [256]float32
	// over is the first code beyond the greatest finite number. Values that round to it, or exceed it, become it.
	over uint8
	// next is the number that the code over would have.
	next float64
}

func newFloat8(over uint8, value func(uint8) float32) *float8 {
	f := &float8{over: over}
	for i := range f.values {
		f.values[i] = value(uint8(i))
	}
	f.next = 2*float64(f.values[over-1]) - float64(f.values[over-2])
	return f
}

// e5m2Value returns the value of a code: that of the float16 number whose high byte it is.
func e5m2Value(b uint8) float32 { return element.Float16(uint16(b) << 8).Float() }

// e4m3Value returns the value of a code with 4 exponent bits and 3 fraction bits, in a format without infinities.
func e4m3Value(b uint8) float32 {
	exponent, fraction := int(b>>3&0xf), float64(b&7)
	v := math.Ldexp(8+fraction, exponent-10)
	switch {
	case b&0x7f == 0x7f:
		v = math.NaN()
	case exponent == 0:
		v = math.Ldexp(fraction, -9)
	}
	return float32(math.Copysign(v, 1-float64(b>>7)*2))
}

func (f *float8) widen(_ *kernels.Context, dst, src *tensor.Tensor) {
	to := tensor.Of[float32](dst)
	for i, b := range src.Data() {
		to[i] = f.values[b]
	}
}

func (f *float8) narrow(_ *kernels.Context, dst, src *tensor.Tensor) {
	to := dst.Data()
	for i, v := range tensor.Of[float64](src) {
		to[i] = f.code(v)
	}
}

// code rounds v to the nearest number, and ties to the one with an even code.
func (f *float8) code(v float64) uint8 {
	sign := uint8(0)
	if math.Signbit(v) {
		sign = 0x80
	}
	v = math.Abs(v)
	if v != v {
		return sign | 0x7f
	}
	low, high := 0, int(f.over) // codes up to low are at most v, codes from high on exceed it
	for high-low > 1 {
		if middle := (low + high) / 2; float64(f.values[middle]) <= v {
			low = middle
		} else {
			high = middle
		}
	}
	above := f.next
	if high != int(f.over) {
		above = float64(f.values[high])
	}
	if below := float64(f.values[low]); v-below > above-v || v-below == above-v && low%2 == 1 {
		low = high
	}
	return sign | uint8(low)
}
