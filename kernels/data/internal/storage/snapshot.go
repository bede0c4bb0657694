package storage

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels"
	"github.com/troupe-run/troupe/kernels/data/internal/dataset"
	"github.com/troupe-run/troupe/kernels/data/internal/source"
	"github.com/troupe-run/troupe/kernels/files"
)

// errEOF is the end of a dataset.
var errEOF = io.EOF

// Delays while waiting for files of another process: they double from the first to the longest.
const (
	firstChunkWait = 100 * time.Millisecond
	maxChunkWait   = 10 * time.Second
)

// waitForChunks waits longer with each attempt; the first does not wait.
func waitForChunks(c *dataset.Call, attempt int) error {
	if attempt == 0 {
		return c.Err()
	}
	t := time.NewTimer(min(firstChunkWait<<min(attempt-1, 10), maxChunkWait))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.Done:
		return c.Err()
	}
}

// statusCode and statusMessage parse a StatusProto in text format.
var (
	statusCode    = regexp.MustCompile(`code:\s*(\w+)`)
	statusMessage = regexp.MustCompile(`message:\s*("(?:[^"\\]|\\.)*")`)
)

// writtenError returns the error that a snapshot's writer left.
func writtenError(text string) error {
	code, message := status.Unknown, text
	if m := statusCode.FindStringSubmatch(text); m != nil {
		for c := status.Cancelled; c <= status.Unauthenticated; c++ {
			if c.String() == m[1] {
				code = c
			}
		}
	}
	if m := statusMessage.FindStringSubmatch(text); m != nil {
		if s, err := strconv.Unquote(m[1]); err == nil {
			message = s
		}
	}
	return status.New(code, message)
}

// savedTo describes where and how a dataset is saved.
type savedTo struct {
	path, compression string
	shard             *dataset.Function // nil: one shard per processor, in turn
}

// saving reads the inputs of a save op after the dataset.
func saving(in *dataset.Inputs, f *dataset.FunctionAttr, uses bool, compression string) savedTo {
	s := savedTo{path: in.Str(1, "path"), compression: compression}
	if shard := in.FunctionFrom(f, 2); uses {
		s.shard = shard
	}
	return s
}

func (s savedTo) Functions() []*dataset.Function {
	if s.shard == nil {
		return nil
	}
	return []*dataset.Function{s.shard}
}

// newSave returns the kernel that saves a dataset.
func newSave(c *kernels.Construction) (any, error) {
	s := dataset.SettingsOf(c)
	f, uses, compression := s.Function("shard_func"), s.Bool("use_shard_func"), checkCompression(s, s.Str("compression"), snapshotV2)
	return dataset.Waiting(func(ctx *kernels.Context) error {
		in := &dataset.Inputs{Context: ctx}
		to := saving(in, f, uses, compression)
		defer in.Release()
		if in.Err != nil {
			return in.Err
		}
		return dataset.WithDataset(ctx, dataset.PlaceOf(ctx, c), func(c *dataset.Call, d *dataset.Dataset) error {
			it, err := to.open(c.Env, d)
			if err != nil {
				return err
			}
			defer it.Close()
			for {
				e, err := it.Next(c)
				if dataset.AtEnd(err) {
					return nil
				}
				if err != nil {
					return err
				}
				e.Release()
			}
		})
	}), s.Err()
}

// saved is a dataset that is saved while it is iterated over.
type saved struct {
	input *dataset.Dataset
	savedTo
}

func newSaveV2(s *dataset.Settings) dataset.Maker {
	f, uses, compression := s.Function("shard_func"), s.Bool("use_shard_func"), checkCompression(s, s.Str("compression"), snapshotV2)
	return func(in *dataset.Inputs) dataset.Kind { return &saved{in.Dataset(0), saving(in, f, uses, compression)} }
}

func (k *saved) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *saved) Open(e *dataset.Env) (dataset.Iterator, error) { return k.open(e, k.input) }

// open creates the iterator that saves a dataset.
func (s savedTo) open(e *dataset.Env, d *dataset.Dataset) (dataset.Iterator, error) {
	it := &savingAll{env: e, to: s, types: d.Spec}
	if s.shard != nil {
		f, err := e.Bind(s.shard)
		if err != nil {
			return nil, err
		}
		it.shard.f = f
	}
	return dataset.OpenOver(e, d, func(o dataset.Over) dataset.Iterator { it.Over = o; return it })
}

// savingAll writes the elements that it returns. It starts with the first one.
type savingAll struct {
	dataset.Over
	env   *dataset.Env
	to    savedTo
	types dataset.Spec
	shard shardFunction
	run   string
	files *shardWriter
	given int64
	ended bool
}

func (it *savingAll) begin() (err error) {
	if it.files != nil {
		return nil
	}
	if it.run == "" {
		it.run = strconv.FormatUint(randomID(), 10)
	}
	if it.files, err = newShardWriter(it.env.Files(), joinPath(it.to.path, it.run), it.to.compression, 0); err != nil {
		it.files = nil
		return err
	}
	return it.describe(false)
}

// describe records the current run, and whether it is complete.
func (it *savingAll) describe(finalized bool) error {
	m := &metadata{run: it.run, version: snapshotV2, types: it.types.Types, finalized: finalized}
	if finalized {
		m.elements = it.given
	}
	return m.write(it.env.Files(), it.to.path)
}

func (it *savingAll) Next(c *dataset.Call) (dataset.Element, error) {
	if it.ended {
		return nil, errEOF
	}
	if err := it.begin(); err != nil {
		return nil, err
	}
	e, err := it.Input.Next(c)
	if dataset.AtEnd(err) {
		it.ended = true
		if err := it.files.next(); err != nil {
			return nil, err
		}
		if err := it.describe(true); err != nil {
			return nil, err
		}
		return nil, errEOF
	}
	if err != nil {
		return nil, err
	}
	shard, err := it.shard.of(c, e)
	if err == nil {
		err = it.files.write(shard, e)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	it.given++
	return e, nil
}

func (it *savingAll) Close() {
	if it.files != nil {
		_ = it.files.next() // the run is incomplete anyway
	}
	it.Over.Close()
}

func (it *savingAll) Save(c *dataset.Call, w *dataset.Writer) {
	w.Str("run", it.run)
	w.Int("given", it.given)
	w.Int("shard", it.shard.last)
	w.Bool("ended", it.ended)
	checkpoint := int64(0)
	if it.files != nil {
		if err := it.files.next(); err != nil {
			w.Fail(err)
		}
		checkpoint = it.files.checkpoint
	}
	w.Int("checkpoint", checkpoint)
	it.Over.Save(c, w)
}

func (it *savingAll) Restore(c *dataset.Call, r *dataset.Reader) {
	it.run, it.given, it.shard.last, it.ended = r.Str("run"), r.Place("given"), r.Place("shard"), r.Bool("ended")
	checkpoint := r.Place("checkpoint")
	if r.Err == nil && it.run != "" && !it.ended {
		it.restoreFiles(r, checkpoint)
	}
	it.Over.Restore(c, r)
}

func (it *savingAll) restoreFiles(r *dataset.Reader, checkpoint int64) {
	if _, err := strconv.ParseUint(it.run, 10, 64); err != nil || checkpoint > maxCheckpoints {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a dataset that is saved is in run %q, checkpoint %d", it.run, checkpoint))
		return
	}
	var err error
	if it.files, err = newShardWriter(it.env.Files(), joinPath(it.to.path, it.run), it.to.compression, checkpoint); err == nil {
		err = it.files.forget()
	}
	if err == nil {
		err = it.describe(false)
	}
	r.Check(err)
}

// maxCheckpoints bounds how often an iterator that writes files may be saved, since each save starts new files.
const maxCheckpoints = 1 << 20

// loaded is a saved dataset.
type loaded struct {
	path, compression string
	metadata          *metadata
	reader            *dataset.Function
	spec              dataset.Spec
}

func newLoad(s *dataset.Settings) dataset.Maker {
	f, spec, compression := s.Function("reader_func"), s.Spec(), checkCompression(s, s.Str("compression"), snapshotV2)
	return func(in *dataset.Inputs) dataset.Kind {
		k := &loaded{path: in.Str(0, "path"), compression: compression, reader: in.FunctionFrom(f, 1), spec: spec}
		if in.Err != nil {
			return k
		}
		m, err := readMetadata(in.Context.Files(), k.path)
		if err == nil && m == nil {
			err = status.Errorf(status.NotFound, "Could not find metadata file [%s]", k.path)
		}
		if err != nil {
			in.Fail(err)
			return k
		}
		k.metadata = m
		return k
	}
}

func (k *loaded) Functions() []*dataset.Function { return []*dataset.Function{k.reader} }

func (k *loaded) Cardinality(*dataset.Query) int64 { return max(k.metadata.elements, 0) }

func (k *loaded) Open(e *dataset.Env) (dataset.Iterator, error) {
	f, err := e.Bind(k.reader)
	if err != nil {
		return nil, err
	}
	c, end := e.NewCall(0)
	defer end()
	opened, err := openShards(c, e, f, joinPath(k.path, k.metadata.run), k.compression, k.metadata.version, k.spec)
	if err != nil {
		return nil, err
	}
	return opened, nil
}

// snapshot returns its input's elements. The first iterator writes them to files, and later ones read the files.
type snapshot struct {
	input                                *dataset.Dataset
	path, compression                    string
	readerPrefix, writerPrefix, hashName string
	reader, shard                        *dataset.Function
	spec                                 dataset.Spec
}

func newSnapshot(s *dataset.Settings) dataset.Maker {
	reader, shard, spec := s.Function("reader_func"), s.Function("shard_func"), s.Spec()
	readers, shards := len(s.TypeList("Treader_func_args")), len(s.TypeList("Tshard_func_args"))
	compression, readerPrefix, writerPrefix := s.Str("compression"), s.Str("reader_prefix"), s.Str("writer_prefix")
	if compression == autoPacked {
		compression = snappied
	}
	checkCompression(s, compression, snapshotV2)
	given, hash := s.Bool("hash_valid"), s.Int("hash")
	return func(in *dataset.Inputs) dataset.Kind {
		k := &snapshot{
			input: in.Dataset(0), path: in.Str(1, "path"), compression: compression, readerPrefix: readerPrefix, writerPrefix: writerPrefix,
			reader: in.Function(reader, 2, 2+readers), shard: in.Function(shard, 2+readers, 2+readers+shards), spec: spec,
		}
		if in.Err != nil {
			return k
		}
		h := uint64(hash)
		if !given {
			var err error
			if h, err = fingerprint(in.Context, k.input, compression); err != nil {
				in.Fail(err)
			}
		}
		k.hashName = strconv.FormatUint(h, 10)
		return k
	}
}

func (k *snapshot) Functions() []*dataset.Function { return []*dataset.Function{k.reader, k.shard} }

func (k *snapshot) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *snapshot) folder(prefix string) string { return joinPath(prefix, k.path, k.hashName) }

func (k *snapshot) Open(e *dataset.Env) (dataset.Iterator, error) {
	it := &snapshotting{of: k, env: e}
	var err error
	if it.reader, err = e.Bind(k.reader); err != nil {
		return nil, err
	}
	if it.shard.f, err = e.Bind(k.shard); err != nil {
		return nil, err
	}
	return it, mkdirAll(e.Files(), k.folder(k.writerPrefix))
}

// The modes of a snapshot's iterator.
const (
	snapshotReads = iota
	snapshotWrites
	snapshotPasses // passes on the input's elements, since another iterator writes
	snapshotUndecided
)

type snapshotting struct {
	of     *snapshot
	env    *dataset.Env
	reader *dataset.Bound
	shard  shardFunction
	now    dataset.Iterator // nil before the first element
	mode   int64
	run    string
	files  *shardWriter
	ended  bool
}

// begin chooses the iterator's mode.
func (it *snapshotting) begin(c *dataset.Call) error {
	dir := it.of.folder(it.of.readerPrefix)
	if err := it.env.NoteFile(joinPath(dir, snapshotMetadata)); err != nil {
		return err
	}
	m, err := readMetadata(it.env.Files(), dir)
	if err != nil {
		return err
	}
	it.mode = snapshotWrites
	if m != nil && m.finalized {
		it.mode = snapshotReads
	}
	return it.openAs(c, m)
}

// openAs opens the iterator for the mode.
func (it *snapshotting) openAs(c *dataset.Call, m *metadata) (err error) {
	if it.mode != snapshotReads {
		it.now, err = it.of.input.Open(it.env)
		return err
	}
	if m == nil {
		return status.Errorf(status.DataLoss, "Snapshot metadata file in %s does not exist any more.", it.of.folder(it.of.readerPrefix))
	}
	it.run = m.run
	t, err := openShards(c, it.env, it.reader, joinPath(it.of.folder(it.of.readerPrefix), m.run), it.of.compression, m.version, it.of.spec)
	if err != nil {
		return err
	}
	it.now = t
	return nil
}

func (it *snapshotting) Next(c *dataset.Call) (dataset.Element, error) {
	if it.now == nil {
		if err := it.begin(c); err != nil {
			return nil, err
		}
	}
	if it.mode != snapshotWrites {
		return it.now.Next(c)
	}
	if it.ended {
		return nil, errEOF
	}
	if err := it.beginRun(); err != nil {
		return nil, err
	}
	e, err := it.now.Next(c)
	if dataset.AtEnd(err) {
		it.ended = true
		if err := it.files.next(); err != nil {
			return nil, err
		}
		if err := it.describe(true); err != nil {
			return nil, err
		}
		return nil, errEOF
	}
	if err != nil {
		return nil, err
	}
	shard, err := it.shard.of(c, e)
	if err == nil {
		err = it.files.write(shard, e)
	}
	if err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

func (it *snapshotting) beginRun() (err error) {
	if it.files != nil {
		return nil
	}
	it.run = strconv.FormatUint(randomID(), 10)
	files, err := newShardWriter(it.env.Files(), joinPath(it.of.folder(it.of.writerPrefix), it.run), it.of.compression, 0)
	if err != nil {
		return err
	}
	it.files = files
	return it.describe(false)
}

func (it *snapshotting) describe(finalized bool) error {
	m := &metadata{hash: it.of.hashName, run: it.run, version: snapshotV2, types: it.of.spec.Types, finalized: finalized}
	return m.write(it.env.Files(), it.of.folder(it.of.writerPrefix))
}

func (it *snapshotting) Close() {
	if it.files != nil {
		_ = it.files.next() // the run is incomplete anyway
		it.files = nil
	}
	if it.now != nil {
		it.now.Close()
		it.now = nil
	}
}

func (it *snapshotting) Save(c *dataset.Call, w *dataset.Writer) {
	mode := it.mode
	if it.now == nil {
		mode = snapshotUndecided
	}
	w.Int("mode", mode)
	w.Str("folder", it.of.folder(""))
	w.Str("run", it.run)
	w.Bool("ended", it.ended)
	checkpoint := int64(0)
	if it.files != nil {
		if err := it.files.next(); err != nil {
			w.Fail(err)
		}
		checkpoint = it.files.checkpoint
	}
	w.Int("checkpoint", checkpoint)
	if it.now != nil {
		it.now.Save(c, w.In("now"))
	}
}

func (it *snapshotting) Restore(c *dataset.Call, r *dataset.Reader) {
	it.mode = r.Place("mode")
	folder, run := r.Str("folder"), r.Str("run")
	it.ended = r.Bool("ended")
	checkpoint := r.Place("checkpoint")
	if r.Err != nil || it.mode == snapshotUndecided {
		return
	}
	if own := it.of.folder(""); folder != own {
		r.Fail(status.Errorf(status.DataLoss, "Dataset has changed while restoring from the checkpoint. Old hash directory: %s; new hash directory: %s", folder, own))
		return
	}
	if _, err := strconv.ParseUint(run, 10, 64); run != "" && err != nil || it.mode > snapshotUndecided || checkpoint > maxCheckpoints {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a snapshot is in mode %d, run %q, checkpoint %d", it.mode, run, checkpoint))
		return
	}
	m, err := readMetadata(it.env.Files(), it.of.folder(it.of.readerPrefix))
	if err == nil && it.mode == snapshotReads && m != nil {
		m.run = run // another run may have become current
	}
	if err == nil {
		err = it.openAs(c, m)
	}
	if err != nil {
		r.Fail(err)
		return
	}
	if it.mode == snapshotWrites && run != "" && !it.ended {
		it.run = run
		if it.files, err = newShardWriter(it.env.Files(), joinPath(it.of.folder(it.of.writerPrefix), run), it.of.compression, checkpoint); err == nil {
			err = it.files.forget()
		}
		if err == nil {
			err = it.describe(false)
		}
		r.Check(err)
	}
	it.now.Restore(c, r.In("now"))
}

// legacySnapshot is the first version of snapshots: SnapshotDataset.
type legacySnapshot struct {
	input                      *dataset.Dataset
	folder, compression, mode  string
	readerPrefix, writerPrefix string
	shardBytes                 int64
	expiry                     time.Duration
	shuffles                   bool
	seed, seed2                int64
	hash, name                 string
	spec                       dataset.Spec
}

const (
	defaultShardBytes  = 10 << 30
	defaultExpiry      = 86400
	snapshotModeAuto   = "auto"
	snapshotModeRead   = "read"
	snapshotModeWrite  = "write"
	snapshotModePassed = "passthrough"
)

func newLegacySnapshot(s *dataset.Settings) dataset.Maker {
	k := legacySnapshot{
		compression: checkCompression(s, s.Str("compression"), snapshotV1), mode: s.Str("mode"), readerPrefix: s.Str("reader_path_prefix"),
		writerPrefix: s.Str("writer_path_prefix"), shardBytes: s.Int("shard_size_bytes"), shuffles: s.Bool("shuffle_on_read"),
		seed: s.Int("seed"), seed2: s.Int("seed2"), name: s.Str("snapshot_name"), spec: s.Spec(),
	}
	expiry := s.Int("pending_snapshot_expiry_seconds")
	if k.shardBytes == -1 {
		k.shardBytes = defaultShardBytes
	}
	if expiry == -1 {
		expiry = defaultExpiry
	}
	k.expiry = time.Duration(min(expiry, int64(1e9))) * time.Second
	switch {
	case s.Err() != nil:
	case expiry < 1:
		s.Failf("pending_snapshot_expiry_seconds must be at least 1 second.")
	case !slices.Contains([]string{snapshotModeAuto, snapshotModeRead, snapshotModeWrite, snapshotModePassed}, k.mode):
		s.Failf("mode must be either '%s', '%s', '%s', or '%s'.", snapshotModeAuto, snapshotModeRead, snapshotModeWrite, snapshotModePassed)
	}
	return func(in *dataset.Inputs) dataset.Kind {
		k := k
		k.input = in.Dataset(0)
		path := in.Str(1, "path")
		if in.Err != nil {
			return &k
		}
		h, err := fingerprint(in.Context, k.input, path)
		if err != nil {
			in.Fail(err)
		}
		k.hash = fmt.Sprintf("%016x", h)
		k.folder = joinPath(path, k.hash)
		if k.name != "" {
			k.folder = joinPath(path, "custom-"+k.name)
		}
		return &k
	}
}

func (k *legacySnapshot) Cardinality(q *dataset.Query) int64 { return k.input.Cardinality(q) }

func (k *legacySnapshot) Open(e *dataset.Env) (dataset.Iterator, error) {
	return &legacySnapshotting{of: k, env: e, mode: snapshotUndecided}, nil
}

type legacySnapshotting struct {
	of   *legacySnapshot
	env  *dataset.Env
	mode int64
	run  string

	input dataset.Iterator // while the input is read
	// For writing: the next element, and the file.
	begun   bool
	next    dataset.Outcome
	file    *snapshotWriter
	number  int64
	written int64 // bytes in the file
	// For reading: the files, in order, and how many elements of the first were returned.
	names  []string
	reader *snapshotReader
	given  int64
	v      int64
}

// decide chooses the mode, as core/data/snapshot_utils.cc DetermineOpState does.
func (k *legacySnapshot) decide(m *metadata) (int64, error) {
	switch {
	case k.mode == snapshotModeRead && m == nil:
		return 0, status.Errorf(status.NotFound, "Metadata file does not exist.")
	case k.mode == snapshotModeRead:
		return snapshotReads, nil
	case k.mode == snapshotModeWrite || k.mode == snapshotModeAuto && m == nil:
		return snapshotWrites, nil
	case k.mode == snapshotModePassed:
		return snapshotPasses, nil
	case m.finalized:
		return snapshotReads, nil
	case time.Since(time.UnixMicro(m.created)) <= k.expiry:
		return snapshotPasses, nil // another iterator is writing
	}
	return snapshotWrites, nil
}

func (it *legacySnapshotting) begin() error {
	if err := it.env.NoteFile(joinPath(it.of.folder, snapshotMetadata)); err != nil {
		return err
	}
	m, err := readMetadata(it.env.Files(), it.of.folder)
	if err != nil {
		return err
	}
	mode, err := it.of.decide(m)
	if err != nil {
		return err
	}
	if err := it.openAs(mode, m); err != nil {
		return err
	}
	it.mode = mode
	return nil
}

func (it *legacySnapshotting) openAs(mode int64, m *metadata) (err error) {
	if it.of.name != "" {
		it.run = "custom"
	}
	if mode != snapshotReads {
		if it.run == "" {
			it.run = fmt.Sprintf("%04x", randomID())
		}
		it.input, err = it.of.input.Open(it.env)
		return err
	}
	if m == nil || it.run == "" && m.run == "" {
		return status.Errorf(status.NotFound, "Could not find a valid snapshot to read.")
	}
	if it.run == "" {
		it.run = m.run
	}
	if len(m.types) != len(it.of.spec.Types) {
		return status.Internalf("Expected number of dtypes: %d but number in snapshot: %d", len(it.of.spec.Types), len(m.types))
	}
	for i, t := range m.types {
		if t != it.of.spec.Types[i] {
			return status.Internalf("Type: %d doesn't match. Snapshot: %v; dataset: %v", i, t, it.of.spec.Types[i])
		}
	}
	it.v = m.version
	return it.find()
}

// find lists the files of the run.
func (it *legacySnapshotting) find() error {
	dir := joinPath(it.of.readerPrefix, it.of.folder, it.run)
	names, err := files.Match(it.env.Files(), escaped(dir)+"/*")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return status.Errorf(status.NotFound, "Could not find any files in dir: %s", dir)
	}
	slices.Sort(names)
	if it.of.shuffles {
		seed, seed2 := it.of.seed, it.of.seed2
		if seed == 0 && seed2 == 0 {
			seed, seed2 = int64(randomID()), int64(randomID())
		}
		draw := source.NewNumbers(seed, seed2, 0)
		for i := len(names) - 1; i > 0; i-- {
			j := int(uint64(draw.Next()) % uint64(i+1))
			names[i], names[j] = names[j], names[i]
		}
	}
	it.names = names
	return nil
}

func (it *legacySnapshotting) Next(c *dataset.Call) (dataset.Element, error) {
	if it.mode == snapshotUndecided {
		if err := it.begin(); err != nil {
			return nil, err
		}
	}
	switch it.mode {
	case snapshotReads:
		return it.read(c)
	case snapshotWrites:
		return it.write(c)
	}
	return it.input.Next(c)
}

func (it *legacySnapshotting) read(c *dataset.Call) (dataset.Element, error) {
	for len(it.names) > 0 {
		if err := c.Err(); err != nil {
			return nil, err
		}
		if it.reader == nil {
			if err := it.env.NoteFile(it.names[0]); err != nil {
				return nil, err
			}
			r, err := openSnapshot(it.env.Files(), it.names[0], it.of.compression, it.v, it.of.spec.Types)
			if err != nil {
				return nil, err
			}
			it.reader = r
		}
		e, err := it.reader.next(c)
		if !dataset.AtEnd(err) {
			if err == nil {
				it.given++
			}
			return e, err
		}
		it.reader.close()
		it.reader, it.names, it.given = nil, it.names[1:], 0
	}
	return nil, errEOF
}

// write returns an element. It requests the next one first, so that the run is complete when its last element is returned.
func (it *legacySnapshotting) write(c *dataset.Call) (dataset.Element, error) {
	if !it.begun {
		if err := mkdirAll(it.env.Files(), joinPath(it.of.writerPrefix, it.of.folder, it.run)); err != nil {
			return nil, err
		}
		if err := it.describe(false); err != nil {
			return nil, err
		}
		if err := it.openFile(); err != nil { // even a run without elements has a file
			return nil, err
		}
		it.begun = true
	}
	if it.next.Element == nil && it.next.Err == nil { // at the start, and after a failed element
		if err := it.advance(c); err != nil {
			return nil, err
		}
	}
	o := it.next
	it.next = dataset.Outcome{}
	if o.Err != nil {
		it.next = o
		return nil, o.Err
	}
	if err := it.advance(c); err != nil {
		o.Release()
		return nil, err
	}
	return o.Element, nil
}

// advance requests an element and writes it; after the last one it completes the run.
func (it *legacySnapshotting) advance(c *dataset.Call) error {
	e, err := it.input.Next(c)
	if dataset.AtEnd(err) {
		it.next = dataset.Outcome{Element: nil, Err: errEOF}
		if err := it.closeFile(); err != nil {
			return err
		}
		m, err := readMetadata(it.env.Files(), it.of.folder)
		if err != nil {
			return err
		}
		if m == nil || m.run != it.run {
			return nil // another iterator completed it first
		}
		return it.describe(true)
	}
	if err != nil {
		return err
	}
	if it.written += e.Bytes(); it.file != nil && it.written > it.of.shardBytes {
		if err := it.closeFile(); err != nil {
			e.Release()
			return err
		}
		it.written = e.Bytes()
	}
	if err = it.openFile(); err == nil {
		err = files.Error(it.fileName(), it.file.write(e))
	}
	if err != nil {
		e.Release()
		return err
	}
	it.next = dataset.Outcome{Element: e, Err: nil}
	return nil
}

func (it *legacySnapshotting) fileName() string {
	return snapshotFile(joinPath(it.of.writerPrefix, it.of.folder, it.run), it.number)
}

// openFile creates a file, unless one is open.
func (it *legacySnapshotting) openFile() (err error) {
	if it.file == nil {
		it.file, err = newSnapshotWriter(it.env.Files(), it.fileName(), it.of.compression, snapshotV1)
	}
	return err
}

// closeFile ends the file; the next element starts another one.
func (it *legacySnapshotting) closeFile() error {
	if it.file == nil {
		return nil
	}
	err := it.file.close()
	it.file, it.written = nil, 0
	it.number++
	return err
}

func (it *legacySnapshotting) describe(finalized bool) error {
	m := &metadata{hash: it.of.hash, run: it.run, version: snapshotV1, types: it.of.spec.Types, finalized: finalized}
	return m.write(it.env.Files(), it.of.folder)
}

func (it *legacySnapshotting) Close() {
	_ = it.closeFile() // the run is incomplete anyway
	it.next.Release()
	it.next = dataset.Outcome{}
	if it.reader != nil {
		it.reader.close()
		it.reader = nil
	}
	if it.input != nil {
		it.input.Close()
		it.input = nil
	}
}

func (it *legacySnapshotting) Save(c *dataset.Call, w *dataset.Writer) {
	w.Int("mode", it.mode)
	w.Str("folder", it.of.folder)
	w.Str("run", it.run)
	w.Bool("begun", it.begun)
	if err := it.closeFile(); err != nil {
		w.Fail(err)
	}
	w.Int("number", it.number)
	w.Int("version", it.v)
	dataset.SaveOutcomes(w, "next", []dataset.Outcome{{Element: it.next.Element, Err: orEnded(it.next.Err)}})
	w.Int("names", int64(len(it.names)))
	for i, name := range it.names {
		w.InAt("name", i).Str("name", name)
	}
	w.Int("given", it.given)
	if it.input != nil {
		it.input.Save(c, w.In("input"))
	}
}

// orEnded returns an error in the form in which states store it.
func orEnded(err error) error {
	if dataset.AtEnd(err) {
		return dataset.ErrEnded
	}
	return err
}

func (it *legacySnapshotting) Restore(c *dataset.Call, r *dataset.Reader) {
	mode, folder := r.Place("mode"), r.Str("folder")
	if r.Err != nil || mode == snapshotUndecided {
		return
	}
	if folder != it.of.folder || mode > snapshotUndecided {
		r.Fail(status.Errorf(status.DataLoss, "Dataset has changed while restoring from the checkpoint. Old hash directory: %s; new hash directory: %s", folder, it.of.folder))
		return
	}
	if mode == snapshotReads {
		it.restoreReader(c, r)
	} else if err := it.openAs(mode, nil); err != nil {
		r.Fail(err)
	}
	if r.Err != nil {
		return
	}
	it.mode = mode
	if it.input == nil {
		return
	}
	if run := r.Str("run"); runName.MatchString(run) {
		it.run = run
	} else {
		r.Fail(status.Errorf(status.DataLoss, "The saved state of a snapshot is in run %q", run))
	}
	it.begun, it.number = r.Bool("begun"), r.Place("number")
	if list := dataset.RestoreOutcomes(r, "next"); len(list) == 1 {
		it.next = list[0]
		if status.CodeOf(it.next.Err) == status.OutOfRange {
			it.next.Err = errEOF
		}
	}
	it.input.Restore(c, r.In("input"))
}

// runName matches the names of runs.
var runName = regexp.MustCompile(`^([0-9a-f]{4,16}|custom)$`)

func (it *legacySnapshotting) restoreReader(c *dataset.Call, r *dataset.Reader) {
	m, err := readMetadata(it.env.Files(), it.of.folder)
	if err == nil {
		err = it.openAs(snapshotReads, m)
	}
	if err != nil {
		r.Fail(err)
		return
	}
	// The remaining files must be among those of the run.
	all, left := it.names, []string{}
	for i := range r.Count("names") {
		name := r.InAt("name", i).Str("name")
		if !slices.Contains(all, name) {
			r.Fail(status.Errorf(status.DataLoss, "The saved state of a snapshot reads %q, which is none of its files", name))
			return
		}
		left = append(left, name)
	}
	it.names = left
	for n := r.Place("given"); it.given < n && r.Err == nil; {
		e, err := it.read(c)
		r.Check(err)
		e.Release()
	}
}
