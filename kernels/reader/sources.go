package reader

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// readAhead is what a reader takes from its file at a time.
const readAhead = 256 << 10

// Identity is the source whose units of work are records themselves.
func Identity() Source { return &whole{read: func(name string) (string, error) { return name, nil }} }

// WholeFile is the source whose units of work are files, each of which is a record.
func WholeFile() Source { return &whole{read: files.Read} }

type whole struct {
	read func(name string) (string, error)
	work string
}

func (w *whole) Open(work string) error {
	w.work = work
	return nil
}

func (w *whole) Next() (Record, bool, error) {
	value, err := w.read(w.work)
	return Record{w.work, value}, true, err
}

func (w *whole) Close()      {}
func (w *whole) Whole() bool { return true }

// file is the part of a source that has a file open.
type file struct {
	name string
	f    *os.File
}

func (f *file) open(name string) (err error) {
	f.name = name
	f.f, err = files.Open(name)
	return err
}

// Read reads of the file, with its errors.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = files.Error(f.name, err)
	}
	return n, err
}

// Close closes the file. Nothing was written to it, so that an error of closing tells nothing.
func (f *file) Close() {
	if f.f != nil {
		_ = f.f.Close()
		f.f = nil
	}
}

func (f *file) Whole() bool { return false }

// key names a record by a number.
func (f *file) key(n uint64) string { return f.name + ":" + strconv.FormatUint(n, 10) }

// TextLines is the source whose records are the lines of files, without their ends. The first skip lines of each file
// are left out.
func TextLines(skip int64) Source { return &textLines{skip: skip} }

type textLines struct {
	file
	skip int64
	in   *bufio.Reader
	line uint64
}

func (t *textLines) Open(name string) error {
	if err := t.open(name); err != nil {
		return err
	}
	if t.in == nil {
		t.in = bufio.NewReaderSize(nil, readAhead)
	}
	t.in.Reset(&t.file)
	t.line = 0
	for i := int64(0); i < t.skip; i++ {
		switch _, err := t.next(); {
		case errors.Is(err, io.EOF):
			return nil // nor has the file any record then
		case err != nil:
			return err
		}
	}
	return nil
}

// next reads a line. A last line without an end is one if there is anything in it.
func (t *textLines) next() (string, error) {
	t.line++
	var line []byte
	for {
		part, err := t.in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			line = line[:len(line)-1]
		case errors.Is(err, bufio.ErrBufferFull):
			if len(line) > files.MaxContent {
				return "", status.Errorf(status.ResourceExhausted, "%s has more than %d bytes", t.key(t.line), files.MaxContent)
			}
			continue
		case !errors.Is(err, io.EOF):
			return "", err
		}
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if err != nil && len(line) == 0 {
			return "", io.EOF
		}
		return unsafe.String(unsafe.SliceData(line), len(line)), nil
	}
}

func (t *textLines) Next() (Record, bool, error) {
	line, err := t.next()
	if err != nil {
		return Record{}, false, err
	}
	return Record{t.key(t.line), line}, false, nil
}

func (t *textLines) Close() {
	t.file.Close()
	t.in = nil // an idle reader holds no buffer
}

// Records is the source whose records are those of TFRecord files, compressed or not.
func Records(c tfrecord.Compression) Source { return &records{compression: c} }

type records struct {
	file
	compression tfrecord.Compression
	in          *tfrecord.Reader
}

func (r *records) Open(name string) error {
	err := r.open(name)
	if err == nil {
		r.in = tfrecord.NewReader(&r.file, r.compression, files.MaxContent)
	}
	return err
}

func (r *records) Next() (Record, bool, error) {
	at := r.in.Offset()
	b, err := r.in.Next()
	if err != nil {
		return Record{}, false, err
	}
	return Record{r.key(at), string(b)}, false, nil
}

func (r *records) Close() {
	r.file.Close()
	r.in = nil
}
