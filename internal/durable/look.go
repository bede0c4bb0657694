package durable

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
)

// OpenReadOnly opens a store that is not in use, to read it: Load, Cell.Each and Directory. It writes to no file; changes are refused with
// ABORTED. What Open refuses as damaged is refused here, too.
func OpenReadOnly(dir string) (*Store, error) { return openReadOnly(vfs.Default, dir) }

func openReadOnly(f vfs.FS, dir string) (*Store, error) {
	s, lock, err := newReader(f, dir)
	if err != nil {
		return nil, err
	}
	if s.readOnly.state == stateNew {
		return s, nil
	}
	if err := s.openToRead(lock); err != nil {
		return nil, errors.Join(s.readError(err), s.Close())
	}
	return s, nil
}

// newReader returns a store that reads a directory, whose database is not open, and the lock of the directory, which the store closes.
func newReader(f vfs.FS, dir string) (*Store, *pebble.Lock, error) {
	was, exists, err := readOwner(f, dir)
	if err != nil {
		return nil, nil, err
	}
	if !exists {
		return nil, nil, status.Errorf(status.NotFound, "there is no durable store in %s: it has no file %s", dir, ownerFile)
	}
	f = reading{f}
	lock, err := pebble.LockDirectory(dir, f)
	if err != nil {
		return nil, nil, status.Errorf(status.FailedPrecondition, "the durable store in %s cannot be locked (%v): a task uses it. Stop the task first", dir, err)
	}
	s := &Store{
		dir: dir, log: slog.New(slog.DiscardHandler), owner: was.name, lock: lock, readOnly: &was, cells: map[Place]*Cell{},
		work: make(chan struct{}, 1), progress: make(chan struct{}, 1), closing: true, stopped: true,
	}
	s.life, s.die = context.WithCancel(context.Background())
	s.guard = &guard{FS: f, pace: newPace(0), operations: operations{log: s.log}, failed: func(string, string, error) {}}
	s.guard.freeze() // reading changes nothing
	return s, lock, nil
}

// openToRead opens the database and reads the resources.
func (s *Store) openToRead(lock *pebble.Lock) error {
	if err := s.findMarkers(); err != nil {
		return err
	}
	if err := s.inspect(lock); err != nil {
		return err
	}
	return contain.Run(s.log, "The reading of the durable store", func() (err error) {
		if s.db, err = s.openForReading(lock); err != nil {
			return err
		}
		return s.readRecords(*s.readOnly, map[uint64]bool{})
	})
}

// findMarkers lists the directory, and refuses it if markers are lost.
func (s *Store) findMarkers() error {
	names, err := s.guard.List(s.dir)
	if err != nil {
		return err
	}
	return s.checkMarkers(names)
}

// reading is a file system on which a directory without a file LOCK, such as a copy, is not locked, so that none is made.
type reading struct{ vfs.FS }

// Lock locks a file that exists.
func (r reading) Lock(name string) (io.Closer, error) {
	if _, err := r.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	return r.FS.Lock(name)
}

// Unwrap returns the file system below.
func (r reading) Unwrap() vfs.FS { return r.FS }

// Directory is what a store's directory is, besides its resources.
type Directory struct {
	Owner   string // the cluster and task that it belongs to
	Format  int
	Closed  bool      // the task was stopped in order
	Written time.Time // when a file was changed last
	Bytes   int64     // of all files
}

// Directory describes the directory of a store that OpenReadOnly has opened.
func (s *Store) Directory() (Directory, error) {
	d := Directory{Owner: s.readOnly.name, Format: s.readOnly.format, Closed: s.readOnly.state == stateClosed}
	names, err := s.guard.List(s.dir)
	if err != nil {
		return d, err
	}
	for _, n := range names {
		info, err := s.guard.Stat(s.guard.PathJoin(s.dir, n))
		if err != nil {
			return d, err
		}
		if n == lockFile || info.IsDir() {
			continue // taking the lock changes the time of its file
		}
		d.Bytes += info.Size()
		if t := info.ModTime(); t.After(d.Written) {
			d.Written = t
		}
	}
	return d, nil
}

const lockFile = "LOCK" // pebble's
