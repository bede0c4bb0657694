//go:build !unix

package files

import (
	"errors"
	"sync"
)

// openFlags are those that all files are opened with.
const openFlags = 0

var oneSaver sync.Mutex

// Lock keeps savers of this process apart; there is no lock of folders.
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
