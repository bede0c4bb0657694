package checkpoint

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"path/filepath"
	"unsafe"

	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

// formatVersion is the version of format V2 that is written, and the newest that can be read.
const formatVersion = 1

// Codec encodes and decodes the elements of variant tensors as serialized tensorflow.VariantTensorDataProto.
type Codec interface {
	Encode(v any) ([]byte, error)
	Decode(b []byte) (any, error)
}

// Writer writes a checkpoint of format V2 with one data file. Its files have temporary names until Finish, so an incomplete checkpoint is
// never read. It must be used by one goroutine only. Several Writers may write the same prefix; the last to finish wins.
type Writer struct {
	prefix   string
	variants Codec
	journal  *journal // nil once the save is over
	temp     string   // the data file
	file     files.File
	out      *bufio.Writer
	offset   int64
	entries  map[string]*bundlepb.BundleEntryProto
}

// Create begins a checkpoint. It creates the folder if the folder's parent exists.
func Create(fsys files.FS, prefix string, variants Codec) (*Writer, error) {
	if err := makeDir(fsys, prefix); err != nil {
		return nil, err
	}
	j, err := begin(fsys, filepath.Dir(prefix))
	if err != nil {
		return nil, err
	}
	w := &Writer{prefix: prefix, variants: variants, journal: j, temp: j.temporary(dataName(prefix, 0, 1)), entries: map[string]*bundlepb.BundleEntryProto{}}
	if w.file, err = fsys.Create(w.temp); err != nil {
		err = files.Error(w.temp, err)
		j.end(err)
		return nil, err
	}
	w.out = bufio.NewWriterSize(w.file, 1<<16)
	return w, nil
}

// Add writes a tensor under a name that has not been used yet.
func (w *Writer) Add(name string, t *tensor.Tensor) error {
	if name == "" {
		return status.InvalidArgumentf("A tensor in a checkpoint needs a name")
	}
	if _, ok := w.entries[name]; ok {
		return status.InvalidArgumentf("Adding duplicate key: %s", name)
	}
	out := summed{w: w.out}
	var err error
	e := &bundlepb.BundleEntryProto{Dtype: t.DType().Proto(), Shape: t.Shape().Proto(), Offset: w.offset}
	switch {
	case t.DType() == tensor.String:
		e.Crc32C, err = writeStrings(&out, t.Strings())
	case t.DType() == tensor.Variant:
		e.Crc32C, err = writeVariants(&out, t.Variants(), w.variants)
	case t.DType().Size() > 0:
		_, err = out.Write(t.Data())
		e.Crc32C = mask(out.crc)
	default:
		return status.Unimplementedf("Saving tensors of type %v is not supported: %s", t.DType(), name)
	}
	if err != nil {
		return files.Error(w.temp, err)
	}
	e.Size = out.n
	w.offset += out.n
	w.entries[name] = e
	return nil
}

// writeStrings writes the lengths, their checksum, and the strings. It returns the masked checksum of all, in which lengths count as
// fixed-size numbers.
func writeStrings(w io.Writer, list []string) (crc uint32, err error) {
	out := bufio.NewWriterSize(w, 1<<12) // errors are reported by Flush
	var buf [binary.MaxVarintLen64]byte
	for _, s := range list {
		_, _ = out.Write(binary.AppendUvarint(buf[:0], uint64(len(s))))
		crc = crc32.Update(crc, castagnoli, appendLength(buf[:0], uint64(len(s)), binary.LittleEndian))
	}
	check := binary.LittleEndian.AppendUint32(buf[:0], mask(crc))
	_, _ = out.Write(check)
	crc = crc32.Update(crc, castagnoli, check)
	for _, s := range list {
		crc = updateString(crc, s)
		_, _ = out.WriteString(s)
	}
	return mask(crc), out.Flush()
}

func appendLength(b []byte, n uint64, order binary.AppendByteOrder) []byte {
	if n <= 1<<32-1 {
		return order.AppendUint32(b, uint32(n))
	}
	return order.AppendUint64(b, n)
}

func updateString(crc uint32, s string) uint32 {
	return crc32.Update(crc, castagnoli, unsafe.Slice(unsafe.StringData(s), len(s)))
}

// writeVariants writes each element, preceded by its length and followed by the checksum of everything so far.
func writeVariants(w io.Writer, list []any, codec Codec) (crc uint32, err error) {
	var buf [binary.MaxVarintLen64]byte
	for _, v := range list {
		data, err := codec.Encode(v)
		if err != nil {
			return 0, err
		}
		crc = crc32.Update(crc, castagnoli, binary.LittleEndian.AppendUint64(buf[:0], uint64(len(data))))
		crc = crc32.Update(crc, castagnoli, data)
		if _, err := w.Write(binary.AppendUvarint(buf[:0], uint64(len(data)))); err != nil {
			return 0, err
		}
		if _, err := w.Write(data); err != nil {
			return 0, err
		}
		check := binary.LittleEndian.AppendUint32(buf[:0], mask(crc))
		crc = crc32.Update(crc, castagnoli, check)
		if _, err := w.Write(check); err != nil {
			return 0, err
		}
	}
	return mask(crc), nil
}

// AddSlice writes a part of a tensor with shape whole.
func (w *Writer) AddSlice(name string, whole tensor.Shape, s Slice, t *tensor.Tensor) error {
	if s.full(whole) {
		return w.Add(name, t)
	}
	if name == "" {
		return status.InvalidArgumentf("A tensor in a checkpoint needs a name")
	}
	e, ok := w.entries[name]
	if !ok {
		e = &bundlepb.BundleEntryProto{Dtype: t.DType().Proto(), Shape: whole.Proto()}
		w.entries[name] = e
	} else if have, _ := tensor.ShapeFromProto(e.Shape); !have.Equal(whole) || tensor.FromProto(e.Dtype) != t.DType() {
		return status.InvalidArgumentf("Slices of %s are of different tensors: %v%v and %v%v", name, tensor.FromProto(e.Dtype), have, t.DType(), whole)
	} else if len(e.Slices) == 0 {
		return status.InvalidArgumentf("Adding duplicate key: %s", name)
	}
	e.Slices = append(e.Slices, s.proto())
	return w.Add(sliceKey(name, s), t)
}

// Finish completes the checkpoint. After an error, the previous checkpoint is still in place.
func (w *Writer) Finish() error {
	err := w.out.Flush()
	if err != nil {
		_ = w.file.Close()
	} else {
		err = closeDurably(w.file)
	}
	err = files.Error(w.temp, err)
	if err == nil {
		err = w.journal.commit(w.prefix, &bundle{newHeader(), w.entries, []string{w.temp}}, false, nil)
	}
	w.journal.end(err)
	w.journal = nil
	return err
}

// Abort removes everything written. After Finish it does nothing.
func (w *Writer) Abort() {
	if w.journal != nil {
		_ = w.file.Close()
		w.journal.end(errAborted)
		w.journal = nil
	}
}

var errAborted = status.New(status.Aborted, "The save was aborted")
