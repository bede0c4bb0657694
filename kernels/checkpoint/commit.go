package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	versionspb "github.com/galeone/tensorflow/tensorflow/go/core/framework/versions_go_proto"
	bundlepb "github.com/galeone/tensorflow/tensorflow/go/core/protobuf/for_core_protos_go_proto"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/kernels/files"
	"google.golang.org/protobuf/proto"
)

func indexName(prefix string) string { return prefix + ".index" }

func dataName(prefix string, shard, shards int32) string {
	return fmt.Sprintf("%s.data-%05d-of-%05d", prefix, shard, shards)
}

// bundle is a checkpoint in format V2 that is not committed yet.
type bundle struct {
	header  *bundlepb.BundleHeaderProto // without the number of shards
	entries map[string]*bundlepb.BundleEntryProto
	files   []string // the data files, durable; entries refer to them by position
}

func newHeader() *bundlepb.BundleHeaderProto {
	return &bundlepb.BundleHeaderProto{Version: &versionspb.VersionDef{Producer: formatVersion}}
}

// commit makes b the checkpoint of the prefix. No file that the old index names is touched until the new index replaces it. If the data
// files of both would have the same names, the new ones first get other names, which the format allows since an index states the number of
// files. They get their final names once the old index is gone. keep also keeps the files under their old names. sources are removed after
// a merge.
func (j *journal) commit(prefix string, b *bundle, keep bool, sources []string) error {
	unlock, err := j.fs.Lock(j.dir)
	if err != nil {
		return files.Error(j.dir, err)
	}
	defer unlock()
	n := int32(len(b.files))
	old, err := shardsOf(j.fs, prefix)
	if err != nil {
		old = 0 // a damaged index needs no files
	}
	first, shards := int32(0), n
	if old == n {
		first, shards = n, 2*n
	}
	base := filepath.Base(prefix)
	notes := []record{{Base: base, First: first, Count: n, Shards: shards}, {Sources: sources}}
	if old > 0 {
		notes = append(notes, record{Base: base, Count: old, Shards: old})
	}
	if err := j.note(notes...); err != nil {
		return err
	}
	if err := b.place(j, prefix, first, shards, keep); err != nil {
		return err
	}
	if len(sources) > 0 {
		_ = j.note(record{Committed: true}) // the checkpoint exists whether or not the disk has room for this
	}
	if old == n {
		return b.rename(j, prefix)
	}
	for i := range old { // no index names these any more
		_ = j.fs.Remove(dataName(prefix, i, old)) // a leftover file is harmless
	}
	return nil
}

// place gives the data files names that no index uses, and then writes the index that names them.
func (b *bundle) place(j *journal, prefix string, first, shards int32, keep bool) error {
	for i, name := range b.files {
		if err := j.move(name, dataName(prefix, first+int32(i), shards), keep); err != nil {
			return err
		}
	}
	if err := syncDir(j.fs, j.dir); err != nil {
		return err
	}
	return b.writeIndex(j, prefix, first, shards)
}

// rename gives the data files of a complete checkpoint the names that they would have without an earlier checkpoint. On a file system
// without links it leaves them as they are.
func (b *bundle) rename(j *journal, prefix string) error {
	n := int32(len(b.files))
	for i := range n {
		if err := j.move(dataName(prefix, n+i, 2*n), dataName(prefix, i, n), true); err != nil {
			if !errors.Is(err, errNoLinks) {
				return err
			}
			for old := range n {
				_ = j.fs.Remove(dataName(prefix, old, n)) // a leftover file is harmless
			}
			return nil
		}
	}
	if err := syncDir(j.fs, j.dir); err != nil {
		return err
	}
	if err := b.writeIndex(j, prefix, 0, n); err != nil {
		return err
	}
	for i := range n {
		_ = j.fs.Remove(dataName(prefix, n+i, 2*n)) // a leftover file is harmless
	}
	return nil
}

// errNoLinks is the error of a file system that does not support hard links.
var errNoLinks = status.Unimplementedf("The file system has no links")

// move renames a file, replacing any file of that name. If keep is set, the old name stays as well.
func (j *journal) move(from, to string, keep bool) error {
	if from == to {
		return nil
	}
	source := from
	if keep {
		source = j.temporary(to)
		if err := j.fs.Link(from, source); errors.Is(err, fs.ErrNotExist) {
			return files.Error(from, err)
		} else if err != nil {
			return errNoLinks
		}
	}
	if err := j.fs.Rename(source, to); err != nil {
		return files.Error(from, err)
	}
	return nil
}

// shardsOf returns the number of data files of a checkpoint, or 0 if there is none.
func shardsOf(fsys files.FS, prefix string) (int32, error) {
	src, err := fsys.Open(indexName(prefix))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, files.Error(indexName(prefix), err)
	}
	defer src.Close()
	t, err := openTable(src)
	if err != nil {
		return 0, err
	}
	h, err := readHeader(t)
	if err != nil {
		return 0, err
	}
	return h.NumShards, nil
}

func (b *bundle) writeIndex(j *journal, prefix string, first, shards int32) error {
	header := proto.CloneOf(b.header)
	header.NumShards = shards
	keys := make([]string, 0, len(b.entries))
	for k := range b.entries {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return j.writeFile(indexName(prefix), func(w io.Writer) error {
		t := newTable(w)
		value, err := proto.Marshal(header)
		if err != nil {
			return status.Internalf("Cannot encode the header of %s: %v", prefix, err)
		}
		if err := t.addBytes("", value); err != nil {
			return err
		}
		for _, k := range keys {
			e := b.entries[k]
			e.ShardId += first
			value, err = proto.MarshalOptions{}.MarshalAppend(value[:0], e)
			e.ShardId -= first
			if err != nil {
				return status.Internalf("Cannot encode the entry of %s: %v", k, err)
			}
			if err := t.addBytes(k, value); err != nil {
				return err
			}
		}
		return t.finish()
	})
}
