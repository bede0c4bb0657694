package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops on ragged tensors.
func init() {
	Register(
		Def{Op: "RaggedRange", Types: only("T", tensor.Int32), New: raggedRange[int32]},
		Def{Op: "RaggedRange", Types: only("T", tensor.Int64), New: raggedRange[int64]},
		Def{Op: "RaggedRange", Types: only("T", tensor.Float32), New: raggedRange[float32]},
		Def{Op: "RaggedRange", Types: only("T", tensor.Float64), New: raggedRange[float64]},
		Def{Op: "RaggedTensorToTensor", New: newRaggedDense},
		Def{Op: "RaggedTensorToSparse", New: always(raggedToSparse)},
		Def{Op: "RaggedTensorToVariant", New: newRaggedToVariant},
		Def{Op: "RaggedTensorFromVariant", New: newRaggedFromVariant},
		Def{Op: "RaggedTensorToVariantGradient", New: newRaggedToVariantGrad},
		Def{Op: "RaggedGather", New: newRaggedGather},
	)
}
