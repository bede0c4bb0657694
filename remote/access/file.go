package access

import (
	"io"
	"os"
	"runtime"
	"time"

	"github.com/troupe-run/troupe/graph/status"
)

// maxFile bounds how much of a file of certificates, keys, tokens or rules is read.
const maxFile = 4 << 20

// readFile reads a whole file of up to maxFile bytes.
func readFile(what, path string) ([]byte, error) {
	return read(what, path, false)
}

// readSecret reads a file that only its user may read or write. If it belongs to root and the process to another user, the file's group may
// read it.
func readSecret(what, path string) ([]byte, error) {
	return read(what, path, true)
}

func read(what, path string, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "the %s cannot be read: %v", what, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "the %s cannot be read: %v", what, err)
	}
	if !info.Mode().IsRegular() {
		return nil, status.Errorf(status.FailedPrecondition, "the %s %s is not a regular file", what, path)
	}
	// Windows has no such permissions.
	if mode := info.Mode().Perm(); secret && !private(mode, ownerOf(info), os.Geteuid()) && runtime.GOOS != "windows" {
		return nil, status.Errorf(status.FailedPrecondition, "the %s %s can be read or written by others than its user (mode %04o): chmod 600 %s", what, path, mode, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, status.Errorf(status.FailedPrecondition, "the %s cannot be read: %v", what, err)
	}
	if len(b) > maxFile {
		return nil, status.Errorf(status.FailedPrecondition, "the %s %s has more than %d bytes", what, path, maxFile)
	}
	return b, nil
}

// private reports whether a file with this mode and owner is a secret of the user self. Kubernetes provides secrets as root's files, which
// a process of another user reads as a member of their group.
func private(mode os.FileMode, owner, self int) bool {
	if owner == 0 && self > 0 {
		return mode&^0o640 == 0
	}
	return mode&0o077 == 0
}

// fingerprint detects that a file was changed or replaced.
type fingerprint struct {
	info os.FileInfo // nil if the file does not exist
}

func fingerprints(paths []string) []fingerprint {
	all := make([]fingerprint, len(paths))
	for i, p := range paths {
		if info, err := os.Stat(p); err == nil {
			all[i].info = info
		}
	}
	return all
}

func (f fingerprint) same(o fingerprint) bool {
	if f.info == nil || o.info == nil {
		return f.info == o.info
	}
	return os.SameFile(f.info, o.info) && f.info.ModTime().Equal(o.info.ModTime()) && f.info.Size() == o.info.Size() && f.info.Mode() == o.info.Mode()
}

// pollInterval is the interval of checks for changed files.
const pollInterval = 2 * time.Second
