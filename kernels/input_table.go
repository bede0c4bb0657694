package kernels

import (
	"slices"

	"github.com/troupe-run/troupe/graph/tensor"
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
	)
}
