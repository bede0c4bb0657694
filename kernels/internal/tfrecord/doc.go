// Package tfrecord reads and writes TensorFlow's record files: TFRecord files of examples, and event files. A
// record is
//
//	uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data
//
// in little-endian order. A file is a sequence of records, compressed as a whole or not.
package tfrecord

import "hash/crc32"

const (
	headerSize = 12
	footerSize = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the CRC-32C of data in stored form: masked, since the checksum of data that itself contains checksums is weak.
func checksum(data []byte) uint32 {
	crc := crc32.Checksum(data, castagnoli)
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// Compression is the compression of a whole file.
type Compression uint8

// The compressions of tf.io.TFRecordCompressionType.
const (
	None Compression = iota
	ZLIB
	GZIP
	// Snappy is the compression of dataset snapshots; no op names it for other files.
	Snappy
)

// ParseCompression returns the compression named by an op's attribute compression_type. Like TensorFlow, it treats an unknown name as no
// compression; known reports whether the name is known.
func ParseCompression(name string) (c Compression, known bool) {
	switch name {
	case "":
		return None, true
	case "ZLIB":
		return ZLIB, true
	case "GZIP":
		return GZIP, true
	}
	return None, false
}
