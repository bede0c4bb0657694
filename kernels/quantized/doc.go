// Package quantized holds the ops on quantized numbers: integers of few bits that stand for the floats of a range.
//
// A quantized tensor travels with two floats, the ends of its range. Most ops work on the integers, and give the range
// of their results. Ranges are computed in float32, in the order in which TensorFlow does, so that results are the same
// to the last bit. Explicit conversions to float32 keep products from being fused with sums.
package quantized
