package launch

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// PackOf is the elements that a thread of an elementwise function takes at once: PACK in the sources.
func PackOf(d tensor.DType) int {
	return max(1, packs[d])
}

var packs = map[tensor.DType]int{tensor.Float32: 4, tensor.Float16: 4, tensor.BFloat16: 4, tensor.Bool: 8}

// Type is an element type that a device function serves, by the suffix of the function's name.
type Type struct {
	DType  tensor.DType
	Suffix string
}

// Suffixes are how the names of device functions end, after an underscore.
var Suffixes = map[tensor.DType]string{
	tensor.Float32: "f32", tensor.Float64: "f64", tensor.Float16: "f16", tensor.BFloat16: "bf16",
	tensor.Int8: "i8", tensor.Int16: "i16", tensor.Int32: "i32", tensor.Int64: "i64",
	tensor.Uint8: "u8", tensor.Uint16: "u16", tensor.Uint32: "u32", tensor.Uint64: "u64",
	tensor.Bool: "b", tensor.Complex64: "c64", tensor.Complex128: "c128",
}

// Exactly are types with functions of their own.
func Exactly(dtypes ...tensor.DType) []Type {
	var types []Type
	for _, d := range dtypes {
		types = append(types, Type{d, Suffixes[d]})
	}
	return types
}

// Sized are types whose elements are handled as unsigned integers of their size: functions of bits, and
// arithmetic that is the same with and without sign.
func Sized(dtypes ...tensor.DType) []Type {
	var types []Type
	for _, d := range dtypes {
		types = append(types, Type{d, SizeSuffix(d)})
	}
	return types
}

// SizeSuffix is the suffix of functions that handle elements as unsigned integers of their size.
func SizeSuffix(d tensor.DType) string {
	return map[int]string{1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}[d.Size()]
}

// The types that GPUs' rows serve. Int32 is the host's, but for ops on bits, as in TensorFlow.
var (
	Reals    = Exactly(tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16)
	Signed   = Exactly(tensor.Int8, tensor.Int16, tensor.Int64)
	Unsigned = Exactly(tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	Divided  = Exactly(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16)
	Integers = Sized(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	Bits     = append(Sized(tensor.Int32), Integers...)
	Bool     = Exactly(tensor.Bool)
)

// EachDenseType calls register for each type that GPUs have dense layers for.
func EachDenseType(register func(dtype tensor.DType)) {
	for _, t := range Reals {
		register(t.DType)
	}
}
