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

// bundle is a checkpoint in format V2 that is about to be.
type bundle struct {
	header  *bundlepb.BundleHeaderProto // without the number of shards
	entries map[string]*bundlepb.BundleEntryProto
	files   []string // the data files, durable; entries have their positions
}

func newHeader() *bundlepb.BundleHeaderProto {
	return &bundlepb.BundleHeaderProto{Version: &versionspb.VersionDef{Producer: formatVersion}}
}

// commit makes b the checkpoint of the prefix. Until the new index replaces the old one no file that the old one
// names is touched: where the data files of both would have the same names, the new ones first get others, which the
// format allows since an index tells how many files there are, and get their own once the old index is gone. keep
// leaves the files under their old names too.
func commit(fsys FS, prefix string, b *bundle, keep bool) error {
	dir := filepath.Dir(prefix)
	unlock, err := fsys.Lock(dir)
	if err != nil {
		return files.Error(dir, err)
	}
	defer unlock()
	n := int32(len(b.files))
	old := shardsOf(fsys, prefix)
	first, shards := int32(0), n
	if old == n {
		first, shards = n, 2*n
	}
	if err := b.place(fsys, prefix, first, shards, keep); err != nil {
		if shardsOf(fsys, prefix) == old { // the new index is not there, and its data is in nobody's way
			for i := range n {
				_ = fsys.Remove(dataName(prefix, first+i, shards))
			}
		}
		return err
	}
	switch old {
	case n:
		return b.rename(fsys, prefix)
	case 2 * n: // may be what rename could not finish
		for i := range old {
			_ = fsys.Remove(dataName(prefix, i, old)) // what is left over does no harm
		}
	}
	return nil
}

// place gives the data files names that no index names yet, and then writes the index that does.
func (b *bundle) place(fsys FS, prefix string, first, shards int32, keep bool) error {
	for i, name := range b.files {
		if err := move(fsys, name, dataName(prefix, first+int32(i), shards), keep); err != nil {
			return err
		}
	}
	if err := syncDir(fsys, filepath.Dir(prefix)); err != nil {
		return err
	}
	return b.writeIndex(fsys, prefix, first, shards)
}

// rename gives the data files of a checkpoint that is complete the names that they would have had without an
// earlier checkpoint. A file system without links leaves them as they are.
func (b *bundle) rename(fsys FS, prefix string) error {
	n := int32(len(b.files))
	for i := range n {
		if err := move(fsys, dataName(prefix, n+i, 2*n), dataName(prefix, i, n), true); err != nil {
			if errors.Is(err, errNoLinks) {
				return nil
			}
			return err
		}
	}
	if err := syncDir(fsys, filepath.Dir(prefix)); err != nil {
		return err
	}
	if err := b.writeIndex(fsys, prefix, 0, n); err != nil {
		return err
	}
	for i := range n {
		_ = fsys.Remove(dataName(prefix, n+i, 2*n)) // what is left over does no harm
	}
	return nil
}

// errNoLinks is the error of a file system that cannot give a file two names.
var errNoLinks = status.Unimplementedf("The file system has no links")

// move gives a file another name, in place of the file that has it, and leaves it its own too if keep.
func move(fsys FS, from, to string, keep bool) error {
	if from == to {
		return nil
	}
	source := from
	if keep {
		source = to + temporary()
		if err := fsys.Link(from, source); errors.Is(err, fs.ErrNotExist) {
			return files.Error(from, err)
		} else if err != nil {
			return errNoLinks
		}
	}
	if err := fsys.Rename(source, to); err != nil {
		return files.Error(from, err)
	}
	return nil
}

// shardsOf tells how many data files a checkpoint has; 0 where there is no good one.
func shardsOf(fsys FS, prefix string) int32 {
	src, err := fsys.Open(indexName(prefix))
	if err != nil {
		return 0
	}
	defer src.Close()
	t, err := openTable(src)
	if err != nil {
		return 0
	}
	h, err := readHeader(t)
	if err != nil {
		return 0
	}
	return h.NumShards
}

func (b *bundle) writeIndex(fsys FS, prefix string, first, shards int32) error {
	header := proto.CloneOf(b.header)
	header.NumShards = shards
	keys := make([]string, 0, len(b.entries))
	for k := range b.entries {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return writeFile(fsys, indexName(prefix), func(w io.Writer) error {
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
