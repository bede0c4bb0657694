package events

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// maxPending bounds the bytes that wait to be written, however many events the client allows.
const maxPending = 4 << 20

// Options say where a writer writes, and when.
type Options struct {
	// Files are those of the session that made the writer, which also what others write goes to.
	Files files.FS
	// Dir is the folder of the file. It is made where it does not exist.
	Dir string
	// Suffix is what the file's name ends with.
	Suffix string
	// MaxQueue events wait in memory; one more has all of them written.
	MaxQueue int
	// FlushInterval is how long an event may wait. Not positive writes every event at once.
	FlushInterval time.Duration
}

// Writer appends events to a file of its own. It is safe for concurrent use. The events that wait are
// written by the call that makes them too many, by Flush and Close, and by a timer.
type Writer struct {
	options Options

	closed atomic.Bool
	events atomic.Int64  // how many wait
	done   chan struct{} // closed when nothing goes on after Close

	mu      sync.Mutex // held while the file is written
	file    files.File // nil before Open
	size    int64      // bytes in the file
	pending []byte     // records that wait
	timer   *time.Timer
	late    error // of what the timer wrote, for the next call
}

// New makes a writer, without a file: it is Open that makes it.
func New(o Options) *Writer { return &Writer{options: o, done: make(chan struct{})} }

// numbers are those of the files of this process.
var numbers atomic.Int64

// Open makes the file, with the event that tells its version, where it is not made yet. Its name holds the
// time, the host, the process and a number, so that no two writers have the same one.
func (w *Writer) Open() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() {
		return w.gone()
	}
	if w.file != nil {
		return nil
	}
	if err := w.options.Files.MkdirAll(w.options.Dir); err != nil {
		return fileError(err)
	}
	now := time.Now()
	file, err := create(w.options, now)
	if err != nil {
		return inContext(err, "Could not initialize events writer.")
	}
	first := tfrecord.Append(nil, version(now))
	if _, err := file.Write(first); err != nil {
		return inContext(errors.Join(err, file.Close()), "Could not initialize events writer.")
	}
	w.file, w.size = file, int64(len(first))
	return nil
}

// create makes the file under a name that no other file has. Processes on different machines may share host
// name, number and folder when they run in containers.
func create(o Options, now time.Time) (files.File, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	suffix := o.Suffix
	if !strings.HasPrefix(suffix, ".") {
		suffix = "." + suffix
	}
	for {
		name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d%s", now.Unix(), host, os.Getpid(), numbers.Add(1)-1, suffix)
		file, err := o.Files.Create(filepath.Join(o.Dir, name))
		if !errors.Is(err, fs.ErrExist) {
			return file, err
		}
	}
}

// Write queues a serialized event.
func (w *Writer) Write(event []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	w.pending = tfrecord.Append(w.pending, event)
	n := w.events.Add(1)
	if w.options.MaxQueue >= 0 && n > int64(w.options.MaxQueue) || w.options.FlushInterval <= 0 || len(w.pending) > maxPending {
		return w.flush()
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(w.options.FlushInterval, contain.Func(nil, "A summary writer", w.onTimer, nil))
	}
	return nil
}

// Check tells why somebody with other files than the writer's may not use it: what they cannot write themselves, they
// do not write through it.
func (w *Writer) Check(fsys files.FS) error {
	if fsys == w.options.Files {
		return nil
	}
	return files.Admit(fsys, w.options.Dir)
}

// Flush writes the events that wait.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	return w.flush()
}

// usable tells why nothing can be written, or what the timer could not write.
func (w *Writer) usable() error {
	switch {
	case w.closed.Load():
		return w.gone()
	case w.file == nil:
		return status.New(status.FailedPrecondition, "Class was not properly initialized.")
	}
	err := w.late
	w.late = nil
	return err
}

func (w *Writer) gone() error {
	return status.Errorf(status.NotFound, "The summary writer for %s was closed", w.options.Dir)
}

// flush writes what waits in one piece, so that a process that dies leaves at most one record torn. What
// cannot be written is lost: a part of it in the file would hide all that comes later.
func (w *Writer) flush() error {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	n, err := w.file.Write(w.pending)
	lost := w.events.Swap(0)
	if w.pending = w.pending[:0]; cap(w.pending) > maxPending/16 {
		w.pending = nil
	}
	if err != nil {
		return inContext(errors.Join(err, w.file.Truncate(w.size)), fmt.Sprintf("Could not flush events file. %d events are lost.", lost))
	}
	w.size += int64(n)
	return nil
}

func (w *Writer) onTimer() { disk.Do(w.flushInTime) }

func (w *Writer) flushInTime() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed.Load() || w.timer == nil {
		return
	}
	if err := w.flush(); err != nil {
		w.late = err
	}
}

// Close has the rest written and the file closed, which Done tells. It does not wait for it.
func (w *Writer) Close() {
	if !w.closed.Swap(true) {
		disk.Go(contain.Func(nil, "A summary writer", w.finish, nil))
	}
}

func (w *Writer) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer close(w.done)
	if w.file == nil {
		return
	}
	if err := w.flush(); err != nil {
		w.late = err
	}
	if err := w.file.Close(); err != nil && w.late == nil {
		w.late = fileError(err)
	}
}

// Done is closed when nothing goes on any more after Close.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Err is what went wrong in writing the last events. It is valid after Done.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// Deleted tells whether Close was called.
func (w *Writer) Deleted() bool { return w.closed.Load() }

// Describe is the writer for listings.
func (w *Writer) Describe() string {
	return fmt.Sprintf("summary writer for %s, %d events wait", w.options.Dir, w.events.Load())
}

// inContext says what could not be done because of an error of the file system.
func inContext(err error, what string) error {
	return status.Errorf(status.CodeOf(fileError(err)), "%v\n\t%s", err, what)
}

// fileError gives an error of the file system TensorFlow's code.
func fileError(err error) error {
	var coded *status.Error
	if errors.As(err, &coded) {
		return coded
	}
	code := status.Unknown
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = status.NotFound
	case errors.Is(err, fs.ErrPermission):
		code = status.PermissionDenied
	case errors.Is(err, syscall.ENOTDIR):
		code = status.FailedPrecondition
	case errors.Is(err, syscall.ENOSPC):
		code = status.ResourceExhausted
	case errors.Is(err, fs.ErrExist):
		code = status.AlreadyExists
	}
	return status.New(code, err.Error())
}
