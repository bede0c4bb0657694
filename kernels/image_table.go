package kernels

import "github.com/troupe-run/troupe/graph/tensor"

// The ops that read and write image files.
func init() {
	Register(
		Def{Op: "DecodePng", Expensive: true, Types: map[string][]tensor.DType{"dtype": {tensor.Uint8, tensor.Uint16}}, New: newDecodeImage},
		Def{Op: "DecodeImage", Expensive: true, Types: map[string][]tensor.DType{"dtype": {tensor.Uint8, tensor.Uint16, tensor.Float32}}, New: newDecodeImage},
		Def{Op: "EncodePng", Expensive: true, Types: map[string][]tensor.DType{"T": {tensor.Uint8, tensor.Uint16}}, New: newEncodePNG},
	)
}
