package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/reader"
)

// The ops that turn what is in files and messages into tensors.
func init() {
	Register(
		Def{Op: "ParseExample", Expensive: true, New: newParseExample},
		Def{Op: "ParseExampleV2", Expensive: true, New: newParseExampleV2},
		Def{Op: "ParseSingleExample", Expensive: true, New: newParseSingleExample},
		Def{Op: "ParseSequenceExample", Expensive: true, New: newParseSequenceExample},
		Def{Op: "ParseSequenceExampleV2", Expensive: true, New: newParseSequenceExampleV2},
		Def{Op: "ParseSingleSequenceExample", Expensive: true, New: newParseSingleSequenceExample},
		Def{Op: "DecodeJSONExample", Expensive: true, New: always(decodeJSONExample)},
		Def{Op: "DecodeCSV", Expensive: true, New: newDecodeCSV},
		Def{Op: "DecodeRaw", Types: map[string][]tensor.DType{"out_type": append(slices.Clone(rawTypes), tensor.Bool, tensor.Complex64, tensor.Complex128)}, New: newDecodeRaw},
		Def{Op: "DecodePaddedRaw", Types: map[string][]tensor.DType{"out_type": rawTypes}, New: newDecodePaddedRaw},
		Def{Op: "DecodeCompressed", Expensive: true, New: newDecodeCompressed},
		Def{Op: "ParseTensor", New: newParseTensor},
		Def{Op: "SerializeTensor", New: always(serializeTensor)},
		Def{Op: "IdentityReader", New: newIdentityReader},
		Def{Op: "IdentityReaderV2", New: newIdentityReader},
		Def{Op: "WholeFileReader", New: newWholeFileReader},
		Def{Op: "WholeFileReaderV2", New: newWholeFileReader},
		Def{Op: "TextLineReader", New: newTextLineReader},
		Def{Op: "TextLineReaderV2", New: newTextLineReader},
		Def{Op: "TFRecordReader", New: newTFRecordReader},
		Def{Op: "TFRecordReaderV2", New: newTFRecordReader},
		Def{Op: "FixedLengthRecordReader", New: newFixedLengthReader},
		Def{Op: "FixedLengthRecordReaderV2", New: newFixedLengthReader},
		Def{Op: "LMDBReader", New: newLMDBReader},
		Def{Op: "ReaderRead", New: onReader(readerRead)},
		Def{Op: "ReaderReadV2", New: onReader(readerRead)},
		Def{Op: "ReaderReadUpTo", New: onReader(readerReadUpTo)},
		Def{Op: "ReaderReadUpToV2", New: onReader(readerReadUpTo)},
		Def{Op: "ReaderNumRecordsProduced", New: always(readerCount((*reader.Reader).Produced))},
		Def{Op: "ReaderNumRecordsProducedV2", New: always(readerCount((*reader.Reader).Produced))},
		Def{Op: "ReaderNumWorkUnitsCompleted", New: always(readerCount((*reader.Reader).Finished))},
		Def{Op: "ReaderNumWorkUnitsCompletedV2", New: always(readerCount((*reader.Reader).Finished))},
		Def{Op: "ReaderSerializeState", New: onReader(readerSerializeState)},
		Def{Op: "ReaderSerializeStateV2", New: onReader(readerSerializeState)},
		Def{Op: "ReaderRestoreState", New: onReader(readerRestoreState)},
		Def{Op: "ReaderRestoreStateV2", New: onReader(readerRestoreState)},
		Def{Op: "ReaderReset", New: onReader(readerReset)},
		Def{Op: "ReaderResetV2", New: onReader(readerReset)},
		Def{Op: "RecordInput", New: newRecordInput},
		Def{Op: "ReadFile", New: func(*Construction) (any, error) { return onDisk(readFile), nil }},
		Def{Op: "WriteFile", New: func(*Construction) (any, error) { return onDisk(writeFile), nil }},
		Def{Op: "MatchingFiles", New: func(*Construction) (any, error) { return onDisk(matchingFiles), nil }},
	)
}
