package source

import (
	"io"
	"sort"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"github.com/troupe-run/troupe/kernels/reader"
)

// records reads the records of files, one file after the other.
type records struct {
	names  []string
	starts []int64 // offset in bytes at which each file starts; nil for none
	source func(start int64) reader.Source
}

// Compression reads a compression_type input.
func Compression(in *dataset.Inputs, i int) tfrecord.Compression {
	name := in.Str(i, "compression_type")
	c, known := tfrecord.ParseCompression(name)
	if !known && name != "" {
		in.Failf("Unsupported compression_type: %s.", name)
	}
	return c
}

// checkBufferSize checks an input that requests a buffer size against the minimum. The server chooses the size.
func checkBufferSize(in *dataset.Inputs, i int, least int64) {
	if n := in.Int(i, "buffer_size"); n < least {
		in.Failf("`buffer_size` must be >= 0 (0 == default)")
	}
}

func newTextLines(*dataset.Settings) (dataset.Spec, dataset.Maker) {
	return stringSpec(), func(in *dataset.Inputs) dataset.Kind {
		names, c := in.Names("filenames"), Compression(in, 1)
		checkBufferSize(in, 2, 0)
		return &records{names: names, source: func(int64) reader.Source { return reader.Lines(c) }}
	}
}

func newTFRecords(*dataset.Settings) (dataset.Spec, dataset.Maker) {
	return stringSpec(), func(in *dataset.Inputs) dataset.Kind {
		k := &records{names: in.Names("filenames")}
		c := Compression(in, 1)
		checkBufferSize(in, 2, dataset.Autotune)
		k.source = func(start int64) reader.Source { return reader.RecordsFrom(c, start) }
		if in.Context.NumInputs() > 3 {
			k.starts = in.Ints(3, "byte_offsets")
			if in.Err == nil && len(k.starts) > 0 && len(k.starts) != len(k.names) {
				in.Failf("`byte_offsets` must be of same size as `filenames`")
			}
			if len(k.starts) > 0 && c != tfrecord.None {
				in.Fail(status.Unimplementedf("TFRecordDatasetV2 with byte_offsets of compressed files"))
			}
		}
		return k
	}
}

func newFixedLength(*dataset.Settings) (dataset.Spec, dataset.Maker) {
	return stringSpec(), func(in *dataset.Inputs) dataset.Kind {
		l := reader.FixedLength{Header: in.Int(1, "header_bytes"), Record: in.Int(2, "record_bytes"), Footer: in.Int(3, "footer_bytes")}
		names := in.Names("filenames")
		checkBufferSize(in, 4, 0)
		switch {
		case in.Err != nil:
		case l.Header < 0:
			in.Failf("`header_bytes` must be >= 0")
		case l.Record <= 0:
			in.Failf("`record_bytes` must be > 0")
		case l.Footer < 0:
			in.Failf("`footer_bytes` must be >= 0")
		}
		if in.Context.NumInputs() > 5 {
			l.Compression = Compression(in, 5)
		}
		return &records{names: names, source: func(int64) reader.Source { return reader.NewFixedLength(l) }}
	}
}

func (k *records) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *records) Open(e *dataset.Env) (dataset.Iterator, error) { return &reading{of: k, env: e}, nil }

// reading is in the middle of a file, or before one.
type reading struct {
	of     *records
	env    *dataset.Env
	file   int
	record int64 // records read from the file
	source reader.Source
}

func (it *reading) Next(c *dataset.Call) (dataset.Element, error) {
	for it.file < len(it.of.names) {
		if err := c.Err(); err != nil {
			return nil, err
		}
		if err := it.openFile(); err != nil {
			it.nextFile()
			return nil, err
		}
		r, last, err := it.source.Next()
		if err == nil {
			it.record++
			if last {
				it.nextFile()
			}
			return dataset.Element{tensor.FromScalar(r.Value)}, nil
		}
		it.nextFile()
		if !dataset.AtEnd(err) {
			return nil, err
		}
	}
	return nil, io.EOF
}

// openFile opens the file, unless it is open.
func (it *reading) openFile() error {
	if it.source != nil {
		return nil
	}
	start := int64(0)
	if len(it.of.starts) > 0 {
		start = it.of.starts[it.file]
	}
	name := it.of.names[it.file]
	if err := it.env.NoteFile(name); err != nil {
		return err
	}
	it.source = it.of.source(start)
	return it.source.Open(it.env.Files(), name)
}

// nextFile moves on to the next file.
func (it *reading) nextFile() {
	it.Close()
	it.file++
	it.record = 0
}

func (it *reading) Close() {
	if it.source != nil {
		it.source.Close()
		it.source = nil
	}
}

func (it *reading) Save(_ *dataset.Call, w *dataset.Writer) {
	w.Int("file", int64(it.file))
	w.Int("record", it.record)
}

// Restore rereads the records already read from the file.
func (it *reading) Restore(c *dataset.Call, r *dataset.Reader) {
	it.file = int(r.Place("file"))
	n := r.Place("record")
	if r.Err != nil || it.file >= len(it.of.names) || n == 0 {
		return
	}
	if it.file < 0 {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a dataset of files is in file %d", it.file))
		return
	}
	if err := it.openFile(); err != nil {
		r.Fail(err)
		return
	}
	for ; it.record < n; it.record++ {
		if _, _, err := it.source.Next(); err != nil {
			r.Fail(status.Errorf(status.CodeOf(err), "%s has %d records, of which %d were read: %v", it.of.names[it.file], it.record, n, err))
			return
		}
		if err := c.Err(); err != nil {
			r.Fail(err)
			return
		}
	}
}

// matching returns the names of the files that match patterns, in order.
type matching struct{ patterns []string }

func newMatching(*dataset.Settings) (dataset.Spec, dataset.Maker) {
	return stringSpec(), func(in *dataset.Inputs) dataset.Kind { return &matching{in.Names("patterns")} }
}

func (k *matching) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *matching) Open(e *dataset.Env) (dataset.Iterator, error) {
	return &listing{of: k, env: e}, nil
}

// listing holds the remaining names of one pattern, and the number of the next pattern.
type listing struct {
	of      *matching
	env     *dataset.Env
	pattern int
	names   []string
}

func (it *listing) Next(c *dataset.Call) (dataset.Element, error) {
	for len(it.names) == 0 {
		if it.pattern >= len(it.of.patterns) {
			return nil, io.EOF
		}
		names, err := files.Match(it.env.Files(), it.of.patterns[it.pattern])
		it.pattern++
		if err != nil {
			return nil, err
		}
		sort.Strings(names)
		it.names = names
	}
	name := it.names[0]
	it.names = it.names[1:]
	return dataset.Element{tensor.FromScalar(name)}, nil
}

func (it *listing) Close() {}

func (it *listing) Save(_ *dataset.Call, w *dataset.Writer) {
	w.Int("pattern", int64(it.pattern))
	w.Int("names", int64(len(it.names)))
	for i, name := range it.names {
		w.InAt("name", i).Str("name", name)
	}
}

func (it *listing) Restore(_ *dataset.Call, r *dataset.Reader) {
	if it.pattern = int(r.Place("pattern")); it.pattern < 0 {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a dataset of file names is at pattern %d", it.pattern))
	}
	for i := range r.Count("names") {
		it.names = append(it.names, r.InAt("name", i).Str("name"))
	}
}

// stringSpec returns the spec of sources of strings.
func stringSpec() dataset.Spec {
	return dataset.Spec{Types: []tensor.DType{tensor.String}, Shapes: []shapes.PartialShape{{Known: true}}}
}
