package storage

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"sort"
	"strconv"
	"strings"

	attrpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/attr_value_go_proto"
	"github.com/troupe-run/troupe/graph"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/shapes"
)

// randomID returns a number that names a run.
func randomID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// maxShards bounds the files that one dataset is written to concurrently.
const maxShards = 1024

// shardWriter writes the elements of a run, each to the shard selected by a function or by their order.
type shardWriter struct {
	fsys        files.FS
	run         string
	compression string
	checkpoint  int64 // index of the files being written
	open        map[int64]*snapshotWriter
}

func newShardWriter(fsys files.FS, run, compression string, checkpoint int64) (*shardWriter, error) {
	return &shardWriter{fsys, run, compression, checkpoint, map[int64]*snapshotWriter{}}, mkdirAll(fsys, run)
}

func (w *shardWriter) write(shard int64, e dataset.Element) error {
	s := w.open[shard]
	if s == nil {
		if len(w.open) >= maxShards {
			return status.Errorf(status.ResourceExhausted, "A dataset is written to more than %d shards", maxShards)
		}
		dir := shardDir(w.run, shard)
		if err := mkdirAll(w.fsys, dir); err != nil {
			return err
		}
		// Readers start with file 0, so a shard that gets its first element later starts with empty files.
		for i := range w.checkpoint {
			if name := snapshotFile(dir, i); !exists(w.fsys, name) {
				empty, err := newSnapshotWriter(w.fsys, name, w.compression, snapshotV2)
				if err == nil {
					err = empty.close()
				}
				if err != nil {
					return files.Error(name, err)
				}
			}
		}
		var err error
		if s, err = newSnapshotWriter(w.fsys, snapshotFile(dir, w.checkpoint), w.compression, snapshotV2); err != nil {
			return err
		}
		w.open[shard] = s
	}
	return files.Error(snapshotFile(shardDir(w.run, shard), w.checkpoint), s.write(e))
}

// next closes the files; later elements go to new ones.
func (w *shardWriter) next() error {
	var failed error
	for shard, s := range w.open {
		if err := s.close(); err != nil && failed == nil {
			failed = files.Error(snapshotFile(shardDir(w.run, shard), w.checkpoint), err)
		}
	}
	clear(w.open)
	w.checkpoint++
	return failed
}

// forget removes what an iterator wrote after it was saved, since the restored iterator writes it again.
func (w *shardWriter) forget() error {
	dirs, err := files.Match(w.fsys, escaped(w.run)+"/*"+shardSuffix)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		for i := w.checkpoint; exists(w.fsys, snapshotFile(dir, i)); i++ {
			name := snapshotFile(dir, i)
			local, err := files.Local(name)
			if err != nil {
				return err
			}
			if err := w.fsys.Remove(local); err != nil {
				return files.Error(name, err)
			}
		}
	}
	return nil
}

// escaped quotes a name for use in a pattern.
func escaped(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// shardFunction chooses the shard of each element: a function's result or, if the function is nil, one shard per processor in turn.
type shardFunction struct {
	f    *dataset.Bound
	last int64
}

func (s *shardFunction) of(c *dataset.Call, e dataset.Element) (int64, error) {
	if s.f == nil {
		at := s.last
		s.last = (s.last + 1) % int64(runtime.GOMAXPROCS(0))
		return at, nil
	}
	return s.f.Number(c, "shard_func", e.Retain())
}

// shardReader reads the elements of a folder of files, one file after the other: SnapshotDatasetReader.
type shardReader struct {
	dir, compression string
	version, start   int64
	types            []tensor.DType
}

func newShardReader(s *dataset.Settings) dataset.Maker {
	types, compression, version := s.TypeList("output_types"), s.Str("compression"), s.Int("version")
	if s.Err() == nil && (version < 0 || version > snapshotV2) {
		s.Failf("Snapshot reader version: %d is not supported.", version)
	}
	checkCompression(s, compression, version)
	return func(in *dataset.Inputs) dataset.Kind {
		k := &shardReader{dir: in.Str(0, "shard_dir"), compression: compression, version: version, start: in.Int(1, "start_index"), types: types}
		if in.Err == nil && k.start < 0 {
			in.Failf("start_index must not be negative, got %d", k.start)
		}
		return k
	}
}

func (*shardReader) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (*shardReader) StageName() string { return "SnapshotDatasetReader" }

func (k *shardReader) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &readingShard{of: k, env: e, skip: k.start}
	return it, it.openFile()
}

type readingShard struct {
	of  *shardReader
	env *dataset.Env
	// number is the index of the file, given its elements returned so far, and skip those to skip first.
	number, given, skip int64
	file                *snapshotReader
}

func (it *readingShard) name() string { return snapshotFile(it.of.dir, it.number) }

func (it *readingShard) openFile() (err error) {
	if err := it.env.NoteFile(it.name()); err != nil {
		return err
	}
	it.file, err = openSnapshot(it.env.Files(), it.name(), it.of.compression, it.of.version, it.of.types)
	return err
}

func (it *readingShard) Next(c *dataset.Call) (dataset.Element, error) {
	for {
		if err := c.Err(); err != nil {
			return nil, err
		}
		if it.file == nil {
			if !exists(it.env.Files(), it.name()) {
				return nil, ended(errEOF)
			}
			if err := it.openFile(); err != nil {
				return nil, err
			}
		}
		e, err := it.file.next(c)
		switch {
		case err == nil && it.skip > 0:
			it.skip--
			it.given++
			e.Release()
		case err == nil:
			it.given++
			return e, nil
		default:
			// The rest of a damaged file is lost: reading on would return the same error forever.
			it.Close()
			it.number, it.given = it.number+1, 0
			if !dataset.AtEnd(err) {
				return nil, err
			}
		}
	}
}

func (it *readingShard) Close() {
	if it.file != nil {
		it.file.close()
		it.file = nil
	}
}

func (it *readingShard) Save(_ *dataset.Call, w *dataset.Writer) {
	w.Int("number", it.number)
	w.Int("given", it.given)
	w.Int("skip", it.skip)
}

func (it *readingShard) Restore(c *dataset.Call, r *dataset.Reader) {
	it.Close()
	it.number, it.given, it.skip = r.Place("number"), 0, r.Place("skip")
	given := r.Place("given")
	if r.Err != nil || given == 0 {
		return
	}
	if err := it.openFile(); err != nil {
		r.Fail(err)
		return
	}
	for ; it.given < given; it.given++ {
		e, err := it.file.next(c)
		if err == nil {
			e.Release()
			err = c.Err()
		}
		if err != nil {
			r.Fail(status.Errorf(status.DataLoss, "%s has %d elements, of which %d were read: %v", it.name(), it.given, given, err))
			return
		}
	}
}

// nestedReader is a dataset of datasets: SnapshotNestedDatasetReader.
type nestedReader struct{ inputs []*dataset.Dataset }

func newNestedReader(s *dataset.Settings) dataset.Maker {
	n := int(s.Int("N"))
	return func(in *dataset.Inputs) dataset.Kind { return &nestedReader{in.Datasets(0, n)} }
}

func (k *nestedReader) Cardinality(*dataset.Query) int64 { return int64(len(k.inputs)) }

func (*nestedReader) StageName() string { return "SnapshotNestedDatasetReader" }

func (k *nestedReader) At(_ *dataset.Call, i int64) (dataset.Element, error) {
	d := k.inputs[i]
	d.Retain()
	return dataset.Element{dataset.ToTensor(d)}, nil
}

func (k *nestedReader) Open(*dataset.Env) (dataset.Iterator, error) {
	return source.NewIterator(k), nil
}

// shardsOf returns the dataset of the datasets of a run's shards, in the order of their names, with a reference for the caller.
func shardsOf(e *dataset.Env, run, compression string, version int64, spec dataset.Spec) (*dataset.Dataset, error) {
	dirs, err := files.Match(e.Files(), escaped(run)+"/*"+shardSuffix)
	if err != nil {
		return nil, err
	}
	sort.Strings(dirs)
	k := &nestedReader{}
	for _, dir := range dirs {
		node := nodeOf(spec, "SnapshotDatasetReader", graph.Attrs{"compression": stringAttr(compression), "version": dataset.IntAttr(version)})
		k.inputs = append(k.inputs, dataset.FromNode(&shardReader{dir: dir, compression: compression, version: version, types: spec.Types}, node, spec,
			[]*tensor.Tensor{tensor.FromScalar(dir), tensor.Scalar(tensor.Int64, int64(0))}))
	}
	var inputs []*tensor.Tensor
	for _, d := range k.inputs {
		d.Retain()
		inputs = append(inputs, dataset.ToTensor(d))
	}
	of := dataset.Spec{Types: []tensor.DType{tensor.Variant}, Shapes: []shapes.PartialShape{{Known: true}}}
	node := nodeOf(of, "SnapshotNestedDatasetReader", graph.Attrs{"N": dataset.IntAttr(int64(len(k.inputs)))})
	return dataset.FromNode(k, node, of, inputs, k.inputs...), nil
}

// nodeOf returns a node that creates a dataset with these elements.
func nodeOf(s dataset.Spec, op string, attrs graph.Attrs) *graph.Node {
	types, shapes := &attrpb.AttrValue_ListValue{}, &attrpb.AttrValue_ListValue{}
	for _, t := range s.Types {
		types.Type = append(types.Type, t.Proto())
	}
	for _, p := range s.Shapes {
		m := p.Dims.Proto()
		m.UnknownRank = !p.Known
		shapes.Shape = append(shapes.Shape, m)
	}
	attrs["output_types"], attrs["output_shapes"] = dataset.ListAttr(types), dataset.ListAttr(shapes)
	return &graph.Node{Op: op, Attrs: attrs}
}

func stringAttr(s string) *attrpb.AttrValue {
	return &attrpb.AttrValue{Value: &attrpb.AttrValue_S{S: []byte(s)}}
}

// openShards opens the dataset that a function makes of a run's shards.
func openShards(c *dataset.Call, e *dataset.Env, f *dataset.Bound, run, compression string, version int64, spec dataset.Spec) (*dataset.Opened, error) {
	if err := e.NoteFile(joinPath(run, snapshotMetadata)); err != nil {
		return nil, err
	}
	all, err := shardsOf(e, run, compression, version, spec)
	if err != nil {
		return nil, err
	}
	return f.Open(c, e, dataset.Element{dataset.ToTensor(all)})
}

// chunk reads the elements of one TFRecord file: SnapshotChunkDataset.
type chunk struct {
	name, compression string
	types             []tensor.DType
}

func newChunk(s *dataset.Settings) dataset.Maker {
	types, compression := s.TypeList("output_types"), checkCompression(s, s.Str("compression"), snapshotV2)
	return func(in *dataset.Inputs) dataset.Kind { return &chunk{in.Str(0, "chunk_file"), compression, types} }
}

func (*chunk) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *chunk) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &readingChunk{of: k, env: e}
	return it, it.openFile()
}

type readingChunk struct {
	of    *chunk
	env   *dataset.Env
	file  *snapshotReader
	given int64
}

func (it *readingChunk) openFile() (err error) {
	if err := it.env.NoteFile(it.of.name); err != nil {
		return err
	}
	it.file, err = openSnapshot(it.env.Files(), it.of.name, it.of.compression, snapshotV2, it.of.types)
	return err
}

func (it *readingChunk) Next(c *dataset.Call) (dataset.Element, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	e, err := it.file.next(c)
	switch {
	case err == nil:
		it.given++
	case !dataset.AtEnd(err):
		err = status.Errorf(status.CodeOf(err), "%s\n\tFailed to read tf.data snapshot file: %s", status.From(err).Message, it.of.name)
	}
	return e, err
}

func (it *readingChunk) Close() { it.file.close() }

func (it *readingChunk) Save(_ *dataset.Call, w *dataset.Writer) { w.Int("given", it.given) }

func (it *readingChunk) Restore(c *dataset.Call, r *dataset.Reader) {
	for n := r.Place("given"); it.given < n && r.Err == nil; {
		e, err := it.Next(c)
		if err != nil {
			r.Fail(err)
		}
		e.Release()
	}
}

// chunks returns the names of the files of a snapshot written by tf.data's data service: ListSnapshotChunksDataset.
type chunks struct{ path string }

// The contents of a data service snapshot's folder.
const (
	chunksFolder  = "chunks"
	snapshotDone  = "DONE"
	snapshotError = "ERROR"
)

func newChunks(*dataset.Settings) dataset.Maker {
	return func(in *dataset.Inputs) dataset.Kind {
		k := &chunks{in.Str(0, "snapshot_path")}
		if in.Err == nil && k.path == "" {
			in.Failf("snapshot_path is required to list snapshot chunks.")
		}
		return k
	}
}

func (*chunks) Cardinality(*dataset.Query) int64 { return dataset.Unknown }

func (k *chunks) Open(e *dataset.Env) (dataset.Iterator, error) {
	return &listingChunks{of: k, env: e, read: map[string]bool{}}, nil
}

type listingChunks struct {
	of     *chunks
	env    *dataset.Env
	unread []string // in order
	read   map[string]bool
	done   bool
}

func (it *listingChunks) Next(c *dataset.Call) (dataset.Element, error) {
	for attempt := 0; len(it.unread) == 0; attempt++ {
		if it.done {
			return nil, errEOF
		}
		if err := waitForChunks(c, attempt); err != nil {
			return nil, err
		}
		if err := it.look(); err != nil {
			return nil, err
		}
	}
	name := it.unread[0]
	it.unread, it.read[name] = it.unread[1:], true
	return dataset.Element{tensor.FromScalar(joinPath(it.of.path, chunksFolder, name))}, nil
}

// look finds what has been written since the last call.
func (it *listingChunks) look() error {
	failed := joinPath(it.of.path, snapshotError)
	if err := it.env.NoteFile(failed); err != nil {
		return err
	}
	if exists(it.env.Files(), failed) {
		text, err := files.Read(it.env.Files(), failed)
		if err != nil {
			return err
		}
		return writtenError(text)
	}
	// Check for completion before listing: a complete snapshot gets no more files.
	it.done = exists(it.env.Files(), joinPath(it.of.path, snapshotDone))
	names, err := files.Match(it.env.Files(), escaped(joinPath(it.of.path, chunksFolder))+"/*")
	if err != nil {
		return err
	}
	for _, name := range names {
		if name = baseName(name); !it.read[name] {
			it.unread = append(it.unread, name)
		}
	}
	sort.Slice(it.unread, func(i, j int) bool { return chunkBefore(it.unread[i], it.unread[j]) })
	return nil
}

// chunkBefore orders files named chunk_<stream>_<chunk>_<records>: by chunk, then by stream.
func chunkBefore(a, b string) bool {
	x, okx := chunkNumbers(a)
	y, oky := chunkNumbers(b)
	switch {
	case !okx || !oky:
		return a < b
	case x[1] != y[1]:
		return x[1] < y[1]
	}
	return x[0] < y[0]
}

func chunkNumbers(name string) (n [3]int64, ok bool) {
	parts := strings.Split(name, "_")
	if len(parts) != 4 || parts[0] != "chunk" {
		return n, false
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(parts[i+1], 10, 64); err != nil || n[i] < 0 {
			return n, false
		}
	}
	return n, true
}

func (it *listingChunks) Close() {}

func (it *listingChunks) Save(_ *dataset.Call, w *dataset.Writer) {
	names := make([]string, 0, len(it.read))
	for name := range it.read {
		names = append(names, name)
	}
	sort.Strings(names)
	w.Int("read", int64(len(names)))
	for i, name := range names {
		w.InAt("read", i).Str("name", name)
	}
}

func (it *listingChunks) Restore(_ *dataset.Call, r *dataset.Reader) {
	for i := range r.Count("read") {
		it.read[r.InAt("read", i).Str("name")] = true
	}
}
