package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops that make summaries and write event files.
func init() {
	Register(
		Def{Op: "ScalarSummary", Types: summarized, New: always(scalarSummary)},
		Def{Op: "HistogramSummary", Types: summarized, Expensive: true, New: always(histogramSummary)},
		Def{Op: "ImageSummary", Types: images, Expensive: true, New: newImageSummary},
		Def{Op: "AudioSummary", Expensive: true, New: newAudioSummary},
		Def{Op: "AudioSummaryV2", Expensive: true, New: newAudioSummary},
		Def{Op: "TensorSummary", New: always(tensorSummary)},
		Def{Op: "TensorSummaryV2", New: always(tensorSummaryV2)},
		Def{Op: "MergeSummary", New: always(mergeSummary)},
	)
}

var summarized = map[string][]tensor.DType{"T": {
	tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64,
	tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
}}

var images = map[string][]tensor.DType{"T": {tensor.Uint8, tensor.Float32, tensor.Float16, tensor.Float64}}
