package op

import "github.com/troupe-run/troupe/graph/op/attr"

// Reader reads records from files whose names come from a queue of strings. It keeps its position between
// steps. The operations that its methods add run on the reader's device, whatever device their scope asks for.
type Reader struct{ handle Output }

// NewTextLineReader reads lines, after attr.SkipHeaderLines of each file. Keys are file:line.
func NewTextLineReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{TextLineReaderV2(s, attrs...)}
}

// NewTFRecordReader reads records of TensorFlow's own format. attr.CompressionType is ZLIB or GZIP for
// compressed files.
func NewTFRecordReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{TFRecordReaderV2(s, attrs...)}
}

// NewFixedLengthRecordReader reads records of a fixed number of bytes.
func NewFixedLengthRecordReader(s *Scope, recordBytes int64, attrs ...attr.Attr) *Reader {
	return &Reader{FixedLengthRecordReaderV2(s, recordBytes, attrs...)}
}

// NewWholeFileReader reads whole files. Keys are their names.
func NewWholeFileReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{WholeFileReaderV2(s, attrs...)}
}

// NewIdentityReader returns the queue's elements themselves, as keys and as values.
func NewIdentityReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{IdentityReaderV2(s, attrs...)}
}

// Handle is the resource, which ops on readers take.
func (r *Reader) Handle() Output { return r.handle }

// Read returns the next record, a key and a value. When it has finished a file, it takes the next one from the
// queue. It is OUT_OF_RANGE at the end of the last file.
func (r *Reader) Read(s *Scope, files *Queue) (key, value Output) {
	return ReaderReadV2(s.beside(r.handle.Op), r.handle, files.handle)
}

// ReadUpTo returns up to n records, an int64 scalar, of one file.
func (r *Reader) ReadUpTo(s *Scope, files *Queue, n Output) (keys, values Output) {
	return ReaderReadUpToV2(s.beside(r.handle.Op), r.handle, files.handle, n)
}

// Records is the number of records that were read, an int64 scalar.
func (r *Reader) Records(s *Scope) Output {
	return ReaderNumRecordsProducedV2(s.beside(r.handle.Op), r.handle)
}

// Files is the number of files that were read to their end, an int64 scalar.
func (r *Reader) Files(s *Scope) Output {
	return ReaderNumWorkUnitsCompletedV2(s.beside(r.handle.Op), r.handle)
}

// Reset discards the position and the counts.
func (r *Reader) Reset(s *Scope) *Operation { return ReaderResetV2(s.beside(r.handle.Op), r.handle) }

// State is the reader's position, for RestoreState. Only some readers have one.
func (r *Reader) State(s *Scope) Output {
	return ReaderSerializeStateV2(s.beside(r.handle.Op), r.handle)
}

// RestoreState continues where the reader was that returned the state.
func (r *Reader) RestoreState(s *Scope, state Output) *Operation {
	return ReaderRestoreStateV2(s.beside(r.handle.Op), r.handle, state)
}
