// Package quantized implements the ops on quantized numbers: narrow integers that represent the floats of a range.
//
// A quantized tensor travels with two floats, the ends of its range. Most ops work on the integers and also return the range of their
// results. Ranges are computed in float32, in TensorFlow's order, so that results match it bit for bit. Explicit conversions to float32
// keep the compiler from fusing products with sums.
package quantized
