package events

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/internal/contain"
	"github.com/troupe-run/troupe/internal/view"
	"github.com/troupe-run/troupe/kernels/files"
	"github.com/troupe-run/troupe/kernels/internal/disk"
	"github.com/troupe-run/troupe/kernels/internal/process"
	"github.com/troupe-run/troupe/kernels/internal/tfrecord"
)

// maxPending limits the pending bytes, however many events the client allows.
const maxPending = 4 << 20

// Options configure a writer.
type Options struct {
	// Files are those of the session that made the writer; what other sessions write goes to them, too.
	Files files.FS
	// Dir is the file's folder. It is created if it does not exist.
	Dir string
	// Suffix is the suffix of the file's name.
	Suffix string
	// MaxQueue is the number of events that may be pending; one more flushes all of them.
	MaxQueue int
	// Made records who made the writer, and when.
	Made view.Act
	// FlushInterval is how long an event may be pending. If it is not positive, every event is written at once.
	FlushInterval time.Duration
}

// Writer appends events to its own file. It is safe for concurrent use. Pending events are written by the call that exceeds MaxQueue, by
// Flush and Close, and by a timer.
type Writer struct {
	options Options

	closed atomic.Bool
	events atomic.Int64  // number of pending events
	done   chan struct{} // closed when Close has finished in the background

	mu      sync.Mutex // held while the file is written
	file    files.File // nil before Open
	size    int64      // bytes in the file
	pending []byte     // pending records
	timer   *time.Timer
	late    error // the timer's write error, reported by the next call
}

// New returns a writer without a file; Open creates the file.
func New(o Options) *Writer { return &Writer{options: o, done: make(chan struct{})} }

// numbers numbers the files of this process.
var numbers atomic.Int64

// Options returns the options that the writer was made with.
func (w *Writer) Options() Options { return w.options }

// Open creates the file, with the version event, if it does not exist yet. Its name contains the time, the host, the process and a number,
// which makes it unique to the writer.
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

// create creates the file under a name that no other file has. Processes on different machines that run in containers may share host name,
// process ID and folder.
func create(o Options, now time.Time) (files.File, error) {
	host, err := process.Host()
	if err != nil {
		return nil, err
	}
	suffix := o.Suffix
	if !strings.HasPrefix(suffix, ".") {
		suffix = "." + suffix
	}
	for {
		name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%d%s", now.Unix(), host, process.ID(), numbers.Add(1)-1, suffix)
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

// Check returns an error if a session with other files than the writer's may not use the writer: a session must not write through it to a
// file that it could not write itself.
func (w *Writer) Check(fsys files.FS) error {
	if fsys == w.options.Files {
		return nil
	}
	return files.Admit(fsys, w.options.Dir)
}

// Flush writes the pending events.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	return w.flush()
}

// usable returns an error if the writer cannot be used, or if the timer failed to write.
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

// flush writes all pending records in one piece, so a process that dies leaves at most one record incomplete. Records that cannot be
// written are dropped: a partial one in the file would hide everything after it.
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

// Ephemeral says that what a writer has written is in its file.
func (*Writer) Ephemeral() {}

// Close writes the pending events and closes the file, in the background. Done reports when that has finished.
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

// Done returns a channel that is closed when the work started by Close has finished.
func (w *Writer) Done() <-chan struct{} { return w.done }

// Err returns the error of writing the last events. It is valid after Done.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// Deleted reports whether Close was called.
func (w *Writer) Deleted() bool { return w.closed.Load() }

// Describe describes the writer for listings.
func (w *Writer) Describe() string {
	return fmt.Sprintf("summary writer for %s, %d events wait", w.options.Dir, w.events.Load())
}

// inContext adds to an error of the file system what could not be done.
func inContext(err error, what string) error {
	return status.Errorf(status.CodeOf(fileError(err)), "%v\n\t%s", err, what)
}

// fileError converts an error of the file system to one with TensorFlow's code.
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
	case files.IsNoFolder(err):
		code = status.FailedPrecondition
	case files.IsFull(err):
		code = status.ResourceExhausted
	case errors.Is(err, fs.ErrExist):
		code = status.AlreadyExists
	}
	return status.New(code, err.Error())
}
