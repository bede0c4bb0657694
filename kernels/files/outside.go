package files

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/troupe-run/troupe/graph/status"
)

// outside recognizes the error for a link that leads out of a confined folder: it comes from os.Root, not from the system.
func outside(path string, err error) error {
	var coded *status.Error
	var number syscall.Errno
	if err == nil || errors.As(err, &coded) || errors.As(err, &number) || errors.Is(err, fs.ErrClosed) {
		return err
	}
	return denied(path, "a link on the way leads out of the folder that the server gives to its clients (--files)")
}
