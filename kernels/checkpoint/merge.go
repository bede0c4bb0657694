package checkpoint

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
	"github.com/troupe-run/troupe/kernels/files"
	"google.golang.org/protobuf/proto"
)

// Merge combines several checkpoints with different tensors into one, by renaming their data files and joining their indexes. Slices of the
// same tensor are combined. A missing checkpoint is an error unless allowMissing is set.
func Merge(fsys files.FS, prefixes []string, prefix string, allowMissing bool) error {
	if err := makeDir(fsys, prefix); err != nil {
		return err
	}
	m := merger{bundle: bundle{entries: map[string]*bundlepb.BundleEntryProto{}}, shards: map[string]int32{}, ended: func() error { return files.Ended(fsys) }}
	defer func() { tensor.Host.Unreserve(m.bytes) }()
	for _, p := range prefixes {
		src, err := fsys.Open(indexName(p))
		switch {
		case errors.Is(err, fs.ErrNotExist) && allowMissing:
			continue
		case errors.Is(err, fs.ErrNotExist):
			return status.InvalidArgumentf("allow_missing_files was set to false and %s did not exist.%v", p, files.Error(p, err))
		case err != nil:
			return files.Error(indexName(p), err)
		}
		err = m.add(src, p)
		if closed := src.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return files.Error(indexName(p), err)
		}
	}
	if m.header == nil {
		return status.InvalidArgumentf("At least one prefix checkpoint file must exist, but none existed.")
	}
	j, err := begin(fsys, filepath.Dir(prefix))
	if err != nil {
		return err
	}
	err = m.save(j, prefixes, prefix)
	j.end(err)
	return err
}

// save writes the merged checkpoint. The checkpoints that it is made of exist until it is complete.
func (m *merger) save(j *journal, prefixes []string, prefix string) error {
	var indexes, data []string
	for _, p := range prefixes {
		if p != prefix {
			indexes = append(indexes, indexName(p))
		}
	}
	for i, name := range m.files {
		if name != dataName(prefix, int32(i), int32(len(m.files))) {
			data = append(data, name)
		}
	}
	sources := j.relative(slices.Concat(indexes, data))
	err := j.commit(prefix, &m.bundle, true, sources)
	moved := errors.Is(err, errNoLinks)
	if moved {
		err = j.commit(prefix, &m.bundle, false, sources)
	}
	if err != nil {
		return err
	}
	if moved {
		data = nil
	}
	for _, name := range slices.Concat(indexes, data) {
		_ = j.fs.Remove(name) // a leftover file is harmless
	}
	return nil
}

// relative returns names relative to the journal's folder; it omits those that are not below the folder.
func (j *journal) relative(names []string) (all []string) {
	for _, name := range names {
		if rel, err := filepath.Rel(j.dir, name); err == nil && filepath.IsLocal(rel) {
			all = append(all, rel)
		}
	}
	return all
}

type merger struct {
	bundle
	shards map[string]int32 // of data files that contain entries, in order of arrival
	ended  func() error
	bytes  int64 // counted for the entries
}

// entryBytes is what an entry takes beside its key and its message: its parts of the map and of the sorted list of keys.
const entryBytes = 128

// room counts the memory of an entry. A few bytes of a table can stand for a key of any length, since keys share what they begin with.
func (m *merger) room(key, value []byte) error {
	n := int64(len(key)) + entryBytes + tensor.DecodedSize((*bundlepb.BundleEntryProto)(nil).ProtoReflect().Descriptor(), value)
	if err := files.Reserve("an entry", n); err != nil {
		return err
	}
	m.bytes += n
	return m.ended()
}

func (m *merger) add(src Source, prefix string) error {
	t, err := openTable(src)
	if err != nil {
		return err
	}
	header, err := readHeader(t)
	if err != nil {
		return headerError(indexName(prefix), err)
	}
	switch {
	case m.header == nil:
		m.header = header
	case m.header.Endianness != header.Endianness:
		return status.InvalidArgumentf("Merging bundles with conflicting endianness; inputs corrupted?")
	case !proto.Equal(m.header.Version, header.Version):
		return status.InvalidArgumentf("Merging bundles with different format versions: merged %v vs. curr %v", m.header.Version, header.Version)
	}
	return t.each(func(key, value []byte) error {
		if len(key) == 0 {
			return nil
		}
		if err := m.room(key, value); err != nil {
			return err
		}
		e := &bundlepb.BundleEntryProto{}
		if err := tensor.Unmarshal(value, e); err != nil {
			return status.Errorf(status.DataLoss, "Entry for key %s not parseable.", key)
		}
		if e.ShardId < 0 || e.ShardId >= header.NumShards {
			return status.Errorf(status.DataLoss, "Entry for key %s lies in file %d of %d", key, e.ShardId, header.NumShards)
		}
		return m.entry(prefix, string(key), e, dataName(prefix, e.ShardId, header.NumShards))
	})
}

func (m *merger) entry(prefix, key string, e *bundlepb.BundleEntryProto, file string) error {
	if have, ok := m.entries[key]; ok {
		switch {
		case len(have.Slices) == 0:
			return status.InvalidArgumentf("Duplicate tensor keyed by %s encountered, when merging prefix: %s", key, prefix)
		case len(e.Slices) == 0:
			return status.Internalf("Duplicate tensor keyed by %s; attempting to merge in a non-slice bundle entry", key)
		case have.Dtype != e.Dtype || !proto.Equal(have.Shape, e.Shape):
			return status.InvalidArgumentf("Slices of %s are of different tensors, when merging prefix: %s", key, prefix)
		}
		have.Slices = append(have.Slices, e.Slices...)
		return nil
	}
	shard, ok := m.shards[file]
	if !ok {
		shard = int32(len(m.files))
		m.shards[file] = shard
		m.files = append(m.files, file)
	}
	e.ShardId = shard
	m.entries[key] = e
	return nil
}
