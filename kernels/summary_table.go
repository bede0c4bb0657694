package kernels

import (
	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"

	"github.com/troupe-run/troupe/graph/tensor"
)

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

		Def{Op: "SummaryWriter", New: newSummaryWriter},
		Def{Op: "CreateSummaryFileWriter", New: alwaysOnDisk(createSummaryFileWriter)},
		Def{Op: "CreateSummaryDbWriter", New: createSummaryDBWriter},
		Def{Op: "FlushSummaryWriter", New: alwaysOnDisk(flushSummaryWriter)},
		Def{Op: "CloseSummaryWriter", New: alwaysOnDisk(closeSummaryWriter)},
		Def{Op: "WriteSummary", New: alwaysWrite(writeTensor)},
		Def{Op: "WriteScalarSummary", New: alwaysWrite(writeScalar)},
		Def{Op: "WriteHistogramSummary", New: alwaysWrite(writeHistogram)},
		Def{Op: "WriteImageSummary", New: newWriteImage},
		Def{Op: "WriteAudioSummary", New: newWriteAudio},
		Def{Op: "WriteRawProtoSummary", New: alwaysOnDisk(writeRawSummary)},
		Def{Op: "WriteGraphSummary", New: alwaysOnDisk(writeGraph)},
		Def{Op: "ImportEvent", New: alwaysOnDisk(importEvent)},
	)
}

var summarized = map[string][]tensor.DType{"T": {
	tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64,
	tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
}}

var images = map[string][]tensor.DType{"T": {tensor.Uint8, tensor.Float32, tensor.Float16, tensor.Float64}}

// alwaysOnDisk and alwaysWrite are constructors of ops on files whose attributes do not matter when they run.
func alwaysOnDisk(run func(ctx *Context) error) func(*Construction) (any, error) {
	return func(*Construction) (any, error) { return onDisk(run), nil }
}

func alwaysWrite(values func(ctx *Context) ([]*summarypb.Summary_Value, error)) func(*Construction) (any, error) {
	return func(*Construction) (any, error) { return writeSummary(values), nil }
}
