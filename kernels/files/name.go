package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/troupe-run/troupe/graph/status"
)

// Error converts the system's error for a file to TensorFlow's form. nil stays nil, and an error with a code stays unchanged.
func Error(name string, err error) error {
	var coded *status.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	var number syscall.Errno
	if !errors.As(err, &number) {
		return status.Errorf(status.Unknown, "%s; %v", name, err)
	}
	text := []rune(number.Error())
	text[0] = unicode.ToUpper(text[0])
	c, where := code(number), ""
	if c == status.NotFound || c == status.PermissionDenied {
		where = Where(name)
	}
	return status.Errorf(c, "%s; %s%s", name, string(text), where)
}

// Where returns an error's note on a relative name, which the client may have meant relative to its own folder; empty for other names.
func Where(name string) string {
	path, err := Local(name)
	if err != nil || filepath.IsAbs(path) {
		return ""
	}
	folder, err := os.Getwd()
	if err != nil {
		return ""
	}
	return " (relative to " + folder + ", the working directory of the task's server)"
}

// IsNoFolder reports whether a part of a path that should be a folder is not one.
func IsNoFolder(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// IsFull reports whether a file system has no room left.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }

// code returns the error code for a system error number (tsl/platform/errors.cc).
func code(number syscall.Errno) status.Code {
	switch number {
	case syscall.EINVAL, syscall.ENAMETOOLONG, syscall.E2BIG, syscall.EDOM, syscall.EFAULT, syscall.EILSEQ, syscall.ENOTTY, syscall.ESPIPE:
		return status.InvalidArgument
	case syscall.ETIMEDOUT:
		return status.DeadlineExceeded
	case syscall.ENODEV, syscall.ENOENT, syscall.ENXIO, syscall.ESRCH:
		return status.NotFound
	case syscall.EEXIST, syscall.EALREADY:
		return status.AlreadyExists
	case syscall.EPERM, syscall.EACCES, syscall.EROFS:
		return status.PermissionDenied
	case syscall.ENOTEMPTY, syscall.EISDIR, syscall.ENOTDIR, syscall.EBADF, syscall.EBUSY, syscall.ECHILD, syscall.EPIPE:
		return status.FailedPrecondition
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.EMLINK, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM:
		return status.ResourceExhausted
	case syscall.EFBIG, syscall.EOVERFLOW, syscall.ERANGE:
		return status.OutOfRange
	case syscall.ENOSYS, syscall.ENOTSUP, syscall.EXDEV:
		return status.Unimplemented
	case syscall.EAGAIN, syscall.EINTR, syscall.ENOLCK:
		return status.Unavailable
	case syscall.EDEADLK, syscall.ESTALE:
		return status.Aborted
	case syscall.ECANCELED:
		return status.Cancelled
	}
	return status.Unknown
}

// Local returns the system path of a file name. Names of other file systems are UNIMPLEMENTED.
func Local(name string) (string, error) {
	path := name
	if scheme, rest, ok := strings.Cut(name, "://"); ok && isScheme(scheme) {
		if scheme != "file" {
			return "", status.Unimplementedf("File system scheme '%s' not implemented (file: '%s')", scheme, name)
		}
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	if path == "" {
		return "", nil
	}
	return filepath.Clean(path), nil
}

func isScheme(s string) bool {
	for i, c := range []byte(s) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '.') {
			return false
		}
	}
	return s != ""
}
