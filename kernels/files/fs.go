package files

import (
	"io"
	"io/fs"
)

// FS is the files that a session may use. It is for any number of goroutines. Paths are those of the system, which
// Local makes of the names that ops are given. What the session has no right to is PERMISSION_DENIED, with the path
// and the rule; the other errors are those of package os, which Error gives TensorFlow's codes.
type FS interface {
	// Check tells why a path may not be used; nil where it may. It asks nothing of the system.
	Check(path string) error
	// Open opens a regular file for reading.
	Open(path string) (File, error)
	// Create makes a regular file for appending, which must not be there yet.
	Create(path string) (File, error)
	// Overwrite makes a regular file for writing, or empties it where it is there.
	Overwrite(path string) (File, error)
	// Append opens a regular file for appending, and makes it where there is none.
	Append(path string) (File, error)
	Stat(path string) (fs.FileInfo, error)
	// List gives the names in a folder, in the system's order.
	List(dir string) ([]string, error)
	// Rename replaces a file that has the name already, at once.
	Rename(from, to string) error
	// Link gives a file a second name, which must be free.
	Link(from, to string) error
	// Remove removes a file or an empty folder.
	Remove(path string) error
	// Mkdir makes a folder in one that is there, MkdirAll also those that it lies in.
	Mkdir(path string) error
	MkdirAll(path string) error
	// SyncDir makes what happened to the names in a folder durable.
	SyncDir(dir string) error
	// Lock keeps others, of this process and of others on the machine, from locking the folder too. It waits for
	// them, for a bounded time. File systems without locks have no protection.
	Lock(dir string) (unlock func(), err error)
}

// File is an open file. Only Close must not be called while another method runs.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	// Size is the size of the file when it was opened.
	Size() int64
	Truncate(size int64) error
	// Sync makes what was written durable.
	Sync() error
	// TryLock locks the file until it is closed, or its process has ended: alone, or together with others that do
	// not want it alone. ok is false where another one has it, also one of this process; the error is that of a
	// file system that has no locks.
	TryLock(alone bool) (ok bool, err error)
}
