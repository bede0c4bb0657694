package dtypes

import (
	"slices"
	"strings"

	"github.com/troupe-run/troupe/graph/tensor"
)

// Only restricts an attribute to one type.
func Only(attr string, dtype tensor.DType) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: {dtype}}
}

// NumbersAndBool restricts an attribute to numbers and bool.
func NumbersAndBool(attr string) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: append(slices.Clone(NumberTypes), tensor.Bool)}
}

// FloatT restricts the attribute T to real floating-point types.
var FloatT = map[string][]tensor.DType{"T": {tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64}}

// Types for GPU rows of ops that rearrange arrays. These rows reuse the CPU's kernels, which know which memory tensors are in. They support
// all types of fixed-size elements. Tensors of int32 that TensorFlow keeps on the host have rows in a separate list.

// Moved are the types in Variables and int32.
var Moved = append(slices.Clone(Variables), tensor.Int32)

var (
	// Int32 is only int32.
	Int32 = []tensor.DType{tensor.Int32}
	// BesideInt32 are all other types. Strings, resources and variants among them are in host memory anyway.
	BesideInt32 = func() (types []tensor.DType) {
		for d := tensor.Invalid; d < tensor.Invalid.Ref(); d++ {
			if d.Valid() && d != tensor.Int32 {
				types = append(types, d)
			}
		}
		return types
	}()
	// Variables are the types of variables on a GPU. As in TensorFlow, int32 is not among them: its variables are in host memory, and an op
	// that uses one runs on a CPU.
	Variables = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16, tensor.Int64,
		tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64, tensor.Bool, tensor.Complex64, tensor.Complex128}
)

// Floats are the floating-point types of kernels on accelerators.
var Floats = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}

// Updated are the types of variables that can be added to.
var Updated = slices.DeleteFunc(slices.Clone(Variables), func(d tensor.DType) bool { return d == tensor.Bool })

// Plain are the types of fixed-size elements except int32.
var Plain = func() (types []tensor.DType) {
	for _, t := range BesideInt32 {
		if t.Size() > 0 {
			types = append(types, t)
		}
	}
	return types
}()

// TypeNames formats the names of dtypes as in messages.
func TypeNames(dtypes []tensor.DType) string {
	names := make([]string, len(dtypes))
	for i, d := range dtypes {
		names[i] = d.String()
	}
	return strings.Join(names, ", ")
}

// realTypes and NumberTypes are the element types of TensorFlow's TF_CALL_REAL_NUMBER_TYPES and
// TF_CALL_NUMBER_TYPES.
var (
	realTypes = []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64,
		tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64}
	NumberTypes = append(realTypes[:len(realTypes):len(realTypes)], tensor.Complex64, tensor.Complex128)
)

// Numbers restricts an attribute to real and complex numbers.
func Numbers(attr string) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: NumberTypes}
}

// Copied restricts an attribute to numbers, bool and strings.
func Copied(attr string) map[string][]tensor.DType {
	return map[string][]tensor.DType{attr: append(slices.Clone(Numbers(attr)[attr]), tensor.Bool, tensor.String)}
}

// Reals restricts an attribute to real numbers.
func Reals(attr string) map[string][]tensor.DType { return map[string][]tensor.DType{attr: realTypes} }
