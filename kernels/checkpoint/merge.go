package checkpoint

import (
	"errors"
	"io/fs"

	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
	"google.golang.org/protobuf/proto"
)

// Merge makes one checkpoint of several whose tensors differ, by renaming their data files and joining their
// indexes. Slices of one tensor come together. Missing checkpoints are an error unless allowMissing.
func Merge(fsys FS, prefixes []string, prefix string, allowMissing bool) error {
	if err := makeDir(fsys, prefix); err != nil {
		return err
	}
	m := merger{bundle: bundle{entries: map[string]*bundlepb.BundleEntryProto{}}, shards: map[string]int32{}}
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
	// Until the merged checkpoint is there, those that it is made of are.
	err := commit(fsys, prefix, &m.bundle, true)
	moved := errors.Is(err, errNoLinks)
	if moved {
		err = commit(fsys, prefix, &m.bundle, false)
	}
	if err != nil {
		return err
	}
	for _, p := range prefixes {
		if p != prefix {
			_ = fsys.Remove(indexName(p)) // what is left over does no harm
		}
	}
	if !moved {
		for i, name := range m.files {
			if name != dataName(prefix, int32(i), int32(len(m.files))) {
				_ = fsys.Remove(name)
			}
		}
	}
	return nil
}

type merger struct {
	bundle
	shards map[string]int32 // of data files that entries are in, in the order in which they came
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
		e := &bundlepb.BundleEntryProto{}
		if err := proto.Unmarshal(value, e); err != nil {
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
