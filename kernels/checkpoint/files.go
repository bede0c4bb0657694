package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/troupe-run/troupe/kernels/files"
)

// FS is the file system that checkpoints lie in. It is for any number of goroutines. Its errors are those of
// package os.
type FS interface {
	// Create makes a file that is not there yet.
	Create(name string) (File, error)
	Open(name string) (Source, error)
	// Rename replaces a file that has the name already, at once.
	Rename(from, to string) error
	// Link gives a file a second name, which must be free.
	Link(from, to string) error
	Remove(name string) error
	Mkdir(name string) error
	// SyncDir makes what happened to the names in a folder durable.
	SyncDir(dir string) error
	// Glob gives the files that a pattern matches, sorted.
	Glob(pattern string) ([]string, error)
	// Lock keeps others, of this process and of others on the machine, from locking the folder too.
	Lock(dir string) (unlock func(), err error)
}

// File is a file that is being written.
type File interface {
	io.Writer
	// Sync makes what was written durable.
	Sync() error
	Close() error
}

// Source is a file that is read. It is for any number of goroutines but for Close.
type Source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// OS is the operating system's file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
}

type osSource struct {
	*os.File
	size int64
}

func (s osSource) Size() int64 { return s.size }

func (osFS) Open(name string) (Source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return osSource{f, info.Size()}, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Link(from, to string) error   { return os.Link(from, to) }
func (osFS) Remove(name string) error     { return os.Remove(name) }
func (osFS) Mkdir(name string) error      { return os.Mkdir(name, 0o755) }

// Glob takes a name for itself where there is a file of that name, so that a checkpoint in a folder run[1] is found, which
// TensorFlow does not find.
func (osFS) Glob(pattern string) ([]string, error) {
	if _, err := os.Stat(pattern); err == nil {
		return []string{pattern}, nil
	}
	list, err := files.Match(pattern)
	slices.Sort(list)
	return list, err
}

// temporary is an ending for names of files that are not complete yet, which nobody else has.
func temporary() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return ".tempstate" + hex.EncodeToString(b[:])
}

// makeDir makes the folder of a file where its parent is there.
func makeDir(fsys FS, name string) error {
	dir := filepath.Dir(name)
	if err := fsys.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return files.Error(dir, err)
	}
	return nil
}

// writeFile writes a file that has its name only when all of it is durable.
func writeFile(fsys FS, name string, write func(io.Writer) error) error {
	temp := name + temporary()
	f, err := fsys.Create(temp)
	if err != nil {
		return files.Error(temp, err)
	}
	if err := write(f); err != nil {
		_ = f.Close()
		_ = fsys.Remove(temp)
		return files.Error(temp, err)
	}
	if err := closeDurably(f); err != nil {
		_ = fsys.Remove(temp)
		return files.Error(temp, err)
	}
	if err := fsys.Rename(temp, name); err != nil {
		_ = fsys.Remove(temp)
		return files.Error(name, err)
	}
	return syncDir(fsys, filepath.Dir(name))
}

func closeDurably(f File) error {
	err := f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func syncDir(fsys FS, dir string) error {
	if err := fsys.SyncDir(dir); err != nil {
		return files.Error(dir, err)
	}
	return nil
}
