package reader

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// readAhead is the size of a reader's buffer.
const readAhead = 256 << 10

// Identity returns the source whose units of work are themselves records.
func Identity() Source { return &identity{} }

type identity struct{ work string }

func (i *identity) Open(_ files.FS, work string) error {
	i.work = work
	return nil
}

func (i *identity) Admit(files.FS) error        { return nil }
func (i *identity) Next() (Record, bool, error) { return Record{i.work, i.work}, true, nil }
func (i *identity) Close()                      {}
func (i *identity) Whole() bool                 { return true }

// WholeFile returns the source whose units of work are files, each of which is one record.
func WholeFile() Source { return &wholeFile{} }

type wholeFile struct {
	fsys files.FS
	name string
}

func (w *wholeFile) Open(fsys files.FS, name string) error {
	w.fsys, w.name = fsys, name
	return nil
}

func (w *wholeFile) Admit(fsys files.FS) error { return admit(fsys, w.name) }

func (w *wholeFile) Next() (Record, bool, error) {
	value, err := files.Read(w.fsys, w.name)
	return Record{w.name, value}, true, err
}

func (w *wholeFile) Close()      { w.fsys = nil }
func (w *wholeFile) Whole() bool { return true }

// admit returns why a file may not be read further.
func admit(fsys files.FS, name string) error {
	path, err := files.Local(name)
	if err != nil {
		return err
	}
	return files.Admit(fsys, path)
}

// file is the part of a source that has an open file.
type file struct {
	name string
	f    files.File
}

func (f *file) open(fsys files.FS, name string) (err error) {
	f.name = name
	f.f, err = files.Open(fsys, name)
	return err
}

func (f *file) Admit(fsys files.FS) error { return admit(fsys, f.name) }

// Read reads from the file and converts its errors.
func (f *file) Read(p []byte) (int, error) {
	n, err := f.f.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = files.Error(f.name, err)
	}
	return n, err
}

// failed returns the error of a corrupt file, with the file's name. io.EOF stays as it is.
func (f *file) failed(err error) error {
	if err == nil || errors.Is(err, io.EOF) || strings.Contains(err.Error(), f.name) {
		return err
	}
	return status.Errorf(status.CodeOf(err), "%w, in %s", err, f.name)
}

// Close closes the file. Nothing was written to it, so errors do not matter.
func (f *file) Close() {
	if f.f != nil {
		_ = f.f.Close()
		f.f = nil
	}
}

func (f *file) Whole() bool { return false }

// key returns the key of a numbered record.
func (f *file) key(n uint64) string { return f.name + ":" + strconv.FormatUint(n, 10) }

// TextLines returns the source whose records are the lines of files, without their line ends and without the first skip lines of each file.
func TextLines(skip int64) Source { return &textLines{skip: skip} }

// Lines is TextLines for files that may be compressed.
func Lines(c tfrecord.Compression) Source { return &textLines{compression: c} }

type textLines struct {
	file
	skip        int64
	compression tfrecord.Compression
	in          *bufio.Reader
	line        uint64
}

func (t *textLines) Open(fsys files.FS, name string) error {
	if err := t.open(fsys, name); err != nil {
		return err
	}
	if t.in == nil {
		t.in = bufio.NewReaderSize(nil, readAhead)
	}
	t.in.Reset(&t.file)
	if t.compression != tfrecord.None {
		t.in.Reset(tfrecord.NewInflater(bufio.NewReaderSize(&t.file, readAhead), t.compression))
	}
	t.line = 0
	for i := int64(0); i < t.skip; i++ {
		switch _, err := t.next(); {
		case errors.Is(err, io.EOF):
			return nil // then the file has no records either
		case err != nil:
			return err
		}
	}
	return nil
}

// next reads a line. An unterminated last line counts if it is not empty.
func (t *textLines) next() (string, error) {
	t.line++
	line, err := files.ReadLine(t.in, t.name)
	switch {
	case err == nil:
		line = line[:len(line)-1]
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

func (t *textLines) Next() (Record, bool, error) {
	line, err := t.next()
	if err != nil {
		return Record{}, false, t.failed(err)
	}
	return Record{t.key(t.line), line}, false, nil
}

func (t *textLines) Close() {
	t.file.Close()
	t.in = nil // an idle reader holds no buffer
}

// Records returns the source whose records are those of TFRecord files, which may be compressed.
func Records(c tfrecord.Compression) Source { return &records{compression: c} }

// RecordsFrom is Records without the first start bytes of each file.
func RecordsFrom(c tfrecord.Compression, start int64) Source {
	return &records{compression: c, start: start}
}

type records struct {
	file
	compression tfrecord.Compression
	start       int64
	in          *tfrecord.Reader
}

func (r *records) Open(fsys files.FS, name string) error {
	err := r.open(fsys, name)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, &r.file, r.start); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.in = tfrecord.NewReader(&r.file, r.compression, files.MaxContent)
	return nil
}

func (r *records) Next() (Record, bool, error) {
	at := r.in.Offset()
	b, err := r.in.Next()
	if err != nil {
		return Record{}, false, r.failed(err)
	}
	return Record{r.key(at), string(b)}, false, nil
}

func (r *records) Close() {
	r.file.Close()
	r.in = nil
}
