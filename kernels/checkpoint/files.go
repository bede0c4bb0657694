package checkpoint

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/troupe-run/troupe/kernels/files"
)

// Source is a file that is read. It is for any number of goroutines but for Close.
type Source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// glob gives the files that a pattern matches, sorted. It takes a name for itself where there is a file of that name,
// so that a checkpoint in a folder run[1] is found, which TensorFlow does not find.
func glob(fsys files.FS, pattern string) ([]string, error) {
	if _, err := fsys.Stat(pattern); err == nil {
		return []string{pattern}, nil
	}
	list, err := files.Match(fsys, pattern)
	slices.Sort(list)
	return list, err
}

// makeDir makes the folder of a file where its parent is there.
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
