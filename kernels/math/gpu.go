package math

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/elementwise"
	"github.com/troupe-run/troupe/kernels/internal/launch"
	"github.com/troupe-run/troupe/kernels/internal/layout"
	"github.com/troupe-run/troupe/kernels/internal/reduce"
	"github.com/troupe-run/troupe/kernels/internal/update"
)

func addCastGPU(table *kernels.Table) {
	for _, from := range castNumbers {
		table.Add(kernels.Def{Op: "Cast", Device: "GPU", Types: castTypes(from, from), New: kernels.Always(castToSame)})
		for number, to := range castNumbers {
			if from == to {
				continue
			}
			general := gpuCast{elementwise.GPUKernel{Function: "cast_from_" + launch.Suffixes[from], In: from, Out: to}, []uint64{uint64(number), 0}}
			usual := general
			for _, own := range castFunctions[from] {
				if own == to {
					usual = gpuCast{elementwise.GPUKernel{Function: "cast_" + launch.Suffixes[from] + "_" + launch.Suffixes[to], In: from, Out: to}, nil}
				}
			}
			table.Add(kernels.Def{Op: "Cast", Device: "GPU", Types: castTypes(from, to), New: func(c *kernels.Construction) (any, error) {
				truncate, err := c.Attrs().Bool("Truncate")
				if bits := mantissa[from] - mantissa[to]; truncate && mantissa[to] > 0 && bits > 0 {
					return &gpuCast{general.GPUKernel, []uint64{uint64(number), uint64(bits)}}, err
				}
				return &usual, err
			}})
		}
	}
}

func addSelectGPU(table *kernels.Table) {
	selectOnGPU(table)
	for _, t := range append(launch.Exactly(tensor.Int8, tensor.Int16, tensor.Int64, tensor.Uint8, tensor.Uint16), launch.Reals...) {
		table.Add(elementwise.RowOnGPU("ClipByValue", "T", t.DType, &gpuClip{elementwise.GPUKernel{Function: "clip_" + t.Suffix, In: t.DType, Out: t.DType}}))
	}
	for _, t := range append(launch.Integers, launch.Reals...) {
		for _, op := range []string{"AddN", "AccumulateNV2"} {
			table.Add(elementwise.RowOnGPU(op, "T", t.DType, &gpuAddN{elementwise.GPUKernel{Function: "addn_" + t.Suffix, In: t.DType, Out: t.DType}}))
		}
	}

}

// addElementwiseGPU registers the elementwise ops of GPUs. Floats compute as on the CPU; halves compute in float32 and round at the end.
// Integer arithmetic reports no errors, as on TensorFlow's GPUs: a quotient by zero is -1 or, for unsigned types, all ones; a remainder by
// zero is the dividend; negative powers are 0, except those of 1 and -1.
func addElementwiseGPU(table *kernels.Table) {
	elementwise.UnaryOnGPU(table, "Neg", "neg", launch.Reals, launch.Sized(tensor.Int8, tensor.Int16, tensor.Int64))
	elementwise.UnaryOnGPU(table, "Abs", "abs", launch.Reals, launch.Signed)
	elementwise.UnaryOnGPU(table, "Square", "square", launch.Reals, launch.Integers)
	elementwise.UnaryOnGPU(table, "Sign", "sign", launch.Reals, launch.Signed)
	elementwise.UnaryOnGPU(table, "Reciprocal", "reciprocal", launch.Reals)
	elementwise.UnaryOnGPU(table, "Inv", "reciprocal", launch.Reals)
	elementwise.UnaryOnGPU(table, "Invert", "invert", launch.Bits)
	for op, function := range map[string]string{
		"Sqrt": "sqrt", "Rsqrt": "rsqrt", "Floor": "floor", "Ceil": "ceil", "Rint": "rint", "Round": "rint",
		"Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1p": "log1p", "Sin": "sin", "Cos": "cos", "Tan": "tan",
		"Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh",
		"Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Sigmoid": "sigmoid", "Erf": "erf", "Erfc": "erfc",
		"Erfinv": "erfinv", "Lgamma": "lgamma", "Digamma": "digamma",
	} {
		elementwise.UnaryOnGPU(table, op, function, launch.Reals)
	}
	elementwise.TestOnGPU(table, "IsNan", "isnan")
	elementwise.TestOnGPU(table, "IsInf", "isinf")
	elementwise.TestOnGPU(table, "IsFinite", "isfinite")

	for op, function := range map[string]string{
		"TanhGrad": "tanhgrad", "SigmoidGrad": "sigmoidgrad",
		"SqrtGrad": "sqrtgrad", "RsqrtGrad": "rsqrtgrad", "ReciprocalGrad": "reciprocalgrad", "InvGrad": "reciprocalgrad",
	} {
		elementwise.GradOnGPU(table, op, function)
	}
	for _, op := range []string{"Add", "AddV2"} {
		elementwise.BinaryOnGPU(table, op, "add", launch.Reals, launch.Integers)
	}
	elementwise.BinaryOnGPU(table, "Sub", "sub", launch.Reals, launch.Integers)
	elementwise.BinaryOnGPU(table, "Mul", "mul", launch.Reals, launch.Integers)
	elementwise.BinaryOnGPU(table, "RealDiv", "div", launch.Reals)
	elementwise.BinaryOnGPU(table, "Div", "div", launch.Reals, launch.Divided)
	elementwise.BinaryOnGPU(table, "Maximum", "maximum", launch.Reals, launch.Signed, launch.Unsigned)
	elementwise.BinaryOnGPU(table, "Minimum", "minimum", launch.Reals, launch.Signed, launch.Unsigned)
	elementwise.BinaryOnGPU(table, "SquaredDifference", "squareddifference", launch.Reals, launch.Sized(tensor.Int8, tensor.Int16, tensor.Int64))
	elementwise.SinglyOnGPU(table, "TruncateDiv", "div", launch.Divided)
	elementwise.SinglyOnGPU(table, "FloorDiv", "floordiv", launch.Reals, launch.Divided)
	elementwise.SinglyOnGPU(table, "Mod", "mod", launch.Reals, launch.Divided)
	elementwise.SinglyOnGPU(table, "TruncateMod", "mod", launch.Reals, launch.Divided)
	elementwise.SinglyOnGPU(table, "FloorMod", "floormod", launch.Reals, launch.Divided)
	elementwise.SinglyOnGPU(table, "MulNoNan", "mulnonan", launch.Reals)
	elementwise.SinglyOnGPU(table, "DivNoNan", "divnonan", launch.Reals)
	elementwise.SinglyOnGPU(table, "Xdivy", "xdivy", launch.Reals)
	elementwise.SinglyOnGPU(table, "Xlogy", "xlogy", launch.Reals)
	elementwise.SinglyOnGPU(table, "Xlog1py", "xlog1py", launch.Reals)
	elementwise.SinglyOnGPU(table, "Pow", "pow", launch.Reals, launch.Exactly(tensor.Int64))
	elementwise.SinglyOnGPU(table, "Atan2", "atan2", launch.Reals)
	elementwise.SinglyOnGPU(table, "NextAfter", "nextafter", launch.Reals[:2])

	elementwise.CompareOnGPU(table, "Less", "less", false, launch.Reals, launch.Signed, launch.Unsigned)
	elementwise.CompareOnGPU(table, "LessEqual", "lessequal", false, launch.Reals, launch.Signed, launch.Unsigned)
	elementwise.CompareOnGPU(table, "Greater", "less", true, launch.Reals, launch.Signed, launch.Unsigned)
	elementwise.CompareOnGPU(table, "GreaterEqual", "lessequal", true, launch.Reals, launch.Signed, launch.Unsigned)
	elementwise.EqualOnGPU(table, "Equal", "equal", false, launch.Reals, launch.Integers, launch.Bool)
	elementwise.EqualOnGPU(table, "NotEqual", "notequal", true, launch.Reals, launch.Integers, launch.Bool)

	elementwise.BinaryOnGPU(table, "BitwiseAnd", "bitwiseand", launch.Bits)
	elementwise.BinaryOnGPU(table, "BitwiseOr", "bitwiseor", launch.Bits)
	elementwise.BinaryOnGPU(table, "BitwiseXor", "bitwisexor", launch.Bits)
	for op, function := range map[string]string{"LeftShift": "leftshift", "RightShift": "rightshift"} {
		elementwise.BinaryOnGPU(table, op, function, launch.Signed, launch.Unsigned, launch.Exactly(tensor.Int32))
	}

	logical := func(op string, k kernels.Kernel) {
		table.Add(kernels.Def{Op: op, Device: "GPU", New: func(*kernels.Construction) (any, error) { return k, nil }})
	}
	logical("LogicalNot", &elementwise.GPUUnary{GPUKernel: elementwise.GPUKernel{Function: "not_b", In: tensor.Bool, Out: tensor.Bool}, More: nil})
	for op, function := range map[string]string{"LogicalAnd": "logicaland_b", "LogicalOr": "logicalor_b"} {
		logical(op, &elementwise.GPUBinary{GPUKernel: elementwise.GPUKernel{Function: function, In: tensor.Bool, Out: tensor.Bool}, Pack: launch.PackOf(tensor.Bool)})
	}

	table.OnHost("T", dtypes.Int32,
		"Abs", "Neg", "Sign", "Square", "Add", "AddV2", "AddN", "Sub", "Mul", "Div", "FloorDiv", "FloorMod", "Mod", "TruncateMod", "SquaredDifference",
		"Maximum", "Minimum", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "ClipByValue", "Sum", "Prod", "Max", "Min",
		"TruncateDiv", "Pow")
}

func addReduceGPU(table *kernels.Table) {
	numbers := append(dtypes.Floats[:len(dtypes.Floats):len(dtypes.Floats)], tensor.Int64)
	gpuReductionRows(table, "Sum", reduce.GPUReduction{First: "reduce_sum", Then: "reduce_sum", Widens: true}, numbers...)
	gpuReductionRows(table, "Mean", reduce.GPUReduction{First: "reduce_sum", Then: "reduce_sum", Widens: true, Finish: reduce.FinishMean}, numbers...)
	gpuReductionRows(table, "Prod", reduce.GPUReduction{First: "reduce_prod", Then: "reduce_prod", Widens: true}, numbers...)
	gpuReductionRows(table, "Max", reduce.GPUReduction{First: "reduce_max", Then: "reduce_max"}, numbers...)
	gpuReductionRows(table, "Min", reduce.GPUReduction{First: "reduce_min", Then: "reduce_min"}, numbers...)
	gpuReductionRows(table, "EuclideanNorm", reduce.GPUReduction{First: "reduce_squares", Then: "reduce_sum", Widens: true, Finish: reduce.FinishRoot}, numbers...)
	gpuReductionRows(table, "All", reduce.GPUReduction{First: "reduce_all", Then: "reduce_all"}, tensor.Bool)
	gpuReductionRows(table, "Any", reduce.GPUReduction{First: "reduce_any", Then: "reduce_any"}, tensor.Bool)
}

func addScanGPU(table *kernels.Table) {
	types := append(dtypes.Floats[:len(dtypes.Floats):len(dtypes.Floats)], tensor.Int32, tensor.Int64)
	table.Add(
		kernels.Def{Op: "Cumsum", Device: "GPU", Types: map[string][]tensor.DType{"T": types}, HostInputs: []string{"axis"}, New: newGPUScan("scan_sum")},
		kernels.Def{Op: "Cumprod", Device: "GPU", Types: map[string][]tensor.DType{"T": types}, HostInputs: []string{"axis"}, New: newGPUScan("scan_prod")})
	for _, dtype := range append(types, tensor.Uint8, tensor.Bool) {
		for _, index := range []tensor.DType{tensor.Int32, tensor.Int64} {
			for op, function := range map[string]string{"ArgMax": "arg_max", "ArgMin": "arg_min"} {
				table.Add(kernels.Def{Op: op, Device: "GPU", Types: map[string][]tensor.DType{"T": {dtype}, "output_type": {index}},
					HostInputs: []string{"dimension"}, New: kernels.Always(gpuArg(function, dtype, index))})
			}
		}
	}
}

func addSegmentGPU(table *kernels.Table) {
	for _, dtype := range update.Scattered {
		row := func(op string, f kernels.Func, host string) {
			table.Add(kernels.Def{Op: op, Device: "GPU", Types: dtypes.Only("T", dtype), HostInputs: []string{host}, New: kernels.Always(f)})
		}
		row("SegmentSum", gpuSegment("segment_sum", dtype, 0, false), "segment_ids")
		row("SegmentMean", gpuSegment("segment_sum", dtype, 0, true), "segment_ids")
		row("SegmentProd", gpuSegment("segment_prod", dtype, 1, false), "segment_ids")
		row("SegmentMin", gpuSegment("segment_min", dtype, 0, false), "segment_ids")
		row("SegmentMax", gpuSegment("segment_max", dtype, 0, false), "segment_ids")
		least, greatest := ends(dtype)
		wide := dtype
		if dtype == tensor.Float16 || dtype == tensor.BFloat16 {
			wide = tensor.Float32
		}
		one, err := layout.OneOf(wide)
		if err != nil {
			panic(err)
		}
		zeros, err := tensor.Zeros(tensor.Host, wide, nil)
		if err != nil {
			panic(err)
		}
		row("UnsortedSegmentSum", gpuUnsortedSegment(update.Add, dtype, zeros), "num_segments")
		row("UnsortedSegmentProd", gpuUnsortedSegment(update.Mul, dtype, one), "num_segments")
		row("UnsortedSegmentMax", gpuUnsortedSegment(update.Max, dtype, least), "num_segments")
		row("UnsortedSegmentMin", gpuUnsortedSegment(update.Min, dtype, greatest), "num_segments")
	}
}
