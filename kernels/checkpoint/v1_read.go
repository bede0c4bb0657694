package checkpoint

import (
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
)

// ReaderV1 reads a checkpoint of format V1 in one or more files. It must be used by one goroutine only.
type ReaderV1 struct {
	fs    files.FS
	names []string
	open  []*tableReader // nil for files that have not been read yet
	sets  map[string]*sliceSet
	all   bool // all files have been read
}

// OpenV1 opens the files that match a pattern. If preferred is not negative, that file is read first, and the others only if something is
// not in it.
func OpenV1(fsys files.FS, pattern string, preferred int) (*ReaderV1, error) {
	names, err := glob(fsys, pattern)
	if err != nil {
		return nil, status.InvalidArgumentf("Unsuccessful TensorSliceReader constructor: Failed to get matching files on %s: %v", pattern, err)
	}
	if len(names) == 0 {
		return nil, status.Errorf(status.NotFound, "Unsuccessful TensorSliceReader constructor: Failed to find any matching files for %s%s", pattern, files.Where(pattern))
	}
	r := &ReaderV1{fs: fsys, names: names, open: make([]*tableReader, len(names)), sets: map[string]*sliceSet{}}
	if preferred >= 0 && preferred < len(names) && len(names) > 1 {
		err = r.load(preferred)
	} else {
		err = r.loadAll()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the files.
func (r *ReaderV1) Close() {
	for _, t := range r.open {
		if t != nil {
			_ = t.src.Close()
		}
	}
	r.open = nil
}

func (r *ReaderV1) loadAll() error {
	for i := range r.names {
		if err := r.load(i); err != nil {
			return err
		}
	}
	r.all = true
	return nil
}

func (r *ReaderV1) load(file int) error {
	if r.open[file] != nil {
		return nil
	}
	name := r.names[file]
	src, err := r.fs.Open(name)
	if err != nil {
		return unable(name, files.Error(name, err), "")
	}
	t, err := openTable(src)
	if err != nil {
		_ = src.Close()
		return unable(name, files.Error(name, err), ": perhaps your file is in a different file format and you need to use a different restore operator?")
	}
	r.open[file] = t
	value, ok, err := t.get("")
	if err != nil {
		return unable(name, files.Error(name, err), "")
	}
	list, versions, good, problem := readMeta(value)
	if !ok || !good {
		return status.Internalf("Failed to find the saved tensor slices at the beginning of the checkpoint file: %s", name)
	}
	if err := checkVersion(versions, v1Version); err != nil {
		return err
	}
	if problem != nil {
		return problem
	}
	for _, m := range list {
		if err := r.register(m, file); err != nil {
			return err
		}
	}
	return nil
}

func unable(name string, err error, hint string) error {
	return status.Errorf(status.DataLoss, "Unable to open table file %s: %v: %s%s", name, status.CodeOf(err), err.Error(), hint)
}

func (r *ReaderV1) register(m v1Tensor, file int) error {
	for _, s := range m.slices {
		if err := files.Ended(r.fs); err != nil { // comparing many slices takes long
			return err
		}
		set := r.sets[m.name]
		switch {
		case set == nil:
			set = &sliceSet{shape: m.shape, dtype: m.dtype}
			r.sets[m.name] = set
		case !m.shape.Equal(set.shape):
			return status.Internalf("Incompatible tensor shapes detected for tensor %s: existing = %v, new = %v", m.name, set.shape, m.shape)
		case m.dtype != set.dtype:
			return status.Internalf("Incompatible tensor types detected for tensor %s: existing = %v, new = %v", m.name, set.dtype, m.dtype)
		}
		if err := set.register(s, file); err != nil {
			return err
		}
	}
	return nil
}

// Lookup returns the type and shape of a tensor; ok is false if there is no such tensor.
func (r *ReaderV1) Lookup(name string) (dtype tensor.DType, whole tensor.Shape, ok bool, err error) {
	if r.sets[name] == nil && !r.all {
		if err := r.loadAll(); err != nil {
			return tensor.Invalid, nil, false, err
		}
	}
	set := r.sets[name]
	if set == nil {
		return tensor.Invalid, nil, false, nil
	}
	return set.dtype, set.shape, true, nil
}

// errCopy is TensorFlow's error for anything wrong with the values in format V1.
var errCopy = status.InvalidArgumentf("Error copying slice data")

// ReadSlice reads a part of a tensor that Lookup has found.
func (r *ReaderV1) ReadSlice(pool *tensor.Pool, name string, s Slice) (*tensor.Tensor, error) {
	set := r.sets[name]
	if _, ok := v1Types[set.dtype]; !ok {
		return nil, status.Unimplementedf("Restoring data type %v not yet supported", set.dtype)
	}
	to, err := newView(s, set.shape)
	if err != nil {
		return nil, err
	}
	if to.shape.Elements() == 0 {
		return tensor.New(pool, set.dtype, to.shape)
	}
	list, ok := set.find(s)
	if !ok && !r.all {
		if err := r.loadAll(); err != nil {
			return nil, err
		}
		list, ok = set.find(s)
	}
	if !ok {
		return nil, errCopy
	}
	if len(list) == 1 && list[0].slice.String() == s.String() {
		return r.record(pool, name, set.dtype, list[0])
	}
	t, err := tensor.New(pool, set.dtype, to.shape)
	if err != nil {
		return nil, err
	}
	for _, have := range list {
		if err := r.copyRecord(pool, name, t, to, have); err != nil {
			t.Release()
			return nil, err
		}
	}
	return t, nil
}

func (r *ReaderV1) copyRecord(pool *tensor.Pool, name string, t *tensor.Tensor, to view, have saved) error {
	src, err := r.record(pool, name, t.DType(), have)
	if err != nil {
		return err
	}
	defer src.Release()
	b, ok := overlap(have.slice, to.slice, to.whole)
	if !ok {
		return errCopy
	}
	return b.copyTensor(t, to, src, have.view)
}

// record reads a slice as it was saved. It allocates memory only if the record is long enough.
func (r *ReaderV1) record(pool *tensor.Pool, name string, dtype tensor.DType, s saved) (*tensor.Tensor, error) {
	value, ok, err := r.open[s.file].get(sliceKey(name, s.slice))
	if err != nil {
		return nil, files.Error(r.names[s.file], err)
	}
	if !ok {
		return nil, errCopy
	}
	data, ok1 := field(value, fieldData)
	values, ok2 := field(data, fieldSliceData)
	if n, err := s.shape.NumElements(); !ok1 || !ok2 || err != nil || n > int64(len(values)) {
		return nil, errCopy
	}
	t, err := tensor.New(pool, dtype, s.shape)
	if err != nil {
		return nil, err
	}
	if !readValues(values, t) {
		t.Release()
		return nil, errCopy
	}
	return t, nil
}
