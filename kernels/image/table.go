package image

import (
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/internal/dtypes"
	"github.com/troupe-run/troupe/kernels/internal/element"
	"github.com/troupe-run/troupe/kernels/internal/halves"
)

// Table returns the family's ops.
func Table() *kernels.Table {
	table := &kernels.Table{}
	addAdjust(table)
	addImage(table)
	addResize(table)
	addSampling(table)
	addCrops(table)
	addBoxes(table)
	return table
}

// addBoxes adds the ops on boxes.
func addBoxes(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "ExtractGlimpse", Expensive: true, New: newGlimpse(true)},
		{Op: "ExtractGlimpseV2", Expensive: true, New: newGlimpse(false)},
		{Op: "RandomCrop", Expensive: true, New: newRandomCrop, Types: map[string][]tensor.DType{"T": {
			tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64,
		}}},
		{Op: "CombinedNonMaxSuppression", Expensive: true, New: newCombined},
		{Op: "NonMaxSuppression", Expensive: true, New: suppress(suppressionOp{}, inFloats)},
		{Op: "NonMaxSuppressionWithOverlaps", Expensive: true, New: newSuppressWithOverlaps},
	}...)
	drawing := func(coloured bool) []kernels.Def {
		return []kernels.Def{row(tensor.Float32, drawBoxes(coloured, exactly)), row(tensor.Float16, drawBoxes(coloured, element.ToFloat16))}
	}
	table.Op("DrawBoundingBoxes", drawing(false))
	table.Op("DrawBoundingBoxesV2", drawing(true))
	distorting := func(covered bool) []kernels.Def {
		return []kernels.Def{
			row(tensor.Uint8, distort[uint8](covered)), row(tensor.Int8, distort[int8](covered)), row(tensor.Int16, distort[int16](covered)),
			row(tensor.Int32, distort[int32](covered)), row(tensor.Int64, distort[int64](covered)),
		}
	}
	table.Op("SampleDistortedBoundingBox", distorting(false))
	table.Op("SampleDistortedBoundingBoxV2", distorting(true))
	table.Op("StatelessSampleDistortedBoundingBox", []kernels.Def{
		row(tensor.Uint8, statelessDistort[uint8]), row(tensor.Int8, statelessDistort[int8]), row(tensor.Int16, statelessDistort[int16]),
		row(tensor.Int32, statelessDistort[int32]), row(tensor.Int64, statelessDistort[int64]),
	})
	projecting := func(filled bool) []kernels.Def {
		of := func(dtype tensor.DType, construct func(*kernels.Construction) (any, error)) kernels.Def {
			return kernels.Def{Types: dtypes.Only("dtype", dtype), Expensive: true, New: construct}
		}
		return []kernels.Def{
			of(tensor.Uint8, project(filled, convertFloat[uint8], mixPixels[uint8])),
			of(tensor.Int32, project(filled, convertFloat[int32], mixPixels[int32])),
			of(tensor.Int64, project(filled, convertFloat[int64], mixPixels[int64])),
			of(tensor.Float32, project(filled, exactly, mixPixels[float32])),
			of(tensor.Float64, project(filled, convertFloat[float64], mixPixels[float64])),
			of(tensor.Float16, project(filled, element.ToFloat16, mixHalves(element.ToFloat16))),
			of(tensor.BFloat16, project(filled, element.ToBFloat16, mixHalves(element.ToBFloat16))),
		}
	}
	table.Op("ImageProjectiveTransformV2", projecting(false))
	table.Op("ImageProjectiveTransformV3", projecting(true))
	suppressing := func(op suppressionOp) []kernels.Def {
		return []kernels.Def{row(tensor.Float32, suppress(op, inFloats)), row(tensor.Float16, suppress(op, inHalves))}
	}
	table.Op("NonMaxSuppressionV2", suppressing(suppressionOp{limited: true}))
	table.Op("NonMaxSuppressionV3", suppressing(suppressionOp{limited: true, scored: true, ranks: true}))
	table.Op("NonMaxSuppressionV4", suppressing(suppressionOp{limited: true, scored: true, counted: true}))
	table.Op("NonMaxSuppressionV5", suppressing(suppressionOp{limited: true, scored: true, soft: true, counted: true}))
}

// addAdjust adds the ops that change the colours of images.
func addAdjust(table *kernels.Table) {
	float := dtypes.Only("T", tensor.Float32)
	table.Add([]kernels.Def{
		{Op: "AdjustContrastv2", Types: float, Expensive: true, New: adjust("contrast_factor", 0, scaleContrast)},
		{Op: "AdjustHue", Types: float, Expensive: true, New: adjust("delta", 3, eachPixel(turnHue))},
		{Op: "AdjustSaturation", Types: float, Expensive: true, New: adjust("scale", 3, eachPixel(scaleSaturation))},
	}...)
	table.Op("AdjustContrast", []kernels.Def{
		row(tensor.Int8, adjustContrast(pixels[int8])), row(tensor.Uint8, adjustContrast(pixels[uint8])),
		row(tensor.Int16, adjustContrast(pixels[int16])), row(tensor.Int32, adjustContrast(pixels[int32])),
		row(tensor.Float32, adjustContrast(pixels[float32])), row(tensor.Float64, adjustContrast(pixels[float64])),
	})
	table.Op("RGBToHSV", halves.Rows("T", tensor.Float32, colours(toHSV[float32])), halves.Rows("T", tensor.Float64, colours(toHSV[float64])))
	table.Op("HSVToRGB", halves.Rows("T", tensor.Float32, colours(hsvToRGB[float32])), halves.Rows("T", tensor.Float64, colours(hsvToRGB[float64])))
}

// addImage adds the ops that read and write image files.
func addImage(table *kernels.Table) {
	table.Add([]kernels.Def{
		{Op: "DecodePng", Expensive: true, Types: map[string][]tensor.DType{"dtype": {tensor.Uint8, tensor.Uint16}}, New: newDecoder},
		{Op: "DecodeImage", Expensive: true, Types: map[string][]tensor.DType{"dtype": {tensor.Uint8, tensor.Uint16, tensor.Float32}}, New: newDecoder},
		{Op: "DecodeWebP", Expensive: true, Types: dtypes.Only("dtype", tensor.Uint8), New: newDecoder},
		{Op: "DecodeJpeg", Expensive: true, New: newDecoder},
		{Op: "DecodeAndCropJpeg", Expensive: true, New: newDecoder},
		{Op: "DecodeGif", Expensive: true, New: newDecoder},
		{Op: "DecodeBmp", Expensive: true, New: newDecoder},
		{Op: "EncodeJpeg", Expensive: true, New: newEncodeJPEG},
		{Op: "EncodeJpegVariableQuality", Expensive: true, New: kernels.Always(encodeJPEGVariably)},
		{Op: "ExtractJpegShape", Types: map[string][]tensor.DType{"output_type": {tensor.Int32, tensor.Int64}}, New: newJPEGShape},
		{Op: "EncodePng", Expensive: true, Types: map[string][]tensor.DType{"T": {tensor.Uint8, tensor.Uint16}}, New: newEncodePNG},
	}...)
}

// row returns an expensive kernel for one type T.
func row(dtype tensor.DType, construct func(*kernels.Construction) (any, error)) kernels.Def {
	return kernels.Def{Types: dtypes.Only("T", dtype), Expensive: true, New: construct}
}

// addResize adds the ops that resize images.
func addResize(table *kernels.Table) {
	table.Op("ResizeBilinear", []kernels.Def{
		row(tensor.Int8, resizeBilinear(pixels[int8])), row(tensor.Uint8, resizeBilinear(pixels[uint8])),
		row(tensor.Int16, resizeBilinear(pixels[int16])), row(tensor.Uint16, resizeBilinear(pixels[uint16])),
		row(tensor.Int32, resizeBilinear(pixels[int32])), row(tensor.Int64, resizeBilinear(pixels[int64])),
		row(tensor.Float32, resizeBilinear(pixels[float32])), row(tensor.Float64, resizeBilinear(pixels[float64])),
		row(tensor.Float16, resizeBilinear(widened[element.Float16])), row(tensor.BFloat16, resizeBilinear(widened[element.BFloat16])),
	})
	table.Op("ResizeBilinearGrad", []kernels.Def{
		row(tensor.Float32, resizeGrad(spread[float32])), row(tensor.Float64, resizeGrad(spread[float64])),
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

// addSampling adds the ops that resize images by sampling more than the nearest pixels.
func addSampling(table *kernels.Table) {
	table.Op("ResizeArea", []kernels.Def{
		row(tensor.Int8, resizeFloats(pixels[int8], averageArea[int8])), row(tensor.Uint8, resizeFloats(pixels[uint8], averageArea[uint8])),
		row(tensor.Int16, resizeFloats(pixels[int16], averageArea[int16])), row(tensor.Uint16, resizeFloats(pixels[uint16], averageArea[uint16])),
		row(tensor.Int32, resizeFloats(pixels[int32], averageArea[int32])), row(tensor.Int64, resizeFloats(pixels[int64], averageArea[int64])),
		row(tensor.Float32, resizeFloats(pixels[float32], averageArea[float32])), row(tensor.Float64, resizeFloats(pixels[float64], averageArea[float64])),
		row(tensor.Float16, resizeFloats(widened[element.Float16], averageArea[float32])), row(tensor.BFloat16, resizeFloats(widened[element.BFloat16], averageArea[float32])),
	})
	table.Op("ResizeBicubic", []kernels.Def{
		row(tensor.Int8, resizeFloats(pixels[int8], bicubic[int8])), row(tensor.Uint8, resizeFloats(pixels[uint8], bicubic[uint8])),
		row(tensor.Int16, resizeFloats(pixels[int16], bicubic[int16])), row(tensor.Uint16, resizeFloats(pixels[uint16], bicubic[uint16])),
		row(tensor.Int32, resizeFloats(pixels[int32], bicubic[int32])), row(tensor.Int64, resizeFloats(pixels[int64], bicubic[int64])),
		row(tensor.Float32, resizeFloats(pixels[float32], bicubic[float32])), row(tensor.Float64, resizeFloats(pixels[float64], bicubic[float64])),
		row(tensor.Float16, resizeFloats(widened[element.Float16], bicubic[float32])), row(tensor.BFloat16, resizeFloats(widened[element.BFloat16], bicubic[float32])),
	})
	table.Op("ResizeBicubicGrad", []kernels.Def{row(tensor.Float32, resizeGrad(bicubicGrad[float32])), row(tensor.Float64, resizeGrad(bicubicGrad[float64]))})
	table.Op("ScaleAndTranslate", []kernels.Def{
		row(tensor.Int8, scaleAndTranslate(pixels[int8])), row(tensor.Uint8, scaleAndTranslate(pixels[uint8])),
		row(tensor.Int16, scaleAndTranslate(pixels[int16])), row(tensor.Uint16, scaleAndTranslate(pixels[uint16])),
		row(tensor.Int32, scaleAndTranslate(pixels[int32])), row(tensor.Int64, scaleAndTranslate(pixels[int64])),
		row(tensor.Float32, scaleAndTranslate(pixels[float32])), row(tensor.Float64, scaleAndTranslate(pixels[float64])),
		row(tensor.Float16, scaleAndTranslate(widened[element.Float16])), row(tensor.BFloat16, scaleAndTranslate(widened[element.BFloat16])),
	})
	table.Op("ScaleAndTranslateGrad", []kernels.Def{row(tensor.Float32, newScaleAndTranslateGrad)})
	table.Op("QuantizedResizeBilinear", []kernels.Def{
		row(tensor.QUint8, resizeQuantized(tensor.QUint8, 7, mixFixed[uint8](7))), row(tensor.QInt32, resizeQuantized(tensor.QInt32, 30, mixFixed[int32](30))),
		row(tensor.Float32, resizeQuantized(tensor.Float32, 0, mixFloats)),
	})
}

// addCrops adds the ops that cut boxes out of images.
func addCrops(table *kernels.Table) {
	table.Op("CropAndResize", []kernels.Def{
		row(tensor.Int8, cropAndResize(pixels[int8])), row(tensor.Uint8, cropAndResize(pixels[uint8])),
		row(tensor.Int16, cropAndResize(pixels[int16])), row(tensor.Uint16, cropAndResize(pixels[uint16])),
		row(tensor.Int32, cropAndResize(pixels[int32])), row(tensor.Int64, cropAndResize(pixels[int64])),
		row(tensor.Float32, cropAndResize(pixels[float32])), row(tensor.Float64, cropAndResize(pixels[float64])),
		row(tensor.Float16, cropAndResize(widened[element.Float16])),
	})
	table.Op("CropAndResizeGradImage", []kernels.Def{
		row(tensor.Float32, cropGradImage(addCrop[float32])), row(tensor.Float64, cropGradImage(addCrop[float64])), row(tensor.Float16, cropGradImage(addCropHalves)),
	})
	table.Op("CropAndResizeGradBoxes", []kernels.Def{
		row(tensor.Int8, cropGradBoxes(pixels[int8])), row(tensor.Uint8, cropGradBoxes(pixels[uint8])),
		row(tensor.Int16, cropGradBoxes(pixels[int16])), row(tensor.Uint16, cropGradBoxes(pixels[uint16])),
		row(tensor.Int32, cropGradBoxes(pixels[int32])), row(tensor.Int64, cropGradBoxes(pixels[int64])),
		row(tensor.Float32, cropGradBoxes(pixels[float32])), row(tensor.Float64, cropGradBoxes(pixels[float64])),
		row(tensor.Float16, cropGradBoxes(widened[element.Float16])),
	})
}
