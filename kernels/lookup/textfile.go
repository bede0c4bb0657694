package lookup

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/troupe-run/troupe/containers/table"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/args"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/parse"
)

// Column indexes with a special meaning.
const (
	lineNumber = -1
	wholeLine  = -2
)

// textFile describes how a table's entries are read from the lines of a file.
type textFile struct {
	key, value     int64 // columns
	size           int64 // number of lines to use, -1 for all
	offset         int64 // added to line numbers and to 32-bit integers
	delimiter      string
	keyDT, valueDT tensor.DType
	path           string
	fsys           files.FS
}

func newInitializeFromTextFile(c *kernels.Construction) (any, error) {
	a := c.Attrs().Reader()
	f := textFile{size: a.Int("vocab_size"), key: a.Int("key_index"), value: a.Int("value_index"), delimiter: a.Str("delimiter")}
	if err := a.Err(); err != nil {
		return nil, err
	}
	f.offset, _ = c.Attrs().Int("offset") // graphs of older clients do not have it
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
		return f.initialize(ctx, t)
	}), nil
}

// initialize fills the table. An initialized table keeps its entries, even if the file has others: tables that share a name are expected to
// have the same file.
func (f textFile) initialize(ctx *kernels.Context, t table.Initializable) error {
	if err := args.FirstError(column("key", "Key", f.key, f.keyDT), column("value", "Value", f.value, f.valueDT)); err != nil {
		return err
	}
	if filled, ok := t.Initialized(); ok {
		keepsEntries(ctx, filled)
		// However, report a file whose first line is invalid.
		return f.read(1, func(_, _ *tensor.Tensor) error { return nil })
	}
	err := t.Initialize(ctx.Changes(), f, ctx.Step.Origin)
	if table.IsDifferent(err) {
		return nil
	}
	return err
}

// keepsEntries logs, as TensorFlow does, that a step has tried to fill a table that is already filled.
func keepsEntries(ctx *kernels.Context, filled view.Act) {
	if ctx.Step.Log != nil {
		ctx.Step.Log.Info("a table keeps the entries that it has", "node", ctx.Node.Name, "initialized", filled.When(time.Now()))
	}
}

// column checks that a column can supply keys or values of a type.
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

// Size returns the number of lines used.
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

// linesAtATime is the maximum number of lines per tensor.
const linesAtATime = 256

// read calls add with the entries of the first most lines, or of all lines if most is -1. Entries before an invalid line are added first.
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
			// TensorFlow's iterator is already at its end when the table reads it.
			return status.Errorf(status.OutOfRange, "Read less bytes than requested")
		case errors.Is(err, io.EOF) || err == nil && at == most:
			return nil
		case err != nil:
			return err
		}
	}
}

// batch holds the entries of some lines.
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

// hand passes the entries to add and clears the batch.
func (b *batch) hand(add func(keys, values *tensor.Tensor) error) error {
	defer b.release()
	keys, values := b.keys.Rows(0, b.n), b.values.Rows(0, b.n)
	defer keys.Release()
	defer values.Release()
	return add(keys, values)
}

// take adds the next line, number at. It returns io.EOF if no line is left to use.
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
	number = parse.TrimSpace(number)
	read, ok := numberReaders[t.DType()]
	if !ok {
		return status.InvalidArgumentf("Data type %v not supported.", t.DType())
	}
	if !read(t, b.n, number) {
		return status.InvalidArgumentf("Field %s in line %d is not a valid %v.", text, at, t.DType())
	}
	if t.DType() == tensor.Int32 { // as in TensorFlow, the offset applies to this type of numbers only
		tensor.Of[int32](t)[b.n] += int32(b.offset)
	}
	return nil
}

var numberReaders = parse.Numbers(parse.Int, parse.Float)

// lines reads a file line by line, without line ends.
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

// next returns the next line, or io.EOF. A last line without a line end counts unless it is empty.
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
