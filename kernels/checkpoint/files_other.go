//go:build !unix

package checkpoint

import "sync"

var oneSaver sync.Mutex

// Lock keeps savers of this process apart; there is no lock of folders.
func (osFS) Lock(string) (unlock func(), err error) {
	oneSaver.Lock()
	return oneSaver.Unlock, nil
}

// SyncDir does nothing: folders cannot be synced, and renames are durable by themselves.
func (osFS) SyncDir(string) error { return nil }
