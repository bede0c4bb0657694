package input

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/reader"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addInput(table)
	return table
}

// addInput adds the ops that convert the contents of files and messages to tensors.
func addInput(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "ParseExample", Expensive: true, New: newParseExample},
		{Op: "ParseExampleV2", Expensive: true, New: newParseExampleV2},
		{Op: "ParseSingleExample", Expensive: true, New: newParseSingleExample},
		{Op: "ParseSequenceExample", Expensive: true, New: newParseSequenceExample},
		{Op: "ParseSequenceExampleV2", Expensive: true, New: newParseSequenceExampleV2},
		{Op: "ParseSingleSequenceExample", Expensive: true, New: newParseSingleSequenceExample},
		{Op: "DecodeJSONExample", Expensive: true, New: kernels.Always(decodeJSONExample)},
		{Op: "DecodeCSV", Expensive: true, New: newDecodeCSV},
		{Op: "DecodeProtoV2", Expensive: true, New: newDecodeProto},
		{Op: "EncodeProto", Expensive: true, New: newEncodeProto},
		{Op: "DecodeRaw", Types: map[string][]tensor.DType{"out_type": append(slices.Clone(rawTypes), tensor.Bool, tensor.Complex64, tensor.Complex128)}, New: newDecodeRaw},
		{Op: "DecodePaddedRaw", Types: map[string][]tensor.DType{"out_type": rawTypes}, New: newDecodePaddedRaw},
		{Op: "DecodeCompressed", Expensive: true, New: newDecodeCompressed},
		{Op: "ParseTensor", New: newParseTensor},
		{Op: "SerializeTensor", New: kernels.Always(serializeTensor)},
		{Op: "IdentityReader", New: newIdentityReader},
		{Op: "IdentityReaderV2", New: newIdentityReader},
		{Op: "WholeFileReader", New: newWholeFileReader},
		{Op: "WholeFileReaderV2", New: newWholeFileReader},
		{Op: "TextLineReader", New: newTextLineReader},
		{Op: "TextLineReaderV2", New: newTextLineReader},
		{Op: "TFRecordReader", New: newTFRecordReader},
		{Op: "TFRecordReaderV2", New: newTFRecordReader},
		{Op: "FixedLengthRecordReader", New: newFixedLengthReader},
		{Op: "FixedLengthRecordReaderV2", New: newFixedLengthReader},
		{Op: "LMDBReader", New: newLMDBReader},
		{Op: "ReaderRead", New: onReader(readerRead)},
		{Op: "ReaderReadV2", New: onReader(readerRead)},
		{Op: "ReaderReadUpTo", New: onReader(readerReadUpTo)},
		{Op: "ReaderReadUpToV2", New: onReader(readerReadUpTo)},
		{Op: "ReaderNumRecordsProduced", New: kernels.Always(readerCount((*reader.Reader).Produced))},
		{Op: "ReaderNumRecordsProducedV2", New: kernels.Always(readerCount((*reader.Reader).Produced))},
		{Op: "ReaderNumWorkUnitsCompleted", New: kernels.Always(readerCount((*reader.Reader).Finished))},
		{Op: "ReaderNumWorkUnitsCompletedV2", New: kernels.Always(readerCount((*reader.Reader).Finished))},
		{Op: "ReaderSerializeState", New: onReader(readerSerializeState)},
		{Op: "ReaderSerializeStateV2", New: onReader(readerSerializeState)},
		{Op: "ReaderRestoreState", New: onReader(readerRestoreState)},
		{Op: "ReaderRestoreStateV2", New: onReader(readerRestoreState)},
		{Op: "ReaderReset", New: onReader(readerReset)},
		{Op: "ReaderResetV2", New: onReader(readerReset)},
		{Op: "ImmutableConst", New: newImmutableConst},
		{Op: "RecordInput", New: newRecordInput},
		{Op: "ReadFile", New: func(*kernels.Construction) (any, error) { return disk.Async(readFile), nil }},
		{Op: "WriteFile", New: func(*kernels.Construction) (any, error) { return disk.Async(writeFile), nil }},
		{Op: "MatchingFiles", New: func(*kernels.Construction) (any, error) { return disk.Async(matchingFiles), nil }},
	}...)
}
