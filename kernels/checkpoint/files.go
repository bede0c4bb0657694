package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/troupe-run/troupe/kernels/files"
)

// Source is a file open for reading. All methods but Close may be called concurrently.
type Source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// glob returns the files that match a pattern, sorted. If there is a file whose name is the pattern itself, it returns only that file. A
// checkpoint in a folder run[1] is therefore found, unlike in TensorFlow.
func glob(fsys files.FS, pattern string) ([]string, error) {
	if _, err := fsys.Stat(pattern); err == nil {
		return []string{pattern}, nil
	}
	list, err := files.Match(fsys, pattern)
	slices.Sort(list)
	return list, err
}

// makeDir creates the folder of a file if the folder's parent exists.
func makeDir(fsys files.FS, name string) error {
	dir := filepath.Dir(name)
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, e := fsys.Stat(dir); e != nil {
			return files.Error(dir, err)
		}
	}
	return nil
}

func closeDurably(f files.File) error {
	err := f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func syncDir(fsys files.FS, dir string) error {
	if err := fsys.SyncDir(dir); err != nil {
		return files.Error(dir, err)
	}
	return nil
}
