package reader

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// FixedLength is the layout of files with records of Record bytes each.
type FixedLength struct {
	// Header and Footer are the sizes in bytes of what precedes and follows the records in a file.
	Header, Record, Footer int64
	// Hop is the distance from the start of one record to that of the next; 0 means Record.
	Hop int64
	// Compression is the compression of the whole file.
	Compression tfrecord.Compression
}

// NewFixedLength returns the source of such records.
func NewFixedLength(l FixedLength) Source {
	if l.Hop == 0 {
		l.Hop = l.Record
	}
	return &fixedLength{layout: l}
}

type fixedLength struct {
	file
	layout FixedLength
	in     *bufio.Reader
	// ahead holds what was read of the file, from the start of the last record to the end of a footer after it.
	ahead []byte
	n     uint64
}

func (f *fixedLength) Open(fsys files.FS, name string) error {
	if f.layout.Record > files.MaxContent || f.layout.Footer > files.MaxContent {
		return status.Errorf(status.ResourceExhausted, "%s: records of %d bytes and footers of %d are too large", name, f.layout.Record, f.layout.Footer)
	}
	if err := f.open(fsys, name); err != nil {
		return err
	}
	var in io.Reader = &f.file
	end := "reached end of file"
	if f.layout.Compression != tfrecord.None {
		in = tfrecord.NewInflater(bufio.NewReaderSize(in, readAhead), f.layout.Compression)
		end = "EOF reached"
	}
	f.in = bufio.NewReaderSize(in, readAhead)
	f.ahead, f.n = nil, 0
	err := f.discard(f.layout.Header)
	if errors.Is(err, io.EOF) {
		return status.New(status.OutOfRange, end)
	}
	return err
}

func (f *fixedLength) discard(n int64) error {
	_, err := io.CopyN(io.Discard, f.in, n)
	return err
}

func (f *fixedLength) Next() (Record, bool, error) {
	if f.n > 0 {
		hop := f.layout.Hop
		if cached := int64(len(f.ahead)); hop <= cached {
			f.ahead = f.ahead[:copy(f.ahead, f.ahead[hop:])]
		} else {
			f.ahead = f.ahead[:0]
			if err := f.discard(hop - cached); err != nil {
				return Record{}, false, f.failed(err)
			}
		}
	}
	if want := f.layout.Record + f.layout.Footer - int64(len(f.ahead)); want > 0 {
		b := bytes.NewBuffer(f.ahead) // grows with the bytes read
		_, err := io.CopyN(b, f.in, want)
		f.ahead = b.Bytes()
		if err != nil {
			return Record{}, false, f.failed(err)
		}
	}
	record := Record{f.key(f.n), string(f.ahead[:f.layout.Record])}
	f.n++
	return record, false, nil
}

func (f *fixedLength) Close() {
	f.file.Close()
	f.in, f.ahead = nil, nil
}
