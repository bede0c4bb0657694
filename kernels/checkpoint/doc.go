// Package checkpoint reads and writes TensorFlow's checkpoints, byte for byte.
//
// Format V2 ("tensor bundles"; Writer, Reader, Merge) has an index file PREFIX.index, a sorted table from the names of tensors to their
// positions, and data files such as PREFIX.data-00000-of-00001 with the elements. Format V1 (WriteV1, ReaderV1) is a table that contains
// the elements, in one file or in several that match a pattern.
//
// The files under a prefix stay readable until their replacement is complete and durable. A new index is renamed over the old one, and the
// data files of the two have different names at that moment (commit.go).
package checkpoint
