//go:build unix

package checkpoint

import (
	"errors"
	"os"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"golang.org/x/sys/unix"
)

// lockTimeout bounds how long a saver waits for others, who hold the lock while they rename files and
// write an index.
const lockTimeout = time.Minute

// Lock locks the folder itself, so that no file for it is left over.
func (osFS) Lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	pause := time.Millisecond
	for deadline := time.Now().Add(lockTimeout); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			// File systems without locks have no protection from other savers.
			return func() { _ = f.Close() }, nil
		case time.Now().After(deadline):
			_ = f.Close()
			return nil, status.Errorf(status.Unavailable, "Another program has been saving a checkpoint in %s for %v", dir, lockTimeout)
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

func (osFS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // the file system cannot
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
