// Package checkpoint reads and writes TensorFlow's checkpoints, byte for byte.
//
// Format V2 ("tensor bundles"; Writer, Reader, Merge) is an index file PREFIX.index, a sorted table from the names of
// tensors to where they lie, and data files PREFIX.data-00000-of-00001 with the elements. Format V1 (WriteV1, ReaderV1)
// is a table with the elements in it, one file or several that a pattern names.
//
// What is there under a prefix stays readable until what replaces it is complete and durable. A new index is
// renamed over the old one, and the data files of the two have different names at that moment (commit.go).
package checkpoint
