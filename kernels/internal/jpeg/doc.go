// Package jpeg reads and writes JPEG files as TensorFlow's image ops do, whose library is libjpeg-turbo: its upsampling of
// colours, its conversions between RGB and YCbCr in integers, its tables of quantization. The decoding up to the planes of
// samples is the standard library's; its inverse cosine transform differs from libjpeg's by a level or two here and there.
package jpeg
