// Package files reads, writes and finds local files as TensorFlow's ops do, with its errors: the code that
// corresponds to the system's error number, and "name; No such file or directory".
package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
)

// MaxContent bounds the bytes that become one string.
const MaxContent = 1 << 31

// Error is what the system said about a file, as TensorFlow puts it; nil stays nil, and an error with a code stays
// what it is.
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
	return status.Errorf(code(number), "%s; %s", name, string(text))
}

// code is the error code for a number of the system's (tsl/platform/errors.cc).
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

// Local is the path that a file's name means to the system. Names of other file systems are UNIMPLEMENTED.
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

// Open opens a file for reading.
func Open(name string) (*os.File, error) {
	path, err := Local(name)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	return f, Error(name, err)
}

// Read is the content of a file of up to MaxContent bytes.
func Read(name string) (string, error) {
	f, err := Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() // nothing was written
	size := 0
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() <= MaxContent {
		size = int(info.Size())
	}
	b := make([]byte, 0, size+1) // the end shows when there is room for a byte more
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return unsafe.String(unsafe.SliceData(b), len(b)), nil
		case err != nil:
			return "", Error(name, err)
		case len(b) > MaxContent:
			return "", status.Errorf(status.ResourceExhausted, "%s; has more than %d bytes", name, MaxContent)
		case len(b) == cap(b):
			b = append(b, 0)[:len(b)]
		}
	}
}

// Write makes a file with a content, or gives one a new content; folders that are missing are made.
func Write(name, content string) error {
	path, err := Local(name)
	if err != nil {
		return err
	}
	if dir := dirname(path); dir != "" {
		if err := makeFolder(dir); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return Error(name, err)
	}
	_, err = f.WriteString(content)
	return Error(name, errors.Join(err, f.Close()))
}

// makeFolder makes a folder and those that it lies in.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil // whatever it is: opening a file in it tells
	}
	for parent := dir; parent != ""; parent = dirname(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			return status.Errorf(status.FailedPrecondition, "%s is not a directory", parent)
		}
		break
	}
	return Error(dir, os.MkdirAll(dir, 0o777))
}

// dirname is what comes before the last slash of a path: "" where there is none, "/" for what lies in the root.
func dirname(path string) string {
	at := strings.LastIndexByte(path, '/')
	if at == 0 {
		return "/"
	}
	return path[:max(at, 0)]
}
