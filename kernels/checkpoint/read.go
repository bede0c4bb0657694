// Package checkpoint reads and writes TensorFlow's checkpoints of format V2 ("tensor bundles"):
// an index file PREFIX.index, a sorted table from the names of tensors to where they lie, and
// data files PREFIX.data-00000-of-00001 with the elements. What it writes TensorFlow reads, and
// the other way round.
package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"

	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"google.golang.org/protobuf/proto"
)

// maxIndex bounds the index files that are read, which lie in memory as a whole.
const maxIndex = 1 << 30

// Reader reads a checkpoint. It is for one goroutine.
type Reader struct {
	prefix  string
	shards  int32
	entries map[string]*bundlepb.BundleEntryProto
	files   map[int32]*os.File
}

// Open reads the index of a checkpoint: NOT_FOUND where there is none, DATA_LOSS where it is
// damaged.
func Open(prefix string) (*Reader, error) {
	file, err := readIndexFile(prefix)
	if err != nil {
		return nil, err
	}
	list, err := decodeTable(file)
	if err != nil {
		return nil, err
	}
	r := &Reader{prefix: prefix, entries: map[string]*bundlepb.BundleEntryProto{}, files: map[int32]*os.File{}}
	for i, e := range list {
		if i == 0 {
			h := &bundlepb.BundleHeaderProto{}
			if e.key != "" || proto.Unmarshal([]byte(e.value), h) != nil || h.NumShards < 0 {
				return nil, corrupt("no header")
			}
			if h.Endianness != bundlepb.BundleHeaderProto_LITTLE {
				return nil, status.Unimplementedf("The checkpoint %s is from a big-endian machine, which is not supported", prefix)
			}
			r.shards = h.NumShards
			continue
		}
		p := &bundlepb.BundleEntryProto{}
		if err := proto.Unmarshal([]byte(e.value), p); err != nil {
			return nil, corrupt("bad entry")
		}
		r.entries[e.key] = p
	}
	if len(list) == 0 {
		return nil, corrupt("no header")
	}
	return r, nil
}

func readIndexFile(prefix string) ([]byte, error) {
	f, err := os.Open(indexName(prefix))
	if err != nil {
		if os.IsNotExist(err) {
			return nil, status.Errorf(status.NotFound, "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %s", prefix)
		}
		return nil, fileError(err, "Cannot read the checkpoint "+prefix)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxIndex+1))
	if err != nil {
		return nil, fileError(err, "Cannot read the checkpoint "+prefix)
	}
	if len(data) > maxIndex {
		return nil, status.Errorf(status.ResourceExhausted, "The index of the checkpoint %s is larger than %d bytes", prefix, maxIndex)
	}
	return data, nil
}

// Close closes the data files.
func (r *Reader) Close() {
	for _, f := range r.files {
		_ = f.Close()
	}
	r.files = nil
}

// Lookup tells the type and the shape of a tensor; NOT_FOUND where there is none of the name.
func (r *Reader) Lookup(name string) (tensor.DType, tensor.Shape, error) {
	e, ok := r.entries[name]
	if !ok {
		return tensor.Invalid, nil, status.Errorf(status.NotFound, "Key %s not found in checkpoint", name)
	}
	shape, known := tensor.ShapeFromProto(e.Shape)
	if !known && e.Shape != nil {
		return tensor.Invalid, nil, corrupt("a tensor of unknown rank")
	}
	if _, err := shape.NumElements(); err != nil {
		return tensor.Invalid, nil, corrupt(err.Error())
	}
	return tensor.FromProto(e.Dtype), shape, nil
}

// Read reads a tensor into memory of pool, put together from its slices where it was saved so.
func (r *Reader) Read(pool *tensor.Pool, name string) (*tensor.Tensor, error) {
	_, shape, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	all := make(Slice, len(shape))
	for i := range all {
		all[i] = Extent{0, -1}
	}
	return r.ReadSlice(pool, name, all)
}

// ReadSlice reads a part of a tensor.
func (r *Reader) ReadSlice(pool *tensor.Pool, name string, s Slice) (*tensor.Tensor, error) {
	dtype, whole, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	shape, err := s.Shape(whole)
	if err != nil {
		return nil, err
	}
	e := r.entries[name]
	if len(e.Slices) == 0 {
		t, err := r.read(pool, name, e)
		if err != nil || s.full(whole) {
			return t, err
		}
		defer t.Release()
		return cutOut(pool, t, s, shape)
	}
	if exact, ok := r.entries[sliceKey(name, s)]; ok {
		return r.read(pool, name, exact)
	}
	if dtype.Size() == 0 {
		return nil, status.Unimplementedf("Restoring another slice than was saved of %s, a tensor of type %v, is not supported", name, dtype)
	}
	out, err := tensor.Zeros(pool, dtype, shape)
	if err != nil {
		return nil, err
	}
	if err := r.assemble(pool, name, e, out, s, whole); err != nil {
		out.Release()
		return nil, err
	}
	return out, nil
}

// assemble fills out, slice s of a tensor, from the slices that were saved. They must cover it.
func (r *Reader) assemble(pool *tensor.Pool, name string, e *bundlepb.BundleEntryProto, out *tensor.Tensor, s Slice, whole tensor.Shape) error {
	covered := 0
	for _, p := range e.Slices {
		saved := sliceFromProto(p)
		shape, err := saved.Shape(whole)
		if err != nil {
			return corrupt("a slice outside of its tensor")
		}
		part, ok := r.entries[sliceKey(name, saved)]
		if !ok {
			return corrupt("a slice of " + name + " is missing")
		}
		box, ok := overlap(s, saved, whole)
		if !ok {
			continue
		}
		t, err := r.read(pool, name, part)
		if err != nil {
			return err
		}
		if !t.Shape().Equal(shape) || t.DType() != out.DType() {
			t.Release()
			return corrupt("a slice of another shape")
		}
		n := box.copy(out, s, t, saved)
		t.Release()
		covered += n
	}
	if covered < out.Len() {
		return status.Errorf(status.NotFound, "The slices of %s in the checkpoint %s do not cover what is asked for", name, r.prefix)
	}
	return nil
}

// read reads the tensor of an entry and checks it.
func (r *Reader) read(pool *tensor.Pool, name string, e *bundlepb.BundleEntryProto) (*tensor.Tensor, error) {
	shape, _ := tensor.ShapeFromProto(e.Shape)
	dtype := tensor.FromProto(e.Dtype)
	n, err := shape.NumElements()
	if err != nil || e.Size < 0 || e.Offset < 0 {
		return nil, corrupt("bad entry of " + name)
	}
	f, err := r.file(e.ShardId)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fileError(err, "Cannot read the checkpoint "+r.prefix)
	}
	if e.Offset > info.Size() || e.Size > info.Size()-e.Offset {
		return nil, status.Errorf(status.DataLoss, "The data of %s lies beyond the end of %s", name, f.Name())
	}
	size := int64(dtype.Size())
	switch {
	case dtype == tensor.String:
		// A string takes a byte of the file or more.
		if n > e.Size {
			return nil, corrupt("bad size of " + name)
		}
	case size == 0:
		return nil, status.Unimplementedf("Restoring tensors of type %v is not supported: %s", dtype, name)
	case n > e.Size || n*size != e.Size:
		return nil, corrupt("bad size of " + name)
	}
	t, err := tensor.New(pool, dtype, shape)
	if err != nil {
		return nil, err
	}
	if dtype == tensor.String {
		err = readStrings(f, e, t.Strings())
	} else {
		err = readData(f, e, t.Data())
	}
	if err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

func (r *Reader) file(shard int32) (*os.File, error) {
	if f, ok := r.files[shard]; ok {
		return f, nil
	}
	if shard < 0 || shard >= r.shards {
		return nil, corrupt("a data file that is not there")
	}
	f, err := os.Open(dataName(r.prefix, shard, r.shards))
	if err != nil {
		return nil, fileError(err, "Cannot read the checkpoint "+r.prefix)
	}
	r.files[shard] = f
	return f, nil
}

func mismatch(f *os.File, e *bundlepb.BundleEntryProto) error {
	return status.Errorf(status.DataLoss, "Checksum does not match: data of %d bytes at %d of %s", e.Size, e.Offset, f.Name())
}

func readData(f *os.File, e *bundlepb.BundleEntryProto, data []byte) error {
	if _, err := f.ReadAt(data, e.Offset); err != nil && len(data) > 0 {
		return fileError(err, "Cannot read "+f.Name())
	}
	if mask(crc32.Checksum(data, castagnoli)) != e.Crc32C {
		return mismatch(f, e)
	}
	return nil
}

func readStrings(f *os.File, e *bundlepb.BundleEntryProto, list []string) error {
	data := make([]byte, e.Size)
	if _, err := f.ReadAt(data, e.Offset); err != nil && len(data) > 0 {
		return fileError(err, "Cannot read "+f.Name())
	}
	lengths := make([]uint64, len(list))
	var crc uint32
	var fixed []byte
	for i := range lengths {
		v, n := binary.Uvarint(data)
		if n <= 0 {
			return mismatch(f, e)
		}
		lengths[i], data = v, data[n:]
		fixed = appendLength(fixed[:0], v)
		crc = crc32.Update(crc, castagnoli, fixed)
	}
	if len(data) < 4 || binary.LittleEndian.Uint32(data) != mask(crc) {
		return mismatch(f, e)
	}
	crc = crc32.Update(crc, castagnoli, data)
	data = data[4:]
	for i, n := range lengths {
		if n > uint64(len(data)) {
			return mismatch(f, e)
		}
		list[i], data = string(data[:n]), data[n:]
	}
	if mask(crc) != e.Crc32C {
		return mismatch(f, e)
	}
	return nil
}
