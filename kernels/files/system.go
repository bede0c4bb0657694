package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/troupe-run/troupe/graph/status"
)

// All gives access to the files that the process may use.
var All FS = &reach{find: func(path string) (place, error) { return place{everywhere{}, path}, nil }}

// None returns an FS without files. Its errors contain reason, which says which right is missing and how to grant it.
func None(reason string) FS {
	return refusing(func(path string) error { return denied(path, reason) })
}

// refusing returns an FS that rejects every path with a reason.
func refusing(reason func(path string) error) FS {
	return &reach{find: func(path string) (place, error) { return place{}, reason(path) }}
}

func denied(path, reason string) error {
	return status.Errorf(status.PermissionDenied, "%s; Permission denied: %s", path, reason)
}

// reach is an FS whose paths lie in trees.
type reach struct {
	find func(path string) (place, error)
}

// tree is a part of the file system, such as an *os.Root.
type tree interface {
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Stat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Remove(name string) error
	Rename(from, to string) error
	Link(from, to string) error
}

// everywhere is the tree of all files.
type everywhere struct{}

func (everywhere) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}
func (everywhere) Stat(name string) (fs.FileInfo, error)        { return os.Stat(name) }
func (everywhere) Mkdir(name string, perm fs.FileMode) error    { return os.Mkdir(name, perm) }
func (everywhere) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (everywhere) Remove(name string) error                     { return os.Remove(name) }
func (everywhere) Rename(from, to string) error                 { return os.Rename(from, to) }
func (everywhere) Link(from, to string) error                   { return os.Link(from, to) }

// place is a path: a name in a tree.
type place struct {
	tree
	name string
}

// The permissions of new files and folders; as in TensorFlow, the process's umask applies.
const (
	filePerm   = 0o666
	folderPerm = 0o755
)

func (r *reach) Check(path string) error {
	_, err := r.find(path)
	return err
}

func (r *reach) Open(path string) (File, error) { return r.open(path, os.O_RDONLY) }

func (r *reach) Create(path string) (File, error) {
	return r.open(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND)
}

func (r *reach) Overwrite(path string) (File, error) {
	return r.open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
}

func (r *reach) Append(path string) (File, error) {
	return r.open(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
}

// open opens a regular file. Other files are rejected before they are opened, since opening a device may have effects, and again
// afterwards, since the file may have been replaced meanwhile. Opening a pipe does not wait for its other end.
func (r *reach) open(path string, flag int) (File, error) {
	p, err := r.find(path)
	if err != nil {
		return nil, err
	}
	if flag&os.O_EXCL == 0 {
		info, err := p.Stat(p.name)
		if err == nil {
			err = regular(path, info)
		} else if flag&os.O_CREATE != 0 && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return nil, outside(path, err)
		}
	}
	f, err := p.OpenFile(p.name, flag|openFlags, filePerm)
	if err != nil {
		return nil, outside(path, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return &file{f, info.Size()}, nil
}

// regular rejects anything but a regular file.
func regular(path string, info fs.FileInfo) error {
	kind := "not a regular file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	}
	return status.Errorf(status.FailedPrecondition, "%s; It is %s: ops read and write only regular files", path, kind)
}

func (r *reach) Stat(path string) (fs.FileInfo, error) {
	p, err := r.find(path)
	if err != nil {
		return nil, err
	}
	info, err := p.Stat(p.name)
	return info, outside(path, err)
}

func (r *reach) List(dir string) ([]string, error) {
	f, err := r.folder(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written
	var names []string
	for {
		some, err := f.Readdirnames(1 << 12)
		names = append(names, some...)
		switch {
		case errors.Is(err, io.EOF):
			return names, nil
		case err != nil:
			return nil, err
		case len(names) > maxNames:
			return nil, tooMany(dir)
		}
	}
}

// maxNames bounds how many names one op may look up.
const maxNames = 1 << 22

func tooMany(what string) error {
	return status.Errorf(status.ResourceExhausted, "%s; It has more than %d files, which is the limit for one op", what, maxNames)
}

// folder opens a folder.
func (r *reach) folder(dir string) (*os.File, error) {
	p, err := r.find(dir)
	if err != nil {
		return nil, err
	}
	info, err := p.Stat(p.name)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return nil, outside(dir, err)
	}
	f, err := p.OpenFile(p.name, os.O_RDONLY|openFlags, 0)
	return f, outside(dir, err)
}

func (r *reach) Rename(from, to string) error {
	return r.both(from, to, func(t tree, from, to string) error { return t.Rename(from, to) })
}

func (r *reach) Link(from, to string) error {
	return r.both(from, to, func(t tree, from, to string) error { return t.Link(from, to) })
}

// both calls do with two paths, which must lie in one tree.
func (r *reach) both(from, to string, do func(t tree, from, to string) error) error {
	a, err := r.find(from)
	if err != nil {
		return err
	}
	b, err := r.find(to)
	if err != nil {
		return err
	}
	if a.tree != b.tree {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EXDEV}
	}
	return outside(to, do(a.tree, a.name, b.name))
}

func (r *reach) Remove(path string) error {
	return r.at(path, func(p place) error { return p.Remove(p.name) })
}

func (r *reach) Mkdir(path string) error {
	return r.at(path, func(p place) error { return p.Mkdir(p.name, folderPerm) })
}

func (r *reach) MkdirAll(path string) error {
	return r.at(path, func(p place) error { return p.MkdirAll(p.name, folderPerm) })
}

func (r *reach) at(path string, do func(place) error) error {
	p, err := r.find(path)
	if err != nil {
		return err
	}
	return outside(path, do(p))
}

// file is a file of the system.
type file struct {
	*os.File
	size int64
}

func (f *file) Size() int64 { return f.size }

// Folders are the folders that clients' files are confined to. Close closes them.
type Folders struct {
	folders []folder
}

type folder struct {
	path  string
	alias string // the folder's path with links resolved
	root  *os.Root
}

// OpenFolders opens folders. A folder inside another one is part of that one.
func OpenFolders(paths []string) (*Folders, error) {
	f := &Folders{}
	for _, path := range paths {
		if err := f.open(path); err != nil {
			f.Close()
			return nil, status.Errorf(status.CodeOf(Error(path, err)), "The folder %s for clients' files cannot be opened: %v", path, err)
		}
	}
	return f, nil
}

func (f *Folders) open(path string) error {
	if path == "" {
		return status.InvalidArgumentf("it has no name")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	alias, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	f.folders = append(f.folders, folder{path, alias, root})
	return nil
}

// Close closes the folders; their files are no longer accessible.
func (f *Folders) Close() {
	for _, d := range f.folders {
		_ = d.root.Close() // nothing is written through it
	}
}

// String lists the folders.
func (f *Folders) String() string {
	var names []string
	for _, d := range f.folders {
		names = append(names, d.path)
	}
	return strings.Join(names, ", ")
}

// Confine returns the files below the folders. A path must lead below one of them; relative paths are relative to the process's working
// directory. reason, which errors contain, says what to do about other paths.
func (f *Folders) Confine(reason string) FS {
	return &reach{find: func(path string) (place, error) {
		if path == "" {
			return place{}, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
		}
		abs, err := filepath.Abs(path)
		if err != nil {
			return place{}, err
		}
		best, at := place{}, -1
		for _, d := range f.folders {
			for _, dir := range []string{d.path, d.alias} {
				// Use the outermost folder, so that two paths in it are in the same tree.
				if name, ok := below(abs, dir); ok && (at < 0 || len(dir) < at) {
					best, at = place{d.root, name}, len(dir)
				}
			}
		}
		if at < 0 {
			return place{}, denied(path, reason)
		}
		return best, nil
	}}
}

// below returns the name of a path relative to a folder.
func below(path, dir string) (name string, ok bool) {
	if path == dir {
		return ".", true
	}
	dir = strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator)
	name, ok = strings.CutPrefix(path, dir)
	return name, ok && name != ""
}
