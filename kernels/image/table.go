package image

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// Table is the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addAdjust(table)
	addImage(table)
	addResize(table)
	addBoxes(table)
	return table
}

// The ops on boxes.
func addBoxes(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "CombinedNonMaxSuppression", Expensive: true, New: newCombined},
		{Op: "NonMaxSuppression", Expensive: true, New: suppress(suppressionOp{}, inFloats)},
		{Op: "NonMaxSuppressionWithOverlaps", Expensive: true, New: newSuppressWithOverlaps},
	}...)
	suppressing := func(op suppressionOp) []kernels.Def {
		return []kernels.Def{row(tensor.Float32, suppress(op, inFloats)), row(tensor.Float16, suppress(op, inHalves))}
	}
	table.Op("NonMaxSuppressionV2", suppressing(suppressionOp{limited: true}))
	table.Op("NonMaxSuppressionV3", suppressing(suppressionOp{limited: true, scored: true, ranks: true}))
	table.Op("NonMaxSuppressionV4", suppressing(suppressionOp{limited: true, scored: true, counted: true}))
	table.Op("NonMaxSuppressionV5", suppressing(suppressionOp{limited: true, scored: true, soft: true, counted: true}))
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

// row is an expensive kernel for one type T.
func row(dtype tensor.DType, construct func(*kernels.Construction) (any, error)) kernels.Def {
	return kernels.Def{Types: dtypes.Only("T", dtype), Expensive: true, New: construct}
}

// The ops that resize images.
func addResize(table *kernels.Table) {
	table.Op("ResizeBilinear", []kernels.Def{
		row(tensor.Int8, resizeBilinear[int8]), row(tensor.Uint8, resizeBilinear[uint8]),
		row(tensor.Int16, resizeBilinear[int16]), row(tensor.Uint16, resizeBilinear[uint16]),
		row(tensor.Int32, resizeBilinear[int32]), row(tensor.Int64, resizeBilinear[int64]),
		row(tensor.Float32, resizeBilinear[float32]), row(tensor.Float64, resizeBilinear[float64]),
		row(tensor.Float16, resizeBilinearHalves[element.Float16]), row(tensor.BFloat16, resizeBilinearHalves[element.BFloat16]),
	})
	table.Op("ResizeBilinearGrad", []kernels.Def{
		row(tensor.Float32, resizeBilinearGrad[float32]), row(tensor.Float64, resizeBilinearGrad[float64]),
		row(tensor.Float16, resizeBilinearGradHalves[element.Float16]), row(tensor.BFloat16, resizeBilinearGradHalves[element.BFloat16]),
	})
	table.Op("ResizeNearestNeighbor", []kernels.Def{{Expensive: true, New: newResizeNearest, Types: map[string][]tensor.DType{"T": {
		tensor.Int8, tensor.Uint8, tensor.Int16, tensor.Uint16, tensor.Int32, tensor.Int64,
		tensor.Float16, tensor.BFloat16, tensor.Float32, tensor.Float64,
	}}}})
	table.Op("ResizeNearestNeighborGrad", []kernels.Def{
		row(tensor.Int8, resizeNearestGrad(addPixel[int8])), row(tensor.Uint8, resizeNearestGrad(addPixel[uint8])),
		row(tensor.Int32, resizeNearestGrad(addPixel[int32])),
		row(tensor.Float32, resizeNearestGrad(addPixel[float32])), row(tensor.Float64, resizeNearestGrad(addPixel[float64])),
		row(tensor.Float16, resizeNearestGrad(addFloat16)), row(tensor.BFloat16, resizeNearestGrad(addBFloat16)),
	})
}
