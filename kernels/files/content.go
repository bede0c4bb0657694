package files

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"unsafe"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/graph/tensor"
)

// MaxContent bounds the bytes of a string read from a file.
const MaxContent = 1 << 31

// Open opens the file that an op names, for reading.
func Open(fsys FS, name string) (File, error) {
	path, err := Local(name)
	if err != nil {
		return nil, err
	}
	f, err := fsys.Open(path)
	return f, Error(name, err)
}

// Read returns the content of a file of up to MaxContent bytes. Memory is counted before it is allocated: see tensor.Account.
func Read(fsys FS, name string) (string, error) {
	f, err := Open(fsys, name)
	if err != nil {
		return "", err
	}
	defer f.Close() // nothing was written
	if f.Size() > MaxContent {
		return "", tooLarge(name, f.Size())
	}
	r := room{name: name}
	defer r.release()
	if err := r.take(f.Size() + 1); err != nil {
		return "", err
	}
	b := make([]byte, 0, f.Size()+1) // one more byte, to detect the end
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return unsafe.String(unsafe.SliceData(b), len(b)), nil
		case err != nil:
			return "", Error(name, err)
		case len(b) > MaxContent:
			return "", tooLarge(name, int64(len(b)))
		case len(b) < cap(b):
			continue
		}
		more := max(len(b), firstGrowth)
		if err := r.take(int64(more)); err != nil {
			return "", err
		}
		b = slices.Grow(b, more)
	}
}

// firstGrowth is the first increase in room for a file that is longer than its size, as files in /proc are.
const firstGrowth = 4 << 10

// room is memory that is counted before it is allocated. Once reading is complete, the content counts as part of the process's memory.
type room struct {
	name  string // of the file
	bytes int64
}

func (r *room) take(n int64) error {
	if err := tensor.Host.Reserve(n); err != nil {
		return status.Errorf(status.ResourceExhausted, "%s; There is no memory for its content: %s", r.name, status.From(err).Message)
	}
	r.bytes += n
	return nil
}

func (r *room) release() { tensor.Host.Unreserve(r.bytes) }

// Reserve counts memory that what is read from a file makes an op allocate. The caller unreserves it from tensor.Host when it counts as part of the heap.
func Reserve(what string, bytes int64) error {
	if err := tensor.Host.Reserve(bytes); err != nil {
		return status.Errorf(status.ResourceExhausted, "There is no memory for %s of %d bytes: %s", what, bytes, status.From(err).Message)
	}
	return nil
}

// firstFill is how much memory Fill takes at most before it has received anything.
const firstFill = 1 << 20

// Fill reads n bytes into b, or into new memory that grows with what is received and is counted before it is allocated: a file only claims how
// long its records are, and a compressed one takes a thousandth of what it becomes. It returns io.EOF if in ends before. name is what the
// bytes are of, for errors.
func Fill(in io.Reader, b []byte, n int, name string) ([]byte, error) {
	r := room{name: name}
	defer r.release()
	b = b[:0]
	for len(b) < n {
		if len(b) == cap(b) {
			more := min(n, max(2*len(b), firstFill))
			if err := r.take(int64(more)); err != nil {
				return nil, err
			}
			b = append(make([]byte, 0, more), b...)
		}
		at := len(b)
		b = b[:min(cap(b), n)]
		if _, err := io.ReadFull(in, b[at:]); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = io.EOF
			}
			return nil, err
		}
	}
	return b, nil
}

// ReadLine reads a line of the file name, including its line end. It returns io.EOF with the rest before the end of the file. A line may
// have up to MaxContent bytes.
func ReadLine(in *bufio.Reader, name string) (line []byte, err error) {
	r := room{name: name}
	defer r.release()
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > MaxContent {
			return nil, status.Errorf(status.ResourceExhausted, "%s; It has a line of more than %d bytes, which is the limit", name, MaxContent)
		}
		if need := len(line) + len(part); need > cap(line) {
			more := max(need, 2*cap(line))
			if err := r.take(int64(more)); err != nil {
				return nil, err
			}
			line = append(make([]byte, 0, more), line...)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err != nil && !errors.Is(err, io.EOF) {
				err = Error(name, err)
			}
			return line, err
		}
	}
}

func tooLarge(name string, size int64) error {
	return status.Errorf(status.ResourceExhausted, "%s; It has %d bytes or more: the limit for one string is %d", name, size, MaxContent)
}

// Write creates a file with a content, or replaces its content. It creates missing folders.
func Write(fsys FS, name, content string) error {
	path, err := Local(name)
	if err != nil {
		return err
	}
	if err := fsys.Check(path); err != nil {
		return err
	}
	if dir := dirname(path); dir != "" {
		if err := makeFolder(fsys, dir); err != nil {
			return err
		}
	}
	return writeTo(fsys.Overwrite, path, name, content)
}

// Append appends to a file, and creates it if it does not exist.
func Append(fsys FS, name, content string) error {
	path, err := Local(name)
	if err != nil {
		return err
	}
	return writeTo(fsys.Append, path, name, content)
}

// writeTo writes to a file opened by open.
func writeTo(open func(path string) (File, error), path, name, content string) error {
	f, err := open(path)
	if err != nil {
		return Error(name, err)
	}
	_, err = io.WriteString(f, content)
	return Error(name, errors.Join(err, f.Close()))
}

// makeFolder creates a folder and its missing parents.
func makeFolder(fsys FS, dir string) error {
	if _, err := fsys.Stat(dir); err == nil {
		return nil // whatever it is, opening a file in it reports the error
	}
	for parent := dir; parent != ""; parent = dirname(parent) {
		info, err := fsys.Stat(parent)
		if err != nil {
			continue
		}
		if !info.IsDir() {
			return status.Errorf(status.FailedPrecondition, "%s is not a directory", parent)
		}
		break
	}
	return Error(dir, fsys.MkdirAll(dir))
}

// dirname returns what precedes the last slash of a path: "" if there is none, "/" for names in the root.
func dirname(path string) string {
	at := strings.LastIndexByte(path, '/')
	if at == 0 {
		return "/"
	}
	return path[:max(at, 0)]
}
