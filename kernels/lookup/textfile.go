package lookup

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/parse"
)

// Indexes of a line's columns that mean no column.
const (
	lineNumber = -1
	wholeLine  = -2
)

// textFile tells how to read a table's entries from the lines of a file.
type textFile struct {
	key, value     int64 // columns
	size           int64 // how many lines count, -1 for all
	offset         int64 // added to line numbers and to integers of 32 bits
	delimiter      string
	keyDT, valueDT tensor.DType
	path           string
	fsys           files.FS
}

func newInitializeFromTextFile(c *kernels.Construction) (any, error) {
	a := c.Attrs()
	var f textFile
	var err1, err2, err3, err4 error
	f.size, err1 = a.Int("vocab_size")
	f.key, err2 = a.Int("key_index")
	f.value, err3 = a.Int("value_index")
	f.delimiter, err4 = a.Str("delimiter")
	if err := args.FirstError(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	f.offset, _ = a.Int("offset") // graphs of older clients do not have it
	if len(f.delimiter) != 1 {
		return nil, status.InvalidArgumentf("delimiter should be only 1 char")
	}
	return disk.Async(func(ctx *kernels.Context) error {
		t, err := initializableAt(ctx, false)
		if err != nil {
			return err
		}
		path := ctx.Input(1)
		if err := args.NeedScalar(path, tensor.String, "filename should be a single string, but got %v"); err != nil {
			return err
		}
		f := f
		if f.path = path.Strings()[0]; f.path == "" {
			return status.InvalidArgumentf("filename cannot be empty.")
		}
		f.fsys = disk.Files(ctx)
		f.keyDT, f.valueDT = t.Key().DType, t.Value().DType
		return f.initialize(t)
	}), nil
}

// initialize fills the table. A table that was initialized before keeps what it has, even if the
// file holds something else: the name under which tables are shared is expected to tell the file.
func (f textFile) initialize(t table.Initializable) error {
	if err := args.FirstError(column("key", "Key", f.key, f.keyDT), column("value", "Value", f.value, f.valueDT)); err != nil {
		return err
	}
	if t.Initialized() {
		// But a file whose very beginning is wrong is told of.
		return f.read(1, func(_, _ *tensor.Tensor) error { return nil })
	}
	err := t.Initialize(f)
	if table.IsDifferent(err) {
		return nil
	}
	return err
}

// column checks that a column can become keys or values of a type.
func column(side, Side string, index int64, dtype tensor.DType) error {
	switch {
	case index < wholeLine:
		return status.InvalidArgumentf("%s index %d is below %d, which means the whole line", Side, index, wholeLine)
	case index == lineNumber && dtype != tensor.Int64:
		return status.InvalidArgumentf("%s index for line number requires table %s dtype of int64, got %v", Side, side, dtype)
	case index == wholeLine && !dtype.IsInteger() && dtype != tensor.String && side == "key":
		return status.InvalidArgumentf("Key index for whole line requires string or integer table key, got %v", dtype)
	case index == wholeLine && !dtype.IsInteger() && dtype != tensor.String:
		return status.InvalidArgumentf("Value index for whole line requires table value dtype of integer or string, got %v", dtype)
	}
	return nil
}

// Size is the number of lines that count.
func (f textFile) Size() (n int64, err error) {
	if f.size != -1 {
		return f.size, nil
	}
	r, err := openLines(f.fsys, f.path)
	if err != nil {
		return 0, err
	}
	defer r.close()
	for {
		if _, err := r.next(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return 0, err
		}
		n++
	}
}

// Each reads the file.
func (f textFile) Each(add func(keys, values *tensor.Tensor) error) error { return f.read(-1, add) }

// linesAtATime is how many lines are handed on in one tensor.
const linesAtATime = 256

// read hands on the entries of the first most lines, -1 for all. What comes before a line that is wrong
// is handed on first.
func (f textFile) read(most int64, add func(keys, values *tensor.Tensor) error) error {
	r, err := openLines(f.fsys, f.path)
	if err != nil {
		return err
	}
	defer r.close()
	for at := int64(0); ; {
		b, err := f.newBatch()
		if err != nil {
			return err
		}
		for b.n < linesAtATime && at != most && err == nil {
			if err = b.take(r, at); err == nil {
				at++
			}
		}
		if b.n > 0 {
			if err := b.hand(add); err != nil {
				return err
			}
		} else {
			b.release()
		}
		switch {
		case errors.Is(err, io.EOF) && at == 0 && f.size == 0:
			return status.Errorf(status.OutOfRange, "Finished reading 0 of lines from %s", f.path)
		case errors.Is(err, io.EOF) && at == 0:
			// TensorFlow's iterator is at its end before the table looks at it.
			return status.Errorf(status.OutOfRange, "Read less bytes than requested")
		case errors.Is(err, io.EOF) || err == nil && at == most:
			return nil
		case err != nil:
			return err
		}
	}
}

// batch is some lines' entries.
type batch struct {
	textFile
	keys, values *tensor.Tensor
	n            int
}

func (f textFile) newBatch() (*batch, error) {
	n := int64(linesAtATime)
	keys, err := tensor.New(tensor.Host, f.keyDT, tensor.Shape{n})
	if err != nil {
		return nil, err
	}
	values, err := tensor.New(tensor.Host, f.valueDT, tensor.Shape{n})
	if err != nil {
		keys.Release()
		return nil, err
	}
	return &batch{textFile: f, keys: keys, values: values}, nil
}

func (b *batch) release() {
	b.keys.Release()
	b.values.Release()
}

// hand hands the entries on and ends the batch.
func (b *batch) hand(add func(keys, values *tensor.Tensor) error) error {
	defer b.release()
	keys, values := b.keys.Rows(0, b.n), b.values.Rows(0, b.n)
	defer keys.Release()
	defer values.Release()
	return add(keys, values)
}

// take adds the next line, which is number at; io.EOF where there is none that counts.
func (b *batch) take(r *lines, at int64) error {
	line, err := r.next()
	switch {
	case errors.Is(err, io.EOF) && b.size != -1 && at != b.size:
		return status.InvalidArgumentf("Invalid vocab_size in %s: expected %d but got %d", b.path, b.size, at)
	case err != nil:
		return err
	case b.size != -1 && at >= b.size:
		return io.EOF
	case line == "":
		return status.InvalidArgumentf("Invalid content in %s: empty line found at position %d.", b.path, r.at)
	}
	var columns []string
	if last := max(b.key, b.value); last >= 0 {
		columns = strings.Split(line, b.delimiter)
		if int64(len(columns)) <= last {
			return status.InvalidArgumentf("Invalid number of columns in %s line %d (%s) : expected at least %d got %d", b.path, at, line, uint64(last)+1, len(columns))
		}
	}
	if err := args.FirstError(b.set(b.keys, b.key, line, columns, at), b.set(b.values, b.value, line, columns, at)); err != nil {
		return err
	}
	b.n++
	return nil
}

// set sets element n of keys or values from a line.
func (b *batch) set(t *tensor.Tensor, index int64, line string, columns []string, at int64) error {
	if index == lineNumber {
		tensor.Of[int64](t)[b.n] = at + b.offset
		return nil
	}
	text := line
	if index != wholeLine {
		text = columns[index]
	}
	if t.DType() == tensor.String {
		t.Strings()[b.n] = text
		return nil
	}
	number, _, _ := strings.Cut(text, "\x00")
	number = strings.Trim(number, " \t\n\v\f\r")
	read, ok := numberReaders[t.DType()]
	if !ok {
		return status.InvalidArgumentf("Data type %v not supported.", t.DType())
	}
	if !read(t, b.n, number) {
		return status.InvalidArgumentf("Field %s in line %d is not a valid %v.", text, at, t.DType())
	}
	if t.DType() == tensor.Int32 { // the offset counts for numbers of this type alone, as in TensorFlow
		tensor.Of[int32](t)[b.n] += int32(b.offset)
	}
	return nil
}

var numberReaders = parse.Numbers(parse.Int, parse.Float)

// lines reads a file by lines, without their ends.
type lines struct {
	path string
	file files.File
	r    *bufio.Reader
	at   int64 // bytes read
}

func openLines(fsys files.FS, path string) (*lines, error) {
	f, err := files.Open(fsys, path)
	if err != nil {
		return nil, err
	}
	return &lines{path: path, file: f, r: bufio.NewReaderSize(f, 1<<16)}, nil
}

func (l *lines) close() { _ = l.file.Close() } // nothing was written

// next gives the next line, or io.EOF. What follows the last line's end is a line unless it is empty.
func (l *lines) next() (string, error) {
	line, err := files.ReadLine(l.r, l.path)
	l.at += int64(len(line))
	switch {
	case errors.Is(err, io.EOF):
		if text := strings.TrimSuffix(string(line), "\r"); text != "" {
			return text, nil
		}
		return "", io.EOF
	case err != nil:
		return "", err
	}
	return strings.TrimSuffix(string(line[:len(line)-1]), "\r"), nil
}
