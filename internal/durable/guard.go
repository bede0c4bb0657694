package durable

import (
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system that pebble writes to. At the first operation that fails it freezes: it reports the error to failed, and from
// then on drops all changes and pretends that they succeed, the failed one included. The disk then has what a crash at that moment would
// leave. Pebble must not see such an error, since it ends the process on some of them (a WAL that can't be closed), and repeats others
// without end (a flush). Errors of reads are returned.
type guard struct {
	vfs.FS
	failed func(op, name string, err error)
	frozen atomic.Bool
	pace   *pace // of compactions

	operations operations
}

// freeze stops all changes of the disk.
func (g *guard) freeze() {
	if !g.frozen.Swap(true) {
		g.pace.lift()
	}
}

// fails reports whether err is an error, after freezing the disk.
func (g *guard) fails(op, name string, err error) bool {
	if err == nil {
		return false
	}
	if !g.frozen.Load() {
		g.failed(op, name, err) // first, so that whoever commits meanwhile knows before a sync only pretends to succeed
		g.freeze()
	}
	return true
}

// change makes a change of the disk.
func (g *guard) change(op, name string, f func() error) {
	if !g.frozen.Load() {
		g.fails(op, name, g.operations.during(op, name, f))
	}
}

func (g *guard) open(op, name string, f func() (vfs.File, error)) *guardedFile {
	file := &guardedFile{guard: g, name: name}
	g.change(op, name, func() error {
		inner, err := f()
		if err == nil {
			file.File = inner
		}
		return err
	})
	return file
}

func (g *guard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f := g.open("create", name, func() (vfs.File, error) { return g.FS.Create(name, category) })
	f.paced = category == compactionCategory
	return f, nil
}

func (g *guard) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) }), nil
}

func (g *guard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open("rename", newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) }), nil
}

// OpenDir opens a directory, which pebble does to sync it.
func (g *guard) OpenDir(name string) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) }), nil
}

func (g *guard) Link(oldname, newname string) error {
	g.change("link", newname, func() error { return g.FS.Link(oldname, newname) })
	return nil
}

func (g *guard) Rename(oldname, newname string) error {
	g.change("rename", newname, func() error { return g.FS.Rename(oldname, newname) })
	return nil
}

func (g *guard) MkdirAll(dir string, perm os.FileMode) error {
	g.change("create", dir, func() error { return g.FS.MkdirAll(dir, perm) })
	return nil
}

// Remove returns its error and does not freeze: a file too many is harmless.
func (g *guard) Remove(name string) error {
	if g.frozen.Load() {
		return nil
	}
	return g.operations.during("remove", name, func() error { return g.FS.Remove(name) })
}

func (g *guard) RemoveAll(name string) error {
	if g.frozen.Load() {
		return nil
	}
	return g.operations.during("remove", name, func() error { return g.FS.RemoveAll(name) })
}

// GetDiskUsage has no error but vfs.ErrUnsupported: pebble reports others as if the store were damaged.
func (g *guard) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	defer g.operations.end(g.operations.begin("usage", path))
	u, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return u, vfs.ErrUnsupported
	}
	return u, nil
}

// List is here, as Stat and Open are, because it may be what hangs.
func (g *guard) List(dir string) ([]string, error) {
	defer g.operations.end(g.operations.begin("list", dir))
	return g.FS.List(dir)
}

func (g *guard) Stat(name string) (vfs.FileInfo, error) {
	defer g.operations.end(g.operations.begin("stat", name))
	return g.FS.Stat(name)
}

func (g *guard) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	defer g.operations.end(g.operations.begin("open", name))
	return g.FS.Open(name, opts...)
}

func (g *guard) Unwrap() vfs.FS { return g.FS }

// guardedFile is a file for writing, or a directory. File is nil if it was opened after the freeze.
type guardedFile struct {
	vfs.File
	guard *guard
	name  string
	paced bool // a compaction writes it
}

func (f *guardedFile) change(op string, do func() error) {
	if f.File != nil {
		f.guard.change(op, f.name, do)
	}
}

func (f *guardedFile) Write(p []byte) (int, error) {
	if f.paced {
		f.guard.pace.took(len(p))
	}
	f.change("write", func() error {
		_, err := f.File.Write(p)
		return err
	})
	return len(p), nil
}

func (f *guardedFile) WriteAt(p []byte, off int64) (int, error) {
	f.change("write", func() error {
		_, err := f.File.WriteAt(p, off)
		return err
	})
	return len(p), nil
}

func (f *guardedFile) Preallocate(offset, length int64) error {
	f.change("preallocate", func() error { return f.File.Preallocate(offset, length) })
	return nil
}

func (f *guardedFile) Sync() error {
	f.change("sync", f.syncFile)
	return nil
}

func (f *guardedFile) syncFile() error { return f.File.Sync() }

func (f *guardedFile) SyncData() error {
	f.change("sync", func() error { return f.File.SyncData() })
	return nil
}

func (f *guardedFile) SyncTo(length int64) (full bool, _ error) {
	f.change("sync", func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, nil
}

// Close always closes the file: its descriptor is no part of what is frozen.
func (f *guardedFile) Close() error {
	if f.File != nil {
		f.guard.fails("close", f.name, f.guard.operations.during("close", f.name, f.File.Close))
	}
	return nil
}

func (f *guardedFile) Read(p []byte) (int, error) {
	if f.File == nil {
		return 0, io.EOF
	}
	return f.File.Read(p)
}

func (f *guardedFile) ReadAt(p []byte, off int64) (int, error) {
	if f.File == nil {
		return 0, io.EOF
	}
	return f.File.ReadAt(p, off)
}

func (f *guardedFile) Prefetch(offset, length int64) error {
	if f.File == nil {
		return nil
	}
	return f.File.Prefetch(offset, length)
}

func (f *guardedFile) Fd() uintptr {
	if f.File == nil {
		return vfs.InvalidFd
	}
	return f.File.Fd()
}

func (f *guardedFile) Stat() (vfs.FileInfo, error) {
	if f.File == nil {
		return noFile{f.name}, nil
	}
	return f.File.Stat()
}

// noFile describes a file that was opened after the freeze.
type noFile struct{ name string }

func (n noFile) Name() string         { return n.name }
func (noFile) Size() int64            { return 0 }
func (noFile) Mode() fs.FileMode      { return 0o600 }
func (noFile) ModTime() time.Time     { return time.Time{} }
func (noFile) IsDir() bool            { return false }
func (noFile) Sys() any               { return nil }
func (noFile) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
