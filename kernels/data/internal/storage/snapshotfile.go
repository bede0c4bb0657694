package storage

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	tensorpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_go_proto"
	shapepb "github.com/galeone/tensorflow/tensorflow/go/core/framework/tensor_shape_go_proto"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/protofield"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Files of saved datasets, in TensorFlow's formats (core/data/snapshot_utils.cc). Each run has a folder with a folder for each shard. A
// shard's folder has a file for each time that the iterator was saved in a checkpoint, and one more. A file next to the runs names the
// valid one.

const (
	snapshotMetadata = "snapshot.metadata"
	shardSuffix      = ".shard"
	// The versions of the files: records of length and message, and TFRecords of one tensor each.
	snapshotV1 = 1
	snapshotV2 = 2
)

func joinPath(parts ...string) string {
	out := ""
	for _, p := range parts {
		switch {
		case out == "":
			out = p
		case p != "":
			out = strings.TrimRight(out, "/") + "/" + strings.TrimLeft(p, "/")
		}
	}
	return out
}

func shardDir(run string, shard int64) string {
	return joinPath(run, fmt.Sprintf("%08d%s", uint64(shard), shardSuffix))
}

func snapshotFile(dir string, i int64) string { return joinPath(dir, fmt.Sprintf("%08d.snapshot", i)) }

// metadata is a SnapshotMetadataRecord.
type metadata struct {
	hash, run                  string
	created, version, elements int64
	types                      []tensor.DType
	finalized                  bool
}

// The numbers of the record's fields.
const (
	metadataHash protowire.Number = iota + 1
	metadataRun
	metadataCreated
	metadataVersion
	metadataType
	metadataElements
	metadataFinalized protowire.Number = 1000
)

func (m *metadata) marshal() []byte {
	var b []byte
	text := func(n protowire.Number, s string) {
		if s != "" {
			b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
		}
	}
	number := func(n protowire.Number, v int64) {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		}
	}
	text(metadataHash, m.hash)
	text(metadataRun, m.run)
	number(metadataCreated, m.created)
	number(metadataVersion, m.version)
	var types []byte
	for _, t := range m.types {
		types = protowire.AppendVarint(types, uint64(t.Proto()))
	}
	text(metadataType, string(types))
	number(metadataElements, m.elements)
	if m.finalized {
		number(metadataFinalized, 1)
	}
	return b
}

func (m *metadata) unmarshal(b []byte) error {
	for f, err := range protofield.All(b) {
		if err != nil {
			return err
		}
		switch f.Number {
		case metadataHash:
			m.hash = string(f.Bytes)
		case metadataRun:
			m.run = string(f.Bytes)
		case metadataCreated:
			m.created = int64(f.Varint)
		case metadataVersion:
			m.version = int64(f.Varint)
		case metadataType:
			for v, err := range f.Varints() {
				if err != nil {
					return err
				}
				m.types = append(m.types, tensor.DType(v))
			}
		case metadataElements:
			m.elements = int64(f.Varint)
		case metadataFinalized:
			m.finalized = f.Varint != 0
		}
	}
	return nil
}

// readMetadata reads a folder's metadata about its runs; nil if there is none.
func readMetadata(fsys files.FS, dir string) (*metadata, error) {
	name := joinPath(dir, snapshotMetadata)
	local, err := files.Local(name)
	if err != nil {
		return nil, err
	}
	if err := fsys.Check(local); err != nil {
		return nil, err
	}
	switch _, err := fsys.Stat(local); {
	case status.CodeOf(err) == status.PermissionDenied:
		return nil, err // the session may not read it
	case err != nil:
		return nil, nil //nolint:nilerr // as in TensorFlow: what cannot be looked at is not there
	}
	text, err := files.Read(fsys, name)
	if err != nil {
		return nil, err
	}
	m := &metadata{}
	if err := m.unmarshal([]byte(text)); err != nil {
		return nil, status.Errorf(status.DataLoss, "Can't parse %s as binary proto", name)
	}
	return m, nil
}

// write replaces a folder's metadata atomically.
func (m *metadata) write(fsys files.FS, dir string) error {
	m.created = time.Now().UnixMicro()
	name := joinPath(dir, snapshotMetadata)
	temporary := name + "-tmp-" + strconv.FormatUint(randomID(), 10)
	if err := files.Write(fsys, temporary, string(m.marshal())); err != nil {
		return err
	}
	from, err := files.Local(temporary)
	if err != nil {
		return err
	}
	to, err := files.Local(name)
	if err != nil {
		return err
	}
	return files.Error(name, fsys.Rename(from, to))
}

// mkdirAll creates the folder that an op names.
func mkdirAll(fsys files.FS, dir string) error {
	local, err := files.Local(dir)
	if err != nil {
		return err
	}
	return files.Error(dir, fsys.MkdirAll(local))
}

// exists reports whether a file exists that the session may use.
func exists(fsys files.FS, name string) bool {
	local, err := files.Local(name)
	if err != nil || fsys.Check(local) != nil {
		return false
	}
	_, err = fsys.Stat(local)
	return err == nil
}

// snapshotWriter writes elements to a file.
type snapshotWriter struct {
	file   files.File
	buffer *bufio.Writer
	// v2 is for files of version 2. Files of version 1 may be compressed (zip), or packed, with compressed elements.
	v2     *tfrecord.Writer
	zip    *gzip.Writer
	packed bool
}

// Compressions of snapshots, by their names in ops.
const (
	uncompressed = ""
	gzipped      = "GZIP"
	snappied     = "SNAPPY"
	autoPacked   = "AUTO"
)

// recordCompression returns the compression of files of version 2.
func recordCompression(name string) (tfrecord.Compression, error) {
	if name == snappied {
		return tfrecord.Snappy, nil
	}
	c, known := tfrecord.ParseCompression(name)
	if !known {
		return c, status.InvalidArgumentf("compression must be '', 'GZIP', 'ZLIB' or 'SNAPPY', got '%s'", name)
	}
	return c, nil
}

// checkCompression rejects a compression that a file version does not support.
func checkCompression(s *dataset.Settings, name string, version int64) string {
	if s.Err() != nil {
		return name
	}
	if version != snapshotV2 {
		if name != uncompressed && name != gzipped && name != snappied {
			s.Failf("compression must be either '', 'GZIP' or 'SNAPPY'.")
		}
		return name
	}
	if _, err := recordCompression(name); err != nil {
		s.Fail(err)
	}
	return name
}

// newSnapshotWriter creates a file, or truncates an existing one.
func newSnapshotWriter(fsys files.FS, name, compression string, version int64) (*snapshotWriter, error) {
	local, err := files.Local(name)
	if err != nil {
		return nil, err
	}
	f, err := fsys.Overwrite(local)
	if err != nil {
		return nil, files.Error(name, err)
	}
	w := &snapshotWriter{file: f, buffer: bufio.NewWriterSize(f, 64<<10)}
	if version == snapshotV2 {
		c, err := recordCompression(compression)
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		w.v2 = tfrecord.NewWriter(w.buffer, c)
		return w, nil
	}
	w.packed = compression == snappied
	if compression == gzipped {
		w.zip = gzip.NewWriter(w.buffer)
	}
	return w, nil
}

// messageOf returns a tensor's message, with strings in its fields, as TensorFlow writes them.
func messageOf(t *tensor.Tensor) ([]byte, error) {
	if t.DType() != tensor.String {
		return t.AppendMessage(nil, nil)
	}
	p, err := t.Proto()
	if err != nil {
		return nil, err
	}
	b, err := proto.Marshal(p)
	if err != nil {
		return nil, status.Errorf(status.DataLoss, "Failed to serialize a tensor of %d bytes: %v", t.ByteSize(), err)
	}
	return b, nil
}

// write adds an element, which it borrows.
func (w *snapshotWriter) write(e dataset.Element) error {
	if w.packed {
		return w.writePacked(e)
	}
	var record []byte
	for _, t := range e {
		b, err := messageOf(t)
		if err != nil {
			return err
		}
		if w.v2 != nil {
			if err := w.v2.Write(b); err != nil {
				return err
			}
			continue
		}
		record = protowire.AppendBytes(protowire.AppendTag(record, 1, protowire.BytesType), b)
	}
	if w.v2 != nil {
		return nil
	}
	return w.record(record)
}

// record writes bytes, preceded by their length.
func (w *snapshotWriter) record(b []byte) error {
	var out io.Writer = w.buffer
	if w.zip != nil {
		out = w.zip
	}
	var header [8]byte
	binary.LittleEndian.PutUint64(header[:], uint64(len(b)))
	if _, err := out.Write(header[:]); err != nil {
		return err
	}
	_, err := out.Write(b)
	return err
}

// writePacked writes an element as the shapes and sizes of its tensors, followed by all their bytes as one block of Snappy.
func (w *snapshotWriter) writePacked(e dataset.Element) error {
	var head, plain []byte
	for _, t := range e {
		size := len(plain)
		if plainBytes(t.DType()) {
			plain = append(plain, t.Data()...)
		} else {
			b, err := messageOf(t)
			if err != nil {
				return err
			}
			plain = append(plain, b...)
		}
		shape, err := proto.Marshal(t.Shape().Proto())
		if err != nil {
			return err
		}
		var m []byte
		m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), shape)
		m = protowire.AppendVarint(protowire.AppendTag(m, 3, protowire.VarintType), uint64(len(plain)-size))
		head = protowire.AppendBytes(protowire.AppendTag(head, 1, protowire.BytesType), m)
	}
	if len(plain) > maxPacked {
		return status.Errorf(status.OutOfRange, "Encountered dataset element of size %d, exceeding the 4GB Snappy limit.", len(plain))
	}
	if err := w.record(head); err != nil {
		return err
	}
	return w.record(snappy.Encode(nil, plain))
}

// maxPacked is the maximum number of bytes in a block of Snappy.
const maxPacked = 1<<32 - 1

// plainBytes reports whether the elements of a type are stored as plain bytes.
func plainBytes(t tensor.DType) bool {
	return t != tensor.String && t != tensor.Variant && t != tensor.Resource
}

// close ends the file.
func (w *snapshotWriter) close() error {
	var errs []error
	if w.v2 != nil {
		errs = append(errs, w.v2.Close())
	}
	if w.zip != nil {
		errs = append(errs, w.zip.Close())
	}
	errs = append(errs, w.buffer.Flush(), w.file.Close())
	return errors.Join(errs...)
}

// snapshotReader reads elements from a file.
type snapshotReader struct {
	name  string
	file  files.File
	types []tensor.DType
	// v2 is for files of version 2, plain for those of version 1.
	v2     *tfrecord.Reader
	plain  io.Reader
	offset int64
	packed bool
}

// openSnapshot opens a file of elements with components of the given types.
func openSnapshot(fsys files.FS, name, compression string, version int64, types []tensor.DType) (*snapshotReader, error) {
	if version < 0 || version > snapshotV2 {
		return nil, status.InvalidArgumentf("Snapshot reader version: %d is not supported.", version)
	}
	f, err := files.Open(fsys, name)
	if err != nil {
		return nil, err
	}
	r := &snapshotReader{name: name, file: f, types: types}
	if version == snapshotV2 {
		c, err := recordCompression(compression)
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		r.v2 = tfrecord.NewReader(f, c, files.MaxContent)
		return r, nil
	}
	r.plain = bufio.NewReaderSize(f, 64<<10)
	switch {
	case compression == gzipped:
		r.plain = tfrecord.NewInflater(r.plain, tfrecord.GZIP)
	case compression == snappied && version == 0:
		r.plain = tfrecord.NewInflater(r.plain, tfrecord.Snappy)
	case compression == snappied:
		r.packed = true
	}
	return r, nil
}

// next returns the next element; io.EOF after the last one, and for one that was cut off.
func (r *snapshotReader) next(c *dataset.Call) (dataset.Element, error) {
	switch {
	case r.v2 != nil:
		return r.nextRecords(c)
	case r.packed:
		return r.nextPacked(c)
	}
	b, err := r.record()
	if err != nil {
		return nil, err
	}
	var e dataset.Element
	for f, err := range protofield.All(b) {
		var t *tensor.Tensor
		if err == nil && f.Number == 1 {
			t, err = r.parse(c, f.Bytes)
		}
		if err != nil {
			e.Release()
			return nil, r.lost(err)
		}
		if t != nil {
			e = append(e, t)
		}
	}
	return e, r.check(e)
}

// nextRecords reads an element with one record per component.
func (r *snapshotReader) nextRecords(c *dataset.Call) (dataset.Element, error) {
	e := make(dataset.Element, 0, len(r.types))
	for range r.types {
		b, err := r.v2.Next()
		var t *tensor.Tensor
		if err == nil {
			t, err = r.parse(c, b)
		}
		if err != nil {
			e.Release()
			if dataset.AtEnd(err) {
				return nil, err
			}
			return nil, r.lost(err)
		}
		e = append(e, t)
	}
	return e, r.check(e)
}

func (r *snapshotReader) parse(c *dataset.Call, b []byte) (*tensor.Tensor, error) {
	p := &tensorpb.TensorProto{}
	if err := tensor.Unmarshal(b, p); err != nil {
		return nil, status.Errorf(status.DataLoss, "Unable to parse tensor from stored proto")
	}
	return tensor.FromTensorProto(p, c.Pool())
}

// record reads bytes, preceded by their length.
func (r *snapshotReader) record() ([]byte, error) {
	var header [8]byte
	if _, err := io.ReadFull(r.plain, header[:]); err != nil {
		return nil, ended(err)
	}
	n := binary.LittleEndian.Uint64(header[:])
	if n > files.MaxContent {
		return nil, r.lost(status.Errorf(status.DataLoss, "a record has %d bytes, more than the limit of %d", n, files.MaxContent))
	}
	b, err := files.Fill(r.plain, nil, int(n), "a record")
	if err != nil {
		return nil, err
	}
	r.offset += int64(len(header)) + int64(n)
	return b, nil
}

func ended(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// nextPacked reads an element whose tensors are one block of Snappy.
func (r *snapshotReader) nextPacked(c *dataset.Call) (dataset.Element, error) {
	head, err := r.record()
	if err != nil {
		return nil, err
	}
	list, total, err := readPackedList(head)
	if err == nil && len(list) != len(r.types) {
		err = status.Errorf(status.DataLoss, "an element has %d components, expected %d", len(list), len(r.types))
	}
	if err != nil {
		return nil, r.lost(err)
	}
	block, err := r.record()
	if err != nil {
		return nil, err
	}
	plain, err := unpack(block, total)
	if err != nil {
		return nil, r.lost(err)
	}
	e := make(dataset.Element, 0, len(list))
	for i, m := range list {
		t, err := r.unpacked(c, r.types[i], m, plain[:m.size])
		if err != nil {
			e.Release()
			return nil, r.lost(err)
		}
		plain = plain[m.size:]
		e = append(e, t)
	}
	return e, nil
}

// unpacked creates the tensor from its bytes.
func (r *snapshotReader) unpacked(c *dataset.Call, dtype tensor.DType, m packedTensor, b []byte) (*tensor.Tensor, error) {
	if !plainBytes(dtype) {
		return r.parse(c, b)
	}
	return tensorOfBytes(c.Pool(), dtype, m.shape, b)
}

// tensorOfBytes returns a tensor with the given bytes.
func tensorOfBytes(pool *tensor.Pool, dtype tensor.DType, shape tensor.Shape, b []byte) (*tensor.Tensor, error) {
	if n, err := shape.NumElements(); err != nil || int64(len(b)) != n*int64(dtype.Size()) {
		return nil, status.Errorf(status.DataLoss, "a tensor of %v%v has %d bytes", dtype, shape, len(b))
	}
	t, err := tensor.New(pool, dtype, shape)
	if err == nil {
		copy(t.Data(), b)
	}
	return t, err
}

// packedTensor is the shape and size in bytes of a tensor.
type packedTensor struct {
	shape tensor.Shape
	size  int64
}

// readPackedList decodes the descriptions of an element's tensors. It also returns the sum of their sizes.
func readPackedList(b []byte) (list []packedTensor, total int64, err error) {
	for f, err := range protofield.All(b) {
		if err != nil {
			return nil, 0, err
		}
		if f.Number != 1 {
			continue
		}
		m, err := readPacked(f.Bytes)
		if err != nil {
			return nil, 0, err
		}
		if total += m.size; m.size < 0 || total > maxPacked {
			return nil, 0, status.Errorf(status.DataLoss, "an element has %d bytes", total)
		}
		list = append(list, m)
	}
	return list, total, nil
}

func readPacked(b []byte) (m packedTensor, err error) {
	for f, err := range protofield.All(b) {
		if err != nil {
			return m, err
		}
		switch f.Number {
		case 2:
			p := &shapepb.TensorShapeProto{}
			if err := tensor.Unmarshal(f.Bytes, p); err != nil {
				return m, err
			}
			m.shape, _ = tensor.ShapeFromProto(p)
		case 3:
			m.size = int64(f.Varint)
		}
	}
	return m, nil
}

// unpack decodes a block of Snappy with a decoded length of size bytes.
func unpack(block []byte, size int64) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, status.Internalf("Could not get snappy uncompressed length")
	}
	if int64(n) != size {
		return nil, status.Internalf("Uncompressed size mismatch. Snappy expects %d whereas the tensor metadata suggests %d", n, size)
	}
	if n > 64+64*len(block) {
		return nil, status.Internalf("Failed to perform snappy decompression.")
	}
	if err := files.Reserve("an element", size); err != nil {
		return nil, err
	}
	defer tensor.Host.Unreserve(size)
	plain, err := snappy.Decode(nil, block)
	if err != nil {
		return nil, status.Internalf("Failed to perform snappy decompression.")
	}
	return plain, nil
}

// check compares an element with the declared types.
func (r *snapshotReader) check(e dataset.Element) error {
	err := dataset.Spec{Types: r.types}.CheckElement(e)
	if err != nil {
		e.Release()
	}
	return err
}

// lost adds the file name to an error.
func (r *snapshotReader) lost(err error) error {
	code := status.CodeOf(err)
	if code == status.Unknown {
		code = status.DataLoss
	}
	return status.Errorf(code, "%s: %s", r.name, status.From(err).Message)
}

func (r *snapshotReader) close() { _ = r.file.Close() }

// baseName returns the last part of a name.
func baseName(name string) string { return path.Base(name) }
