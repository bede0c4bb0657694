package checkpoint_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"sync"
	"syscall"

	"github.com/troupe-run/troupe/kernels/files"
)

// errCrash is the error of all operations once a disk has lost power.
var errCrash = errors.New("the power is gone")

// disk is a file system in memory that can lose power. After a crash it has what was synced, and any prefix of the name changes made since
// the last sync of the folder, as changes reach a disk in the order in which they were made.
type disk struct {
	mu      sync.Mutex
	names   map[string]*inode
	durable map[string]*inode
	pending []func(map[string]*inode)
	ops     int
	crashAt int // the number of the change that fails, starting at 1; 0 for none
	noLinks bool
	lock    sync.Mutex
}

type inode struct {
	data, durable []byte
	locked        bool
}

func newDisk() *disk {
	return &disk{names: map[string]*inode{}, durable: map[string]*inode{}}
}

// change counts a change that is about to be made.
func (d *disk) change() error {
	d.ops++
	if d.crashAt > 0 && d.ops >= d.crashAt {
		return errCrash
	}
	return nil
}

// rename makes a change to names, which SyncDir makes durable.
func (d *disk) rename(f func(map[string]*inode)) {
	f(d.names)
	d.pending = append(d.pending, f)
}

// after returns the possible states of the disk after a crash.
func (d *disk) after() (list []*disk) {
	for n := range len(d.pending) + 1 {
		for _, lost := range []bool{false, true} {
			names := maps.Clone(d.durable)
			for _, f := range d.pending[:n] {
				f(names)
			}
			next := newDisk()
			next.noLinks = d.noLinks
			copies := map[*inode]*inode{}
			for name, node := range names {
				if copies[node] == nil {
					data := node.data
					if lost {
						data = node.durable
					}
					copies[node] = &inode{data: bytes.Clone(data), durable: bytes.Clone(data)}
				}
				next.names[name] = copies[node]
			}
			next.durable = maps.Clone(next.names)
			list = append(list, next)
		}
	}
	return list
}

// openFile is a file that is being written, content one that is being read.
type openFile struct {
	files.File // for the methods that are never called
	d          *disk
	node       *inode
}

func (f openFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.change(); err != nil {
		f.node.data = append(f.node.data, b[:len(b)/2]...) // a partial write
		return 0, err
	}
	f.node.data = append(f.node.data, b...)
	return len(b), nil
}

func (f openFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.change(); err != nil {
		return err
	}
	f.node.durable = bytes.Clone(f.node.data)
	return nil
}

func (f openFile) TryLock(bool) (bool, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.node.locked = true
	return true, nil
}

func (f openFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.node.locked = false
	return nil
}

func (d *disk) Create(name string) (files.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, syscall.EEXIST
	}
	node := &inode{}
	d.rename(func(m map[string]*inode) { m[name] = node })
	return openFile{d: d, node: node}, nil
}

type content struct {
	files.File // for the methods that are never called
	*bytes.Reader
	node *inode
}

func (c content) Read(b []byte) (int, error) { return c.Reader.Read(b) }
func (c content) Size() int64                { return c.Reader.Size() }
func (c content) TryLock(bool) (bool, error) { return !c.node.locked, nil }
func (content) Close() error                 { return nil }

func (d *disk) Open(name string) (files.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	node := d.names[name]
	if node == nil {
		return nil, syscall.ENOENT
	}
	return content{Reader: bytes.NewReader(node.data), node: node}, nil
}

func (c content) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(b, at)
	if n == len(b) && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (d *disk) named(name string, f func(*inode) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	node := d.names[name]
	if node == nil {
		return syscall.ENOENT
	}
	return f(node)
}

func (d *disk) Rename(from, to string) error {
	return d.named(from, func(node *inode) error {
		d.rename(func(m map[string]*inode) {
			delete(m, from)
			m[to] = node
		})
		return nil
	})
}

func (d *disk) Link(from, to string) error {
	return d.named(from, func(node *inode) error {
		if d.noLinks {
			return errors.ErrUnsupported
		}
		if d.names[to] != nil {
			return syscall.EEXIST
		}
		d.rename(func(m map[string]*inode) { m[to] = node })
		return nil
	})
}

func (d *disk) Remove(name string) error {
	return d.named(name, func(*inode) error {
		d.rename(func(m map[string]*inode) { delete(m, name) })
		return nil
	})
}

func (d *disk) Mkdir(string) error { return syscall.EEXIST }

func (d *disk) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	d.durable, d.pending = maps.Clone(d.names), nil
	return nil
}

// info describes a file of the disk, or its one folder.
type info struct {
	fs.FileInfo // for the methods that are never called
	dir         bool
}

func (i info) IsDir() bool { return i.dir }

func (d *disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if name != "d" && d.names[name] == nil {
		return nil, syscall.ENOENT
	}
	return info{dir: name == "d"}, nil
}

func (d *disk) List(dir string) (list []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.names {
		if path.Dir(name) == dir {
			list = append(list, path.Base(name))
		}
	}
	return list, nil
}

func (d *disk) Check(string) error                   { return nil }
func (d *disk) Overwrite(string) (files.File, error) { return nil, errors.ErrUnsupported }
func (d *disk) Append(string) (files.File, error)    { return nil, errors.ErrUnsupported }
func (d *disk) MkdirAll(string) error                { return syscall.EEXIST }

func (d *disk) Lock(string) (unlock func(), err error) {
	d.lock.Lock()
	return d.lock.Unlock, nil
}
