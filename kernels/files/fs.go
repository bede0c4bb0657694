package files

import (
	"io"
	"io/fs"
)

// FS provides the files that a session may use. It is safe for concurrent use. Paths are the system's; Local converts the names that ops
// receive. A missing right is PERMISSION_DENIED, with the path and the rule. Other errors are those of package os, which Error converts to
// TensorFlow's codes.
type FS interface {
	// Check returns an error if a path may not be used. It makes no system call.
	Check(path string) error
	// Open opens a regular file for reading.
	Open(path string) (File, error)
	// Create creates a regular file for appending, which must not exist yet.
	Create(path string) (File, error)
	// Overwrite creates a regular file for writing, or truncates an existing one.
	Overwrite(path string) (File, error)
	// Append opens a regular file for appending, and creates it if it does not exist.
	Append(path string) (File, error)
	Stat(path string) (fs.FileInfo, error)
	// List returns the names in a folder, in the system's order.
	List(dir string) ([]string, error)
	// Rename atomically replaces a file that already has the name.
	Rename(from, to string) error
	// Link gives a file a second name, which must be free.
	Link(from, to string) error
	// Remove removes a file or an empty folder.
	Remove(path string) error
	// Mkdir creates a folder in an existing one. MkdirAll also creates its missing parents.
	Mkdir(path string) error
	MkdirAll(path string) error
	// SyncDir makes changes to the names in a folder durable.
	SyncDir(dir string) error
	// Lock locks a folder against other holders, in this process and in others on the machine. It waits for them for a bounded time. File
	// systems without locks provide no protection.
	Lock(dir string) (unlock func(), err error)
}

// File is an open file. Close must not be called while another method runs.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.Closer
	// Size returns the size of the file when it was opened.
	Size() int64
	Truncate(size int64) error
	// Sync makes written data durable.
	Sync() error
	// TryLock locks the file until it is closed or its process ends. The lock is exclusive if alone is true, and otherwise shared with
	// other holders of a shared lock. ok is false if the file is locked already, even by this process. A file system without locks returns
	// an error.
	TryLock(alone bool) (ok bool, err error)
}
