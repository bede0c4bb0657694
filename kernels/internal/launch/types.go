package launch

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// PackOf returns the number of elements that a thread of an elementwise function processes at once: PACK in the sources.
func PackOf(d tensor.DType) int {
	return max(1, packs[d])
}

var packs = map[tensor.DType]int{tensor.Float32: 4, tensor.Float16: 4, tensor.BFloat16: 4, tensor.Bool: 8}

// Type is an element type that a device function supports, with the suffix of the function's name.
type Type struct {
	DType  tensor.DType
	Suffix string
}

// Suffixes are the suffixes of device function names, after an underscore.
var Suffixes = map[tensor.DType]string{
	tensor.Float32: "f32", tensor.Float64: "f64", tensor.Float16: "f16", tensor.BFloat16: "bf16",
	tensor.Int8: "i8", tensor.Int16: "i16", tensor.Int32: "i32", tensor.Int64: "i64",
	tensor.Uint8: "u8", tensor.Uint16: "u16", tensor.Uint32: "u32", tensor.Uint64: "u64",
	tensor.Bool: "b", tensor.Complex64: "c64", tensor.Complex128: "c128",
}

// Exactly returns types that have their own functions.
func Exactly(dtypes ...tensor.DType) []Type {
	var types []Type
	for _, d := range dtypes {
		types = append(types, Type{d, Suffixes[d]})
	}
	return types
}

// Sized returns types whose elements are treated as unsigned integers of their size: for functions of bits, and for arithmetic that does
// not depend on the sign.
func Sized(dtypes ...tensor.DType) []Type {
	var types []Type
	for _, d := range dtypes {
		types = append(types, Type{d, SizeSuffix(d)})
	}
	return types
}

// SizeSuffix returns the suffix of functions that treat elements as unsigned integers of their size.
func SizeSuffix(d tensor.DType) string {
	return map[int]string{1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}[d.Size()]
}

// Types supported by the GPU rows. As in TensorFlow, int32 is in host memory, except for ops on bits.
var (
	Reals    = Exactly(tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16)
	Signed   = Exactly(tensor.Int8, tensor.Int16, tensor.Int64)
	Unsigned = Exactly(tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	Divided  = Exactly(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16)
	Integers = Sized(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	Bits     = append(Sized(tensor.Int32), Integers...)
	Bool     = Exactly(tensor.Bool)
)

// EachDenseType calls register for each type that dense layers support on GPUs.
func EachDenseType(register func(dtype tensor.DType)) {
	for _, t := range Reals {
		register(t.DType)
	}
}
