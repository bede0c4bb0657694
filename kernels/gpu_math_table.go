package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The elementwise ops of GPUs: floats compute as on the CPU, halves in float, rounded at the end. Integer
// arithmetic reports nothing, as on TensorFlow's GPUs: what is divided by zero becomes -1 or, of unsigned
// types, all ones; its remainder is itself; and negative powers are 0, but those of 1 and -1.
func init() {
	unaryOnGPU("Neg", "neg", gpuReals, sized(tensor.Int8, tensor.Int16, tensor.Int64))
	unaryOnGPU("Abs", "abs", gpuReals, gpuSigned)
	unaryOnGPU("Square", "square", gpuReals, gpuIntegers)
	unaryOnGPU("Sign", "sign", gpuReals, gpuSigned)
	unaryOnGPU("Reciprocal", "reciprocal", gpuReals)
	unaryOnGPU("Inv", "reciprocal", gpuReals)
	unaryOnGPU("Invert", "invert", gpuBits)
	for op, function := range map[string]string{
		"Sqrt": "sqrt", "Rsqrt": "rsqrt", "Floor": "floor", "Ceil": "ceil", "Rint": "rint", "Round": "rint",
		"Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1p": "log1p", "Sin": "sin", "Cos": "cos", "Tan": "tan",
		"Asin": "asin", "Acos": "acos", "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh",
		"Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh", "Sigmoid": "sigmoid", "Erf": "erf", "Erfc": "erfc",
		"Erfinv": "erfinv", "Lgamma": "lgamma", "Digamma": "digamma",
	} {
		unaryOnGPU(op, function, gpuReals)
	}
	testOnGPU("IsNan", "isnan")
	testOnGPU("IsInf", "isinf")
	testOnGPU("IsFinite", "isfinite")

	for op, function := range map[string]string{
		"TanhGrad": "tanhgrad", "SigmoidGrad": "sigmoidgrad",
		"SqrtGrad": "sqrtgrad", "RsqrtGrad": "rsqrtgrad", "ReciprocalGrad": "reciprocalgrad", "InvGrad": "reciprocalgrad",
	} {
		gradOnGPU(op, function)
	}
	for _, op := range []string{"Add", "AddV2"} {
		binaryOnGPU(op, "add", gpuReals, gpuIntegers)
	}
	binaryOnGPU("Sub", "sub", gpuReals, gpuIntegers)
	binaryOnGPU("Mul", "mul", gpuReals, gpuIntegers)
	binaryOnGPU("RealDiv", "div", gpuReals)
	binaryOnGPU("Div", "div", gpuReals, gpuDivided)
	binaryOnGPU("Maximum", "maximum", gpuReals, gpuSigned, gpuUnsigned)
	binaryOnGPU("Minimum", "minimum", gpuReals, gpuSigned, gpuUnsigned)
	binaryOnGPU("SquaredDifference", "squareddifference", gpuReals, sized(tensor.Int8, tensor.Int16, tensor.Int64))
	singlyOnGPU("TruncateDiv", "div", gpuDivided)
	singlyOnGPU("FloorDiv", "floordiv", gpuReals, gpuDivided)
	singlyOnGPU("Mod", "mod", gpuReals, gpuDivided)
	singlyOnGPU("TruncateMod", "mod", gpuReals, gpuDivided)
	singlyOnGPU("FloorMod", "floormod", gpuReals, gpuDivided)
	singlyOnGPU("MulNoNan", "mulnonan", gpuReals)
	singlyOnGPU("DivNoNan", "divnonan", gpuReals)
	singlyOnGPU("Xdivy", "xdivy", gpuReals)
	singlyOnGPU("Xlogy", "xlogy", gpuReals)
	singlyOnGPU("Xlog1py", "xlog1py", gpuReals)
	singlyOnGPU("Pow", "pow", gpuReals, exactly(tensor.Int64))
	singlyOnGPU("Atan2", "atan2", gpuReals)
	singlyOnGPU("NextAfter", "nextafter", gpuReals[:2])

	compareOnGPU("Less", "less", false, gpuReals, gpuSigned, gpuUnsigned)
	compareOnGPU("LessEqual", "lessequal", false, gpuReals, gpuSigned, gpuUnsigned)
	compareOnGPU("Greater", "less", true, gpuReals, gpuSigned, gpuUnsigned)
	compareOnGPU("GreaterEqual", "lessequal", true, gpuReals, gpuSigned, gpuUnsigned)
	equalOnGPU("Equal", "equal", false, gpuReals, gpuIntegers, gpuBool)
	equalOnGPU("NotEqual", "notequal", true, gpuReals, gpuIntegers, gpuBool)

	binaryOnGPU("BitwiseAnd", "bitwiseand", gpuBits)
	binaryOnGPU("BitwiseOr", "bitwiseor", gpuBits)
	binaryOnGPU("BitwiseXor", "bitwisexor", gpuBits)
	for op, function := range map[string]string{"LeftShift": "leftshift", "RightShift": "rightshift"} {
		binaryOnGPU(op, function, gpuSigned, gpuUnsigned, exactly(tensor.Int32))
	}

	logical := func(op string, k Kernel) {
		Register(Def{Op: op, Device: "GPU", New: func(*Construction) (any, error) { return k, nil }})
	}
	logical("LogicalNot", &gpuUnary{gpuKernel{"not_b", tensor.Bool, tensor.Bool}, nil})
	for op, function := range map[string]string{"LogicalAnd": "logicaland_b", "LogicalOr": "logicalor_b"} {
		logical(op, &gpuBinary{gpuKernel: gpuKernel{function, tensor.Bool, tensor.Bool}, pack: packOf(tensor.Bool)})
	}

	onHost("T", justInt32,
		"Abs", "Neg", "Sign", "Square", "Add", "AddV2", "AddN", "Sub", "Mul", "Div", "FloorDiv", "FloorMod", "Mod", "TruncateMod", "SquaredDifference",
		"Maximum", "Minimum", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "ClipByValue", "Sum", "Prod", "Max", "Min",
		"TruncateDiv", "Pow")
}
