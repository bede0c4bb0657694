package op

import "github.com/troupe-run/troupe/graph/op/attr"

// Reader reads records from files whose names come from a queue of strings. It keeps its position between steps. The operations added by
// its methods run on the reader's device, whatever device their scope requests.
type Reader struct{ handle Output }

// NewTextLineReader returns a reader of lines. It skips the first attr.SkipHeaderLines lines of each file. Keys are file:line.
func NewTextLineReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{TextLineReaderV2(s, attrs...)}
}

// NewTFRecordReader returns a reader of TensorFlow's own record format. attr.CompressionType is ZLIB or GZIP for compressed files.
func NewTFRecordReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{TFRecordReaderV2(s, attrs...)}
}

// NewFixedLengthRecordReader returns a reader of records of recordBytes bytes.
func NewFixedLengthRecordReader(s *Scope, recordBytes int64, attrs ...attr.Attr) *Reader {
	return &Reader{FixedLengthRecordReaderV2(s, recordBytes, attrs...)}
}

// NewWholeFileReader returns a reader of whole files. Keys are their names.
func NewWholeFileReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{WholeFileReaderV2(s, attrs...)}
}

// NewIdentityReader returns a reader that returns the queue's elements themselves, as keys and as values.
func NewIdentityReader(s *Scope, attrs ...attr.Attr) *Reader {
	return &Reader{IdentityReaderV2(s, attrs...)}
}

// Handle returns the reader's resource handle, for ops on readers.
func (r *Reader) Handle() Output { return r.handle }

// Read returns the next record, a key and a value. At the end of a file, it takes the next one from the queue. It is OUT_OF_RANGE at the
// end of the last file.
func (r *Reader) Read(s *Scope, files *Queue) (key, value Output) {
	return ReaderReadV2(s.beside(r.handle.Op), r.handle, files.handle)
}

// ReadUpTo returns up to n records of one file; n is an int64 scalar.
func (r *Reader) ReadUpTo(s *Scope, files *Queue, n Output) (keys, values Output) {
	return ReaderReadUpToV2(s.beside(r.handle.Op), r.handle, files.handle, n)
}

// Records returns the number of records read, an int64 scalar.
func (r *Reader) Records(s *Scope) Output {
	return ReaderNumRecordsProducedV2(s.beside(r.handle.Op), r.handle)
}

// Files returns the number of files read completely, an int64 scalar.
func (r *Reader) Files(s *Scope) Output {
	return ReaderNumWorkUnitsCompletedV2(s.beside(r.handle.Op), r.handle)
}

// Reset discards the position and the counts.
func (r *Reader) Reset(s *Scope) *Operation { return ReaderResetV2(s.beside(r.handle.Op), r.handle) }

// State returns the reader's position, for RestoreState. Only some readers have one.
func (r *Reader) State(s *Scope) Output {
	return ReaderSerializeStateV2(s.beside(r.handle.Op), r.handle)
}

// RestoreState continues at the position of the reader that returned state.
func (r *Reader) RestoreState(s *Scope, state Output) *Operation {
	return ReaderRestoreStateV2(s.beside(r.handle.Op), r.handle, state)
}
