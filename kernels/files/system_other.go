//go:build !unix

package files

import (
	"errors"
	"sync"
)

// openFlags are added whenever a file is opened.
const openFlags = 0

var oneSaver sync.Mutex

// Lock only locks against other savers of this process; there are no folder locks.
func (r *reach) Lock(dir string) (unlock func(), err error) {
	if err := r.Check(dir); err != nil {
		return nil, err
	}
	oneSaver.Lock()
	return oneSaver.Unlock, nil
}

// TryLock fails: there are no locks that end with their process.
func (f *file) TryLock(bool) (ok bool, err error) { return false, errors.ErrUnsupported }

// SyncDir does nothing: folders cannot be synced, and renames are durable by themselves.
func (r *reach) SyncDir(dir string) error { return r.Check(dir) }
