//go:build unix

package files

import (
	"errors"
	"os"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"golang.org/x/sys/unix"
)

// openFlags keep opening a file that is not regular from blocking, and a terminal from becoming the process's controlling terminal.
const openFlags = unix.O_NONBLOCK | unix.O_NOCTTY

// lockTimeout bounds how long a saver waits for others, which hold the lock while they rename files and write an index.
const lockTimeout = time.Minute

// Lock locks the folder itself, so that no lock file is left behind.
func (r *reach) Lock(dir string) (unlock func(), err error) {
	f, err := r.folder(dir)
	if err != nil {
		return nil, err
	}
	pause := time.Millisecond
	for deadline := time.Now().Add(lockTimeout); ; {
		switch {
		case lockFolder(f):
			return func() { _ = f.Close() }, nil
		case time.Now().After(deadline):
			_ = f.Close()
			return nil, status.Errorf(status.Unavailable, "Another program has been saving a checkpoint in %s for %v", dir, lockTimeout)
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// lockFolder tries to lock a folder. A folder on a file system without locks counts as locked.
func lockFolder(f *os.File) bool {
	ok, err := flock(f, unix.LOCK_EX)
	return ok || err != nil
}

// flock tries to lock an open file; ok is false if another open file holds the lock.
func flock(f *os.File, how int) (ok bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

func (f *file) TryLock(alone bool) (ok bool, err error) {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	return flock(f.File, how)
}

func (r *reach) SyncDir(dir string) error {
	f, err := r.folder(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // the file system cannot sync folders
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
