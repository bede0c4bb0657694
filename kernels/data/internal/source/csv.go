package source

import (
	"bufio"
	"io"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/parse"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// csv reads the records of CSV files, with a component for each column (core/kernels/data/experimental/csv_dataset_op.cc).
type csv struct {
	names       []string
	compression tfrecord.Compression
	header      bool // skip the first line of each file
	delimiter   byte
	quotes      bool // fields may be quoted
	missing     string
	selected    []int64 // columns; all if empty
	excluded    []int64
	defaults    dataset.Element // an empty tensor makes the field required
	types       []tensor.DType
}

func newCSV(s *dataset.Settings) dataset.Maker {
	types := s.TypeList("output_types")
	for _, t := range types {
		if _, ok := csvNumbers[t]; !ok && t != tensor.String {
			s.Failf("csv: data type %v not supported", t)
		}
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k := &csv{names: in.Names("filenames"), compression: Compression(in, 1), header: in.Bool(3, "header"),
			quotes: in.Bool(5, "use_quote_delim"), missing: in.Str(6, "na_value"), selected: in.Ints(7, "select_cols"), types: types}
		if in.Int(2, "buffer_size") <= 0 {
			in.Failf("buffer_size should be positive")
		}
		delimiter := in.Str(4, "field_delim")
		if len(delimiter) != 1 {
			in.Failf("field_delim should be only 1 char")
		} else {
			k.delimiter = delimiter[0]
		}
		k.defaults = in.Rest(8, 8+len(types))
		if in.Context.NumInputs() > 8+len(types) {
			k.excluded = in.Ints(8+len(types), "exclude_cols")
		}
		k.check(in)
		return k
	}
}

// check rejects columns and defaults that do not fit.
func (k *csv) check(in *dataset.Inputs) {
	for i, t := range k.defaults {
		switch {
		case t.Rank() > 1:
			in.Failf("Each record default should be at most rank 1")
		case t.Len() > 1:
			in.Failf("There should only be 1 default per field but field %d has %d", i, t.Len())
		case t.DType() != k.types[i]:
			in.Fail(dataset.TypeMismatch(i, k.types[i], t.DType()))
		}
	}
	for name, list := range map[string][]int64{"select_cols": k.selected, "exclude_cols": k.excluded} {
		for i, c := range list {
			switch {
			case c < 0:
				in.Failf("%s should be non-negative indices", name)
			case i > 0 && list[i-1] >= c:
				in.Failf("%s should be strictly increasing indices", name)
			}
		}
	}
	switch {
	case len(k.selected) > 0 && len(k.selected) != len(k.types):
		in.Failf("select_cols should match output size")
	case len(k.selected) > 0 && len(k.excluded) > 0:
		in.Failf("Either select_cols or exclude_cols should be empty")
	}
}

// csvNumbers are the parsers of the number types that a field may have.
var csvNumbers = parse.Numbers(parse.Int, parse.Float)

func (k *csv) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *csv) Open(e *dataset.Env) (dataset.Iterator, error) { return &csvReading{of: k, env: e}, nil }

// csvReading is in the middle of a file, or before one.
type csvReading struct {
	of     *csv
	env    *dataset.Env
	file   int
	record int64 // records read from the file
	f      files.File
	in     *bufio.Reader
}

// csvBuffer is the size of the read buffer.
const csvBuffer = 64 << 10

func (it *csvReading) Next(c *dataset.Call) (dataset.Element, error) {
	for it.file < len(it.of.names) {
		if err := c.Err(); err != nil {
			return nil, err
		}
		if err := it.openFile(); err != nil {
			it.closeFile()
			return nil, err
		}
		e, err := it.read()
		if !dataset.AtEnd(err) {
			it.record++
			return e, err
		}
		it.closeFile()
	}
	return nil, io.EOF
}

// openFile opens the file, unless it is open, and skips its header.
func (it *csvReading) openFile() error {
	if it.f != nil {
		return nil
	}
	name := it.of.names[it.file]
	if err := it.env.NoteFile(name); err != nil {
		return err
	}
	f, err := files.Open(it.env.Files(), name)
	if err != nil {
		return err
	}
	it.f = f
	var in io.Reader = f
	if it.of.compression != tfrecord.None {
		in = tfrecord.NewInflater(bufio.NewReaderSize(f, csvBuffer), it.of.compression)
	}
	it.in = bufio.NewReaderSize(in, csvBuffer)
	if !it.of.header {
		return nil
	}
	_, err = it.fields(func(int) bool { return false })
	if dataset.AtEnd(err) {
		return status.InvalidArgumentf("Can't read header of file")
	}
	return err
}

func (it *csvReading) closeFile() {
	it.Close()
	it.file++
	it.record = 0
}

func (it *csvReading) Close() {
	if it.f != nil {
		_ = it.f.Close() // nothing was written
		it.f, it.in = nil, nil
	}
}

// wants returns a function that reports which columns are read.
func (k *csv) wants() func(column int) bool {
	selected, excluded := k.selected, k.excluded
	return func(column int) bool {
		if len(excluded) > 0 && excluded[0] == int64(column) {
			excluded = excluded[1:]
			return false
		}
		if len(k.selected) == 0 {
			return true
		}
		if len(selected) > 0 && selected[0] == int64(column) {
			selected = selected[1:]
			return true
		}
		return false
	}
}

// read reads a record. It reads an invalid one to its end, so that reading can continue after it.
func (it *csvReading) read() (dataset.Element, error) {
	texts, err := it.fields(it.of.wants())
	if err != nil {
		return nil, err
	}
	if len(texts) > len(it.of.types) {
		return nil, status.InvalidArgumentf("Expect %d fields but have more in record", len(it.of.types))
	}
	e := make(dataset.Element, 0, len(texts))
	for i, text := range texts {
		t, err := it.of.value(i, text)
		if err != nil {
			e.Release()
			return nil, err
		}
		e = append(e, t)
	}
	if len(e) != len(it.of.types) {
		e.Release()
		return nil, status.InvalidArgumentf("Expect %d fields but have %d in record", len(it.of.types), len(e))
	}
	return e, nil
}

// value parses a field.
func (k *csv) value(i int, text string) (*tensor.Tensor, error) {
	if text == "" || text == k.missing {
		if k.defaults[i].Len() != 1 {
			return nil, status.InvalidArgumentf("Field %d is required but missing in record!", i)
		}
		return k.defaults[i].Reshaped(nil), nil
	}
	if k.types[i] == tensor.String {
		return tensor.FromScalar(text), nil
	}
	t, err := tensor.New(tensor.Host, k.types[i], nil)
	if err != nil {
		return nil, err
	}
	if !csvNumbers[k.types[i]](t, 0, text) {
		t.Release()
		return nil, status.InvalidArgumentf("Field %d in record is not a valid %v: %s", i, k.types[i], text)
	}
	return t, nil
}

var (
	errOpenQuote  = status.InvalidArgumentf("Reached end of file without closing quoted field in record")
	errInnerQuote = status.InvalidArgumentf("Quote inside a string has to be escaped by another quote")
	errBareQuote  = status.InvalidArgumentf("Unquoted fields cannot have quotes inside")
)

// fields reads the texts of a record's wanted columns; io.EOF if there is no record.
func (it *csvReading) fields(wanted func(column int) bool) (texts []string, failed error) {
	if _, err := it.in.Peek(1); err != nil {
		return nil, it.fault(err)
	}
	length := 0
	for column, last := 0, false; !last; column++ {
		text, end, err := it.field()
		if err != nil && status.CodeOf(err) != status.InvalidArgument {
			return nil, err
		}
		if failed == nil {
			failed = err
		}
		if length += len(text); length > files.MaxContent {
			return nil, status.Errorf(status.ResourceExhausted, "%s; It has a record of more than %d bytes, which is the limit", it.of.names[it.file], files.MaxContent)
		}
		if wanted(column) && len(texts) <= len(it.of.types) {
			texts = append(texts, string(text))
		}
		last = end
	}
	return texts, failed
}

// fault returns the error of a failed read.
func (it *csvReading) fault(err error) error {
	if dataset.AtEnd(err) {
		return io.EOF
	}
	return files.Error(it.of.names[it.file], err)
}

// field reads a field and its delimiter; last means that the record ends with it.
func (it *csvReading) field() (text []byte, last bool, err error) {
	b, err := it.in.ReadByte()
	if dataset.AtEnd(err) {
		return nil, true, nil
	}
	if err != nil {
		return nil, true, it.fault(err)
	}
	if b == '"' && it.of.quotes {
		return it.quoted()
	}
	var bad error
	for {
		switch {
		case b == it.of.delimiter:
			return text, false, bad
		case b == '\n' || b == '\r':
			return text, true, it.endLine(b, bad)
		case b == '"' && it.of.quotes:
			bad = errBareQuote
		}
		if text = append(text, b); len(text) > files.MaxContent {
			return nil, true, status.Errorf(status.ResourceExhausted, "%s; It has a field of more than %d bytes, which is the limit", it.of.names[it.file], files.MaxContent)
		}
		if b, err = it.in.ReadByte(); dataset.AtEnd(err) {
			return text, true, bad
		} else if err != nil {
			return nil, true, it.fault(err)
		}
	}
}

// quoted reads the rest of a field after its opening quote.
func (it *csvReading) quoted() (text []byte, last bool, bad error) {
	for {
		b, err := it.in.ReadByte()
		if dataset.AtEnd(err) {
			return nil, true, errOpenQuote
		}
		if err != nil {
			return nil, true, it.fault(err)
		}
		if b == '"' {
			next, err := it.in.ReadByte()
			switch {
			case dataset.AtEnd(err):
				return text, true, bad
			case err != nil:
				return nil, true, it.fault(err)
			case next == it.of.delimiter:
				return text, false, bad
			case next == '\n' || next == '\r':
				return text, true, it.endLine(next, bad)
			case next != '"':
				bad = errInnerQuote
			}
		}
		if text = append(text, b); len(text) > files.MaxContent {
			return nil, true, status.Errorf(status.ResourceExhausted, "%s; It has a field of more than %d bytes, which is the limit", it.of.names[it.file], files.MaxContent)
		}
	}
}

// endLine reads the line feed after a carriage return, if there is one.
func (it *csvReading) endLine(b byte, bad error) error {
	if b != '\r' {
		return bad
	}
	if next, err := it.in.Peek(1); err == nil && next[0] == '\n' {
		_, err = it.in.Discard(1)
		if err != nil {
			return it.fault(err)
		}
	}
	return bad
}

func (it *csvReading) Save(_ *dataset.Call, w *dataset.Writer) {
	w.Int("file", int64(it.file))
	w.Int("record", it.record)
}

// Restore rereads the records already read from the file.
func (it *csvReading) Restore(c *dataset.Call, r *dataset.Reader) {
	it.file = int(r.Place("file"))
	n := r.Place("record")
	if r.Err != nil || it.file >= len(it.of.names) || n == 0 {
		return
	}
	if err := it.openFile(); err != nil {
		r.Fail(err)
		return
	}
	for ; it.record < n; it.record++ {
		if err := c.Err(); err != nil {
			r.Fail(err)
			return
		}
		if _, err := it.fields(func(int) bool { return false }); dataset.AtEnd(err) {
			r.Fail(status.Errorf(status.DataLoss, "%s has %d records, of which %d were read", it.of.names[it.file], it.record, n))
			return
		}
	}
}
