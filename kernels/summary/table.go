package summary

import (
	summarypb "github.com/galeone/tensorflow/tensorflow/go/core/framework/summary_go_proto"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/disk"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addSummary(table)
	return table
}

// addSummary adds the ops that create summaries and write event files.
func addSummary(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "ScalarSummary", Types: summarized, New: kernels.Always(scalarSummary)},
		{Op: "HistogramSummary", Types: summarized, Expensive: true, New: kernels.Always(histogramSummary)},
		{Op: "ImageSummary", Types: images, Expensive: true, New: newImageSummary},
		{Op: "AudioSummary", Expensive: true, New: newAudioSummary},
		{Op: "AudioSummaryV2", Expensive: true, New: newAudioSummary},
		{Op: "TensorSummary", New: kernels.Always(tensorSummary)},
		{Op: "TensorSummaryV2", New: kernels.Always(tensorSummaryV2)},
		{Op: "MergeSummary", New: kernels.Always(mergeSummary)},

		{Op: "SummaryWriter", New: newSummaryWriter},
		{Op: "CreateSummaryFileWriter", New: alwaysOnDisk(createSummaryFileWriter)},
		{Op: "CreateSummaryDbWriter", New: createSummaryDBWriter},
		{Op: "FlushSummaryWriter", New: alwaysOnDisk(flushSummaryWriter)},
		{Op: "CloseSummaryWriter", New: func(*kernels.Construction) (any, error) { return kernels.AsyncFunc(closeSummaryWriter), nil }},
		{Op: "WriteSummary", New: alwaysWrite(writeTensor)},
		{Op: "WriteScalarSummary", New: alwaysWrite(writeScalar)},
		{Op: "WriteHistogramSummary", New: alwaysWrite(writeHistogram)},
		{Op: "WriteImageSummary", New: newWriteImage},
		{Op: "WriteAudioSummary", New: newWriteAudio},
		{Op: "WriteRawProtoSummary", New: alwaysOnDisk(writeRawSummary)},
		{Op: "WriteGraphSummary", New: alwaysOnDisk(writeGraph)},
		{Op: "ImportEvent", New: alwaysOnDisk(importEvent)},
	}...)
}

var summarized = map[string][]tensor.DType{"T": {
	tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Uint8, tensor.Uint16, tensor.Uint32, tensor.Uint64,
	tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
}}

var images = map[string][]tensor.DType{"T": {tensor.Uint8, tensor.Float32, tensor.Float16, tensor.Float64}}

// alwaysOnDisk and alwaysWrite return constructors of ops on files that do not depend on their attributes.
func alwaysOnDisk(run func(ctx *kernels.Context) error) func(*kernels.Construction) (any, error) {
	return func(*kernels.Construction) (any, error) { return disk.Async(run), nil }
}

func alwaysWrite(values func(ctx *kernels.Context) ([]*summarypb.Summary_Value, error)) func(*kernels.Construction) (any, error) {
	return func(*kernels.Construction) (any, error) { return writeSummary(values), nil }
}
