package rights

import (
	"maps"
	"slices"

	"github.com/troupe-run/troupe/graph"
)

// groups are the sets of ops that a policy names with an @.
var groups = map[string]func(op string) bool{
	"@files":    UsesFiles,
	"@stateful": isStateful,
}

// Groups returns the names of the groups of ops.
func Groups() []string { return slices.Sorted(maps.Keys(groups)) }

// isStateful reports whether TensorFlow declares an op stateful: its result does not depend only on its inputs, or it has side effects.
func isStateful(op string) bool {
	def, err := graph.LookupOp(op)
	return err == nil && def.GetIsStateful()
}

// UsesFiles reports whether an op reads, writes, finds or names files of the server, now or when its result is used. Only the kernels of
// these ops are given files (files.Door), so an op that is missing here cannot open one.
func UsesFiles(op string) bool { return fileOps[op] }

// FileOps returns the ops of the group @files, sorted.
func FileOps() []string { return slices.Sorted(maps.Keys(fileOps)) }

var fileOps = func() map[string]bool {
	set := map[string]bool{}
	for _, op := range []string{
		// Files and folders.
		"ReadFile", "WriteFile", "MatchingFiles", "ImmutableConst", "PrintV2",
		// Readers: the ops that make one, and those that make it read.
		"WholeFileReader", "WholeFileReaderV2", "TextLineReader", "TextLineReaderV2", "FixedLengthRecordReader", "FixedLengthRecordReaderV2",
		"TFRecordReader", "TFRecordReaderV2", "LMDBReader", "RecordInput",
		"ReaderRead", "ReaderReadV2", "ReaderReadUpTo", "ReaderReadUpToV2",
		// Checkpoints and vocabularies.
		"Save", "SaveSlices", "SaveV2", "Restore", "RestoreSlice", "RestoreV2", "MergeV2Checkpoints", "LoadAndRemapMatrix", "GenerateVocabRemapping",
		"FixedUnigramCandidateSampler", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2",
		// Descriptors of protocol buffers.
		"DecodeProtoV2", "EncodeProto",
		// Summaries.
		"CreateSummaryDbWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "CloseSummaryWriter", "ImportEvent", "WriteAudioSummary",
		"WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary",
		"StatsAggregatorSetSummaryWriter",
		// The debugger, which writes tensors to files.
		"DebugIdentity", "DebugNanCount", "DebugNumericSummary",
		// Datasets.
		"TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2", "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2",
		"CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset", "MatchingFilesDataset", "ExperimentalMatchingFilesDataset",
		"CacheDataset", "CacheDatasetV2", "DatasetToTFRecord", "ExperimentalDatasetToTFRecord",
		"SaveDataset", "SaveDatasetV2", "LoadDataset", "SnapshotDataset", "SnapshotDatasetV2", "SnapshotDatasetReader",
		"SnapshotNestedDatasetReader", "SnapshotChunkDataset", "ListSnapshotChunksDataset",
	} {
		set[op] = true
	}
	return set
}()
