package checkpoint

import (
	"cmp"
	"slices"

	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

// Reader reads a checkpoint of format V2. It must be used by one goroutine only.
type Reader struct {
	fs       files.FS
	prefix   string
	variants Codec
	shards   int32
	big      bool // numbers are big-endian
	src      Source
	index    *tableReader
	files    map[int32]Source
	sets     map[string]*sliceSet
	checked  map[place]bool // places already read and found intact
}

// place is the position of a tensor.
type place struct {
	shard        int32
	offset, size int64
}

// Open opens the index of a checkpoint. It fails with NOT_FOUND if there is none, and with DATA_LOSS if it is damaged.
func Open(fsys files.FS, prefix string, variants Codec) (*Reader, error) {
	name := indexName(prefix)
	src, err := fsys.Open(name)
	if err != nil {
		return nil, files.Error(name, err)
	}
	r := &Reader{fs: fsys, prefix: prefix, variants: variants, src: src, files: map[int32]Source{}, sets: map[string]*sliceSet{}, checked: map[place]bool{}}
	if err := r.open(); err != nil {
		r.Close()
		return nil, files.Error(name, err)
	}
	return r, nil
}

func (r *Reader) open() (err error) {
	if r.index, err = openTable(r.src); err != nil {
		return err
	}
	h, err := readHeader(r.index)
	if err != nil {
		return headerError(indexName(r.prefix), err)
	}
	r.shards, r.big = h.NumShards, h.Endianness == bundlepb.BundleHeaderProto_BIG
	return checkVersion(h.Version, formatVersion)
}

func readHeader(t *tableReader) (*bundlepb.BundleHeaderProto, error) {
	value, ok, err := t.get("")
	if err != nil {
		return nil, err
	}
	h := &bundlepb.BundleHeaderProto{}
	switch {
	case !ok:
		return nil, status.Internalf("failed to seek to header entry")
	case tensor.Unmarshal(value, h) != nil || h.NumShards < 0:
		return nil, dataLoss("unable to parse header")
	}
	return h, nil
}

func headerError(name string, err error) error {
	return status.Errorf(status.CodeOf(err), "Unable to read file (%s). Perhaps the file is corrupt or was produced by a newer version of TensorFlow with format changes (%s)", name, err.Error())
}

// Close closes the files.
func (r *Reader) Close() {
	_ = r.src.Close()
	for _, f := range r.files {
		_ = f.Close()
	}
	r.files = nil
}

func (r *Reader) entry(key string) (*bundlepb.BundleEntryProto, error) {
	value, ok, err := r.index.get(key)
	if err != nil {
		return nil, files.Error(indexName(r.prefix), err)
	}
	if !ok {
		return nil, status.Errorf(status.NotFound, "Key %s not found in checkpoint %s", key, r.prefix)
	}
	e := &bundlepb.BundleEntryProto{}
	if tensor.Unmarshal(value, e) != nil {
		return nil, status.Errorf(status.DataLoss, "Entry for key %s not parseable.", key)
	}
	shape, known := tensor.ShapeFromProto(e.Shape)
	if _, err := shape.NumElements(); err != nil || !known && e.Shape != nil {
		return nil, status.Errorf(status.DataLoss, "Invalid tensor shape: %s %v", key, e.Shape)
	}
	return e, nil
}

// Lookup returns the type and shape of a tensor. It fails with NOT_FOUND if there is no such tensor.
func (r *Reader) Lookup(name string) (tensor.DType, tensor.Shape, error) {
	e, err := r.entry(name)
	if err != nil {
		return tensor.Invalid, nil, err
	}
	shape, _ := tensor.ShapeFromProto(e.Shape)
	return tensor.FromProto(e.Dtype), shape, nil
}

// Names returns the sorted names of all tensors.
func (r *Reader) Names() (names []string, err error) {
	err = r.index.each(func(key, _ []byte) error {
		if len(key) > 0 && key[0] != 0 { // neither the header nor a slice
			names = append(names, string(key))
		}
		return nil
	})
	return names, files.Error(indexName(r.prefix), err)
}

// InFileOrder returns the indices of names in the order of the tensors in the files.
func (r *Reader) InFileOrder(names []string) ([]int, error) {
	places := make([]place, len(names))
	order := make([]int, len(names))
	for i, name := range names {
		e, err := r.entry(name)
		if err != nil {
			return nil, err
		}
		order[i], places[i] = i, place{e.ShardId, e.Offset, 0}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(places[a].shard, places[b].shard), cmp.Compare(places[a].offset, places[b].offset))
	})
	return order, nil
}

// Read reads a tensor into memory of pool. It combines the tensor's slices if it was saved in slices.
func (r *Reader) Read(pool *tensor.Pool, name string) (*tensor.Tensor, error) {
	_, shape, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	return r.ReadSlice(pool, name, Whole(len(shape)))
}

// ReadSlice reads a part of a tensor. It allocates memory only for that part, and only after it has checked that the files are long enough.
func (r *Reader) ReadSlice(pool *tensor.Pool, name string, s Slice) (*tensor.Tensor, error) {
	e, err := r.entry(name)
	if err != nil {
		return nil, err
	}
	whole, _ := tensor.ShapeFromProto(e.Shape)
	to, err := newView(s, whole)
	if err != nil {
		return nil, err
	}
	if len(e.Slices) == 0 && s.full(whole) {
		return r.readAll(pool, name, e)
	}
	set, err := r.set(name, e)
	if err != nil {
		return nil, err
	}
	list, ok := set.find(s)
	if !ok {
		return nil, status.InvalidArgumentf("Does not have sufficient slices for partitioned tensor %s to restore in slice_spec: %v", name, s)
	}
	parts := make([]part, len(list))
	for i, have := range list {
		if parts[i], err = r.part(name, e, have.view); err != nil {
			return nil, err
		}
	}
	if len(parts) == 1 && list[0].slice.String() == s.String() {
		return r.readAll(pool, name, parts[0].entry)
	}
	t, err := tensor.New(pool, set.dtype, to.shape)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := r.readPart(pool, name, p, t, to); err != nil {
			t.Release()
			return nil, err
		}
	}
	return t, nil
}

// set returns the slices in which a tensor was saved.
func (r *Reader) set(name string, e *bundlepb.BundleEntryProto) (*sliceSet, error) {
	if set, ok := r.sets[name]; ok {
		return set, nil
	}
	whole, _ := tensor.ShapeFromProto(e.Shape)
	set := &sliceSet{shape: whole, dtype: tensor.FromProto(e.Dtype)}
	if len(e.Slices) == 0 {
		if err := set.register(Whole(len(whole)), 0); err != nil {
			return nil, err
		}
	}
	for _, p := range e.Slices {
		if err := files.Ended(r.fs); err != nil { // comparing many slices takes long
			return nil, err
		}
		s, err := sliceFromProto(p)
		if err != nil {
			return nil, err
		}
		if err := set.register(s, 0); err != nil {
			return nil, err
		}
	}
	r.sets[name] = set
	return set, nil
}

// part is a saved slice.
type part struct {
	view
	entry *bundlepb.BundleEntryProto
}

func (r *Reader) part(name string, e *bundlepb.BundleEntryProto, v view) (part, error) {
	if len(e.Slices) == 0 {
		return part{v, e}, nil
	}
	own, err := r.entry(sliceKey(name, v.slice))
	if err != nil {
		return part{}, status.Errorf(status.DataLoss, "Slice %v of %s: %s", v.slice, name, err.Error())
	}
	if shape, _ := tensor.ShapeFromProto(own.Shape); !shape.Equal(v.shape) || own.Dtype != e.Dtype || len(own.Slices) > 0 {
		return part{}, status.Errorf(status.DataLoss, "Slice %v of %s has another shape or type", v.slice, name)
	}
	return part{v, own}, r.checkSize(name, own)
}

// Exists reports whether there is a checkpoint of format V2. As in TensorFlow, the prefix may be a pattern.
func Exists(fsys files.FS, prefix string) bool {
	list, err := glob(fsys, indexName(prefix))
	return err == nil && len(list) > 0
}
