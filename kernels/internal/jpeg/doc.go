// Package jpeg reads and writes JPEG files as TensorFlow's image ops do, whose library is libjpeg-turbo. What it reads has the same
// pixels to the last bit: the same transforms, upsampling of colours and conversions, all in integers, and the same reading of
// broken files. Encode's tables of quantization and conversions are those of libjpeg; its transform is in floats.
//
// A sequential file of one scan becomes a picture as it is read: a row of units at a time is decoded into blocks, transformed into
// rows of samples, and made into pixels. The coefficients of other files are held until the last scan. The inner loops are in
// package simd.
package jpeg
