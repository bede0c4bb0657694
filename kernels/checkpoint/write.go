package checkpoint

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

func indexName(prefix string) string { return prefix + ".index" }

func dataName(prefix string, shard, shards int32) string {
	return fmt.Sprintf("%s.data-%05d-of-%05d", prefix, shard, shards)
}

// fileError gives an error of the file system TensorFlow's code.
func fileError(err error, what string) error {
	code := status.Unknown
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = status.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = status.PermissionDenied
	case errors.Is(err, fs.ErrExist):
		code = status.AlreadyExists
	}
	return status.Errorf(code, "%s: %v", what, err)
}

// Writer writes a checkpoint of one data file. Its files have other names until Finish, so that
// nobody reads half a checkpoint. It is for one goroutine.
type Writer struct {
	prefix, temp string
	file         *os.File
	out          *bufio.Writer
	offset       int64
	entries      map[string]*bundlepb.BundleEntryProto
}

// Create begins a checkpoint. The folder is made if its parent is there.
func Create(prefix string) (*Writer, error) {
	if err := os.Mkdir(filepath.Dir(prefix), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fileError(err, "Cannot make the folder of the checkpoint "+prefix)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	w := &Writer{prefix: prefix, temp: ".tempstate" + hex.EncodeToString(random[:]), entries: map[string]*bundlepb.BundleEntryProto{}}
	var err error
	if w.file, err = os.OpenFile(dataName(prefix, 0, 1)+w.temp, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644); err != nil {
		return nil, fileError(err, "Cannot write the checkpoint "+prefix)
	}
	w.out = bufio.NewWriterSize(w.file, 1<<20)
	return w, nil
}

// Add writes a tensor under a name that has none yet.
func (w *Writer) Add(name string, t *tensor.Tensor) error {
	if name == "" {
		return status.InvalidArgumentf("A tensor in a checkpoint needs a name")
	}
	if _, ok := w.entries[name]; ok {
		return status.InvalidArgumentf("Adding duplicate key: %s", name)
	}
	e := &bundlepb.BundleEntryProto{Dtype: t.DType().Proto(), Shape: t.Shape().Proto(), Offset: w.offset}
	var crc uint32
	write := func(b []byte) error {
		crc = crc32.Update(crc, castagnoli, b)
		w.offset += int64(len(b))
		_, err := w.out.Write(b)
		return err
	}
	var err error
	switch {
	case t.DType() == tensor.String:
		crc, err = w.strings(t.Strings())
	case t.DType().Size() > 0:
		err = write(t.Data())
	default:
		return status.Unimplementedf("Saving tensors of type %v is not supported: %s", t.DType(), name)
	}
	if err != nil {
		return fileError(err, "Cannot write the checkpoint "+w.prefix)
	}
	e.Size, e.Crc32C = w.offset-e.Offset, mask(crc)
	w.entries[name] = e
	return nil
}

// strings writes the lengths, their checksum, and the strings. The checksums are of the lengths
// as fixed-size numbers.
func (w *Writer) strings(list []string) (crc uint32, err error) {
	var lengths, fixed []byte
	for _, s := range list {
		lengths = binary.AppendUvarint(lengths, uint64(len(s)))
		fixed = appendLength(fixed[:0], uint64(len(s)))
		crc = crc32.Update(crc, castagnoli, fixed)
	}
	check := binary.LittleEndian.AppendUint32(nil, mask(crc))
	crc = crc32.Update(crc, castagnoli, check)
	n := len(lengths) + len(check)
	if _, err := w.out.Write(append(lengths, check...)); err != nil {
		return 0, err
	}
	for _, s := range list {
		crc = crc32.Update(crc, castagnoli, []byte(s))
		n += len(s)
		if _, err := w.out.WriteString(s); err != nil {
			return 0, err
		}
	}
	w.offset += int64(n)
	return crc, nil
}

func appendLength(b []byte, n uint64) []byte {
	if n <= 1<<32-1 {
		return binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return binary.LittleEndian.AppendUint64(b, n)
}

// AddSlice writes a part of a tensor of the given shape.
func (w *Writer) AddSlice(name string, whole tensor.Shape, s Slice, t *tensor.Tensor) error {
	if s.full(whole) {
		return w.Add(name, t)
	}
	e, ok := w.entries[name]
	if !ok {
		e = &bundlepb.BundleEntryProto{Dtype: t.DType().Proto(), Shape: whole.Proto()}
		w.entries[name] = e
	}
	if have, _ := tensor.ShapeFromProto(e.Shape); !have.Equal(whole) || tensor.FromProto(e.Dtype) != t.DType() {
		return status.InvalidArgumentf("Slices of %s are of different tensors: %v%v and %v%v", name, tensor.FromProto(e.Dtype), have, t.DType(), whole)
	}
	e.Slices = append(e.Slices, s.proto())
	return w.Add(sliceKey(name, s), t)
}

// Finish completes the checkpoint. After an error there is none.
func (w *Writer) Finish() error {
	err := w.out.Flush()
	if closed := w.file.Close(); err == nil {
		err = closed
	}
	w.file = nil
	data := dataName(w.prefix, 0, 1)
	if err == nil {
		err = os.Rename(data+w.temp, data)
	}
	if err != nil {
		_ = os.Remove(data + w.temp)
		return fileError(err, "Cannot write the checkpoint "+w.prefix)
	}
	return writeIndex(w.prefix, w.temp, 1, w.entries)
}

// Abort removes what was written. After Finish it does nothing.
func (w *Writer) Abort() {
	if w.file != nil {
		_ = w.file.Close()
		_ = os.Remove(dataName(w.prefix, 0, 1) + w.temp)
		w.file = nil
	}
}

// writeIndex writes the index file under another name first.
func writeIndex(prefix, temp string, shards int32, entries map[string]*bundlepb.BundleEntryProto) error {
	header, err := proto.Marshal(&bundlepb.BundleHeaderProto{NumShards: shards, Version: &versionspb.VersionDef{Producer: 1}})
	if err != nil {
		return status.Internalf("Cannot encode the index of %s: %v", prefix, err)
	}
	list := []entry{{"", string(header)}}
	for name, e := range entries {
		value, err := proto.Marshal(e)
		if err != nil {
			return status.Internalf("Cannot encode the index of %s: %v", prefix, err)
		}
		list = append(list, entry{name, string(value)})
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	name := indexName(prefix)
	if err := os.WriteFile(name+temp, encodeTable(list), 0o644); err != nil {
		_ = os.Remove(name + temp)
		return fileError(err, "Cannot write the checkpoint "+prefix)
	}
	if err := os.Rename(name+temp, name); err != nil {
		_ = os.Remove(name + temp)
		return fileError(err, "Cannot write the checkpoint "+prefix)
	}
	return nil
}

// Merge makes one checkpoint of several whose tensors differ, by renaming their data files and
// joining their indexes. Slices of one tensor come together. Missing checkpoints are an error
// unless allowMissing.
func Merge(prefixes []string, prefix string, allowMissing bool) error {
	merged := map[string]*bundlepb.BundleEntryProto{}
	type move struct{ from, to string }
	var shards int32
	var readers []*Reader
	for _, p := range prefixes {
		r, err := Open(p)
		if err != nil {
			if allowMissing && status.CodeOf(err) == status.NotFound {
				continue
			}
			return err
		}
		defer r.Close()
		readers = append(readers, r)
		shards += r.shards
	}
	if len(readers) == 0 {
		return status.InvalidArgumentf("There are no checkpoints to merge to %s", prefix)
	}
	var moves []move
	first := int32(0)
	for _, r := range readers {
		for name, e := range r.entries {
			e.ShardId += first
			have, ok := merged[name]
			switch {
			case !ok:
				merged[name] = e
			case len(have.Slices) > 0 && len(e.Slices) > 0 && have.Dtype == e.Dtype && proto.Equal(have.Shape, e.Shape):
				have.Slices = append(have.Slices, e.Slices...)
			default:
				return status.InvalidArgumentf("Duplicate tensor key %s in the checkpoints to merge", name)
			}
		}
		for i := range r.shards {
			moves = append(moves, move{dataName(r.prefix, i, r.shards), dataName(prefix, first+i, shards)})
		}
		first += r.shards
	}
	if err := os.Mkdir(filepath.Dir(prefix), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fileError(err, "Cannot make the folder of the checkpoint "+prefix)
	}
	for _, m := range moves {
		if err := os.Rename(m.from, m.to); err != nil {
			return fileError(err, "Cannot merge to "+prefix)
		}
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	if err := writeIndex(prefix, ".tempstate"+hex.EncodeToString(random[:]), shards, merged); err != nil {
		return err
	}
	for _, r := range readers {
		if r.prefix != prefix {
			_ = os.Remove(indexName(r.prefix)) // what is left over does no harm
		}
	}
	return nil
}
