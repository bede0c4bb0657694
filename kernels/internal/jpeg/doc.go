// Package jpeg reads and writes JPEG files as TensorFlow's image ops do, which use libjpeg-turbo. Decoded pixels are equal to the last bit:
// transforms, upsampling of colours and conversions are the same, all in integers, and so is the treatment of broken files. Encode uses
// libjpeg's quantization tables and conversions, but its transform uses floats.
//
// A sequential file of one scan is converted to a picture while it is read: each row of units is decoded into blocks, transformed into rows
// of samples, and converted to pixels. For other files, the coefficients are held until the last scan. The inner loops are in package simd.
//
// In this package, a unit is the standard's MCU, the mean of a block is its DC coefficient, and the other frequencies are its AC
// coefficients.
package jpeg
