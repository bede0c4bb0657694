package image

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addAdjust(table)
	addImage(table)
	return table
}

// The ops that change the colours of images.
func addAdjust(table *kernels.Table) {
	float := dtypes.Only("T", tensor.Float32)
	table.Add([]kernels.Def{
		{Op: "AdjustContrastv2", Types: float, Expensive: true, New: adjust("contrast_factor", 0, scaleContrast)},
		{Op: "AdjustHue", Types: float, Expensive: true, New: adjust("delta", 3, eachPixel(turnHue))},
		{Op: "AdjustSaturation", Types: float, Expensive: true, New: adjust("scale", 3, eachPixel(scaleSaturation))},
	}...)
	table.Op("RGBToHSV", halves.Rows("T", tensor.Float32, colours(toHSV[float32])), halves.Rows("T", tensor.Float64, colours(toHSV[float64])))
	table.Op("HSVToRGB", halves.Rows("T", tensor.Float32, colours(hsvToRGB[float32])), halves.Rows("T", tensor.Float64, colours(hsvToRGB[float64])))
}

// The ops that read and write image files.
func addImage(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "DecodePng", Expensive: true, Types: map[string][]tensor.DType{"dtype": {tensor.Uint8, tensor.Uint16}}, New: newDecodeImage},
		{Op: "DecodeImage", Expensive: true, Types: map[string][]tensor.DType{"dtype": {tensor.Uint8, tensor.Uint16, tensor.Float32}}, New: newDecodeImage},
		{Op: "EncodePng", Expensive: true, Types: map[string][]tensor.DType{"T": {tensor.Uint8, tensor.Uint16}}, New: newEncodePNG},
	}...)
}
