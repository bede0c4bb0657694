package access

import (
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph"
)

// opGroups are the sets of ops that a policy names with an @. TestFileOps of the command compares them with the kernels there are.
var opGroups = map[string]func(op string) bool{
	// Ops that read, write, find or name files of the server, now or when the resource they make is used.
	"@files": func(op string) bool { return slices.Contains(fileOps, op) },
	// Ops whose result is not their inputs' alone, or that do something beside it, as TensorFlow declares them.
	"@stateful": func(op string) bool {
		def, err := graph.LookupOp(op)
		return err == nil && def.GetIsStateful()
	},
}

func opGroupNames() []string { return slices.Sorted(maps.Keys(opGroups)) }

var fileOps = []string{
	"CloseSummaryWriter", "CreateSummaryDbWriter", "CreateSummaryFileWriter", "FixedLengthRecordReader", "FixedLengthRecordReaderV2",
	"FlushSummaryWriter", "GenerateVocabRemapping", "ImportEvent", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2",
	"LMDBReader", "LoadAndRemapMatrix", "MatchingFiles", "MergeV2Checkpoints", "PrintV2", "ReadFile", "RecordInput", "Restore",
	"RestoreSlice", "RestoreV2", "Save", "SaveSlices", "SaveV2", "TFRecordReader", "TFRecordReaderV2", "TextLineReader",
	"TextLineReaderV2", "WholeFileReader", "WholeFileReaderV2", "WriteAudioSummary", "WriteFile", "WriteGraphSummary",
	"WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary",
}

// FileOps are the ops of the group @files.
func FileOps() []string { return slices.Clone(fileOps) }
