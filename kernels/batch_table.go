package kernels

// The ops that gather the work of concurrent steps into batches, and give each step its part of the results.
func init() {
	Register(
		Def{Op: "Batch", New: newBatch},
		Def{Op: "BatchFunction", New: newBatchFunction},
		Def{Op: "Unbatch", New: newUnbatch},
		Def{Op: "UnbatchGrad", New: newUnbatchGrad},
	)
}
