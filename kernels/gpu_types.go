package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// gpuType is an element type that a device function serves, by the suffix of the function's name.
type gpuType struct {
	dtype  tensor.DType
	suffix string
}

// suffixes are how the names of device functions end, after an underscore.
var suffixes = map[tensor.DType]string{
	tensor.Float32: "f32", tensor.Float64: "f64", tensor.Float16: "f16", tensor.BFloat16: "bf16",
	tensor.Int8: "i8", tensor.Int16: "i16", tensor.Int32: "i32", tensor.Int64: "i64",
	tensor.Uint8: "u8", tensor.Uint16: "u16", tensor.Uint32: "u32", tensor.Uint64: "u64",
	tensor.Bool: "b", tensor.Complex64: "c64", tensor.Complex128: "c128",
}

// exactly are types with functions of their own.
func exactly(dtypes ...tensor.DType) []gpuType {
	var types []gpuType
	for _, d := range dtypes {
		types = append(types, gpuType{d, suffixes[d]})
	}
	return types
}

// sized are types whose elements are handled as unsigned integers of their size: functions of bits, and
// arithmetic that is the same with and without sign.
func sized(dtypes ...tensor.DType) []gpuType {
	var types []gpuType
	for _, d := range dtypes {
		types = append(types, gpuType{d, sizeSuffix(d)})
	}
	return types
}

func sizeSuffix(d tensor.DType) string {
	return map[int]string{1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "u128"}[d.Size()]
}

// The types that GPUs' rows serve. Int32 is the host's, but for ops on bits, as in TensorFlow.
var (
	gpuReals    = exactly(tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16)
	gpuSigned   = exactly(tensor.Int8, tensor.Int16, tensor.Int64)
	gpuUnsigned = exactly(tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	gpuDivided  = exactly(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16)
	gpuIntegers = sized(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64)
	gpuBits     = append(sized(tensor.Int32), gpuIntegers...)
	gpuBool     = exactly(tensor.Bool)
)

// eachDenseType calls register for each type that GPUs have dense layers for.
func eachDenseType(register func(dtype tensor.DType)) {
	for _, t := range gpuReals {
		register(t.dtype)
	}
}
